//! Limits that show as packet loss.

use model::{mathis_bps, transmit_queue_packets};
use schema::{Cause, FlowSummary};
use units::{BitRate, Bytes, group_digits, three_digits};

use super::{Allows, Limits};
use crate::{
    limit::{Doubt, Kind},
    losses::visible_queue_us,
    observed::MIN_LOST_FOR_RATE,
};

/// The setting of selective acknowledgement.
const SACK: &str = "net.ipv4.tcp_sack";
/// Minimum ratio of outstanding data to the bandwidth-delay product at which the path counts as full.
const MIN_FULL_PATH: f64 = 0.75;
/// Minimum number of lost datagrams that show random loss; fewer may be due to a stalled host.
const MIN_LOST_DATAGRAMS: u64 = 5;
/// The fix of random loss.
const FIND_LOSSY_LINK: &str = "find the link that loses packets without being full: a cable, optics, a radio link, a duplex mismatch; bbr \
                               (test -C bbr) and several streams suffer less from it";
/// The setting in a command that lengthens a device's queue.
const QUEUE_LENGTH: &str = " txqueuelen ";
/// Minimum number of congestion marks that explain a small window.
const MIN_MARKS: u64 = 3;
/// Maximum ratio of Mathis' law to the goodput that it explains.
const MAX_LAW_RATIO: f64 = 1.3;
/// Minimum expected number of lost datagrams, at TCP's loss rate, for a comparison of both.
const MIN_EXPECTED_LOST: f64 = 4.0;
/// Losses are random if the loss rate of datagrams is at least this share of that of TCP's packets. Outside
/// the range below, the result is certain whatever the queue shows.
const MIN_RANDOM_SHARE: f64 = 0.5;
const UNCERTAIN_RANDOM_SHARES: (f64, f64) = (0.25, 0.75);
/// Minimum number of retransmissions per loss episode of a queue overflow.
const MIN_OVERFLOW_LOSSES: f64 = 8.0;
/// Maximum ratio of a full send buffer to the outstanding data: the kernel accounts its overhead in the
/// buffer.
const MAX_BUFFER_OVERHEAD: f64 = 2.0;
/// Maximum length of a queue, in round trips, that single bursts of other traffic overflow.
const MAX_BURSTY_QUEUE: f64 = 0.15;
/// Minimum ratio of the queueing delay at losses to the longest one, if the queue overflowed.
const MIN_OVERFLOW_FILL: f64 = 0.5;

/// The cause of packet loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LossCause {
    /// Random loss: no sign of a full queue.
    Random,
    /// A queue overflowed.
    QueueOverflow,
}

