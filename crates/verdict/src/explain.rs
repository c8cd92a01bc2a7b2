//! The verdict in words: the evidence, and the exact setting where the limit is a setting.

mod application;
mod buffers;
mod own_device;
mod rate_control;
mod stopped_path;

use schema::{Cause, Fix, FixCommand, FlowSample, FlowSummary};
use units::{BitRate, Bytes, Time, three_digits};

use crate::{
    Buffer, FlowContext, HostLoad, LoadKind, PathLink, StartOfFlow, second_limit::REDUCTIONS, series::mean,
};

/// The remedy for a full bus, which each byte crosses once.
const FASTER_BUS: &str = "a faster bus: a card in a wider or faster slot";
/// The remedy for a busy thread of a file transfer.
const FASTER_THREAD: &str = "end other programs on that host, or use a faster processor; transfers of several files at the same time use \
                             several processors";
/// The remedy for a busy host of unknown cause.
const LESS_WORK: &str = "end other programs on the busier host; fewer packets for the same bytes (an MTU of 9000, TSO and GRO: \
                         longfat tune checks them); several streams, which use several processors";
/// The remedy for losses on an unknown link.
const FEWER_LOSSES: &str = "if a queue on the path overflows, lengthen it or pace the flow; if none does, find the link that loses \
                            packets (cable, optics, radio, duplex mismatch); bbr slows down less for each loss; longfat diagnose \
                            distinguishes random loss from a short queue";
/// The remedy for a slow-start threshold that no loss has set.
const NO_CACHED_SSTHRESH: &str = "an earlier connection's threshold was cached, or a route sets it: on the sending host `ip tcp_metrics flush` and \
                                  sysctl -w net.ipv4.tcp_no_ssthresh_metrics_save=1; remove ssthresh from `ip route`";
/// The initial window of Linux since 2.6.39 (RFC 6928), segments.
const USUAL_INITIAL_WINDOW_SEGS: i64 = 10;
/// The remedy for a high cost per byte.
const FEWER_PACKETS: &str = "larger frames (mtu), super-packets (tso, gro) or moderated interrupts \
                             (rx_delay, tx_delay): fewer packets and interrupts for the same bytes";
/// A queue is too long where the median round-trip time is at least this multiple of the minimum, and this much longer.
const BLOATED_RTT_RATIO: f64 = 3.0;
const BLOATED_RTT_EXCESS_US: f64 = 20_000.0;

/// Fills in `evidence`, `remedy` and `fixes` of a summary whose figures and verdict are known. `rows` are the samples
/// that the verdict is based on.
pub(crate) fn explain(
    rows: &[&FlowSample],
    start: &StartOfFlow,
    context: &FlowContext,
    summary: &mut FlowSummary,
) {
    let Some(cause) = summary.verdict else { return };
    let share = summary
        .limited_steady
        .largest()
        .map_or(summary.limited.share(cause), |c| summary.limited_steady.share(c));
    let facts = Facts::new(rows, context, summary, share);
    let Explanation { evidence, remedy, fixes } = match cause {
        Cause::HostCpu if context.is_rate_controlled => rate_control::host_cpu(&facts, rows, context),
        Cause::ReceiveWindow if context.is_rate_controlled => rate_control::receive_window(&facts, context),
        Cause::Loss if context.is_rate_controlled => rate_control::loss(&facts, rows, context, summary),
        Cause::SlowStart if context.is_rate_controlled => rate_control::slow_start(&facts, summary),
        Cause::ReceiveWindow => receive_window(&facts, rows, context, summary),
        Cause::SendBuffer => send_buffer(&facts, rows, context, summary),
        Cause::PathRate => path_rate(&facts, context, summary),
        Cause::Loss => loss(&facts, rows, context, summary),
        Cause::EcnMarks => ecn_marks(&facts, rows),
        Cause::LocalQueue => own_device::local_queue(&facts, rows, context, summary),
        Cause::SlowStart => slow_start(&facts, start, summary),
        Cause::Application => application::explain(&facts, rows, context),
        Cause::Pacing => pacing(&facts, context),
        Cause::HostCpu => host_cpu(&facts, rows, context),
    };
    summary.evidence = second_limit(cause, summary, context).into_iter().chain(evidence).collect();
    summary.remedy = remedy;
    summary.fixes = fixes;
}

