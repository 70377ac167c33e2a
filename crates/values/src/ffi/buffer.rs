//! The numbers of a NumPy array, converted straight into the output.

use std::ffi::CStr;
use std::mem::MaybeUninit;

use pyo3::ffi;
use pyo3::prelude::*;
use turbocql_codec::Plan;
use turbocql_codec::types::float::narrow;

use super::numpy::{self, Kind};
use crate::value::HostPlan;
use crate::value::numbers::KEEPS_SIGNALLING;

/// Writes the numbers of an array as a vector's elements, each checked against its range. False
/// when the array is turned down: another number of elements, a number out of range, a dtype that
/// goes the safe way, an object that is no array. What has been written then means nothing.
///
/// # Safety
/// `object` is alive and the interpreter's lock is held.
pub unsafe fn put_array(
    element: &HostPlan,
    dimension: usize,
    object: *mut ffi::PyObject,
    target: &mut [MaybeUninit<u8>],
) -> bool {
    // SAFETY: the caller's word. The buffer is released on every way out, and not moved: some
    // exporters point into it. Exact NumPy arrays run no Python code for it.
    unsafe {
        if let Some(row) = numpy::row(object) {
            let numbers =
                Numbers { start: row.start, count: dimension, stride: row.stride, swapped: false };
            return row.count == dimension
                && match row.kind {
                    Kind::F32 => numbers.put::<f32, 4>(element, target),
                    Kind::F64 => numbers.put::<f64, 8>(element, target),
                    Kind::I32 => numbers.put::<i32, 4>(element, target),
                    Kind::I64 => numbers.put::<i64, 8>(element, target),
                    Kind::U32 => numbers.put::<u32, 4>(element, target),
                    Kind::I16 => numbers.put::<i16, 2>(element, target),
                    Kind::U16 => numbers.put::<u16, 2>(element, target),
                    Kind::F16 => numbers.put::<Half, 2>(element, target),
                    Kind::I8 => numbers.put::<i8, 1>(element, target),
                    Kind::U8 => numbers.put::<u8, 1>(element, target),
                    Kind::U64 => numbers.put::<u64, 8>(element, target),
                };
        }
        // A class made by Python code has no dot in this name, so these are NumPy's and the
        // standard library's own.
        let class = (*object).ob_type;
        let known = class == &raw mut ffi::PyMemoryView_Type
            || [c"numpy.ndarray", c"array.array"].contains(&CStr::from_ptr((*class).tp_name));
        if !known {
            return false;
        }
        let mut view = MaybeUninit::<ffi::Py_buffer>::uninit();
        let flags = ffi::PyBUF_FORMAT | ffi::PyBUF_STRIDES;
        if ffi::PyObject_GetBuffer(object, view.as_mut_ptr(), flags) != 0 {
            ffi::PyErr_Clear();
            return false;
        }
        let format = view.assume_init_ref().format;
        // Views of other things than arrays have marks of their order, which the safe way reads.
        let done = (class != &raw mut ffi::PyMemoryView_Type
            || (!format.is_null() && CStr::from_ptr(format).count_bytes() == 1))
            && put_view(element, dimension, view.assume_init_ref(), target);
        ffi::PyBuffer_Release(view.as_mut_ptr());
        done
    }
}

/// Fills a new NumPy array of numbers of `N` bytes from big-endian ones. False, and nothing
/// written, when its memory is not as large, or not in one piece.
pub fn fill_array<const N: usize>(array: &Bound<'_, PyAny>, numbers: &[u8]) -> bool {
    let flags = ffi::PyBUF_SIMPLE | ffi::PyBUF_WRITABLE;
    let mut view = MaybeUninit::<ffi::Py_buffer>::uninit();
    // SAFETY: the object is alive and the lock is held; the view is given back. The caller has just
    // made the array, and nobody else has it; its memory may be written, as has been asked for.
    unsafe {
        if ffi::PyObject_GetBuffer(array.as_ptr(), view.as_mut_ptr(), flags) != 0 {
            ffi::PyErr_Clear();
            return false;
        }
        let start = view.assume_init_ref().buf.cast::<MaybeUninit<u8>>();
        let fits = usize::try_from(view.assume_init_ref().len) == Ok(numbers.len());
        if fits && !numbers.is_empty() {
            let target = std::slice::from_raw_parts_mut(start, numbers.len());
            to_native::<N>(numbers, target);
        }
        ffi::PyBuffer_Release(view.as_mut_ptr());
        fits
    }
}

/// Where the numbers are.
struct Numbers {
    start: *const u8,
    count: usize,
    stride: isize,
    swapped: bool,
}

