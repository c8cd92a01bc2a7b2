//! The blocks of a packet capture file (pcapng, draft-ietf-opsawg-pcapng), as bytes.
//!
//! Little-endian, one section, Ethernet interfaces with time stamps in nanoseconds. Each function appends one
//! whole block, so a file that is written block by block can be read at any moment.
//!
//! Not here: reading, name resolution, statistics and secrets blocks.

/// Section 4.1: block type, byte-order magic, version 1.0, and "length not given".
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const VERSION: [u16; 2] = [1, 0];
const UNKNOWN_LENGTH: u64 = u64::MAX;
/// Section 4.2, and LINKTYPE_ETHERNET of the link types' registry.
const INTERFACE_DESCRIPTION: u32 = 1;
const ETHERNET: u16 = 1;
/// Section 4.3.
const ENHANCED_PACKET: u32 = 6;
/// Options: sections 3.5 (end), 4.1 (shb), 4.2 (if) and 4.3 (epb).
const END_OF_OPTIONS: u16 = 0;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_DESCRIPTION: u16 = 3;
const IF_TSRESOL: u16 = 9;
const EPB_FLAGS: u16 = 2;
const EPB_DROPCOUNT: u16 = 4;
/// if_tsresol: stamps count 10^-9 s.
const NANOSECONDS: u8 = 9;

/// Which way a packet went, seen from the interface (epb_flags, bits 0 and 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// It came in.
    In,
    /// It went out.
    Out,
    /// It passed by on a link, where there is no in and out.
    Past,
}

/// An interface that packets are captured at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interface<'a> {
    pub(crate) name: &'a str,
    /// For people: what is captured here.
    pub(crate) description: &'a str,
    /// Most bytes kept of each packet; 0 is no limit.
    pub(crate) snaplen: u32,
}

/// One captured packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Captured<'a> {
    /// The interface's number, in the order of the descriptions.
    pub(crate) interface: u32,
    /// Nanoseconds since 1970, UTC.
    pub(crate) stamp_ns: u64,
    pub(crate) way: Way,
    /// The whole frame; what is beyond `snaplen` is not kept.
    pub(crate) frame: &'a [u8],
    pub(crate) snaplen: u32,
    /// Packets that are missing just before this one.
    pub(crate) missed: u64,
}

/// Begins a file.
pub(crate) fn section_header(out: &mut Vec<u8>) {
    block(out, SECTION_HEADER, |out| {
        out.extend(BYTE_ORDER.to_le_bytes());
        VERSION.iter().for_each(|v| out.extend(v.to_le_bytes()));
        out.extend(UNKNOWN_LENGTH.to_le_bytes());
        option(out, SHB_USERAPPL, concat!("longfat ", env!("CARGO_PKG_VERSION")).as_bytes());
        option(out, END_OF_OPTIONS, &[]);
    });
}

/// Describes the next interface; all come before the first packet.
pub(crate) fn interface(out: &mut Vec<u8>, interface: &Interface<'_>) {
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
pub(crate) fn packet(out: &mut Vec<u8>, packet: &Captured<'_>) {
    let whole = packet.frame.len();
    let kept = if packet.snaplen == 0 { whole } else { whole.min(packet.snaplen as usize) };
    block(out, ENHANCED_PACKET, |out| {
        out.extend(packet.interface.to_le_bytes());
        out.extend(((packet.stamp_ns >> 32) as u32).to_le_bytes());
        out.extend((packet.stamp_ns as u32).to_le_bytes());
        out.extend((kept as u32).to_le_bytes());
        out.extend((whole as u32).to_le_bytes());
        out.extend_from_slice(&packet.frame[..kept]);
        pad(out, kept);
        let flags: u32 = match packet.way {
            Way::Past => 0,
            Way::In => 1,
            Way::Out => 2,
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

/// A block: its type, its length before and after the body (section 3.1). Bodies come out padded to 4 bytes.
fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let begin = out.len();
    out.extend(kind.to_le_bytes());
    out.extend([0; 4]);
    body(out);
    let length = (out.len() - begin + 4) as u32;
    out[begin + 4..begin + 8].copy_from_slice(&length.to_le_bytes());
    out.extend(length.to_le_bytes());
}

/// An option: code, length, value, padding (section 3.5). A value that is too long is cut.
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A packet as [`read`] finds it.
    #[derive(Debug, PartialEq, Eq)]
    pub(crate) struct Found {
        pub(crate) interface: u32,
        pub(crate) stamp_ns: u64,
        pub(crate) whole: u32,
        pub(crate) bytes: Vec<u8>,
        pub(crate) flags: Option<u32>,
        pub(crate) missed: Option<u64>,
    }

    /// Reads a file by the draft's text: interface names and packets. A cut last block ends it, as in other readers.
    pub(crate) fn read(mut file: &[u8]) -> (Vec<String>, Vec<Found>) {
        let (mut names, mut packets) = (Vec::new(), Vec::new());
        assert_eq!(word(file, 0), SECTION_HEADER);
        assert_eq!(word(file, 8), BYTE_ORDER);
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

    fn read_packet(body: &[u8]) -> Found {
        let kept = word(body, 12) as usize;
        let options = options(&body[20 + kept.next_multiple_of(4)..]);
        let option = |code| options.iter().find(|(c, _)| *c == code).map(|(_, value)| value.clone());
        Found {
            interface: word(body, 0),
            stamp_ns: u64::from(word(body, 4)) << 32 | u64::from(word(body, 8)),
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

    #[test]
    fn what_is_written_is_read_again() {
        let mut file = Vec::new();
        section_header(&mut file);
        interface(&mut file, &Interface { name: "h1-eth0", description: "host h1", snaplen: 0 });
        let frame: Vec<u8> = (0..61).collect();
        let whole = Captured {
            interface: 0,
            stamp_ns: 1_700_000_000_123_456_789,
            way: Way::In,
            frame: &frame,
            snaplen: 0,
            missed: 0,
        };
        packet(&mut file, &whole);
        packet(&mut file, &Captured { way: Way::Out, snaplen: 14, missed: 3, ..whole });
        packet(&mut file, &Captured { way: Way::Past, ..whole });
        let (names, found) = read(&file);
        assert_eq!(names, ["h1-eth0"]);
        let first = Found {
            interface: 0,
            stamp_ns: 1_700_000_000_123_456_789,
            whole: 61,
            bytes: frame.clone(),
            flags: Some(1),
            missed: None,
        };
        assert_eq!(found[0], first);
        assert_eq!((found[1].bytes.len(), found[1].whole), (14, 61));
        assert_eq!((found[1].flags, found[1].missed, found[2].flags), (Some(2), Some(3), None));
        // Cut anywhere, what is whole can be read.
        assert_eq!(read(&file[..file.len() - 5]).1.len(), 2);
    }
}
