//! Stand-ins for methods of the driver's `SegmentCodec`, which packs frames into segments and
//! unpacks them. Only protocol version 5 has segments.

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCFunction, PyDict, PyInt, PySlice, PyType};
use turbocql_codec::message::Body;
use turbocql_codec::segment::{Format, Header, MAX_PAYLOAD, TRAILER, payload_crc};

use super::counts::Counts;
use crate::ffi::call::{self, StandIn};
use turbocql_values::ffi::bytes;

/// Stands in for one of `encode(buffer, msg)`, `decode_header(buffer)`, `decode(buffer, header)`.
#[pyclass(frozen, module = "turbocql._core")]
pub struct SegmentStandIn {
    original: Py<PyAny>,
    /// Only instances of exactly this class are handled natively: a subclass may override any step.
    class: Py<PyType>,
    kind: Kind,
    /// The only class of buffers that is handled natively. Such a buffer can seek back after reads.
    buffer: Py<PyType>,
    /// The driver's class of the results; None for `encode`, which returns nothing.
    decoded_class: Option<Py<PyType>>,
    counts: Counts,
}

#[derive(Clone, Copy)]
enum Kind {
    Encode,
    DecodeHeader,
    Decode,
}

#[pymethods]
impl SegmentStandIn {
    #[new]
    fn new(
        original: Py<PyAny>,
        owner: Py<PyType>,
        name: &str,
        buffer: Py<PyType>,
        decoded_class: Option<Py<PyType>>,
    ) -> PyResult<SegmentStandIn> {
        let kind = match name {
            "encode" => Kind::Encode,
            "decode_header" => Kind::DecodeHeader,
            "decode" => Kind::Decode,
            _ => return Err(PyValueError::new_err(format!("unknown function: {name:?}"))),
        };
        let counts = Counts::default();
        Ok(SegmentStandIn { original, class: owner, kind, buffer, decoded_class, counts })
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

/// The compression functions of a codec, and the format of its segments.
pub struct Compression<'py> {
    pub format: Format,
    compressor: Bound<'py, PyAny>,
    pub decompressor: Bound<'py, PyAny>,
}

impl<'py> Compression<'py> {
    /// Returns None unless the codec's instance attributes are exactly its two compression
    /// functions. Any other attribute may shadow a method of the codec.
    pub fn of(codec: &Bound<'py, PyAny>) -> PyResult<Option<Compression<'py>>> {
        let py = codec.py();
        let attributes = codec.getattr(pyo3::intern!(py, "__dict__"))?;
        let Ok(attributes) = attributes.cast_into_exact::<PyDict>() else { return Ok(None) };
        let (Some(compressor), Some(decompressor)) = (
            attributes.get_item(pyo3::intern!(py, "compressor"))?,
            attributes.get_item(pyo3::intern!(py, "decompressor"))?,
        ) else {
            return Ok(None);
        };
        if attributes.len() != 2 {
            return Ok(None);
        }
        let both = compressor.is_truthy()? && decompressor.is_truthy()?;
        let format = if both { Format::Compressed } else { Format::Plain };
        Ok(Some(Compression { format, compressor, decompressor }))
    }

    /// Makes one segment. If the compressor's result is not an exact `bytes`, the inner `Err`
    /// contains the compressor's result.
    fn segment(
        &self,
        payload: &Bound<'py, PyBytes>,
        is_self_contained: bool,
    ) -> PyResult<Result<Bound<'py, PyBytes>, Bound<'py, PyAny>>> {
        let (py, plain) = (payload.py(), payload.as_bytes());
        if self.format == Format::Plain {
            return written(py, self.format, plain, 0, is_self_contained).map(Ok);
        }
        // The first four bytes of the compressor's result are the uncompressed length. They are not
        // sent, because the header contains this length.
        let compressor_result = self.compressor.call1((payload,))?;
        let compressor_result = match compressor_result.cast_into_exact::<PyBytes>() {
            Ok(compressor_result) => compressor_result,
            Err(odd) => return Ok(Err(odd.into_inner())),
        };
        let compressed = compressor_result.as_bytes().get(4..).unwrap_or_default();
        if compressed.len() >= plain.len() {
            return written(py, self.format, plain, 0, is_self_contained).map(Ok);
        }
        written(py, self.format, compressed, plain.len() as u32, is_self_contained).map(Ok)
    }
}

fn written<'py>(
    py: Python<'py>,
    format: Format,
    payload: &[u8],
    uncompressed: u32,
    is_self_contained: bool,
) -> PyResult<Bound<'py, PyBytes>> {
    let length = payload.len() as u32;
    let header = Header { length, uncompressed, is_self_contained }.bytes(format);
    let width = format.header();
    let segment = bytes::build(py, width + payload.len() + TRAILER, |segment| {
        segment.put(&header[..width]);
        segment.put(payload);
        segment.put(&payload_crc(payload).to_le_bytes());
        true
    })?;
    segment.ok_or_else(|| PyRuntimeError::new_err("a segment was not filled to its length"))
}

