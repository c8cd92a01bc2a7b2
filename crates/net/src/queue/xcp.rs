//! First in, first out, with explicit feedback to the senders (Katabi, Handley and Rohrs, SIGCOMM 2002).
//!
//! Each control interval d, the mean round-trip time of the traffic: phi = alpha d S - beta Q (equation 1) with the
//! spare bandwidth S and the persistent queue Q; h = max(0, shuffle y - |phi|) of the input y is shuffled
//! (equation 2). Segment i gets p_i - n_i with p_i = xi_p rtt_i^2 s_i / cwnd_i and n_i = xi_n rtt_i s_i
//! (equations 3 to 9), as long as the interval's pools last. A packet keeps the least that a router on its way gave.
//! Departures from the paper:
//! 1. A train carries one header and gets the feedback of all of its bytes.
//! 2. Before the first interval has passed nobody is told anything but 0; it is 100 ms, ours.
//! 3. Q is the least queue over max(2 ms, (d - q/C) / 2), as in the authors' ns-2 code.

use units::Time;

use super::{
    Backlog, Desk, Item,
    desk::Fate,
    lane::{Lane, Mark},
};
use crate::{Packet, Xcp, XcpHeader, cut::wire_bytes, fixed::Fixed};

const FIRST_INTERVAL: Time = Time(100_000_000);
/// The shortest span over which the queue is watched, and the shortest control interval.
const SHORTEST: Time = Time(2_000_000);

/// Sums over one control interval.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    bytes: f64,
    /// Of segments with a header: bytes, sum of rtt s / cwnd (s), and of rtt^2 s / cwnd (s^2).
    led_bytes: f64,
    rtt_by_cwnd: f64,
    rtt2_by_cwnd: f64,
}

/// What is given out during one control interval; pools in bytes a second.
#[derive(Debug, Clone, Copy, Default)]
struct Given {
    xi_positive: f64,
    xi_negative: f64,
    positive: f64,
    negative: f64,
}

pub(crate) struct XcpQueue<P> {
    xcp: Xcp,
    lane: Lane<P>,
    seen: Seen,
    given: Given,
    interval: f64,
    begun: Fixed,
    ends: Fixed,
    least_bytes: u64,
    persistent_bytes: u64,
    watched_until: Fixed,
}

impl<P: Packet> XcpQueue<P> {
    pub(crate) fn new(xcp: Xcp, overhead: u32) -> Self {
        XcpQueue {
            xcp,
            lane: Lane::new(overhead),
            seen: Seen::default(),
            given: Given::default(),
            interval: FIRST_INTERVAL.as_secs_f64(),
            begun: Fixed::ZERO,
            ends: Fixed::ZERO,
            least_bytes: 0,
            persistent_bytes: 0,
            watched_until: Fixed::ZERO,
        }
    }

    pub(crate) fn enqueue(&mut self, mut item: Item<P>, desk: &mut Desk<P>) {
        self.clock(desk);
        let bytes = wire_bytes(&item.packet, desk.overhead) as f64;
        self.seen.bytes += bytes;
        if let Some(header) = item.packet.xcp().filter(|header| is_known(header)) {
            let rtt = header.rtt.as_secs_f64();
            self.seen.led_bytes += bytes;
            self.seen.rtt_by_cwnd += rtt * bytes / header.cwnd_bytes;
            self.seen.rtt2_by_cwnd += rtt * rtt * bytes / header.cwnd_bytes;
        }
        self.least_bytes = self.least_bytes.min(self.lane.backlog().bytes);
        desk.admit(&mut self.lane, item, |_, _, _| Fate::Enter);
    }

    pub(crate) fn adopt(&mut self, item: Item<P>) {
        self.lane.push(item);
    }

