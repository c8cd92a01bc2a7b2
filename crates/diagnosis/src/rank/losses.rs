//! Limits that show as lost packets.

use model::mathis_bps;
use schema::Cause;
use units::{Bytes, group_digits, three_digits};

use super::{Allows, Limits};
use crate::{
    limit::{Doubt, Kind},
    losses::visible_queue_us,
    observed::MIN_LOST_FOR_RATE,
};

/// The setting of selective acknowledgement.
const SACK: &str = "net.ipv4.tcp_sack";
/// What was outstanding when losses came, over what the path holds: from here on the path was full.
const FULL: f64 = 0.75;
/// Fewer lost datagrams may be chance of another kind: a computer that stood still.
const LOST_MIN: u64 = 5;
/// What to do about losses by chance.
const FIND_LOSSY_LINK: &str = "find the link that loses packets without being full: a cable, optics, a radio link, a duplex mismatch; bbr \
                               (test -C bbr) loses less by it, and several streams share it";
/// Minimum number of congestion marks that explain a small window.
const MARKED_MIN: u64 = 3;
/// The law of random losses holds to within so much.
const LAW: f64 = 1.3;
/// Where fewer datagrams would be lost if they were as often as TCP's packets, what was lost of them says nothing.
const ENOUGH: f64 = 4.0;
/// Losses are by chance where datagrams are lost at least half as often as TCP's packets: clearly not, and clearly so, beyond these.
const HALF: f64 = 0.5;
const CLEAR: (f64, f64) = (0.25, 0.75);
/// So many packets that are lost in one episode were lost together.
const AT_ONCE: f64 = 8.0;
/// A send buffer of so many times what was on the way was full: the kernel counts its own memory in.
const BUFFERS: f64 = 2.0;
/// What is lost while the queue is not even so full of what it once was is not lost for want of room.
const HALF_FULL: f64 = 0.5;

/// Why packets were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    /// Nothing tells of a full queue.
    ByChance,
    /// A queue was full.
    ForWantOfRoom,
}