/// Names the second limit, if there is one, and states that removing only one of the two gains little.
fn second_limit(cause: Cause, summary: &FlowSummary, context: &FlowContext) -> Option<String> {
    let also = summary.verdict_also?;
    let name = |cause: Cause| match cause {
        Cause::ReceiveWindow => format!("the receive window of {}", context.to),
        Cause::SendBuffer => format!("the send buffer of {}", context.from),
        Cause::PathRate => "the rate of the path".into(),
        Cause::Application => "the application".into(),
        Cause::Pacing => "the pacing rate".into(),
        Cause::HostCpu => "the hosts' processors".into(),
        Cause::Loss => "losses".into(),
        Cause::EcnMarks => "ECN marks".into(),
        other => other.name().replace('_', " "),
    };
    let limited =
        if summary.limited_steady.largest().is_some() { &summary.limited_steady } else { &summary.limited };
    let share = |cause| limited.share(cause) * 100.0;
    let shares = match share(also) >= 1.0 {
        true => format!("{:.0} and {:.0} % of the samples", share(cause), share(also)),
        false => "the second is less than 15 % larger".into(),
    };
    let named = [cause, also];
    if let Some(reduction) = named.iter().find(|cause| REDUCTIONS.contains(cause)) {
        return Some(format!(
            "two limits take turns: {} reduced the congestion window, and it grew until the path was full again ({shares})",
            name(*reduction)
        ));
    }
    Some(format!(
        "two limits apply: {} and {} ({shares}); removing only one gains little",
        name(cause),
        name(also)
    ))
}

/// Means over the samples, ready to be printed.
struct Facts {
    share: String,
    in_flight: Bytes,
    window: Bytes,
    send_buffer: Bytes,
    queued: Bytes,
    unread: Bytes,
    pacing: Option<BitRate>,
    /// On a path that is not described: the minimum and the mean round-trip time, where they differ.
    queue: Option<(Time, Time)>,
    kernel_counters: Option<String>,
}

impl Facts {
    fn new(rows: &[&FlowSample], context: &FlowContext, summary: &FlowSummary, share: f64) -> Self {
        let bytes = |value: fn(&FlowSample) -> Option<i64>| {
            rounded(mean(rows.iter().filter_map(|r| value(r)).map(|v| v as f64)).unwrap_or(0.0))
        };
        let settled = summary.steady_from_s.map_or(String::new(), |s| format!(" after {s:.1} s"));
        Facts {
            share: format!("in {:.0} % of the samples{settled}", share * 100.0),
            in_flight: bytes(|r| Some(r.unacked_segs? * r.snd_mss_bytes?)),
            window: bytes(|r| r.snd_wnd_bytes),
            send_buffer: bytes(|r| r.sndbuf_bytes),
            queued: bytes(|r| r.wmem_queued_bytes),
            unread: bytes(|r| r.rcv_queue_bytes),
            pacing: mean(rows.iter().filter_map(|r| r.pacing_rate_bps).map(|v| v as f64))
                .map(|bps| BitRate(three_digits(bps))),
            queue: standing_queue(rows).filter(|_| context.unknown_path),
            kernel_counters: kernel_counters(rows),
        }
    }
}

/// The minimum and the mean round-trip time, where they differ.
fn standing_queue(rows: &[&FlowSample]) -> Option<(Time, Time)> {
    let min = rows.iter().filter_map(|row| row.min_rtt_us).min()?;
    let mean = mean(rows.iter().filter_map(|row| row.srtt_us).map(|us| us as f64))? as i64;
    let time = |us: i64| Time::from_micros(three_digits(us as f64));
    (mean > min).then(|| (time(min), time(mean)))
}

/// A cause in words.
#[derive(Default)]
struct Explanation {
    evidence: Vec<String>,
    remedy: Option<String>,
    fixes: Vec<Fix>,
}

