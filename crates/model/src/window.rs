//! The bandwidth-delay product (BDP), and the throughput of a window.
//!
//! Source: RFC 7323 (window scale); throughput = window / RTT is the definition of a sliding window.

use units::{BitRate, Bytes, Time};

/// The largest shift of the window scale option (RFC 7323, section 2.3).
pub const MAX_WINDOW_SCALE: u8 = 14;

/// The largest window that a 16-bit field can express with the largest scale: 65,535 x 2^14 bytes.
pub const MAX_WINDOW: Bytes = Bytes(65_535 << MAX_WINDOW_SCALE);

/// The bandwidth-delay product: the bytes that the path carries in one round trip, rounded down.
pub fn bdp(rate: BitRate, rtt: Time) -> Bytes {
    rate.bytes_in(rtt)
}

/// The bandwidth-delay product in bytes, not rounded.
pub fn bdp_f64(rate: BitRate, rtt: Time) -> f64 {
    rate.bytes_per_sec_f64() * rtt.as_secs_f64()
}

/// Packets of `packet_bytes` that a sending host's transmit queue (`txqueuelen`) needs where the host's own
/// link is the slowest of the path: one bandwidth-delay product, rounded up. A window that has filled the
/// link and the queue is then twice the product, and its half after a loss still fills the link (C.
/// Villamizar and C. Song, "High performance TCP in ANSNET", CCR 24(5), 1994).
///
/// `rate` and `packet_bytes` are of one layer: a link's rate with the bytes of a frame, or a payload's rate
/// with the MSS. The kernel counts a super-packet (GSO, up to 64 KiB) as one packet, so a queue of this
/// length may hold more bytes, never fewer.
pub fn transmit_queue_packets(rate: BitRate, rtt: Time, packet_bytes: u32) -> u64 {
    (bdp_f64(rate, rtt) / f64::from(packet_bytes.max(1))).ceil() as u64
}

/// Bits per second of a window of `window` bytes per round trip; infinite if `rtt` is zero.
pub fn throughput_bps(window: Bytes, rtt: Time) -> f64 {
    window.bits_f64() / rtt.as_secs_f64()
}

/// Share of the path that a window of `window` bytes fills: window / BDP, at most 1; 1 if the BDP is zero.
pub fn window_utilization(window: Bytes, rate: BitRate, rtt: Time) -> f64 {
    let bdp = bdp_f64(rate, rtt);
    if bdp > 0.0 { (window.as_f64() / bdp).min(1.0) } else { 1.0 }
}

/// The smallest window scale with which `window` can be advertised; `None` above [`MAX_WINDOW`].
pub fn window_scale(window: Bytes) -> Option<u8> {
    (0..=MAX_WINDOW_SCALE).find(|scale| scaled_window(u16::MAX, *scale) >= window)
}

/// The window in bytes of a header's 16-bit field with a window scale (at most 14).
pub fn scaled_window(field: u16, scale: u8) -> Bytes {
    Bytes(u64::from(field) << scale.min(MAX_WINDOW_SCALE))
}

/// Utilization over the two round trips around one lost segment, with head-of-line blocking.
///
/// The segment is lost at t = 0, and the sender detects the loss at t = RTT. Until the retransmission is
/// acknowledged at 2 RTT the application receives nothing, so the sender can send at most one receive window
/// beyond the lost segment: window / (2 BDP), at most 1. One BDP gives one half, two BDPs never stall.
pub fn hol_throughput_share(window: Bytes, rate: BitRate, rtt: Time) -> f64 {
    let bdp = bdp_f64(rate, rtt);
    if bdp > 0.0 { (window.as_f64() / (2.0 * bdp)).min(1.0) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transmit_queue_holds_the_packets_of_a_round_trip_at_the_link_rate() {
        let packets = |rate, bytes| transmit_queue_packets(BitRate(rate), Time::from_millis(100), bytes);
        // The same link seen from two layers.
        assert_eq!((packets(100_000_000, 1514), packets(95_640_000, 1448)), (826, 826));
        assert_eq!(packets(0, 0), 0);
    }

    #[test]
    fn the_window_scale_is_the_smallest_that_fits() {
        assert_eq!(window_scale(Bytes(65_535)), Some(0));
        assert_eq!(window_scale(Bytes(65_536)), Some(1));
        assert_eq!(window_scale(MAX_WINDOW), Some(14));
        assert_eq!(window_scale(Bytes(MAX_WINDOW.0 + 1)), None);
    }

    #[test]
    fn window_fills_the_path_at_one_bdp() {
        let (rate, rtt) = (BitRate(1_000_000_000), Time::from_millis(10));
        assert_eq!(window_utilization(Bytes(1_250_000), rate, rtt), 1.0);
        assert_eq!(window_utilization(Bytes(625_000), rate, rtt), 0.5);
        assert_eq!(window_utilization(Bytes(1), rate, Time::ZERO), 1.0);
        assert_eq!(throughput_bps(Bytes(625_000), rtt), 5e8);
        assert_eq!(throughput_bps(Bytes(1), Time::ZERO), f64::INFINITY);
    }
}
