//! Values that engines derive from a scenario's flows: the schedule of datagrams, and the timeout of echoes.

use datagrams::{DatagramSource, Draws, SourcePlan};
use scenario::{Scenario, UdpSpec};
use units::{Instant, Time};

/// Bytes of a UDP header (RFC 768).
pub const UDP_HEADER_BYTES: u32 = 8;

/// Bytes of a full packet, to convert queue limits in packets to bytes.
const FULL_PACKET_BYTES: u64 = 1514;
/// Bounds of [`echo_timeout`].
const MIN_ECHO_TIMEOUT: Time = Time::from_secs(1);
const MAX_ECHO_TIMEOUT: Time = Time::from_secs(60);

/// Timeout of an echo request: twice the sum of all links' delays with full queues, at
/// least 1 s and at most 60 s.
pub fn echo_timeout(scenario: &Scenario) -> Time {
    let directions = scenario.links.iter().flat_map(|link| [&link.forward, &link.backward]);
    let nanos: u64 = directions
        .map(|d| {
            let queue = d
                .rate
                .mean()
                .zip(d.queue.bytes(FULL_PACKET_BYTES))
                .map_or(0, |(rate, held)| rate.transmit_time(held).as_nanos());
            d.delay.as_nanos().saturating_add(queue)
        })
        .fold(0, u64::saturating_add);
    Time::from_nanos(nanos.saturating_mul(2)).clamp(MIN_ECHO_TIMEOUT, MAX_ECHO_TIMEOUT)
}

/// The datagrams of the udp flow with this `index` in the scenario, from `start` on.
///
/// `seed` is the scenario's. `max_payload` is the payload of datagrams whose size the flow does not set.
pub fn datagram_source(
    udp: &UdpSpec,
    max_payload: u32,
    seed: u64,
    index: usize,
    start: Instant,
) -> DatagramSource {
    let payload = udp.packet.map_or(max_payload, |bytes| u32::try_from(bytes.0).unwrap_or(u32::MAX));
    let plan = SourcePlan { rate: udp.rate, payload, back_to_back: 1, size: udp.size, bursts: udp.bursts };
    DatagramSource::new(&plan, Draws::new(seed, 2 * index as u32 + 1), start)
}
