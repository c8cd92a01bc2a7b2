//! The sentences of `longfat probe`, and its plot.

use probe::{
    AvailableBandwidthResult, BufferKind, BufferResult, CapacityResult, DelayResult, HopsResult, Interval,
    MtuResult, ProbeLoad, Validity,
};
use units::{BitRate, group_digits};
use view::{
    Chart, ChartCurve, ChartMark, ChartPoint, ChartValue,
    number::{bytes, rate, seconds},
};

use crate::output;

/// Maximum number of points of a plot: about one per pixel.
const MAX_POINTS: usize = 900;

pub fn capacity(result: &CapacityResult) -> String {
    let Some(found) = result.capacity_bps else { return "The capacity is unknown.".into() };
    let mut text = format!(
        "{} {} of IP in packets of {} bytes ({}).",
        qualified_subject(&result.validity, "The capacity of the bottleneck link"),
        rate(found.value),
        result.packet_bytes,
        range(found)
    );
    if let Some(bucket) = result.bucket_bytes {
        let peak = result.peak_bps.map_or(String::new(), |peak| format!(" at {}", rate(peak)));
        text += &format!(" A token bucket limits it: the first {} pass{peak}.", bytes(bucket));
    }
    text
}

pub fn available(result: &AvailableBandwidthResult) -> String {
    let Some(found) = result.available_bps else { return "The available bandwidth is unknown.".into() };
    let capacity = result.capacity.as_ref().and_then(|known| known.capacity_bps);
    let of = capacity.map_or(String::new(), |capacity| format!(" of a capacity of {}", rate(capacity.value)));
    let subject = qualified_subject(&result.validity, "The available bandwidth");
    format!("{subject} {}{of} ({}).", rate(found.value), range(found))
}

/// The beginning of a sentence about a figure: `The capacity is`, or `Inconclusive: the capacity may be`.
fn qualified_subject(validity: &Validity, subject: &str) -> String {
    if validity.valid {
        format!("{subject} is")
    } else {
        format!("Inconclusive: {} may be", lowercase_first(subject))
    }
}

fn lowercase_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_lowercase().chain(chars).collect())
}

pub fn buffer(result: &BufferResult) -> String {
    let kind = match result.kind {
        BufferKind::DropTailBytes => "The bottleneck has a drop-tail queue that counts bytes.",
        BufferKind::DropTailPackets => "The bottleneck has a drop-tail queue that counts packets.",
        BufferKind::Shaper => "The bottleneck is a shaper: a token bucket with a queue.",
        BufferKind::Policer => "The bottleneck is a policer: a token bucket without a queue.",
        BufferKind::ActiveQueue => {
            "The bottleneck drops packets before its queue is full: active queue management."
        }
        BufferKind::Host => "A host dropped packets, not the path.",
        BufferKind::Unknown => "The bottleneck's queue was not filled.",
    };
    let mut text = match result.validity.valid || result.kind == BufferKind::Unknown {
        true => kind.to_string(),
        false => format!("Inconclusive; most likely: {}", lowercase_first(kind)),
    };
    if let (Some(found), Some(packets)) = (result.buffer_bytes, result.buffer_packets) {
        let what = if result.kind == BufferKind::Policer { "The bucket" } else { "It" };
        text += &format!(
            " {what} holds {} ({} to {}): {packets:.0} packets of {} bytes.",
            bytes(found.value),
            bytes(found.low),
            bytes(found.high),
            result.packet_bytes
        );
    }
    if let Some(delay) = result.full_delay_ms.filter(|_| result.kind != BufferKind::Policer) {
        text += &format!(" A full queue delays packets by {}", seconds(delay / 1e3));
        text +=
            &result.capacity.capacity_bps.map_or(".".into(), |found| format!(" at {}.", rate(found.value)));
    }
    text
}

/// Plots the queueing delay of each packet of the last train that arrived, and marks the first lost one.
pub fn buffer_plot(result: &BufferResult, host: &str) -> String {
    let step = result.plot.len().div_ceil(MAX_POINTS).max(1);
    let shown: Vec<&(usize, Option<f64>)> = result.plot.iter().step_by(step).collect();
    let values = shown
        .iter()
        .map(|(number, _)| ChartValue { text: group_digits(*number as u64), number: Some(*number as f64) })
        .collect();
    let delays = shown.iter().enumerate();
    let points = delays
        .filter_map(|(value, (_, delay_ms))| {
            Some(ChartPoint { value, height: (*delay_ms)? / 1e3, bar: None })
        })
        .collect();
    let first_lost = result.plot.iter().find(|(_, delay)| delay.is_none()).map(|(number, _)| *number as f64);
    view::chart(&Chart {
        title: format!("A train that fills the queue on the path to {host}"),
        x_label: "Packet of the train".into(),
        values,
        y_label: "Queueing delay".into(),
        unit: "s".into(),
        bars: String::new(),
        curves: vec![ChartCurve {
            label: String::new(),
            points,
            mark: first_lost.map(|at| ChartMark { at, is_on_curve: false, label: "first loss".into() }),
        }],
    })
}

pub fn hops(result: &HopsResult) -> String {
    let mut rows = vec![["HOP", "ADDRESS", "RTT", "LINK BEFORE IT", "TRAIN"].map(String::from).to_vec()];
    rows.extend(result.hops.iter().map(|hop| {
        vec![
            hop.hop.to_string(),
            hop.address.map_or("*".into(), |address| address.to_string()),
            hop.rtt_ms.map_or("-".into(), ms),
            hop.link_bps.map_or("-".into(), |link| hop_rate(link, hop.assumes_equal_directions)),
            hop.train_us.map_or("-".into(), |us| seconds(us / 1e6)),
        ]
    }));
    let table = view::table::fitted(rows, &[true, false, true, false, true], output::width(), &["TRAIN"]);
    let narrowest = match result.bottleneck {
        Some(hop) => {
            format!("{} the link before hop {hop}.", qualified_subject(&result.validity, "The bottleneck"))
        }
        None => "The bottleneck link is unknown.".into(),
    };
    format!("{table}{narrowest}")
}

