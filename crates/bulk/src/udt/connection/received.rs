//! Handling of the peer's packets by a [`Connection`].

use units::{Instant, Time};

use super::{CloseReason, Connection, State};
use crate::udt::{
    SocketType,
    config::{MAX_WINDOW, MIN_MSS},
    rate_control::SYN,
    wire::{self, Ack, Control, Handshake, Packet, Request},
};

/// Light acknowledgements: one per this number of packets (libudt).
const LIGHT_ACK_PACKETS: u64 = 64;

impl Connection {
    /// Processes a datagram of the peer. Anything that is not for this connection is ignored.
    pub fn handle_datagram(&mut self, now: Instant, bytes: &[u8]) {
        let Ok(packet) = Packet::decode(bytes) else { return };
        let destination = match &packet {
            Packet::Data(header, _) => header.destination,
            Packet::Control(header, _) => header.destination,
        };
        if let Packet::Control(_, Control::Handshake(handshake)) = &packet
            && (destination == self.config.socket_id || destination == 0)
        {
            return self.handle_handshake(now, handshake);
        }
        if destination != self.config.socket_id || matches!(self.state, State::Connecting { .. }) {
            return;
        }
        if let State::Closed(reason) = self.state {
            // The peer has not received the shutdown.
            if reason == CloseReason::Local && !matches!(packet, Packet::Control(_, Control::Shutdown)) {
                self.pending.clear();
                self.queue(Control::Shutdown);
            }
            return;
        }
        self.expirations = 1;
        self.last_response = now;
        match packet {
            Packet::Data(header, payload) => self.handle_data(now, header, payload),
            Packet::Control(_, control) => self.handle_control(now, control),
        }
        self.finish_drain();
    }

    fn handle_handshake(&mut self, now: Instant, handshake: &Handshake) {
        let State::Connecting { cookie, deadline, .. } = self.state else {
            // The client has not received the response.
            if handshake.request == Request::Response
                && handshake.socket_id == self.peer_id
                && self.is_established()
            {
                let reply = self.handshake(Request::Response, 0);
                self.queue(Control::Handshake(reply));
            }
            return;
        };
        match handshake.request {
            Request::Connect if cookie.is_none() => {
                self.state =
                    State::Connecting { cookie: Some(handshake.cookie), next_request: now, deadline };
            }
            Request::Response if cookie.is_some() => {
                let is_valid = handshake.initial == self.config.initial & wire::SEQUENCE_MASK
                    && handshake.mss >= MIN_MSS
                    && handshake.mss <= self.config.mss
                    && handshake.socket_id != 0;
                if is_valid {
                    self.establish(now, handshake);
                } else {
                    self.fail(CloseReason::Violation);
                }
            }
            Request::Reject(_) => self.fail(CloseReason::Rejected),
            _ => {}
        }
    }

    fn handle_data(&mut self, now: Instant, header: wire::DataHeader, payload: &[u8]) {
        self.statistics.received_packets += 1;
        self.ack.packets += 1;
        self.arrivals.record(now, header.sequence);
        if payload.is_empty() || payload.len() > self.config.payload_bytes() {
            self.statistics.useless_packets += 1;
            return;
        }
        match self.receive.insert(header, payload) {
            Ok(None) => {}
            Ok(Some((first, last))) => {
                self.receive.reported(first, last, now + self.report_interval());
                self.queue_nak(&[(first, last)]);
            }
            Err(()) => {
                self.statistics.useless_packets += 1;
                return;
            }
        }
        // A short packet is usually the end of a message: acknowledged at once (libudt).
        if payload.len() != self.config.payload_bytes() {
            self.ack.next_due = now;
        }
        if self.ack.packets >= LIGHT_ACK_PACKETS * self.ack.light {
            self.ack.light += 1;
            if self.receive.next != self.ack.confirmed {
                let next = self.receive.numbering.sequence(self.receive.next);
                self.queue(Control::Ack(Ack::Light { next }));
            }
        }
    }

    /// Time until a missing packet is reported again.
    pub(super) fn report_interval(&self) -> Time {
        self.rtt + self.rtt_var * 4 + SYN
    }

    pub(super) fn queue_nak(&mut self, ranges: &[(u64, u64)]) {
        let numbering = self.receive.numbering;
        let ranges =
            ranges.iter().map(|(first, last)| (numbering.sequence(*first), numbering.sequence(*last)));
        self.queue(Control::Nak(ranges.collect()));
    }

