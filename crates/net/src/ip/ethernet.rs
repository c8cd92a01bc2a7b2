//! Ethernet: the MAC addresses of stations, and the header of frames.

use crate::Destination;

/// Bytes of the Ethernet header: destination, source, type.
pub const ETHERNET_HEADER: usize = 14;
/// EtherType of IPv4 (RFC 894).
pub const IPV4: u16 = 0x0800;
/// EtherType of ARP (RFC 826).
pub const ARP: u16 = 0x0806;
/// EtherType of IPv6 (RFC 2464).
pub const IPV6: u16 = 0x86dd;
/// An Ethernet address.
pub type Mac = [u8; 6];
/// The broadcast address.
pub const BROADCAST: Mac = [0xff; 6];
/// The first four bytes of every station's address: locally administered, then "lfn".
const PREFIX: [u8; 4] = [0x02, 0x6c, 0x66, 0x6e];

/// The address of station `index`. Only 65536 stations have distinct addresses.
pub fn station_mac(index: u32) -> Mac {
    let [high, low] = (index as u16).to_be_bytes();
    let [a, b, c, d] = PREFIX;
    [a, b, c, d, high, low]
}

/// The destination of a frame for `mac` in a network of `stations` stations: the station with this address,
/// or all if no station has it.
pub fn destination(mac: Mac, stations: u32) -> Destination {
    let [a, b, c, d, high, low] = mac;
    let station = u32::from(u16::from_be_bytes([high, low]));
    if [a, b, c, d] == PREFIX && station < stations {
        Destination::Station(station)
    } else {
        Destination::All
    }
}

/// Splits a frame into destination, source, type and packet; `None` if it is too short.
pub(super) fn split(frame: &[u8]) -> Option<(Mac, Mac, u16, &[u8])> {
    let (header, packet) = frame.split_first_chunk::<ETHERNET_HEADER>()?;
    let [a, b, c, d, e, f, g, h, i, j, k, l, high, low] = *header;
    Some(([a, b, c, d, e, f], [g, h, i, j, k, l], u16::from_be_bytes([high, low]), packet))
}

/// Whether an address is a multicast or the broadcast address.
pub(super) fn is_multicast(mac: Mac) -> bool {
    mac[0] & 1 != 0
}

/// Builds the header of a frame.
pub(super) fn header(to: Mac, from: Mac, kind: u16) -> Vec<u8> {
    let mut frame = Vec::with_capacity(ETHERNET_HEADER + 64);
    frame.extend(to);
    frame.extend(from);
    frame.extend(kind.to_be_bytes());
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_to_unknown_addresses_go_to_all_stations() {
        assert_eq!(destination(station_mac(258), 259), Destination::Station(258));
        assert_eq!(destination(station_mac(258), 258), Destination::All);
        assert_eq!(destination(BROADCAST, 258), Destination::All);
        assert!(!is_multicast(station_mac(7)) && is_multicast(BROADCAST));
    }
}
