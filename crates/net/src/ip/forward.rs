//! Changes to a forwarded packet, and IPv4 fragmentation (RFC 791 sections 2.3 and 3.2).

use super::{
    checksum::{checksum, updated},
    ethernet::{self, ETHERNET_HEADER, Mac},
    ipv4::{self, Ipv4},
};

/// Bit of an option's type: the option is copied into every fragment (RFC 791 section 3.1).
const COPIED: u8 = 0x80;
const END_OF_OPTIONS: u8 = 0;
const NO_OPERATION: u8 = 1;
const MORE_FRAGMENTS: u16 = 0x2000;

/// Sets the Ethernet addresses of a frame that carries an IP packet, and decrements its TTL (IPv6: hop
/// limit).
pub(super) fn rewrite(frame: &mut [u8], to: Mac, from: Mac) {
    if frame.len() < ETHERNET_HEADER + ipv4::HEADER {
        return;
    }
    frame[..6].copy_from_slice(&to);
    frame[6..12].copy_from_slice(&from);
    let kind = u16::from_be_bytes([frame[12], frame[13]]);
    let ip = &mut frame[ETHERNET_HEADER..];
    if kind == ethernet::IPV4 {
        let old = u16::from_be_bytes([ip[8], ip[9]]);
        ip[8] = ip[8].saturating_sub(1);
        let sum = updated(u16::from_be_bytes([ip[10], ip[11]]), old, u16::from_be_bytes([ip[8], ip[9]]));
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
    } else {
        ip[7] = ip[7].saturating_sub(1);
    }
}

/// Splits a frame with one IPv4 packet and complete checksums into fragments of at most `mtu` IP bytes.
/// Returns the frame itself if it fits, and no frames if fragmentation is impossible.
pub(super) fn fragments(frame: &[u8], mtu: u32) -> Vec<Vec<u8>> {
    let mtu = mtu as usize;
    let Some(ip) = frame.get(ETHERNET_HEADER..).and_then(Ipv4::parse) else { return Vec::new() };
    if ip.packet.len() <= mtu {
        return vec![frame.to_vec()];
    }
    let later = later_header(ip.header);
    let is_possible = mtu >= ip.header.len() + 8
        // The fragment offset must fit into its field.
        && usize::from(ip.fragment_offset()) * 8 + ip.payload.len() <= usize::from(u16::MAX);
    if !is_possible {
        return Vec::new();
    }
    let mut fragments = Vec::new();
    let mut copied = 0;
    while copied < ip.payload.len() {
        let header = if copied == 0 { ip.header } else { &later };
        let (space, remaining) = (mtu - header.len(), &ip.payload[copied..]);
        // All parts but the last consist of units of 8 bytes.
        let part = if remaining.len() <= space { remaining } else { &remaining[..space & !7] };
        let is_last = part.len() == remaining.len() && !ip.more_fragments();
        let mut fragment = frame[..ETHERNET_HEADER].to_vec();
        fragment.extend(header);
        fragment.extend(part);
        let offset = (usize::from(ip.fragment_offset()) + copied / 8) as u16;
        finish_header(&mut fragment[ETHERNET_HEADER..], header.len(), offset, is_last);
        fragments.push(fragment);
        copied += part.len();
    }
    fragments
}

/// Writes the fields that differ between fragments: lengths, fragment offset and checksum.
fn finish_header(packet: &mut [u8], header: usize, offset: u16, is_last: bool) {
    let length = packet.len() as u16;
    // The reserved bit and "don't fragment" are copied.
    let flags = u16::from_be_bytes([packet[6], packet[7]]) & 0xc000;
    let more = if is_last { 0 } else { MORE_FRAGMENTS };
    packet[0] = 0x40 | (header / 4) as u8;
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    packet[6..8].copy_from_slice(&(flags | more | offset).to_be_bytes());
    packet[10..12].fill(0);
    let sum = checksum(&packet[..header]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// The header of all fragments but the first, which has only the options with the [`COPIED`] bit.
fn later_header(header: &[u8]) -> Vec<u8> {
    let (fixed, mut options) = header.split_at(ipv4::HEADER);
    let mut later = fixed.to_vec();
    while let Some(&kind) = options.first() {
        let length = match kind {
            END_OF_OPTIONS => break,
            NO_OPERATION => 1,
            _ => options.get(1).map_or(0, |l| usize::from(*l)),
        };
        // A malformed option ends the list.
        let Some(option) = options.get(..length).filter(|o| o.len() >= 2 || kind == NO_OPERATION) else {
            break;
        };
        if kind & COPIED != 0 {
            later.extend(option);
        }
        options = &options[length..];
    }
    later.resize(later.len().next_multiple_of(4), END_OF_OPTIONS);
    later
}
