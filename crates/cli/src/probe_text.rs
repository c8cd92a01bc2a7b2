//! The sentences of `longfat probe`, and its plot.

use probe::{
    AvailableAnswer, BufferAnswer, BufferKind, CapacityAnswer, DelayAnswer, HopsAnswer, Interval, Load,
    MtuAnswer, Validity,
};
use units::{BitRate, group_digits};
use view::{
    Chart, ChartCurve, ChartPoint, ChartValue,
    number::{bytes, rate, seconds},
};

/// Points of a plot at most: a pixel has no room for more.
const MOST_POINTS: usize = 900;

pub fn capacity(answer: &CapacityAnswer) -> String {
    let Some(found) = answer.capacity_bps else { return "The capacity is not known.".into() };
    let mut text = format!(
        "The narrowest link carries {} of IP in packets of {} bytes ({}).",
        rate(found.value),
        answer.packet_bytes,
        range(found)
    );
    if let Some(bucket) = answer.bucket_bytes {
        let peak = answer.peak_bps.map_or(String::new(), |peak| format!(" at {}", rate(peak)));
        text += &format!(" It is a token bucket's rate: the first {} pass{peak}.", bytes(bucket));
    }
    text
}

pub fn available(answer: &AvailableAnswer) -> String {
    let Some(found) = answer.available_bps else { return "What is available is not known.".into() };
    let capacity = answer.capacity.as_ref().and_then(|known| known.capacity_bps);
    let of = capacity.map_or(String::new(), |capacity| format!(" of a capacity of {}", rate(capacity.value)));
    format!("Other traffic leaves {}{of} ({}).", rate(found.value), range(found))
}

pub fn buffer(answer: &BufferAnswer) -> String {
    let kind = match answer.kind {
        BufferKind::DropTailBytes => "The bottleneck's queue drops at its tail and counts bytes.",
        BufferKind::DropTailPackets => "The bottleneck's queue drops at its tail and counts packets.",
        BufferKind::Shaper => "The bottleneck is a shaper: a token bucket with a queue.",
        BufferKind::Policer => "The bottleneck is a policer: a token bucket without a queue.",
        BufferKind::ActiveQueue => {
            "The bottleneck drops packets before its queue is full: active queue management."
        }
        BufferKind::Host => "A host dropped packets, not the path.",
        BufferKind::Unknown => "The bottleneck's queue was not filled.",
    };
    let mut text = kind.to_string();
    if let (Some(found), Some(packets)) = (answer.buffer_bytes, answer.buffer_packets) {
        let what = if answer.kind == BufferKind::Policer { "The bucket" } else { "It" };
        text += &format!(
            " {what} holds {} ({} to {}): {packets:.0} packets of {} bytes.",
            bytes(found.value),
            bytes(found.low),
            bytes(found.high),
            answer.packet_bytes
        );
    }
    if let Some(delay) = answer.full_delay_ms.filter(|_| answer.kind != BufferKind::Policer) {
        text += &format!(" A full queue delays packets by {}", seconds(delay / 1e3));
        text +=
            &answer.capacity.capacity_bps.map_or(".".into(), |found| format!(" at {}.", rate(found.value)));
    }
    text
}

/// Queueing delay against the number of the packet, with the lost ones below.
pub fn buffer_plot(answer: &BufferAnswer, host: &str) -> String {
    let step = answer.plot.len().div_ceil(MOST_POINTS).max(1);
    let shown: Vec<&(usize, Option<f64>)> = answer.plot.iter().step_by(step).collect();
    let values = shown
        .iter()
        .map(|(number, _)| ChartValue { text: group_digits(*number as u64), number: Some(*number as f64) })
        .collect();
    let points = |keep: &dyn Fn(&Option<f64>) -> Option<f64>| {
        let all = shown.iter().enumerate();
        all.filter_map(|(value, (_, delay))| Some(ChartPoint { value, height: keep(delay)?, bar: None }))
            .collect()
    };
    let first_lost = answer.plot.iter().find(|(_, delay)| delay.is_none()).map(|(number, _)| *number as f64);
    view::chart(&Chart {
        title: format!("A train that fills the queue on the way to {host}"),
        across: "packet".into(),
        values,
        up: "queueing delay".into(),
        unit: "s".into(),
        curves: vec![ChartCurve {
            label: "delay; the line marks the first loss".into(),
            points: points(&|delay| delay.map(|ms| ms / 1e3)),
            mark: first_lost,
        }],
    })
}

