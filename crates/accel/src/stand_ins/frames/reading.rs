//! Takes frames out of the bytes that a connection has received.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use turbocql_codec::message::Body;
use turbocql_codec::segment::{Format, Header as SegmentHeader, TRAILER, payload_crc};
use turbocql_values::ffi::bytes;

use super::Frames;
use super::dispatch::Header;
use crate::stand_ins::segment::Compression;

/// The length of the header of a frame, since protocol version 3.
const HEADER: usize = 9;

/// The bytes that a connection has received and not dispatched yet.
struct Received<'py> {
    io: Bound<'py, PyAny>,
    is_segmented: bool,
    /// The bytes from the socket.
    raw: Bound<'py, PyBytes>,
    /// How many bytes of `raw` were consumed.
    raw_used: usize,
    /// The frames that were taken out of segments. Without segments, these are the bytes of `raw`.
    frames: Bound<'py, PyBytes>,
    frames_used: usize,
    frames_changed: bool,
    has_segment: bool,
}

enum Segment {
    Read,
    Incomplete,
    /// The driver must read the segment.
    Odd,
}

impl Frames {
    /// Does what the driver's `process_io_buffer` does. Returns false if that method must be
    /// called.
    pub fn process_io_buffer(&self, connection: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = connection.py();
        if connection.getattr(pyo3::intern!(py, "_current_frame"))?.is_truthy()?
            || self.is_shadowed(connection)?
        {
            return Ok(false);
        }
        let Some(mut received) = self.received(connection)? else { return Ok(false) };
        // The header of the last frame, if its body is not complete.
        let mut incomplete: Option<Header> = None;
        loop {
            if received.is_segmented && received.raw_used < received.raw.as_bytes().len() {
                match received.segment(self, connection)? {
                    Segment::Read => received.has_segment = true,
                    Segment::Incomplete => received.has_segment = false,
                    Segment::Odd => {
                        self.put_back(&received)?;
                        self.process_io_buffer.bind(py).call1((connection,))?;
                        return Ok(true);
                    }
                }
            }
            if received.is_segmented && !received.has_segment {
                break;
            }
            let pending = received.pending();
            let header = match pending.get(..HEADER) {
                None => None,
                Some(bytes) => {
                    let Some(header) = Header::read(bytes) else {
                        self.put_back(&received)?;
                        self.process_io_buffer.bind(py).call1((connection,))?;
                        return Ok(true);
                    };
                    Some(header)
                }
            };
            let frame = header.filter(|header| pending.len() >= HEADER + header.length);
            let Some(header) = frame else {
                incomplete = header;
                if received.is_segmented && received.raw_used < received.raw.as_bytes().len() {
                    continue;
                }
                break;
            };
            incomplete = None;
            let body = PyBytes::new(py, &pending[HEADER..HEADER + header.length]);
            let dispatched =
                self.dispatch(connection, &header, None, &body, || self.put_back(&received));
            if let Err(interrupt) = dispatched {
                self.interrupted(connection, &received, &header)?;
                return Err(interrupt);
            }
            received.consume(HEADER + header.length);
        }
        if let Some(header) = incomplete {
            let frame = self.frame_of(py, &header)?;
            connection.setattr(pyo3::intern!(py, "_current_frame"), frame)?;
        }
        self.put_back(&received)?;
        Ok(true)
    }

    /// Sets a connection's attributes and buffers as the driver leaves them when an error that
    /// is not an `Exception`, such as `KeyboardInterrupt`, ends the callback of a frame.
    fn interrupted(
        &self,
        connection: &Bound<'_, PyAny>,
        received: &Received<'_>,
        header: &Header,
    ) -> PyResult<()> {
        self.put_back(received)?;
        let py = connection.py();
        let frame = self.frame_of(py, header)?;
        connection.setattr(pyo3::intern!(py, "_current_frame"), frame)?;
        let buffer = received.io.getattr(pyo3::intern!(py, "cql_frame_buffer"))?;
        buffer.call_method1(pyo3::intern!(py, "seek"), (HEADER + header.length,)).map(drop)
    }

    /// Whether attributes in the dict of a connection shadow methods of its class.
    fn is_shadowed(&self, connection: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = connection.py();
        let attributes = connection.getattr(pyo3::intern!(py, "__dict__"))?;
        let Ok(attributes) = attributes.cast_into_exact::<PyDict>() else { return Ok(true) };
        for name in [
            pyo3::intern!(py, "process_msg"),
            pyo3::intern!(py, "_read_frame_header"),
            pyo3::intern!(py, "_process_segment_buffer"),
        ] {
            if attributes.contains(name)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the bytes that a connection has received. Returns `None` if its buffers are not as
    /// the driver makes them.
    fn received<'py>(&self, connection: &Bound<'py, PyAny>) -> PyResult<Option<Received<'py>>> {
        let py = connection.py();
        let io = connection.getattr(pyo3::intern!(py, "_io_buffer"))?;
        if !io.get_type().is(&self.io_buffer) {
            return Ok(None);
        }
        let is_segmented =
            connection.getattr(pyo3::intern!(py, "_is_checksumming_enabled"))?.is_truthy()?;
        let Some(raw) = self.contents(&io.getattr(pyo3::intern!(py, "_io_buffer"))?)? else {
            return Ok(None);
        };
        let frames = match is_segmented {
            true => self.contents(&io.getattr(pyo3::intern!(py, "_cql_frame_buffer"))?)?,
            false => Some(raw.clone()),
        };
        let Some(frames) = frames else { return Ok(None) };
        let consumed = io.getattr(pyo3::intern!(py, "_segment_consumed"))?;
        Ok(Some(Received {
            is_segmented,
            raw,
            raw_used: 0,
            frames,
            frames_used: 0,
            frames_changed: false,
            has_segment: consumed.is_truthy()?,
            io,
        }))
    }

