//! Reads and makes the digits of exact `int`s.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyInt;
use turbocql_codec::types::varint;

use super::probe;
use super::quick_path::QuickPath;
#[cfg(not(Py_3_14))]
use super::symbol::Symbol;

/// The layout of an `int` in CPython: digits of 30 bits, the lowest first. CPython 3.12 and later
/// have a tag in the place of `ob_size`.
#[repr(C)]
struct Digits {
    head: ffi::PyObject,
    /// Before CPython 3.12, the number of digits, negated for a negative integer. From 3.12 on, the
    /// number of digits times eight, plus 0 for a positive integer, 1 for zero, or 2 for a negative
    /// one.
    tag: ffi::Py_ssize_t,
    digit: [u32; 2],
}

/// Returns the value of an exact `int` of at most two digits (60 bits), or `None` for all other
/// objects.
///
/// # Safety
/// The caller must ensure that `object` is alive and that the GIL is held.
#[inline(always)]
pub unsafe fn small(object: *mut ffi::PyObject) -> Option<i64> {
    // SAFETY: `object` is alive and the GIL is held, as `# Safety` demands; every object has an
    // `ob_type`. Tests: property/test_safe_path.py (int). Benchmark: "value: int".
    let exact = unsafe { (*object).ob_type } == &raw mut ffi::PyLong_Type;
    if !exact {
        return None;
    }
    let digits = object.cast::<Digits>();
    // SAFETY: an exact `int` has this layout, which `probe_digits` has checked. Its tag says how
    // many digits it has, and no digit beyond that number is read. Tests: unit/test_quick_paths.py
    // (encode), property/test_safe_path.py (int, bigint). Benchmark: "value: int".
    unsafe {
        let tag = (*digits).tag;
        #[cfg(Py_3_12)]
        let (sign, count) = (1 - (tag & 3) as i64, tag >> 3);
        #[cfg(not(Py_3_12))]
        let (sign, count) = (tag.signum() as i64, tag.abs());
        match count {
            0 => Some(0),
            1 => Some(sign * i64::from((*digits).digit[0])),
            2 => {
                let high = i64::from((*digits).digit[1]) << 30;
                Some(sign * (high | i64::from((*digits).digit[0])))
            }
            _ => None,
        }
    }
}

/// Returns the value of an exact `int` that is not negative and has at most 128 bits, or `None` for
/// all other objects.
///
/// # Safety
/// The caller must ensure that `object` is alive and that the GIL is held.
#[inline]
pub unsafe fn as_u128(object: *mut ffi::PyObject) -> Option<u128> {
    // SAFETY: `object` is alive and the GIL is held, as `# Safety` demands. Its class is compared
    // first; an exact `int` has this layout, which `probe_digits` has checked, and no digit beyond
    // the number in its tag is read. Tests: property/test_safe_path.py (uuid). Benchmark:
    // "value: uuid".
    unsafe {
        if (*object).ob_type != &raw mut ffi::PyLong_Type {
            return None;
        }
        let digits = object.cast::<Digits>();
        let tag = (*digits).tag;
        #[cfg(Py_3_12)]
        let (negative, count) = (tag & 3 == 2, tag >> 3);
        #[cfg(not(Py_3_12))]
        let (negative, count) = (tag < 0, tag);
        // Four digits have 120 bits, so the fifth may use only its lowest 8 bits.
        let first = (&raw const (*digits).digit).cast::<u32>();
        if negative || count > 5 || (count == 5 && *first.add(4) > 0xff) {
            return None;
        }
        Some((0..count as usize).fold(0, |all, i| all | u128::from(*first.add(i)) << (30 * i)))
    }
}

/// CPython's function that makes a positive `int` of `digits` digits, which the caller fills in.
/// The function is private. CPython 3.14 and later have `PyLongWriter` instead.
#[cfg(not(Py_3_14))]
type New = unsafe extern "C" fn(digits: ffi::Py_ssize_t) -> *mut ffi::PyObject;
// SAFETY: `New` is the function's type as CPython 3.10 to 3.13 declare it. Later versions are
// excluded when turbocql is compiled, and quick paths are off for earlier ones. Tests:
// unit/test_quick_paths.py (big ints).
#[cfg(not(Py_3_14))]
static NEW: Symbol<New> = unsafe { Symbol::new(c"_PyLong_New") };

/// Makes an `int` of `count` digits. `digit` returns the digit at an index; the lowest digit has
/// index 0. Returns null without an exception if `_PyLong_New` was not found, and null with an
/// exception if there is no memory.
///
/// # Safety
/// The caller must ensure that the GIL is held and that the highest digit is not zero.
#[cfg(not(Py_3_14))]
#[inline(always)]
unsafe fn from_digits(count: usize, digit: impl Fn(usize) -> u32) -> *mut ffi::PyObject {
    let Some(new) = NEW.get() else { return std::ptr::null_mut() };
    // SAFETY: the GIL is held, as `# Safety` demands. `_PyLong_New` returns null or a new `int`
    // with room for `count` digits. Nothing else refers to this `int` yet. The layout was checked
    // by `probe_digits`, which `try_large` calls first. Tests: unit/test_quick_paths.py (big ints),
    // property/test_safe_path_decode.py (uuid). Benchmark: "page: 5000x10 to tuples".
    unsafe {
        let object = new(count as isize);
        if !object.is_null() {
            let first = (&raw mut (*object.cast::<Digits>()).digit).cast::<u32>();
            (0..count).for_each(|i| *first.add(i) = digit(i));
        }
        object
    }
}

