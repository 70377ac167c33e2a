//! Where instances of some classes of the standard library keep the attributes they are made of.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};

use super::quick_path::QuickPath;
use super::{make, probe};
use crate::value::interned;

/// A class whose instances can be made by filling a slot or two.
pub struct Slotted {
    class: AtomicPtr<ffi::PyTypeObject>,
    /// Bytes from the beginning of an instance to each of its slots.
    offsets: [AtomicUsize; 2],
}

pub static UUID: Slotted = Slotted::new();
pub static IPV4_ADDRESS: Slotted = Slotted::new();
pub static TIME: Slotted = Slotted::new();

/// Tries where the slots are; what is not found is never read or written so.
pub fn probe(py: Python<'_>) -> PyResult<()> {
    QuickPath::Uuids.decide(py, |py| {
        const NUMBER: u128 = 0xf81d_4fae_7dec_11d0_a765_00a0_c91e_6bf6;
        let class = interned::uuid(py)?;
        let text = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
        let values =
            [NUMBER.into_pyobject(py)?.into_any(), interned::safe_uuid_unknown(py)?.clone()];
        UUID.learn(QuickPath::Uuids, ["int", "is_safe"], values, &class.call1((text,))?)
    })?;
    QuickPath::Addresses.decide(py, |py| {
        let class = interned::ipv4_address(py)?;
        let values = [0xc0a8_0001_u32.into_pyobject(py)?.into_any()];
        let expected = class.call1(("192.168.0.1",))?;
        IPV4_ADDRESS.learn(QuickPath::Addresses, ["_ip"], values, &expected)
    })?;
    QuickPath::Times.decide(py, |py| {
        let values = [86_399_999_999_999_i64.into_pyobject(py)?.into_any()];
        let expected = interned::cql_time(py)?.call1((&values[0],))?;
        TIME.learn(QuickPath::Times, ["nanoseconds"], values, &expected)
    })?;
    Ok(())
}

impl Slotted {
    /// Whether its slots have been found.
    pub fn is_known(&self) -> bool {
        !self.class.load(Ordering::Acquire).is_null()
    }

    #[expect(clippy::new_without_default, reason = "made in statics only")]
    pub const fn new() -> Slotted {
        let offsets = [AtomicUsize::new(0), AtomicUsize::new(0)];
        Slotted { class: AtomicPtr::new(ptr::null_mut()), offsets }
    }

    /// Finds the slots, and tries them by making an instance like one that Python has made.
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
        // SAFETY: new references for the slots, and the lock is held; what is made is ours.
        let made = unsafe {
            Bound::from_owned_ptr_or_opt(
                py,
                self.make(values.each_ref().map(|it| it.clone().into_ptr())),
            )
        };
        let Some(made) = made else {
            return Ok(Some("an instance could not be made".to_owned()));
        };
        let wrong = probe::made(path, "an instance", &made, expected, false)?;
        for (slot, (name, value)) in names.iter().zip(&values).enumerate() {
            // SAFETY: an instance of the class, alive.
            let found = unsafe { self.get(expected.as_ptr(), slot) };
            let given = made.getattr(*name)?;
            if found.is_null()
                || !expected.getattr(*name)?.is(borrowed(py, found))
                || !given.is(value)
            {
                return Ok(Some(format!("{name} was found in another slot")));
            }
        }
        drop(made);
        if counts != values.each_ref().map(probe::references) {
            return Ok(Some("an instance did not give up what it held".to_owned()));
        }
        Ok(wrong)
    }

    /// Takes back that the slots were found.
    pub fn forget(&self) {
        self.class.store(ptr::null_mut(), Ordering::Release);
    }

    pub fn find(&self, class: &Bound<'_, PyAny>, names: &[&str]) -> PyResult<Option<String>> {
        let py = class.py();
        // Whatever somebody has put in its place.
        let plain = class.get_type().is(py.get_type::<PyType>());
        let known = class.cast::<PyType>().ok().filter(|_| plain && QuickPath::Records.is_on());
        if !known.is_some_and(|class| make::has_own_allocation(class)) {
            return Ok(Some("it is no class that Python code made".to_owned()));
        }
        let size: usize = class.getattr("__basicsize__")?.extract()?;
        let (instance, mark) = (make::instance(class)?, py.get_type::<PyType>());
        for (name, offset) in names.iter().zip(&self.offsets) {
            make::set(&instance, &PyString::new(py, name), mark.as_any())?;
            // SAFETY: the instance is alive and of at least this size; a word of it is a number
            // here, whatever it means. The first two are what every object begins with.
            let words = unsafe {
                std::slice::from_raw_parts(instance.as_ptr().cast::<usize>(), size / WORD)
            };
            let mut found = (2..words.len()).filter(|&word| words[word] == mark.as_ptr() as usize);
            let (Some(word), None) = (found.next(), found.next()) else {
                return Ok(Some(format!("{name} is in no slot of its instances")));
            };
            offset.store(word * WORD, Ordering::Relaxed);
            make::set(&instance, &PyString::new(py, name), &py.None().into_bound(py))?;
        }
        // For ever: the class is one of those that are looked up once.
        self.class.store(class.as_ptr().cast(), Ordering::Release);
        Ok(None)
    }

    /// Whether an object is of this class exactly.
    ///
    /// # Safety
    /// The object is alive.
    #[inline(always)]
    pub unsafe fn is(&self, object: *mut ffi::PyObject) -> bool {
        // SAFETY: the caller's word.
        unsafe { (*object).ob_type == self.class.load(Ordering::Acquire) }
    }

    /// What stands in a slot, borrowed; null where it is empty.
    ///
    /// # Safety
    /// As for [`Slotted::is`], which has said yes, and the interpreter's lock is held.
    #[inline(always)]
    pub unsafe fn get(&self, object: *mut ffi::PyObject, slot: usize) -> *mut ffi::PyObject {
        // SAFETY: the slots of instances of this class have been found.
        unsafe { *self.place(object, slot) }
    }

    /// A new instance with its slots filled; null without an exception where that is not known to
    /// work or there is no memory. What the slots hold is the instance's from then on, and gone
    /// where there is none.
    ///
    /// # Safety
    /// The values are new references or null, of which none is made here, and the lock is held.
    #[inline(always)]
    pub unsafe fn make<const N: usize>(
        &self,
        values: [*mut ffi::PyObject; N],
    ) -> *mut ffi::PyObject {
        // SAFETY: the class is alive for ever; its memory comes zeroed, and its slots have been
        // found. Nothing here but the allocation may run Python code, which does not see the
        // instance.
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
                *self.place(object, slot) = value;
            }
            // It holds nothing but numbers: the collector need not look at it, ever.
            ffi::PyObject_GC_UnTrack(object.cast());
            object
        }
    }

    #[inline(always)]
    unsafe fn place(&self, object: *mut ffi::PyObject, slot: usize) -> *mut *mut ffi::PyObject {
        let offset = self.offsets[slot].load(Ordering::Relaxed);
        // SAFETY: within the instance.
        unsafe { object.cast::<u8>().add(offset).cast() }
    }
}

fn borrowed<'py>(py: Python<'py>, object: *mut ffi::PyObject) -> Bound<'py, PyAny> {
    // SAFETY: an object in a slot of another that is alive.
    unsafe { Bound::from_borrowed_ptr(py, object) }
}

const WORD: usize = size_of::<usize>();
