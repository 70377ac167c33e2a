//! The driver's `SegmentCodec`, which puts frames into segments and takes them out again: protocol
//! version 5.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PySlice, PyType};
use turbocql_codec::message::Body;
use turbocql_codec::segment::{Format, Header, MOST, TRAILER, payload_crc};

use super::Counts;
use super::method::StandInMethod;
use crate::ffi::bytes;
use crate::ffi::call::{self, StandIn};

/// Stands in for one of `encode(buffer, msg)`, `decode_header(buffer)`, `decode(buffer, header)`.
#[pyclass(frozen, module = "turbocql._core")]
pub struct SegmentStandIn {
    original: Py<PyAny>,
    /// The class itself; those derived from it may do otherwise.
    class: Py<PyType>,
    kind: Kind,
    /// The class of buffers that can be read and put back.
    buffer: Py<PyType>,
    /// The driver's class of what is given back, if anything is.
    made: Option<Py<PyType>>,
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
        made: Option<Py<PyType>>,
    ) -> PyResult<SegmentStandIn> {
        let kind = match name {
            "encode" => Kind::Encode,
            "decode_header" => Kind::DecodeHeader,
            "decode" => Kind::Decode,
            _ => return Err(PyValueError::new_err(format!("unknown function: {name:?}"))),
        };
        let counts = Counts::default();
        Ok(SegmentStandIn { original, class: owner, kind, buffer, made, counts })
    }

    /// What takes the method's place; `doc` begins with its parameters.
    fn function<'py>(this: &Bound<'py, Self>, doc: &str) -> PyResult<Bound<'py, PyAny>> {
        let name = match this.get().kind {
            Kind::Encode => c"encode",
            Kind::DecodeHeader => c"decode_header",
            Kind::Decode => c"decode",
        };
        StandInMethod::make(&call::function(this, name, doc)?, &this.get().original)
    }

    /// How often it was native, and how often the original's.
    fn counts(&self) -> (u64, u64) {
        self.counts.get()
    }
}

/// What a codec compresses with.
struct Compression<'py> {
    format: Format,
    compressor: Bound<'py, PyAny>,
    decompressor: Bound<'py, PyAny>,
}

impl<'py> Compression<'py> {
    fn of(codec: &Bound<'py, PyAny>) -> PyResult<Compression<'py>> {
        let py = codec.py();
        let compressor = codec.getattr(pyo3::intern!(py, "compressor"))?;
        let decompressor = codec.getattr(pyo3::intern!(py, "decompressor"))?;
        let both = compressor.is_truthy()? && decompressor.is_truthy()?;
        let format = if both { Format::Compressed } else { Format::Plain };
        Ok(Compression { format, compressor, decompressor })
    }

    /// One segment; nothing where the compressor gives something odd.
    fn segment(
        &self,
        payload: &Bound<'py, PyBytes>,
        is_self_contained: bool,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let (py, plain) = (payload.py(), payload.as_bytes());
        if self.format == Format::Plain {
            return written(py, self.format, plain, 0, is_self_contained);
        }
        // Its own first four bytes say the length, which the header does.
        let given = self.compressor.call1((payload,))?;
        let Ok(given) = given.cast_into_exact::<PyBytes>() else { return Ok(None) };
        let compressed = given.as_bytes().get(4..).unwrap_or_default();
        if compressed.len() >= plain.len() {
            return written(py, self.format, plain, 0, is_self_contained);
        }
        written(py, self.format, compressed, plain.len() as u32, is_self_contained)
    }
}

fn written<'py>(
    py: Python<'py>,
    format: Format,
    payload: &[u8],
    uncompressed: u32,
    is_self_contained: bool,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let length = payload.len() as u32;
    let header = Header { length, uncompressed, is_self_contained }.bytes(format);
    let width = format.header();
    bytes::build(py, width + payload.len() + TRAILER, |segment| {
        segment.put(&header[..width]);
        segment.put(payload);
        segment.put(&payload_crc(payload).to_le_bytes());
        true
    })
}

/// As many bytes of a buffer of the driver's, or nothing and the buffer as it was.
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
    /// Whether it was done.
    fn encode(
        codec: &Bound<'_, PyAny>,
        buffer: &Bound<'_, PyAny>,
        message: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let py = codec.py();
        let Ok(message) = message.cast_exact::<PyBytes>() else { return Ok(false) };
        let with = Compression::of(codec)?;
        let (length, write) = (message.as_bytes().len(), pyo3::intern!(py, "write"));
        if length <= MOST {
            let Some(segment) = with.segment(message, true)? else { return Ok(false) };
            buffer.call_method1(write, (segment,))?;
            return Ok(true);
        }
        // All of them before the first is written: the driver's own begins from the beginning.
        let mut segments = Vec::with_capacity(length.div_ceil(MOST));
        for start in (0..length).step_by(MOST) {
            let end = length.min(start + MOST);
            let part =
                message.as_any().get_item(PySlice::new(py, start as isize, end as isize, 1))?;
            let Some(segment) = with.segment(&part.cast_into()?, false)? else { return Ok(false) };
            segments.push(segment);
        }
        for segment in segments {
            buffer.call_method1(write, (segment,))?;
        }
        Ok(true)
    }

    fn decode_header<'py>(
        codec: &Bound<'py, PyAny>,
        buffer: &Bound<'py, PyAny>,
        class: &Bound<'py, PyType>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let format = Compression::of(codec)?.format;
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
        let number = |name| -> PyResult<Option<i64>> {
            let given = header.getattr(name)?;
            Ok(given.cast_exact::<PyInt>().ok().and_then(|given| given.extract().ok()))
        };
        let length = number(pyo3::intern!(py, "payload_length"))?;
        let Some(length) = length.and_then(|length| usize::try_from(length).ok()) else {
            return Ok(None);
        };
        let Some(uncompressed) = number(pyo3::intern!(py, "uncompressed_payload_length"))? else {
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
        let with = Compression::of(codec)?;
        if with.format == Format::Compressed && uncompressed > 0 {
            let Ok(before) = i32::try_from(uncompressed) else {
                back(buffer, length + TRAILER)?;
                return Ok(None);
            };
            let compressed = payload.cast::<PyBytes>()?.as_bytes();
            let whole = bytes::build(py, 4 + compressed.len(), |whole| {
                whole.put(&before.to_be_bytes());
                whole.put(compressed);
                true
            })?;
            payload = with.decompressor.call1((whole,))?;
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
        let [codec, rest @ ..] = arguments else { return Ok(None) };
        let [buffer, ..] = rest else { return Ok(None) };
        if !codec.get_type().is(&stand_in.class) || !buffer.get_type().is(&stand_in.buffer) {
            return Ok(None);
        }
        let made = stand_in.made.as_ref().map(|class| class.bind(py));
        let done = match (stand_in.kind, rest, made) {
            (Kind::Encode, [buffer, message], _) => {
                Self::encode(codec, buffer, message)?.then(|| py.None().into_bound(py))
            }
            (Kind::DecodeHeader, [buffer], Some(class)) => {
                Self::decode_header(codec, buffer, class)?
            }
            (Kind::Decode, [buffer, header], Some(class)) => {
                Self::decode(codec, buffer, header, class)?
            }
            _ => None,
        };
        if done.is_some() {
            stand_in.counts.native();
        }
        Ok(done)
    }

    fn original<'a>(this: &'a Bound<'_, Self>) -> &'a Py<PyAny> {
        let stand_in = this.get();
        stand_in.counts.fallback();
        &stand_in.original
    }
}
