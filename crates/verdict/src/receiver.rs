//! The limit of a flow, decided by its receiving end alone: its own buffer or reader, the sender, or the
//! network.
//!
//! A receiver sees the window that it advertises, when data arrives, gaps in the sequence, congestion marks,
//! and its own estimate of the round-trip time. It sees neither the congestion window nor the send buffer.
//! For each sample after the start of the flow:
//! 1. The program that reads (the reader) has left at least as many bytes unread as the window has:
//!    [`ReceiverFinding::Reader`].
//! 2. The data of one round trip fills the advertised window: [`ReceiverFinding::ReceiveBuffer`]. Goodput
//!    times round-trip time is the data in flight, whether or not there is a standing queue.
//! 3. Segments were missing or marked at most 200 round trips ago, or a standing queue lengthens the
//!    round-trip time: [`ReceiverFinding::Network`].
//! 4. None of these, and the data of a round trip is constant: [`ReceiverFinding::Sender`], whose buffer,
//!    application or pacing limits it.
//!
//! The finding with the largest share of the samples is the verdict; if no finding has half of them, the
//! limit is unknown.

use schema::{FlowSample, ReceiverFinding, ReceiverVerdict};
use units::{Bytes, Time, three_digits};

use crate::series::{Cumulative, RATE_ROUND_TRIPS};

/// Minimum data of a round trip, as a share of the window, that counts as a full window: an ACK is sent for
/// up to two segments, and the estimate of the round-trip time lags behind.
const MIN_FULL_SHARE: f64 = 0.75;
/// Minimum unread data, as a share of the buffer's payload (unread data and the window), that counts as a
/// slow reader.
const MIN_UNREAD_SHARE: f64 = 0.5;
/// Share of the flow's time that is skipped: slow start.
const SKIPPED_SHARE: f64 = 0.2;
/// Maximum number of round trips after a loss or a mark in which it is the limit.
const MAX_ROUND_TRIPS_AFTER_LOSS: f64 = 200.0;
/// Minimum excess of the round-trip time over its minimum that counts as a standing queue, as a share of the
/// minimum.
const STANDING_QUEUE: f64 = 0.5;
/// Minimum excess of the round-trip time that counts as a standing queue, microseconds. The receiver's
/// estimate ends when data arrives, so it includes the pauses of the sending program: programs that limit
/// their rate write every few milliseconds (5 ms in this project's own). It has the resolution of timestamps
/// (1 ms).
const MIN_STANDING_QUEUE_US: f64 = 6000.0;
/// Maximum spread (90th percentile minus 10th) of constant data of a round trip, as a share of its median.
const MAX_CONSTANT_SPREAD: f64 = 0.15;
/// Number of parts of a round trip whose data is compared.
const PARTS_OF_ROUND_TRIP: i64 = 4;
/// Minimum 10th percentile of the data of these parts that counts as even, as a share of the median.
const MIN_EVEN_SHARE: f64 = 0.5;
/// Minimum excess of the 90th percentile of the round-trip time that counts as a sender's probe for more
/// capacity, as a share of the minimum round-trip time.
const PROBED_QUEUE: f64 = 0.1;
/// Minimum excess of the 90th percentile that counts as a sender's probe for more capacity, microseconds.
const MIN_PROBED_QUEUE_US: f64 = 1000.0;
/// Minimum ratio of the rate in the last third of the samples to the rate in the first third that counts as
/// growth.
const MIN_GROWTH: f64 = 1.15;
/// Minimum share of the samples that have the verdict's finding.
const MIN_SHARE: f64 = 0.5;
/// Minimum number of samples.
const MIN_SAMPLES: usize = 20;
/// Minimum number of round trips.
const MIN_ROUND_TRIPS: f64 = 10.0;

/// A sample, ready to be judged.
struct Sample {
    time_us: i64,
    round_trip_us: f64,
    window: Option<f64>,
    unread: f64,
    /// Payload that arrived in the last round trip.
    arrived: f64,
    /// Round trips since the latest loss or mark; `None` without one.
    since_loss: Option<f64>,
}