    fn handle_control(&mut self, now: Instant, control: Control) {
        match control {
            Control::Ack(Ack::Light { next }) => {
                if let Some(index) = self.send.numbering.index(next, self.send.acked)
                    && !self.send.acknowledge(index, None)
                {
                    self.fail(CloseReason::Violation);
                }
            }
            Control::Ack(Ack::Full { number, next, rtt_us, space, rates, .. }) => {
                self.reply_to_ack(now, number);
                let Some(index) = self.send.numbering.index(next, self.send.acked) else { return };
                if !self.send.acknowledge(index, Some(u64::from(space.min(MAX_WINDOW)))) {
                    return self.fail(CloseReason::Violation);
                }
                self.statistics.acks += 1;
                self.update_rtt(Time::from_micros(u64::from(rtt_us)));
                if let Some((receive_rate, capacity)) = rates {
                    self.receive_rate = smooth(self.receive_rate, receive_rate);
                    self.capacity = smooth(self.capacity, capacity);
                }
                let path = self.path();
                self.rate.on_ack(now, index, &path);
            }
            Control::AckOfAck(number) => {
                let Some(at) = self.ack.window.iter().position(|(sent, ..)| *sent == number) else { return };
                let acknowledged = self.ack.window.drain(..=at).next_back();
                if let Some((_, index, sent)) = acknowledged {
                    let sample = now.saturating_since(sent);
                    self.update_rtt(sample);
                    self.measured_rtt = Some(match self.measured_rtt {
                        // The first sample as in RFC 6298, section 2.2.
                        None => (sample, sample / 2),
                        Some((rtt, deviation)) => smooth_rtt(rtt, deviation, sample),
                    });
                    self.min_rtt = Some(self.min_rtt.map_or(sample, |min| min.min(sample)));
                    self.ack.confirmed = self.ack.confirmed.max(index);
                }
            }
            Control::Nak(ranges) => self.handle_nak(now, &ranges),
            Control::MessageDrop { first, last, .. } if self.config.socket_type == SocketType::Messages => {
                self.receive.skip(first, last);
            }
            Control::Shutdown => self.fail(CloseReason::Peer),
            Control::PeerError(_) => self.peer_failed = true,
            Control::DelayWarning
            | Control::KeepAlive
            | Control::Handshake(_)
            | Control::MessageDrop { .. } => {}
        }
    }

    /// Replies at most once per SYN, and to each repeated acknowledgement.
    fn reply_to_ack(&mut self, now: Instant, number: u32) {
        let is_due =
            self.last_ack_reply.is_none_or(|(at, last)| now.saturating_since(at) >= SYN || last == number);
        if is_due {
            self.queue(Control::AckOfAck(number));
            self.last_ack_reply = Some((now, number));
        }
    }

    fn handle_nak(&mut self, now: Instant, ranges: &[(u32, u32)]) {
        self.statistics.naks += 1;
        let (mut first_lost, mut count) = (None, 0);
        for (first, last) in ranges {
            let numbering = self.send.numbering;
            let near = self.send.acked;
            let Some(last) = numbering.index(*last, near) else { continue };
            let first = numbering.index(*first, near).unwrap_or(0);
            match self.send.mark_lost(first, last) {
                Some(packets) => count += packets,
                None => return self.fail(CloseReason::Violation),
            }
            first_lost = first_lost.or(Some(first));
        }
        self.statistics.lost_packets += count;
        if let Some(first) = first_lost {
            let path = self.path();
            self.rate.on_loss(now, first, count, &path);
            let pause = self.rate.take_pause();
            if pause > Time::ZERO {
                self.pacing.pause(now, pause);
                self.is_pair = false;
            }
        }
    }

    /// Smooths the round-trip time (draft-gg-udt-03 section 3.3).
    fn update_rtt(&mut self, sample: Time) {
        // A peer's report may be any number.
        let sample = sample.min(Time::from_secs(60));
        (self.rtt, self.rtt_var) = smooth_rtt(self.rtt, self.rtt_var, sample);
    }
}

/// The smoothed round-trip time and its mean deviation after a sample.
fn smooth_rtt(rtt: Time, deviation: Time, sample: Time) -> (Time, Time) {
    ((rtt * 7 + sample) / 8, (deviation * 3 + sample.abs_diff(rtt)) / 4)
}

/// Moving average with a weight of 1/8 for the report; a report of 0 is ignored.
fn smooth(average: u32, report: u32) -> u32 {
    let report = report.min(i32::MAX as u32);
    if report == 0 { average } else { ((u64::from(average) * 7 + u64::from(report)) / 8) as u32 }
}
