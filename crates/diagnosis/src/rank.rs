//! From what was observed to the list of limits: a method for each family of causes, and the order at the end.

use model::{Buffer, mathis_bps, receive_buffer_window, send_buffer_bps};
use schema::Cause;
use tune::HostFacts;
use units::{BitRate, Bytes, KernelVersion, Time, group_digits, three_digits};

use crate::observed::{Kind, Limit, Mtu, Observed, Ranking, is_busy};

/// A path that gives less than so much of what was expected is slower than it should be.
const EXPECTED: f64 = 0.9;
/// What was outstanding when losses came, over the path's bandwidth-delay product: from here on the path was full.
const FULL: f64 = 0.75;
/// Fewer lost datagrams may be chance of another kind: a computer that stood still.
const LOST_MIN: u64 = 5;
/// The law of random losses holds to within so much.
const LAW: f64 = 1.3;
/// So many datagrams tell whether packets are lost without TCP.
const ENOUGH: u64 = 1000;
/// Datagrams lose less than so much of what TCP does where its bursts are what is lost.
const EVENLY: f64 = 0.25;
/// The largest window without scaling, bytes (RFC 9293).
const UNSCALED: f64 = 65_535.0;
/// A limit that the test disproved is above what it reached by so much.
const ABOVE: f64 = 1.02;

/// Ranks what limits.
pub fn rank(seen: &Observed) -> Ranking {
    let mut limits = Limits { seen, got: seen.got(), found: Vec::new() };
    limits.mtu();
    limits.busy();
    limits.windows();
    limits.losses();
    limits.path();
    limits.rest();
    limits.ranked()
}

struct Limits<'a> {
    seen: &'a Observed,
    got: f64,
    found: Vec<Limit>,
}

impl<'a> Limits<'a> {
    fn add(
        &mut self,
        kind: Kind,
        host: Option<&str>,
        allows: Allows,
        evidence: Vec<String>,
        change: Option<String>,
    ) {
        let (allows_bps, measured) = match allows {
            Allows::WhatWasGot => (self.got, true),
            Allows::Computed(bps) if bps < self.got => (self.got * ABOVE, false),
            Allows::Computed(bps) => (bps, false),
        };
        let host = host.map(Into::into);
        self.found.push(Limit { kind, host, allows_bps, measured, evidence, change, gain_bps: None });
    }

    fn mtu(&mut self) {
        let Mtu { device, passes: Some(passes) } = self.seen.mtu else { return };
        if passes >= device {
            return;
        }
        let evidence = vec![
            format!(
                "packets of {device} bytes, which the device sends, never came back, and no router said why"
            ),
            format!("packets of {passes} bytes did"),
        ];
        let change = format!(
            "find who drops them and let it say so (ICMP \"fragmentation needed\"); until then, on both hosts: \
             sysctl -w net.ipv4.tcp_mtu_probing=1, or an MTU of {passes} for the route"
        );
        self.add(Kind::MtuBlackHole, None, Allows::WhatWasGot, evidence, Some(change));
    }

    /// Whether a host without time is what bound the test.
    fn receiver_was_busy(&self) -> bool {
        is_busy(self.seen.receiver_busy) && !self.seen.is_whole()
    }

    fn busy(&mut self) {
        let seen = self.seen;
        let percent = |busy: Option<f64>| busy.unwrap_or(0.0) * 100.0;
        if self.receiver_was_busy() {
            let evidence = vec![
                format!(
                    "the program on {} that read the data ran, or waited for a processor, {:.0} % of the time",
                    seen.to,
                    percent(seen.receiver_busy)
                ),
                format!("what it left unread kept the window shut: the test got {}", rate(self.got)),
            ];
            let change = format!(
                "give the reader on {} a processor to itself (taskset; away from the interrupts'), or a faster one; larger packets \
                 and several streams on several processors take less of each",
                seen.to
            );
            self.add(Kind::ReceiverCpu, Some(&seen.to), Allows::WhatWasGot, evidence, Some(change));
        }
        if is_busy(seen.sender_busy) && matches!(seen.verdict(), Some(Cause::Application | Cause::HostCpu)) {
            let evidence = vec![format!(
                "the program on {} that wrote the data ran, or waited for a processor, {:.0} % of the time",
                seen.from,
                percent(seen.sender_busy)
            )];
            let change = format!(
                "give the writer on {} a processor to itself; zero-copy (test -Z) takes less of it",
                seen.from
            );
            self.add(Kind::SenderCpu, Some(&seen.from), Allows::WhatWasGot, evidence, Some(change));
        }
    }

