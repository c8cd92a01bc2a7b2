//! The timers of a [`Connection`]: acknowledgements, repeated loss reports, expirations.

use units::{Instant, Time};

use super::{CloseReason, Connection, REQUEST_INTERVAL, State};
use crate::udt::{
    rate_control::SYN,
    wire::{self, Ack, Control, Request},
};

/// Smallest expiration interval (libudt).
const MIN_EXPIRATION: Time = Time::from_millis(300);
/// Number of expirations after which the peer counts as unreachable (libudt).
const MAX_EXPIRATIONS: u32 = 16;
/// Minimum time since the peer's last packet or the last expiration after which the peer counts as
/// unreachable (libudt).
const MIN_BROKEN: Time = Time::from_secs(5);
/// Maximum number of acknowledgements that wait for their reply (libudt: 1024).
const ACK_WINDOW: usize = 1024;
/// Maximum number of ranges in one loss report; they fit into 1500 B.
const RANGES_PER_NAK: usize = 160;

impl Connection {
    /// When [`Connection::handle_timeout`] is due; [`Instant::NEVER`] after the end.
    pub fn next_timeout(&self) -> Instant {
        match self.state {
            State::Closed(_) => return Instant::NEVER,
            State::Connecting { next_request, deadline, .. } => return next_request.min(deadline),
            State::Established | State::Draining => {}
        }
        let mut due = self.expiration().min(self.receive.next_report());
        if self.receive.next != self.ack.confirmed {
            due = due.min(self.ack.next_due);
        }
        if let Some(sent) = self.send.head_sent_at() {
            due = due.min(sent + self.head_timeout());
        }
        if self.send.can_send(self.rate.window()) {
            due = due.min(self.pacing.due());
        }
        due
    }

    /// When the peer has been silent for too long.
    fn expiration(&self) -> Instant {
        let count = u64::from(self.expirations);
        let interval = (self.rtt + self.rtt_var * 4) * count + SYN;
        self.last_response + interval.max(MIN_EXPIRATION * count)
    }

    /// Time until the first unacknowledged packet is retransmitted.
    fn head_timeout(&self) -> Time {
        let margin = self.rtt_var * 4 + SYN;
        self.rtt + self.rtt + margin + SYN
    }

    /// Runs the timers that are due.
    pub fn handle_timeout(&mut self, now: Instant) {
        match self.state {
            State::Closed(_) => return,
            State::Connecting { cookie, next_request, deadline } => {
                if now >= deadline {
                    self.fail(CloseReason::Timeout);
                } else if now >= next_request {
                    let request = if cookie.is_some() { Request::Response } else { Request::Connect };
                    let handshake = self.handshake(request, cookie.unwrap_or(0));
                    self.queue(Control::Handshake(handshake));
                    self.state = State::Connecting { cookie, next_request: now + REQUEST_INTERVAL, deadline };
                }
                return;
            }
            State::Established | State::Draining => {}
        }
        if now >= self.ack.next_due && self.receive.next != self.ack.confirmed {
            self.send_full_ack(now);
        }
        if now >= self.receive.next_report() {
            let interval = self.report_interval();
            let due = self.receive.take_due(now, interval, RANGES_PER_NAK / 2);
            for ranges in due.chunks(RANGES_PER_NAK) {
                self.queue_nak(ranges);
            }
        }
        if self.send.head_sent_at().is_some_and(|sent| now >= sent + self.head_timeout()) {
            let head = self.send.acked;
            self.send.mark_lost(head, head);
        }
        if now >= self.expiration() {
            self.expire(now);
        }
    }

    fn send_full_ack(&mut self, now: Instant) {
        self.ack.next_due = now + SYN;
        self.ack.packets = 0;
        self.ack.light = 1;
        let next = self.receive.next;
        let since_full = now.saturating_since(self.ack.last_full);
        if next == self.ack.sent && since_full < self.rtt + self.rtt_var * 4 {
            return;
        }
        self.ack.sent = next;
        self.ack.number = (self.ack.number + 1) & wire::SEQUENCE_MASK;
        let rates = (since_full >= SYN).then(|| (self.arrivals.receive_rate(), self.arrivals.capacity()));
        if rates.is_some() {
            self.ack.last_full = now;
        }
        let ack = Ack::Full {
            number: self.ack.number,
            next: self.receive.numbering.sequence(next),
            rtt_us: micros(self.rtt),
            rtt_var_us: micros(self.rtt_var),
            // At least 2, or a full buffer could never empty (libudt).
            space: self.receive.space().max(2) as u32,
            rates,
        };
        self.queue(Control::Ack(ack));
        self.ack.window.push_back((self.ack.number, next, now));
        if self.ack.window.len() > ACK_WINDOW {
            self.ack.window.pop_front();
        }
    }

    fn expire(&mut self, now: Instant) {
        if self.expirations > MAX_EXPIRATIONS && now.saturating_since(self.last_response) >= MIN_BROKEN {
            return self.fail(CloseReason::Timeout);
        }
        self.statistics.expirations += 1;
        if self.send.is_empty() {
            self.queue(Control::KeepAlive);
        } else {
            self.send.mark_all_lost();
            let path = self.path();
            self.rate.on_timeout(now, &path);
        }
        self.expirations += 1;
        self.last_response = now;
    }
}

fn micros(time: Time) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}