fn ecn_marks(facts: &Facts, rows: &[&FlowSample]) -> Explanation {
    let last = |count: fn(&FlowSample) -> Option<i64>| rows.iter().rev().find_map(|row| count(row));
    let marked = last(|row| row.delivered_ce_segs).unwrap_or(0);
    let of_delivered = last(|row| row.delivered_segs).map_or(String::new(), |count| format!(" of {count}"));
    let evidence = vec![
        format!(
            "{} the congestion window was full ({} in flight), and ECN marks had reduced it",
            facts.share, facts.in_flight
        ),
        format!("{marked}{of_delivered} delivered segments carried a congestion mark (ECN)"),
    ];
    let remedy = "find the queue that marks packets and raise its marking threshold; a congestion control designed for marks \
                  (dctcp, or bbr) slows down less for each";
    Explanation { evidence, remedy: Some(remedy.into()), ..Explanation::default() }
}

fn receive_window(
    facts: &Facts,
    rows: &[&FlowSample],
    context: &FlowContext,
    summary: &FlowSummary,
) -> Explanation {
    let mut evidence = vec![format!(
        "{} the data in flight ({}) filled the window that {} advertises ({})",
        facts.share, facts.in_flight, context.to, facts.window
    )];
    if let Buffer::FlowControl(_) = context.receive_buffer {
        evidence.push(buffer_limit(&context.receive_buffer, "", ""));
    } else if let Some(share) = summary.window_share {
        evidence.push(format!(
            "the kernel of {} advertises {:.0} % of its receive buffer as window; {}",
            context.to,
            share * 100.0,
            buffer_limit(&context.receive_buffer, "net.ipv4.tcp_rmem", "SO_RCVBUF")
        ));
    }
    evidence.extend(window_law(summary));
    evidence.extend(facts.kernel_counters.clone());
    with_larger_buffers(evidence, rows, context, summary)
}

fn send_buffer(
    facts: &Facts,
    rows: &[&FlowSample],
    context: &FlowContext,
    summary: &FlowSummary,
) -> Explanation {
    let mut evidence = vec![
        format!(
            "{} all written data was sent and only {} was in flight, less than the peer's window ({}) and the \
             congestion window, while the send buffer held {} of {}",
            facts.share, facts.in_flight, facts.window, facts.queued, facts.send_buffer
        ),
        format!(
            "the kernel wakes the writer only once the buffer has drained to two thirds, so the data in flight can \
             fall to that; {}",
            buffer_limit(&context.send_buffer, "net.ipv4.tcp_wmem", "SO_SNDBUF")
        ),
    ];
    evidence.extend(window_law(summary));
    evidence.extend(facts.kernel_counters.clone());
    with_larger_buffers(evidence, rows, context, summary)
}

