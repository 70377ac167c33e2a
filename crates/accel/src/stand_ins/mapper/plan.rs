//! Plans of models and their columns. A plan says which methods of the model and its columns are
//! the driver's own.

use std::sync::Mutex;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyType};

use crate::ffi::version;

/// How native code does the work of a column's method.
#[derive(Clone, Copy, PartialEq)]
pub enum Conversion {
    /// The method is called.
    Call,
    /// Returns every value as it is.
    Same,
    /// Returns every value as it is, except that the method is called for `None` if the column
    /// requires a value.
    Checked,
    Text,
    Int,
    Uuid,
    Bool,
    Float,
    Decimal,
    /// Returns a datetime or `None` as it is.
    DateTime,
    /// Returns milliseconds since the epoch for a datetime without a time zone, and `None` as it
    /// is.
    Millis,
    Set(Null),
    List(Null),
    Map(Null),
}

/// How a method of a collection's column converts `None`.
#[derive(Clone, Copy, PartialEq)]
pub enum Null {
    /// The method returns an empty collection.
    Empty,
    /// The method returns `None`.
    None,
    /// `None` is converted as by [`Conversion::Checked`].
    Checked,
}

impl Conversion {
    fn of(name: &str) -> Conversion {
        match name {
            "same" => Conversion::Same,
            "checked" => Conversion::Checked,
            "text" => Conversion::Text,
            "int" => Conversion::Int,
            "uuid" => Conversion::Uuid,
            "bool" => Conversion::Bool,
            "float" => Conversion::Float,
            "decimal" => Conversion::Decimal,
            "datetime" => Conversion::DateTime,
            "millis" => Conversion::Millis,
            "set empty" => Conversion::Set(Null::Empty),
            "set none" => Conversion::Set(Null::None),
            "set checked" => Conversion::Set(Null::Checked),
            "list empty" => Conversion::List(Null::Empty),
            "list none" => Conversion::List(Null::None),
            "list checked" => Conversion::List(Null::Checked),
            "map empty" => Conversion::Map(Null::Empty),
            "map none" => Conversion::Map(Null::None),
            "map checked" => Conversion::Map(Null::Checked),
            _ => Conversion::Call,
        }
    }
}

/// A column of a model, or the column of a collection's elements.
pub struct Column {
    pub name: Py<PyString>,
    pub column: Py<PyAny>,
    /// The attributes of the column object, without those of its class.
    pub attributes: Py<PyDict>,
    attribute_count: usize,
    class: Py<PyType>,
    version: u32,
    pub validate: Conversion,
    pub to_python: Conversion,
    pub to_database: Conversion,
    /// The columns of a collection's elements. A map has one for its keys and one for its values.
    pub inner: Vec<Column>,
    /// Whether the column is a set, list or map. For such a column, the driver calls `to_python`
    /// for `None` too.
    pub is_container: bool,
    /// Whether the column is a map. The driver deletes removed keys of a map one by one.
    pub is_map: bool,
    /// Whether an empty value counts as null.
    pub empty_is_null: bool,
    /// Whether `has_default` and `get_default` of the column are called, because at least one of
    /// them is not the driver's.
    pub calls_default: bool,
}

/// The names of the conversions that a column's methods do, extracted from a tuple.
#[derive(FromPyObject)]
struct MethodsDescription {
    #[pyo3(item(0))]
    validate: String,
    #[pyo3(item(1))]
    to_python: String,
    #[pyo3(item(2))]
    to_database: String,
}

/// The description that `turbocql.accel` makes of a column: its `ColumnPlan`.
#[derive(FromPyObject)]
struct ColumnDescription<'py> {
    name: Bound<'py, PyString>,
    column: Bound<'py, PyAny>,
    conversions: MethodsDescription,
    element_plans: Vec<Bound<'py, PyAny>>,
    is_container: bool,
    is_map: bool,
    empty_is_null: bool,
    calls_default: bool,
}