/// Decides the limit of flow `flow` from its rows; `None` without a receiver's rows or data. Columns of the
/// sender are used only where a capture fills them: the window and round-trip time of a capture are those at
/// its capture point.
pub fn judge_receiver(rows: &[FlowSample], flow: &str) -> Option<ReceiverVerdict> {
    let own: Vec<&FlowSample> = rows.iter().filter(|row| row.flow == flow).collect();
    let (samples, bytes) = samples(&own)?;
    let span_us = samples.last()?.time_us - samples.first()?.time_us;
    let shortest_us = own.iter().filter_map(|row| round_trip_us(row)).min()? as f64;
    if samples.len() < MIN_SAMPLES || (span_us as f64) < MIN_ROUND_TRIPS * shortest_us {
        return Some(unknown(0.0, "the flow was too short: fewer than 20 samples or 10 round trips"));
    }
    if samples.iter().all(|sample| sample.window.is_none()) {
        return Some(unknown(
            0.0,
            "this kernel does not report the advertised window (Linux 6.2 and later do)",
        ));
    }
    let arrived = Spread::of(samples.iter().map(|sample| sample.arrived));
    let steady = Steadiness::of(&samples, &bytes, shortest_us);
    let labels: Vec<Option<ReceiverFinding>> =
        samples.iter().map(|sample| label(sample, shortest_us, &steady)).collect();
    let share =
        |finding| labels.iter().filter(|label| **label == Some(finding)).count() as f64 / labels.len() as f64;
    if share(ReceiverFinding::Unknown) >= MIN_SHARE {
        let why = match steady.grows {
            true => "the rate still grows, without a loss or a queue: the flow has not reached its limit yet",
            false => {
                "data arrives at a constant rate, without bursts, a loss or a queue: the path carries no more, or the sender paces"
            }
        };
        return Some(unknown(share(ReceiverFinding::Unknown), why));
    }
    let all = [
        ReceiverFinding::ReceiveBuffer,
        ReceiverFinding::Reader,
        ReceiverFinding::Sender,
        ReceiverFinding::Network,
    ];
    let finding = all.into_iter().max_by(|a, b| share(*a).total_cmp(&share(*b)))?;
    if share(finding) < MIN_SHARE {
        let why = "no limit applied for most of the time";
        return Some(unknown(share(finding), why));
    }
    let evidence = evidence(finding, share(finding), &samples, shortest_us, &arrived);
    Some(ReceiverVerdict { finding, share: share(finding), evidence })
}

fn unknown(share: f64, why: &str) -> ReceiverVerdict {
    ReceiverVerdict { finding: ReceiverFinding::Unknown, share, evidence: vec![why.into()] }
}

/// The samples after the flow's start.
fn samples(rows: &[&FlowSample]) -> Option<(Vec<Sample>, Cumulative)> {
    let mut bytes = Cumulative::default();
    for row in rows {
        if let Some(count) = row.bytes_received.or(row.bytes_acked) {
            bytes.push(row.time_us, count as f64);
        }
    }
    let (from, to) = bytes.span_us()?;
    let skipped = from + ((to - from) as f64 * SKIPPED_SHARE) as i64;
    let lost = |row: &FlowSample| {
        let gaps = row.rcv_ooopack_segs.or(row.total_retrans_segs).unwrap_or(0);
        gaps + row.rcv_ce_segs.or(row.delivered_ce_segs).unwrap_or(0)
    };
    let (mut latest, mut before) = (None, rows.first().map_or(0, |row| lost(row)));
    let mut found = Vec::new();
    for row in rows {
        let count = lost(row);
        if count > before {
            latest = Some(row.time_us);
        }
        before = count;
        let Some(round_trip) = round_trip_us(row) else { continue };
        if row.time_us < skipped || row.bytes_received.or(row.bytes_acked).is_none() {
            continue;
        }
        let round_trip_us = round_trip as f64;
        found.push(Sample {
            time_us: row.time_us,
            round_trip_us,
            window: row.rcv_wnd_bytes.or(row.snd_wnd_bytes).map(|window| window as f64),
            unread: row.rcv_queue_bytes.unwrap_or(0) as f64,
            arrived: (bytes.at(row.time_us) - bytes.at(row.time_us - RATE_ROUND_TRIPS * round_trip))
                / RATE_ROUND_TRIPS as f64,
            since_loss: latest.map(|at| (row.time_us - at) as f64 / round_trip_us),
        });
    }
    (!found.is_empty() && found.iter().any(|sample| sample.arrived > 0.0)).then_some((found, bytes))
}

