//! The parameters that QUERY, EXECUTE and BATCH have in common.

use super::body::{Body, short_size};
use super::{MessageError, Reason, Version, since};

/// Consistency levels, with their numbers in the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consistency {
    Any = 0,
    One = 1,
    Two = 2,
    Three = 3,
    Quorum = 4,
    All = 5,
    LocalQuorum = 6,
    EachQuorum = 7,
    Serial = 8,
    LocalSerial = 9,
    LocalOne = 10,
}

impl Consistency {
    const NAMES: [(&'static str, Consistency); 11] = [
        ("ANY", Consistency::Any),
        ("ONE", Consistency::One),
        ("TWO", Consistency::Two),
        ("THREE", Consistency::Three),
        ("QUORUM", Consistency::Quorum),
        ("ALL", Consistency::All),
        ("LOCAL_QUORUM", Consistency::LocalQuorum),
        ("EACH_QUORUM", Consistency::EachQuorum),
        ("SERIAL", Consistency::Serial),
        ("LOCAL_SERIAL", Consistency::LocalSerial),
        ("LOCAL_ONE", Consistency::LocalOne),
    ];

    /// Returns the level with this name. Names are in capital letters.
    pub fn from_name(name: &str) -> Option<Consistency> {
        Consistency::NAMES.iter().find(|(known, _)| *known == name).map(|&(_, level)| level)
    }

    /// Returns the level with this number in the protocol.
    pub fn from_number(number: u16) -> Option<Consistency> {
        Consistency::NAMES.get(usize::from(number)).map(|&(_, level)| level)
    }

    /// Returns the names of all levels.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Consistency::NAMES.iter().map(|&(name, _)| name)
    }

    pub fn name(self) -> &'static str {
        Consistency::NAMES[self as usize].0
    }
}

/// The consistency levels of the serial phase of a conditional update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SerialConsistency {
    Serial = 8,
    LocalSerial = 9,
}

impl SerialConsistency {
    /// Returns the level with this name. Names are in capital letters.
    pub fn from_name(name: &str) -> Option<SerialConsistency> {
        match name {
            "SERIAL" => Some(SerialConsistency::Serial),
            "LOCAL_SERIAL" => Some(SerialConsistency::LocalSerial),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            SerialConsistency::Serial => "SERIAL",
            SerialConsistency::LocalSerial => "LOCAL_SERIAL",
        }
    }
}

/// The common parts of QUERY, EXECUTE and BATCH: `<consistency>`, and the end of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings<'a> {
    pub consistency: Consistency,
    pub serial_consistency: Option<SerialConsistency>,
    /// The write time in microseconds since 1970. The smallest 64-bit integer is refused here,
    /// because servers use this number for "no timestamp" and refuse it too.
    pub timestamp: Option<i64>,
    /// The keyspace of unqualified table names. Only version 5 can carry this name.
    pub keyspace: Option<&'a str>,
    /// The time that the server uses as the current time, in seconds since 1970. Only version 5 can
    /// carry this time.
    pub now_in_seconds: Option<i32>,
}

const SERIAL_CONSISTENCY: u32 = 0x10;
const TIMESTAMP: u32 = 0x20;
const KEYSPACE: u32 = 0x80;
const NOW_IN_SECONDS: u32 = 0x100;

impl Settings<'_> {
    pub fn new(consistency: Consistency) -> Self {
        Settings {
            consistency,
            serial_consistency: None,
            timestamp: None,
            keyspace: None,
            now_in_seconds: None,
        }
    }

    pub(super) fn flags(&self) -> u32 {
        let mut flags = 0;
        for (flag, given) in [
            (SERIAL_CONSISTENCY, self.serial_consistency.is_some()),
            (TIMESTAMP, self.timestamp.is_some()),
            (KEYSPACE, self.keyspace.is_some()),
            (NOW_IN_SECONDS, self.now_in_seconds.is_some()),
        ] {
            flags |= if given { flag } else { 0 };
        }
        flags
    }

    /// Returns the size in bytes of the consistency, the flags and the end of the body.
    pub(super) fn size(&self, version: Version) -> Result<u64, MessageError> {
        let mut size = match version {
            Version::V3 | Version::V4 => 2 + 1,
            Version::V5 => 2 + 4,
        };
        if self.serial_consistency.is_some() {
            size += 2;
        }
        if let Some(timestamp) = self.timestamp {
            size += 8;
            if timestamp == i64::MIN {
                return Err(Reason::Range {
                    part: "timestamp",
                    minimum: i64::MIN + 1,
                    maximum: i64::MAX,
                    got: timestamp,
                }
                .into());
            }
        }
        if let Some(keyspace) = self.keyspace {
            since("keyspace", Version::V5, version)?;
            size += short_size("keyspace", keyspace.as_bytes())?;
        }
        if self.now_in_seconds.is_some() {
            since("now_in_seconds", Version::V5, version)?;
            size += 4;
        }
        Ok(size)
    }

    pub(super) fn write_consistency(&self, body: &mut impl Body) {
        body.short(self.consistency as u16);
    }

    pub(super) fn write_end(&self, body: &mut impl Body) {
        if let Some(level) = self.serial_consistency {
            body.short(level as u16);
        }
        if let Some(timestamp) = self.timestamp {
            body.long(timestamp);
        }
        if let Some(keyspace) = self.keyspace {
            body.short_bytes(keyspace.as_bytes());
        }
        if let Some(seconds) = self.now_in_seconds {
            body.int(seconds);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_of_consistency_levels() {
        for (number, (name, level)) in Consistency::NAMES.into_iter().enumerate() {
            assert_eq!(level as usize, number);
            assert_eq!(level.name(), name);
            assert_eq!(Consistency::from_name(name), Some(level));
            assert_eq!(Consistency::from_number(number as u16), Some(level));
        }
        assert_eq!(Consistency::from_name("one"), None);
        assert_eq!(Consistency::from_number(11), None);
        for level in [SerialConsistency::Serial, SerialConsistency::LocalSerial] {
            assert_eq!(SerialConsistency::from_name(level.name()), Some(level));
            assert_eq!(Consistency::from_name(level.name()).map(|c| c as u16), Some(level as u16));
        }
        assert_eq!(SerialConsistency::from_name("ONE"), None);
    }
}
