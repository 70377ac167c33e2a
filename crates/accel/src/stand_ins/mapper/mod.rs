//! The stand-ins for functions of the driver's object mapper, `cassandra.cqlengine`. The functions
//! make, validate and save instances of models, and copy query sets.

mod convert;
mod instances;
mod plan;
mod queries;
mod statements;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};

use super::counts::Counts;
use super::dependence::Dependence;
use crate::ffi::call::{self, StandIn};
use crate::ffi::version;
use convert::Values;
use plan::Plan;

/// The maximum number of columns of a model. Models with more columns are left to the driver.
const WIDEST: usize = 4_096;
/// The maximum number of models in `Mapper::plans`. If the map has so many, it is cleared before
/// the next model is counted or planned.
const MAX_MODELS: usize = 256;
/// When a model is used for the `OFTEN`th time, a plan is made for it. If an application makes a
/// model for a single query, a plan would cost more than it saves.
const OFTEN: u32 = 3;
/// If a model could not be planned, planning is tried again after this number of calls of
/// `Mapper::plan` for the model. By then, the class of one of the model's columns may have changed.
const UNFIT_CALLS: u32 = 256;

/// The state that the stand-ins of the mapper share.
#[pyclass(frozen, module = "turbocql._core")]
pub struct Mapper {
    values: Values,
    /// The class `BaseValueManager`.
    manager: Py<PyType>,
    /// The class `InsertStatement`.
    insert: Py<PyType>,
    /// The class `AssignmentClause`.
    clause: Py<PyType>,
    /// The class `SimpleStatement`.
    simple: Py<PyType>,
    /// The driver's default for a timeout.
    not_set: Py<PyAny>,
    /// The driver's default for a page size.
    no_size: Py<PyAny>,
    /// The module `cassandra.cqlengine.connection`.
    connection: Py<PyAny>,
    /// A function that gives an instance the options of a query set, and saves the instance.
    save_with_options: Py<PyAny>,
    /// The driver's function `protect_name`.
    protect_name: Py<PyAny>,
    /// The class `logging.Logger`.
    logger: Py<PyType>,
    /// Classes of the driver whose methods the stand-ins replace, or imitate without calling them.
    /// If other code has replaced such a method, the driver does the work.
    depends: Vec<Dependence>,
    planner: Py<PyAny>,
    /// Maps the address of a model's class to the state of the model's plan.
    plans: Mutex<HashMap<usize, PlanState>>,
}

/// Classes of the driver, and `logging.Logger`, extracted from a tuple.
#[derive(FromPyObject)]
struct DriverClasses {
    #[pyo3(item(0))]
    manager: Py<PyType>,
    #[pyo3(item(1))]
    insert: Py<PyType>,
    #[pyo3(item(2))]
    clause: Py<PyType>,
    #[pyo3(item(3))]
    simple: Py<PyType>,
    #[pyo3(item(4))]
    logger: Py<PyType>,
}

/// The defaults of the driver's parameters, extracted from a tuple.
#[derive(FromPyObject)]
struct Defaults {
    #[pyo3(item(0))]
    not_set: Py<PyAny>,
    #[pyo3(item(1))]
    no_size: Py<PyAny>,
}

/// Functions that the stand-ins call, extracted from a tuple.
#[derive(FromPyObject)]
struct Functions {
    #[pyo3(item(0))]
    save_with_options: Py<PyAny>,
    #[pyo3(item(1))]
    protect_name: Py<PyAny>,
}

/// Classes that must be as the driver has defined them, and a function that checks whether they
/// are, extracted from a tuple.
#[derive(FromPyObject)]
struct Dependences {
    #[pyo3(item(0))]
    classes: Vec<Py<PyType>>,
    #[pyo3(item(1))]
    is_usual: Py<PyAny>,
}

/// Whether a model has a plan.
#[derive(Clone)]
enum PlanState {
    /// The model was used this many times, and has no plan yet.
    Seen(u32),
    /// The model has this plan, which does not keep the model's class alive. If another class gets
    /// the same address later, the plan is not used for that class, because the version of that
    /// class is not the plan's.
    Planned(Arc<Plan>),
    /// The class version at the last failed attempt to plan the model, and the number of
    /// calls of `Mapper::plan` for the model since that attempt.
    Unfit(u32, u32),
}

