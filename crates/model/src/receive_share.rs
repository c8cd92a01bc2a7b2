//! What share of a receive buffer the kernel offers as window.
//!
//! Up to Linux 6.5 it is a half (`tcp_adv_win_scale` = 1). From 6.6 on it is learnt: `tcp_measure_rcv_mss`
//! (net/ipv4/tcp_input.c) takes payload over memory (`truesize`) of a received packet, but only when the
//! segment size differs from the last one seen. On a bulk flow that happens once: at the first data, so
//! the first packet's shape decides for the whole connection.
//!
//! That first packet is what the sender's TSO autosizing makes at its initial pacing rate: two segments
//! on a long path, more on a short one (`tcp_tso_autosize`, net/ipv4/tcp_output.c). Its memory depends
//! on the receiver's device; here are the two forms of a TAP device, which [`crate::predict`] is about. Real
//! drivers lie between 60 and 85 %.

use units::{KernelVersion, Time};

use crate::{INITIAL_WINDOW_SEGS, LEARNT_WINDOW_SHARE};

/// Window over buffer up to Linux 6.5.
pub const HALF: f64 = 0.5;
const PAGE: f64 = 4096.0;
/// `sk_buff` and `skb_shared_info` on 64-bit machines, aligned to cache lines.
const BOOKKEEPING: f64 = 256.0 + 320.0;
/// Room that a driver leaves before a packet (NET_SKB_PAD).
const HEADROOM: f64 = 64.0;
const CACHE_LINE: f64 = 64.0;
/// Ethernet, IPv4 and TCP headers with timestamps.
const HEADERS: f64 = 14.0 + 20.0 + 32.0;
/// At most so much is handed to the device at once.
const GSO_BYTES: f64 = 65_536.0;

/// Segments of the first packet that a sender hands over after the handshake.
///
/// `tcp_tso_autosize`: what the pacing rate (twice the initial window per round trip) sends in 2^-10 s, plus 64 KiB
/// halved for each 512 us of round-trip time; at least two segments, at most half of the initial window
/// (`tcp_cwnd_test`).
pub fn first_packet_segs(mss: u32, rtt: Time) -> u32 {
    let mss = f64::from(mss.max(1));
    let pacing = 2.0 * f64::from(INITIAL_WINDOW_SEGS) * mss / rtt.as_secs_f64().max(1e-6);
    let halvings = (rtt.as_micros_f64() / 512.0).floor();
    let bytes = pacing / 1024.0 + GSO_BYTES * (-halvings).exp2();
    let segments = (bytes.min(GSO_BYTES - 1.0) / mss).floor();
    segments.clamp(2.0, f64::from(INITIAL_WINDOW_SEGS / 2)) as u32
}

/// Memory that a received packet of `payload` bytes is charged: in one piece where it fits into a page,
/// else in pages of their own.
pub fn received_truesize(payload: u32) -> f64 {
    let packet = f64::from(payload) + HEADERS;
    let in_place = ((packet + HEADROOM) / CACHE_LINE).ceil() * CACHE_LINE + BOOKKEEPING;
    if in_place - 256.0 <= PAGE {
        return in_place;
    }
    (packet / PAGE).ceil() * PAGE + BOOKKEEPING
}

/// From here on half of a buffer was window (`tcp_adv_win_scale` = 1, net/ipv4/tcp_input.c of 3.4); before, three quarters
/// (`tcp_adv_win_scale` = 2).
const HALF_A_BUFFER: KernelVersion = KernelVersion::new(3, 4);
/// The share that older kernels offer.
const THREE_QUARTERS: f64 = 0.75;

/// The share of a receive buffer that `kernel` offers as window to a bulk flow with this MSS and round-trip time.
pub fn window_share(kernel: KernelVersion, mss: u32, rtt: Time) -> f64 {
    if kernel < HALF_A_BUFFER {
        return THREE_QUARTERS;
    }
    if kernel < LEARNT_WINDOW_SHARE {
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

    /// Windows that Linux 6.18 offered in the lab over 20 ms, of a buffer of 16 MiB.
    #[test]
    fn agrees_with_what_was_measured() {
        let kernel = KernelVersion::new(6, 18);
        let small = window_share(kernel, 1448, Time::from_millis(20));
        assert!((small / (13_297_152.0 / 16_777_216.0) - 1.0).abs() < 0.01, "{small}");
        let jumbo = window_share(kernel, 8948, Time::from_millis(20));
        assert!((jumbo / 0.84 - 1.0).abs() < 0.03, "{jumbo}");
    }

    #[test]
    fn older_kernels_offer_half() {
        assert_eq!(window_share(KernelVersion::new(6, 5), 1448, Time::from_millis(20)), 0.5);
        assert!(window_share(KernelVersion::new(6, 6), 1448, Time::from_millis(20)) > 0.5);
    }
}
