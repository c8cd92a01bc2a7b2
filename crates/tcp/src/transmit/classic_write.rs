//! Writes of the application under Linux 2.4 (`tcp_sendmsg`, net/ipv4/tcp.c; `tcp_push_one`,
//! net/ipv4/tcp_output.c).
//!
//! A write fills segments one by one. The first unsent segment leaves as soon as it is full, without
//! validation of the congestion window; the end of the write sends the data that Nagle's algorithm allows,
//! and then the window is validated (RFC 2861). A sender that its send buffer limits never fills its window.
//! So its window is reduced once per retransmission timeout (at least 200 ms), and slow start raises it
//! again. The flag `SOCK_NOSPACE` prevents this only while the writer waits.
//!
//! Differences from Linux 2.4: 1. After a write that leaves no space the application is assumed to write
//! again at once.
//! 2. No push for more than half of the peer's largest window (`forced_push`).

use super::{Sender, output::Push};
use crate::connection::Connection;

impl Sender {
    /// `tcp_sendmsg`: takes as many bytes as fit. Returns the number of bytes taken.
    pub(super) fn write_by_segments(&mut self, conn: &mut Connection, bytes: u64) -> u64 {
        let mss = conn.sk.mss_cache;
        let mut left = bytes;
        while left > 0 {
            let space = self.queue.unsent.back().map_or(0, |last| mss.saturating_sub(last.len));
            if space == 0 {
                if self.wmem_queued(conn) >= conn.sk.sk_sndbuf as u32 {
                    self.nospace = true;
                    break;
                }
                self.new_chunk(conn);
                continue;
            }
            let taken = u64::from(space).min(left) as u32;
            self.append(conn, taken);
            left -= u64::from(taken);
            if left > 0 && taken == space && self.queue.unsent.len() == 1 {
                self.write_xmit(conn, Push::One);
            }
        }
        self.mark_push(conn);
        self.push_pending(conn);
        self.nospace |= self.wmem_queued(conn) >= conn.sk.sk_sndbuf as u32;
        self.check_space(conn);
        bytes - left
    }
}
