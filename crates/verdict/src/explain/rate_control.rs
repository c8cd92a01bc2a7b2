//! Explanations of the limits of UDT and Tsunami that differ from those of TCP.

use schema::FlowSummary;

use super::{Explanation, Facts};
use crate::FlowContext;

/// The remedy for losses of a scenario's flow, and of a file transfer.
const FEWER_LOSSES_OF_FLOW: &str = "if a queue on the path overflows, lengthen it; if none does, find the link that loses packets, or set tolerate_loss \
                                    (udt) or error_threshold (tsunami) above its loss";
const FEWER_LOSSES_OF_TRANSFER: &str = "if a queue on the path overflows, lengthen it; if none does, find the link that loses packets, or send with \
                                        --protocol udt --tolerate-loss above its loss";

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

/// Losses lowered the rate.
pub(super) fn loss(facts: &Facts, context: &FlowContext, summary: &FlowSummary) -> Explanation {
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
