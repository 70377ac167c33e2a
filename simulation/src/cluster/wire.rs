//! The server's side of the native protocol, version 4: reads requests, writes responses.

use std::net::SocketAddr;

use turbocql_codec::types::inet;

pub const HEADER: usize = 9;

pub mod opcode {
    pub const ERROR: u8 = 0x00;
    pub const STARTUP: u8 = 0x01;
    pub const READY: u8 = 0x02;
    pub const AUTHENTICATE: u8 = 0x03;
    pub const OPTIONS: u8 = 0x05;
    pub const SUPPORTED: u8 = 0x06;
    pub const QUERY: u8 = 0x07;
    pub const RESULT: u8 = 0x08;
    pub const PREPARE: u8 = 0x09;
    pub const EXECUTE: u8 = 0x0a;
    pub const REGISTER: u8 = 0x0b;
    pub const EVENT: u8 = 0x0c;
    pub const BATCH: u8 = 0x0d;
    pub const AUTH_RESPONSE: u8 = 0x0f;
    pub const AUTH_SUCCESS: u8 = 0x10;
}

/// Returns how many of `replicas` replicas must answer at a consistency level.
pub fn required(consistency: u16, replicas: usize) -> usize {
    match consistency {
        0x0001 | 0x000a => 1,
        0x0005 => replicas,
        _ => replicas / 2 + 1,
    }
}

/// Reads the body of a request. A body that ends early is a defect of the client: the model panics,
/// which ends the run with a report.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> &'a [u8] {
        let (head, rest) = self.0.split_at(length);
        self.0 = rest;
        head
    }

    pub fn texts(&mut self) -> Vec<&'a str> {
        let count = self.u16();
        let text = |_| std::str::from_utf8(self.short_bytes()).unwrap();
        (0..count).map(text).collect()
    }

    pub fn u8(&mut self) -> u8 {
        self.take(1)[0]
    }

    pub fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.take(2).try_into().unwrap())
    }

    pub fn i32(&mut self) -> i32 {
        i32::from_be_bytes(self.take(4).try_into().unwrap())
    }

    pub fn i64(&mut self) -> i64 {
        i64::from_be_bytes(self.take(8).try_into().unwrap())
    }

    pub fn short_bytes(&mut self) -> &'a [u8] {
        let length = self.u16();
        self.take(length.into())
    }

    pub fn long_text(&mut self) -> &'a str {
        let length = self.i32() as usize;
        std::str::from_utf8(self.take(length)).unwrap()
    }

    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.i32();
        (length >= 0).then(|| self.take(length as usize))
    }

    /// Reads the values of bind markers.
    pub fn values(&mut self) -> Vec<Option<Vec<u8>>> {
        let count = self.u16();
        (0..count).map(|_| self.bytes().map(<[u8]>::to_vec)).collect()
    }

    /// Reads the parameters of a QUERY, an EXECUTE or a BATCH. The parameters of a BATCH contain no
    /// values.
    pub fn parameters(&mut self) -> Parameters {
        let consistency = self.u16();
        let flags = self.u8();
        let mut parameters = Parameters {
            consistency,
            values: Vec::new(),
            page_size: None,
            paging: None,
            timestamp: None,
        };
        if flags & 0x01 != 0 {
            parameters.values = self.values();
        }
        if flags & 0x04 != 0 {
            parameters.page_size = Some(self.i32());
        }
        if flags & 0x08 != 0 {
            parameters.paging = self.bytes().map(<[u8]>::to_vec);
        }
        if flags & 0x10 != 0 {
            self.u16();
        }
        if flags & 0x20 != 0 {
            parameters.timestamp = Some(self.i64());
        }
        parameters
    }
}

#[derive(Clone, Debug)]
pub struct Parameters {
    pub consistency: u16,
    pub values: Vec<Option<Vec<u8>>>,
    pub page_size: Option<i32>,
    pub paging: Option<Vec<u8>>,
    /// The client's write time.
    pub timestamp: Option<i64>,
}

/// Returns the value at `index`, which must be a bigint.
pub fn bigint(values: &[Option<Vec<u8>>], index: usize) -> i64 {
    i64::from_be_bytes(values[index].as_deref().unwrap().try_into().unwrap())
}

/// Makes a frame with this body.
pub fn frame(stream: i16, opcode: u8, body: &[u8]) -> Vec<u8> {
    frame_with(None, stream, opcode, body)
}

/// Makes a frame with this body, and with a custom payload if there is one.
pub fn frame_with(payload: Option<&[u8]>, stream: i16, opcode: u8, body: &[u8]) -> Vec<u8> {
    const CUSTOM_PAYLOAD: u8 = 0x04;
    let mut frame = vec![0x84, if payload.is_some() { CUSTOM_PAYLOAD } else { 0 }];
    let payload = payload.unwrap_or_default();
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.push(opcode);
    frame.extend_from_slice(&((payload.len() + body.len()) as u32).to_be_bytes());
    frame.extend_from_slice(payload);
    frame.extend_from_slice(body);
    frame
}

pub fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u16).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