/// Makes an `int` of `count` digits. `digit` returns the digit at an index; the lowest digit has
/// index 0. Returns null with an exception if there is no memory.
///
/// # Safety
/// The caller must ensure that the GIL is held and that the highest digit is not zero.
#[cfg(Py_3_14)]
#[inline(always)]
unsafe fn from_digits(count: usize, digit: impl Fn(usize) -> u32) -> *mut ffi::PyObject {
    let mut digits = std::ptr::null_mut();
    // SAFETY: the GIL is held, as `# Safety` demands. By its documentation, `PyLongWriter_Create`
    // returns null, or sets `digits` to an array of `count` digits of the size that `sys.int_info`
    // says. `probe_digits` has checked this size. All digits are written before
    // `PyLongWriter_Finish`, which consumes the writer. Tests: unit/test_quick_paths.py (big ints),
    // property/test_safe_path_decode.py (uuid).
    unsafe {
        let writer = ffi::PyLongWriter_Create(0, count as isize, &raw mut digits);
        if writer.is_null() {
            return std::ptr::null_mut();
        }
        (0..count).for_each(|i| *digits.cast::<u32>().add(i) = digit(i));
        ffi::PyLongWriter_Finish(writer)
    }
}

/// Makes an `int`. Returns null without an exception if there is no memory, or if the number has
/// more than 63 bits and `can_make_large` is false.
///
/// # Safety
/// The caller must ensure that the GIL is held.
#[inline]
pub unsafe fn from_u128(number: u128) -> *mut ffi::PyObject {
    // SAFETY: the GIL is held, as `# Safety` demands. `PyLong_FromLongLong` and `from_large` return
    // a new reference, or null, and `from_large` is called only if `can_make_large` returns true.
    // Tests: property/test_safe_path_decode.py (uuid). Benchmark: "page: 5000x10 to tuples".
    unsafe {
        let object = match i64::try_from(number) {
            // CPython has one shared object for each small number. `PyLong_FromLongLong` returns
            // it.
            Ok(small) => ffi::PyLong_FromLongLong(small),
            Err(_) if !can_make_large() => std::ptr::null_mut(),
            Err(_) => from_large(number),
        };
        if object.is_null() {
            ffi::PyErr_Clear();
        }
        object
    }
}

/// Whether [`from_large`] may be called. Before CPython 3.14, this function ignores `force_safe`.
/// This is correct, because only the quick path of decoding calls [`from_u128`], and `force_safe`
/// turns that path off.
#[inline(always)]
fn can_make_large() -> bool {
    #[cfg(not(Py_3_14))]
    return NEW.get().is_some();
    #[cfg(Py_3_14)]
    QuickPath::BigInts.is_on()
}

/// Makes an `int` of more than 63 bits. Returns null if that fails.
///
/// # Safety
/// The caller must ensure that the GIL is held and that `number` has more than 63 bits.
#[inline(never)]
unsafe fn from_large(number: u128) -> *mut ffi::PyObject {
    let count = (128 - number.leading_zeros()).div_ceil(30) as usize;
    // SAFETY: the GIL is held, as `# Safety` demands. `count` is the least number of digits that
    // holds `number`, so the highest digit is not zero. Tests: unit/test_quick_paths.py (big ints),
    // property/test_safe_path_decode.py (uuid). Benchmark: "page: 5000x10 to tuples".
    unsafe { from_digits(count, |i| (number >> (30 * i)) as u32 & 0x3fff_ffff) }
}