fn path_rate(facts: &Facts, context: &FlowContext, summary: &FlowSummary) -> Explanation {
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

fn loss(facts: &Facts, rows: &[&FlowSample], context: &FlowContext, summary: &FlowSummary) -> Explanation {
    if summary.bytes == Some(0) && summary.retransmitted_segs.is_some_and(|again| again > 0) {
        return nothing_arrived(context, summary);
    }
    if let Some(stopped) = stopped_path::explain(rows, context) {
        return stopped;
    }
    let mut evidence = vec![format!(
        "{} the congestion window was full, and a loss had reduced it below what the path carries",
        facts.share
    )];
    if let (Some(retransmitted), Some(sent)) =
        (summary.retransmitted_segs, summary.sent_segs.filter(|s| *s > 0))
    {
        evidence.push(format!(
            "{retransmitted} of {sent} segments were retransmitted ({:.3} %)",
            retransmitted as f64 / sent as f64 * 100.0
        ));
    }
    Explanation { evidence, remedy: Some(FEWER_LOSSES.into()), ..Explanation::default() }
}

/// The handshake succeeded, and no data arrived: packets of full size are lost.
fn nothing_arrived(context: &FlowContext, summary: &FlowSummary) -> Explanation {
    let evidence = format!(
        "no data arrived, although the connection was established: each of {} segments was lost",
        summary.sent_segs.unwrap_or_default()
    );
    let remedy = format!(
        "probably the path drops packets of full size without an ICMP error (an MTU black hole); longfat probe mtu {} shows which size \
         passes, and sysctl -w net.ipv4.tcp_mtu_probing=1 on {} lets TCP find it",
        context.to, context.from
    );
    Explanation { evidence: vec![evidence], remedy: Some(remedy), ..Explanation::default() }
}

fn slow_start(facts: &Facts, start: &StartOfFlow, summary: &FlowSummary) -> Explanation {
    let mut evidence =
        vec![format!("{} the congestion window was full and still growing, without any loss", facts.share)];
    if summary.steady_from_s.is_none() {
        evidence.push("the flow ended before its throughput became steady".into());
    }
    if let Some(window) = start.initial_window_segs.filter(|window| *window < USUAL_INITIAL_WINDOW_SEGS) {
        evidence.push(format!(
            "the connection began with a window of {window} segments instead of {USUAL_INITIAL_WINDOW_SEGS} (ip route's initcwnd)"
        ));
    }
    if let Some(threshold) = start.ssthresh_segs {
        evidence.push(format!(
            "the slow-start threshold was {threshold} segments from the beginning: above it the window grows by about one segment a round \
             trip"
        ));
        return Explanation { evidence, remedy: Some(NO_CACHED_SSTHRESH.into()), ..Explanation::default() };
    }
    let remedy = "measure for longer, or transfer more data per connection: slow start doubles the rate in each round trip";
    Explanation { evidence, remedy: Some(remedy.into()), ..Explanation::default() }
}

fn pacing(facts: &Facts, context: &FlowContext) -> Explanation {
    let option = match context.pacing_option.as_str() {
        "" => "pacing",
        option => option,
    };
    let requested = context.pacing_bps.map(|bps| BitRate(three_digits(bps)));
    let evidence = match requested {
        Some(requested) if context.generator.is_some() => {
            format!(
                "{} the sender sent at its requested rate of {requested} ({option}), and no window was full",
                facts.share
            )
        }
        _ => {
            let rate = facts.pacing.map_or(String::new(), |rate| format!(" at {rate}"));
            format!("{} data waited for the pacing timer{rate}, and no window was full", facts.share)
        }
    };
    let remedy = requested.map(|_| format!("remove {option}, or raise it"));
    Explanation { evidence: vec![evidence], remedy, ..Explanation::default() }
}

fn host_cpu(facts: &Facts, rows: &[&FlowSample], context: &FlowContext) -> Explanation {
    let limited = || rows.iter().filter(|row| row.limited_by == Some(Cause::HostCpu));
    if let Some((load, share)) = busiest_host(rows, context) {
        let evidence =
            format!("{} the {} was busy {:.0} % of the time", facts.share, load.name, share * 100.0);
        let remedy = match load.kind {
            LoadKind::Processor => FEWER_PACKETS,
            LoadKind::Bus => FASTER_BUS,
            LoadKind::Thread => FASTER_THREAD,
        };
        return Explanation {
            evidence: vec![evidence],
            remedy: Some(remedy.into()),
            ..Explanation::default()
        };
    }
    let window = |row: &FlowSample| row.snd_wnd_bytes.unwrap_or(i64::MAX);
    let unread = limited().filter(|row| row.rcv_queue_bytes.unwrap_or(0) > window(row) / 2).count();
    let starved = limited().filter(|row| row.notsent_bytes == Some(0)).count();
    let waiting = limited().count().saturating_sub(unread + starved);
    let why = if unread > starved.max(waiting) {
        format!("the reader on {} left data unread although it never pauses", context.to)
    } else if starved > waiting {
        format!("the sender on {} had nothing left to send although its writer never pauses", context.from)
    } else {
        "data waited although no window, buffer or pacing limited it".into()
    };
    let mut evidence = vec![format!("{} {why}: the hosts did not keep up", facts.share)];
    evidence.extend(context.host_use.iter().cloned());
    Explanation { evidence, remedy: Some(LESS_WORK.into()), ..Explanation::default() }
}

/// The processor or bus that was busy for the largest share of the samples' time, and that share.
fn busiest_host<'a>(rows: &[&FlowSample], context: &'a FlowContext) -> Option<(&'a HostLoad, f64)> {
    busiest_load(context, rows.first()?.time_us, rows.last()?.time_us)
}

/// The load that was busy for the largest share of the time between two instants, and that share.
pub fn busiest_load(context: &FlowContext, from: i64, to: i64) -> Option<(&HostLoad, f64)> {
    let shares = context.host_loads.iter();
    let shares = shares.filter_map(|load| Some((load, load.series().rate(from, to)? * 1e-6)));
    shares.max_by(|a, b| a.1.total_cmp(&b.1))
}

