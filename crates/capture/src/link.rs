//! What lies before IP in a packet (LINKTYPE_ of tcpdump.org).

/// The number of a link type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LinkType(pub(crate) u16);

const NULL: u16 = 0;
const ETHERNET: u16 = 1;
const RAW_OLD: u16 = 12;
const RAW_OPENBSD: u16 = 14;
const RAW: u16 = 101;
const LOOP: u16 = 108;
const LINUX_SLL: u16 = 113;
const IPV4: u16 = 228;
const IPV6: u16 = 229;
const LINUX_SLL2: u16 = 276;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
/// 802.1Q and 802.1ad tags.
const TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// More tags than this no network has.
const TAGS_MOST: usize = 4;

impl LinkType {
    /// The IP packet inside, where there is one.
    pub(crate) fn ip(self, bytes: &[u8]) -> Option<&[u8]> {
        match self.0 {
            ETHERNET => behind(bytes, 12),
            LINUX_SLL => behind(bytes, 14),
            LINUX_SLL2 => match ethertype(bytes, 0)? {
                ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => bytes.get(20..),
                _ => None,
            },
            // A word of the address family before it.
            NULL | LOOP => bytes.get(4..),
            RAW | RAW_OLD | RAW_OPENBSD | IPV4 | IPV6 => Some(bytes),
            _ => None,
        }
    }
}

/// What follows the EtherType at `at`, behind any tags.
fn behind(bytes: &[u8], mut at: usize) -> Option<&[u8]> {
    for _ in 0..TAGS_MOST {
        match ethertype(bytes, at)? {
            ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => return bytes.get(at + 2..),
            kind if TAGS.contains(&kind) => at += 4,
            _ => return None,
        }
    }
    None
}

fn ethertype(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}