    pub(crate) fn dequeue(&mut self, desk: &mut Desk<P>) -> Option<u64> {
        self.clock(desk);
        let given = &mut self.given;
        // Without a rate there is no bandwidth to share out: the feedback passes as it came.
        if let Some(packet) = self.lane.head_untouched().filter(|_| desk.per_byte.is_some()) {
            let bytes = wire_bytes(packet, desk.overhead) as f64;
            if let Some(header) = packet.xcp() {
                let feedback = given.share(header, bytes);
                header.feedback_bytes = header.feedback_bytes.min(feedback);
            }
        }
        let taken = self.lane.take(Mark::No, desk);
        self.least_bytes = self.least_bytes.min(self.lane.backlog().bytes);
        taken
    }

    pub(crate) fn close(&mut self, desk: &mut Desk<P>) {
        self.lane.close(desk);
    }

    pub(crate) fn backlog(&self) -> Backlog {
        self.lane.backlog()
    }

    pub(crate) fn ready_at(&self) -> Option<Fixed> {
        self.lane.head_at()
    }

    pub(crate) fn drain(&mut self, desk: &mut Desk<P>) -> Vec<Item<P>> {
        self.lane.drain(desk)
    }

    /// Ends the control interval and the watch over the queue if their time has come.
    fn clock(&mut self, desk: &Desk<P>) {
        let Some(byte) = desk.per_byte else { return };
        let capacity = 1e9 / byte.as_nanos_f64();
        if desk.now >= self.watched_until {
            self.persistent_bytes = self.least_bytes;
            self.least_bytes = self.lane.backlog().bytes;
            let drained = self.interval - self.least_bytes as f64 / capacity;
            let span = (drained / 2.0).max(SHORTEST.as_secs_f64());
            self.watched_until = desk.now + Fixed::from_nanos_f64(span * 1e9);
        }
        if desk.now < self.ends {
            return;
        }
        if self.ends > Fixed::ZERO {
            self.settle(desk.now.saturating_sub(self.begun).as_secs_f64(), capacity);
        }
        (self.begun, self.seen) = (desk.now, Seen::default());
        self.ends = desk.now + Fixed::from_nanos_f64(self.interval * 1e9);
    }

    /// The efficiency and the fairness controller at the end of an interval that lasted `lasted` seconds.
    fn settle(&mut self, lasted: f64, capacity: f64) {
        let seen = self.seen;
        if seen.rtt_by_cwnd > 0.0 {
            self.interval = (seen.rtt2_by_cwnd / seen.rtt_by_cwnd).max(SHORTEST.as_secs_f64());
        }
        let d = self.interval;
        let input = seen.bytes / lasted;
        let phi = self.xcp.alpha * d * (capacity - input) - self.xcp.beta * self.persistent_bytes as f64;
        let shuffled = (self.xcp.shuffle * input * d - phi.abs()).max(0.0);
        // The sums cover `lasted`, the pools are for d.
        let per_interval = d / lasted;
        let (positive, negative) = ((shuffled + phi.max(0.0)) / d, (shuffled + (-phi).max(0.0)) / d);
        let share = |pool: f64, sum: f64| if sum > 0.0 { pool / (sum * per_interval) } else { 0.0 };
        self.given = Given {
            xi_positive: share(positive, seen.rtt_by_cwnd),
            xi_negative: share(negative, seen.led_bytes),
            positive: positive * per_interval.max(1.0),
            negative: negative * per_interval.max(1.0),
        };
    }
}

impl Given {
    /// The feedback for a packet of `bytes`; what it takes from the pools is its change of rate.
    fn share(&mut self, header: &XcpHeader, bytes: f64) -> f64 {
        if !is_known(header) {
            return 0.0;
        }
        let rtt = header.rtt.as_secs_f64();
        let positive = (self.xi_positive * rtt * rtt * bytes / header.cwnd_bytes).min(self.positive * rtt);
        let negative = (self.xi_negative * rtt * bytes).min(self.negative * rtt);
        self.positive -= positive / rtt;
        self.negative -= negative / rtt;
        positive - negative
    }
}

fn is_known(header: &XcpHeader) -> bool {
    header.rtt > Time(0) && header.cwnd_bytes > 0.0
}