pub fn put_short_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
    out.extend_from_slice(bytes);
}

pub fn put_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => out.extend_from_slice(&(-1i32).to_be_bytes()),
        Some(bytes) => {
            out.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
            out.extend_from_slice(bytes);
        }
    }
}

pub fn put_address(out: &mut Vec<u8>, at: SocketAddr) {
    let ip = inet_bytes(at.ip());
    out.push(ip.len() as u8);
    out.extend_from_slice(&ip);
    out.extend_from_slice(&i32::from(at.port()).to_be_bytes());
}

pub fn inet_bytes(ip: std::net::IpAddr) -> Vec<u8> {
    let mut bytes = Vec::new();
    inet::encode(ip, &mut bytes);
    bytes
}

/// The types of the columns in the model.
#[derive(Clone, Copy, Debug)]
pub enum Type {
    Bigint,
    Boolean,
    Int,
    Text,
    Uuid,
    Inet,
    Texts,
    TextMap,
}

impl Type {
    fn put(self, out: &mut Vec<u8>) {
        let ids: &[u16] = match self {
            Type::Bigint => &[0x02],
            Type::Boolean => &[0x04],
            Type::Int => &[0x09],
            Type::Text => &[0x0d],
            Type::Uuid => &[0x0c],
            Type::Inet => &[0x10],
            Type::Texts => &[0x22, 0x0d],
            Type::TextMap => &[0x21, 0x0d, 0x0d],
        };
        for id in ids {
            out.extend_from_slice(&id.to_be_bytes());
        }
    }
}

/// A result's columns.
pub type Columns = Vec<(String, Type)>;
/// A row's cells.
pub type Row = Vec<Option<Vec<u8>>>;

fn put_columns(out: &mut Vec<u8>, table: (&str, &str), columns: &Columns) {
    if !columns.is_empty() {
        put_text(out, table.0);
        put_text(out, table.1);
    }
    for (name, of) in columns {
        put_text(out, name);
        of.put(out);
    }
}

/// Writes the metadata of bind markers or of a result.
fn put_metadata(
    out: &mut Vec<u8>,
    table: (&str, &str),
    columns: &Columns,
    partition_key: Option<&[u16]>,
    paging: Option<&[u8]>,
) {
    let global = i32::from(!columns.is_empty());
    let flags = global | i32::from(paging.is_some()) << 1;
    out.extend_from_slice(&flags.to_be_bytes());
    out.extend_from_slice(&(columns.len() as i32).to_be_bytes());
    if let Some(partition_key) = partition_key {
        out.extend_from_slice(&(partition_key.len() as i32).to_be_bytes());
        partition_key.iter().for_each(|index| out.extend_from_slice(&index.to_be_bytes()));
    }
    if paging.is_some() {
        put_bytes(out, paging);
    }
    put_columns(out, table, columns);
}

/// Makes the body of a RESULT with rows. `paging` is the paging state, if another page follows.
pub fn rows(
    table: (&str, &str),
    columns: &Columns,
    rows: &[Row],
    paging: Option<&[u8]>,
) -> Vec<u8> {
    let mut body = 2i32.to_be_bytes().to_vec();
    put_metadata(&mut body, table, columns, None, paging);
    body.extend_from_slice(&(rows.len() as i32).to_be_bytes());
    rows.iter().flatten().for_each(|cell| put_bytes(&mut body, cell.as_deref()));
    body
}

/// Makes the body of the RESULT that answers a PREPARE.
pub fn prepared(
    id: &[u8],
    table: (&str, &str),
    markers: &Columns,
    partition_key: &[u16],
    columns: &Columns,
) -> Vec<u8> {
    let mut body = 4i32.to_be_bytes().to_vec();
    put_short_bytes(&mut body, id);
    put_metadata(&mut body, table, markers, Some(partition_key), None);
    put_metadata(&mut body, table, columns, None, None);
    body
}

/// Writes the description of a created table, which ends both the body of the RESULT and the body
/// of the EVENT. In the RESULT, the kind of the result precedes it. In the EVENT, the name of the
/// event precedes it.
pub fn put_created(out: &mut Vec<u8>, table: &str) {
    ["CREATED", "TABLE", "sim", table].iter().for_each(|text| put_text(out, text));
}

/// Makes the frame of an EVENT about a node.
pub fn node_event(name: &str, change: &str, at: SocketAddr) -> Vec<u8> {
    let mut body = Vec::new();
    put_text(&mut body, name);
    put_text(&mut body, change);
    put_address(&mut body, at);
    frame(-1, opcode::EVENT, &body)
}

/// Makes the frame of an EVENT about a created table.
pub fn schema_event(table: &str) -> Vec<u8> {
    let mut body = Vec::new();
    put_text(&mut body, "SCHEMA_CHANGE");
    put_created(&mut body, table);
    frame(-1, opcode::EVENT, &body)
}

/// Makes the body of an ERROR.
pub fn error(code: i32, message: &str, more: &[u8]) -> Vec<u8> {
    let mut body = code.to_be_bytes().to_vec();
    put_text(&mut body, message);
    body.extend_from_slice(more);
    body
}
