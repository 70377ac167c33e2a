//! Serializes collections, tuples, records and vectors from objects that the quick path (the code
//! that reads CPython's C layouts) has refused. Most of these objects are not exactly of a built-in
//! class.
//!
//! The drivers ask an object for its length, and then iterate over it. If this module refuses a
//! value halfway, the driver's function iterates over it again. So this module accepts only objects
//! for which a second iteration gives the same items. It refuses objects of the exact built-in
//! classes that the quick path supports, because the quick path has refused the value already.
//! These are `list` and `tuple` for a CQL list, set or tuple, `set` and `frozenset` for a set, and
//! `dict` for a map.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFrozenSet, PyList, PySet, PyTuple};
use turbocql_codec::Plan;
use turbocql_codec::plan::{UdtPlan, VectorPlan};
use turbocql_codec::wire;
use turbocql_values::ffi::append::room;
use turbocql_values::ffi::dialect::Dialect;
use turbocql_values::ffi::{encode, numpy, vector as vectors};
use turbocql_values::plan::{HostPlan, Record};
use turbocql_values::traits::traits;

use super::refused::{note, python};
use super::{has_usual, is_of};

/// Appends the length of an object. Returns false if the object has no length, or if the length is
/// too large.
fn put_count(object: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> bool {
    let count = python(object.len()).and_then(|count| i32::try_from(count).ok());
    room(out, 4) && count.map(|count| wire::put_i32(out, count)).is_some()
}

/// Calls `put` for each item of an iterable. Stops and returns false if `put` returns false or the
/// iteration raises.
fn all_parts(object: &Bound<'_, PyAny>, mut put: impl FnMut(&Bound<'_, PyAny>) -> bool) -> bool {
    let Some(parts) = python(object.try_iter()) else { return false };
    for part in parts {
        if !python(part).is_some_and(|part| put(&part)) {
            return false;
        }
    }
    true
}

/// Classes that are implemented in C, and whose instances give the same items each time that they
/// are iterated over.
const REPEATABLE: [&str; 16] = [
    "list",
    "tuple",
    "set",
    "frozenset",
    "dict",
    "range",
    "dict_keys",
    "dict_values",
    "dict_items",
    "odict_keys",
    "bytes",
    "bytearray",
    "memoryview",
    "deque",
    "array",
    "ndarray",
];

/// Whether iterating over an object twice gives the same items and runs no Python code of the
/// application.
fn is_repeatable(object: &Bound<'_, PyAny>) -> bool {
    let class = object.get_type();
    if is_of(object, &["builtins", "collections", "array", "numpy"]) {
        let name = python(class.name());
        return name.is_some_and(|name| REPEATABLE.iter().any(|known| name == *known));
    }
    let py = object.py();
    let bases = [
        py.get_type::<PyList>(),
        py.get_type::<PyTuple>(),
        py.get_type::<PySet>(),
        py.get_type::<PyFrozenSet>(),
        py.get_type::<PyDict>(),
    ];
    let base = bases.iter().find(|base| object.is_instance(base).unwrap_or(false));
    base.is_some_and(|base| has_usual(object, base, &["__len__", "__iter__"]))
        || is_pandas_of_numbers(object)
}

fn is_tensor(object: &Bound<'_, PyAny>) -> bool {
    let module = python(object.get_type().module());
    module.is_some_and(|module| {
        let package = module.to_str().ok().and_then(|module| module.split('.').next());
        package.is_some_and(|package| TENSOR_PACKAGES.contains(&package))
    })
}

fn is_exact_sequence(object: &Bound<'_, PyAny>) -> bool {
    object.is_exact_instance_of::<PyList>() || object.is_exact_instance_of::<PyTuple>()
}

