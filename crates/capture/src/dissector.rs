//! A capture's packets as connections, and these as rows.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use schema::{Event, FlowSample, TraceRow};

use crate::{Packet, connection::Connection, segment::Segment, sender::Rows};

/// Takes packets and makes rows.
#[derive(Debug)]
pub struct Dissector {
    every: Duration,
    /// By both addresses, the smaller first.
    open: BTreeMap<(SocketAddr, SocketAddr), Open>,
    connections: Vec<Connection>,
    rows: Rows,
    first_ns: Option<u64>,
    last_ns: u64,
    packets: u64,
    others: u64,
}

/// The newest connection between two ports.
#[derive(Debug, Clone, Copy)]
struct Open {
    index: usize,
    /// How many there have been.
    number: u32,
}

/// One direction of a connection that had data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// `10.0.0.1:40000-10.0.0.2:5201`, the sender first; `#2` behind it for the second connection between these ports.
    pub name: String,
    /// Who sends.
    pub from: SocketAddr,
    /// To whom.
    pub to: SocketAddr,
    /// Payload that was acknowledged; of a capture without ACKs, sent.
    pub bytes: u64,
    /// When its first and last packet passed, microseconds since the capture's first.
    pub span_us: (i64, i64),
    /// How long it takes from here to the sender and back without queues, microseconds. Where that is not known, round-trip times
    /// are those from here to the receiver and back, at least.
    pub distance_us: Option<i64>,
    /// The distance was followed over time, so that round-trip times have queues between the sender and here in them.
    pub is_distance_followed: bool,
}

/// What became of a capture.
#[derive(Debug, Clone, Default)]
pub struct Dissected {
    /// Those with data, in order of their first packet.
    pub flows: Vec<Flow>,
    /// In order of time.
    pub rows: Vec<FlowSample>,
    /// In order of time.
    pub events: Vec<Event>,
    /// The first packet, nanoseconds since 1970.
    pub began_ns: u64,
    /// From the first packet to the last, microseconds.
    pub duration_us: i64,
    /// Packets of all kinds.
    pub packets: u64,
    /// Of these, no TCP, fragments, or cut within their headers.
    pub others: u64,
}

impl Dissector {
    /// With a row of each flow this often, in microseconds.
    pub fn new(every_us: u64) -> Self {
        Dissector {
            every: Duration::from_micros(every_us.max(1)),
            open: BTreeMap::new(),
            connections: Vec::new(),
            rows: Rows::default(),
            first_ns: None,
            last_ns: 0,
            packets: 0,
            others: 0,
        }
    }

    /// The next packet. One that is stamped earlier than the one before counts as of the same time.
    pub fn add(&mut self, packet: &Packet<'_>) {
        self.packets += 1;
        let first = *self.first_ns.get_or_insert(packet.time_ns);
        self.last_ns = self.last_ns.max(packet.time_ns.saturating_sub(first));
        let Some(segment) = Segment::of(packet) else {
            self.others += 1;
            return;
        };
        let ends = (segment.from.min(segment.to), segment.from.max(segment.to));
        let known = self.open.get(&ends).copied();
        let index = match known.filter(|open| !self.connections[open.index].is_succeeded_by(&segment)) {
            Some(open) => open.index,
            None => {
                let (index, number) = (self.connections.len(), known.map_or(1, |open| open.number + 1));
                self.connections.push(Connection::new(&segment, number, self.every));
                self.open.insert(ends, Open { index, number });
                index
            }
        };
        self.connections[index].add(self.last_ns, &segment, &mut self.rows);
    }

    /// How many rows [`Dissector::take_trace`] would give.
    pub fn trace_len(&self) -> usize {
        self.rows.trace.len()
    }

    /// The trace of all packets since the last call: a row for each segment with data, and for each ACK.
    pub fn take_trace(&mut self) -> Vec<TraceRow> {
        std::mem::take(&mut self.rows.trace)
    }

    /// What became of all.
    pub fn finish(mut self) -> Dissected {
        let mut flows = Vec::new();
        for connection in &mut self.connections {
            for end in &mut connection.ends {
                end.sender.end(&mut self.rows);
            }
            let [one, two] = &connection.ends;
            for (end, other) in [(one, two), (two, one)] {
                let us = |ns: u64| i64::try_from(ns / 1000).unwrap_or(i64::MAX);
                let Some((from, to)) = end.sender.span_ns.filter(|_| end.sender.has_data()) else { continue };
                flows.push(Flow {
                    name: end.sender.name.clone(),
                    from: end.address,
                    to: other.address,
                    bytes: end.sender.delivered(),
                    span_us: (us(from), us(to)),
                    distance_us: end.sender.distance.unloaded_ns().map(us),
                    is_distance_followed: end.sender.distance.is_followed(),
                });
            }
        }
        let Rows { flows: mut rows, mut events, .. } = self.rows;
        let has_data: std::collections::BTreeSet<&str> =
            flows.iter().map(|flow| flow.name.as_str()).collect();
        rows.retain(|row| has_data.contains(row.flow.as_str()));
        rows.sort_by_key(|row| row.time_us);
        events.sort_by_key(|event| event.time_us);
        Dissected {
            rows,
            events,
            began_ns: self.first_ns.unwrap_or(0),
            duration_us: i64::try_from(self.last_ns / 1000).unwrap_or(i64::MAX),
            packets: self.packets,
            others: self.others,
            flows,
        }
    }
}
