//! Writes the numbers of an array directly into the output, as the elements of a vector. The safe
//! path (`crate::value`) encodes all other values.

use std::ffi::CStr;
use std::mem::MaybeUninit;

use pyo3::ffi;
use pyo3::prelude::*;
use turbocql_codec::types::float::narrow;

use super::numpy::{self, Kind};
use crate::binary32::KEEPS_SIGNALLING;
use crate::plan::HostPlan;
use crate::traits::{Numeric, traits};

/// Writes the numbers of an array as the elements of a vector. Checks each number against the range
/// of the element type. Returns true if it has written `dimension` elements to the start of
/// `target`. Returns false if the array does not have `dimension` elements, if one of its numbers
/// is out of range, if only the safe path supports its dtype, or if `object` is not an array. After
/// false, the contents of `target` are undefined.
///
/// # Safety
/// The caller must ensure that `object` is alive and that the GIL is held.
pub unsafe fn put_array(
    element: &HostPlan,
    dimension: usize,
    object: *mut ffi::PyObject,
    target: &mut [MaybeUninit<u8>],
) -> bool {
    // SAFETY: `object` is alive and the GIL is held, as `# Safety` demands. `row` describes the
    // memory of an exact array, and `count` is checked before `put` reads it; no Python code runs
    // meanwhile. `tp_name` is a C string in every class. `view` is initialized if
    // `PyObject_GetBuffer` returns 0. It is released on every path after that, and not moved,
    // because some exporters store pointers into it. The exporters of memoryviews, `numpy.ndarray`
    // and `array.array` run no Python code (see below). Tests: property/test_safe_path_arrays.py,
    // property/test_hostile.py (test_buffers_are_given_back). Benchmark:
    // "value: vector<float, 1536>, float32 ndarray".
    unsafe {
        if let Some(row) = numpy::row(object) {
            let numbers =
                Strided { start: row.start, count: dimension, stride: row.stride, swapped: false };
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
        // Python code can make a class of any name with `type()`. From CPython 3.12 on, the
        // exporter of such a class can run Python code. Only C code makes immutable classes, so
        // only an immutable class is recognized by its name.
        let class = (*object).ob_type;
        let is_supported = class == &raw mut ffi::PyMemoryView_Type
            || ffi::PyType_HasFeature(class, ffi::Py_TPFLAGS_IMMUTABLETYPE) != 0
                && [c"numpy.ndarray", c"array.array"].contains(&CStr::from_ptr((*class).tp_name));
        if !is_supported {
            return false;
        }
        let mut view = MaybeUninit::<ffi::Py_buffer>::uninit();
        let flags = ffi::PyBUF_FORMAT | ffi::PyBUF_STRIDES;
        if ffi::PyObject_GetBuffer(object, view.as_mut_ptr(), flags) != 0 {
            ffi::PyErr_Clear();
            return false;
        }
        let format = view.assume_init_ref().format;
        // The format of a memoryview may begin with a byte order. Only the safe path reads such a
        // format.
        let is_written = (class != &raw mut ffi::PyMemoryView_Type
            || (!format.is_null() && CStr::from_ptr(format).count_bytes() == 1))
            && put_view(element, dimension, view.assume_init_ref(), target);
        ffi::PyBuffer_Release(view.as_mut_ptr());
        is_written
    }
}

/// Fills a new NumPy array from `numbers`, which are big-endian and have `N` bytes each. Returns
/// false and writes nothing if the memory of the array does not have the size of `numbers` or is
/// not contiguous.
pub fn fill_array<const N: usize>(array: &Bound<'_, PyAny>, numbers: &[u8]) -> bool {
    let flags = ffi::PyBUF_SIMPLE | ffi::PyBUF_WRITABLE;
    let mut view = MaybeUninit::<ffi::Py_buffer>::uninit();
    // SAFETY: `array` keeps the object alive and shows that the GIL is held. `view` is initialized
    // if `PyObject_GetBuffer` returns 0, and is released once. With these flags the memory is
    // contiguous and writable, and `len` bytes long, by the buffer protocol. `Decoder::array` has
    // just made the array, so nothing else reads or writes it, and it cannot overlap `numbers`.
    // Tests: property/test_safe_path_decode.py (test_arrays). Benchmark:
    // "decode: vector<float, 1536> to NumPy".
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

/// `count` numbers in memory. Each number begins `stride` bytes after the previous number. If
/// `swapped` is true, their byte order is the opposite of the machine's.
struct Strided {
    start: *const u8,
    count: usize,
    stride: isize,
    swapped: bool,
}

/// Writes the numbers of a buffer as [`put_array`] does.
///
/// # Safety
/// The caller must ensure that `view` was filled by `PyObject_GetBuffer` with `PyBUF_FORMAT |
/// PyBUF_STRIDES` and is not released yet, and that the GIL is held.
unsafe fn put_view(
    element: &HostPlan,
    dimension: usize,
    view: &ffi::Py_buffer,
    target: &mut [MaybeUninit<u8>],
) -> bool {
    if view.ndim != 1 || view.format.is_null() {
        return false;
    }
    // SAFETY: with `PyBUF_STRIDES`, a view of one dimension has one length and one stride. With
    // `PyBUF_FORMAT`, the format is null, which is checked above, or a C string that lives as long
    // as the view. Tests: property/test_safe_path_arrays.py.
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
    let numbers = Strided { start: view.buf.cast(), count: dimension, stride, swapped: foreign };
    // The width of `l` and `L` depends on the platform, so `itemsize` is compared too.
    // SAFETY: the exporter says that `count` numbers of `itemsize` bytes begin at `buf` and are
    // `stride` bytes apart. `itemsize` is compared with the width of each type, and `count` with
    // `dimension`. Tests: property/test_safe_path_arrays.py (test_arrays_of_the_standard_library).
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

/// A number of an array.
trait Number<const N: usize>: Copy {
    fn of(bytes: [u8; N]) -> Self;
    fn as_f64(self) -> f64;
    /// Returns the number as an integer, or `None` if it is a floating-point number or is out of
    /// the range of `i64`.
    fn as_i64(self) -> Option<i64>;
    /// Returns the number as binary32, and whether it can be written. A number that is out of
    /// range, or a NaN that the safe path must take, cannot be written.
    #[inline(always)]
    fn as_single(self) -> ([u8; 4], bool) {
        let wide = self.as_f64();
        // From CPython 3.14 on, every NaN goes to the safe path, which keeps signalling NaNs.
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
    // The bits are copied, so that a NaN keeps its payload.
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

/// A binary32 number whose byte order is not the machine's. NumPy converts such numbers one by one,
/// which turns every signalling NaN into a quiet NaN. This type does the same.
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
        let (sign, magnitude_bits) = ((bits & 0x8000) << 48, bits & 0x7fff);
        let magnitude = if magnitude_bits >= 0x7c00 {
            // Infinity, or a NaN, which keeps its payload.
            0x7ff0_0000_0000_0000 | magnitude_bits << 42
        } else {
            // The exponent bias is 15 in binary16 and 1023 in binary64. So the shifted bits are a
            // number that is 2^1008 times too small, and the multiplication by 2^1008 corrects
            // this. The product is exact for subnormal numbers too.
            (f64::from_bits(magnitude_bits << 42) * f64::from_bits((1008 + 1023) << 52)).to_bits()
        };
        f64::from_bits(magnitude | sign)
    }

    #[inline(always)]
    fn as_i64(self) -> Option<i64> {
        None
    }
}

impl Strided {
    /// Writes the numbers as elements of a vector with this element type. Returns false for the
    /// same reasons as [`put_array`].
    ///
    /// # Safety
    /// The caller must ensure that `count` numbers of `N` bytes can be read: the first at `start`,
    /// the others `stride` bytes apart.
    #[inline]
    unsafe fn put<T: Number<N>, const N: usize>(
        &self,
        element: &HostPlan,
        target: &mut [MaybeUninit<u8>],
    ) -> bool {
        // SAFETY: `convert_all` requires only what the `# Safety` section requires. Tests:
        // property/test_safe_path_arrays.py.
        unsafe {
            match traits(element).numeric {
                Some(Numeric::Float) => self.convert_all::<T, N, 4>(target, T::as_single),
                Some(Numeric::Double) => {
                    self.convert_all::<T, N, 8>(target, |n| (n.as_f64().to_be_bytes(), true))
                }
                Some(Numeric::Int) => self.convert_all::<T, N, 4>(target, |n| {
                    let wide = n.as_i64();
                    let number = wide.unwrap_or(0) as i32;
                    (number.to_be_bytes(), wide == Some(number.into()))
                }),
                Some(Numeric::BigInt) => self.convert_all::<T, N, 8>(target, |n| {
                    let wide = n.as_i64();
                    (wide.unwrap_or(0).to_be_bytes(), wide.is_some())
                }),
                Some(Numeric::TinyInt | Numeric::SmallInt) | None => false,
            }
        }
    }

    /// Converts each number. Returns false if `target` is too small, or if `convert` has refused a
    /// number. The loop does not stop at a refused number, so that the compiler can vectorize it.
    ///
    /// # Safety
    /// The caller must ensure that `count` numbers of `N` bytes can be read: the first at `start`,
    /// the others `stride` bytes apart.
    #[inline(always)]
    unsafe fn convert_all<T: Number<N>, const N: usize, const M: usize>(
        &self,
        target: &mut [MaybeUninit<u8>],
        convert: impl Fn(T) -> ([u8; M], bool),
    ) -> bool {
        let Some(target) = target.get_mut(..self.count * M) else { return false };
        if self.stride == N as isize {
            // SAFETY: with a stride of `N`, the numbers are the `count * N` contiguous bytes that
            // begin at `start`, and these can be read, as `# Safety` demands. `target` is borrowed
            // mutably, so it does not overlap them. Tests: property/test_safe_path_arrays.py.
            // Benchmark: "value: vector<float, 1536>, float32 ndarray".
            let source = unsafe { std::slice::from_raw_parts(self.start, self.count * N) };
            return if self.swapped {
                run_widest::<T, N, M, true>(source, target, convert)
            } else {
                run_widest::<T, N, M, false>(source, target, convert)
            };
        }
        let slots = target.chunks_exact_mut(M);
        let mut good = true;
        for (i, slot) in slots.enumerate() {
            // SAFETY: `i` is below `count`, so number `i` can be read, as `# Safety` demands. A
            // `[u8; N]` has an alignment of 1. Tests: property/test_safe_path_arrays.py
            // (test_arrays), which also uses strided and reversed arrays.
            let mut number =
                unsafe { *self.start.offset(self.stride * i as isize).cast::<[u8; N]>() };
            if self.swapped {
                number.reverse();
            }
            let (bytes, fits) = convert(T::of(number));
            good &= fits;
            slot.copy_from_slice(&bytes.map(MaybeUninit::new));
        }
        good
    }
}

/// Converts contiguous numbers, without a branch. Returns false if `convert` has refused one of
/// them.
#[inline(always)]
fn run<T: Number<N>, const N: usize, const M: usize, const SWAPPED: bool>(
    source: &[u8],
    target: &mut [MaybeUninit<u8>],
    convert: impl Fn(T) -> ([u8; M], bool),
) -> bool {
    let mut good = true;
    for (number, slot) in source.as_chunks::<N>().0.iter().zip(target.as_chunks_mut::<M>().0) {
        let mut number = *number;
        if SWAPPED {
            number.reverse();
        }
        let (bytes, fits) = convert(T::of(number));
        good &= fits;
        *slot = bytes.map(MaybeUninit::new);
    }
    good
}

/// Does the same as [`run`] on processors with AVX2, which swap bytes of eight numbers at once.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn run_wide<T: Number<N>, const N: usize, const M: usize, const SWAPPED: bool>(
    source: &[u8],
    target: &mut [MaybeUninit<u8>],
    convert: impl Fn(T) -> ([u8; M], bool),
) -> bool {
    run::<T, N, M, SWAPPED>(source, target, convert)
}

/// Calls [`run_wide`] if this processor has AVX2, and otherwise [`run`].
#[inline(always)]
fn run_widest<T: Number<N>, const N: usize, const M: usize, const SWAPPED: bool>(
    source: &[u8],
    target: &mut [MaybeUninit<u8>],
    convert: impl Fn(T) -> ([u8; M], bool),
) -> bool {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") {
        // SAFETY: the function is compiled for AVX2, and the check above has shown that the
        // processor has AVX2. Tests: property/test_safe_path_arrays.py. Benchmark:
        // "value: vector<float, 1536>, float32 ndarray".
        return unsafe { run_wide::<T, N, M, SWAPPED>(source, target, convert) };
    }
    run::<T, N, M, SWAPPED>(source, target, convert)
}

/// Reverses the bytes of each number.
#[inline(always)]
fn swap<const N: usize>(numbers: &[u8], target: &mut [MaybeUninit<u8>]) {
    for (number, slot) in numbers.as_chunks::<N>().0.iter().zip(target.as_chunks_mut::<N>().0) {
        let mut number = *number;
        number.reverse();
        *slot = number.map(MaybeUninit::new);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn swap_wide<const N: usize>(numbers: &[u8], target: &mut [MaybeUninit<u8>]) {
    swap::<N>(numbers, target);
}

/// Converts big-endian numbers to the machine's byte order.
fn to_native<const N: usize>(numbers: &[u8], target: &mut [MaybeUninit<u8>]) {
    if cfg!(target_endian = "big") {
        for (byte, slot) in numbers.iter().zip(target) {
            slot.write(*byte);
        }
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") {
        // SAFETY: the function is compiled for AVX2, and the check above has shown that the
        // processor has AVX2. Tests: property/test_safe_path_decode.py (test_arrays). Benchmark:
        // "decode: vector<float, 1536> to NumPy".
        return unsafe { swap_wide::<N>(numbers, target) };
    }
    swap::<N>(numbers, target);
}
