//! Sums over all watched connections, for monitoring.

use std::collections::BTreeMap;

use schema::Cause;
use watch::{TrackedConnection, Watcher};

use super::{Trail, Trails};

/// Sums over the connections that a watcher knows. Closed connections, which it forgets after a while, count
/// only in the numbers of bytes and segments.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Aggregates {
    /// Number of live connections by TCP state.
    pub connections: BTreeMap<&'static str, f64>,
    /// Payload that peers acknowledge, of live connections, bit/s.
    pub sent_bps: f64,
    /// Payload that arrives, of live connections, bit/s.
    pub received_bps: f64,
    /// Segments in the network, of live connections.
    pub in_flight_segs: f64,
    /// Payload acknowledged by peers, bytes.
    pub bytes_acked: u64,
    /// Payload received, bytes.
    pub bytes_received: u64,
    /// Segments retransmitted.
    pub retransmitted_segs: u64,
    /// Number of live connections by the factor that limits them.
    pub limited: BTreeMap<Cause, f64>,
}

impl Aggregates {
    /// The sums over all connections of a watcher.
    pub fn of(watcher: &Watcher, trails: &Trails) -> Aggregates {
        let mut sums = Aggregates::default();
        for connection in watcher.connections() {
            sums.add(connection, trails.get(connection.sample.cookie).and_then(Trail::verdict));
        }
        sums
    }

    fn add(&mut self, connection: &TrackedConnection, verdict: Option<Cause>) {
        let info = &connection.sample.info;
        self.bytes_acked += info.bytes_acked().unwrap_or(0);
        self.bytes_received += info.bytes_received().unwrap_or(0);
        self.retransmitted_segs += info.total_retrans().map_or(0, u64::from);
        if connection.closed_ns.is_some() {
            return;
        }
        *self.connections.entry(connection.sample.state.name()).or_default() += 1.0;
        if let Some((sent, received)) = connection.rates_bps {
            self.sent_bps += sent;
            self.received_bps += received;
        }
        self.in_flight_segs += info.in_flight().map_or(0.0, f64::from);
        if let Some(cause) = verdict {
            *self.limited.entry(cause).or_default() += 1.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use watch::{ConnectionCounters, SocketAddresses, SocketCookie, SocketSample, SocketState, TcpInfo};

    use super::*;

    /// A connection with 7 segments in flight and 3 retransmitted ones.
    fn connection(number: u64, rates_bps: Option<(f64, f64)>, closed_ns: Option<u64>) -> TrackedConnection {
        let mut bytes = [0u8; 280];
        // tcpi_unacked and tcpi_total_retrans of struct tcp_info.
        for (at, value) in [(24, 7u32), (100, 3)] {
            bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        let sample = SocketSample {
            cookie: SocketCookie(number),
            addresses: SocketAddresses {
                local: "10.0.0.1:40000".parse().unwrap(),
                peer: "10.0.0.2:5201".parse().unwrap(),
            },
            state: SocketState::ESTABLISHED,
            uid: 0,
            inode: 1,
            rqueue_bytes: 0,
            wqueue_bytes: 0,
            tos: None,
            congestion: None,
            congestion_info: None,
            memory: None,
            info: TcpInfo::from_bytes(&bytes),
        };
        TrackedConnection {
            namespace: String::new(),
            process: None,
            sample,
            sampled_ns: 1,
            first_seen_ns: 0,
            closed_ns,
            rates_bps,
            counters: ConnectionCounters::new(false),
            clocks: None,
            limits: None,
        }
    }

    #[test]
    fn closed_connections_count_only_towards_bytes_and_segments() {
        let mut sums = Aggregates::default();
        sums.add(&connection(1, Some((1e6, 5e5)), None), Some(Cause::Loss));
        sums.add(&connection(2, Some((2e6, 0.0)), None), Some(Cause::Loss));
        sums.add(&connection(3, None, None), None);
        sums.add(&connection(4, Some((8e6, 8e6)), Some(9)), Some(Cause::PathRate));
        assert_eq!((sums.sent_bps, sums.received_bps, sums.in_flight_segs), (3e6, 5e5, 21.0));
        assert_eq!(sums.retransmitted_segs, 12);
        assert_eq!(sums.connections, BTreeMap::from([("established", 3.0)]));
        assert_eq!(sums.limited, BTreeMap::from([(Cause::Loss, 2.0)]));
    }
}
