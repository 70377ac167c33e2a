//! Finds out, by probing, at which offsets the instances of some classes have their `__slots__`, so
//! that instances are made and read without a Python call.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};

use super::quick_path::QuickPath;
use super::{make, probe};
use crate::python;

/// A class whose instances are made by filling one or two slots.
pub struct Slotted {
    class: AtomicPtr<ffi::PyTypeObject>,
    /// The offset of each slot in an instance, in bytes.
    offsets: [AtomicUsize; 2],
}

pub static UUID: Slotted = Slotted::new();
pub static IPV4_ADDRESS: Slotted = Slotted::new();
pub static TIME: Slotted = Slotted::new();

/// Finds the slots of each class. If the slots of a class are not found, its instances are never
/// read or made through slots.
pub fn probe(py: Python<'_>) -> PyResult<()> {
    QuickPath::Uuids.decide(py, |py| {
        const NUMBER: u128 = 0xf81d_4fae_7dec_11d0_a765_00a0_c91e_6bf6;
        let class = python::uuid(py)?;
        let text = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
        let values = [NUMBER.into_pyobject(py)?.into_any(), python::safe_uuid_unknown(py)?.clone()];
        UUID.learn(QuickPath::Uuids, ["int", "is_safe"], values, &class.call1((text,))?)
    })?;
    QuickPath::Addresses.decide(py, |py| {
        let class = python::ipv4_address(py)?;
        let values = [0xc0a8_0001_u32.into_pyobject(py)?.into_any()];
        let expected = class.call1(("192.168.0.1",))?;
        IPV4_ADDRESS.learn(QuickPath::Addresses, ["_ip"], values, &expected)
    })?;
    QuickPath::Times.decide(py, |py| {
        let values = [86_399_999_999_999_i64.into_pyobject(py)?.into_any()];
        let expected = python::cql_time(py)?.call1((&values[0],))?;
        TIME.learn(QuickPath::Times, ["nanoseconds"], values, &expected)
    })?;
    Ok(())
}

impl Slotted {
    /// Whether the slots were found, and not forgotten after that.
    pub fn is_known(&self) -> bool {
        !self.class.load(Ordering::Acquire).is_null()
    }

    #[expect(clippy::new_without_default, reason = "made in statics only")]
    pub const fn new() -> Slotted {
        let offsets = [AtomicUsize::new(0), AtomicUsize::new(0)];
        Slotted { class: AtomicPtr::new(ptr::null_mut()), offsets }
    }

