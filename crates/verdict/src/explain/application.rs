//! A writer or reader that is slower than the path, in words.

use schema::FlowSample;
use units::{BitRate, three_digits};

use super::{Explanation, Facts};
use crate::{FileWait, FlowContext, Generator, main_file_wait, series::mean};

/// The remedy for Nagle's algorithm with small writes.
const WITHOUT_NAGLE: &str = "set TCP_NODELAY in the sending program, or write whole messages at once";
/// Minimum number of segments from which their mean size is meaningful.
const MIN_SMALL_SEGMENTS: f64 = 20.0;
/// Maximum mean payload of small segments, as a share of the MSS.
const MAX_SMALL_SEGMENT: f64 = 0.5;
/// Maximum mean number of segments in flight where each waits for the one before.
const MAX_WAITING_SEGMENTS: f64 = 1.5;

pub(super) fn explain(facts: &Facts, rows: &[&FlowSample], context: &FlowContext) -> Explanation {
    if let Some(wait) = main_file_wait(rows.iter().copied(), context) {
        return file_wait(facts, wait, context);
    }
    let is_reader = facts.unread.0 >= facts.window.0 / 2 && facts.unread.0 > 0;
    let generator = context.generator.as_ref();
    if let Some((evidence, remedy)) =
        generator.and_then(|generator| requested_limit(facts, context, generator, is_reader))
    {
        return Explanation { evidence: vec![evidence], remedy, ..Explanation::default() };
    }
    let evidence = if is_reader {
        format!(
            "{} the reader on {} left {} unread, which kept the window closed",
            facts.share, context.to, facts.unread
        )
    } else {
        format!(
            "{} the writer on {} had written no more data, and its send buffer was not full",
            facts.share, context.from
        )
    };
    let small_writes = small_writes(rows).filter(|_| !is_reader);
    let remedy = small_writes.is_some().then(|| WITHOUT_NAGLE.to_owned());
    Explanation {
        evidence: [vec![evidence], small_writes.into_iter().collect()].concat(),
        remedy,
        ..Explanation::default()
    }
}

/// An end of a file transfer that waited for something other than the network.
fn file_wait(facts: &Facts, wait: FileWait, context: &FlowContext) -> Explanation {
    let (share, from, to) = (&facts.share, &context.from, &context.to);
    let (evidence, remedy) = match wait {
        FileWait::Reading => (
            format!("{share} the sender waited until its file was read from the disk of {from}"),
            format!("a faster disk or file system on {from}"),
        ),
        FileWait::Writing => (
            format!("{share} the receiver waited until its file was written to the disk of {to}"),
            format!("a faster disk or file system on {to}"),
        ),
        FileWait::Replies => (
            format!(
                "{share} the sender waited for the receiver's reply: each file takes two round trips, and the time until it is stored"
            ),
            "send one archive instead of many files".into(),
        ),
    };
    Explanation { evidence: vec![evidence], remedy: Some(remedy), ..Explanation::default() }
}

/// The signs of small writes that wait for each other's ACK: Nagle's algorithm (RFC 896) allows one small
/// segment in flight.
fn small_writes(rows: &[&FlowSample]) -> Option<String> {
    let (first, last) = (rows.first()?, rows.last()?);
    let grown = |value: fn(&FlowSample) -> Option<i64>| Some((value(last)? - value(first)?) as f64);
    let segments = grown(|row| row.data_segs_out_segs).filter(|segments| *segments >= MIN_SMALL_SEGMENTS)?;
    let payload = grown(|row| row.bytes_acked)? / segments;
    let mss = last.snd_mss_bytes? as f64;
    let in_flight = mean(rows.iter().filter_map(|row| row.unacked_segs).map(|segments| segments as f64))?;
    let is_small = payload < MAX_SMALL_SEGMENT * mss && in_flight <= MAX_WAITING_SEGMENTS;
    is_small.then(|| {
        format!(
            "segments carried {payload:.0} of {mss:.0} bytes, and {in_flight:.1} were in flight: small writes, each of which may wait for the \
             ACK of the one before (Nagle's algorithm and delayed ACKs)"
        )
    })
}

/// Longfat's own traffic generator is slower than the path only on request: names the requested limit and how
/// to remove it.
fn requested_limit(
    facts: &Facts,
    context: &FlowContext,
    generator: &Generator,
    is_reader: bool,
) -> Option<(String, Option<String>)> {
    let rate = |bps: f64| BitRate(three_digits(bps));
    let remove = |key: &str| Some(format!("remove the flow's {key}, or raise it"));
    let share = &facts.share;
    Some(match (generator.write_bps, generator.read_bps) {
        (_, Some(bps)) if is_reader || generator.write_bps.is_none() => (
            format!(
                "{share} the reader on {} read at its requested rate of {} (read_rate)",
                context.to,
                rate(bps)
            ),
            remove("read_rate"),
        ),
        (Some(bps), _) if !is_reader => (
            format!(
                "{share} the writer on {} wrote at its requested rate of {} (write_rate)",
                context.from,
                rate(bps)
            ),
            remove("write_rate"),
        ),
        _ if generator.reader_pauses && is_reader => {
            (format!("{share} the reader on {} paused as requested (reader_stops)", context.to), None)
        }
        _ if generator.uses_file => {
            (format!("{share} the file could not be read or written any faster"), None)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use schema::Cause;

    use super::*;
    use crate::summarize::tests::{judged, row};

    #[test]
    fn small_writes_that_wait_are_named() {
        let rows = |payload: i64| -> Vec<FlowSample> {
            (0..400)
                .map(|i| FlowSample {
                    unacked_segs: Some(1),
                    data_segs_out_segs: Some(i),
                    bytes_acked: Some(i * payload),
                    ..row(i, Cause::Application)
                })
                .collect()
        };
        let summary = judged(&rows(100), FlowContext::default());
        assert!(summary.evidence.join("\n").contains("segments carried 100 of 1000 bytes"), "{summary:?}");
        assert!(summary.remedy.unwrap().contains("TCP_NODELAY"));
        assert_eq!(judged(&rows(1000), FlowContext::default()).remedy, None);
    }
}
