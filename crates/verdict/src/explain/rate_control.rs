//! Explanations of the limits of UDT and Tsunami that differ from those of TCP.

use schema::{FlowSample, FlowSummary};
use units::{BitRate, three_digits};

use super::{
    Explanation, Facts,
    host::{self, LESS_WORK, busiest_host},
    stopped_path,
};
use crate::FlowContext;

/// The remedy for losses of a scenario's flow, and of a file transfer.
const FEWER_LOSSES_OF_FLOW: &str = "if a queue on the path overflows, lengthen it; if none does, find the link that loses packets, or set tolerate_loss \
                                    (udt) or error_threshold (tsunami) above its loss";
const FEWER_LOSSES_OF_TRANSFER: &str = "if a queue on the path overflows, lengthen it; if none does, find the link that loses packets, or send with \
                                        --protocol udt --tolerate-loss above its loss";

/// A processor or thread that was busy for less of the time did not limit the flow.
const BUSY: f64 = 0.9;

/// The receiver's window is full.
pub(super) fn receive_window(facts: &Facts, context: &FlowContext) -> Explanation {
    let evidence = format!(
        "{} the data in flight ({}) filled the buffer of the receiver on {} ({})",
        facts.share, facts.in_flight, context.to, facts.window
    );
    let remedy = "raise the flow's receive_buffer to somewhat more than the bandwidth-delay product";
    // The buffer of a file transfer has no option.
    let remedy = context.file_waits.is_none().then(|| remedy.into());
    Explanation { evidence: vec![evidence], remedy, ..Explanation::default() }
}

/// A host is busy, or the sender's thread did not run when packets were due.
pub(super) fn host_cpu(facts: &Facts, rows: &[&FlowSample], context: &FlowContext) -> Explanation {
    let is_busy = busiest_host(rows, context).is_some_and(|(_, share)| share >= BUSY);
    let Some(requested) = context.pacing_bps.filter(|_| !is_busy) else {
        return host::host_cpu(facts, rows, context);
    };
    let sent = || rows.iter().filter_map(|row| Some((row.time_us, row.bytes_sent?)));
    let rate = sent().next().zip(sent().next_back()).filter(|(first, last)| last.0 > first.0);
    let rate = rate.map(|(first, last)| (last.1 - first.1) as f64 * 8e6 / (last.0 - first.0) as f64);
    let on_average =
        rate.map_or(String::new(), |rate| format!("; it sent at {} on average", BitRate(three_digits(rate))));
    let evidence = format!(
        "{} the sender on {} did not send at its requested rate of {}, although no window was full: its thread did not run when packets \
         were due{on_average}",
        facts.share,
        context.from,
        BitRate(three_digits(requested))
    );
    let mut evidence = vec![evidence];
    evidence.extend(context.host_use.iter().cloned());
    Explanation { evidence, remedy: Some(LESS_WORK.into()), ..Explanation::default() }
}

/// Losses lowered the rate.
pub(super) fn loss(
    facts: &Facts,
    rows: &[&FlowSample],
    context: &FlowContext,
    summary: &FlowSummary,
) -> Explanation {
    if let Some(stopped) = stopped_path::explain(rows, context) {
        return stopped;
    }
    let rate = facts.pacing.map_or(String::new(), |rate| format!(" (to {rate} on average)"));
    let mut evidence = vec![format!(
        "{} losses had lowered the sending rate{rate} below what the path carries",
        facts.share
    )];
    if let (Some(retransmitted), Some(sent)) =
        (summary.retransmitted_segs, summary.sent_segs.filter(|sent| *sent > 0))
    {
        let percent = retransmitted as f64 / sent as f64 * 100.0;
        evidence.push(format!("{retransmitted} of {sent} packets were retransmitted ({percent:.3} %)"));
    }
    let remedy = match context.file_waits {
        Some(_) => FEWER_LOSSES_OF_TRANSFER,
        None => FEWER_LOSSES_OF_FLOW,
    };
    Explanation { evidence, remedy: Some(remedy.into()), ..Explanation::default() }
}

/// The rate still grows.
pub(super) fn slow_start(facts: &Facts, summary: &FlowSummary) -> Explanation {
    let mut evidence = vec![format!("{} the sending rate was still growing, without any loss", facts.share)];
    if summary.steady_from_s.is_none() {
        evidence.push("the flow ended before its throughput became steady".into());
    }
    let remedy = "measure for longer, or transfer more data per connection";
    Explanation { evidence, remedy: Some(remedy.into()), ..Explanation::default() }
}
