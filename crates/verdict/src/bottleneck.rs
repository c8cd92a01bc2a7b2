//! The link that limits a path, over time: where the bottleneck moves from one link to another, or its rate
//! changes.

use std::collections::BTreeMap;

use schema::LinkSample;
use units::{BitRate, three_digits};

use crate::{FlowContext, PathLink, series::Cumulative};

/// A link is full at this utilization or more.
const FULL: f64 = 0.95;
/// Length of the pieces of a run in which the fullest link is determined: this many samples, and at least
/// this time, microseconds.
const PIECE_SAMPLES: i64 = 5;
const MIN_PIECE_US: i64 = 200_000;
/// Minimum time that a link is the bottleneck, in pieces.
const MIN_PIECES: i64 = 4;

/// The samples of links, by link: a flow's verdict reads only those of its path.
#[derive(Debug, Clone, Default)]
pub struct LinkRows<'a>(BTreeMap<&'a str, Vec<&'a LinkSample>>);

impl<'a> LinkRows<'a> {
    /// Groups `rows`, which are in order of time.
    pub fn of(rows: &'a [LinkSample]) -> Self {
        let mut by_link: BTreeMap<&str, Vec<&LinkSample>> = BTreeMap::new();
        rows.iter().for_each(|row| by_link.entry(&row.link).or_default().push(row));
        LinkRows(by_link)
    }

    /// The samples of both directions of a link.
    fn of_link(&self, name: &str) -> &[&'a LinkSample] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }
}

/// A link of the path with its transmitted bytes.
pub(crate) struct SentByLink<'a> {
    pub(crate) link: &'a PathLink,
    bits: Cumulative,
}

impl<'a> SentByLink<'a> {
    pub(crate) fn of(links: &LinkRows<'_>, link: &'a PathLink) -> Self {
        let mut bits = Cumulative::default();
        for row in links.of_link(&link.name).iter().filter(|row| row.direction == link.direction) {
            bits.push(row.time_us, row.sent_bytes.unwrap_or(0) as f64 * 8.0);
        }
        SentByLink { link, bits }
    }

    /// Its utilization between two instants; `None` outside the sampled time.
    pub(crate) fn utilization(&self, from_us: i64, to_us: i64) -> Option<f64> {
        let mean = self.link.mean_rate_bps(from_us, to_us);
        self.bits.rate(from_us, to_us).map(|bps| bps / mean)
    }
}

/// The fullest of the link directions `path` between two instants, microseconds since the run's start; `None`
/// if none was full.
pub fn full_link<'a>(
    path: &'a [PathLink],
    links: &LinkRows<'_>,
    from_us: i64,
    to_us: i64,
) -> Option<&'a PathLink> {
    let used =
        path.iter().filter_map(|link| Some((link, SentByLink::of(links, link).utilization(from_us, to_us)?)));
    let (link, utilization) = used.max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    (utilization >= FULL).then_some(link)
}

/// A time in which one link at one rate was the bottleneck.
#[derive(Debug, Clone, Copy)]
struct Stretch<'a> {
    link: &'a PathLink,
    rate_bps: f64,
    from_us: i64,
    pieces: i64,
}

/// The moves of the bottleneck of a flow's path, and the changes of its rate, one sentence each, as in
/// `the bottleneck moved from link a (200 Mb/s) to link b (100 Mb/s) at 30.2 s`. Times in which no link is
/// full are skipped.
pub fn bottleneck_moves(links: &LinkRows<'_>, context: &FlowContext) -> Vec<String> {
    let sent: Vec<SentByLink> = context.path.iter().map(|link| SentByLink::of(links, link)).collect();
    let Some((from, to)) = sent.iter().find_map(|link| link.bits.span_us()) else { return Vec::new() };
    let samples = sent.first().map_or(0, |one| links.of_link(&one.link.name).len());
    // Both directions of a link are sampled.
    let spacing = (to - from) / (samples as i64 / 2).max(1);
    let length = (PIECE_SAMPLES * spacing).max(MIN_PIECE_US);
    let mut stretches: Vec<Stretch> = Vec::new();
    let mut at = from;
    while at + length <= to {
        let used = |link: &SentByLink| link.utilization(at, at + length).unwrap_or(0.0);
        let fullest =
            sent.iter().max_by(|a, b| used(a).total_cmp(&used(b))).filter(|link| used(link) >= FULL);
        if let Some(fullest) = fullest {
            let rate_bps = fullest.link.mean_rate_bps(at + length - 1, at + length);
            match stretches.last_mut() {
                Some(last) if last.link == fullest.link && last.rate_bps == rate_bps => last.pieces += 1,
                _ => stretches.push(Stretch { link: fullest.link, rate_bps, from_us: at, pieces: 1 }),
            }
        }
        at += length;
    }
    stretches.retain(|stretch| stretch.pieces >= MIN_PIECES);
    // An interruption of one link's stretch was too short to count.
    stretches.dedup_by(|next, before| next.link == before.link && next.rate_bps == before.rate_bps);
    stretches.windows(2).map(|pair| sentence(&pair[0], &pair[1], length)).collect()
}

