//! IP fragments (RFC 791 section 3.2, RFC 8200 section 4.5) of a datagram larger than the MTU. They travel as
//! one object.

/// Bytes of an IPv6 header.
const IPV6_HEADER: u32 = 40;
/// The Fragment header of IPv6 (RFC 8200 section 4.5), bytes. IPv4 has the same fields in its header.
const FRAGMENT_HEADER: u32 = 8;

/// Some or all fragments of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fragments {
    /// Where the first fragment begins in the datagram's IP payload, bytes.
    pub(crate) offset: u32,
    /// IP payload bytes of each fragment but the last.
    pub(crate) bytes: u32,
    /// IP payload bytes of the last fragment.
    pub(crate) last_bytes: u32,
    /// Number of fragments in this object.
    pub(crate) count: u16,
    /// "Don't fragment": routers may not split it. Set if it fits its host's MTU.
    pub(crate) dont_fragment: bool,
    /// IP payload bytes of the whole datagram.
    pub(crate) total_bytes: u32,
}

impl Fragments {
    /// Fragments an IP payload (with its UDP or ICMP header) for an interface with this MTU.
    pub(crate) fn new(payload: u32, mtu: u32, ip_header: u32) -> Self {
        let total_bytes = payload;
        if payload + ip_header <= mtu {
            return Fragments {
                offset: 0,
                bytes: payload,
                last_bytes: payload,
                count: 1,
                dont_fragment: true,
                total_bytes,
            };
        }
        let bytes = fragment_payload(mtu, ip_header);
        let count = payload.div_ceil(bytes);
        let last_bytes = payload - (count - 1) * bytes;
        Fragments { offset: 0, bytes, last_bytes, count: count as u16, dont_fragment: false, total_bytes }
    }

    /// Bytes of the headers of IP in each packet of this object.
    pub(crate) fn header_bytes(&self, ip_header: u32) -> u32 {
        if self.count == 1 && self.is_whole() { ip_header } else { fragment_header_bytes(ip_header) }
    }

    /// True if this object has the whole datagram.
    pub(crate) fn is_whole(&self) -> bool {
        self.payload_bytes() == self.total_bytes
    }

    /// IP payload bytes in this object.
    pub(crate) fn payload_bytes(&self) -> u32 {
        u32::from(self.count - 1) * self.bytes + self.last_bytes
    }

    /// IP payload bytes of the first fragment in this object.
    pub(crate) fn first_bytes(&self) -> u32 {
        if self.count == 1 { self.last_bytes } else { self.bytes }
    }

    /// Keeps the first `at` fragments and returns the others.
    pub(crate) fn split_off(&mut self, at: u32) -> Self {
        let offset = self.offset + at * self.bytes;
        let others = Fragments { offset, count: self.count - at as u16, ..*self };
        *self = Fragments { count: at as u16, last_bytes: self.bytes, ..*self };
        others
    }

    /// Fragments each for a link with this MTU, as routers do (RFC 791 section 3.2).
    pub(crate) fn refragment(&self, mtu: u32, ip_header: u32) -> Vec<Self> {
        let max = fragment_payload(mtu, ip_header);
        let mut parts = Vec::new();
        for index in 0..self.count {
            let bytes = if index + 1 == self.count { self.last_bytes } else { self.bytes };
            let count = bytes.div_ceil(max).max(1);
            let last_bytes = bytes - (count - 1) * max;
            let offset = self.offset + u32::from(index) * self.bytes;
            parts.push(Fragments { offset, bytes: max, last_bytes, count: count as u16, ..*self });
        }
        parts
    }
}

/// Largest IP payload of a fragment, a multiple of eight bytes.
fn fragment_payload(mtu: u32, ip_header: u32) -> u32 {
    (mtu.saturating_sub(fragment_header_bytes(ip_header)) / 8 * 8).max(8)
}

/// Bytes of the headers of IP in a fragment.
fn fragment_header_bytes(ip_header: u32) -> u32 {
    if ip_header == IPV6_HEADER { ip_header + FRAGMENT_HEADER } else { ip_header }
}

/// Maximum number of datagrams in reassembly; the oldest is discarded.
const MAX_INCOMPLETE: usize = 64;

/// Reassembles datagrams from fragments: stores which parts of each incomplete datagram have arrived, since
/// fragments may be duplicated.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    /// Number of each incomplete datagram, and the parts of its IP payload that have arrived.
    incomplete: std::collections::VecDeque<(u64, Parts)>,
}

