//! An XCP flow: a sender whose window the routers set, and a receiver that echoes what they said (Katabi, Handley and
//! Rohrs, SIGCOMM 2002, sections 3.1 to 3.4).
//!
//! Each packet carries the sender's window and round-trip time, and room for feedback H; the receiver sends it back, and
//! cwnd = max(cwnd + H, s). A loss halves the window as TCP's. The routers' part is `net`'s queue of kind `xcp`.
//! What the paper leaves open or to TCP, and departures:
//! 1. The sender asks for all it can get (an infinite H). Where that comes back nobody on the way spoke XCP, and the window
//!    grows as TCP's: doubling each round trip up to the threshold, then by a packet (RFC 5681).
//! 2. There is no handshake: the first window is two packets, whose round-trip time is unknown and says 0.
//! 3. Each packet is acknowledged by itself. Three later acknowledgements show a loss (RFC 9002 section 6.1.1); without
//!    any for a timeout (RFC 6298, at least 200 ms as Linux) all that is out is lost. Losses of one window count once.
//! 4. cwnd counts IP bytes; the header is 40 bytes beside IP's (20 of XCP as in draft-falk-xcp-spec-03, 20 as TCP's).

use datagrams::{Place, Seen};
use net::XcpHeader;
use schema::EventKind;
use units::{Bytes, Time};

use crate::{
    addresses::Addresses,
    packet::{Body, SimPacket},
    wire::Wire,
    xcp_window::{Acked, Window},
};

/// Bytes of an XCP packet's headers behind IP's.
pub const HEADER: u32 = 40;

/// A packet of data.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct XcpData {
    pub(crate) header: XcpHeader,
    /// Counts what is sent, what is sent again too.
    pub(crate) number: u64,
    /// Which part of the data it is, counted in full packets.
    pub(crate) part: u32,
    pub(crate) payload: u32,
}

/// The answer to one packet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct XcpAck {
    pub(crate) number: u64,
    pub(crate) feedback_bytes: f64,
}

/// Both ends of a flow.
#[derive(Debug)]
pub(crate) struct XcpFlow {
    pub(crate) window: Window,
    addresses: Addresses,
    number: u32,
    /// Payload of a full packet.
    pub(crate) payload: u32,
    size: Option<Bytes>,
    next_part: u32,
    /// Parts that were lost and wait to be sent again, the first at the end.
    again: Vec<u32>,
    seen: Seen,
    /// Payload that came, each part once.
    pub(crate) received: u64,
    /// When the last part came.
    pub(crate) finished: Option<Time>,
    pub(crate) sent_packets: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) sent_again: u64,
    pub(crate) acked_bytes: u64,
    pub(crate) timeouts: u64,
    /// What happened since the last look.
    pub(crate) events: Vec<(Time, EventKind, i64)>,
}

impl XcpFlow {
    /// `number` is the sender's as packets have it, the receiver's is the next.
    pub(crate) fn new(spec: &scenario::Xcp, mtu: u32, addresses: Addresses, number: u32) -> Self {
        XcpFlow {
            window: Window::new(mtu),
            addresses,
            number,
            payload: mtu.saturating_sub(addresses.ip_header + HEADER).max(1),
            size: spec.size,
            next_part: 0,
            again: Vec::new(),
            seen: Seen::new(usize::MAX),
            received: 0,
            finished: None,
            sent_packets: 0,
            sent_bytes: 0,
            sent_again: 0,
            acked_bytes: 0,
            timeouts: 0,
            events: Vec::new(),
        }
    }

    /// Sends what the window allows.
    pub(crate) fn send(&mut self, now: Time, wire: &mut Wire) {
        while let Some(part) = self.again.last().copied().or_else(|| self.new_part())
            && self.window.has_room()
        {
            match self.again.pop() {
                Some(_) => {
                    self.sent_again += 1;
                    self.note(now, EventKind::Retransmit, 1);
                }
                None => self.next_part += 1,
            }
            let payload = self.payload_of(part);
            let number = self.window.sent(now, part);
            self.sent_packets += 1;
            self.sent_bytes += u64::from(payload);
            let data = XcpData { header: self.window.header(), number, part, payload };
            let packet = SimPacket {
                to: self.number + 1,
                header: self.addresses.ip_header + HEADER,
                body: Body::Xcp(data),
            };
            wire.send(&self.addresses.there, now, packet);
        }
    }

    /// A packet comes to the receiver.
    pub(crate) fn take_data(&mut self, data: &XcpData, now: Time, wire: &mut Wire) {
        if self.seen.take(u64::from(data.part)) != Place::Again {
            self.received += u64::from(data.payload);
            if self.size.is_some_and(|size| self.received >= size.0) {
                self.finished.get_or_insert(now);
            }
        }
        let ack = XcpAck { number: data.number, feedback_bytes: data.header.feedback_bytes };
        let header = self.addresses.ip_header + HEADER;
        wire.send(&self.addresses.back, now, SimPacket { to: self.number, header, body: Body::XcpAck(ack) });
    }

    /// An answer comes to the sender.
    pub(crate) fn take_ack(&mut self, ack: &XcpAck, now: Time, wire: &mut Wire) {
        let Some(Acked { part, lost, reduced }) = self.window.acked(now, ack) else { return };
        self.acked_bytes += u64::from(self.payload_of(part));
        if !lost.is_empty() {
            self.note(now, EventKind::Lost, lost.len() as i64);
        }
        if reduced {
            self.note(now, EventKind::Reduction, self.window.cwnd_packets());
        }
        self.again.extend(lost.into_iter().rev());
        self.send(now, wire);
    }

    /// Nothing was heard for too long.
    pub(crate) fn on_timer(&mut self, now: Time, wire: &mut Wire) {
        let lost = self.window.timed_out(now);
        if lost.is_empty() {
            return;
        }
        self.timeouts += 1;
        self.note(now, EventKind::Rto, 1);
        self.note(now, EventKind::Lost, lost.len() as i64);
        self.again.extend(lost.into_iter().rev());
        self.send(now, wire);
    }

    fn new_part(&self) -> Option<u32> {
        let begins = u64::from(self.next_part) * u64::from(self.payload);
        self.size.is_none_or(|size| begins < size.0).then_some(self.next_part)
    }

    fn payload_of(&self, part: u32) -> u32 {
        let begins = u64::from(part) * u64::from(self.payload);
        self.size.map_or(self.payload, |size| u64::from(self.payload).min(size.0 - begins) as u32)
    }

    /// Keeps an event; the same at one instant is one.
    fn note(&mut self, now: Time, kind: EventKind, value: i64) {
        match self.events.last_mut() {
            Some((at, last, sum)) if (*at, *last) == (now, kind) && kind == EventKind::Retransmit => {
                *sum += value;
            }
            _ => self.events.push((now, kind, value)),
        }
    }
}