impl Limits<'_> {
    /// Why the test's packets were lost; `None` if loss did not limit the test.
    pub(super) fn lost(&self) -> Option<LossCause> {
        self.why_lost().map(|(lost, _)| lost)
    }

    /// Why the test's packets were lost, and whether the cause is certain.
    fn why_lost(&self) -> Option<(LossCause, bool)> {
        let seen = self.seen;
        // An MTU black hole explains its losses.
        if seen.verdict() != Some(Cause::Loss) || seen.mtu.has_black_hole() {
            return None;
        }
        // Other traffic kept the queue of the link full.
        if seen.others_had_bps().is_some()
            && seen.available_bps().is_none_or(|_| seen.is_other_traffic_elastic())
        {
            return Some((LossCause::QueueOverflow, true));
        }
        if self.random_loss_explains() {
            return Some((LossCause::Random, true));
        }
        if self.are_many_lost_at_once() {
            return Some((LossCause::QueueOverflow, true));
        }
        // The queue was not full.
        if seen.datagrams.lost >= MIN_LOST_FOR_RATE
            && seen.capacity.as_ref().is_some_and(|capacity| seen.was_queue_half_empty_at_losses(capacity))
        {
            return Some((LossCause::Random, true));
        }
        match (self.random_share(), self.was_half_full(), self.fill()) {
            (Some(share), half_full, _) if share >= MIN_RANDOM_SHARE => {
                Some((LossCause::Random, share >= UNCERTAIN_RANDOM_SHARES.1 || half_full != Some(true)))
            }
            (Some(share), half_full, _) => Some((
                LossCause::QueueOverflow,
                share <= UNCERTAIN_RANDOM_SHARES.0 || half_full == Some(true),
            )),
            (None, Some(true), _) => Some((LossCause::QueueOverflow, true)),
            (None, Some(false), _) => Some((LossCause::Random, true)),
            (None, None, Some(fill)) if fill >= MIN_FULL_PATH => Some((LossCause::QueueOverflow, true)),
            // Neither datagrams nor queues show the cause.
            _ => Some((LossCause::Random, false)),
        }
    }

    pub(super) fn losses(&mut self) {
        let is_explained = self.seen.reached_full_rate()
            || self.seen.fair_queueing().is_some()
            || self.is_limited_by_others()
            || self.seen.policed_bps().is_some()
            || self.found.iter().any(|limit| limit.kind == Kind::SendBuffer && limit.measured);
        let Some((lost, sure)) = self.why_lost().filter(|_| !is_explained) else { return };
        let evidence = self.loss_evidence();
        // With SACK, single losses would limit TCP to the same goodput.
        let alone = lost == LossCause::Random && self.random_loss_explains();
        if let Some(host) = self.host_with_disabled(SACK).filter(|_| !alone) {
            let why = format!(
                "{SACK} is 0 on {host}: repairing several losses in a round trip takes a round trip each, or a timeout"
            );
            self.add_sack(host, Allows::TestGoodput, [vec![why], evidence].concat());
            return;
        }
        let bdp = self.seen.bdp();
        let needed =
            bdp.map_or(String::new(), |bdp| format!(" (one connection needs {})", Bytes(three_digits(bdp))));
        match lost {
            LossCause::Random => {
                self.add(Kind::Loss, None, Allows::TestGoodput, evidence, Some(FIND_LOSSY_LINK.into()));
            }
            LossCause::QueueOverflow => {
                let evidence = evidence.into_iter().chain(self.queue_evidence()).collect();
                let change = format!(
                    "a larger queue at the slowest link{needed}; if that is not possible, pacing (fq with a maximum rate), \
                     bbr, or several streams"
                );
                self.add(Kind::ShortQueue, None, Allows::TestGoodput, evidence, Some(change));
            }
        }
        let may_be_overflow = self.may_be_overflow();
        let Some(limit) = self.found.last_mut() else { return };
        if lost == LossCause::Random && may_be_overflow.is_some() {
            limit.doubt = may_be_overflow;
        } else if !sure {
            limit.doubt = Some(Doubt {
                instead: Some(if limit.kind == Kind::Loss { Kind::ShortQueue } else { Kind::Loss }),
                why: "too few packets were lost to distinguish random loss from a queue overflow".into(),
                decide:
                    "repeat the test for longer (--time 60), or with bbr (-C bbr), which does not fill queues"
                        .into(),
            });
        }
    }

    /// Bursts of other traffic overflow a very short queue, which looks like random loss.
    fn may_be_overflow(&self) -> Option<Doubt> {
        let queue = self.seen.capacity.as_ref()?.queue?;
        (queue.as_nanos() as f64 <= MAX_BURSTY_QUEUE * self.seen.rtt.as_nanos() as f64).then(|| Doubt {
            instead: Some(Kind::ShortQueue),
            why: format!(
                "the slowest link's queue holds only {queue}, and bursts of other traffic overflow such a queue at random"
            ),
            decide: "repeat the diagnosis when the path is otherwise idle".into(),
        })
    }

    /// Random loss that did not limit the test, but would be the next limit.
    pub(super) fn latent_losses(&mut self) {
        let (datagrams, seen) = (self.seen.datagrams, self.seen);
        let is_known = self.found.iter().any(|limit| matches!(limit.kind, Kind::Loss | Kind::ShortQueue));
        if is_known || datagrams.lost < MIN_LOST_FOR_RATE || seen.reached_full_rate() || seen.is_shared() {
            return;
        }
        let mss = seen.flow.as_ref().and_then(|flow| flow.mss_bytes).unwrap_or(1448) as u32;
        let law = mathis_bps(datagrams.loss_rate(), mss, seen.rtt, 1.0);
        if seen.capacity_bps().is_some_and(|carried| law < carried) {
            self.add(
                Kind::Loss,
                None,
                Allows::Computed(law),
                self.loss_evidence(),
                Some(FIND_LOSSY_LINK.into()),
            );
            let doubt = self.may_be_overflow();
            if let Some(limit) = self.found.last_mut() {
                limit.doubt = doubt;
            }
        }
    }

    /// Disabled selective acknowledgement that did not limit the test: the first losses of a larger window
    /// would be the next limit.
    pub(super) fn sack(&mut self) {
        let is_known = self.found.iter().any(|limit| limit.kind == Kind::SackOff);
        let Some(host) =
            self.host_with_disabled(SACK).filter(|_| !is_known && !self.seen.reached_full_rate())
        else {
            return;
        };
        let why = format!(
            "{SACK} is 0 on {host}: larger windows lose more segments at once, which take long to repair"
        );
        self.add_sack(host, Allows::Computed(self.test_bps), vec![why]);
    }

    fn add_sack(&mut self, host: &str, allows: Allows, evidence: Vec<String>) {
        let change = format!("on {host}: sysctl -w {SACK}=1");
        self.add(Kind::SackOff, Some(host), allows, evidence, Some(change));
    }

    /// Reductions of the window without loss on the path.
    pub(super) fn reductions(&mut self) {
        let seen = self.seen;
        let Some(flow) = seen.flow.as_ref().filter(|_| !seen.reached_full_rate()) else { return };
        let lost = seen.losses.map_or(0, |losses| losses.episodes as u64);
        match seen.verdict() {
            Some(Cause::LocalQueue) if !self.is_limited_by_others() => {
                let host = Some(seen.from.as_str());
                self.add(
                    Kind::LocalQueue,
                    host,
                    Allows::TestGoodput,
                    flow.evidence.clone(),
                    self.longer_transmit_queue(flow).or_else(|| flow.remedy.clone()),
                );
            }
            Some(Cause::EcnMarks) => {
                self.add(
                    Kind::EcnMarks,
                    None,
                    Allows::TestGoodput,
                    flow.evidence.clone(),
                    flow.remedy.clone(),
                );
            }
            // At least as many marks as losses: the marks reduce the window.
            _ if seen.marked_segs >= MIN_MARKS && seen.marked_segs >= lost => {
                let evidence = vec![format!(
                    "{} segments of the test arrived with a congestion mark (ECN)",
                    group_digits(seen.marked_segs)
                )];
                let change =
                    "a higher marking threshold (or sysctl -w net.ipv4.tcp_ecn=0 on one host, to compare)";
                self.add(Kind::EcnMarks, None, Allows::TestGoodput, evidence, Some(change.into()));
            }
            _ => {}
        }
    }

    /// The verdict names the sending device; the path's bandwidth-delay product is the length that it needs.
    fn longer_transmit_queue(&self, flow: &FlowSummary) -> Option<String> {
        let fix = flow.fixes.iter().find(|fix| fix.command.contains(QUEUE_LENGTH))?;
        let (set_length_of_device, _) = fix.command.split_once(QUEUE_LENGTH)?;
        let carried = BitRate(self.seen.carried_bps()? as u64);
        let packets = transmit_queue_packets(carried, self.seen.rtt, u32::try_from(flow.mss_bytes?).ok()?);
        Some(format!(
            "on {}: {set_length_of_device}{QUEUE_LENGTH}{packets} (one bandwidth-delay product; pacing below the rate of this device, by \
             fq with a maximum rate, needs no queue)",
            self.seen.from
        ))
    }

    fn loss_evidence(&self) -> Vec<String> {
        let seen = self.seen;
        let mut evidence = Vec::new();
        if let Some((again, sent)) = self.retransmitted() {
            evidence.push(format!(
                "{} of {} segments were retransmitted ({:.3} %)",
                group_digits(again),
                group_digits(sent),
                self.retransmitted_share() * 100.0
            ));
        }
        if let (Some(fill), Some(losses)) = (self.fill(), seen.losses) {
            evidence.push(format!(
                "when segments were lost, {} were in flight: {:.0} % of the bandwidth-delay product",
                Bytes(three_digits(losses.outstanding_bytes)),
                fill * 100.0
            ));
        }
        if let (Some(half_full), Some((at_loss, longest))) =
            (self.was_half_full(), self.queueing_delays_at_loss())
        {
            let delay = format!(
                "when segments were lost, the queueing delay was {:.1} ms (median), at most {:.1} ms",
                at_loss / 1e3,
                longest / 1e3
            );
            let conclusion = if half_full { "" } else { ": the queue was not full" };
            evidence.push(format!("{delay}{conclusion}"));
        }
        if seen.datagrams.sent > 0 {
            evidence.push(format!(
                "of {} evenly paced datagrams below the path's capacity, {} were lost",
                group_digits(seen.datagrams.sent),
                group_digits(seen.datagrams.lost)
            ));
        }
        evidence
    }

    fn retransmitted(&self) -> Option<(u64, u64)> {
        self.seen.flow.as_ref().and_then(|flow| flow.retransmitted_segs.zip(flow.sent_segs))
    }

    fn retransmitted_share(&self) -> f64 {
        self.retransmitted().map_or(0.0, |(again, sent)| again as f64 / sent.max(1) as f64)
    }

    /// Loss rate of evenly paced datagrams over TCP's loss rate; `None` if too few were sent.
    fn random_share(&self) -> Option<f64> {
        let datagrams = self.seen.datagrams;
        let expected = datagrams.sent as f64 * self.seen.test_loss_rate()?;
        (expected >= MIN_EXPECTED_LOST).then_some(datagrams.lost as f64 / expected)
    }

    /// Whether many packets were lost at once, and no datagram: random loss takes single packets.
    fn are_many_lost_at_once(&self) -> bool {
        let (Some(losses), Some((again, _))) = (self.seen.losses, self.retransmitted()) else { return false };
        let at_once = again as f64 / losses.episodes.max(1) as f64;
        at_once >= MIN_OVERFLOW_LOSSES && self.seen.datagrams.sent > 0 && self.seen.datagrams.lost == 0
    }

    /// Whether bursts of a small send buffer overflowed the queue: segments were lost with no more in flight
    /// than the buffer holds, and less than the bandwidth-delay product. A small buffer empties and fills in
    /// bursts.
    pub(super) fn are_losses_of_buffer_bursts(&self, buffer_bytes: f64) -> bool {
        self.lost() == Some(LossCause::QueueOverflow)
            && !self.seen.reached_full_rate()
            && self.fill().is_some_and(|fill| fill < MIN_FULL_PATH)
            && self
                .seen
                .losses
                .is_some_and(|losses| buffer_bytes <= MAX_BUFFER_OVERHEAD * losses.outstanding_bytes)
    }

    /// Data in flight at losses, over the bandwidth-delay product.
    fn fill(&self) -> Option<f64> {
        let bdp = self.seen.bdp().filter(|bdp| *bdp > 0.0)?;
        Some(self.seen.losses?.outstanding_bytes / bdp)
    }

    /// Queueing delays at losses, the median and the longest, microseconds; `None` without a visible queue.
    fn queueing_delays_at_loss(&self) -> Option<(f64, f64)> {
        let base = self.seen.base_rtt_us();
        let losses = self.seen.losses?;
        let (at_loss, longest) = (losses.rtt_us? - base, losses.longest_rtt_us? - base);
        (longest >= visible_queue_us(base)).then_some((at_loss.max(0.0), longest))
    }

    /// Whether the queue was at least half of its maximum at losses; `None` without a visible queue.
    fn was_half_full(&self) -> Option<bool> {
        let (at_loss, longest) = self.queueing_delays_at_loss()?;
        Some(at_loss >= MIN_OVERFLOW_FILL * longest)
    }

    /// Whether the loss rate of evenly paced datagrams explains TCP's goodput (Mathis et al. 1997).
    fn random_loss_explains(&self) -> bool {
        let (datagrams, rtt) = (self.seen.datagrams, self.seen.rtt);
        let mss = self.seen.flow.as_ref().and_then(|flow| flow.mss_bytes).unwrap_or(1448) as u32;
        datagrams.lost >= MIN_LOST_DATAGRAMS
            && mathis_bps(datagrams.loss_rate(), mss, rtt, 1.0) <= MAX_LAW_RATIO * self.test_bps
    }

    /// The longest queue as a sentence.
    fn queue_evidence(&self) -> Option<String> {
        let flow = self.seen.flow.as_ref()?;
        let (min, median) = (flow.min_rtt_us?, flow.median_rtt_us?);
        Some(format!(
            "the round trip under load was {:.1} ms, {:.1} ms more than without: the queues are that short",
            median / 1e3,
            (median - min).max(0.0) / 1e3
        ))
    }
}
