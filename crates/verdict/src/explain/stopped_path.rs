//! The explanation of losses on a path that drops everything from some time on, in one of its directions.

use schema::FlowSample;
use units::{Bytes, three_digits};

use super::Explanation;
use crate::{FlowContext, series::Cumulative};

/// A path has stopped if it carries nothing during at least this share of the samples' time, until their end.
const STOPPED_SHARE: f64 = 0.5;
/// And for at least this time, microseconds: the retransmission timeout before a round-trip time was measured
/// (RFC 6298, section 2).
const MIN_STOPPED_US: i64 = 1_000_000;

/// The explanation if, until the last of `rows`, nothing arrived any more at the receiver or no
/// acknowledgement at the sender.
pub(super) fn explain(rows: &[&FlowSample], context: &FlowContext) -> Option<Explanation> {
    let (from, to) = (&context.from, &context.to);
    let remedy = |from: &str, to: &str| {
        Some(format!(
            "find out why the path from {from} to {to} carries nothing: a link that is down, a missing route, or a firewall"
        ))
    };
    let received = last_value(rows, |row| row.bytes_received);
    let acked = last_value(rows, |row| row.bytes_acked);
    if let (Some((_, received)), Some((since_us, acked))) = (received, acked)
        && received > acked
        && has_stopped(rows, since_us)
    {
        let evidence = format!(
            "no acknowledgement arrived on {from} after {:.1} s, although {to} had received {} that {from} regards as lost: the path from {to} \
             to {from} dropped everything",
            since_us as f64 * 1e-6,
            Bytes(three_digits((received - acked) as f64))
        );
        return Some(Explanation {
            evidence: vec![evidence],
            remedy: remedy(to, from),
            ..Explanation::default()
        });
    }
    let (since_us, _) = received.filter(|(since_us, _)| has_stopped(rows, *since_us))?;
    let (_, sent) = last_value(rows, |row| row.bytes_sent)?;
    let earlier = rows.iter().filter(|row| row.time_us <= since_us);
    let sent_before = earlier.filter_map(|row| row.bytes_sent).max()?;
    if sent <= sent_before {
        return None;
    }
    // Without counters of acknowledgements, the sender can also have waited for them.
    let direction = if acked.is_some() { "" } else { " in at least one direction" };
    let evidence = format!(
        "no data arrived on {to} after {:.1} s, although {from} sent {} after that: the path dropped everything{direction}",
        since_us as f64 * 1e-6,
        Bytes(three_digits((sent - sent_before) as f64))
    );
    Some(Explanation { evidence: vec![evidence], remedy: remedy(from, to), ..Explanation::default() })
}

/// The last value of a counter, and the time of the first sample with this value, microseconds since the
/// run's start.
fn last_value(rows: &[&FlowSample], value: fn(&FlowSample) -> Option<i64>) -> Option<(i64, i64)> {
    let mut counter = Cumulative::default();
    let known = rows.iter().filter_map(|row| Some((row.time_us, value(row)?)));
    known.for_each(|(time_us, value)| counter.push(time_us, value as f64));
    let (_, end_us) = counter.span_us()?;
    Some((counter.unchanged_since(end_us)?, counter.at(end_us) as i64))
}

/// Whether a counter that stayed the same since `since_us` shows that the path has stopped.
fn has_stopped(rows: &[&FlowSample], since_us: i64) -> bool {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return false };
    let stopped_us = last.time_us - since_us;
    stopped_us >= MIN_STOPPED_US && stopped_us as f64 >= STOPPED_SHARE * (last.time_us - first.time_us) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The explanation of a flow of 10 s from h1 to h2 at 1 MB/s whose path drops everything after 3 s, in
    /// this direction.
    fn evidence(is_reverse: bool) -> Option<String> {
        let rows: Vec<FlowSample> = (0..100i64)
            .map(|i| {
                let arrived = i.min(30) * 100_000;
                FlowSample {
                    time_us: i * 100_000,
                    bytes_sent: Some(i.min(40) * 100_000),
                    bytes_received: Some(if is_reverse { i.min(35) * 100_000 } else { arrived }),
                    // The kernel counts the SYN as one acknowledged byte.
                    bytes_acked: Some(arrived + 1),
                    ..FlowSample::default()
                }
            })
            .collect();
        let context = FlowContext { from: "h1".into(), to: "h2".into(), ..FlowContext::default() };
        let explained = |rows: &[&FlowSample]| explain(rows, &context);
        let rows: Vec<&FlowSample> = rows.iter().collect();
        assert!(explained(&rows[..35]).is_none(), "the path stopped for less than a timeout");
        let text = |explanation: Explanation| {
            format!("{}; {}", explanation.evidence.join("; "), explanation.remedy.unwrap())
        };
        explained(&rows).map(text)
    }

    #[test]
    fn a_sample_without_the_counter_does_not_show_since_when_it_is_unchanged() {
        let row = |(time_us, bytes_received)| FlowSample { time_us, bytes_received, ..FlowSample::default() };
        let rows = [(0, Some(1)), (1, None), (2, Some(5)), (3, None), (4, Some(5)), (5, None)].map(row);
        let rows: Vec<&FlowSample> = rows.iter().collect();
        let last = |count: usize| last_value(&rows[..count], |row| row.bytes_received);
        assert_eq!((last(6), last(1), last(0)), (Some((2, 5)), Some((0, 1)), None));
    }

    #[test]
    fn the_direction_that_drops_everything_is_named() {
        let forward = evidence(false).unwrap();
        assert!(
            forward.starts_with("no data arrived on h2 after 3.0 s, although h1 sent 1 MB after that"),
            "{forward}"
        );
        assert!(forward.contains("the path from h1 to h2 carries nothing"), "{forward}");
        let reverse = evidence(true).unwrap();
        assert!(reverse.starts_with("no acknowledgement arrived on h1 after 3.0 s"), "{reverse}");
        assert!(reverse.contains("the path from h2 to h1 carries nothing"), "{reverse}");
    }
}
