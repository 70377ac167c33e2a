//! Serializes, as the drivers do, objects that are not of the built-in class that is usual for
//! their CQL type: NumPy's numbers, pandas' timestamps, dates for timestamps, subclasses, iterables
//! and many more.
//!
//! The functions use the public interface of Python and may run Python code. If they return `None`
//! or false, the driver's own function serializes the value or raises its own error.

mod containers;
mod numbers;
pub mod refused;
mod temporal;
pub mod text;

use std::sync::Mutex;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};
use turbocql_codec::Plan;
use turbocql_values::binary32::narrow;
use turbocql_values::ffi::append::append;
use turbocql_values::ffi::dialect::Dialect;
use turbocql_values::plan::HostPlan;

use crate::ffi::attribute;
use crate::ffi::dialect::Convert;
use crate::ffi::operators::is_of_c;
use crate::ffi::version;
use refused::python;

/// The conversions of this module, chosen by the CQL type and the object's class.
pub struct ByClass;

impl Convert for ByClass {
    fn convert<D: Dialect, const FLOAT_TIME: bool>(
        plan: &HostPlan,
        object: &Bound<'_, PyAny>,
        out: &mut Vec<u8>,
    ) -> bool {
        let is_taken = match plan {
            Plan::Float => {
                fixed(numbers::float(object).and_then(narrow).map(f32::to_be_bytes), out)
            }
            Plan::Double => fixed(numbers::float(object).map(f64::to_be_bytes), out),
            Plan::BigInt | Plan::Counter => {
                fixed(numbers::integer(object).map(i64::to_be_bytes), out)
            }
            Plan::Int => fixed(numbers::narrowed(object).map(i32::to_be_bytes), out),
            Plan::SmallInt => fixed(numbers::narrowed(object).map(i16::to_be_bytes), out),
            // The drivers accept any number of one byte as a boolean.
            Plan::TinyInt | Plan::Boolean => {
                fixed(numbers::narrowed(object).map(i8::to_be_bytes), out)
            }
            Plan::VarInt => numbers::varint(object, out),
            Plan::Decimal => numbers::decimal::<D>(plan, object, out),
            Plan::Timestamp => {
                fixed(temporal::timestamp::<FLOAT_TIME>(object).map(i64::to_be_bytes), out)
            }
            Plan::Date => fixed(temporal::date(object), out),
            Plan::Time => fixed(temporal::time(object).map(i64::to_be_bytes), out),
            Plan::Text => text::text(object, out),
            Plan::Ascii => text::ascii(object, out),
            Plan::Blob => text::blob(object, out),
            Plan::Uuid | Plan::TimeUuid => text::uuid(object, out),
            Plan::Inet => text::inet(object, out),
            Plan::List(element) | Plan::Set(element) => {
                return containers::items::<D>(plan, element, object, out);
            }
            Plan::Map(entry) => return containers::map::<D>(plan, &entry.0, &entry.1, object, out),
            Plan::Tuple(components) => {
                return containers::tuple::<D>(plan, components, object, out);
            }
            Plan::Udt(udt) => return containers::record::<D>(plan, udt, object, out),
            Plan::Vector(vector) => return containers::vector::<D>(plan, vector, object, out),
            Plan::Duration | Plan::Composite(_) | Plan::Custom(_) => false,
        };
        is_taken || refused::note(plan, object)
    }
}

/// Appends bytes of a fixed width.
fn fixed<const N: usize>(bytes: Option<[u8; N]>, out: &mut Vec<u8>) -> bool {
    bytes.is_some_and(|bytes| append(out, &bytes))
}

/// A cached result of [`inherits`]: the version of the class, the address of the base class, the
/// names of attributes, and whether the class inherits these attributes from the base class.
#[derive(Clone, Copy)]
struct Inherited {
    version: u32,
    base: usize,
    names: &'static [&'static str],
    is_inherited: bool,
}

impl Inherited {
    fn is_of(&self, version: u32, base: usize, names: &'static [&'static str]) -> bool {
        self.version == version && self.base == base && std::ptr::eq(self.names, names)
    }
}

/// How many results of [`inherits`] are cached.
const SLOTS: usize = 64;

/// The cache of [`inherits`]. A result is outdated if the version of its class has changed, which
/// happens when the class or one of its bases changes. The cache is not thread-local, because a
/// library that is loaded after the start of a process has little room for thread-locals.
static INHERITED: Mutex<[Option<Inherited>; SLOTS]> = Mutex::new([None; SLOTS]);

/// Whether a class inherits the attributes `names` and `__getattribute__` from `base`. Using these
/// attributes then does the same as for an instance of `base`.
fn inherits(
    class: &Bound<'_, PyType>,
    base: &Bound<'_, PyAny>,
    names: &'static [&'static str],
) -> bool {
    let (version, base_address) = (version::of(class), base.as_ptr() as usize);
    let slot = (version as usize * 31 + names.as_ptr() as usize + base_address / 64) % SLOTS;
    let last = INHERITED.try_lock().ok().and_then(|last| last[slot]);
    if let Some(last) = last
        && last.is_of(version, base_address, names)
        && version != 0
    {
        return last.is_inherited;
    }
    let is_inherited = ["__getattribute__"].iter().chain(names).all(|name| {
        let (own, inherited) = (python(class.getattr(*name)), python(base.getattr(*name)));
        own.is_some_and(|own| inherited.is_some_and(|other| own.is(&other)))
    });
    // The version is read again, because the lookups can assign a version to the class, and can run
    // Python code that changes the class.
    let version = version::of(class);
    let now = Inherited { version, base: base_address, names, is_inherited };
    if let Ok(mut last) = INHERITED.try_lock() {
        last[slot] = Some(now);
    }
    is_inherited
}

/// Whether an object's class inherits the data descriptors `names`, such as properties, from `base`
/// and looks up attributes as `base` does. The instance's dict need not be checked, because a value
/// in it does not hide a data descriptor.
fn has_usual_descriptors(
    object: &Bound<'_, PyAny>,
    base: &Bound<'_, PyAny>,
    names: &'static [&'static str],
) -> bool {
    let (class, metaclass) = (object.get_type(), object.py().get_type::<PyType>());
    let own_metaclass = class.get_type();
    (own_metaclass.is(&metaclass) || inherits(&own_metaclass, &metaclass, &[]))
        && inherits(&class, base, names)
}

/// Whether an object's class inherits the functions `names` from `base` and looks up attributes as
/// `base` does, and the object's dict has none of the names.
fn has_usual(
    object: &Bound<'_, PyAny>,
    base: &Bound<'_, PyAny>,
    names: &'static [&'static str],
) -> bool {
    has_usual_descriptors(object, base, names) && has_none_in_dict(object, names)
}

/// Whether an object has no dict, or has none of the names in its dict.
fn has_none_in_dict(object: &Bound<'_, PyAny>, names: &[&'static str]) -> bool {
    let own = python(attribute::optional(object, pyo3::intern!(object.py(), "__dict__")));
    match own {
        Some(None) => true,
        Some(Some(own)) => own.cast_exact::<PyDict>().is_ok_and(|own| {
            names.iter().all(|name| own.contains(*name).is_ok_and(|is_own| !is_own))
        }),
        None => false,
    }
}

/// Whether an object's class is implemented in C, in one of these modules.
fn is_of(object: &Bound<'_, PyAny>, modules: &[&str]) -> bool {
    is_of_c(object)
        && python(object.get_type().module())
            .is_some_and(|module| modules.iter().any(|known| module == *known))
}
