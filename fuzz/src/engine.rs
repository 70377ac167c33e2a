//! Fuzzes the parsers of responses in the ScyllaDB driver's crates, which are built with `edits/`.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use scylla_cql::deserialize::row::ColumnIterator;
use scylla_cql::frame::protocol_features::ProtocolFeatures;
use scylla_cql::frame::response::result::ResultWithDeserializedMetadata;
use scylla_cql::frame::response::{Response, ResponseOpcode, ResponseWithDeserializedMetadata};
use scylla_cql::frame::{
    Compression, parse_response_body_extensions_within, read_response_frame_within,
};

/// The maximum length in bytes of a body that is read or decompressed.
const MAX_BYTES: usize = 1 << 20;
/// The opcodes of all responses.
const OPCODES: [u8; 8] = [0x00, 0x02, 0x03, 0x06, 0x08, 0x0c, 0x0e, 0x10];

/// Parses `data` as a body. The first byte chooses the opcode. The second byte chooses the frame's
/// flags, the compression, and whether ScyllaDB's extension for metadata ids is in force.
pub fn response(data: &[u8]) {
    let [opcode, flags, body @ ..] = data else { return };
    let Ok(opcode) = ResponseOpcode::try_from(OPCODES[usize::from(opcode % 8)]) else { return };
    let compression = if flags & 0x10 == 0 { Compression::Lz4 } else { Compression::Snappy };
    let mut features = ProtocolFeatures::default();
    features.scylla_metadata_id_supported = flags & 0x20 != 0;
    let body = Bytes::copy_from_slice(body);
    let Ok(parsed) =
        parse_response_body_extensions_within(flags & 0x0f, Some(compression), body, MAX_BYTES)
    else {
        return;
    };
    read(&features, opcode, parsed.body);
}

/// Parses `data` as the name of a custom type, in a result whose only column has that type.
pub fn custom_type(data: &[u8]) {
    let Ok(length) = u16::try_from(data.len()) else { return };
    let mut body = b"\0\0\0\x02\0\0\0\x01\0\0\0\x01\0\x01k\0\x01t\0\x01c\0\0".to_vec();
    body.extend(length.to_be_bytes());
    body.extend(data);
    body.extend([0; 4]);
    read(&ProtocolFeatures::default(), ResponseOpcode::Result, body.into());
}

/// Reads `data` as frames, one after another, and parses the body of each complete frame.
pub fn frames(mut data: &[u8]) {
    loop {
        let before = data.len();
        let frame = {
            let frame = pin!(read_response_frame_within(&mut data, MAX_BYTES));
            // Reading a slice never waits.
            let mut context = Context::from_waker(Waker::noop());
            let Poll::Ready(frame) = frame.poll(&mut context) else { return };
            frame
        };
        let Ok((head, opcode, body)) = frame else { return };
        assert!(body.len() <= MAX_BYTES && data.len() < before);
        let lz4 = Some(Compression::Lz4);
        if let Ok(parsed) = parse_response_body_extensions_within(head.flags, lz4, body, MAX_BYTES)
        {
            read(&ProtocolFeatures::default(), opcode, parsed.body);
        }
    }
}

fn read(features: &ProtocolFeatures, opcode: ResponseOpcode, body: Bytes) {
    let Ok(response) = Response::deserialize(features, opcode, body, None) else { return };
    let Ok(response) = response.deserialize_metadata() else { return };
    let ResponseWithDeserializedMetadata::Result(ResultWithDeserializedMetadata::Rows((rows, _))) =
        response
    else {
        return;
    };
    let Ok(rows) = rows.rows_iter::<ColumnIterator>() else { return };
    for row in rows.take(100) {
        let Ok(row) = row else { return };
        if row.into_iter().any(|cell| cell.is_err()) {
            return;
        }
    }
}