/// # Safety
/// A buffer as its exporter filled it for `PyBUF_FORMAT | PyBUF_STRIDES`.
unsafe fn put_view(
    element: &HostPlan,
    dimension: usize,
    view: &ffi::Py_buffer,
    target: &mut [MaybeUninit<u8>],
) -> bool {
    if view.ndim != 1 || view.format.is_null() {
        return false;
    }
    // SAFETY: one dimension has one length and one stride, and the format is a C string.
    let (count, stride, format) =
        unsafe { (*view.shape, *view.strides, CStr::from_ptr(view.format).to_bytes()) };
    if usize::try_from(count) != Ok(dimension) {
        return false;
    }
    let (foreign, code) = match *format {
        [code] | [b'@' | b'=', code] => (false, code),
        [b'<', code] => (cfg!(target_endian = "big"), code),
        [b'>' | b'!', code] => (cfg!(target_endian = "little"), code),
        _ => return false,
    };
    let numbers = Numbers { start: view.buf.cast(), count: dimension, stride, swapped: foreign };
    // The width tells what `l` and its kin are here.
    // SAFETY: `count` numbers of this width stand at `stride` from each other.
    unsafe {
        match (code, view.itemsize) {
            (b'f', 4) if foreign => numbers.put::<Quiet, 4>(element, target),
            (b'f', 4) => numbers.put::<f32, 4>(element, target),
            (b'd', 8) => numbers.put::<f64, 8>(element, target),
            (b'i' | b'l', 4) => numbers.put::<i32, 4>(element, target),
            (b'l' | b'q', 8) => numbers.put::<i64, 8>(element, target),
            (b'I' | b'L', 4) => numbers.put::<u32, 4>(element, target),
            (b'h', 2) => numbers.put::<i16, 2>(element, target),
            (b'H', 2) => numbers.put::<u16, 2>(element, target),
            _ => false,
        }
    }
}

/// A number as an array has it.
trait Number<const N: usize>: Copy {
    fn of(bytes: [u8; N]) -> Self;
    fn as_f64(self) -> f64;
    /// `None` for what is no integer of an array.
    fn as_i64(self) -> Option<i64>;
    /// As binary32, and whether it is within its range.
    #[inline(always)]
    fn as_single(self) -> ([u8; 4], bool) {
        let wide = self.as_f64();
        // The safe way knows what becomes of a signalling NaN.
        let good = narrow(wide).is_some() & !(KEEPS_SIGNALLING & wide.is_nan());
        ((wide as f32).to_be_bytes(), good)
    }
}

macro_rules! numbers {
    ($($kind:ty, $width:literal, $integer:expr $(, $single:expr)?;)*) => {$(
        impl Number<$width> for $kind {
            #[inline(always)]
            fn of(bytes: [u8; $width]) -> Self {
                <$kind>::from_ne_bytes(bytes)
            }

            #[inline(always)]
            fn as_f64(self) -> f64 {
                self as f64
            }

            #[inline(always)]
            fn as_i64(self) -> Option<i64> {
                let integer: fn($kind) -> Option<i64> = $integer;
                integer(self)
            }

            $(
                #[inline(always)]
                fn as_single(self) -> ([u8; 4], bool) {
                    let single: fn($kind) -> ([u8; 4], bool) = $single;
                    single(self)
                }
            )?
        }
    )*};
}
numbers! {
    // Its bits, so that the payload of any nan stays.
    f32, 4, |_| None, |n| (n.to_be_bytes(), true);
    f64, 8, |_| None;
    i32, 4, |n| Some(n.into());
    u32, 4, |n| Some(n.into());
    i64, 8, Some;
    u64, 8, |n| i64::try_from(n).ok();
    i16, 2, |n| Some(n.into());
    u16, 2, |n| Some(n.into());
    i8, 1, |n| Some(n.into());
    u8, 1, |n| Some(n.into());
}

/// A binary32 number of the other byte order: those are converted one by one where NumPy does it,
/// which makes any nan a quiet one.
#[derive(Clone, Copy)]
struct Quiet(f32);

impl Number<4> for Quiet {
    #[inline(always)]
    fn of(bytes: [u8; 4]) -> Quiet {
        Quiet(f32::from_ne_bytes(bytes))
    }

    #[inline(always)]
    fn as_f64(self) -> f64 {
        self.0.into()
    }

    #[inline(always)]
    fn as_i64(self) -> Option<i64> {
        None
    }

    #[inline(always)]
    fn as_single(self) -> ([u8; 4], bool) {
        let quiet = if self.0.is_nan() { 0x0040_0000 } else { 0 };
        ((self.0.to_bits() | quiet).to_be_bytes(), true)
    }
}

/// A binary16 number.
#[derive(Clone, Copy)]
struct Half(u16);

impl Number<2> for Half {
    #[inline(always)]
    fn of(bytes: [u8; 2]) -> Half {
        Half(u16::from_ne_bytes(bytes))
    }

    #[inline(always)]
    fn as_f64(self) -> f64 {
        let bits = u64::from(self.0);
        let (sign, rest) = ((bits & 0x8000) << 48, bits & 0x7fff);
        let magnitude = if rest >= 0x7c00 {
            // Infinity, or nan with its payload as it is.
            0x7ff0_0000_0000_0000 | rest << 42
        } else {
            // The offset of the exponent is 15 there and 1023 here, so that this is 2^1008 too
            // small; the numbers below the normal ones come right, too.
            (f64::from_bits(rest << 42) * f64::from_bits((1008 + 1023) << 52)).to_bits()
        };
        f64::from_bits(magnitude | sign)
    }

