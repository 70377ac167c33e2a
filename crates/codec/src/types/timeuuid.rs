//! `timeuuid`: a `uuid` of version 1. The server accepts no other version.

use crate::error::Malformed;

pub use super::uuid::{WIDTH, decode};

pub fn encode(value: &[u8; WIDTH], out: &mut Vec<u8>) -> Result<(), Malformed> {
    if value[6] >> 4 != 1 {
        return Err(Malformed::Invalid("a UUID whose version is not 1"));
    }
    super::uuid::encode(value, out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_1_only() {
        let mut uuid = [0; WIDTH];
        assert!(encode(&uuid, &mut Vec::new()).is_err());
        uuid[6] = 0x1f;
        assert!(encode(&uuid, &mut Vec::new()).is_ok());
    }
}
