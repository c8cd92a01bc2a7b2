//! The fields of `struct tcp_info` that advance with the clock alone, computed from the socket's values in
//! jiffies as tcp_get_info() and tcp_get_info_chrono_stats() do (net/ipv4/tcp.c, 6.18).

use crate::TcpInfo;

// enum tcp_chrono (include/linux/tcp.h).
const BUSY: u32 = 1;
const RECEIVE_WINDOW: u32 = 2;
const SEND_BUFFER: u32 = 3;

/// Times of the last data and ACK of a connection, and the time for which each limit held; in jiffies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clocks {
    data_sent: u32,
    data_received: u32,
    ack_received: u32,
    /// The current `enum tcp_chrono` (0: none), and its start.
    chrono: (u32, u32),
    /// Completed time in each state: busy, limited by the receive window, limited by the send buffer.
    completed: [u32; 3],
}

impl Clocks {
    /// Decodes the words of `struct clocks` after its first.
    pub(crate) fn from_words(
        [data_sent, data_received, ack_received, kind, start, completed @ ..]: [u32; 8],
    ) -> Self {
        Clocks { data_sent, data_received, ack_received, chrono: (kind, start), completed }
    }

    /// Sets the fields that depend on the clock to their values at the time `now`, in jiffies; `hz` is the
    /// number of jiffies per second.
    pub(crate) fn set_times(&self, now: u32, hz: u64, info: &mut TcpInfo) {
        let hz = hz.max(1);
        let since = |then: u32| now.wrapping_sub(then);
        // As jiffies_to_msecs(), which returns an unsigned int.
        let milliseconds = |jiffies: u32| (u64::from(jiffies) * 1000 / hz) as u32;
        let micros = |jiffies: u64| jiffies * 1_000_000 / hz;
        let [busy, window, buffer] = [BUSY, RECEIVE_WINDOW, SEND_BUFFER].map(|kind| {
            let running = if self.chrono.0 == kind { since(self.chrono.1) } else { 0 };
            u64::from(self.completed[kind as usize - 1]) + u64::from(running)
        });
        let last = [self.data_sent, self.data_received, self.ack_received];
        let durations = [busy + window + buffer, window, buffer];
        info.set_times(last.map(|then| milliseconds(since(then))), durations.map(micros));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info_at(clocks: [u32; 8], now: u32) -> TcpInfo {
        let mut info = TcpInfo::from_bytes(&[0; 280]);
        Clocks::from_words(clocks).set_times(now, 250, &mut info);
        info
    }

    #[test]
    fn only_the_current_chrono_advances() {
        let clocks = [100, 90, 101, RECEIVE_WINDOW, 100, 10, 20, 30];
        let info = info_at(clocks, 105);
        assert_eq!(info.last_data_sent_ms(), Some(20));
        assert_eq!(info.last_data_recv_ms(), Some(60));
        assert_eq!(info.last_ack_recv_ms(), Some(16));
        assert_eq!(info.rwnd_limited_us(), Some(25 * 4000));
        assert_eq!(info.sndbuf_limited_us(), Some(30 * 4000));
        assert_eq!(info.busy_time_us(), Some(65 * 4000), "the sum of all");
    }

    #[test]
    fn jiffies_wrap_around() {
        let info = info_at([u32::MAX, 0, 5, 0, 77, 1, 0, 0], 4);
        assert_eq!(info.last_data_sent_ms(), Some(20));
        assert_eq!(
            info.last_ack_recv_ms(),
            Some((u64::from(u32::MAX) * 4) as u32),
            "as the kernel's own cast"
        );
        assert_eq!(info.busy_time_us(), Some(4000), "no chrono is running");
    }

    #[test]
    fn a_short_tcp_info_is_not_extended() {
        let mut info = TcpInfo::from_bytes(&[0; 104]);
        Clocks::from_words([0; 8]).set_times(9, 0, &mut info);
        assert_eq!((info.last_data_sent_ms(), info.busy_time_us()), (Some(9000), None));
    }
}
