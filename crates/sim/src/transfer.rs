//! A TCP flow: both ends of its connection and their applications.

use std::ops::ControlFlow;

use datagrams::Draws;
use scenario::TcpSpec;
use tcp::{CongestionControl, Endpoint, Segment, TcpState};
use units::Instant;

use crate::{
    Error, HostDefaults, Side,
    addresses::{Addresses, Route},
    application::{Reader, Writer},
    compact_packet::CompactPacket,
    config::config,
    link_layer::LinkLayer,
    trace::Trace,
};

/// A connection and its applications.
pub(crate) struct Transfer {
    pub(crate) sender: Endpoint,
    pub(crate) receiver: Endpoint,
    writer: Writer,
    reader: Reader,
    forward: Route,
    reverse: Route,
    /// The sender's endpoint number; the receiver's is the next.
    number: u32,
    /// Bytes of IP and TCP headers with the options that every segment has.
    header: u32,
    /// Maximum number of segments that the sender's and the receiver's devices merge (GRO).
    max_gro_segs: [u32; 2],
    /// The trace of the sender, if the flow is traced.
    pub(crate) trace: Option<Box<Trace>>,
    /// When the sender was connected.
    pub(crate) started: Option<Instant>,
    /// When the last byte was read.
    pub(crate) finished: Option<Instant>,
}

/// The parameters of a transfer at its start.
pub(crate) struct TransferPlan<'a> {
    pub(crate) defaults: &'a HostDefaults,
    pub(crate) hosts: [&'a scenario::Host; 2],
    pub(crate) tcp: &'a TcpSpec,
    pub(crate) addresses: Addresses,
    pub(crate) number: u32,
    /// Path MTUs from the sender and from the receiver.
    pub(crate) path_mtus: [u32; 2],
    /// Determines the initial sequence numbers.
    pub(crate) seed: u64,
    /// The flow's name, if it is traced.
    pub(crate) traced: Option<&'a str>,
}

impl Transfer {
    /// Creates a listening receiver and a sender that connects to it.
    ///
    /// # Errors
    /// [`Error::Sysctl`] if a host has an invalid sysctl.
    pub(crate) fn connect(
        plan: &TransferPlan<'_>,
        [sender, receiver]: [Box<dyn CongestionControl>; 2],
        now: Instant,
    ) -> Result<Transfer, Error> {
        let TransferPlan { defaults, hosts, tcp, addresses, number, path_mtus, seed, traced } = plan;
        let end_config = |side: Side| -> Result<tcp::Config, Error> {
            let host = hosts[side as usize];
            let mut config = config(defaults, host, tcp, side)?;
            config.ip_header = addresses.ip_header;
            config.mtu = path_mtus[side as usize].min(config.mtu);
            // Arbitrary, but the same for the same seed.
            config.initial_seq = Draws::draw_once(*seed, number + side as u32) as u32;
            Ok(config)
        };
        let (own, peer) = (end_config(Side::Sender)?, end_config(Side::Receiver)?);
        let timestamps = own.timestamps && peer.timestamps;
        let max_gro_segs = hosts.map(|host| defaults.max_gro_segs(host));
        let mut sender = Endpoint::connect(own, sender, now.as_nanos());
        sender.keep_events(true);
        let trace = traced.map(|name| Box::new(Trace::new(name, &sender)));
        Ok(Transfer {
            sender,
            receiver: Endpoint::listen(peer, receiver),
            writer: Writer::new(tcp, now),
            reader: Reader::new(tcp, now),
            forward: addresses.forward,
            reverse: addresses.reverse,
            number: *number,
            header: addresses.ip_header + 20 + 12 * u32::from(timestamps),
            max_gro_segs,
            trace,
            started: None,
            finished: None,
        })
    }

    /// A segment arrives at one end. Call [`Self::run_application`] afterwards: it sends the response.
    #[inline]
    pub(crate) fn on_segment(
        &mut self,
        side: Side,
        mut segment: Segment,
        now: Instant,
        links: &mut LinkLayer,
    ) {
        if segment.segs() > self.max_gro_segs[side as usize] {
            segment = self.process_all_but_last_part(side, segment, now, links);
        }
        self.process(side, &segment, now, links);
    }

    /// Splits a super-packet that exceeds the device's GRO limit and processes all parts except the last,
    /// which it returns.
    #[inline(never)]
    fn process_all_but_last_part(
        &mut self,
        side: Side,
        mut segment: Segment,
        now: Instant,
        links: &mut LinkLayer,
    ) -> Segment {
        let max = self.max_gro_segs[side as usize];
        while segment.segs() > max {
            let others = segment.split_off(max);
            self.process(side, &std::mem::replace(&mut segment, others), now, links);
            self.send(side, now, links);
        }
        segment
    }

    #[inline]
    fn process(&mut self, side: Side, segment: &Segment, now: Instant, links: &mut LinkLayer) {
        self.update_device_queue(side, now, links);
        if side == Side::Sender && self.trace.is_some() {
            self.process_traced(segment, now);
        } else {
            self.endpoint(side).on_segment(now.as_nanos(), segment);
        }
        if side == Side::Sender && self.started.is_none() && self.sender.state() != TcpState::SynSent {
            self.started = Some(now);
        }
    }

    #[cold]
    fn process_traced(&mut self, segment: &Segment, now: Instant) {
        let (ack, is_syn) = (segment.ack, segment.syn.is_some());
        let blocks = segment.sack.as_ref().map_or(0, |sack| sack.as_slice().len());
        self.sender.on_segment(now.as_nanos(), segment);
        if let Some(trace) = self.trace.as_mut().filter(|_| !is_syn) {
            trace.on_ack(now, self.sender.sk(), ack, blocks);
        }
    }