    fn windows(&mut self) {
        let seen = self.seen;
        let unscaled = self.unscaled();
        if let Some(host) = unscaled {
            let bound = seen.verdict() == Some(Cause::ReceiveWindow) && !self.receiver_was_busy();
            let law = UNSCALED * 8.0 / seen.rtt.as_secs_f64().max(1e-9);
            let evidence = vec![format!(
                "{host} has net.ipv4.tcp_window_scaling = 0, so no window is larger than 65,535 bytes: {} in a round trip of {}",
                rate(law),
                seen.rtt
            )];
            let change = format!("on {host}: sysctl -w net.ipv4.tcp_window_scaling=1");
            let allows = if bound { Allows::WhatWasGot } else { Allows::Computed(law) };
            self.add(Kind::WindowScaling, Some(host), allows, evidence, Some(change));
        }
        self.receive_buffer(unscaled.is_some());
        self.send_buffer();
    }

    /// The host that does not scale windows: one is enough.
    fn unscaled(&self) -> Option<&'a str> {
        let seen = self.seen;
        let off = |facts: &Option<HostFacts>| {
            facts.as_ref().is_some_and(|facts| facts.number("net.ipv4.tcp_window_scaling") == Some(0))
        };
        match (off(&seen.receiver), off(&seen.sender)) {
            (true, _) => Some(&seen.to),
            (false, true) => Some(&seen.from),
            _ => None,
        }
    }

    fn window_seen(&self) -> Option<String> {
        let most = self.seen.flow.as_ref()?.max_rcv_wnd_bytes?;
        Some(format!(
            "the largest window that {} offered in the test was {} bytes",
            self.seen.to,
            group_digits(most)
        ))
    }

    fn receive_buffer(&mut self, unscaled: bool) {
        let seen = self.seen;
        let bound = seen.verdict() == Some(Cause::ReceiveWindow) && !unscaled && !self.receiver_was_busy();
        let most = seen
            .receiver
            .as_ref()
            .and_then(|facts| facts.triple("net.ipv4.tcp_rmem"))
            .map(|[_, _, most]| most);
        if !bound && most.is_none() {
            return;
        }
        let mut evidence = Vec::new();
        if let Some(most) = most {
            evidence.push(format!(
                "{} lets a receive buffer grow to {} bytes (net.ipv4.tcp_rmem)",
                seen.to,
                group_digits(most)
            ));
        }
        if bound {
            evidence.extend(self.window_seen());
            evidence.extend(seen.flow.iter().flat_map(|flow| flow.evidence.first().cloned()));
        }
        let share = seen.flow.as_ref().and_then(|flow| flow.window_share);
        let law = most.map(|most| {
            let buffer = Buffer::Tuned { largest: Bytes(most) };
            let kernel =
                seen.receiver.as_ref().and_then(HostFacts::version).unwrap_or(KernelVersion::new(6, 6));
            let mss = seen.flow.as_ref().and_then(|flow| flow.mss_bytes).unwrap_or(1448) as u32;
            let window = match share {
                Some(share) => most as f64 * share,
                None => receive_buffer_window(buffer, kernel, mss, seen.rtt),
            };
            window * 8.0 / seen.rtt.as_secs_f64().max(1e-9)
        });
        let change = self.buffer_change(&seen.to, "net.ipv4.tcp_rmem", seen.receiver.as_ref());
        let allows = match (bound, law) {
            (true, _) => Allows::WhatWasGot,
            (false, Some(law)) => Allows::Computed(law),
            (false, None) => return,
        };
        self.add(Kind::ReceiveBuffer, Some(&seen.to), allows, evidence, change);
    }

    fn send_buffer(&mut self) {
        let seen = self.seen;
        let bound = seen.verdict() == Some(Cause::SendBuffer);
        let Some(most) =
            seen.sender.as_ref().and_then(|facts| facts.triple("net.ipv4.tcp_wmem")).map(|[_, _, most]| most)
        else {
            return;
        };
        let mut evidence = vec![format!(
            "{} lets a send buffer grow to {} bytes (net.ipv4.tcp_wmem), and what is sent stays in it until it is acknowledged",
            seen.from,
            group_digits(most)
        )];
        if bound {
            evidence.extend(seen.flow.iter().flat_map(|flow| flow.evidence.first().cloned()));
        }
        let law = send_buffer_bps(Buffer::Tuned { largest: Bytes(most) }, None, seen.rtt);
        let change = self.buffer_change(&seen.from, "net.ipv4.tcp_wmem", seen.sender.as_ref());
        let allows = if bound { Allows::WhatWasGot } else { Allows::Computed(law) };
        self.add(Kind::SendBuffer, Some(&seen.from), allows, evidence, change);
    }

    /// The sysctl with room for twice the bandwidth-delay product.
    fn buffer_change(&self, host: &str, name: &str, facts: Option<&HostFacts>) -> Option<String> {
        let capacity = self.seen.capacity.as_ref()?;
        let needed = model::buffer_advice(self.seen.bdp()?).usual;
        let (least, first, most) = match facts?.triple(name)? {
            [least, first, most] => (least, first, most),
        };
        if most >= needed.0 {
            return None;
        }
        Some(format!(
            "on {host}: longfat tune --rate {} --rtt {} --apply (it sets {name} = {least} {first} {})",
            plain(capacity.goodput_bps),
            plain_time(self.seen.rtt),
            needed.0
        ))
    }

    fn losses(&mut self) {
        let seen = self.seen;
        let limited_by_loss = seen.verdict() == Some(Cause::Loss);
        // What vanishes in a black hole is explained by that.
        if !limited_by_loss || seen.is_whole() || seen.mtu.has_black_hole() {
            return;
        }
        let mut evidence = Vec::new();
        if let Some((again, sent)) =
            seen.flow.as_ref().and_then(|flow| flow.retransmitted_segs.zip(flow.sent_segs))
        {
            let share = again as f64 / (sent.max(1)) as f64 * 100.0;
            evidence.push(format!(
                "{} of {} segments were sent again ({share:.3} %)",
                group_digits(again),
                group_digits(sent)
            ));
        }
        let segments = seen.flow.as_ref().and_then(|flow| flow.retransmitted_segs.zip(flow.sent_segs));
        let tcp_loss = segments.map_or(0.0, |(again, sent)| again as f64 / sent.max(1) as f64);
        // Datagrams that come one by one are not lost: it is bursts that are.
        let bursts = seen.datagrams.sent >= ENOUGH && seen.datagrams.share() < EVENLY * tcp_loss;
        let fill =
            seen.outstanding_at_loss.zip(seen.bdp().filter(|bdp| *bdp > 0.0)).map(|(bytes, bdp)| bytes / bdp);
        let full = !self.chance_explains()
            && match fill {
                Some(fill) => fill >= FULL || bursts,
                None => bursts,
            };
        if let (Some(fill), Some(bytes)) = (fill, seen.outstanding_at_loss) {
            evidence.push(format!(
                "when segments were lost, {} were on the way: {:.0} % of what the path holds",
                Bytes(three_digits(bytes)),
                fill * 100.0
            ));
        }
        if seen.datagrams.sent > 0 {
            evidence.push(format!(
                "of {} datagrams, sent one by one at rates that the path carries, {} never came",
                group_digits(seen.datagrams.sent),
                group_digits(seen.datagrams.lost)
            ));
        }
        let bdp = seen
            .bdp()
            .map_or(String::new(), |bdp| format!(" (one connection wants {})", Bytes(three_digits(bdp))));
        let (kind, change) = match full {
            false => (
                Kind::Loss,
                "find the link that loses packets without being full: a cable, optics, a radio link, a duplex mismatch, a policer; \
                 bbr (test -C bbr) loses less by it, and several streams share it"
                    .into(),
            ),
            true => (
                Kind::ShortQueue,
                format!(
                    "a larger queue before the slowest link{bdp}; where that is somebody else's switch, pacing (fq with a maximum \
                     rate) or bbr, or several streams"
                ),
            ),
        };
        if kind == Kind::ShortQueue {
            evidence.extend(self.queue_seen());
        }
        self.add(kind, None, Allows::WhatWasGot, evidence, Some(change));
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

    fn path(&mut self) {
        let seen = self.seen;
        let whole = seen.is_whole();
        let Some(capacity) = seen.capacity.as_ref().filter(|capacity| !capacity.at_least) else {
            if whole {
                let evidence = seen.flow.iter().flat_map(|flow| flow.evidence.clone()).collect();
                self.add(Kind::PathRate, None, Allows::WhatWasGot, evidence, None);
            }
            return;
        };
        let allows = if whole { Allows::WhatWasGot } else { Allows::Computed(capacity.goodput_bps) };
        let mut evidence = vec![format!("{}: {} of TCP's payload", capacity.how, rate(capacity.goodput_bps))];
        if whole {
            let share = self.got / capacity.goodput_bps * 100.0;
            evidence.push(format!("the test got {}, {:.0} % of that", rate(self.got), share.min(100.0)));
        }
        match &seen.expected {
            Some((expected, who)) if capacity.goodput_bps < EXPECTED * expected => {
                evidence.push(format!("{who} makes {} possible", rate(*expected)));
                let change = "find the hop that is slower than it should be: a port that negotiated a lower speed, a shaper, a \
                              policer, other traffic";
                self.add(Kind::SlowHop, None, allows, evidence, Some(change.into()));
            }
            _ => self.add(Kind::PathRate, None, allows, evidence, None),
        }
    }

    /// What the test's verdict names and nothing else explained.
    fn rest(&mut self) {
        let seen = self.seen;
        if self.found.iter().any(|limit| limit.measured) || seen.is_whole() {
            return;
        }
        let Some(flow) = &seen.flow else { return };
        let (kind, change) = match flow.verdict {
            Some(Cause::Application) => (
                Kind::Application,
                Some("look at the program: it read or wrote more slowly than the path carries".into()),
            ),
            Some(Cause::SlowStart) => {
                (Kind::SlowStart, Some("test for longer (--time): the connection was still growing".into()))
            }
            Some(Cause::Pacing) => (Kind::Pacing, Some("raise the pacing rate".into())),
            Some(Cause::HostCpu) => {
                (Kind::SenderCpu, Some(format!("give the sender on {} more of a processor", seen.from)))
            }
            _ => return,
        };
        self.add(kind, None, Allows::WhatWasGot, flow.evidence.clone(), change);
    }

    fn ranked(mut self) -> Ranking {
        // What nobody can do without: nothing is beyond it.
        let path = self
            .found
            .iter()
            .find(|l| matches!(l.kind, Kind::PathRate | Kind::SlowHop))
            .map(|l| l.allows_bps);
        let most = path.or(self.seen.expected.as_ref().map(|(expected, _)| *expected));
        // Stable: of two that allow the same, the one that was looked at first.
        self.found.sort_by(|a, b| a.allows_bps.total_cmp(&b.allows_bps).then(b.measured.cmp(&a.measured)));
        let allowed: Vec<f64> = self.found.iter().map(|limit| limit.allows_bps).collect();
        for (index, limit) in self.found.iter_mut().enumerate() {
            let next = allowed[index + 1..]
                .iter()
                .copied()
                .reduce(f64::min)
                .map(|next| most.map_or(next, |most| next.min(most)));
            limit.gain_bps = next.map(|next| (next - limit.allows_bps).max(0.0));
        }
        let healthy = self.found.first().is_some_and(|limit| limit.kind == Kind::PathRate);
        Ranking { limits: self.found, healthy }
    }
}

/// Where a limit's figure comes from.
enum Allows {
    WhatWasGot,
    Computed(f64),
}

fn rate(bps: f64) -> BitRate {
    BitRate(three_digits(bps))
}

/// As the command line takes it.
fn plain(bps: f64) -> String {
    format!("{}mbit", (bps / 1e6).ceil().max(1.0))
}

fn plain_time(time: Time) -> String {
    format!("{}us", (time.as_micros_f64()).ceil())
}