impl Column {
    /// Makes a column from the description that `turbocql.accel` makes.
    fn new(description: &Bound<'_, PyAny>) -> PyResult<Column> {
        let description: ColumnDescription<'_> = description.extract()?;
        let (column, conversions) = (description.column, description.conversions);
        let class = column.get_type();
        let attributes = column.getattr("__dict__")?.cast_into_exact::<PyDict>()?;
        Ok(Column {
            name: description.name.unbind(),
            attribute_count: attributes.len(),
            attributes: attributes.unbind(),
            version: version::of(&class),
            class: class.unbind(),
            column: column.unbind(),
            validate: Conversion::of(&conversions.validate),
            to_python: Conversion::of(&conversions.to_python),
            to_database: Conversion::of(&conversions.to_database),
            inner: description.element_plans.iter().map(Column::new).collect::<PyResult<_>>()?,
            is_container: description.is_container,
            is_map: description.is_map,
            empty_is_null: description.empty_is_null,
            calls_default: description.calls_default,
        })
    }

    fn is_current(&self, py: Python<'_>) -> bool {
        self.version != 0
            && self.column.bind(py).get_type().is(&self.class)
            && version::of(self.class.bind(py)) == self.version
            && self.attributes.bind(py).len() == self.attribute_count
            && self.inner.iter().all(|column| column.is_current(py))
    }

    /// Returns an attribute of the column object; `None` if the object's dict lacks the attribute.
    pub fn attribute<'py>(
        &self,
        name: &Bound<'py, PyString>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.attributes.bind(name.py()).get_item(name)
    }
}

/// The qualified table name that was made last for a model, and the names of the keyspace and the
/// table that it was made from.
pub struct TableName {
    pub keyspace: Py<PyString>,
    pub table: Py<PyString>,
    pub written: Py<PyString>,
}

/// The plan of a model.
pub struct Plan {
    version: u32,
    columns_of_class: Py<PyDict>,
    /// The model's columns, in the order of the driver's dict of them.
    pub columns: Vec<Column>,
    /// The indexes of the primary key's columns.
    pub primary: Vec<usize>,
    /// The indexes of the clustering key's columns.
    pub clustering: Vec<usize>,
    pub table: Mutex<Option<TableName>>,
}

/// The description that `turbocql.accel` makes of a model: its `ModelPlan`.
#[derive(FromPyObject)]
struct ModelDescription<'py> {
    columns_of_class: Bound<'py, PyDict>,
    columns: Vec<Bound<'py, PyAny>>,
    primary: Vec<usize>,
    clustering: Vec<usize>,
}

impl Plan {
    /// Makes a plan from the description that `turbocql.accel` makes.
    pub fn new(class: &Bound<'_, PyType>, description: &Bound<'_, PyAny>) -> PyResult<Plan> {
        let ModelDescription { columns_of_class, columns, primary, clustering } =
            description.extract()?;
        Ok(Plan {
            version: version::of(class),
            columns_of_class: columns_of_class.unbind(),
            table: Mutex::default(),
            columns: columns.iter().map(Column::new).collect::<PyResult<_>>()?,
            primary,
            clustering,
        })
    }

    /// Returns the driver's dict of the model's columns.
    pub fn columns_of_class<'py>(&self, py: Python<'py>) -> &Bound<'py, PyDict> {
        self.columns_of_class.bind(py)
    }

    /// Whether the model has a column of this name.
    pub fn has(&self, name: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.columns_of_class.bind(name.py()).contains(name)
    }

    /// Whether the plan is up to date: the model's class, its columns and their classes are
    /// unchanged, and each column still has the same number of attributes.
    pub fn is_current(&self, class: &Bound<'_, PyType>) -> bool {
        let py = class.py();
        let of_class = self.columns_of_class.bind(py);
        // No two classes ever have the same version.
        self.version != 0
            && version::of(class) == self.version
            && of_class.len() == self.columns.len()
            && self.columns.iter().all(|column| {
                let column_now = of_class.get_item(&column.name).ok().flatten();
                column_now.is_some_and(|now| now.is(&column.column)) && column.is_current(py)
            })
    }
}