/// The limit of a buffer's size.
fn buffer_limit(buffer: &Buffer, sysctl: &str, option: &str) -> String {
    match buffer {
        Buffer::Unknown => "its limit is unknown".into(),
        Buffer::Tuned([_, _, largest]) => format!("{sysctl} limits the buffer to {}", exact(*largest)),
        Buffer::FlowControl(bytes) => format!("the receiver's flow-control window has {}", exact(*bytes)),
        Buffer::Fixed(bytes) => {
            format!("the application requested {} with {option}, and the kernel doubles that", exact(*bytes))
        }
    }
}

/// The evidence, and the settings of all buffers that limit the flow for a relevant share of its time. Where
/// two alternate, both must be raised: after one is raised, the other still limits.
fn with_larger_buffers(
    evidence: Vec<String>,
    rows: &[&FlowSample],
    context: &FlowContext,
    summary: &FlowSummary,
) -> Explanation {
    let (fixes, advice) = buffers::larger(rows, context, summary);
    let commands = FixCommand::of(&fixes);
    let commands = commands.iter().map(|fix| format!("on {}: {} ({})", fix.hosts, fix.command, fix.reasons));
    let words: Vec<String> = commands.chain(advice).collect();
    Explanation { evidence, remedy: (!words.is_empty()).then(|| words.join("; and ")), fixes }
}

/// The window law as a check: goodput = bytes in flight / round-trip time.
fn window_law(summary: &FlowSummary) -> Option<String> {
    let (window, rtt, got) =
        (summary.binding_window_bytes?, summary.mean_rtt_us?, summary.steady_goodput_bps?);
    let law = window as f64 * 8.0 / (rtt * 1e-6);
    Some(format!(
        "check: {} in flight per round trip of {:.2} ms gives {}, and the flow got {}",
        Bytes(three_digits(window as f64)),
        rtt / 1000.0,
        BitRate(three_digits(law)),
        BitRate(three_digits(got))
    ))
}

/// The limits of the sender according to the kernel's counters (tcp_info's chronographs), for comparison.
fn kernel_counters(rows: &[&FlowSample]) -> Option<String> {
    let (first, last) = (rows.first()?, rows.last()?);
    let share = |value: fn(&FlowSample) -> Option<i64>| {
        let busy = (last.busy_time_us? - first.busy_time_us?) as f64;
        (busy > 0.0).then_some(())?;
        Some(((value(last)? - value(first)?) as f64 / busy * 100.0).clamp(0.0, 100.0))
    };
    let window = share(|r| r.rwnd_limited_us)?;
    let buffer = share(|r| r.sndbuf_limited_us)?;
    Some(format!(
        "the kernel's counters, for comparison: rwnd_limited {window:.0} %, sndbuf_limited {buffer:.0} % of the busy time"
    ))
}

fn exact(bytes: u64) -> String {
    format!("{} bytes", units::group_digits(bytes))
}

/// A mean with three significant digits.
fn rounded(bytes: f64) -> Bytes {
    Bytes(three_digits(bytes))
}

#[cfg(test)]
mod tests {
    use schema::{Limited, LinkDirection};

    use super::*;
    use crate::PathLink;

    fn lab8(receive_buffer: Buffer) -> (FlowContext, FlowSummary) {
        let context = FlowContext {
            name: "bulk".into(),
            from: "h1".into(),
            to: "h2".into(),
            path: vec![PathLink {
                name: "s1-s2".into(),
                direction: LinkDirection::Forward,
                rate_bps: 10e9,
                rate_changes: Vec::new(),
            }],
            receive_buffer,
            ..FlowContext::default()
        };
        let summary = FlowSummary {
            verdict: Some(Cause::ReceiveWindow),
            min_rtt_us: Some(20_020.0),
            limited_steady: Limited { receive_window: 0.97, loss: 0.03, ..Limited::default() },
            window_share: Some(0.793),
            steady_from_s: Some(0.4),
            ..FlowSummary::default()
        };
        (context, summary)
    }