fn round_trip_us(row: &FlowSample) -> Option<i64> {
    row.rcv_rtt_us.or(row.srtt_us).filter(|us| *us > 0)
}

/// The finding of one sample; `None` if none applies.
fn label(sample: &Sample, shortest_us: f64, steady: &Steadiness) -> Option<ReceiverFinding> {
    if let Some(window) = sample.window {
        if sample.unread >= MIN_UNREAD_SHARE * (window + sample.unread) && sample.unread > 0.0 {
            return Some(ReceiverFinding::Reader);
        }
        if sample.arrived >= MIN_FULL_SHARE * window {
            let is_path_full = sample.has_standing_queue(shortest_us);
            let full = ReceiverFinding::ReceiveBuffer;
            return Some(if is_path_full { ReceiverFinding::Network } else { full });
        }
    }
    if sample.is_soon_after_loss() || sample.has_standing_queue(shortest_us) {
        return Some(ReceiverFinding::Network);
    }
    // A flow that neither fills a window nor a queue and loses nothing is limited by the sender. Two other
    // limits have the same signs: a congestion window that still grows, and a path that BBR fills without a
    // queue.
    let may_be_network =
        steady.grows || (steady.is_constant() && steady.is_even != Some(false) && steady.probes_queue);
    Some(if may_be_network { ReceiverFinding::Unknown } else { ReceiverFinding::Sender })
}

impl Sample {
    fn is_soon_after_loss(&self) -> bool {
        self.since_loss.is_some_and(|round_trips| round_trips <= MAX_ROUND_TRIPS_AFTER_LOSS)
    }

    /// Whether the round-trip time exceeds its minimum by as much as a standing queue lengthens it.
    fn has_standing_queue(&self, shortest_us: f64) -> bool {
        self.round_trip_us - shortest_us >= (STANDING_QUEUE * shortest_us).max(MIN_STANDING_QUEUE_US)
    }
}

/// How steadily the data arrives.
struct Steadiness {
    /// Payload over [`RATE_ROUND_TRIPS`] round trips of median length.
    over_round_trips: Spread,
    /// The data of a round trip does not arrive in bursts; `None` if samples are too rare to show them.
    is_even: Option<bool>,
    /// The rate in the last third exceeds the rate in the first third.
    grows: bool,
    /// The round-trip time exceeds its minimum occasionally, as when a sender probes for more capacity.
    probes_queue: bool,
}

impl Steadiness {
    fn of(samples: &[Sample], bytes: &Cumulative, shortest_us: f64) -> Self {
        let round_trip = Spread::of(samples.iter().map(|sample| sample.round_trip_us)).median as i64;
        let span = RATE_ROUND_TRIPS * round_trip;
        let over = |at: i64, span: i64| bytes.at(at) - bytes.at(at - span);
        let over_round_trips = Spread::of(samples.iter().map(|sample| over(sample.time_us, span)));
        let spacing = Spread::of(samples.windows(2).map(|pair| (pair[1].time_us - pair[0].time_us) as f64));
        let part = round_trip / PARTS_OF_ROUND_TRIP;
        let in_parts = Spread::of(samples.iter().map(|sample| over(sample.time_us, part)));
        let are_visible = spacing.median as i64 <= part;
        let is_even = are_visible.then_some(in_parts.low >= MIN_EVEN_SHARE * in_parts.median);
        let third = samples.len() / 3;
        let median_of =
            |samples: &[Sample]| Spread::of(samples.iter().map(|sample| over(sample.time_us, span))).median;
        let grows = median_of(&samples[samples.len() - third..]) > MIN_GROWTH * median_of(&samples[..third]);
        let longest_us = Spread::of(samples.iter().map(|sample| sample.round_trip_us)).high;
        let probes_queue = longest_us - shortest_us >= (PROBED_QUEUE * shortest_us).max(MIN_PROBED_QUEUE_US);
        Steadiness { over_round_trips, is_even, grows, probes_queue }
    }

