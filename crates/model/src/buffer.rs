//! Socket buffers: the windows that they allow, and recommended sizes.
//!
//! Sources: net/ipv4/tcp.c and net/core/stream.c (the writer is woken when a third of the send buffer is
//! free); University of South Carolina, Lab 8 (twice the BDP; for BBR with losses four times that).

use units::{BitRate, Bytes, KernelVersion, Time};

use crate::window_share;

/// The limit of a socket buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketBuffer {
    /// Autotuned by the kernel up to the third value of `tcp_rmem` or `tcp_wmem`.
    Tuned {
        /// The third value, at which the buffer stops growing.
        largest: Bytes,
    },
    /// Set with SO_RCVBUF or SO_SNDBUF; the kernel doubles it.
    Fixed {
        /// The value of the socket option.
        requested: Bytes,
    },
}

/// The smallest send buffer, bytes (SOCK_MIN_SNDBUF, include/net/sock.h, on 64-bit machines).
const MIN_SEND_BUFFER: Bytes = Bytes(4608);
/// The smallest receive buffer, bytes (SOCK_MIN_RCVBUF).
const MIN_RECEIVE_BUFFER: Bytes = Bytes(2304);

impl SocketBuffer {
    /// A buffer that SO_SNDBUF sets; the kernel doubles it to at least 4608 bytes.
    pub fn fixed_send(requested: Bytes) -> Self {
        SocketBuffer::Fixed { requested: requested.max(Bytes(MIN_SEND_BUFFER.0 / 2)) }
    }

    /// A buffer that SO_RCVBUF sets; the kernel doubles it to at least 2304 bytes.
    pub fn fixed_receive(requested: Bytes) -> Self {
        SocketBuffer::Fixed { requested: requested.max(Bytes(MIN_RECEIVE_BUFFER.0 / 2)) }
    }

    /// The limit for the memory that the kernel charges, in bytes.
    pub fn charged(self) -> f64 {
        match self {
            SocketBuffer::Tuned { largest } => largest.as_f64(),
            SocketBuffer::Fixed { requested } => 2.0 * requested.as_f64(),
        }
    }
}

/// Share of a send buffer that is payload in flight on average: the kernel wakes a blocked writer when a
/// third is free, so use swings between two thirds and all of it. Measured on Linux 6.18, nine buffers and
/// paths: 0.79 to 0.98.
pub const SEND_BUFFER_SHARE_IN_FLIGHT: f64 = 0.88;

/// Average payload bytes in flight that a send buffer allows.
pub fn send_buffer_window(buffer: SocketBuffer) -> f64 {
    buffer.charged() * SEND_BUFFER_SHARE_IN_FLIGHT
}

/// Goodput in bit/s that a send buffer allows over a path of `rtt` and `rate`.
///
/// The writer refills a third at once. This burst queues before the slowest link and adds its transmission
/// time to the round trip.
pub fn send_buffer_bps(buffer: SocketBuffer, rate: Option<BitRate>, rtt: Time) -> f64 {
    let burst_s = rate.map_or(0.0, |rate| buffer.charged() / 3.0 / rate.bytes_per_sec_f64());
    send_buffer_window(buffer) * 8.0 / (rtt.as_secs_f64() + burst_s)
}

/// The window that a receive buffer allows, in payload bytes.
pub fn receive_buffer_window(buffer: SocketBuffer, kernel: KernelVersion, mss: u32, rtt: Time) -> f64 {
    buffer.charged() * window_share(kernel, mss, rtt)
}

/// Recommended third values of `tcp_rmem` and `tcp_wmem`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferAdvice {
    /// Twice the BDP, in whole MiB.
    pub default: Bytes,
    /// Exactly four times `default`, for BBR on a path with losses.
    pub bbr_with_loss: Bytes,
}

/// Twice the bandwidth-delay product (L8-linux2), and four times that for BBR with losses (L8-bbr4).
///
/// Twice, because older kernels offer half of a buffer as window, because the sender keeps as little as two
/// thirds in flight, and because data accumulates behind a lost segment for a round trip (L8-hol).
pub fn buffer_advice(bdp: f64) -> BufferAdvice {
    let default = round_up_mib(2.0 * bdp);
    BufferAdvice { default, bbr_with_loss: Bytes(default.0.saturating_mul(4)) }
}

/// Rounds up to whole MiB.
pub fn round_up_mib(bytes: f64) -> Bytes {
    const MIB: f64 = 1_048_576.0;
    Bytes(((bytes / MIB).ceil() * MIB) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_is_that_of_lab_8() {
        // 10 Gb/s x 50 ms: 62.5 MB, 60 MiB rounded; 120 and 480 MiB in the example.
        let advice = buffer_advice(62_500_000.0);
        assert_eq!(advice.default, Bytes(120 << 20));
        assert_eq!(advice.bbr_with_loss, Bytes(480 << 20));
    }

    #[test]
    fn a_fixed_buffer_is_doubled() {
        assert_eq!(SocketBuffer::Fixed { requested: Bytes(1 << 20) }.charged(), 2_097_152.0);
        let charged = |requested| {
            (SocketBuffer::fixed_send(requested).charged(), SocketBuffer::fixed_receive(requested).charged())
        };
        assert_eq!(charged(Bytes(1)), (4608.0, 2304.0));
        assert_eq!(charged(Bytes(10_000)), (20_000.0, 20_000.0));
        let old = KernelVersion::new(6, 1);
        let window = receive_buffer_window(
            SocketBuffer::Tuned { largest: Bytes(16 << 20) },
            old,
            1448,
            Time::from_millis(20),
        );
        assert_eq!(window, 8_388_608.0);
    }

    /// Goodputs of Linux 6.18 in the lab, where the send buffer alone was the limit.
    #[test]
    fn agrees_with_measurements() {
        for (largest, rate, measured) in [(16_777_216, 10_000_000_000, 4.42e9), (262_144, 200_000_000, 82e6)]
        {
            let buffer = SocketBuffer::Tuned { largest: Bytes(largest) };
            let bps = send_buffer_bps(buffer, Some(BitRate(rate)), Time::from_millis(20));
            assert!((bps / measured - 1.0).abs() < 0.12, "{largest}: {bps}");
        }
    }
}
