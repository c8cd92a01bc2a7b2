//! Socket buffers: what the kernel makes of one, and how large it should be.
//!
//! A buffer is memory, a window is payload in flight: the kernel charges a buffer for its own
//! structures too. Sources: Linux tcp(7) and socket(7) (SO_RCVBUF and SO_SNDBUF are doubled); the
//! receive side as in [`crate::window_share`]; the send side measured on 6.18.

use units::{BitRate, Bytes, Time};

use crate::{KernelVersion, bdp_f64};

/// A socket's buffer limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffer {
    /// Grows by itself up to the third value of `tcp_rmem` or `tcp_wmem`.
    Autotuned {
        /// That value.
        max: Bytes,
    },
    /// Set with SO_RCVBUF or SO_SNDBUF, after the cap of `net.core.rmem_max` or `wmem_max`.
    Fixed {
        /// What was asked for; the kernel uses twice that.
        asked: Bytes,
    },
}

impl Buffer {
    /// The memory that the kernel allows in the end.
    pub fn memory(self) -> Bytes {
        match self {
            Buffer::Autotuned { max } => max,
            Buffer::Fixed { asked } => Bytes(asked.0.saturating_mul(2)),
        }
    }
}

/// Share of a send buffer's memory that is payload in flight, in the mean.
///
/// The writer sleeps when the memory is used up and is woken when a third of it is free
/// (`sk_stream_write_space`), so between two thirds and all of it is in flight; 0.80 to 0.98 was measured on 6.18.
pub const SEND_BUFFER_IN_FLIGHT: f64 = 0.88;

/// Goodput in bits per second that a send buffer of `memory` bytes allows on a path.
///
/// The woken writer fills the free third at once. That burst queues at the slowest link (`rate`) and
/// lengthens the round trip by memory / 3 / rate. Within 11 % of nine runs on 6.18 from 200 Mb/s to unlimited.
pub fn send_buffer_throughput_bps(memory: Bytes, rate: Option<BitRate>, rtt: Time) -> f64 {
    let burst_s = rate.map_or(0.0, |rate| memory.as_f64() / 3.0 / rate.bytes_per_sec_f64());
    SEND_BUFFER_IN_FLIGHT * memory.bits_f64() / (rtt.as_secs_f64() + burst_s)
}

/// The buffer limits to set for a path, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct BufferAdvice {
    /// The third value of `tcp_rmem`.
    pub receive: Bytes,
    /// The third value of `tcp_wmem`.
    pub send: Bytes,
    /// Why the receive side needs that much with this kernel.
    pub receive_why: String,
    /// Why the send side does.
    pub send_why: String,
}

/// What to multiply the BDP with, so that half of the buffer may be lost to the kernel's structures.
const HALF_IS_LOST: f64 = 2.0;
/// BBR keeps sending through moderate loss, and what it sends waits behind the holes.
const BBR_UNDER_LOSS: f64 = 4.0;

/// Buffer limits for a path of `rate` and `rtt`, in whole MiB: twice the BDP, with BBR and loss four times that.
///
/// The rule of two holds for both families of kernels: to 6.5 half of the receive buffer is window, from 6.6
/// on more is, and what is more than needed lets a lost segment be repaired without a stall
/// ([`crate::hol_throughput_share`]).
pub fn buffer_advice(rate: BitRate, rtt: Time, kernel: KernelVersion, bbr_with_loss: bool) -> BufferAdvice {
    let factor = HALF_IS_LOST * if bbr_with_loss { BBR_UNDER_LOSS } else { 1.0 };
    let size = round_up_mib(bdp_f64(rate, rtt) * factor);
    let times =
        if bbr_with_loss { "2 x BDP, times 4 for BBR under moderate to high loss" } else { "2 x BDP" };
    let receive_why = if kernel.learns_window_share() {
        format!(
            "{times}: Linux {kernel} learns the window's share of the buffer from the packets (50 to 85 %), \
             so half is safe and the rest bridges the repair of a loss"
        )
    } else {
        format!("{times}: Linux {kernel} offers half of the buffer as window (tcp_adv_win_scale = 1)")
    };
    let send_why = format!(
        "{times}: the buffer holds what is not yet acknowledged, is charged with the kernel's structures, and the \
         writer is woken only when a third is free"
    );
    BufferAdvice { receive: size, send: size, receive_why, send_why }
}

/// `bytes` rounded up to whole MiB.
pub fn round_up_mib(bytes: f64) -> Bytes {
    const MIB: f64 = 1_048_576.0;
    Bytes(((bytes / MIB).ceil() * MIB) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_doubles_what_is_asked() {
        assert_eq!(Buffer::Fixed { asked: Bytes(1 << 20) }.memory(), Bytes(2 << 20));
        assert_eq!(Buffer::Autotuned { max: Bytes(1 << 20) }.memory(), Bytes(1 << 20));
        assert_eq!(Buffer::Fixed { asked: Bytes(u64::MAX) }.memory(), Bytes(u64::MAX));
    }

    /// Goodputs of 6.18 with only the send buffer small, over TAP devices, base RTT 20.4 ms (50.5 the last).
    #[test]
    fn send_buffer_against_the_kernel() {
        for (memory, rate, rtt_us, measured) in [
            (262_144, Some(200_000_000), 20_400, 0.082e9),
            (400_000, Some(200_000_000), 20_400, 0.117e9),
            (524_288, Some(200_000_000), 20_400, 0.137e9),
            (1_048_576, Some(1_000_000_000), 20_400, 0.297e9),
            (1_677_721, Some(1_000_000_000), 20_400, 0.464e9),
            (2_097_152, Some(1_000_000_000), 20_400, 0.549e9),
            (1_048_576, None, 20_400, 0.405e9),
            (4_194_304, None, 20_400, 1.578e9),
            (4_194_304, None, 50_500, 0.605e9),
        ] {
            let model =
                send_buffer_throughput_bps(Bytes(memory), rate.map(BitRate), Time::from_micros(rtt_us));
            assert!((model / measured - 1.0).abs() < 0.11, "{memory} {rate:?}: {model} {measured}");
        }
    }

    #[test]
    fn advice_says_which_kernel() {
        let (rate, rtt) = (BitRate(10_000_000_000), Time::from_millis(50));
        let old = buffer_advice(rate, rtt, KernelVersion::new(6, 1), false);
        assert!(old.receive_why.contains("Linux 6.1 offers half"), "{}", old.receive_why);
        let new = buffer_advice(rate, rtt, KernelVersion::new(6, 18), false);
        assert!(new.receive_why.contains("Linux 6.18 learns"), "{}", new.receive_why);
        assert_eq!(old.receive, new.receive);
        assert_eq!(round_up_mib(0.0), Bytes(0));
        assert_eq!(round_up_mib(1_048_576.0), Bytes(1_048_576));
    }
}
