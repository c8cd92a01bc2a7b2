//! The values of `struct tcp_info` that grow with the clock alone, made of what the kernel keeps in jiffies
//! (tcp_get_info() and tcp_get_info_chrono_stats() of net/ipv4/tcp.c, 6.18).

use crate::TcpInfo;

const BUSY: u32 = 1;
const RECEIVE_WINDOW: u32 = 2;
const SEND_BUFFER: u32 = 3;

/// When something last happened to a connection, and what has limited it so far; jiffies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clocks {
    data_sent: u32,
    data_received: u32,
    ack_received: u32,
    /// What the sender is doing now, and since when.
    chrono: (u32, u32),
    /// How long it has done each before.
    before: [u32; 3],
}

impl Clocks {
    /// From the words of `struct clocks` after its first.
    pub(crate) fn from_words(
        [data_sent, data_received, ack_received, kind, start, before @ ..]: [u32; 8],
    ) -> Self {
        Clocks { data_sent, data_received, ack_received, chrono: (kind, start), before }
    }

    /// Fills in what they are at the time `now`, in jiffies of `hz` a second.
    pub(crate) fn tell(&self, now: u32, hz: u64, info: &mut TcpInfo) {
        let hz = hz.max(1);
        let since = |then: u32| now.wrapping_sub(then);
        // As jiffies_to_msecs(), which gives an unsigned int.
        let milliseconds = |jiffies: u32| (u64::from(jiffies) * 1000 / hz) as u32;
        let micros = |jiffies: u64| jiffies * 1_000_000 / hz;
        let [busy, window, buffer] = [BUSY, RECEIVE_WINDOW, SEND_BUFFER].map(|kind| {
            let running = if self.chrono.0 == kind { since(self.chrono.1) } else { 0 };
            u64::from(self.before[kind as usize - 1]) + u64::from(running)
        });
        let ago = [self.data_sent, self.data_received, self.ack_received];
        let spent = [busy + window + buffer, window, buffer];
        info.set_times(ago.map(|then| milliseconds(since(then))), spent.map(micros));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(clocks: [u32; 8], now: u32) -> TcpInfo {
        let mut info = TcpInfo::from_bytes(&[0; 280]);
        Clocks::from_words(clocks).tell(now, 250, &mut info);
        info
    }

    #[test]
    fn what_runs_grows_and_what_rests_does_not() {
        let clocks = [100, 90, 101, RECEIVE_WINDOW, 100, 10, 20, 30];
        let info = told(clocks, 105);
        assert_eq!(info.last_data_sent_ms(), Some(20));
        assert_eq!(info.last_data_recv_ms(), Some(60));
        assert_eq!(info.last_ack_recv_ms(), Some(16));
        assert_eq!(info.rwnd_limited_us(), Some(25 * 4000));
        assert_eq!(info.sndbuf_limited_us(), Some(30 * 4000));
        assert_eq!(info.busy_time_us(), Some(65 * 4000), "the sum of all");
    }

    #[test]
    fn jiffies_go_round() {
        let info = told([u32::MAX, 0, 5, 0, 77, 1, 0, 0], 4);
        assert_eq!(info.last_data_sent_ms(), Some(20));
        assert_eq!(
            info.last_ack_recv_ms(),
            Some((u64::from(u32::MAX) * 4) as u32),
            "as the kernel's own cast"
        );
        assert_eq!(info.busy_time_us(), Some(4000), "nothing runs");
    }

    #[test]
    fn a_short_answer_stays_short() {
        let mut info = TcpInfo::from_bytes(&[0; 104]);
        Clocks::from_words([0; 8]).tell(9, 0, &mut info);
        assert_eq!((info.last_data_sent_ms(), info.busy_time_us()), (Some(9000), None));
    }
}