    /// A timer of one end has expired. Call [`Self::run_application`] afterwards.
    pub(crate) fn on_timer(&mut self, side: Side, now: Instant, links: &mut LinkLayer) {
        self.update_device_queue(side, now, links);
        self.endpoint(side).on_timer(now.as_nanos());
    }

    /// A router reported that a packet of one end was too large; the path MTU is now `mtu`. Call
    /// [`Self::run_application`] afterwards.
    pub(crate) fn on_packet_too_big(
        &mut self,
        side: Side,
        seq: u32,
        mtu: u32,
        now: Instant,
        links: &mut LinkLayer,
    ) {
        self.update_device_queue(side, now, links);
        self.endpoint(side).on_packet_too_big(now.as_nanos(), seq, mtu);
    }

    /// The path MTU from one end has changed.
    pub(crate) fn set_path_mtu(&mut self, side: Side, mtu: u32, now: Instant) {
        self.endpoint(side).set_path_mtu(now.as_nanos(), mtu);
    }

    /// True if one end waits until one of its packets has left the transmit queue.
    #[inline]
    pub(crate) fn waits_for_device(&self, side: Side) -> bool {
        match side {
            Side::Sender => self.sender.waits_for_device(),
            Side::Receiver => self.receiver.waits_for_device(),
        }
    }

    /// A packet for which the end waited has left the transmit queue. Call [`Self::run_application`]
    /// afterwards.
    pub(crate) fn on_device_sent(&mut self, side: Side, now: Instant, links: &mut LinkLayer) {
        self.update_device_queue(side, now, links);
        self.endpoint(side).on_device_sent(now.as_nanos());
    }

    /// Reports to the sender the space in its transmit queue, if there is one. The receiver sends no data,
    /// and only data waits for space.
    #[inline]
    fn update_device_queue(&mut self, side: Side, now: Instant, links: &mut LinkLayer) {
        let to = self.number + Side::Receiver as u32;
        if side == Side::Sender
            && let Some(space) = links.queue_space(&self.forward, to, now)
        {
            self.sender.set_device_queue(space.packets, space.own_packets, space.own_bytes);
        }
    }

    /// Sends the segments of one end and runs its application. Returns when to call again without another
    /// event.
    #[inline]
    pub(crate) fn run_application(
        &mut self,
        side: Side,
        now: Instant,
        links: &mut LinkLayer,
    ) -> Option<Instant> {
        let next = match side {
            Side::Sender if self.started.is_none() => None,
            Side::Sender => {
                if self.sender.can_write() || self.writer.is_done() {
                    self.send(side, now, links);
                    self.update_device_queue(side, now, links);
                }
                loop {
                    match self.writer.work(&mut self.sender, now) {
                        ControlFlow::Continue(()) => self.send(side, now, links),
                        ControlFlow::Break(next) => break next,
                    }
                }
            }
            Side::Receiver => self.reader.work(&mut self.receiver, now),
        };
        self.send(side, now, links);
        if side == Side::Receiver && self.finished.is_none() && self.is_finished() {
            self.finished = Some(now);
        }
        next
    }

    /// When a timer of one end expires.
    #[inline]
    pub(crate) fn next_timer(&self, side: Side) -> Option<Instant> {
        match side {
            Side::Sender => self.sender.next_timer(),
            Side::Receiver => self.receiver.next_timer(),
        }
        .map(Instant::from_nanos)
    }

    /// True once the connection is established at both ends.
    pub(crate) fn is_connected(&self) -> bool {
        let is_waiting = matches!(self.receiver.state(), TcpState::Listen | TcpState::SynReceived);
        self.started.is_some() && !is_waiting
    }

    /// Application bytes read.
    pub(crate) fn received(&self) -> u64 {
        self.reader.received
    }

    /// True once the receiver has the sender's FIN and its application has read all data.
    fn is_finished(&self) -> bool {
        let has_fin = matches!(
            self.receiver.state(),
            TcpState::CloseWait
                | TcpState::LastAck
                | TcpState::Closing
                | TcpState::TimeWait
                | TcpState::Closed
        );
        has_fin && self.receiver.readable() == 0
    }

    fn endpoint(&mut self, side: Side) -> &mut Endpoint {
        match side {
            Side::Sender => &mut self.sender,
            Side::Receiver => &mut self.receiver,
        }
    }

    /// Sends all segments that one end has to send now.
    #[inline]
    fn send(&mut self, side: Side, now: Instant, links: &mut LinkLayer) {
        let (endpoint, route, to) = match side {
            Side::Sender => (&mut self.sender, &self.forward, self.number + Side::Receiver as u32),
            Side::Receiver => (&mut self.receiver, &self.reverse, self.number + Side::Sender as u32),
        };
        while let Some(segment) = endpoint.next_segment() {
            if side == Side::Sender
                && let Some(trace) = &mut self.trace
            {
                trace.on_segment_sent(now, endpoint.sk(), segment);
            }
            let plain = CompactPacket::plain(to, self.header, segment);
            let Some(segment) = endpoint.transmit(now.as_nanos()) else { return };
            let packet = plain.unwrap_or_else(|| segment_packet(endpoint, segment, to, self.header));
            links.send(route, now, packet);
        }
    }
}

/// The packet of a segment from `endpoint`. `header`: bytes of IP and TCP headers with the options that every
/// segment has.
pub(crate) fn segment_packet(
    endpoint: &Endpoint,
    segment: Segment,
    to: u32,
    mut header: u32,
) -> CompactPacket {
    if segment.syn.is_some() {
        header = endpoint.config().ip_header + 20 + segment.option_bytes(true);
    } else if let Some(sack) = &segment.sack {
        header += 4 + 8 * sack.count() as u32;
    }
    CompactPacket::of_segment(to, header, segment)
}