    #[test]
    fn a_tuned_buffer_gets_its_exact_setting() {
        let (context, mut summary) = lab8(Buffer::Tuned([10_240, 87_380, 16_777_216]));
        let row = FlowSample {
            unacked_segs: Some(9184),
            snd_mss_bytes: Some(1448),
            snd_wnd_bytes: Some(13_297_152),
            ..FlowSample::default()
        };
        explain(&[&row], &StartOfFlow::default(), &context, &mut summary);
        assert_eq!(
            summary.evidence[0],
            "in 97 % of the samples after 0.4 s the data in flight (13.3 MB) filled the window that h2 advertises (13.3 MB)"
        );
        assert!(summary.evidence[1].contains("79 %") && summary.evidence[1].contains("16,777,216 bytes"));
        let remedy = summary.remedy.unwrap();
        assert!(
            remedy.starts_with(
                "on h2: sysctl -w net.ipv4.tcp_rmem=\"10240 87380 50331648\" (50,331,648 bytes is twice"
            ),
            "{remedy}"
        );
    }

    #[test]
    fn buffers_that_alternate_are_both_named() {
        let (mut context, mut summary) = lab8(Buffer::Tuned([10_240, 87_380, 16_777_216]));
        context.send_buffer = Buffer::Tuned([10_240, 87_380, 16_777_216]);
        summary.limited_steady = Limited { receive_window: 0.6, send_buffer: 0.4, ..Limited::default() };
        explain(&[], &StartOfFlow::default(), &context, &mut summary);
        let remedy = summary.remedy.unwrap();
        let command =
            "sysctl -w net.ipv4.tcp_rmem=\"10240 87380 50331648\" net.ipv4.tcp_wmem=\"10240 87380 50331648\"";
        assert!(
            remedy.starts_with(&format!("on h2 and h1: {command} (50,331,648 bytes is twice")),
            "{remedy}"
        );
        let commands: Vec<_> =
            summary.fixes.iter().map(|fix| (fix.host.as_str(), fix.command.as_str())).collect();
        assert_eq!(commands, [("h2", command), ("h1", command)]);
    }

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

    #[test]
    fn the_path_mtu_is_named_for_a_flow_that_delivered_nothing() {
        let (context, summary) = lab8(Buffer::Unknown);
        let explained = |bytes: u64| {
            let mut summary = FlowSummary {
                verdict: Some(Cause::Loss),
                bytes: Some(bytes),
                sent_segs: Some(16),
                retransmitted_segs: Some(4),
                ..summary.clone()
            };
            explain(&[], &StartOfFlow::default(), &context, &mut summary);
            (summary.evidence, summary.remedy.unwrap())
        };
        let (evidence, remedy) = explained(0);
        assert_eq!(
            evidence,
            ["no data arrived, although the connection was established: each of 16 segments was lost"]
        );
        assert!(
            remedy.contains("longfat probe mtu h2") && remedy.contains("tcp_mtu_probing=1 on h1"),
            "{remedy}"
        );
        let (evidence, remedy) = explained(1);
        assert!(evidence[1].starts_with("4 of 16 segments were retransmitted"), "{evidence:?}");
        assert!(remedy.contains("queue on the path"), "{remedy}");
    }

    #[test]
    fn marks_are_compared_with_the_delivered_segments_if_these_are_known() {
        let (context, summary) = lab8(Buffer::Unknown);
        let evidence = |delivered_segs| {
            let mut summary = FlowSummary { verdict: Some(Cause::EcnMarks), ..summary.clone() };
            let row = FlowSample { delivered_ce_segs: Some(7), delivered_segs, ..FlowSample::default() };
            explain(&[&row], &StartOfFlow::default(), &context, &mut summary);
            summary.evidence[1].clone()
        };
        assert_eq!(evidence(Some(900)), "7 of 900 delivered segments carried a congestion mark (ECN)");
        assert_eq!(evidence(None), "7 delivered segments carried a congestion mark (ECN)");
    }

    #[test]
    fn only_the_application_can_change_a_fixed_buffer() {
        let (context, mut summary) = lab8(Buffer::Fixed(1_000_000));
        explain(&[], &StartOfFlow::default(), &context, &mut summary);
        let remedy = summary.remedy.unwrap();
        assert!(remedy.contains("receive_buffer") && remedy.contains("25,165,824 bytes"), "{remedy}");
    }
}
