//! The size of a super-packet, which a sender passes to its device as one packet (TSO, GSO).
//!
//! Source: `tcp_tso_autosize` (net/ipv4/tcp_output.c). Not considered: kernels before 5.18, whose size does
//! not depend on the round-trip time, and devices with a maximum other than 64 KiB.

use units::Time;

/// Largest super-packet, bytes (GSO_LEGACY_MAX_SIZE, include/linux/netdevice.h).
const MAX_GSO_BYTES: f64 = 65_536.0;
/// Super-packets per second of a paced flow (`sk_pacing_shift` = 10).
const PACED_PER_S: f64 = 1024.0;
/// The unit of the round-trip time (`net.ipv4.tcp_tso_rtt_log` = 9), microseconds.
const RTT_UNIT_US: f64 = 512.0;
/// `net.ipv4.tcp_min_tso_segs`.
const MIN_SEGS: f64 = 2.0;

/// Segments of a super-packet: the bytes that the pacing rate sends in 2^-10 s, and 64 KiB halved for each
/// 512 us of the smallest round-trip time; at least two segments.
///
/// From 5 ms on the second part is at most 128 bytes, and the pacing rate alone determines the size. Below,
/// super-packets are larger: at 1 ms by 32 KiB, below 0.5 ms they have 64 KiB at any rate.
pub fn super_packet_segs(pacing_bytes_per_s: f64, min_rtt: Time, mss: u32) -> f64 {
    let halvings = (min_rtt.as_micros_f64() / RTT_UNIT_US).floor();
    let bytes = pacing_bytes_per_s / PACED_PER_S + MAX_GSO_BYTES * (-halvings).exp2();
    (bytes.min(MAX_GSO_BYTES - 1.0) / f64::from(mss.max(1))).floor().max(MIN_SEGS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_round_trip_time_matters_below_5_ms() {
        let segs = |rtt_us| super_packet_segs(12.5e6, Time::from_micros(rtt_us), 1448);
        // 12,207 bytes of pacing.
        assert_eq!([100_000, 10_000, 5_000].map(segs), [8.0; 3]);
        // 64 KiB / 8, / 2 and / 1 in addition, at most 65,535 bytes.
        assert_eq!([1_600, 1_000, 500].map(segs), [14.0, 31.0, 45.0]);
        assert_eq!(super_packet_segs(1.0, Time::from_millis(20), 8948), 2.0);
    }
}
