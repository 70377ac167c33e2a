//! `inet`: the 4 bytes of an IPv4 address or the 16 bytes of an IPv6 address.

use std::net::IpAddr;

use crate::error::Malformed;

pub fn encode(value: IpAddr, out: &mut Vec<u8>) {
    match value {
        IpAddr::V4(address) => out.extend_from_slice(&address.octets()),
        IpAddr::V6(address) => out.extend_from_slice(&address.octets()),
    }
}

pub fn decode(bytes: &[u8]) -> Result<IpAddr, Malformed> {
    if let Ok(octets) = <[u8; 4]>::try_from(bytes) {
        Ok(IpAddr::from(octets))
    } else if let Ok(octets) = <[u8; 16]>::try_from(bytes) {
        Ok(IpAddr::from(octets))
    } else {
        Err(Malformed::Invalid("an address of neither 4 nor 16 bytes"))
    }
}