#[pymethods]
impl Mapper {
    /// `planner` returns the description of a model's plan, or None if the driver must do the work.
    /// `values` are `uuid.UUID`, `decimal.Decimal` and `copy.deepcopy`. `classes` are
    /// `BaseValueManager`, `InsertStatement`, `AssignmentClause`, `SimpleStatement` and
    /// `logging.Logger`. `defaults` are the driver's defaults for a timeout and a page size.
    /// `functions` are a function that saves an instance with the options of a query set, and the
    /// driver's `protect_name`. `depends` are classes, and a function that checks whether these
    /// classes are as the driver has defined them.
    #[new]
    fn new(
        planner: Bound<'_, PyAny>,
        values: Values,
        classes: DriverClasses,
        defaults: Defaults,
        connection: Py<PyAny>,
        functions: Functions,
        depends: Dependences,
    ) -> Mapper {
        let py = planner.py();
        let depend = |class| Dependence::new(class, depends.is_usual.clone_ref(py));
        Mapper {
            values,
            manager: classes.manager,
            insert: classes.insert,
            clause: classes.clause,
            simple: classes.simple,
            not_set: defaults.not_set,
            no_size: defaults.no_size,
            connection,
            save_with_options: functions.save_with_options,
            protect_name: functions.protect_name,
            logger: classes.logger,
            depends: depends.classes.into_iter().map(depend).collect(),
            planner: planner.unbind(),
            plans: Mutex::default(),
        }
    }
}

