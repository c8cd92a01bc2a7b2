//! Link types (LINKTYPE_* of tcpdump.org): finds the IP packet after the link-layer header.

/// A link type by its number.
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
/// EtherTypes of 802.1Q and 802.1ad tags.
const VLAN_TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// Maximum number of VLAN tags that are skipped; networks use no more.
const MAX_VLAN_TAGS: usize = 4;

impl LinkType {
    /// The IP packet inside; `None` if there is none.
    pub(crate) fn ip_packet(self, bytes: &[u8]) -> Option<&[u8]> {
        match self.0 {
            ETHERNET => skip_vlan_tags(bytes, 12),
            LINUX_SLL => skip_vlan_tags(bytes, 14),
            LINUX_SLL2 => match ethertype(bytes, 0)? {
                ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => bytes.get(20..),
                // The tag's priority and VLAN number precede the next EtherType.
                kind if VLAN_TAGS.contains(&kind) => skip_vlan_tags(bytes, 22),
                _ => None,
            },
            // A word with the address family precedes IP.
            NULL | LOOP => bytes.get(4..),
            RAW | RAW_OLD | RAW_OPENBSD | IPV4 | IPV6 => Some(bytes),
            _ => None,
        }
    }
}

/// The bytes after the EtherType at `offset`, and after any VLAN tags; `None` if they are not IP.
fn skip_vlan_tags(bytes: &[u8], mut offset: usize) -> Option<&[u8]> {
    for _ in 0..MAX_VLAN_TAGS {
        match ethertype(bytes, offset)? {
            ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => return bytes.get(offset + 2..),
            kind if VLAN_TAGS.contains(&kind) => offset += 4,
            _ => return None,
        }
    }
    None
}

fn ethertype(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(offset..)?.first_chunk()?))
}
