//! Writes packet captures as pcapng (draft-ietf-opsawg-pcapng): little-endian, one section, Ethernet
//! interfaces with timestamps in nanoseconds. Each function appends one whole block, so a file that is
//! written block by block can be read at any moment.
//!
//! Not supported: name resolution, statistics and secrets blocks.

use crate::pcapng::{
    BYTE_ORDER_MAGIC, ENHANCED_PACKET, IF_TSRESOL, INTERFACE as INTERFACE_DESCRIPTION,
    SECTION as SECTION_HEADER,
};

/// Section header (section 4.1): version 1.0, and "length not given".
const VERSION: [u16; 2] = [1, 0];
const UNKNOWN_LENGTH: u64 = u64::MAX;
/// LINKTYPE_ETHERNET in the LINKTYPE registry (tcpdump.org).
const ETHERNET: u16 = 1;
/// Options: sections 3.5 (end), 4.1 (shb), 4.2 (if) and 4.3 (epb).
const END_OF_OPTIONS: u16 = 0;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_DESCRIPTION: u16 = 3;
const EPB_FLAGS: u16 = 2;
const EPB_DROPCOUNT: u16 = 4;
/// if_tsresol: timestamps count 10^-9 s.
const NANOSECONDS: u8 = 9;

/// Direction of a packet, seen from the interface (epb_flags, bits 0 and 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketDirection {
    /// Inbound.
    In,
    /// Outbound.
    Out,
    /// Not available: on a link there is no inbound and outbound.
    Unspecified,
}

/// An interface that packets are captured at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface<'a> {
    /// Its name, such as `h1-eth0`.
    pub name: &'a str,
    /// Text for the reader of the file: what is captured here.
    pub description: &'a str,
    /// Maximum number of bytes stored of each packet; 0 is no limit.
    pub snaplen: u32,
}

/// One captured packet.
#[derive(Debug, Clone, Copy)]
pub struct CapturedPacket<'a> {
    /// The interface's index, in the order of the descriptions.
    pub interface: u32,
    /// Nanoseconds since 1970, UTC.
    pub timestamp_ns: u64,
    /// Its direction.
    pub direction: PacketDirection,
    /// The whole frame; bytes beyond `snaplen` are not stored.
    pub frame: &'a [u8],
    /// Maximum number of bytes stored of it; 0 is no limit.
    pub snaplen: u32,
    /// Number of packets missing just before this one.
    pub missed: u64,
}

/// Appends the header of a file.
pub fn section_header(out: &mut Vec<u8>) {
    block(out, SECTION_HEADER, |out| {
        out.extend(BYTE_ORDER_MAGIC.to_le_bytes());
        VERSION.iter().for_each(|v| out.extend(v.to_le_bytes()));
        out.extend(UNKNOWN_LENGTH.to_le_bytes());
        option(out, SHB_USERAPPL, concat!("longfat ", env!("CARGO_PKG_VERSION")).as_bytes());
        option(out, END_OF_OPTIONS, &[]);
    });
}

/// Appends the description of an interface; all must precede the first packet.
pub fn interface(out: &mut Vec<u8>, interface: &Interface<'_>) {
    block(out, INTERFACE_DESCRIPTION, |out| {
        out.extend(ETHERNET.to_le_bytes());
        out.extend([0; 2]);
        out.extend(interface.snaplen.to_le_bytes());
        option(out, IF_NAME, interface.name.as_bytes());
        option(out, IF_DESCRIPTION, interface.description.as_bytes());
        option(out, IF_TSRESOL, &[NANOSECONDS]);
        option(out, END_OF_OPTIONS, &[]);
    });
}

/// Appends a packet.
pub fn packet(out: &mut Vec<u8>, packet: &CapturedPacket<'_>) {
    let whole = packet.frame.len();
    let stored = if packet.snaplen == 0 { whole } else { whole.min(packet.snaplen as usize) };
    block(out, ENHANCED_PACKET, |out| {
        out.extend(packet.interface.to_le_bytes());
        out.extend(((packet.timestamp_ns >> 32) as u32).to_le_bytes());
        out.extend((packet.timestamp_ns as u32).to_le_bytes());
        out.extend((stored as u32).to_le_bytes());
        out.extend((whole as u32).to_le_bytes());
        out.extend_from_slice(&packet.frame[..stored]);
        pad(out, stored);
        let flags: u32 = match packet.direction {
            PacketDirection::Unspecified => 0,
            PacketDirection::In => 1,
            PacketDirection::Out => 2,
        };
        if flags != 0 {
            option(out, EPB_FLAGS, &flags.to_le_bytes());
        }
        if packet.missed > 0 {
            option(out, EPB_DROPCOUNT, &packet.missed.to_le_bytes());
        }
        if flags != 0 || packet.missed > 0 {
            option(out, END_OF_OPTIONS, &[]);
        }
    });
}

/// A block: its type, and its length before and after the body (section 3.1). The caller pads the body to a
/// multiple of 4 bytes.
fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let begin = out.len();
    out.extend(kind.to_le_bytes());
    out.extend([0; 4]);
    body(out);
    let length = (out.len() - begin + 4) as u32;
    out[begin + 4..begin + 8].copy_from_slice(&length.to_le_bytes());
    out.extend(length.to_le_bytes());
}

