//! What the samples of a TCP test show of its losses, and of queues.

use schema::FlowSample;
use serde::Serialize;

/// Losses come in episodes: those within two round trips are one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Losses {
    /// How many.
    pub episodes: usize,
    /// What was on the way when they came, bytes: the median over episodes of the most in the two round trips before.
    pub outstanding_bytes: f64,
    /// The round-trip time when they came, microseconds: the median over episodes of the longest in the two round trips before.
    pub rtt_us: Option<f64>,
    /// The longest of those.
    pub longest_rtt_us: Option<f64>,
}

impl Losses {
    /// Of a flow's samples in order of time; `None` without losses.
    pub fn of(rows: &[FlowSample]) -> Option<Self> {
        let (mut outstanding, mut rtts): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
        let mut quiet_until = i64::MIN;
        for (index, pair) in rows.windows(2).enumerate() {
            let lost = pair[1].total_retrans_segs > pair[0].total_retrans_segs;
            if !lost || pair[1].time_us < quiet_until {
                continue;
            }
            let reach = 2 * pair[1].srtt_us.unwrap_or(0);
            quiet_until = pair[1].time_us + reach;
            let since = pair[1].time_us - reach.max(1);
            let before = || rows[..=index].iter().rev().take_while(|row| row.time_us >= since);
            let on_the_way = |row: &FlowSample| Some((row.unacked_segs? * row.snd_mss_bytes?) as f64);
            outstanding.extend(before().filter_map(on_the_way).reduce(f64::max));
            rtts.extend(before().filter_map(|row| Some(row.srtt_us? as f64)).reduce(f64::max));
        }
        Some(Losses {
            episodes: outstanding.len(),
            outstanding_bytes: median(&mut outstanding)?,
            rtt_us: median(&mut rtts),
            longest_rtt_us: rtts.iter().copied().reduce(f64::max),
        })
    }
}

/// A queue stands where round trips take longer by this share, and by this time, microseconds.
const QUEUED: (f64, f64) = (0.1, 500.0);
/// And by so many times what they vary by.
const DEVIATIONS: f64 = 2.0;

/// How long a queue must be to be seen, microseconds, where the round-trip time without one is `base_us`.
pub(crate) fn visible_queue_us(base_us: f64) -> f64 {
    (QUEUED.0 * base_us).max(QUEUED.1)
}

/// The share of the samples in the second half of a test that show a queue: then the slowest link was busy. `None` without samples.
pub(crate) fn queued_share(rows: &[FlowSample], base_us: f64) -> Option<f64> {
    settled_share(rows, |row| {
        // What varies is no queue that stands, but bursts that wait for themselves.
        let varies = DEVIATIONS * row.rttvar_us.unwrap_or(0) as f64;
        Some(row.srtt_us? as f64 - base_us >= visible_queue_us(base_us).max(varies))
    })
}

/// The share of the same samples in which packets waited longer than all that the test had on its way can make them wait on a link that
/// carries `carried_bps`: others' packets stood in the queue. `None` without samples.
pub(crate) fn behind_others_share(rows: &[FlowSample], base_us: f64, carried_bps: f64) -> Option<f64> {
    settled_share(rows, |row| {
        let own_us = (row.unacked_segs? * row.snd_mss_bytes?) as f64 * 8e6 / carried_bps.max(1.0);
        Some(row.srtt_us? as f64 - base_us >= visible_queue_us(base_us) + own_us)
    })
}

/// Of the samples in the second half that answer at all, the share that says yes.
fn settled_share(rows: &[FlowSample], answer: impl Fn(&FlowSample) -> Option<bool>) -> Option<f64> {
    let answers: Vec<bool> = rows[rows.len() / 2..].iter().filter_map(answer).collect();
    (!answers.is_empty()).then(|| answers.iter().filter(|yes| **yes).count() as f64 / answers.len() as f64)
}

/// The upper median; `None` without values. Sorts them.
pub(crate) fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
