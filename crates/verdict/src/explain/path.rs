//! A full path in words.

use schema::FlowSummary;
use units::{BitRate, Time, three_digits};

use super::{Explanation, Facts};
use crate::{FlowContext, PathLink};

/// A queue is too long where the median round-trip time is at least this multiple of the minimum, and this
/// much longer.
const BLOATED_RTT_RATIO: f64 = 3.0;
const BLOATED_RTT_EXCESS_US: f64 = 20_000.0;

pub(super) fn path_rate(facts: &Facts, context: &FlowContext, summary: &FlowSummary) -> Explanation {
    if let Some(link) = &context.full_ack_link {
        return full_of_acks(facts, link, context);
    }
    let narrowest = context.path.iter().min_by(|a, b| a.rate_bps.total_cmp(&b.rate_bps));
    let mut evidence = vec![match narrowest {
        Some(link) => {
            format!("{} link {} ({}) was full", facts.share, link.name, BitRate(three_digits(link.rate_bps)))
        }
        None => format!("{} the flow reached the full rate of the path", facts.share),
    }];
    evidence.extend(facts.queue.map(|(min, mean)| {
        format!("the path had a standing queue: the round-trip time was {mean}, and at least {min}")
    }));
    if let (Some(limit), Some(got)) = (summary.wire_limit_bps, summary.steady_goodput_bps) {
        evidence.push(format!(
            "the goodput was {:.1} % of the {} that the path carries without headers",
            got / limit * 100.0,
            BitRate(three_digits(limit))
        ));
    }
    let bloat = bufferbloat(summary);
    let remedy = bloat.is_some().then(|| {
        let link = narrowest.map_or("the slowest link".into(), |link| format!("link {}", link.name));
        format!("run fq_codel or cake at {link}, or shorten its queue: other flows wait in it too")
    });
    evidence.extend(bloat);
    Explanation { evidence, remedy, ..Explanation::default() }
}

fn full_of_acks(facts: &Facts, link: &PathLink, context: &FlowContext) -> Explanation {
    let rate = BitRate(three_digits(link.rate_bps));
    let evidence = format!(
        "{} link {} ({rate}) was full in the direction to {}, which carries the ACKs",
        facts.share, link.name, context.from
    );
    let remedy = format!(
        "raise the rate of link {} in the direction to {}, or send fewer other packets there",
        link.name, context.from
    );
    Explanation { evidence: vec![evidence], remedy: Some(remedy), ..Explanation::default() }
}

/// States how much a queue that never drains adds to the round-trip time, if that is a lot.
fn bufferbloat(summary: &FlowSummary) -> Option<String> {
    let (min, median) = (summary.min_rtt_us?, summary.median_rtt_us?);
    let is_bloated = median >= BLOATED_RTT_RATIO * min && median - min >= BLOATED_RTT_EXCESS_US;
    let time = |us: f64| Time::from_micros(three_digits(us));
    is_bloated.then(|| {
        format!(
            "the median round-trip time was {}, and {} without a queue: the queue before the slowest link is too long \
             (bufferbloat)",
            time(median),
            time(min)
        )
    })
}

#[cfg(test)]
mod tests {
    use schema::Cause;

    use super::*;
    use crate::explain::{explain, tests::lab8};
    use crate::{Buffer, StartOfFlow};

    #[test]
    fn a_queue_that_multiplies_the_round_trip_time_is_called_bufferbloat() {
        let (context, summary) = lab8(Buffer::Unknown);
        let explained = |median: f64| {
            let mut summary = FlowSummary {
                verdict: Some(Cause::PathRate),
                median_rtt_us: Some(median),
                ..summary.clone()
            };
            explain(&[], &StartOfFlow::default(), &context, &mut summary);
            (summary.evidence.join("; "), summary.remedy)
        };
        let (evidence, remedy) = explained(310_000.0);
        assert!(evidence.contains("310 ms, and 20 ms without a queue"), "{evidence}");
        assert!(remedy.unwrap().starts_with("run fq_codel or cake at link s1-s2"));
        // One bandwidth-delay product of queue, as recommended.
        let (evidence, remedy) = explained(40_000.0);
        assert!(!evidence.contains("bufferbloat") && remedy.is_none(), "{evidence}");
    }
}
