//! Judges the steps of a guided lab: whether measured figures match those of the lesson.

/// Maximum ratio of the shortest of four round trips to the step's delay; a busy machine adds some
/// milliseconds.
const MAX_RTT_RATIO: f64 = 1.25;
/// A throughput below this share of the lesson's shows that this machine, not the step's settings, is the
/// limit.
const MIN_THROUGHPUT_SHARE: f64 = 0.85;
/// Headers of IPv4 and of ICMP echo.
const ECHO_HEADER_BYTES: u64 = 28;

/// The minimum of the round trips in ping's summary (`rtt min/avg/max/mdev = 20.1/25.3/41.1/9.1 ms`), ms, and
/// the text of all its values; `None` without a reply.
pub fn shortest_ping(output: &str) -> Option<(f64, &str)> {
    let (_, values) = output.lines().find_map(|line| line.split_once("min/avg/max/mdev = "))?;
    let min = values.split('/').next().and_then(|min| min.parse().ok()).unwrap_or_default();
    Some((min, values))
}

/// Whether the shortest round trip is that of a path with the round-trip time `expected_ms`.
pub fn has_rtt(shortest_ms: f64, expected_ms: f64) -> bool {
    (expected_ms..MAX_RTT_RATIO * expected_ms).contains(&shortest_ms)
}

/// Whether a throughput is so far below the expected one that this machine limits it.
pub fn is_slow(measured_bps: f64, expected_gbps: f64) -> bool {
    measured_bps / 1e9 < MIN_THROUGHPUT_SHARE * expected_gbps
}

/// The payload with which ping sends IPv4 packets of this size (`ping -s`).
pub fn echo_payload_bytes(packet_bytes: u64) -> u64 {
    packet_bytes.saturating_sub(ECHO_HEADER_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_round_trip_is_compared_with_the_steps_delay() {
        let text = "4 packets transmitted, 4 received\nrtt min/avg/max/mdev = 20.1/25.3/41.1/9.1 ms\n";
        assert_eq!(shortest_ping(text), Some((20.1, "20.1/25.3/41.1/9.1 ms")));
        assert_eq!(shortest_ping("4 packets transmitted, 0 received\n"), None);
        assert!(has_rtt(20.1, 20.0) && has_rtt(24.9, 20.0));
        assert!(!has_rtt(19.9, 20.0), "the delay is not yet set");
        assert!(!has_rtt(40.1, 20.0), "the delay is set twice");
    }

    #[test]
    fn a_slow_machine_is_not_a_mistake_in_the_step() {
        assert!(is_slow(3.3e9, 4.0) && !is_slow(3.5e9, 4.0) && !is_slow(5e9, 4.0));
    }

    #[test]
    fn the_payload_of_ping_gives_the_requested_packet_size() {
        assert_eq!(echo_payload_bytes(9000), 8972);
    }
}