/// Probes whether ints are read correctly. If they are not, returns what is wrong.
pub fn probe_digits(py: Python<'_>) -> PyResult<Option<String>> {
    let digits = py.import("sys")?.getattr("int_info")?;
    let (bits, size): (u32, u32) =
        (digits.getattr("bits_per_digit")?.extract()?, digits.getattr("sizeof_digit")?.extract()?);
    if (bits, size) != (30, 4) {
        return Ok(Some(format!("ints have digits of {bits} bits in {size} bytes")));
    }
    const DIGIT: i128 = 1 << 30;
    let numbers: [i128; 20] = [
        0,
        1,
        -1,
        5,
        -6,
        256,
        257,
        -257,
        DIGIT - 1,
        DIGIT,
        -DIGIT,
        -DIGIT - 1,
        DIGIT * DIGIT - 1,
        1 - DIGIT * DIGIT,
        DIGIT * DIGIT,
        -DIGIT * DIGIT,
        i64::MIN.into(),
        i64::MAX.into(),
        i128::MAX,
        i128::MIN,
    ];
    for number in numbers {
        let object = number.into_pyobject(py)?;
        // SAFETY: `object` keeps the `int` alive and `py` shows that the GIL is held. The layout
        // itself is probed here. `small` runs first and reads at most two digits: if it finds a
        // wrong number of digits, the probe ends before `as_u128` reads more. Tests:
        // unit/test_quick_paths.py (encode).
        let positive = unsafe {
            let expected = i64::try_from(number).ok();
            let expected = expected.filter(|_| number.unsigned_abs() < (DIGIT * DIGIT) as u128);
            if small(object.as_ptr()) != expected {
                return Ok(Some(format!("the int {number} was not read correctly")));
            }
            as_u128(object.as_ptr())
        };
        let mut bytes = Vec::new();
        // SAFETY: the reasons are the same as at `as_u128`, above. Tests: unit/test_quick_paths.py
        // (encode).
        let is_written = unsafe { put_varint(object.as_ptr(), &mut bytes) };
        let decoded = varint::decode_i128(&bytes).ok().flatten();
        let expected = (u128::try_from(number).ok(), true, Some(number));
        let wrong = probe::check_value(
            QuickPath::Encode,
            "an int",
            (positive, is_written, decoded),
            expected,
        );
        if wrong.is_some() {
            return Ok(wrong);
        }
    }
    // SAFETY: True is never freed, and `py` shows that the GIL is held. Tests:
    // unit/test_quick_paths.py (encode).
    let truth = unsafe { small(pyo3::types::PyBool::new(py, true).as_ptr()) };
    Ok(probe::check_value(QuickPath::Encode, "a bool, which is not an exact int,", truth, None))
}

/// Probes whether large ints are made correctly. If they are not, returns what is wrong.
pub fn probe_large(py: Python<'_>) -> PyResult<Option<String>> {
    #[cfg(not(Py_3_14))]
    if let Some(missing) = NEW.look_up() {
        return Ok(Some(missing));
    }
    let wrong = try_large(py);
    #[cfg(not(Py_3_14))]
    if !matches!(wrong, Ok(None)) {
        NEW.forget();
    }
    wrong
}

fn try_large(py: Python<'_>) -> PyResult<Option<String>> {
    if let Some(wrong) = probe_digits(py)? {
        return Ok(Some(wrong));
    }
    for number in [1 << 63, (1 << 90) - 1, 1 << 90, 1 << 120, u128::MAX, u128::MAX / 3] {
        let expected = py.get_type::<PyInt>().call1((number.to_string(),))?;
        // SAFETY: `py` shows that the GIL is held, and all the numbers have more than 63 bits.
        // `from_large` returns an owned reference, or null. Tests: unit/test_quick_paths.py (big
        // ints).
        let int = unsafe { Bound::from_owned_ptr_or_err(py, from_large(number))? };
        let wrong = probe::check_object(QuickPath::BigInts, "an int", &int, &expected, false)?;
        if wrong.is_some() {
            return Ok(wrong);
        }
    }
    Ok(None)
}

/// Appends the shortest two's complement of an exact `int` of any size, the highest byte first.
/// Returns false and appends nothing if the object is not an exact `int` or if there is no memory.
///
/// # Safety
/// The caller must ensure that `object` is alive and that the GIL is held.
pub unsafe fn put_varint(object: *mut ffi::PyObject, out: &mut Vec<u8>) -> bool {
    // SAFETY: `object` is alive and the GIL is held, as `# Safety` demands. Its class is compared
    // first. An exact `int` has this layout, which `probe_digits` has checked. It has as many
    // digits as its tag says. An `int` never changes, and no Python code runs while the slice is
    // used, so the slice stays valid. Tests: property/test_safe_path.py (varint). Benchmark:
    // "value: varint, 300 bit".
    let (negative, digits) = unsafe {
        if (*object).ob_type != &raw mut ffi::PyLong_Type {
            return false;
        }
        let int = object.cast::<Digits>();
        let tag = (*int).tag;
        #[cfg(Py_3_12)]
        let (negative, count) = (tag & 3 == 2, (tag >> 3) as usize);
        #[cfg(not(Py_3_12))]
        let (negative, count) = (tag < 0, tag.unsigned_abs());
        let first = (&raw const (*int).digit).cast::<u32>();
        (negative, std::slice::from_raw_parts(first, count))
    };
    let start = out.len();
    if out.try_reserve(digits.len() * 4 + 1).is_err() {
        return false;
    }
    // The lowest byte is appended first. For a negative number `-n` these are the bytes of `n - 1`,
    // which are inverted below.
    let (mut bits, mut held, mut borrow) = (0_u64, 0, u32::from(negative));
    for &digit in digits {
        let (low, under) = digit.overflowing_sub(borrow);
        borrow = u32::from(under);
        bits |= u64::from(low & 0x3fff_ffff) << held;
        held += 30;
        while held >= 8 {
            out.push(bits as u8);
            bits >>= 8;
            held -= 8;
        }
    }
    out.push(bits as u8);
    while out.len() > start + 1 && out.last() == Some(&0) {
        out.pop();
    }
    if out.last().is_some_and(|high| high & 0x80 != 0) {
        out.push(0);
    }
    if negative {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
    out[start..].reverse();
    true
}
