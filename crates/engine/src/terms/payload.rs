//! Custom payloads: maps of bytes that requests and responses have besides their values.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The entries of a custom payload, by name.
pub type Entries = BTreeMap<String, Vec<u8>>;

/// The maximum number of entries of a payload. Payloads may be merged, and the number of entries of
/// the merged payload must fit into 16 bits.
const MAX_ENTRIES: usize = 1000;

/// The custom payload of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomPayload {
    entries: Entries,
    /// The entries as a `[bytes map]` of the protocol.
    encoded: Vec<u8>,
}

impl CustomPayload {
    /// Fails with a message if there are too many entries, or if the protocol cannot write one of
    /// them.
    pub fn new(entries: Entries) -> Result<CustomPayload, String> {
        if entries.len() > MAX_ENTRIES {
            return Err(format!("at most {MAX_ENTRIES} entries, got {}", entries.len()));
        }
        CustomPayload::of(entries)
    }

    /// Returns a payload with the entries of both. The entries of `self` take precedence.
    pub(crate) fn over(&self, other: &CustomPayload) -> CustomPayload {
        let mut entries = other.entries.clone();
        entries.extend(self.entries.iter().map(|(name, value)| (name.clone(), value.clone())));
        // This cannot fail: each entry is within the protocol's limits already.
        CustomPayload::of(entries).unwrap_or_else(|_| self.clone())
    }

    fn of(entries: Entries) -> Result<CustomPayload, String> {
        let count = entries.len() as u16;
        let mut encoded = count.to_be_bytes().to_vec();
        for (name, value) in &entries {
            let name_len = u16::try_from(name.len())
                .map_err(|_| format!("names of at most {} bytes, got {}", u16::MAX, name.len()))?;
            let len = i32::try_from(value.len())
                .map_err(|_| format!("values of at most {} bytes", i32::MAX))?;
            encoded.extend_from_slice(&name_len.to_be_bytes());
            encoded.extend_from_slice(name.as_bytes());
            encoded.extend_from_slice(&len.to_be_bytes());
            encoded.extend_from_slice(value);
        }
        Ok(CustomPayload { entries, encoded })
    }

    pub fn entries(&self) -> &Entries {
        &self.entries
    }

    /// The bytes for the request. Without entries, the request has no custom payload.
    pub(crate) fn encoded(&self) -> Option<&[u8]> {
        (!self.entries.is_empty()).then_some(&self.encoded)
    }
}

/// The custom payloads of a request and of its last response.
#[derive(Debug)]
pub(crate) struct Payloads {
    #[cfg_attr(not(edited_crates), allow(dead_code, reason = "an edit sends payloads"))]
    pub(crate) sent: Arc<CustomPayload>,
    received: Mutex<Option<Box<Entries>>>,
}

impl Payloads {
    pub(crate) fn new(sent: Arc<CustomPayload>) -> Payloads {
        Payloads { sent, received: Mutex::default() }
    }

    #[cfg(any(edited_crates, test))]
    pub(crate) fn receive(&self, entries: Option<Entries>) {
        let mut received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        *received = entries.map(Box::new);
    }

    pub(crate) fn take_received(&self) -> Option<Box<Entries>> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(entries: &[(&str, &[u8])]) -> Result<CustomPayload, String> {
        let entries = entries.iter().map(|(name, value)| ((*name).to_owned(), value.to_vec()));
        CustomPayload::new(entries.collect())
    }

    #[test]
    fn entries_are_written_in_the_order_of_their_names() {
        let written = payload(&[("b", b""), ("a", b"xy")]).unwrap();
        assert_eq!(written.encoded().unwrap(), b"\0\x02\0\x01a\0\0\0\x02xy\0\x01b\0\0\0\0");
        assert_eq!(payload(&[]).unwrap().encoded(), None);
    }

    #[test]
    fn payloads_are_merged() {
        let merged =
            payload(&[("a", b"1")]).unwrap().over(&payload(&[("a", b"2"), ("b", b"3")]).unwrap());
        assert_eq!(Ok(merged), payload(&[("a", b"1"), ("b", b"3")]));
    }

    #[test]
    fn entries_that_the_protocol_cannot_write_are_refused() {
        let long = "n".repeat(1 << 16);
        let message = payload(&[(&long, b"")]).unwrap_err();
        assert_eq!(message, "names of at most 65535 bytes, got 65536");
        let many: Entries = (0..=MAX_ENTRIES).map(|i| (i.to_string(), vec![])).collect();
        let message = CustomPayload::new(many).unwrap_err();
        assert_eq!(message, "at most 1000 entries, got 1001");
    }

    #[test]
    fn the_payload_of_the_last_response_replaces_earlier_ones() {
        let payloads = Payloads::new(Arc::new(payload(&[]).unwrap()));
        payloads.receive(Some(Entries::from([("a".into(), vec![1])])));
        payloads.receive(None);
        assert_eq!(payloads.take_received(), None);
    }
}