impl Mapper {
    /// Whether the classes in `depends` are as the driver has defined them.
    fn is_usual(&self, py: Python<'_>) -> PyResult<bool> {
        for class in &self.depends {
            if !class.is_as_usual(py)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the plan of a model; `None` if the driver must do the work.
    fn plan(&self, class: &Bound<'_, PyType>) -> PyResult<Option<Arc<Plan>>> {
        let key = class.as_ptr() as usize;
        let state = self.plans.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        let seen = match state {
            Some(PlanState::Planned(plan)) if plan.is_current(class) => return Ok(Some(plan)),
            Some(PlanState::Unfit(version, calls))
                if version == version::of(class) && calls < UNFIT_CALLS =>
            {
                let entry = PlanState::Unfit(version, calls + 1);
                let mut all = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
                let replaced = all.insert(key, entry);
                drop(all);
                // Another thread may have planned the model meanwhile. Dropping a plan may run
                // finalizers, and their code may lock the mutex.
                drop(replaced);
                return Ok(None);
            }
            Some(PlanState::Planned(_) | PlanState::Unfit(..)) => OFTEN,
            Some(PlanState::Seen(seen)) => seen + 1,
            None => 1,
        };
        let entry = if seen < OFTEN { Some(PlanState::Seen(seen)) } else { self.make_plan(class)? };
        let mut all = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        // The plans are dropped after the mutex is unlocked, because a plan owns Python objects,
        // and their finalizers may run code that locks the mutex.
        let dropped =
            if all.len() >= MAX_MODELS { std::mem::take(&mut *all) } else { HashMap::new() };
        let plan = match &entry {
            Some(PlanState::Planned(plan)) => Some(Arc::clone(plan)),
            Some(PlanState::Seen(_) | PlanState::Unfit(..)) | None => None,
        };
        let replaced = entry.and_then(|entry| all.insert(key, entry));
        drop(all);
        drop((dropped, replaced));
        Ok(plan)
    }

    #[cold]
    fn make_plan(&self, class: &Bound<'_, PyType>) -> PyResult<Option<PlanState>> {
        let py = class.py();
        let unfit = || PlanState::Unfit(version::of(class), 0);
        let description = match self.planner.bind(py).call1((class,)) {
            Ok(description) if !description.is_none() => description,
            Ok(_) => return Ok(Some(unfit())),
            // An example is the RecursionError for deeply nested types.
            Err(error) if error.is_instance_of::<PyException>(py) => return Ok(Some(unfit())),
            Err(interrupt) => return Err(interrupt),
        };
        let plan = Plan::new(class, &description)?;
        let fits = plan.columns.len() <= WIDEST && plan.is_current(class);
        Ok(Some(if fits { PlanState::Planned(Arc::new(plan)) } else { unfit() }))
    }
}

/// The driver's function that a stand-in replaces.
#[derive(Clone, Copy)]
enum Work {
    Init,
    SetPersisted,
    Validate,
    Save,
    DeleteNulls,
    Text,
    Context,
    KeyValues,
    Execute,
    Copy,
    /// The method `BaseModel.create`.
    Create,
    /// The method `AbstractQuerySet.create`.
    CreateIn,
    TableName,
}

/// Stands in for a function of the mapper.
#[pyclass(frozen, module = "turbocql._core")]
pub struct MapperStandIn {
    original: Py<PyAny>,
    mapper: Py<Mapper>,
    work: Work,
    counts: Counts,
}

const NAMES: [(&str, Work); 13] = [
    ("models.BaseModel.__init__", Work::Init),
    ("models.BaseModel._set_persisted", Work::SetPersisted),
    ("models.BaseModel.validate", Work::Validate),
    ("query.DMLQuery.save", Work::Save),
    ("query.DMLQuery._delete_null_columns", Work::DeleteNulls),
    ("statements.InsertStatement.__unicode__", Work::Text),
    ("statements.AssignmentStatement.get_context", Work::Context),
    ("statements.AssignmentStatement.partition_key_values", Work::KeyValues),
    ("connection.execute", Work::Execute),
    ("query.AbstractQuerySet.__deepcopy__", Work::Copy),
    ("models.BaseModel.create", Work::Create),
    ("query.AbstractQuerySet.create", Work::CreateIn),
    ("models.BaseModel.column_family_name", Work::TableName),
];

#[pymethods]
impl MapperStandIn {
    /// `name` is the dotted name of the driver's function in the mapper's package.
    #[new]
    fn new(original: Py<PyAny>, mapper: Py<Mapper>, name: &str) -> PyResult<MapperStandIn> {
        let Some((_, work)) = NAMES.iter().find(|(original_name, _)| *original_name == name) else {
            return Err(PyValueError::new_err(format!("no stand-in for {name}")));
        };
        Ok(MapperStandIn { original, mapper, work: *work, counts: Counts::default() })
    }

    /// Returns the function that replaces the driver's.
    fn function<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        call::function(this, &this.get().original)
    }

    /// The numbers of native calls and of fallbacks.
    fn counts(&self) -> (u64, u64) {
        self.counts.get()
    }
}

impl MapperStandIn {
    fn work<'py>(
        &self,
        positional: &[Borrowed<'_, 'py, PyAny>],
        named: Option<&Bound<'py, PyDict>>,
        py: Python<'py>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let mapper = self.mapper.get();
        if !mapper.is_usual(py)? {
            return Ok(None);
        }
        // A keyword argument `self` or `cls` is a second value for the function's first parameter.
        // The driver's function raises the error for it.
        if let Some(named) = named
            && (named.contains(pyo3::intern!(py, "self"))?
                || named.contains(pyo3::intern!(py, "cls"))?)
        {
            return Ok(None);
        }
        let result = match (self.work, positional, named) {
            (Work::Init, [instance], _) => mapper.init(instance, named)?,
            (Work::SetPersisted, [instance], None) => mapper.set_persisted(instance, false)?,
            (Work::SetPersisted, [instance], Some(named)) => {
                let force = named.get_item(pyo3::intern!(py, "force"))?;
                match force.filter(|_| named.len() == 1) {
                    Some(force) => mapper.set_persisted(instance, force.is_truthy()?)?,
                    None => None,
                }
            }
            (Work::Validate, [instance], None) => mapper.validate(instance)?,
            (Work::Save, [query], None) => mapper.save(query)?,
            (Work::DeleteNulls, [query] | [query, _], None) => mapper.delete_nulls(query)?,
            (Work::Text, [statement], None) => mapper.text(statement)?,
            (Work::Context, [statement], None) => mapper.context(statement)?,
            (Work::KeyValues, [statement, positions], None) => {
                mapper.key_values(statement, positions)?
            }
            (Work::Execute, [statement, parameters], Some(named)) => {
                mapper.execute(statement, parameters, named)?
            }
            (Work::Copy, [set, memo], None) => mapper.copy_of_set(set, memo)?,
            (Work::Create, [model], Some(named)) => mapper.create(model, named)?,
            (Work::CreateIn, [set], Some(named)) => mapper.create_in(set, named)?,
            (Work::TableName, [model], None) => mapper.table_name(model)?,
            _ => None,
        };
        if result.is_some() {
            self.counts.native();
        }
        Ok(result)
    }
}

impl StandIn for MapperStandIn {
    fn call<'py>(
        this: &Bound<'py, Self>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        this.get().work(arguments, None, this.py())
    }

    fn call_named<'py>(
        this: &Bound<'py, Self>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
        names: &Bound<'py, PyTuple>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (positional, values) = arguments.split_at(arguments.len() - names.len());
        let named = PyDict::new(this.py());
        for (name, value) in names.iter().zip(values) {
            named.set_item(name, value)?;
        }
        this.get().work(positional, Some(&named), this.py())
    }

    fn original<'a>(this: &'a Bound<'_, Self>) -> &'a Py<PyAny> {
        let stand_in = this.get();
        stand_in.counts.fallback();
        &stand_in.original
    }
}