pub fn hops(answer: &HopsAnswer) -> String {
    let heading =
        format!("{:>3}  {:<24} {:>10} {:<36} {:>10}", "HOP", "ADDRESS", "RTT", "LINK BEFORE IT", "TRAIN");
    let mut lines = vec![heading];
    for hop in &answer.hops {
        lines.push(format!(
            "{:>3}  {:<24} {:>10} {:<36} {:>10}",
            hop.hop,
            hop.address.map_or("*".into(), |address| address.to_string()),
            hop.rtt_ms.map_or("-".into(), ms),
            hop.link_bps.map_or("-".into(), |link| hop_rate(link, hop.assumes_equal_directions)),
            hop.train_us.map_or("-".into(), |us| seconds(us / 1e6))
        ));
    }
    let narrowest = match answer.bottleneck {
        Some(hop) => format!("The narrowest link is the one before hop {hop}."),
        None => "Which link is the narrowest is not known.".into(),
    };
    format!("{}\n{narrowest}", lines.join("\n"))
}

pub fn mtu(answer: &MtuAnswer) -> String {
    let Some(mtu) = answer.mtu_bytes else { return "The path's MTU is not known.".into() };
    let hole = match answer.black_hole {
        true => " Larger packets vanish without a word from any router: a black hole.",
        false => "",
    };
    format!("The path takes packets of {mtu} bytes of IP and no larger ones.{hole}")
}

/// What a session's packets were limited to; nothing where the path takes all.
pub fn path_mtu(answer: &MtuAnswer) -> String {
    match answer.mtu_bytes {
        Some(mtu) if answer.black_hole => format!(
            "\nPath MTU: {mtu} bytes of IP. Larger packets are lost and no router reports it: a black hole."
        ),
        Some(mtu) if !answer.told_bytes.is_empty() => {
            format!("\nPath MTU: {mtu} bytes of IP, less than this host's link takes.")
        }
        _ => String::new(),
    }
}

pub fn delay(answer: &DelayAnswer) -> String {
    let mut text = format!("{} of {} packets came back.", answer.sent - answer.lost, answer.sent);
    if let Some([least, median, p95, p99]) = answer.rtt_ms {
        text += &format!(
            "\nRound trip: at least {}, median {}, 95 % within {}, 99 % within {}.",
            ms(least),
            ms(median),
            ms(p95),
            ms(p99)
        );
    }
    for (way, one) in [("There", answer.forward), ("Back", answer.backward)] {
        let Some(one) = one else { continue };
        let [median, p95, p99] = one.variation_ms;
        text += &format!(
            "\n{way}: {} to {} (clocks do not agree; {} if both ways are alike), and above that {} in the median, {} in 95 %, {} in 99 %.",
            ms(one.delay_ms.low),
            ms(one.delay_ms.high),
            ms(one.delay_ms.value),
            ms(median),
            ms(p95),
            ms(p99)
        );
    }
    if let Some(skew) = answer.skew_ppm {
        text += &format!(
            "\nThe other clock is {:.1} ppm faster ({:.1} to {:.1}). Time stamps are exact to {} together.",
            skew.value,
            skew.low,
            skew.high,
            ms(answer.stamp_error_ms)
        );
    }
    text
}

/// A link's rate and interval; ~ where it holds for a link as fast in both directions.
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
    if validity.valid { format!("Valid: {reasons}.") } else { format!("Doubtful: {reasons}.") }
}

pub fn load(load: &Load, max_rate: BitRate) -> String {
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