    /// Returns the contents of a buffer. The driver leaves the buffer's position at the end.
    /// Returns `None` if the position is elsewhere.
    fn contents<'py>(&self, buffer: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let py = buffer.py();
        if !buffer.get_type().is(&self.bytes_io) {
            return Ok(None);
        }
        let value = buffer.call_method0(pyo3::intern!(py, "getvalue"))?;
        let Ok(value) = value.cast_into_exact::<PyBytes>() else { return Ok(None) };
        let position: usize = buffer.call_method0(pyo3::intern!(py, "tell"))?.extract()?;
        Ok((position == value.as_bytes().len()).then_some(value))
    }

    /// Puts the bytes that were not consumed into the driver's buffers.
    fn put_back(&self, received: &Received<'_>) -> PyResult<()> {
        let (io, py) = (&received.io, received.io.py());
        let buffer = |rest: &[u8]| -> PyResult<Py<PyAny>> {
            let class = self.bytes_io.bind(py);
            if rest.is_empty() {
                return class.call0().map(Bound::unbind);
            }
            let buffer = class.call1((PyBytes::new(py, rest),))?;
            buffer.call_method1(pyo3::intern!(py, "seek"), (0, 2))?;
            Ok(buffer.unbind())
        };
        if received.is_segmented {
            if received.raw_used > 0 {
                let rest = buffer(&received.raw.as_bytes()[received.raw_used..])?;
                io.setattr(pyo3::intern!(py, "_io_buffer"), rest)?;
            }
            io.setattr(pyo3::intern!(py, "_segment_consumed"), received.has_segment)?;
            if received.frames_changed {
                io.setattr(pyo3::intern!(py, "_cql_frame_buffer"), buffer(received.pending())?)?;
            }
        } else if received.frames_changed {
            io.setattr(pyo3::intern!(py, "_io_buffer"), buffer(received.pending())?)?;
        }
        Ok(())
    }
}

impl<'py> Received<'py> {
    /// Returns the bytes of `frames` that were not consumed.
    fn pending(&self) -> &[u8] {
        &self.frames.as_bytes()[self.frames_used..]
    }

    fn consume(&mut self, count: usize) {
        self.frames_used += count;
        self.frames_changed = true;
    }

    /// Reads the next segment.
    fn segment(&mut self, frames: &Frames, connection: &Bound<'py, PyAny>) -> PyResult<Segment> {
        let py = connection.py();
        let codec = connection.getattr(pyo3::intern!(py, "_segment_codec"))?;
        if !codec.get_type().is(&frames.segment_codec) {
            return Ok(Segment::Odd);
        }
        let Some(compression) = Compression::of(&codec)? else { return Ok(Segment::Odd) };
        let (format, raw) = (compression.format, self.raw.clone());
        let unread = &raw.as_bytes()[self.raw_used..];
        let Some(header) = unread.get(..format.header()) else { return Ok(Segment::Incomplete) };
        let Some(header) = SegmentHeader::read(format, header) else { return Ok(Segment::Odd) };
        let (start, length) = (format.header(), header.length as usize);
        let Some(trailer) = unread.get(start + length..start + length + TRAILER) else {
            return Ok(Segment::Incomplete);
        };
        let payload = &unread[start..start + length];
        if trailer != payload_crc(payload).to_le_bytes() {
            return Ok(Segment::Odd);
        }
        let payload = if format == Format::Compressed && header.uncompressed > 0 {
            let prefixed = bytes::build(py, 4 + length, |prefixed| {
                prefixed.put(&header.uncompressed.to_be_bytes());
                prefixed.put(payload);
                true
            })?;
            // If this fails, the driver decompresses the payload again, and handles the error.
            let Ok(payload) = compression.decompressor.call1((prefixed,)) else {
                return Ok(Segment::Odd);
            };
            let Ok(payload) = payload.cast_into_exact::<PyBytes>() else {
                return Ok(Segment::Odd);
            };
            payload
        } else {
            PyBytes::new(py, payload)
        };
        self.raw_used += start + length + TRAILER;
        self.frames = match self.pending() {
            [] => payload,
            pending => PyBytes::new(py, &[pending, payload.as_bytes()].concat()),
        };
        self.frames_used = 0;
        self.frames_changed = true;
        Ok(Segment::Read)
    }
}