/// An option: code, length, value, padding (section 3.5). A value that is too long is truncated.
fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    out.extend(code.to_le_bytes());
    out.extend((value.len() as u16).to_le_bytes());
    out.extend_from_slice(value);
    pad(out, value.len());
}

fn pad(out: &mut Vec<u8>, len: usize) {
    out.extend(std::iter::repeat_n(0, len.next_multiple_of(4) - len));
}

/// For tests of this module and of the programs that use it: reads all fields that this module writes. Unlike
/// [`crate::Packets`] it panics on a malformed file.
#[doc(hidden)]
#[allow(missing_docs)]
pub mod inspect {
    use super::*;

    /// A packet as [`read`] finds it.
    #[derive(Debug, PartialEq, Eq)]
    pub struct FoundPacket {
        pub interface: u32,
        pub timestamp_ns: u64,
        pub whole: u32,
        pub bytes: Vec<u8>,
        pub flags: Option<u32>,
        pub missed: Option<u64>,
    }

    /// Reads a file as the draft describes it: interface names and packets. A truncated last block ends it,
    /// as in other readers.
    pub fn read(mut file: &[u8]) -> (Vec<String>, Vec<FoundPacket>) {
        let (mut names, mut packets) = (Vec::new(), Vec::new());
        assert_eq!(word(file, 0), SECTION_HEADER);
        assert_eq!(word(file, 8), BYTE_ORDER_MAGIC);
        while file.len() >= 12 && word(file, 4) as usize <= file.len() {
            let length = word(file, 4) as usize;
            assert!(length.is_multiple_of(4) && length >= 12);
            assert_eq!(word(file, length - 4) as usize, length, "the length after the body");
            let body = &file[8..length - 4];
            match word(file, 0) {
                INTERFACE_DESCRIPTION => {
                    assert_eq!(body[..4], [1, 0, 0, 0]);
                    let options = options(&body[8..]);
                    assert!(options.contains(&(IF_TSRESOL, vec![9])));
                    let name = options.iter().find(|(code, _)| *code == IF_NAME).unwrap();
                    names.push(String::from_utf8(name.1.clone()).unwrap());
                }
                ENHANCED_PACKET => packets.push(read_packet(body)),
                SECTION_HEADER => {}
                other => panic!("a block of type {other:#x}"),
            }
            file = &file[length..];
        }
        (names, packets)
    }

    fn read_packet(body: &[u8]) -> FoundPacket {
        let kept = word(body, 12) as usize;
        let options = options(&body[20 + kept.next_multiple_of(4)..]);
        let option = |code| options.iter().find(|(c, _)| *c == code).map(|(_, value)| value.clone());
        FoundPacket {
            interface: word(body, 0),
            timestamp_ns: u64::from(word(body, 4)) << 32 | u64::from(word(body, 8)),
            whole: word(body, 16),
            bytes: body[20..20 + kept].to_vec(),
            flags: option(EPB_FLAGS).map(|v| word(&v, 0)),
            missed: option(EPB_DROPCOUNT).map(|v| u64::from_le_bytes(v.try_into().unwrap())),
        }
    }

    fn options(mut bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
        let mut found = Vec::new();
        while bytes.len() >= 4 {
            let code = u16::from_le_bytes([bytes[0], bytes[1]]);
            let len = usize::from(u16::from_le_bytes([bytes[2], bytes[3]]));
            if code == END_OF_OPTIONS {
                assert_eq!((len, bytes.len()), (0, 4));
                break;
            }
            found.push((code, bytes[4..4 + len].to_vec()));
            bytes = &bytes[4 + len.next_multiple_of(4)..];
        }
        found
    }

    fn word(bytes: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
    }
}

#[cfg(test)]
mod tests {
    use super::{
        inspect::{FoundPacket, read},
        *,
    };

    #[test]
    fn written_packets_are_read_back() {
        let mut file = Vec::new();
        section_header(&mut file);
        interface(&mut file, &Interface { name: "h1-eth0", description: "host h1", snaplen: 0 });
        let frame: Vec<u8> = (0..61).collect();
        let whole = CapturedPacket {
            interface: 0,
            timestamp_ns: 1_700_000_000_123_456_789,
            direction: PacketDirection::In,
            frame: &frame,
            snaplen: 0,
            missed: 0,
        };
        packet(&mut file, &whole);
        packet(
            &mut file,
            &CapturedPacket { direction: PacketDirection::Out, snaplen: 14, missed: 3, ..whole },
        );
        packet(&mut file, &CapturedPacket { direction: PacketDirection::Unspecified, ..whole });
        let (names, found) = read(&file);
        assert_eq!(names, ["h1-eth0"]);
        let first = FoundPacket {
            interface: 0,
            timestamp_ns: 1_700_000_000_123_456_789,
            whole: 61,
            bytes: frame.clone(),
            flags: Some(1),
            missed: None,
        };
        assert_eq!(found[0], first);
        assert_eq!((found[1].bytes.len(), found[1].whole), (14, 61));
        assert_eq!((found[1].flags, found[1].missed, found[2].flags), (Some(2), Some(3), None));
        // In a truncated file the complete packets can be read.
        assert_eq!(read(&file[..file.len() - 5]).1.len(), 2);
    }
}