/// Disjoint parts of an IP payload, each from its first byte to the byte after its last.
type Parts = Vec<(u32, u32)>;

/// Adds a part; parts that overlap or touch it are merged with it.
fn add(parts: &mut Parts, mut begin: u32, mut end: u32) {
    parts.retain(|(other_begin, other_end)| {
        let is_merged = *other_begin <= end && begin <= *other_end;
        if is_merged {
            (begin, end) = (begin.min(*other_begin), end.max(*other_end));
        }
        !is_merged
    });
    parts.push((begin, end));
}

impl Reassembly {
    /// Takes fragments of datagram `number`. True if they complete it.
    pub(crate) fn completes(&mut self, number: u64, fragments: &Fragments) -> bool {
        if fragments.is_whole() {
            return true;
        }
        let (begin, end) = (fragments.offset, fragments.offset + fragments.payload_bytes());
        let Some(index) = self.incomplete.iter().position(|(other, _)| *other == number) else {
            if self.incomplete.len() == MAX_INCOMPLETE {
                self.incomplete.pop_front();
            }
            self.incomplete.push_back((number, vec![(begin, end)]));
            return false;
        };
        let parts = &mut self.incomplete[index].1;
        add(parts, begin, end);
        if *parts != [(0, fragments.total_bytes)] {
            return false;
        }
        self.incomplete.remove(index);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_datagram_is_fragmented() {
        let mut all = Fragments::new(4_008, 1500, 20);
        assert_eq!(
            (all.bytes, all.last_bytes, all.count, all.dont_fragment),
            (1480, 4_008 - 2 * 1480, 3, false)
        );
        let others = all.split_off(1);
        assert_eq!((all.count, all.last_bytes, all.is_whole()), (1, 1480, false));
        assert_eq!((others.count, others.first_bytes(), others.last_bytes), (2, 1480, 1048));
        let fits = Fragments::new(1480, 1500, 20);
        assert!(fits.is_whole() && fits.dont_fragment && Fragments::new(1481, 1500, 20).count == 2);
    }

    #[test]
    fn fragments_of_ipv6_have_another_header() {
        let whole = Fragments::new(1460, 1500, 40);
        assert_eq!((whole.count, whole.header_bytes(40)), (1, 40));
        // (1500 - 48) / 8 * 8 bytes each.
        let mut all = Fragments::new(2_897, 1500, 40);
        assert_eq!((all.bytes, all.last_bytes, all.count, all.header_bytes(40)), (1448, 1, 3, 48));
        let last = all.split_off(2);
        assert_eq!((last.count, last.is_whole(), last.header_bytes(40)), (1, false, 48));
        assert_eq!(Fragments::new(4_008, 1500, 20).header_bytes(20), 20);
    }

    #[test]
    fn a_router_fragments_each_fragment() {
        let parts = Fragments::new(4_008, 1500, 20).refragment(1400, 20);
        let sizes: Vec<_> = parts.iter().map(|p| (p.count, p.first_bytes(), p.last_bytes)).collect();
        assert_eq!(sizes, [(2, 1376, 104), (2, 1376, 104), (1, 1048, 1048)]);
        let mut reassembly = Reassembly::default();
        assert!(!reassembly.completes(1, &parts[0]) && !reassembly.completes(1, &parts[2]));
        assert!(reassembly.completes(1, &parts[1]));
    }

    #[test]
    fn a_duplicate_is_not_the_missing_fragment() {
        let mut first = Fragments::new(3 * 1480, 1500, 20);
        let mut second = first.split_off(1);
        let third = second.split_off(1);
        assert_eq!([first.offset, second.offset, third.offset], [0, 1480, 2960]);
        let mut reassembly = Reassembly::default();
        for fragment in [&third, &first, &third, &first, &third] {
            assert!(!reassembly.completes(1, fragment));
        }
        assert!(reassembly.completes(1, &second));
        // A router's parts of a fragment have its offset.
        let parts = Fragments::new(4_008, 1500, 20).refragment(1400, 20);
        assert_eq!(parts.iter().map(|part| part.offset).collect::<Vec<_>>(), [0, 1480, 2960]);
        assert!(!reassembly.completes(2, &parts[2]) && !reassembly.completes(2, &parts[0]));
        assert!(!reassembly.completes(2, &parts[0]) && reassembly.completes(2, &parts[1]));
    }
}
