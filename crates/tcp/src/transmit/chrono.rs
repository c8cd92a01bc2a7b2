//! The limited-by clocks (`tcp_chrono_start`, `tcp_chrono_stop`, net/ipv4/tcp_output.c), in jiffies as the kernel's.

use crate::Endpoint;

/// `TCP_CHRONO_*`; a higher one takes precedence.
pub(super) const BUSY: u8 = 1;
pub(super) const RWND_LIMITED: u8 = 2;
pub(super) const SNDBUF_LIMITED: u8 = 3;

/// What has been counted.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Chrono {
    start: u32,
    counted: [u32; 3],
}

impl Endpoint {
    #[inline]
    pub(super) fn chrono_start(&mut self, kind: u8) {
        if kind > self.sk.chrono_type {
            self.chrono_set(kind);
        }
    }

    #[inline]
    pub(super) fn chrono_stop(&mut self, kind: u8) {
        if self.tx.queue.is_empty() && self.tx.queue.unsent.is_empty() {
            self.chrono_set(0);
        } else if kind == self.sk.chrono_type {
            self.chrono_set(BUSY);
        }
    }

    fn chrono_set(&mut self, kind: u8) {
        let old = self.sk.chrono_type;
        if old == kind {
            return;
        }
        let now = self.jiffies();
        if old > 0 {
            self.tx.chrono.counted[usize::from(old) - 1] += now.wrapping_sub(self.tx.chrono.start);
        }
        self.tx.chrono.start = now;
        self.sk.chrono_type = kind;
    }

    /// Busy, limited by the peer's window, limited by the send buffer, us (`tcp_get_info_chrono_stats`), at `now_us`.
    pub(crate) fn chrono_us(&self, now_us: u64) -> (u64, u64, u64) {
        let mut counted = self.tx.chrono.counted;
        let kind = usize::from(self.sk.chrono_type);
        if kind > 0 {
            counted[kind - 1] += ((now_us / self.tx.jiffy_us) as u32).wrapping_sub(self.tx.chrono.start);
        }
        let us = counted.map(|jiffies| u64::from(jiffies) * self.tx.jiffy_us);
        (us.iter().sum(), us[1], us[2])
    }
}
