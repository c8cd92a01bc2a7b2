//! What travels: trains of segments.

use units::Time;

use crate::{Arrival, Destination, Emission, Router, Way};

/// A packet, or a super-packet (GSO) of several segments that travel as one object.
///
/// All segments but the last have the same size. Sizes are at the IP layer; a link adds its own
/// `overhead` to each segment.
pub trait Packet: Clone {
    /// How many segments; at least 1.
    fn segments(&self) -> u32;
    /// IP bytes of each segment but the last.
    fn segment_bytes(&self) -> u32;
    /// IP bytes of the last segment.
    fn last_segment_bytes(&self) -> u32;
    /// All three at once.
    #[inline]
    fn shape(&self) -> Shape {
        Shape {
            segments: self.segments(),
            segment_bytes: self.segment_bytes(),
            last_segment_bytes: self.last_segment_bytes(),
        }
    }
    /// Keeps the segments before `at` and returns the others; `0 < at < segments()`.
    fn split_off(&mut self, at: u32) -> Self;
    /// What the packet's IP header says about explicit congestion notification.
    fn ecn(&self) -> Ecn {
        Ecn::NotCapable
    }
    /// Marks all segments: congestion experienced. Only called where [`Packet::ecn`] says capable.
    fn mark_ce(&mut self) {}
    /// The same for all packets of a flow, and evenly spread over flows.
    fn flow_hash(&self) -> u32 {
        0
    }
    /// Flips one bit; `random` says which. Only called for single segments.
    fn corrupt(&mut self, _random: u64) {}
    /// The congestion header of XCP, where there is one.
    fn xcp(&mut self) -> Option<&mut XcpHeader> {
        None
    }
    /// What becomes of it at a router. By itself a packet has no address and no time to live: it goes on to the
    /// station that it was sent to, and a router takes in what was sent to itself or to all.
    fn at_router(self, router: &Router, arrival: Arrival, out: &mut Vec<Emission<Self>>) {
        match arrival.to {
            Destination::Station(to) if router.interfaces.iter().all(|i| i.station != to) => {
                out.push(match router.toward(to) {
                    Some(way) => Emission::Send { interface: way.interface, to: arrival.to, packet: self },
                    None => Emission::Refuse(self),
                });
            }
            _ => {}
        }
    }
    /// Where [`Packet::at_router`] will send it on, as far as that is known beforehand. Only asked of several
    /// segments, to see whether the first may leave a router before the last has come.
    fn way_at(&self, router: &Router, to: Destination) -> Option<Way> {
        match to {
            Destination::Station(to) => router.toward(to),
            Destination::All => None,
        }
    }
}

/// What a packet measures, at the IP layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// How many segments; at least 1.
    pub segments: u32,
    /// Bytes of each segment but the last; of the last, if there is one only.
    pub segment_bytes: u32,
    /// Bytes of the last segment.
    pub last_segment_bytes: u32,
}

impl Shape {
    /// Bytes of all on a wire that adds `overhead` to each segment.
    #[inline]
    pub(crate) fn wire_bytes(self, overhead: u32) -> u64 {
        let before = u64::from(self.segments - 1) * (u64::from(self.segment_bytes) + u64::from(overhead));
        before + u64::from(self.last_segment_bytes) + u64::from(overhead)
    }
}

/// The ECN field of an IP header (RFC 3168 section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ecn {
    /// Not-ECT.
    #[default]
    NotCapable,
    /// ECT(1): of a low-latency flow (RFC 9331).
    Ect1,
    /// ECT(0).
    Ect0,
    /// CE.
    CongestionExperienced,
}

/// XCP's congestion header (Katabi, Handley and Rohrs 2002, section 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct XcpHeader {
    /// The sender's congestion window in bytes (H_cwnd).
    pub cwnd_bytes: f64,
    /// The sender's round-trip time (H_rtt); 0 where not known.
    pub rtt: Time,
    /// By how many bytes the window may grow (H_feedback): the sender asks, routers lower it.
    pub feedback_bytes: f64,
}

/// When the first and the last segment of a packet arrive; the others are spread evenly between.
///
/// A train crosses a hop without being stored and forwarded as a whole: its first segment may leave
/// before its last has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Train {
    /// Arrival of the first segment.
    pub first: Time,
    /// Arrival of the last segment.
    pub last: Time,
}

impl Train {
    /// All segments at one instant.
    pub fn at(now: Time) -> Self {
        Train { first: now, last: now }
    }
}
