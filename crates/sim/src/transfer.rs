//! A TCP flow: both ends of its connection and the applications on them.

use std::ops::ControlFlow;

use datagrams::Draws;
use scenario::Tcp;
use tcp::{CongestionControl, Endpoint, Segment, State};
use units::Time;

use crate::{
    Error, Machine, Side,
    addresses::{Addresses, Route},
    application::{Reader, Writer},
    config::config,
    parcel::Parcel,
    trace::Trace,
    wire::Wire,
};

/// A connection that has been begun.
pub(crate) struct Transfer {
    pub(crate) sender: Endpoint,
    pub(crate) receiver: Endpoint,
    writer: Writer,
    reader: Reader,
    there: Route,
    back: Route,
    /// Numbers of sender and receiver as packets have them.
    number: u32,
    /// IP and TCP headers with the options that every segment has.
    header: u32,
    /// Most segments that a card hands over in one, of the sender's host and of the receiver's.
    gro: [u32; 2],
    /// Where the sender's segments are to be traced.
    pub(crate) trace: Option<Box<Trace>>,
    /// When the sender was connected.
    pub(crate) started: Option<Time>,
    /// When the last byte was read.
    pub(crate) finished: Option<Time>,
}

/// What a transfer is made of.
pub(crate) struct Plan<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) hosts: [&'a scenario::Host; 2],
    pub(crate) tcp: &'a Tcp,
    pub(crate) addresses: Addresses,
    pub(crate) number: u32,
    /// MTU of the paths from the sender and from the receiver.
    pub(crate) path_mtus: [u32; 2],
    /// Decides on the first sequence numbers.
    pub(crate) seed: u64,
    /// The flow's name, where it is traced.
    pub(crate) traced: Option<&'a str>,
}

impl Transfer {
    /// Listens at one end and connects from the other.
    pub(crate) fn connect(
        plan: &Plan<'_>,
        [sender, receiver]: [Box<dyn CongestionControl>; 2],
        now: Time,
    ) -> Result<Transfer, Error> {
        let Plan { machine, hosts, tcp, addresses, number, path_mtus, seed, traced } = plan;
        let make = |side: Side| -> Result<tcp::Config, Error> {
            let host = hosts[side as usize];
            let mut config = config(machine, host, tcp, side)?;
            config.ip_header = addresses.ip_header;
            config.mtu = path_mtus[side as usize].min(config.mtu);
            // A number like any other, the same for the same seed.
            config.initial_seq = Draws::one(*seed, number + side as u32) as u32;
            Ok(config)
        };
        let (own, peer) = (make(Side::Sender)?, make(Side::Receiver)?);
        let timestamps = own.timestamps && peer.timestamps;
        // Linux 2.4 joins nothing.
        let most = |host: &scenario::Host| match machine.kernel_of(host) < (2, 6) {
            true => 1,
            false => host.nic.gro.unwrap_or(u32::MAX).max(1),
        };
        let gro = hosts.map(most);
        let mut sender = Endpoint::connect(own, sender, now.0);
        sender.keep_events(true);
        let trace = traced.map(|name| Box::new(Trace::new(name, &sender)));
        Ok(Transfer {
            sender,
            receiver: Endpoint::listen(peer, receiver),
            writer: Writer::new(tcp, now),
            reader: Reader::new(tcp, now),
            there: addresses.there,
            back: addresses.back,
            number: *number,
            header: addresses.ip_header + 20 + 12 * u32::from(timestamps),
            gro,
            trace,
            started: None,
            finished: None,
        })
    }

    /// A segment arrives at one end. What follows from it is sent by [`Self::work`].
    #[inline]
    pub(crate) fn take(&mut self, side: Side, mut segment: Segment, now: Time, wire: &mut Wire) {
        if segment.segs() > self.gro[side as usize] {
            segment = self.take_parts(side, segment, now, wire);
        }
        self.take_one(side, &segment, now, wire);
    }

    /// Takes what is more than a card hands over in one, but for the last part, which it gives.
    #[inline(never)]
    fn take_parts(&mut self, side: Side, mut segment: Segment, now: Time, wire: &mut Wire) -> Segment {
        let most = self.gro[side as usize];
        while segment.segs() > most {
            let rest = segment.split_off(most);
            self.take_one(side, &std::mem::replace(&mut segment, rest), now, wire);
            self.send(side, now, wire);
        }
        segment
    }

    #[inline]
    fn take_one(&mut self, side: Side, segment: &Segment, now: Time, wire: &mut Wire) {
        self.tell_room(side, now, wire);
        if side == Side::Sender && self.trace.is_some() {
            self.take_traced(segment, now);
        } else {
            self.end(side).on_segment(now.0, segment);
        }
        if side == Side::Sender && self.started.is_none() && self.sender.state() != State::SynSent {
            self.started = Some(now);
        }
    }

    #[cold]
    fn take_traced(&mut self, segment: &Segment, now: Time) {
        let (ack, is_syn) = (segment.ack, segment.syn.is_some());
        let blocks = segment.sack.as_ref().map_or(0, |sack| sack.as_slice().len());
        self.sender.on_segment(now.0, segment);
        if let Some(trace) = self.trace.as_mut().filter(|_| !is_syn) {
            trace.heard(now, &self.sender.sk, ack, blocks);
        }
    }

