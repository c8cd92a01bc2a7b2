//! A udt, tsunami, stream or quic flow: both ends of `bulk::flow`, their datagrams in the network, and the
//! control connection.
//!
//! Differences from hosts with real sockets: 1. Buffers of UDP sockets do not overflow.
//! 2. A sender does not notice that its host's transmit queue is full: the queue drops its packets.

use bulk::flow::{End, Plan, Receiver, Sender, SenderCounts};
use engine_common::UDP_HEADER_BYTES;
use tcp::{CongestionControl, Segment};
use units::Instant;

use crate::{
    Side,
    addresses::Addresses,
    control_connection::ControlConnection,
    fragments::{Fragments, Reassembly},
    link_layer::LinkLayer,
    packet::{Body, BulkDatagram, SimPacket},
};

/// The receiver's UDP port, which nothing here depends on.
const PORT: u16 = 46_224;

/// Both ends of a flow.
pub(crate) struct BulkFlow {
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    pub(crate) control: Option<ControlConnection>,
    addresses: Addresses,
    /// The sender's endpoint number; the receiver's is the next.
    number: u32,
    /// The path MTUs that the hosts have cached, at most their interfaces' MTUs.
    pub(crate) mtus: [u32; 2],
    /// Datagrams sent so far.
    sent: u64,
    reassembly: [Reassembly; 2],
    buffer: Vec<u8>,
    /// When data could be sent.
    pub(crate) started: Option<Instant>,
    /// When the last byte arrived.
    pub(crate) finished: Option<Instant>,
    /// The sender's counts at the previous sample.
    pub(crate) sampled: SenderCounts,
}

/// The parameters of a flow at its start.
pub(crate) struct BulkFlowPlan {
    pub(crate) plan: Plan,
    /// The sender's, of protocols that have one.
    pub(crate) congestion: Option<Box<dyn CongestionControl>>,
    /// Connected for protocols that need one.
    pub(crate) control: Option<ControlConnection>,
    pub(crate) addresses: Addresses,
    pub(crate) number: u32,
    pub(crate) mtus: [u32; 2],
}

impl BulkFlow {
    pub(crate) fn new(plan: BulkFlowPlan, now: Instant) -> Self {
        let BulkFlowPlan { plan, congestion, control, addresses, number, mtus } = plan;
        BulkFlow {
            sender: Sender::with_congestion_control(&plan, congestion, now),
            receiver: Receiver::new(&plan, PORT),
            control,
            addresses,
            number,
            mtus,
            sent: 0,
            reassembly: Default::default(),
            buffer: Vec::new(),
            started: None,
            finished: None,
            sampled: SenderCounts::default(),
        }
    }

    /// A datagram, or some of its fragments, arrives at one end.
    pub(crate) fn on_datagram(
        &mut self,
        side: Side,
        datagram: &BulkDatagram,
        now: Instant,
        links: &mut LinkLayer,
    ) {
        if self.reassembly[side as usize].completes(datagram.number, &datagram.fragments) {
            self.end(side).handle_datagram(now, &datagram.bytes);
            self.follow_up(side, now, links);
        }
    }

    /// A segment of the control connection arrives at one end.
    pub(crate) fn on_segment(&mut self, side: Side, segment: &Segment, now: Instant, links: &mut LinkLayer) {
        if let Some(control) = &mut self.control {
            control.on_segment(side, segment, now);
            self.follow_up(side, now, links);
        }
    }

    /// A router reported that a packet of one end was too large; the path MTU is now `mtu`.
    pub(crate) fn on_packet_too_big(
        &mut self,
        side: Side,
        seq: u32,
        mtu: u32,
        now: Instant,
        links: &mut LinkLayer,
    ) {
        self.mtus[side as usize] = self.mtus[side as usize].min(mtu);
        if let Some(control) = &mut self.control {
            control.on_packet_too_big(side, seq, mtu, now);
            self.follow_up(side, now, links);
        }
    }

    /// A timer of one end is due, or one of its control connection.
    pub(crate) fn on_timer(&mut self, side: Side, now: Instant, links: &mut LinkLayer) {
        if let Some(control) = &mut self.control
            && control.next_timer(side).is_some_and(|at| at <= now)
        {
            control.on_timer(side, now);
        }
        if self.end(side).next_timeout() <= now {
            self.end(side).handle_timeout(now);
        }
        self.follow_up(side, now, links);
    }

    /// After any event at one end: moves bytes to and from the control connection, and sends the data that is
    /// due.
    pub(crate) fn follow_up(&mut self, side: Side, now: Instant, links: &mut LinkLayer) {
        if let Some(control) = &mut self.control {
            let arrived = control.read(side, now);
            if !arrived.is_empty() {
                self.end(side).handle_control(now, &arrived);
            }
        }
        self.send_datagrams(side, now, links);
        let bytes = self.end(side).take_control();
        if let Some(control) = &mut self.control {
            control.write(side, &bytes, now);
            control.send(side, now, links);
        }
        if self.started.is_none() && self.sender.counts().is_connected {
            self.started = Some(now);
        }
        if self.finished.is_none() && side == Side::Receiver && self.receiver.counts().is_complete {
            self.finished = Some(now);
        }
    }

    /// When the next timer of one end is due.
    pub(crate) fn next_timer(&self, side: Side) -> Option<Instant> {
        let end: &dyn End = match side {
            Side::Sender => &self.sender,
            Side::Receiver => &self.receiver,
        };
        let own = Some(end.next_timeout()).filter(|at| *at != Instant::NEVER);
        let control = self.control.as_ref().and_then(|control| control.next_timer(side));
        [own, control].into_iter().flatten().min()
    }

    fn end(&mut self, side: Side) -> &mut dyn End {
        match side {
            Side::Sender => &mut self.sender,
            Side::Receiver => &mut self.receiver,
        }
    }

    fn send_datagrams(&mut self, side: Side, now: Instant, links: &mut LinkLayer) {
        let (route, to) = match side {
            Side::Sender => (self.addresses.forward, self.number + Side::Receiver as u32),
            Side::Receiver => (self.addresses.reverse, self.number + Side::Sender as u32),
        };
        let ip_header = self.addresses.ip_header;
        let mut buffer = std::mem::take(&mut self.buffer);
        while self.end(side).poll_transmit(now, &mut buffer) {
            let bytes = buffer.as_slice().into();
            let payload = buffer.len() as u32 + UDP_HEADER_BYTES;
            let fragments = Fragments::new(payload, self.mtus[side as usize], ip_header);
            let body = Body::Bulk(BulkDatagram { number: self.sent, bytes, fragments });
            self.sent += 1;
            buffer.clear();
            links.send(&route, now, SimPacket { to, header: ip_header, body });
        }
        self.buffer = buffer;
    }
}
