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
    /// How many were made.
    pub(crate) made: u16,
}

impl Fragments {
    /// Of an IP payload (with its UDP or ICMP header) on an interface of this MTU.
    pub(crate) fn of(payload: u32, mtu: u32, ip_header: u32) -> Self {
        if payload + ip_header <= mtu {
            return Fragments { bytes: payload, last_bytes: payload, here: 1, made: 1 };
        }
        // Fragments carry multiples of eight bytes.
        let bytes = (mtu.saturating_sub(ip_header) / 8 * 8).max(8);
        let made = payload.div_ceil(bytes);
        Fragments { bytes, last_bytes: payload - (made - 1) * bytes, here: made as u16, made: made as u16 }
    }

    /// Whether none is missing.
    pub(crate) fn is_whole(&self) -> bool {
        self.here == self.made
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_datagram_goes_in_fragments() {
        let mut all = Fragments::of(4_008, 1500, 20);
        assert_eq!(all, Fragments { bytes: 1480, last_bytes: 4_008 - 2 * 1480, here: 3, made: 3 });
        let rest = all.split_off(1);
        assert_eq!((all.here, all.last_bytes, all.is_whole()), (1, 1480, false));
        assert_eq!((rest.here, rest.first_bytes(), rest.last_bytes), (2, 1480, 1048));
        assert!(Fragments::of(1480, 1500, 20).is_whole() && Fragments::of(1481, 1500, 20).made == 2);
    }
}
