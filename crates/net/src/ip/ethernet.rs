//! Ethernet: the addresses of stations, and the fourteen bytes before each packet.

use crate::Destination;

/// Bytes before the packet: destination, source, type.
pub const ETHERNET_HEADER: usize = 14;
/// EtherType of IPv4 (RFC 894).
pub const IPV4: u16 = 0x0800;
/// EtherType of ARP (RFC 826).
pub const ARP: u16 = 0x0806;
/// EtherType of IPv6 (RFC 2464).
pub const IPV6: u16 = 0x86dd;
/// An Ethernet address.
pub type Mac = [u8; 6];
/// All stations.
pub const BROADCAST: Mac = [0xff; 6];
/// The first four bytes of every station's address: locally administered, then "lfn".
const PREFIX: [u8; 4] = [0x02, 0x6c, 0x66, 0x6e];

/// The address of station `index`; there is room for 65536.
pub fn station_mac(index: u32) -> Mac {
    let [high, low] = (index as u16).to_be_bytes();
    let [a, b, c, d] = PREFIX;
    [a, b, c, d, high, low]
}

/// Where a frame for `mac` goes, among `stations` stations: to all, where that is not the address of one.
pub fn destination(mac: Mac, stations: u32) -> Destination {
    let [a, b, c, d, high, low] = mac;
    let station = u32::from(u16::from_be_bytes([high, low]));
    if [a, b, c, d] == PREFIX && station < stations {
        Destination::Station(station)
    } else {
        Destination::All
    }
}

/// A frame's destination, source and type; `None` where it is too short.
pub(super) fn split(frame: &[u8]) -> Option<(Mac, Mac, u16, &[u8])> {
    let (header, packet) = frame.split_first_chunk::<ETHERNET_HEADER>()?;
    let [a, b, c, d, e, f, g, h, i, j, k, l, high, low] = *header;
    Some(([a, b, c, d, e, f], [g, h, i, j, k, l], u16::from_be_bytes([high, low]), packet))
}

/// Whether an address is a group's.
pub(super) fn is_group(mac: Mac) -> bool {
    mac[0] & 1 != 0
}

/// A frame's header.
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
    fn addresses_are_stations_or_everybody() {
        assert_eq!(destination(station_mac(258), 259), Destination::Station(258));
        assert_eq!(destination(station_mac(258), 258), Destination::All);
        assert_eq!(destination(BROADCAST, 258), Destination::All);
        assert!(!is_group(station_mac(7)) && is_group(BROADCAST));
    }
}