/// `length` is that of a piece, microseconds. A change shows only in the piece after it, so if a change of a
/// rate is known shortly before, its time counts.
fn sentence(before: &Stretch, after: &Stretch, length: i64) -> String {
    let rate = |stretch: &Stretch| BitRate(three_digits(stretch.rate_bps));
    let known = before.link.rate_changes.iter().chain(&after.link.rate_changes).map(|(at, _)| *at);
    let recent = known.filter(|at| (after.from_us - 2 * length..=after.from_us + length).contains(at)).max();
    let at_s = recent.unwrap_or(after.from_us) as f64 * 1e-6;
    if before.link == after.link {
        let how = if after.rate_bps < before.rate_bps { "fell" } else { "rose" };
        return format!(
            "the rate of link {} {how} from {} to {} at {at_s:.1} s",
            after.link.name,
            rate(before),
            rate(after)
        );
    }
    format!(
        "the bottleneck moved from link {} ({}) to link {} ({}) at {at_s:.1} s",
        before.link.name,
        rate(before),
        after.link.name,
        rate(after)
    )
}

#[cfg(test)]
mod tests {
    use schema::LinkDirection;

    use super::*;

    fn link(name: &str, rate_bps: f64, changes: &[(i64, f64)]) -> PathLink {
        PathLink {
            name: name.into(),
            direction: LinkDirection::Forward,
            rate_bps,
            rate_changes: changes.to_vec(),
        }
    }

    /// Both links carry the rate of the slower one, sampled each 100 ms for 30 s.
    fn moves(path: Vec<PathLink>) -> Vec<String> {
        let mut rows = Vec::new();
        let mut bytes = 0.0;
        for i in 0..300_i64 {
            let at = i * 100_000;
            let slowest =
                path.iter().map(|link| link.mean_rate_bps(at, at + 1)).fold(f64::INFINITY, f64::min);
            for link in &path {
                for direction in [LinkDirection::Forward, LinkDirection::Backward] {
                    let sent = if direction == LinkDirection::Forward { bytes as i64 } else { 0 };
                    rows.push(LinkSample {
                        time_us: at,
                        link: link.name.clone(),
                        direction,
                        sent_bytes: Some(sent),
                        ..LinkSample::default()
                    });
                }
            }
            bytes += slowest / 8.0 * 0.1;
        }
        bottleneck_moves(&LinkRows::of(&rows), &FlowContext { path, ..FlowContext::default() })
    }

    #[test]
    fn a_bottleneck_that_moves_is_named_with_both_links_and_the_time() {
        let near = link("near", 200e6, &[(10_000_000, 1e9), (20_000_000, 200e6)]);
        let far = link("far", 400e6, &[(10_000_000, 100e6), (20_000_000, 400e6)]);
        assert_eq!(
            moves(vec![near, far]),
            [
                "the bottleneck moved from link near (200 Mb/s) to link far (100 Mb/s) at 10.0 s",
                "the bottleneck moved from link far (100 Mb/s) to link near (200 Mb/s) at 20.0 s"
            ]
        );
    }

    #[test]
    fn a_rate_that_changes_is_named_and_a_constant_one_is_not() {
        let falls = link("a", 100e6, &[(6_000_000, 20e6)]);
        assert_eq!(
            moves(vec![falls, link("b", 1e9, &[])]),
            ["the rate of link a fell from 100 Mb/s to 20 Mb/s at 6.0 s"]
        );
        assert!(moves(vec![link("a", 100e6, &[]), link("b", 1e9, &[])]).is_empty());
        assert!(moves(Vec::new()).is_empty());
    }
}
