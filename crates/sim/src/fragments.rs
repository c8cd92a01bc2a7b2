//! A datagram that is larger than a packet may be: fragments (RFC 791 section 3.2), which travel as one object.

/// Some or all fragments of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fragments {
    /// IP payload of each but the last.
    pub(crate) bytes: u32,
    /// IP payload of the last.
    pub(crate) last_bytes: u32,
    /// How many are here.
    pub(crate) here: u16,
    /// Routers may not cut it ("don't fragment"): it fitted its host's MTU.
    pub(crate) whole_only: bool,
    /// IP payload of the whole datagram.
    pub(crate) total_bytes: u32,
}

impl Fragments {
    /// Of an IP payload (with its UDP or ICMP header) on an interface of this MTU.
    pub(crate) fn of(payload: u32, mtu: u32, ip_header: u32) -> Self {
        let total_bytes = payload;
        if payload + ip_header <= mtu {
            return Fragments { bytes: payload, last_bytes: payload, here: 1, whole_only: true, total_bytes };
        }
        let bytes = piece(mtu, ip_header);
        let made = payload.div_ceil(bytes);
        let last_bytes = payload - (made - 1) * bytes;
        Fragments { bytes, last_bytes, here: made as u16, whole_only: false, total_bytes }
    }

    /// Whether none is missing.
    pub(crate) fn is_whole(&self) -> bool {
        self.here_bytes() == self.total_bytes
    }

    /// IP payload of those that are here.
    pub(crate) fn here_bytes(&self) -> u32 {
        u32::from(self.here - 1) * self.bytes + self.last_bytes
    }

    /// IP payload of the first of these.
    pub(crate) fn first_bytes(&self) -> u32 {
        if self.here == 1 { self.last_bytes } else { self.bytes }
    }

    /// Keeps those before `at` and returns the others.
    pub(crate) fn split_off(&mut self, at: u32) -> Self {
        let rest = Fragments { here: self.here - at as u16, ..*self };
        *self = Fragments { here: at as u16, last_bytes: self.bytes, ..*self };
        rest
    }

    /// What a router makes of them for a link of this MTU (RFC 791 section 3.2).
    pub(crate) fn cut(&self, mtu: u32, ip_header: u32) -> Vec<Self> {
        let room = piece(mtu, ip_header);
        let mut parts = Vec::new();
        for index in 0..self.here {
            let bytes = if index + 1 == self.here { self.last_bytes } else { self.bytes };
            let here = bytes.div_ceil(room).max(1);
            let last_bytes = bytes - (here - 1) * room;
            parts.push(Fragments { bytes: room, last_bytes, here: here as u16, ..*self });
        }
        parts
    }
}

/// IP payload that a fragment has room for: a multiple of eight bytes.
fn piece(mtu: u32, ip_header: u32) -> u32 {
    (mtu.saturating_sub(ip_header) / 8 * 8).max(8)
}

/// How many datagrams may be incomplete at once.
const MAX_INCOMPLETE: usize = 64;

/// Puts fragments together: which datagrams have come in part, and how much of each.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    incomplete: std::collections::VecDeque<(u64, u32)>,
}

impl Reassembly {
    /// Fragments of datagram `number` have come. Tells whether nothing of it is missing any more.
    pub(crate) fn completes(&mut self, number: u64, fragments: &Fragments) -> bool {
        if fragments.is_whole() {
            return true;
        }
        let here = fragments.here_bytes();
        let Some(index) = self.incomplete.iter().position(|(other, _)| *other == number) else {
            if self.incomplete.len() == MAX_INCOMPLETE {
                self.incomplete.pop_front();
            }
            self.incomplete.push_back((number, here));
            return false;
        };
        self.incomplete[index].1 += here;
        if self.incomplete[index].1 < fragments.total_bytes {
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
    fn a_large_datagram_goes_in_fragments() {
        let mut all = Fragments::of(4_008, 1500, 20);
        assert_eq!((all.bytes, all.last_bytes, all.here, all.whole_only), (1480, 4_008 - 2 * 1480, 3, false));
        let rest = all.split_off(1);
        assert_eq!((all.here, all.last_bytes, all.is_whole()), (1, 1480, false));
        assert_eq!((rest.here, rest.first_bytes(), rest.last_bytes), (2, 1480, 1048));
        let fits = Fragments::of(1480, 1500, 20);
        assert!(fits.is_whole() && fits.whole_only && Fragments::of(1481, 1500, 20).here == 2);
    }

    #[test]
    fn a_router_cuts_each_fragment() {
        let parts = Fragments::of(4_008, 1500, 20).cut(1400, 20);
        let sizes: Vec<_> = parts.iter().map(|p| (p.here, p.first_bytes(), p.last_bytes)).collect();
        assert_eq!(sizes, [(2, 1376, 104), (2, 1376, 104), (1, 1048, 1048)]);
        let mut reassembly = Reassembly::default();
        assert!(!reassembly.completes(1, &parts[0]) && !reassembly.completes(1, &parts[2]));
        assert!(reassembly.completes(1, &parts[1]));
    }
}