    /// A timer of one end has run out. What follows from it is sent by [`Self::work`].
    pub(crate) fn on_timer(&mut self, side: Side, now: Time, wire: &mut Wire) {
        self.tell_room(side, now, wire);
        self.end(side).on_timer(now.0);
    }

    /// A router reports that a packet of one end was too large; the path takes packets of `mtu` bytes. What follows from it is
    /// sent by [`Self::work`].
    pub(crate) fn take_too_big(&mut self, side: Side, seq: u32, mtu: u32, now: Time, wire: &mut Wire) {
        self.tell_room(side, now, wire);
        self.end(side).on_packet_too_big(now.0, seq, mtu);
    }

    /// The path from one end has another MTU.
    pub(crate) fn set_path_mtu(&mut self, side: Side, mtu: u32, now: Time) {
        self.end(side).set_path_mtu(now.0, mtu);
    }

    /// Whether one end waits until a packet of it has left its device's queue.
    #[inline]
    pub(crate) fn waits_for_device(&self, side: Side) -> bool {
        match side {
            Side::Sender => self.sender.waits_for_device(),
            Side::Receiver => self.receiver.waits_for_device(),
        }
    }

    /// The end has waited enough. What follows is sent by [`Self::work`].
    pub(crate) fn go_on(&mut self, side: Side, now: Time, wire: &mut Wire) {
        self.tell_room(side, now, wire);
        self.end(side).on_device_sent(now.0);
    }

    /// The sender hears how much room its device's queue has, where there is one. The receiver sends no data, and only data
    /// waits for room.
    #[inline]
    fn tell_room(&mut self, side: Side, now: Time, wire: &mut Wire) {
        let to = self.number + Side::Receiver as u32;
        if side == Side::Sender
            && let Some(room) = wire.room(&self.there, to, now)
        {
            self.sender.set_device_queue(room.packets, room.own_packets, room.own_bytes);
        }
    }

    /// Sends what one end has to send, and its application does what it may; gives when it wants to work again by itself.
    #[inline]
    pub(crate) fn work(&mut self, side: Side, now: Time, wire: &mut Wire) -> Option<Time> {
        let wake = match side {
            Side::Sender if self.started.is_none() => None,
            Side::Sender => {
                if self.sender.writable() > 0 || self.writer.is_done() {
                    self.send(side, now, wire);
                    self.tell_room(side, now, wire);
                }
                loop {
                    match self.writer.work(&mut self.sender, now) {
                        ControlFlow::Continue(()) => self.send(side, now, wire),
                        ControlFlow::Break(wake) => break wake,
                    }
                }
            }
            Side::Receiver => self.reader.work(&mut self.receiver, now),
        };
        self.send(side, now, wire);
        if side == Side::Receiver && self.finished.is_none() && self.is_read_out() {
            self.finished = Some(now);
        }
        wake
    }

    /// When a timer of one end runs out.
    #[inline]
    pub(crate) fn next_timer(&self, side: Side) -> Option<Time> {
        match side {
            Side::Sender => self.sender.next_timer(),
            Side::Receiver => self.receiver.next_timer(),
        }
        .map(Time)
    }

    /// Whether both ends are connected.
    pub(crate) fn is_connected(&self) -> bool {
        let waits = matches!(self.receiver.state(), State::Listen | State::SynReceived);
        self.started.is_some() && !waits
    }

    /// Application bytes read.
    pub(crate) fn received(&self) -> u64 {
        self.reader.received
    }

    /// Whether the sender has said that no more comes, and all was read.
    fn is_read_out(&self) -> bool {
        let ended = matches!(
            self.receiver.state(),
            State::CloseWait | State::LastAck | State::Closing | State::TimeWait | State::Closed
        );
        ended && self.receiver.readable() == 0
    }

    fn end(&mut self, side: Side) -> &mut Endpoint {
        match side {
            Side::Sender => &mut self.sender,
            Side::Receiver => &mut self.receiver,
        }
    }

    /// Sends all that one end has to send now.
    #[inline]
    fn send(&mut self, side: Side, now: Time, wire: &mut Wire) {
        let (endpoint, route, to) = match side {
            Side::Sender => (&mut self.sender, &self.there, self.number + Side::Receiver as u32),
            Side::Receiver => (&mut self.receiver, &self.back, self.number + Side::Sender as u32),
        };
        while let Some(segment) = endpoint.next_segment() {
            if side == Side::Sender
                && let Some(trace) = &mut self.trace
            {
                trace.sent(now, &endpoint.sk, segment);
            }
            let plain = Parcel::plain(to, self.header, segment);
            let Some(segment) = endpoint.transmit(now.0) else { return };
            let parcel = plain.unwrap_or_else(|| {
                let mut header = self.header;
                if segment.syn.is_some() {
                    header = endpoint.config().ip_header + 20 + segment.option_bytes(true);
                } else if let Some(sack) = &segment.sack {
                    header += 4 + 8 * sack.count() as u32;
                }
                Parcel::of_segment(to, header, segment)
            });
            wire.send(route, now, parcel);
        }
    }
}
