//! Groups a capture's packets into connections, and writes rows for each flow.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use schema::{Event, FlowSample, TraceRow};

use crate::{Packet, connection::Connection, segment::Segment, sender::Rows};

/// Maximum time from the first packet to a later one, nanoseconds (18 years): sums of a few times do not
/// overflow. Longer times are wrong timestamps.
const MAX_SPAN_NS: u64 = 1 << 59;
/// Packets of a file may be out of order by this time, nanoseconds: a device has several queues, and a
/// capture several devices.
const MAX_DISORDER_NS: u64 = 10_000_000;

/// Converts packets to rows.
#[derive(Debug)]
pub struct Dissector {
    interval: Duration,
    /// The latest connection between two addresses, the smaller first.
    latest: BTreeMap<(SocketAddr, SocketAddr), LatestConnection>,
    connections: Vec<Connection>,
    rows: Rows,
    first_ns: Option<u64>,
    last_ns: u64,
    packets: u64,
    skipped_packets: u64,
    copies: u64,
    early_packets: u64,
}

/// The latest connection between two ports.
#[derive(Debug, Clone, Copy)]
struct LatestConnection {
    index: usize,
    /// Number of connections between these ports so far.
    number: u32,
}

/// A direction of a connection that carried data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedFlow {
    /// `10.0.0.1:40000-10.0.0.2:5201`, the sender first; `#2` is appended for the second connection
    /// between these ports.
    pub name: String,
    /// The sender.
    pub from: SocketAddr,
    /// The receiver.
    pub to: SocketAddr,
    /// Payload that was acknowledged, bytes; in a capture without ACKs, payload sent.
    pub bytes: u64,
    /// Times of its first and last packet, microseconds since the capture's first packet.
    pub span_us: (i64, i64),
    /// Round-trip time between the capture point and the sender without queues, microseconds. If it is
    /// `None`, the flow's round-trip times are lower bounds, which contain at least the path between
    /// the capture point and the receiver.
    pub sender_side_rtt_us: Option<i64>,
    /// Whether the sender-side round-trip time was tracked over time, so that round-trip times contain the
    /// queues between the sender and the capture point.
    pub is_sender_side_rtt_tracked: bool,
    /// Retransmissions whose first transmission was lost before the capture point: in a capture at the
    /// sender, by its queueing discipline.
    pub lost_before_capture_segs: u64,
}

/// The flows and rows of a capture.
#[derive(Debug, Clone, Default)]
pub struct Dissection {
    /// Flows with data, ordered by their connection's first packet.
    pub flows: Vec<CapturedFlow>,
    /// Samples of the flows, ordered by time.
    pub rows: Vec<FlowSample>,
    /// Events of the flows, ordered by time.
    pub events: Vec<Event>,
    /// Time of the first packet, nanoseconds since 1970.
    pub start_ns: u64,
    /// Time from the first packet to the last, microseconds.
    pub duration_us: i64,
    /// Number of packets.
    pub packets: u64,
    /// Number of packets that are not TCP, are fragments, or are truncated within their headers.
    pub skipped_packets: u64,
    /// Number of packets that are copies of others, for example from another device of the host. No row
    /// counts them.
    pub copies: u64,
    /// Number of packets whose timestamps are more than 10 ms earlier than that of a packet before them. They
    /// count as if they had passed at that packet's time, which makes round-trip times and rates wrong.
    pub early_packets: u64,
}

impl Dissector {
    /// A dissector that writes a row of each flow every `interval_us` microseconds.
    pub fn new(interval_us: u64) -> Self {
        Dissector {
            interval: Duration::from_micros(interval_us.max(1)),
            latest: BTreeMap::new(),
            connections: Vec::new(),
            rows: Rows::default(),
            first_ns: None,
            last_ns: 0,
            packets: 0,
            skipped_packets: 0,
            copies: 0,
            early_packets: 0,
        }
    }

    /// Adds the next packet. If its timestamp is earlier than the previous packet's, it gets the previous
    /// packet's time.
    pub fn add(&mut self, packet: &Packet<'_>) {
        self.packets += 1;
        let first = *self.first_ns.get_or_insert(packet.time_ns);
        let latest_ns = first.saturating_add(self.last_ns);
        self.early_packets += u64::from(latest_ns.saturating_sub(packet.time_ns) > MAX_DISORDER_NS);
        self.last_ns = self.last_ns.max(packet.time_ns.saturating_sub(first).min(MAX_SPAN_NS));
        let Some(segment) = Segment::parse(packet) else {
            self.skipped_packets += 1;
            return;
        };
        let addresses = (segment.from.min(segment.to), segment.from.max(segment.to));
        let known = self.latest.get(&addresses).copied();
        let index = match known.filter(|latest| !self.connections[latest.index].is_succeeded_by(&segment)) {
            Some(latest) => latest.index,
            None => {
                let (index, number) = (self.connections.len(), known.map_or(1, |latest| latest.number + 1));
                self.connections.push(Connection::new(&segment, number, self.interval));
                self.latest.insert(addresses, LatestConnection { index, number });
                index
            }
        };
        let is_copy = self.connections[index].add(self.last_ns, &segment, &mut self.rows);
        self.copies += u64::from(is_copy);
    }

    /// Number of rows that [`Dissector::take_trace`] would return.
    pub fn trace_len(&self) -> usize {
        self.rows.trace.len()
    }

    /// Removes and returns the trace of all packets since the last call: a row for each segment with data,
    /// and for each ACK.
    pub fn take_trace(&mut self) -> Vec<TraceRow> {
        std::mem::take(&mut self.rows.trace)
    }

    /// Writes the last rows, and returns the flows and all rows.
    pub fn finish(mut self) -> Dissection {
        let mut flows = Vec::new();
        for connection in &mut self.connections {
            for endpoint in &mut connection.endpoints {
                endpoint.sender.finish(&mut self.rows);
            }
            let [one, two] = &connection.endpoints;
            for (endpoint, peer) in [(one, two), (two, one)] {
                let us = |ns: u64| i64::try_from(ns / 1000).unwrap_or(i64::MAX);
                let Some((from, to)) = endpoint.sender.span_ns.filter(|_| endpoint.sender.has_data()) else {
                    continue;
                };
                flows.push(CapturedFlow {
                    name: endpoint.sender.name.clone(),
                    from: endpoint.address,
                    to: peer.address,
                    bytes: endpoint.sender.delivered(),
                    span_us: (us(from), us(to)),
                    sender_side_rtt_us: endpoint.sender.sender_side_rtt.unloaded_ns().map(us),
                    is_sender_side_rtt_tracked: endpoint.sender.sender_side_rtt.is_tracked(),
                    lost_before_capture_segs: endpoint.sender.lost_before_capture,
                });
            }
        }
        let Rows { flows: mut rows, mut events, .. } = self.rows;
        let has_data: std::collections::BTreeSet<&str> =
            flows.iter().map(|flow| flow.name.as_str()).collect();
        rows.retain(|row| has_data.contains(row.flow.as_str()));
        rows.sort_by_key(|row| row.time_us);
        events.sort_by_key(|event| event.time_us);
        Dissection {
            rows,
            events,
            start_ns: self.first_ns.unwrap_or(0),
            duration_us: i64::try_from(self.last_ns / 1000).unwrap_or(i64::MAX),
            packets: self.packets,
            skipped_packets: self.skipped_packets,
            copies: self.copies,
            early_packets: self.early_packets,
            flows,
        }
    }
}