/// Reads `count` bytes of a buffer. If the buffer has fewer, seeks back and returns None. Also
/// returns None if `read` does not return an exact `bytes`.
fn read<'py>(buffer: &Bound<'py, PyAny>, count: usize) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let py = buffer.py();
    let data = buffer.call_method1(pyo3::intern!(py, "read"), (count,))?;
    let Ok(data) = data.cast_into_exact::<PyBytes>() else { return Ok(None) };
    if data.as_bytes().len() == count {
        return Ok(Some(data));
    }
    back(buffer, data.as_bytes().len())?;
    Ok(None)
}

fn back(buffer: &Bound<'_, PyAny>, count: usize) -> PyResult<()> {
    buffer.call_method1(pyo3::intern!(buffer.py(), "seek"), (-(count as isize), 1))?;
    Ok(())
}

impl SegmentStandIn {
    /// Writes a message as segments. Returns whether all segments were made natively, or None if
    /// nothing was written.
    fn encode(
        codec: &Bound<'_, PyAny>,
        buffer: &Bound<'_, PyAny>,
        message: &Bound<'_, PyAny>,
    ) -> PyResult<Option<bool>> {
        let py = codec.py();
        let Ok(message) = message.cast_exact::<PyBytes>() else { return Ok(None) };
        if Compression::of(codec)?.is_none() {
            return Ok(None);
        }
        let length = message.as_bytes().len();
        if length <= MAX_PAYLOAD {
            return Self::encode_segment(codec, buffer, message, true).map(Some);
        }
        let mut all = true;
        for start in (0..length).step_by(MAX_PAYLOAD) {
            let end = length.min(start + MAX_PAYLOAD);
            let part = PySlice::new(py, start as isize, end as isize, 1);
            let part = message.as_any().get_item(part)?.cast_into()?;
            all &= Self::encode_segment(codec, buffer, &part, false)?;
        }
        Ok(Some(all))
    }

