//! A FIFO with explicit feedback to the senders (Katabi, Handley and Rohrs, SIGCOMM 2002).
//!
//! The control interval d is the mean round-trip time of the traffic. In each interval phi = alpha d S - beta
//! Q (equation 1) with the spare bandwidth S and the persistent queue Q; h = max(0, shuffle y - |phi|) of the
//! input y is shuffled (equation 2). Segment i receives the feedback p_i - n_i with p_i = xi_p rtt_i^2 s_i /
//! cwnd_i and n_i = xi_n rtt_i s_i (equations 3 to 9), until the interval's pools are used up. A packet keeps
//! the minimum of the routers on its path. Differences from the paper:
//! 1. A train carries one header and receives the feedback for all of its bytes.
//! 2. The feedback is 0 until the first interval has passed. The paper gives no length for it; here it is 100
//!    ms.
//! 3. Q is the minimum queue over max(2 ms, (d - q/C) / 2), as in the authors' ns-2 code.

use units::Time;

use super::{
    Backlog, QueueContext, QueuedPacket,
    segment_queue::{Admission, Mark, SegmentQueue},
};
use crate::{Xcp, XcpHeader, XcpPacket, fixed::Fixed, train::wire_bytes};

const FIRST_INTERVAL: Time = Time::from_millis(100);
/// The shortest control interval, and the shortest span for the minimum of the queue.
const MIN_INTERVAL: Time = Time::from_millis(2);

/// Sums over one control interval.
#[derive(Debug, Clone, Copy, Default)]
struct IntervalSums {
    bytes: f64,
    /// Bytes of packets with a valid header.
    xcp_bytes: f64,
    /// Sum of rtt s / cwnd over packets with a valid header, s.
    rtt_by_cwnd: f64,
    /// Sum of rtt^2 s / cwnd over packets with a valid header, s^2.
    rtt2_by_cwnd: f64,
}

/// The feedback that is distributed during one control interval; pools in bytes per second.
#[derive(Debug, Clone, Copy, Default)]
struct FeedbackPools {
    xi_positive: f64,
    xi_negative: f64,
    positive: f64,
    negative: f64,
}

pub(crate) struct XcpQueue<P> {
    xcp: Xcp,
    segments: SegmentQueue<P>,
    sums: IntervalSums,
    pools: FeedbackPools,
    /// Control interval, s.
    interval: f64,
    interval_start: Fixed,
    interval_end: Fixed,
    /// Minimum of the queue since the last update of `persistent_bytes`.
    min_bytes: u64,
    persistent_bytes: u64,
    next_persistent_update: Fixed,
}

impl<P: XcpPacket> XcpQueue<P> {
    pub(crate) fn new(xcp: Xcp, overhead: u32) -> Self {
        XcpQueue {
            xcp,
            segments: SegmentQueue::new(overhead),
            sums: IntervalSums::default(),
            pools: FeedbackPools::default(),
            interval: FIRST_INTERVAL.as_secs_f64(),
            interval_start: Fixed::ZERO,
            interval_end: Fixed::ZERO,
            min_bytes: 0,
            persistent_bytes: 0,
            next_persistent_update: Fixed::ZERO,
        }
    }

    pub(crate) fn enqueue(&mut self, mut queued: QueuedPacket<P>, context: &mut QueueContext<P>) {
        self.update(context);
        let bytes = wire_bytes(&queued.packet, context.overhead) as f64;
        self.sums.bytes += bytes;
        if let Some(header) = queued.packet.xcp_header().filter(|header| is_valid(header)) {
            let rtt = header.rtt.as_secs_f64();
            self.sums.xcp_bytes += bytes;
            self.sums.rtt_by_cwnd += rtt * bytes / header.cwnd_bytes;
            self.sums.rtt2_by_cwnd += rtt * rtt * bytes / header.cwnd_bytes;
        }
        self.min_bytes = self.min_bytes.min(self.segments.backlog().bytes);
        self.segments.admit(queued, context, |_, _, _| Admission::Accept);
    }