/// Appends the elements of a list or set.
pub fn items<D: Dialect>(
    plan: &HostPlan,
    element: &HostPlan,
    object: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
) -> bool {
    let was_tried = is_exact_sequence(object)
        || object.is_exact_instance_of::<PySet>()
        || object.is_exact_instance_of::<PyFrozenSet>();
    if was_tried && matches!(plan, Plan::Set(_)) || is_exact_sequence(object) {
        return false;
    }
    numpy::learn(object);
    if !is_repeatable(object) || !put_count(object, out) {
        return note(plan, object);
    }
    // Reading a list from `tolist` is faster than iterating over the object.
    let elements = listed(element, object).unwrap_or_else(|| object.clone());
    all_parts(&elements, |part| encode::part::<D>(element, part, out))
}

/// Returns the result of an object's `tolist`, if its items are serialized to the same bytes as the
/// items of an iteration over the object. This is true for an array of Python objects. If `element`
/// is a type of numbers, it is also true for an array, a pandas series or a pandas index of
/// numbers. Returns `None` for any other object.
fn listed<'py>(element: &HostPlan, object: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    let of_numbers = || numpy::is_row_of_numbers(object) || is_pandas_of_numbers(object);
    let is_listed = numpy::is_row_of_objects(object) || is_number(element) && of_numbers();
    let list = is_listed.then(|| object.call_method0(pyo3::intern!(object.py(), "tolist")))?;
    python(list)
}

/// Whether an object is a pandas series or index with a NumPy dtype of signed integers, float32 or
/// float64.
fn is_pandas_of_numbers(object: &Bound<'_, PyAny>) -> bool {
    let (py, class) = (object.py(), object.get_type());
    // Since pandas 3 the module of these classes is `pandas`. Before, it was a submodule, such as
    // `pandas.core.series`.
    let is_of_package = python(class.module()).is_some_and(|module| {
        let module = module.to_str().unwrap_or_default();
        module == "pandas" || module.starts_with("pandas.core.")
    });
    let is_of_pandas = is_of_package
        && python(class.name()).is_some_and(|name| {
            ["Series", "Index", "RangeIndex"].iter().any(|known| name == *known)
        });
    if !is_of_pandas {
        return false;
    }
    // The dtypes of pandas' own arrays have no attribute `char`. Such an array is refused, because
    // an iteration over it gives other objects than its `tolist`.
    let dtype = python(object.getattr(pyo3::intern!(py, "dtype")));
    let code =
        dtype.and_then(|dtype| python(dtype.getattr_opt(pyo3::intern!(py, "char"))).flatten());
    code.is_some_and(|code| {
        ["f", "d", "b", "h", "i", "l", "q"].iter().any(|known| code.eq(known).unwrap_or(false))
    })
}

fn is_number(plan: &HostPlan) -> bool {
    traits(plan).numeric.is_some() || matches!(plan, Plan::Counter)
}

/// Appends the entries of a mapping.
pub fn map<D: Dialect>(
    plan: &HostPlan,
    key: &HostPlan,
    value: &HostPlan,
    object: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
) -> bool {
    if object.is_exact_instance_of::<PyDict>() {
        return false;
    }
    let dict = object.py().get_type::<PyDict>();
    let is_usual = object.is_instance_of::<PyDict>()
        && (is_of(object, &["collections"])
            || has_usual(object, &dict, &["items", "__len__", "__iter__"]));
    let entries = || python(object.call_method0(pyo3::intern!(object.py(), "items")));
    let Some(entries) = (is_usual && put_count(object, out)).then(entries).flatten() else {
        return note(plan, object);
    };
    all_parts(&entries, |entry| {
        let Ok(pair) = entry.cast_exact::<PyTuple>() else { return false };
        let [entry_key, entry_value] = pair.as_slice() else { return false };
        encode::part::<D>(key, entry_key, out) && encode::part::<D>(value, entry_value, out)
    })
}

