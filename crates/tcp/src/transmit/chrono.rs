//! The limited-by clocks (`tcp_chrono_start`, `tcp_chrono_stop`, net/ipv4/tcp_output.c), in jiffies as in the
//! kernel.

use super::Sender;
use crate::connection::Connection;

/// `TCP_CHRONO_*`; a higher one takes precedence.
pub(super) const BUSY: u8 = 1;
pub(super) const RWND_LIMITED: u8 = 2;
pub(super) const SNDBUF_LIMITED: u8 = 3;

/// Counted times, jiffies.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Chrono {
    start: u32,
    counted: [u32; 3],
}

impl Sender {
    #[inline]
    pub(super) fn chrono_start(&mut self, conn: &mut Connection, kind: u8) {
        if kind > conn.sk.chrono_type {
            self.chrono_set(conn, kind);
        }
    }

    #[inline]
    pub(super) fn chrono_stop(&mut self, conn: &mut Connection, kind: u8) {
        if self.queue.is_empty() && self.queue.unsent.is_empty() {
            self.chrono_set(conn, 0);
        } else if kind == conn.sk.chrono_type {
            self.chrono_set(conn, BUSY);
        }
    }

    fn chrono_set(&mut self, conn: &mut Connection, kind: u8) {
        let old = conn.sk.chrono_type;
        if old == kind {
            return;
        }
        let now = conn.jiffies();
        if old > 0 {
            self.chrono.counted[usize::from(old) - 1] += now.wrapping_sub(self.chrono.start);
        }
        self.chrono.start = now;
        conn.sk.chrono_type = kind;
    }

    /// Times busy, limited by the peer's window, limited by the send buffer, us
    /// (`tcp_get_info_chrono_stats`), at `now_us`.
    pub(crate) fn chrono_us(&self, conn: &Connection, now_us: u64) -> (u64, u64, u64) {
        let mut counted = self.chrono.counted;
        let kind = usize::from(conn.sk.chrono_type);
        if kind > 0 {
            counted[kind - 1] += ((now_us / conn.jiffy_us) as u32).wrapping_sub(self.chrono.start);
        }
        let us = counted.map(|jiffies| u64::from(jiffies) * conn.jiffy_us);
        (us.iter().sum(), us[1], us[2])
    }
}