    /// Writes one segment. Returns false if the driver's `_encode_segment` wrote the segment.
    fn encode_segment<'py>(
        codec: &Bound<'py, PyAny>,
        buffer: &Bound<'py, PyAny>,
        payload: &Bound<'py, PyBytes>,
        is_self_contained: bool,
    ) -> PyResult<bool> {
        let py = codec.py();
        let mut segment_codec = codec.clone();
        if let Some(compression) = Compression::of(codec)? {
            match compression.segment(payload, is_self_contained)? {
                Ok(segment) => {
                    buffer.call_method1(pyo3::intern!(py, "write"), (segment,))?;
                    return Ok(true);
                }
                Err(odd) => {
                    // The driver's `_encode_segment` handles a result that is not an exact `bytes`.
                    // It is called on a second codec, whose compressor returns `odd`, so that
                    // nothing is compressed twice.
                    let odd = odd.unbind();
                    let compressor =
                        PyCFunction::new_closure(py, None, None, move |arguments, _| {
                            odd.clone_ref(arguments.py())
                        })?;
                    segment_codec =
                        codec.get_type().call1((compressor, compression.decompressor))?;
                }
            }
        }
        let encode_segment = pyo3::intern!(py, "_encode_segment");
        segment_codec.call_method1(encode_segment, (buffer, payload, is_self_contained))?;
        Ok(false)
    }

    fn decode_header<'py>(
        codec: &Bound<'py, PyAny>,
        buffer: &Bound<'py, PyAny>,
        class: &Bound<'py, PyType>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(Compression { format, .. }) = Compression::of(codec)? else { return Ok(None) };
        let Some(data) = read(buffer, format.header())? else { return Ok(None) };
        let Some(header) = Header::read(format, data.as_bytes()) else {
            back(buffer, format.header())?;
            return Ok(None);
        };
        let uncompressed = match format {
            Format::Plain => -1,
            Format::Compressed => i64::from(header.uncompressed),
        };
        class.call1((header.length, uncompressed, header.is_self_contained)).map(Some)
    }

    fn decode<'py>(
        codec: &Bound<'py, PyAny>,
        buffer: &Bound<'py, PyAny>,
        header: &Bound<'py, PyAny>,
        class: &Bound<'py, PyType>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = codec.py();
        let Some(compression) = Compression::of(codec)? else { return Ok(None) };
        let number = |name| -> PyResult<Option<i64>> {
            let number = header.getattr(name)?;
            Ok(number.cast_exact::<PyInt>().ok().and_then(|number| number.extract().ok()))
        };
        let length = number(pyo3::intern!(py, "payload_length"))?;
        let Some(length) = length.and_then(|length| usize::try_from(length).ok()) else {
            return Ok(None);
        };
        let Some(payload) = read(buffer, length)? else { return Ok(None) };
        let Some(crc) = read(buffer, TRAILER)? else {
            back(buffer, length)?;
            return Ok(None);
        };
        if crc.as_bytes() != payload_crc(payload.as_bytes()).to_le_bytes() {
            back(buffer, length + TRAILER)?;
            return Ok(None);
        }
        let mut payload = payload.into_any();
        if compression.format == Format::Compressed {
            // As in the driver, this attribute is looked up after the payload was read.
            let before = number(pyo3::intern!(py, "uncompressed_payload_length"))?;
            let Some(before) = before.and_then(|before| i32::try_from(before).ok()) else {
                back(buffer, length + TRAILER)?;
                return Ok(None);
            };
            if before > 0 {
                let compressed = payload.cast::<PyBytes>()?.as_bytes();
                let prefixed = bytes::build(py, 4 + compressed.len(), |prefixed| {
                    prefixed.put(&before.to_be_bytes());
                    prefixed.put(compressed);
                    true
                })?;
                payload = compression.decompressor.call1((prefixed,))?;
            }
        }
        let is_self_contained = header.getattr(pyo3::intern!(py, "is_self_contained"))?;
        class.call1((payload, is_self_contained)).map(Some)
    }
}

impl StandIn for SegmentStandIn {
    fn call<'py>(
        this: &Bound<'py, Self>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (stand_in, py) = (this.get(), this.py());
        let [codec, parameters @ ..] = arguments else { return Ok(None) };
        let [buffer, ..] = parameters else { return Ok(None) };
        if !codec.get_type().is(&stand_in.class) || !buffer.get_type().is(&stand_in.buffer) {
            return Ok(None);
        }
        let decoded_class = stand_in.decoded_class.as_ref().map(|class| class.bind(py));
        let result = match (stand_in.kind, parameters, decoded_class) {
            (Kind::Encode, [buffer, message], _) => {
                let Some(all) = Self::encode(codec, buffer, message)? else { return Ok(None) };
                if !all {
                    stand_in.counts.fallback();
                    return Ok(Some(py.None().into_bound(py)));
                }
                Some(py.None().into_bound(py))
            }
            (Kind::DecodeHeader, [buffer], Some(class)) => {
                Self::decode_header(codec, buffer, class)?
            }
            (Kind::Decode, [buffer, header], Some(class)) => {
                Self::decode(codec, buffer, header, class)?
            }
            _ => None,
        };
        if result.is_some() {
            stand_in.counts.native();
        }
        Ok(result)
    }

    fn original<'a>(this: &'a Bound<'_, Self>) -> &'a Py<PyAny> {
        let stand_in = this.get();
        stand_in.counts.fallback();
        &stand_in.original
    }
}
