//! The share of a receive buffer that the kernel advertises as window.
//!
//! Up to Linux 6.5 it is a half (`tcp_adv_win_scale` = 1). From 6.6 on the kernel measures it:
//! `tcp_measure_rcv_mss` (net/ipv4/tcp_input.c) divides the payload of a received packet by its memory
//! (`truesize`), but only when the segment size differs from the previous one. On a bulk flow that happens
//! once, at the first data, so the first packet determines the share of the whole connection.
//!
//! The sender's TSO autosizing at its initial pacing rate determines the first packet: two segments
//! on a long path, more on a short one (`tcp_tso_autosize`, net/ipv4/tcp_output.c). Its memory depends
//! on the receiver's device. The two forms here are those of a TAP device, which [`crate::predict`] assumes;
//! with real drivers the share is between 60 and 85 %.

use units::{KernelVersion, Time};

use crate::{INITIAL_WINDOW_SEGS, SCALING_RATIO_SINCE, super_packet_segs};

/// Window divided by buffer, up to Linux 6.5.
pub const HALF: f64 = 0.5;
const PAGE: f64 = 4096.0;
/// `sk_buff` and `skb_shared_info` on 64-bit machines, aligned to cache lines.
const BOOKKEEPING: f64 = 256.0 + 320.0;
/// Bytes that a driver reserves before a packet (NET_SKB_PAD).
const HEADROOM: f64 = 64.0;
const CACHE_LINE: f64 = 64.0;
/// Ethernet, IPv4 and TCP headers with timestamps.
const HEADERS: f64 = 14.0 + 20.0 + 32.0;

/// Segments of the first super-packet that a sender passes to its device after the handshake.
///
/// Its pacing rate is twice the initial window per round trip; it has at most half of the initial window
/// (`tcp_cwnd_test`).
pub fn first_packet_segs(mss: u32, rtt: Time) -> u32 {
    let pacing = 2.0 * f64::from(INITIAL_WINDOW_SEGS) * f64::from(mss.max(1)) / rtt.as_secs_f64().max(1e-6);
    super_packet_segs(pacing, rtt, mss).min(f64::from(INITIAL_WINDOW_SEGS / 2)) as u32
}

/// Memory that the kernel charges for a received packet of `payload` bytes: contiguous if it fits into a
/// page, else in separate pages.
pub fn received_truesize(payload: u32) -> f64 {
    let packet = f64::from(payload) + HEADERS;
    let contiguous = ((packet + HEADROOM) / CACHE_LINE).ceil() * CACHE_LINE + BOOKKEEPING;
    if contiguous - 256.0 <= PAGE {
        return contiguous;
    }
    (packet / PAGE).ceil() * PAGE + BOOKKEEPING
}

/// The first kernel that advertises half of a buffer (`tcp_adv_win_scale` = 1, net/ipv4/tcp_input.c of 3.4).
/// Earlier kernels offer three quarters (`tcp_adv_win_scale` = 2).
const HALF_SINCE: KernelVersion = KernelVersion::new(3, 4);
/// The share that earlier kernels offer.
const THREE_QUARTERS: f64 = 0.75;

/// The share of a receive buffer that `kernel` advertises as window to a bulk flow with this MSS and
/// round-trip time.
pub fn window_share(kernel: KernelVersion, mss: u32, rtt: Time) -> f64 {
    if kernel < HALF_SINCE {
        return THREE_QUARTERS;
    }
    if kernel < SCALING_RATIO_SINCE {
        return HALF;
    }
    let payload = first_packet_segs(mss, rtt) * mss;
    (f64::from(payload) / received_truesize(payload)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_packet_is_small_on_a_long_path() {
        assert_eq!(first_packet_segs(1448, Time::from_millis(20)), 2);
        assert_eq!(first_packet_segs(8948, Time::from_millis(20)), 2);
        assert_eq!(first_packet_segs(1448, Time::from_micros(100)), 5);
    }

    /// Windows that Linux 6.18 offered in the lab over 20 ms, with a buffer of 16 MiB.
    #[test]
    fn agrees_with_measurements() {
        let kernel = KernelVersion::new(6, 18);
        let small = window_share(kernel, 1448, Time::from_millis(20));
        assert!((small / (13_297_152.0 / 16_777_216.0) - 1.0).abs() < 0.01, "{small}");
        let jumbo = window_share(kernel, 8948, Time::from_millis(20));
        assert!((jumbo / 0.84 - 1.0).abs() < 0.03, "{jumbo}");
    }

    #[test]
    fn older_kernels_advertise_half_of_the_buffer() {
        assert_eq!(window_share(KernelVersion::new(6, 5), 1448, Time::from_millis(20)), 0.5);
        assert!(window_share(KernelVersion::new(6, 6), 1448, Time::from_millis(20)) > 0.5);
    }
}
