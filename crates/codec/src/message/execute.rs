//! EXECUTE: a prepared statement's id and values. See native_protocol_v5.spec, section 4.1.6.

use super::body::{Body, body_size, short_size};
use super::query::Parameters;
use super::{Message, MessageError, Reason, Version, since};

/// A prepared statement with values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Execute<'a> {
    pub query_id: &'a [u8],
    /// The id of the result metadata that the client knows. Version 5 requires this id, and the
    /// extension `metadata_ids` requires it in every version. Without the extension, versions
    /// before 5 cannot carry the id.
    pub result_metadata_id: Option<&'a [u8]>,
    pub extensions: Extensions,
    pub parameters: Parameters<'a>,
}

/// The protocol extensions of ScyllaDB that change an EXECUTE. They are in force on a connection
/// whose STARTUP asked for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extensions {
    /// `SCYLLA_USE_METADATA_ID`: the message has a result metadata id in every version.
    pub metadata_ids: bool,
    /// `TABLETS_ROUTING_V2_EXPERIMENTAL`: the last byte of the message. It has four bits of the
    /// tablet version that the client knows, and the position of these bits in the version. `None`
    /// if the extension is not in force.
    pub tablet_version: Option<u8>,
}

impl Message for Execute<'_> {
    fn size(&self, version: Version) -> Result<usize, MessageError> {
        let part = "result_metadata_id";
        let mut size = short_size("query_id", self.query_id)?;
        match (self.result_metadata_id, version) {
            (Some(id), _) => {
                if !self.extensions.metadata_ids {
                    since(part, Version::V5, version)?;
                }
                size += short_size(part, id)?;
            }
            (None, Version::V3 | Version::V4) if !self.extensions.metadata_ids => {}
            (None, _) => return Err(Reason::Missing { part, got: version }.into()),
        }
        size += u64::from(self.extensions.tablet_version.is_some());
        body_size(size + self.parameters.size(version)?)
    }

    fn write(&self, version: Version, body: &mut impl Body) {
        body.short_bytes(self.query_id);
        if let Some(id) = self.result_metadata_id {
            body.short_bytes(id);
        }
        self.parameters.write(version, body);
        if let Some(version) = self.extensions.tablet_version {
            body.byte(version);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Consistency, Settings, Values};
    use super::*;
    use crate::row::Cell;

    fn execute<'a>(id: &'a [u8], result_metadata_id: Option<&'a [u8]>) -> Execute<'a> {
        let values = Values::Positional(&[Cell::Value(b"v"), Cell::Null]);
        let parameters = Parameters::new(values, Settings::new(Consistency::LocalOne));
        Execute { query_id: id, result_metadata_id, extensions: Extensions::default(), parameters }
    }

    #[test]
    fn metadata_ids_are_in_every_version_where_the_extension_is_in_force() {
        let extensions = Extensions { metadata_ids: true, tablet_version: None };
        for (version, flags) in [
            (Version::V3, b"\x01".as_slice()),
            (Version::V4, b"\x01"),
            (Version::V5, b"\0\0\0\x01"),
        ] {
            let with_id = Execute { extensions, ..execute(b"id", Some(b"rmi")) };
            let values = b"\0\x02\0\0\0\x01v\xff\xff\xff\xff".as_slice();
            assert_eq!(
                with_id.encode(version).unwrap(),
                [b"\0\x02id\0\x03rmi\0\x0a".as_slice(), flags, values].concat()
            );
            assert_eq!(
                Execute { extensions, ..execute(b"id", None) }.encode(version).unwrap_err().reason,
                Reason::Missing { part: "result_metadata_id", got: version }
            );
        }
    }

    #[test]
    fn the_byte_of_a_tablet_is_the_last() {
        for version in [Version::V3, Version::V4] {
            let plain = execute(b"id", None);
            let extensions = Extensions { metadata_ids: false, tablet_version: Some(0xa7) };
            let mut bytes = plain.encode(version).unwrap();
            bytes.push(0xa7);
            assert_eq!(Execute { extensions, ..plain }.encode(version).unwrap(), bytes);
        }
    }

    #[test]
    fn one_id_before_version_5_and_two_in_it() {
        let values = b"\0\x02\0\0\0\x01v\xff\xff\xff\xff".as_slice();
        for version in [Version::V3, Version::V4] {
            assert_eq!(
                execute(b"id", None).encode(version).unwrap(),
                [b"\0\x02id\0\x0a\x01".as_slice(), values].concat()
            );
        }
        assert_eq!(
            execute(b"id", Some(b"rmi")).encode(Version::V5).unwrap(),
            [b"\0\x02id\0\x03rmi\0\x0a\0\0\0\x01".as_slice(), values].concat()
        );
    }

    #[test]
    fn the_second_id_belongs_to_version_5() {
        assert_eq!(
            execute(b"id", None).encode(Version::V5).unwrap_err().to_string(),
            "protocol version 5 needs result_metadata_id"
        );
        assert_eq!(
            execute(b"id", Some(b"")).encode(Version::V4).unwrap_err().to_string(),
            "result_metadata_id needs protocol version 5, got 4"
        );
    }

    #[test]
    fn bounds() {
        let long = vec![7; 65_536];
        assert_eq!(
            execute(&long, None).encode(Version::V4).unwrap_err().to_string(),
            "query_id of 65536 bytes: at most 65535 can be sent"
        );
        assert_eq!(
            execute(b"", Some(&long)).encode(Version::V5).unwrap_err().to_string(),
            "result_metadata_id of 65536 bytes: at most 65535 can be sent"
        );
        assert!(execute(&long[1..], None).encode(Version::V4).is_ok());
    }
}