    pub(crate) fn adopt(&mut self, queued: QueuedPacket<P>) {
        self.segments.push(queued);
    }

    pub(crate) fn dequeue(&mut self, context: &mut QueueContext<P>) -> Option<u64> {
        self.update(context);
        let pools = &mut self.pools;
        // Without a rate there is no bandwidth to distribute: the feedback stays unchanged.
        if let Some(packet) = self.segments.untouched_head().filter(|_| context.per_byte.is_some()) {
            let bytes = wire_bytes(packet, context.overhead) as f64;
            if let Some(header) = packet.xcp_header() {
                let feedback = pools.take_share(header, bytes);
                header.feedback_bytes = header.feedback_bytes.min(feedback);
            }
        }
        let taken = self.segments.take(Mark::No, context);
        self.min_bytes = self.min_bytes.min(self.segments.backlog().bytes);
        taken
    }

    pub(crate) fn close(&mut self, context: &mut QueueContext<P>) {
        self.segments.close(context);
    }

    pub(crate) fn backlog(&self) -> Backlog {
        self.segments.backlog()
    }

    pub(crate) fn ready_at(&self) -> Option<Fixed> {
        self.segments.head_at()
    }

    pub(crate) fn drain(&mut self, context: &mut QueueContext<P>) -> Vec<QueuedPacket<P>> {
        self.segments.drain(context)
    }

    /// Updates the persistent queue and ends the control interval, if they are due.
    fn update(&mut self, context: &QueueContext<P>) {
        let Some(byte) = context.per_byte else { return };
        let capacity = 1e9 / byte.as_nanos_f64();
        if context.now >= self.next_persistent_update {
            self.persistent_bytes = self.min_bytes;
            self.min_bytes = self.segments.backlog().bytes;
            let drained = self.interval - self.min_bytes as f64 / capacity;
            let span = (drained / 2.0).max(MIN_INTERVAL.as_secs_f64());
            self.next_persistent_update = context.now + Fixed::from_nanos_f64(span * 1e9);
        }
        if context.now < self.interval_end {
            return;
        }
        if self.interval_end > Fixed::ZERO {
            self.compute_pools(context.now.saturating_sub(self.interval_start).as_secs_f64(), capacity);
        }
        (self.interval_start, self.sums) = (context.now, IntervalSums::default());
        self.interval_end = context.now + Fixed::from_nanos_f64(self.interval * 1e9);
    }

    /// Runs the efficiency and the fairness controller at the end of an interval of `lasted` seconds.
    fn compute_pools(&mut self, lasted: f64, capacity: f64) {
        let sums = self.sums;
        if sums.rtt_by_cwnd > 0.0 {
            self.interval = (sums.rtt2_by_cwnd / sums.rtt_by_cwnd).max(MIN_INTERVAL.as_secs_f64());
        }
        let d = self.interval;
        let input = sums.bytes / lasted;
        let phi = self.xcp.alpha * d * (capacity - input) - self.xcp.beta * self.persistent_bytes as f64;
        let shuffled = (self.xcp.shuffle * input * d - phi.abs()).max(0.0);
        // The sums are for `lasted`, the pools for d.
        let per_interval = d / lasted;
        let (positive, negative) = ((shuffled + phi.max(0.0)) / d, (shuffled + (-phi).max(0.0)) / d);
        let share = |pool: f64, sum: f64| if sum > 0.0 { pool / (sum * per_interval) } else { 0.0 };
        self.pools = FeedbackPools {
            xi_positive: share(positive, sums.rtt_by_cwnd),
            xi_negative: share(negative, sums.xcp_bytes),
            positive: positive * per_interval.max(1.0),
            negative: negative * per_interval.max(1.0),
        };
    }
}

impl FeedbackPools {
    /// Returns the feedback for a packet of `bytes`, and subtracts the change of rate that it causes from the
    /// pools.
    fn take_share(&mut self, header: &XcpHeader, bytes: f64) -> f64 {
        if !is_valid(header) {
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

fn is_valid(header: &XcpHeader) -> bool {
    header.rtt > Time::ZERO && header.cwnd_bytes > 0.0
}