    /// Finds the slots and probes them: makes an instance through the slots, and compares it with
    /// an instance that Python has made. If they differ, forgets the slots and returns what is
    /// wrong. If Python code raises an error, forgets the slots and returns the error.
    fn learn<const N: usize>(
        &self,
        path: QuickPath,
        names: [&str; N],
        values: [Bound<'_, PyAny>; N],
        expected: &Bound<'_, PyAny>,
    ) -> PyResult<Option<String>> {
        let tried = self.try_to_learn(path, names, values, expected);
        if !matches!(tried, Ok(None)) {
            self.forget();
        }
        tried
    }

    fn try_to_learn<const N: usize>(
        &self,
        path: QuickPath,
        names: [&str; N],
        values: [Bound<'_, PyAny>; N],
        expected: &Bound<'_, PyAny>,
    ) -> PyResult<Option<String>> {
        let py = expected.py();
        let missing = self.find(expected.get_type().as_any(), &names)?;
        if missing.is_some() {
            return Ok(missing);
        }
        let counts = values.each_ref().map(probe::references);
        // SAFETY: `make` takes over references, and `clone` makes new ones for it; `py` shows that
        // the GIL is held. `make` returns an owned reference or null. Tests:
        // unit/test_quick_paths.py (uuids, addresses, times).
        let instance = unsafe {
            Bound::from_owned_ptr_or_opt(
                py,
                self.make(values.each_ref().map(|value| value.clone().into_ptr())),
            )
        };
        let Some(instance) = instance else {
            return Ok(Some("an instance could not be made".to_owned()));
        };
        let wrong = probe::check_object(path, "an instance", &instance, expected, false)?;
        for (slot, (name, value)) in names.iter().zip(&values).enumerate() {
            // SAFETY: `expected` keeps the object alive, and its class is the one whose slots
            // `find` has just found; `py` shows that the GIL is held. Tests:
            // unit/test_quick_paths.py (uuids).
            let slot_value = unsafe { self.get(expected.as_ptr(), slot) };
            let attribute = instance.getattr(*name)?;
            if slot_value.is_null()
                || !expected.getattr(*name)?.is(borrowed(py, slot_value))
                || !attribute.is(value)
            {
                return Ok(Some(format!("{name} was found in the wrong slot")));
            }
        }
        drop(instance);
        if counts != values.each_ref().map(probe::references) {
            return Ok(Some("an instance did not release its references".to_owned()));
        }
        Ok(wrong)
    }

    /// Forgets the slots, so that instances are neither read nor made through them.
    pub fn forget(&self) {
        self.class.store(ptr::null_mut(), Ordering::Release);
    }

    /// Finds the slots of a class: sets each attribute of a sample instance to an object and
    /// searches the words of the instance for the object's address. Returns the reason if that
    /// fails.
    pub fn find(&self, class: &Bound<'_, PyAny>, names: &[&str]) -> PyResult<Option<String>> {
        let py = class.py();
        // User code may have replaced the class by an object of any kind.
        let plain = class.get_type().is(py.get_type::<PyType>());
        let eligible = class.cast::<PyType>().ok().filter(|_| plain && QuickPath::Records.is_on());
        if !eligible.is_some_and(|class| make::has_own_allocation(class)) {
            return Ok(Some("it is not a class made by Python code".to_owned()));
        }
        let size: usize = class.getattr("__basicsize__")?.extract()?;
        let (instance, mark) = (make::instance(class)?, py.get_type::<PyType>());
        for (name, offset) in names.iter().zip(&self.offsets) {
            make::set(&instance, &PyString::new(py, name), mark.as_any())?;
            // SAFETY: `instance` is alive and has `size` bytes, the `tp_basicsize` of its class,
            // aligned to words. `tp_alloc` has allocated and zeroed them, so every word is
            // initialized and a valid `usize`. `words` is not used after the attribute changes. The
            // first two words are the head of every object, where no slot is. Tests:
            // unit/test_quick_paths.py (test_what_somebody_has_put_in_the_place_of_a_class),
            // scripts/memcheck.
            let words = unsafe {
                std::slice::from_raw_parts(instance.as_ptr().cast::<usize>(), size / WORD)
            };
            let mut words_with_mark =
                (2..words.len()).filter(|&word| words[word] == mark.as_ptr() as usize);
            let (Some(word), None) = (words_with_mark.next(), words_with_mark.next()) else {
                return Ok(Some(format!("no slot of an instance holds {name}")));
            };
            offset.store(word * WORD, Ordering::Relaxed);
            make::set(&instance, &PyString::new(py, name), &py.None().into_bound(py))?;
        }
        // The class is never freed: `python` looks it up once and keeps a reference for the life of
        // the process.
        self.class.store(class.as_ptr().cast(), Ordering::Release);
        Ok(None)
    }

    /// Whether the class of an object is exactly the class whose slots were found. False if no
    /// slots were found.
    ///
    /// # Safety
    /// The caller must ensure that `object` is alive and that the GIL is held.
    #[inline(always)]
    pub unsafe fn is(&self, object: *mut ffi::PyObject) -> bool {
        // SAFETY: `object` is alive and the GIL is held, as `# Safety` demands; every object has an
        // `ob_type`. Tests: property/test_safe_path.py (uuid). Benchmark: "value: uuid".
        unsafe { (*object).ob_type == self.class.load(Ordering::Acquire) }
    }

    /// Returns the object in a slot, borrowed, or null if the slot is empty.
    ///
    /// # Safety
    /// The caller must ensure that `object` is alive, that [`Slotted::is`] has returned true for
    /// it, that `slot` is a slot that [`Slotted::find`] has found, and that the GIL is held.
    #[inline(always)]
    pub unsafe fn get(&self, object: *mut ffi::PyObject, slot: usize) -> *mut ffi::PyObject {
        // SAFETY: `object` is a live instance of the class, as `# Safety` demands, and `find` has
        // found the offset of this slot. A slot is a pointer, aligned to a word. Tests:
        // property/test_safe_path.py (uuid). Benchmark: "value: uuid".
        unsafe { *self.slot_address(object, slot) }
    }

    /// Makes an instance with its slots filled. Returns null without an exception if the slots are
    /// not found, if one of the values is null, or if there is no memory. Takes over the references
    /// in `values`: the instance owns them, or they are released if null is returned.
    ///
    /// The GC does not track the instance. If the instance's values can refer back to it, the
    /// caller must make the GC track it.
    ///
    /// # Safety
    /// The caller must ensure that each of the values is an owned reference or null, that there are
    /// as many values as slots were found, and that the GIL is held.
    #[inline(always)]
    pub unsafe fn make<const N: usize>(
        &self,
        values: [*mut ffi::PyObject; N],
    ) -> *mut ffi::PyObject {
        // SAFETY: the GIL is held and the values are owned or null, as `# Safety` demands. The
        // class is never freed (`find`). `tp_alloc` returns an instance with zeroed slots, of a
        // class that Python code made (`has_own_allocation`), and `find` has found the offsets.
        // Only the allocation may start a GC, and so run Python code; no reference to the instance
        // exists then. `values` are owned, so they outlive the GC's run. Tests:
        // property/test_safe_path_decode.py (uuid, inet, time), property/test_hostile_results.py.
        // Benchmark: "page: 5000x10 to tuples".
        unsafe {
            let class = self.class.load(Ordering::Acquire);
            let allocate = if class.is_null() { None } else { (*class).tp_alloc };
            let object = match allocate {
                Some(allocate) if values.iter().all(|value| !value.is_null()) => allocate(class, 0),
                _ => ptr::null_mut(),
            };
            if object.is_null() {
                ffi::PyErr_Clear();
                values.iter().for_each(|&value| ffi::Py_XDECREF(value));
                return ptr::null_mut();
            }
            for (slot, value) in values.into_iter().enumerate() {
                *self.slot_address(object, slot) = value;
            }
            // The slots of UUIDs, addresses and times hold numbers and a member of an enum, which
            // cannot form a reference cycle with the instance. So the GC need not visit such an
            // instance.
            ffi::PyObject_GC_UnTrack(object.cast());
            object
        }
    }

    /// Returns the address of a slot.
    ///
    /// # Safety
    /// The caller must ensure that `object` is a live instance of the class, and that `slot` is a
    /// slot that [`Slotted::find`] has found.
    #[inline(always)]
    unsafe fn slot_address(
        &self,
        object: *mut ffi::PyObject,
        slot: usize,
    ) -> *mut *mut ffi::PyObject {
        let offset = self.offsets[slot].load(Ordering::Relaxed);
        // SAFETY: `find` found the offset within the instance's `__basicsize__`, and all instances
        // of the class are at least that large. Tests: property/test_safe_path_decode.py (uuid).
        unsafe { object.cast::<u8>().add(offset).cast() }
    }
}

/// Returns a new reference to an object found in a slot.
fn borrowed<'py>(py: Python<'py>, object: *mut ffi::PyObject) -> Bound<'py, PyAny> {
    // SAFETY: `object` is alive: a slot of the live `expected` refers to it, because `find` saw the
    // attribute's object at this offset. If `object` were null, `from_borrowed_ptr` would fail
    // before it reads anything. `py` shows that the GIL is held. Tests: unit/test_quick_paths.py
    // (uuids).
    unsafe { Bound::from_borrowed_ptr(py, object) }
}

const WORD: usize = size_of::<usize>();