    #[inline(always)]
    fn as_i64(self) -> Option<i64> {
        None
    }
}

impl Numbers {
    /// # Safety
    /// As `put_view` says.
    #[inline]
    unsafe fn put<T: Number<N>, const N: usize>(
        &self,
        element: &HostPlan,
        target: &mut [MaybeUninit<u8>],
    ) -> bool {
        // SAFETY: the caller's word, handed on.
        unsafe {
            match element {
                Plan::Float => self.each::<T, N, 4>(target, T::as_single),
                Plan::Double => self.each::<T, N, 8>(target, |n| (n.as_f64().to_be_bytes(), true)),
                Plan::Int => self.each::<T, N, 4>(target, |n| {
                    let wide = n.as_i64();
                    let number = wide.unwrap_or(0) as i32;
                    (number.to_be_bytes(), wide == Some(number.into()))
                }),
                Plan::BigInt => self.each::<T, N, 8>(target, |n| {
                    let wide = n.as_i64();
                    (wide.unwrap_or(0).to_be_bytes(), wide.is_some())
                }),
                _ => false,
            }
        }
    }

    /// Converts each number, and tells whether all were in range: asked once at the end, so that
    /// the loop is one that the compiler makes wide.
    ///
    /// # Safety
    /// As `put_view` says.
    #[inline(always)]
    unsafe fn each<T: Number<N>, const N: usize, const M: usize>(
        &self,
        target: &mut [MaybeUninit<u8>],
        convert: impl Fn(T) -> ([u8; M], bool),
    ) -> bool {
        let Some(target) = target.get_mut(..self.count * M) else { return false };
        if self.stride == N as isize {
            // SAFETY: the numbers stand one after another.
            let source = unsafe { std::slice::from_raw_parts(self.start, self.count * N) };
            return if self.swapped {
                run_widest::<T, N, M, true>(source, target, convert)
            } else {
                run_widest::<T, N, M, false>(source, target, convert)
            };
        }
        let places = target.chunks_exact_mut(M);
        let mut good = true;
        for (i, place) in places.enumerate() {
            // SAFETY: number `i` stands there; it need not be aligned.
            let mut number =
                unsafe { *self.start.offset(self.stride * i as isize).cast::<[u8; N]>() };
            if self.swapped {
                number.reverse();
            }
            let (bytes, fits) = convert(T::of(number));
            good &= fits;
            place.copy_from_slice(&bytes.map(MaybeUninit::new));
        }
        good
    }
}

/// Converts numbers that stand one after another, without a branch.
#[inline(always)]
fn run<T: Number<N>, const N: usize, const M: usize, const SWAPPED: bool>(
    source: &[u8],
    target: &mut [MaybeUninit<u8>],
    convert: impl Fn(T) -> ([u8; M], bool),
) -> bool {
    let mut good = true;
    for (number, place) in source.as_chunks::<N>().0.iter().zip(target.as_chunks_mut::<M>().0) {
        let mut number = *number;
        if SWAPPED {
            number.reverse();
        }
        let (bytes, fits) = convert(T::of(number));
        good &= fits;
        *place = bytes.map(MaybeUninit::new);
    }
    good
}

/// The same, compiled for processors that swap the bytes of eight numbers at once.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn run_wide<T: Number<N>, const N: usize, const M: usize, const SWAPPED: bool>(
    source: &[u8],
    target: &mut [MaybeUninit<u8>],
    convert: impl Fn(T) -> ([u8; M], bool),
) -> bool {
    run::<T, N, M, SWAPPED>(source, target, convert)
}

/// The same, by what this processor has.
#[inline(always)]
fn run_widest<T: Number<N>, const N: usize, const M: usize, const SWAPPED: bool>(
    source: &[u8],
    target: &mut [MaybeUninit<u8>],
    convert: impl Fn(T) -> ([u8; M], bool),
) -> bool {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what the function is compiled for.
        return unsafe { run_wide::<T, N, M, SWAPPED>(source, target, convert) };
    }
    run::<T, N, M, SWAPPED>(source, target, convert)
}

/// Swaps the bytes of each number.
#[inline(always)]
fn swap<const N: usize>(numbers: &[u8], target: &mut [MaybeUninit<u8>]) {
    for (number, place) in numbers.as_chunks::<N>().0.iter().zip(target.as_chunks_mut::<N>().0) {
        let mut number = *number;
        number.reverse();
        *place = number.map(MaybeUninit::new);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn swap_wide<const N: usize>(numbers: &[u8], target: &mut [MaybeUninit<u8>]) {
    swap::<N>(numbers, target);
}

/// Turns big-endian numbers into the machine's.
fn to_native<const N: usize>(numbers: &[u8], target: &mut [MaybeUninit<u8>]) {
    if cfg!(target_endian = "big") {
        for (byte, place) in numbers.iter().zip(target) {
            place.write(*byte);
        }
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what the function is compiled for.
        return unsafe { swap_wide::<N>(numbers, target) };
    }
    swap::<N>(numbers, target);
}
