//! The time at which the next packet of a paced sender is due, and the rate at which a sender that was late
//! catches up.

use units::{Instant, Time};

/// A sender that was late by up to this sends the missed packets at once.
const MAX_BURST: Time = Time::from_millis(2);
/// Maximum lateness that is made up for: a few times as long as a thread waits for a busy processor.
const MAX_BEHIND: Time = Time::from_millis(200);
/// Until it has caught up, the sender shortens the time between packets by this share of it.
const CATCH_UP_DIVISOR: u64 = 4;

/// The schedule of a paced sender.
///
/// Lateness beyond a burst of 2 ms is made up for gradually, a third faster than the sender's rate: the
/// sender keeps its rate on average without long bursts. A rate that was lowered is not made up for. (libudt
/// sends all missed packets at once.)
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pacing {
    next: Instant,
    /// Lateness that is not yet made up for.
    behind: Time,
    /// Time between the last two packets.
    period: Time,
}

impl Pacing {
    /// The first packet is due at `start`.
    pub(crate) fn new(start: Instant) -> Self {
        Pacing { next: start, behind: Time::ZERO, period: Time::ZERO }
    }

    /// When the next packet is due.
    pub(crate) fn due(&self) -> Instant {
        self.next
    }

    /// A packet is sent at `now`; the next one is due a `period` later.
    pub(crate) fn sent(&mut self, now: Instant, period: Time) {
        let earliest = now.saturating_sub(MAX_BURST);
        if period > self.period {
            self.behind = Time::ZERO;
        }
        self.period = period;
        self.behind = (self.behind + earliest.saturating_since(self.next)).min(MAX_BEHIND);
        let shortened = (period / CATCH_UP_DIVISOR).min(self.behind);
        self.behind = self.behind.saturating_sub(shortened);
        self.next = (self.next.max(earliest) + period).saturating_sub(shortened);
    }

    /// The sender had nothing to send until `now`: idle time is not lateness.
    pub(crate) fn idle_until(&mut self, now: Instant) {
        self.next = self.next.max(now);
    }

    /// Nothing is to be sent for `pause` from `now` on.
    pub(crate) fn pause(&mut self, now: Instant, pause: Time) {
        self.next = self.next.max(now) + pause;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Time = Time::from_micros(80);

    /// Packets that are sent at `now`.
    fn send_due(pacing: &mut Pacing, now: Instant) -> u64 {
        let mut packets = 0;
        while pacing.due() <= now {
            pacing.sent(now, PERIOD);
            packets += 1;
        }
        packets
    }

    /// A sender that runs every 40 us sends the packets of these milliseconds.
    fn send_for(pacing: &mut Pacing, from_ms: u64, to_ms: u64) -> u64 {
        let polls = (from_ms * 25)..(to_ms * 25);
        polls.map(|poll| send_due(pacing, Instant::from_micros(poll * 40))).sum()
    }

    #[test]
    fn a_late_sender_keeps_its_rate_on_average() {
        let mut pacing = Pacing::new(Instant::ZERO);
        let mut packets = 0;
        // Of each 20 ms it is kept waiting for 6 ms.
        for begin in (0..1000).step_by(20) {
            packets += send_for(&mut pacing, begin, begin + 14);
        }
        packets += send_for(&mut pacing, 1000, 1050);
        let due = 1_050_000 / 80;
        assert!((due - 60..=due + 1).contains(&packets), "{packets} of {due}");
    }

    #[test]
    fn a_late_sender_catches_up_without_long_bursts_for_at_most_200_ms() {
        let mut pacing = Pacing::new(Instant::ZERO);
        let at = Instant::from_secs(5);
        assert_eq!(send_due(&mut pacing, at), 2_000 / 60 + 1, "the packets missed in 2 ms, a third faster");
        let packets = send_for(&mut pacing, 5_000, 10_000) - 5_000_000 / 80;
        let missed = 198_000 / 80;
        assert!((missed..missed + 40).contains(&packets), "{packets} of {missed}: 200 ms in all");
    }

    #[test]
    fn packets_missed_at_a_higher_rate_are_not_made_up_for_at_a_lower_rate() {
        let mut pacing = Pacing::new(Instant::ZERO);
        let now = Instant::from_millis(50);
        pacing.sent(now, Time::from_micros(1));
        pacing.sent(now, PERIOD);
        let due = pacing.due();
        pacing.sent(due, PERIOD);
        assert_eq!(pacing.due(), due + PERIOD);
    }

    #[test]
    fn idle_time_is_not_lateness() {
        let mut pacing = Pacing::new(Instant::ZERO);
        pacing.idle_until(Instant::from_secs(1));
        assert_eq!(send_due(&mut pacing, Instant::from_secs(1)), 1);
        pacing.pause(Instant::from_secs(2), Time::from_millis(10));
        assert_eq!(pacing.due(), Instant::from_millis(2_010));
    }
}