    fn is_constant(&self) -> bool {
        let rate = &self.over_round_trips;
        (rate.high - rate.low) <= MAX_CONSTANT_SPREAD * rate.median
    }
}

/// Percentiles of a value.
struct Spread {
    low: f64,
    median: f64,
    high: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let at =
            |share: f64| values.get((share * (values.len() - 1) as f64) as usize).copied().unwrap_or(0.0);
        Spread { low: at(0.1), median: at(0.5), high: at(0.9) }
    }
}

fn evidence(
    finding: ReceiverFinding,
    share: f64,
    samples: &[Sample],
    shortest_us: f64,
    arrived: &Spread,
) -> Vec<String> {
    let percent = |share: f64| format!("{:.0} % of the samples", share * 100.0);
    let median = |value: fn(&Sample) -> Option<f64>| Spread::of(samples.iter().filter_map(value)).median;
    let bytes = |value: f64| Bytes(three_digits(value));
    let time = |us: f64| Time::from_micros(three_digits(us));
    let window = bytes(median(|sample| sample.window));
    let in_round_trip = bytes(arrived.median);
    match finding {
        ReceiverFinding::ReceiveBuffer => vec![format!(
            "in {} the data of one round trip ({in_round_trip}) filled the advertised window ({window})",
            percent(share)
        )],
        ReceiverFinding::Reader => vec![format!(
            "in {} the program left {} unread, and the window was {window}",
            percent(share),
            bytes(median(|sample| Some(sample.unread)))
        )],
        ReceiverFinding::Sender => vec![
            format!(
                "the data of one round trip ({in_round_trip}) did not fill the advertised window ({window})"
            ),
            format!(
                "in {} nothing had been lost or marked, no queue lengthened the round-trip time, and the rate did not grow",
                percent(share)
            ),
        ],
        ReceiverFinding::Network => {
            let count = |holds: &dyn Fn(&Sample) -> bool| {
                samples.iter().filter(|sample| holds(sample)).count() as f64 / samples.len() as f64
            };
            let lost = count(&|sample| sample.is_soon_after_loss());
            let queued = count(&|sample| sample.has_standing_queue(shortest_us));
            let mut evidence = Vec::new();
            if lost > 0.0 {
                evidence.push(format!(
                    "{} came within {MAX_ROUND_TRIPS_AFTER_LOSS} round trips after segments were missing or marked",
                    percent(lost)
                ));
            }
            if queued > 0.0 {
                evidence.push(format!(
                    "in {} packets waited in a queue: the round-trip time was {} (median), and at least {}",
                    percent(queued),
                    time(median(|sample| Some(sample.round_trip_us))),
                    time(shortest_us)
                ));
            }
            evidence.push(format!(
                "the data of one round trip ({in_round_trip}) did not fill the advertised window ({window})"
            ));
            evidence
        }
        ReceiverFinding::Unknown => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP_US: i64 = 40_000;

    /// Five seconds of a receiver's samples, one each 10 ms: `set` changes each, with the milliseconds since
    /// the start.
    fn judged(set: impl Fn(i64, &mut FlowSample)) -> ReceiverVerdict {
        let row = |i: i64| {
            let mut row = FlowSample {
                time_us: i * 10_000,
                flow: "f".into(),
                rcv_rtt_us: Some(ROUND_TRIP_US),
                rcv_wnd_bytes: Some(1_000_000),
                rcv_queue_bytes: Some(0),
                rcv_ooopack_segs: Some(0),
                ..FlowSample::default()
            };
            set(i * 10, &mut row);
            row
        };
        judge_receiver(&(0..500).map(row).collect::<Vec<_>>(), "f").unwrap()
    }

    /// 400 kB in each round trip, in its first quarter.
    fn in_bursts(ms: i64) -> Option<i64> {
        let (round_trips, rest) = (ms / 40, ms % 40);
        Some(round_trips * 400_000 + rest.min(10) * 40_000)
    }

    /// 400 kB in each round trip, evenly.
    fn evenly(ms: i64) -> Option<i64> {
        Some(ms * 10_000)
    }

    #[test]
    fn a_full_window_is_limited_by_the_receivers_buffer() {
        let full = judged(|ms, row| {
            row.bytes_received = in_bursts(ms);
            row.rcv_wnd_bytes = Some(410_000);
        });
        assert_eq!(full.finding, ReceiverFinding::ReceiveBuffer, "{full:?}");
        assert_eq!(
            full.evidence,
            [
                "in 100 % of the samples the data of one round trip (400 kB) filled the advertised window (410 kB)"
            ]
        );
        // The same window on a path whose queue holds half of it: a larger one lengthens the queue.
        let queued = judged(|ms, row| {
            row.bytes_received = in_bursts(ms);
            row.rcv_wnd_bytes = Some(410_000);
            row.rcv_rtt_us = Some(if ms < 100 { ROUND_TRIP_US / 2 } else { ROUND_TRIP_US });
        });
        assert_eq!(queued.finding, ReceiverFinding::Network, "{queued:?}");
    }

    #[test]
    fn unread_data_shows_a_slow_reader() {
        let slow = judged(|ms, row| {
            row.bytes_received = evenly(ms);
            row.rcv_queue_bytes = Some(1_500_000);
        });
        assert_eq!(slow.finding, ReceiverFinding::Reader, "{slow:?}");
    }

    #[test]
    fn gaps_marks_and_queues_show_a_limit_in_the_network() {
        let lost = judged(|ms, row| {
            row.bytes_received = in_bursts(ms);
            row.rcv_ooopack_segs = Some(ms / 1000);
        });
        let marked = judged(|ms, row| {
            row.bytes_received = in_bursts(ms);
            row.rcv_ce_segs = Some(ms / 1000);
        });
        let queued = judged(|ms, row| {
            row.bytes_received = evenly(ms);
            row.rcv_rtt_us = Some(if ms < 100 { ROUND_TRIP_US } else { 2 * ROUND_TRIP_US });
        });
        for network in [lost, marked, queued] {
            assert_eq!(network.finding, ReceiverFinding::Network, "{network:?}");
        }
    }

    #[test]
    fn bursts_without_another_limit_show_a_limit_at_the_sender() {
        let sender = judged(|ms, row| row.bytes_received = in_bursts(ms));
        assert_eq!(sender.finding, ReceiverFinding::Sender, "{sender:?}");
        // BBR on a full path looks like a paced sender, except that it probes a higher rate periodically.
        let probing = judged(|ms, row| {
            row.bytes_received = evenly(ms);
            row.rcv_rtt_us = Some(if ms % 320 < 60 { ROUND_TRIP_US * 6 / 5 } else { ROUND_TRIP_US });
        });
        assert_eq!(probing.finding, ReceiverFinding::Unknown, "{probing:?}");
        let growing = judged(|ms, row| row.bytes_received = Some(ms * ms));
        assert_eq!(growing.finding, ReceiverFinding::Unknown, "{growing:?}");
        assert!(growing.evidence[0].contains("still grows"), "{growing:?}");
    }

    #[test]
    fn too_few_samples_are_unknown_and_flows_without_a_receiver_have_no_verdict() {
        let rows: Vec<FlowSample> = (0..15)
            .map(|i| FlowSample {
                time_us: i * 10_000,
                flow: "f".into(),
                rcv_rtt_us: Some(1000),
                rcv_wnd_bytes: Some(100_000),
                bytes_received: Some(i * 10_000),
                ..FlowSample::default()
            })
            .collect();
        let young = judge_receiver(&rows, "f").unwrap();
        assert_eq!(young.finding, ReceiverFinding::Unknown, "{young:?}");
        assert_eq!(judge_receiver(&rows, "other"), None);
        assert_eq!(judge_receiver(&[], "f"), None);
        let blind = judged(|ms, row| {
            row.bytes_received = evenly(ms);
            row.rcv_wnd_bytes = None;
        });
        assert!(blind.evidence[0].contains("Linux 6.2"), "{blind:?}");
    }
}
