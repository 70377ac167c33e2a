//! What is known of a model and its columns: which of their methods are the driver's own.

use std::sync::Mutex;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyType};

use crate::ffi::version;

/// How a method of a column treats a value of exactly the class that it is for.
#[derive(Clone, Copy, PartialEq)]
pub enum Way {
    /// The method is called.
    Call,
    /// Returns every value as it is.
    Same,
    /// Returns every value as it is; `None` only where the column does not require a value.
    Checked,
    Text,
    Int,
    Uuid,
    Bool,
    Float,
    Decimal,
    /// A datetime as it is.
    DateTime,
    /// Milliseconds since the epoch, of a datetime without a time zone.
    Millis,
    Set(Null),
    List(Null),
    Map(Null),
}

/// What becomes of `None` in a collection's column.
#[derive(Clone, Copy, PartialEq)]
pub enum Null {
    /// An empty collection.
    Empty,
    None,
    /// As [`Way::Checked`].
    Checked,
}

impl Way {
    fn of(name: &str) -> Way {
        match name {
            "same" => Way::Same,
            "checked" => Way::Checked,
            "text" => Way::Text,
            "int" => Way::Int,
            "uuid" => Way::Uuid,
            "bool" => Way::Bool,
            "float" => Way::Float,
            "decimal" => Way::Decimal,
            "datetime" => Way::DateTime,
            "millis" => Way::Millis,
            "set empty" => Way::Set(Null::Empty),
            "set none" => Way::Set(Null::None),
            "set checked" => Way::Set(Null::Checked),
            "list empty" => Way::List(Null::Empty),
            "list none" => Way::List(Null::None),
            "list checked" => Way::List(Null::Checked),
            "map empty" => Way::Map(Null::Empty),
            "map none" => Way::Map(Null::None),
            "map checked" => Way::Map(Null::Checked),
            _ => Way::Call,
        }
    }
}

/// A column of a model, or the column of a collection's elements.
pub struct Column {
    pub name: Py<PyString>,
    pub column: Py<PyAny>,
    /// The attributes of the column itself.
    pub own: Py<PyDict>,
    own_len: usize,
    class: Py<PyType>,
    version: u32,
    pub validate: Way,
    pub to_python: Way,
    pub to_database: Way,
    /// The columns of elements; of a map, those of keys and of values.
    pub inner: Vec<Column>,
    /// Whether the column is a collection: `None` becomes an empty one.
    pub is_container: bool,
    /// Whether it is a map, whose removed keys are deleted one by one.
    pub is_map: bool,
    /// Whether an empty value counts as null.
    pub empty_is_null: bool,
    /// Whether the model's attribute of this name is the driver's descriptor, and the class of the
    /// column uses the driver's value manager, default, name and test for null.
    pub is_usual: bool,
}

impl Column {
    /// From what `turbocql.accel` has found.
    fn new(given: &Bound<'_, PyAny>) -> PyResult<Column> {
        type Given<'py> = (
            Bound<'py, PyString>,
            Bound<'py, PyAny>,
            (String, String, String),
            Vec<Bound<'py, PyAny>>,
            (bool, bool, bool, bool),
        );
        let (name, column, ways, inner, flags): Given<'_> = given.extract()?;
        let class = column.get_type();
        let own = column.getattr("__dict__")?.cast_into_exact::<PyDict>()?;
        let (is_container, is_map, empty_is_null, is_usual) = flags;
        Ok(Column {
            name: name.unbind(),
            own_len: own.len(),
            own: own.unbind(),
            version: version::of(&class),
            class: class.unbind(),
            column: column.unbind(),
            validate: Way::of(&ways.0),
            to_python: Way::of(&ways.1),
            to_database: Way::of(&ways.2),
            inner: inner.iter().map(Column::new).collect::<PyResult<_>>()?,
            is_container,
            is_map,
            empty_is_null,
            is_usual,
        })
    }

    fn is_current(&self, py: Python<'_>) -> bool {
        self.version != 0
            && self.column.bind(py).get_type().is(&self.class)
            && version::of(self.class.bind(py)) == self.version
            && self.own.bind(py).len() == self.own_len
            && self.inner.iter().all(|column| column.is_current(py))
    }

    /// An attribute of the column itself.
    pub fn own<'py>(&self, name: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.own.bind(name.py()).get_item(name)
    }
}

/// How the name of a model's table was written when it was last asked for.
pub struct TableName {
    pub keyspace: Py<PyString>,
    pub table: Py<PyString>,
    pub written: Py<PyString>,
}

/// A model's columns, in their order.
pub struct Plan {
    version: u32,
    columns_of_class: Py<PyDict>,
    pub columns: Vec<Column>,
    /// The numbers of the primary key's columns.
    pub primary: Vec<usize>,
    /// The numbers of the clustering key's columns.
    pub clustering: Vec<usize>,
    pub table: Mutex<Option<TableName>>,
    /// Whether all columns are usual, and so are the model's methods that the stand-ins do not call.
    pub is_usual: bool,
}

impl Plan {
    /// From what `turbocql.accel` has found.
    pub fn new(class: &Bound<'_, PyType>, given: &Bound<'_, PyAny>) -> PyResult<Plan> {
        type Given<'py> =
            (Bound<'py, PyDict>, Vec<Bound<'py, PyAny>>, Vec<usize>, Vec<usize>, bool);
        let (columns_of_class, columns, primary, clustering, is_usual): Given<'_> =
            given.extract()?;
        let columns = columns.iter().map(Column::new).collect::<PyResult<Vec<_>>>()?;
        Ok(Plan {
            version: version::of(class),
            columns_of_class: columns_of_class.unbind(),
            table: Mutex::default(),
            is_usual: is_usual && columns.iter().all(|column| column.is_usual),
            columns,
            primary,
            clustering,
        })
    }

    /// The model's columns, in the driver's dict.
    pub fn columns_of_class<'py>(&self, py: Python<'py>) -> &Bound<'py, PyDict> {
        self.columns_of_class.bind(py)
    }

    /// Whether the model has a column of this name.
    pub fn has(&self, name: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.columns_of_class.bind(name.py()).contains(name)
    }

    /// Whether the model and its columns are as they were when the plan was made.
    pub fn is_current(&self, class: &Bound<'_, PyType>) -> bool {
        let py = class.py();
        let of_class = self.columns_of_class.bind(py);
        // No other class ever has this version.
        self.version != 0
            && version::of(class) == self.version
            && of_class.len() == self.columns.len()
            && self.columns.iter().all(|column| {
                let found = of_class.get_item(&column.name).ok().flatten();
                found.is_some_and(|found| found.is(&column.column)) && column.is_current(py)
            })
    }
}