/// Appends the components of a tuple.
pub fn tuple<D: Dialect>(
    plan: &HostPlan,
    components: &[HostPlan],
    object: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
) -> bool {
    if is_exact_sequence(object) {
        return false;
    }
    let count = is_repeatable(object).then(|| python(object.len())).flatten();
    if count.is_none_or(|count| count > components.len()) {
        return note(plan, object);
    }
    let mut plans = components.iter();
    let Some(parts) = python(object.try_iter()) else { return note(plan, object) };
    for part in parts {
        let Some(part) = python(part) else { return false };
        let Some(component) = plans.next() else { break };
        if !encode::cell_of::<D>(component, &part, out) {
            return false;
        }
    }
    true
}

/// Appends the fields of a user-defined type from the attributes of an object that cannot be
/// indexed. The attributes may be properties.
pub fn record<D: Dialect>(
    plan: &HostPlan,
    udt: &UdtPlan<Record>,
    object: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
) -> bool {
    let py = object.py();
    let class = object.get_type();
    let index = python(class.getattr_opt(pyo3::intern!(py, "__getitem__"))).flatten();
    if index.is_some() || object.is_instance_of::<pyo3::types::PyType>() {
        return note(plan, object);
    }
    udt.fields.iter().zip(&udt.host.names).all(|(field, name)| {
        let value = python(object.getattr(name.bind(py)));
        value.is_some_and(|value| encode::cell_of::<D>(field, &value, out))
    })
}

/// Appends the elements of a vector.
pub fn vector<D: Dialect>(
    plan: &HostPlan,
    vector: &VectorPlan<Record>,
    object: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
) -> bool {
    let start = out.len();
    numpy::learn(object);
    let is_tensor = is_tensor(object);
    if !is_tensor && !is_repeatable(object) || python(object.len()) != Some(vector.dimension) {
        return note(plan, object);
    }
    match elements_of(vector, object) {
        Some(array) => {
            vectors::append_vector(vector, &array, out)
                && D::accepts_vector(vector, &out[start..], false)
        }
        None => {
            put_elements::<D>(vector, object, out) && D::accepts_vector(vector, &out[start..], true)
        }
    }
}

fn put_elements<D: Dialect>(
    vector: &VectorPlan<Record>,
    object: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
) -> bool {
    if vector.width.is_none() {
        return all_parts(object, |part| put_sized::<D>(&vector.element, part, out));
    }
    numpy::learn(object);
    let elements = listed(&vector.element, object).unwrap_or_else(|| object.clone());
    let start = out.len();
    if vectors::append_numbers(&vector.element, &elements, out) {
        return true;
    }
    out.truncate(start);
    all_parts(&elements, |part| !part.is_none() && encode::value::<D>(&vector.element, part, out))
}

/// Packages of tensors. `__array__` of a tensor of these packages returns an array with the same
/// numbers as an iteration over the tensor.
const TENSOR_PACKAGES: [&str; 4] = ["torch", "jax", "jaxlib", "tensorflow"];

/// Returns the numbers of an object as an array: the object itself if it is an array of numbers, or
/// the array to which a tensor converts itself. Returns `None` for any other object, and if the
/// elements of the vector are not numbers.
fn elements_of<'py>(
    vector: &VectorPlan<Record>,
    object: &Bound<'py, PyAny>,
) -> Option<Bound<'py, PyAny>> {
    if vector.width.is_none() || !is_number(&vector.element) || is_exact_sequence(object) {
        return None;
    }
    numpy::learn(object);
    if numpy::is_row_of_numbers(object) {
        return Some(object.clone());
    }
    if !is_tensor(object) {
        return None;
    }
    let array = python(object.call_method0(pyo3::intern!(object.py(), "__array__")))?;
    numpy::is_row_of_numbers(&array).then_some(array)
}

/// Appends the length of an element of variable size, and then the element.
fn put_sized<D: Dialect>(element: &HostPlan, part: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> bool {
    let mut bytes = Vec::new();
    if part.is_none() || !encode::value::<D>(element, part, &mut bytes) {
        return false;
    }
    if !room(out, bytes.len().saturating_add(9)) {
        return false;
    }
    wire::put_unsigned_vint(out, bytes.len() as u64);
    out.extend_from_slice(&bytes);
    true
}