impl Limits<'_> {
    /// Why the test's packets were lost; `None` where that was not what held it down.
    pub(super) fn lost(&self) -> Option<Lost> {
        self.why_lost().map(|(lost, _)| lost)
    }

    /// The same, and whether that is sure.
    fn why_lost(&self) -> Option<(Lost, bool)> {
        let seen = self.seen;
        // What vanishes in a black hole is explained by that.
        if seen.verdict() != Some(Cause::Loss) || seen.mtu.has_black_hole() {
            return None;
        }
        // The link was busy with others' packets, and whatever came then found a queue that was full.
        if seen.others_had_bps().is_some() && seen.left_bps().is_none_or(|_| seen.leaves_nothing()) {
            return Some((Lost::ForWantOfRoom, true));
        }
        if self.chance_explains() {
            return Some((Lost::ByChance, true));
        }
        if self.are_many_lost_at_once() {
            return Some((Lost::ForWantOfRoom, true));
        }
        // There was room.
        if seen.datagrams.lost >= MIN_LOST_FOR_RATE
            && seen.capacity.as_ref().is_some_and(|capacity| seen.had_room_for_losses(capacity))
        {
            return Some((Lost::ByChance, true));
        }
        match (self.chance_share(), self.was_half_full(), self.fill()) {
            (Some(share), half_full, _) if share >= HALF => {
                Some((Lost::ByChance, share >= CLEAR.1 || half_full != Some(true)))
            }
            (Some(share), half_full, _) => {
                Some((Lost::ForWantOfRoom, share <= CLEAR.0 || half_full == Some(true)))
            }
            (None, Some(true), _) => Some((Lost::ForWantOfRoom, true)),
            (None, Some(false), _) => Some((Lost::ByChance, true)),
            (None, None, Some(fill)) if fill >= FULL => Some((Lost::ForWantOfRoom, true)),
            // Neither datagrams nor queues say anything.
            _ => Some((Lost::ByChance, false)),
        }
    }

    pub(super) fn losses(&mut self) {
        let is_explained = self.seen.is_whole()
            || self.seen.in_turn().is_some()
            || self.is_held_by_others()
            || self.seen.policed_bps().is_some()
            || self.found.iter().any(|limit| limit.kind == Kind::SendBuffer && limit.measured);
        let Some((lost, sure)) = self.why_lost().filter(|_| !is_explained) else { return };
        let evidence = self.losses_seen();
        // Losses that come one by one make TCP as slow as that with SACK, too.
        let alone = lost == Lost::ByChance && self.chance_explains();
        if let Some(host) = self.switched_off(SACK).filter(|_| !alone) {
            let why = format!(
                "{host} has {SACK} = 0: of several segments lost in a round trip each takes another one, or a timeout, to repair"
            );
            self.add_sack(host, Allows::WhatWasGot, [vec![why], evidence].concat());
            return;
        }
        let bdp = self.seen.bdp();
        let wants =
            bdp.map_or(String::new(), |bdp| format!(" (one connection wants {})", Bytes(three_digits(bdp))));
        match lost {
            Lost::ByChance => {
                self.add(Kind::Loss, None, Allows::WhatWasGot, evidence, Some(FIND_LOSSY_LINK.into()));
            }
            Lost::ForWantOfRoom => {
                let evidence = evidence.into_iter().chain(self.queue_seen()).collect();
                let change = format!(
                    "a larger queue before the slowest link{wants}; where that is somebody else's switch, pacing (fq with a \
                     maximum rate) or bbr, or several streams"
                );
                self.add(Kind::ShortQueue, None, Allows::WhatWasGot, evidence, Some(change));
            }
        }
        if !sure && let Some(limit) = self.found.last_mut() {
            limit.doubt = Some(Doubt {
                instead: Some(if limit.kind == Kind::Loss { Kind::ShortQueue } else { Kind::Loss }),
                why: "too few packets were lost to tell whether that was by chance or for want of room"
                    .into(),
                decide: "a longer test (--time 60), or one with bbr (-C bbr), which fills no queue".into(),
            });
        }
    }

    /// Losses by chance that did not matter yet.
    pub(super) fn losses_to_come(&mut self) {
        let (datagrams, seen) = (self.seen.datagrams, self.seen);
        let is_known = self.found.iter().any(|limit| matches!(limit.kind, Kind::Loss | Kind::ShortQueue));
        if is_known || datagrams.lost < MIN_LOST_FOR_RATE || seen.is_whole() || seen.is_shared() {
            return;
        }
        let mss = seen.flow.as_ref().and_then(|flow| flow.mss_bytes).unwrap_or(1448) as u32;
        let law = mathis_bps(datagrams.share(), mss, seen.rtt, 1.0);
        if seen.carried_bps().is_some_and(|carried| law < carried) {
            self.add(
                Kind::Loss,
                None,
                Allows::Computed(law),
                self.losses_seen(),
                Some(FIND_LOSSY_LINK.into()),
            );
        }
    }

    /// Selective acknowledgement that is off and did not matter yet: whatever is removed, the first losses of a larger window will.
    pub(super) fn sack(&mut self) {
        let is_known = self.found.iter().any(|limit| limit.kind == Kind::SackOff);
        let Some(host) = self.switched_off(SACK).filter(|_| !is_known && !self.seen.is_whole()) else {
            return;
        };
        let why =
            format!("{host} has {SACK} = 0: a larger window loses more at once, which takes long to repair");
        self.add_sack(host, Allows::Computed(self.got), vec![why]);
    }

    fn add_sack(&mut self, host: &str, allows: Allows, evidence: Vec<String>) {
        let change = format!("on {host}: sysctl -w {SACK}=1");
        self.add(Kind::SackOff, Some(host), allows, evidence, Some(change));
    }

    /// Windows that were reduced without a loss on the way.
    pub(super) fn reductions(&mut self) {
        let seen = self.seen;
        let Some(flow) = seen.flow.as_ref().filter(|_| !seen.is_whole()) else { return };
        let lost = seen.losses.map_or(0, |losses| losses.episodes as u64);
        match seen.verdict() {
            Some(Cause::LocalQueue) if !self.is_held_by_others() => {
                let host = Some(seen.from.as_str());
                self.add(
                    Kind::LocalQueue,
                    host,
                    Allows::WhatWasGot,
                    flow.evidence.clone(),
                    flow.remedy.clone(),
                );
            }
            Some(Cause::EcnMarks) => {
                self.add(
                    Kind::EcnMarks,
                    None,
                    Allows::WhatWasGot,
                    flow.evidence.clone(),
                    flow.remedy.clone(),
                );
            }
            // Marks reduce the window as often as losses do, if there are as many.
            _ if seen.marked_segs >= MARKED_MIN && seen.marked_segs >= lost => {
                let evidence = vec![format!(
                    "{} segments of the test came with a congestion mark (ECN), each a reason to send less",
                    group_digits(seen.marked_segs)
                )];
                let change = "a marking threshold that lets queues grow (or sysctl -w net.ipv4.tcp_ecn=0 on one host, to compare)";
                self.add(Kind::EcnMarks, None, Allows::WhatWasGot, evidence, Some(change.into()));
            }
            _ => {}
        }
    }

    fn losses_seen(&self) -> Vec<String> {
        let seen = self.seen;
        let mut evidence = Vec::new();
        if let Some((again, sent)) = self.retransmitted() {
            evidence.push(format!(
                "{} of {} segments were sent again ({:.3} %)",
                group_digits(again),
                group_digits(sent),
                self.retransmitted_share() * 100.0
            ));
        }
        if let (Some(fill), Some(losses)) = (self.fill(), seen.losses) {
            evidence.push(format!(
                "when segments were lost, {} were on the way: {:.0} % of what the path holds",
                Bytes(three_digits(losses.outstanding_bytes)),
                fill * 100.0
            ));
        }
        if let (Some(half_full), Some((at_loss, longest))) = (self.was_half_full(), self.queues()) {
            let waited = format!(
                "when segments were lost, packets had waited {:.1} ms in queues (median), and up to {:.1} ms",
                at_loss / 1e3,
                longest / 1e3
            );
            let so = if half_full { "" } else { ": the queue was not full" };
            evidence.push(format!("{waited}{so}"));
        }
        if seen.datagrams.sent > 0 {
            evidence.push(format!(
                "of {} datagrams, sent one by one at rates that the path carries, {} never came",
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

    /// How often datagrams, which come one by one, are lost, over how often TCP's packets are; `None` where too few were sent to tell.
    fn chance_share(&self) -> Option<f64> {
        let datagrams = self.seen.datagrams;
        let expected = datagrams.sent as f64 * self.seen.lost_share()?;
        (expected >= ENOUGH).then_some(datagrams.lost as f64 / expected)
    }

    /// Whether many packets were lost at once, and no datagram: by chance it is one.
    fn are_many_lost_at_once(&self) -> bool {
        let (Some(losses), Some((again, _))) = (self.seen.losses, self.retransmitted()) else { return false };
        let at_once = again as f64 / losses.episodes.max(1) as f64;
        at_once >= AT_ONCE && self.seen.datagrams.sent > 0 && self.seen.datagrams.lost == 0
    }

    /// Whether segments were lost though no more was on the way than the send buffer holds, and that is less than the path does: a small
    /// buffer is emptied and filled in bursts, which are what does not fit.
    pub(super) fn are_buffers_bursts(&self, buffer_bytes: f64) -> bool {
        self.lost() == Some(Lost::ForWantOfRoom)
            && !self.seen.is_whole()
            && self.fill().is_some_and(|fill| fill < FULL)
            && self.seen.losses.is_some_and(|losses| buffer_bytes <= BUFFERS * losses.outstanding_bytes)
    }

    /// What was on the way when segments were lost, over what the path holds.
    fn fill(&self) -> Option<f64> {
        let bdp = self.seen.bdp().filter(|bdp| *bdp > 0.0)?;
        Some(self.seen.losses?.outstanding_bytes / bdp)
    }

    /// How long packets waited in queues when segments were lost, the median and the longest, microseconds; `None` where no queue was seen.
    fn queues(&self) -> Option<(f64, f64)> {
        let base = self.seen.base_rtt_us();
        let losses = self.seen.losses?;
        let (at_loss, longest) = (losses.rtt_us? - base, losses.longest_rtt_us? - base);
        (longest >= visible_queue_us(base)).then_some((at_loss.max(0.0), longest))
    }

    /// Whether the queue was at least half as long as it ever was when segments were lost; `None` where no queue was seen.
    fn was_half_full(&self) -> Option<bool> {
        let (at_loss, longest) = self.queues()?;
        Some(at_loss >= HALF_FULL * longest)
    }

    /// Whether what datagrams lose at half of the path's rate makes TCP as slow as it was (Mathis et al. 1997).
    fn chance_explains(&self) -> bool {
        let (datagrams, rtt) = (self.seen.datagrams, self.seen.rtt);
        let mss = self.seen.flow.as_ref().and_then(|flow| flow.mss_bytes).unwrap_or(1448) as u32;
        datagrams.lost >= LOST_MIN && mathis_bps(datagrams.share(), mss, rtt, 1.0) <= LAW * self.got
    }

    /// How long the longest queue was.
    fn queue_seen(&self) -> Option<String> {
        let flow = self.seen.flow.as_ref()?;
        let (least, median) = (flow.min_rtt_us?, flow.median_rtt_us?);
        Some(format!(
            "the round trip under load was {:.1} ms, {:.1} ms more than without: so short are the queues",
            median / 1e3,
            (median - least).max(0.0) / 1e3
        ))
    }
}