pub fn mtu(result: &MtuResult) -> String {
    let Some(mtu) = result.mtu_bytes else { return "The path MTU is unknown.".into() };
    let hole = match result.black_hole {
        true => " Larger packets are lost without an ICMP error: an MTU black hole.",
        false => "",
    };
    match mtu < super::MAX_MTU {
        true => format!("The path MTU is {mtu} bytes of IP.{hole}"),
        false => format!("The path MTU is at least {mtu} bytes of IP; larger packets are not sent."),
    }
}

/// The path MTU if it limited the packets of the session; otherwise nothing.
pub fn path_mtu(result: &MtuResult) -> String {
    match result.mtu_bytes {
        Some(mtu) if result.black_hole => format!(
            "\nPath MTU: {mtu} bytes of IP. Larger packets are lost without an ICMP error: an MTU black hole."
        ),
        Some(mtu) if !result.reported_bytes.is_empty() => {
            format!("\nPath MTU: {mtu} bytes of IP, less than the MTU of this host's link.")
        }
        _ => String::new(),
    }
}

pub fn delay(result: &DelayResult) -> String {
    let arrived = |sent: usize, lost: usize| format!("{} of {sent} packets", sent.saturating_sub(lost));
    let mut text = match result.each_direction {
        None => format!("{} were reflected.", arrived(result.sent, result.lost)),
        Some([forward, backward]) if result.rtt_ms.is_some() => format!(
            "{} were reflected; lost in the forward direction: {}, backward: {}.",
            arrived(result.sent, result.lost),
            forward.lost,
            backward.lost
        ),
        Some([forward, backward]) => format!(
            "Arrived in the forward direction: {}; backward: {}.",
            arrived(forward.sent, forward.lost),
            arrived(backward.sent, backward.lost)
        ),
    };
    if let Some([min, median, p95, p99]) = result.rtt_ms {
        text += &format!(
            "\nRound-trip time: min {}, median {}, p95 {}, p99 {}.",
            ms(min),
            ms(median),
            ms(p95),
            ms(p99)
        );
    }
    for (direction, one) in [("Forward", result.forward), ("Backward", result.backward)] {
        let Some(one) = one else { continue };
        let [median, p95, p99] = one.variation_ms;
        let delay = match one.delay_ms.high.is_finite() {
            true => format!(
                "{} to {} (the clocks are not synchronized; {} if both directions are equal)",
                ms(one.delay_ms.low),
                ms(one.delay_ms.high),
                ms(one.delay_ms.value)
            ),
            false => "unknown delay, because no packet arrived in the other direction".into(),
        };
        text += &format!(
            "\n{direction}: {delay}; variation above the minimum: median {}, p95 {}, p99 {}.",
            ms(median),
            ms(p95),
            ms(p99)
        );
    }
    if let Some(skew) = result.skew_ppm {
        text += &format!(
            "\nThe other clock is {:.1} ppm faster ({:.1} to {:.1}). The combined error of the timestamps is {}.",
            skew.value,
            skew.low,
            skew.high,
            ms(result.stamp_error_ms)
        );
    }
    text
}

/// A link's rate and interval; ~ if it assumes equal rates in both directions.
fn hop_rate(link: Interval, assumed: bool) -> String {
    let mark = if assumed { "~" } else { "" };
    match link.high.is_finite() {
        true => format!("{mark}{} ({})", rate(link.value), range(link)),
        false => format!("{mark}{} (at least {})", rate(link.value), rate(link.low)),
    }
}

fn ms(ms: f64) -> String {
    seconds(ms / 1e3)
}

pub fn validity(validity: &Validity) -> String {
    let reasons = validity.reasons.join("; ");
    if validity.valid { format!("Valid: {reasons}.") } else { format!("Why it is inconclusive: {reasons}.") }
}

pub fn load(load: &ProbeLoad, max_rate: BitRate) -> String {
    format!(
        "Load: {} packets, {} in {:.1} s; at most {} within a second ({max_rate} allowed).",
        group_digits(load.packets),
        bytes(load.bytes as f64),
        load.duration_s,
        rate(load.highest_second_bps)
    )
}

fn range(of: Interval) -> String {
    format!("{} to {}", rate(of.low), rate(of.high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_size_that_is_tried_is_not_stated_as_the_path_mtu() {
        let of = |bytes| {
            let mut search = probe::MtuSearch::between(576, bytes);
            while search.next_size().is_some() {
                search.add_outcome(probe::MtuOutcome::Replied);
            }
            mtu(&search.result())
        };
        assert_eq!(of(1500), "The path MTU is 1500 bytes of IP.");
        assert_eq!(
            of(super::super::MAX_MTU),
            "The path MTU is at least 9216 bytes of IP; larger packets are not sent."
        );
    }

    #[test]
    fn an_inconclusive_figure_is_printed_as_inconclusive() {
        let validity = |valid| Validity { valid, reasons: vec!["the fleets disagree".into()] };
        assert_eq!(qualified_subject(&validity(true), "The capacity"), "The capacity is");
        assert_eq!(qualified_subject(&validity(false), "The capacity"), "Inconclusive: the capacity may be");
        assert_eq!(super::validity(&validity(false)), "Why it is inconclusive: the fleets disagree.");
    }
}
