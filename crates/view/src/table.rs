//! Text tables for terminals, without colours. Every line ends with a newline.
//!
//! `width` is the terminal's number of characters: if a table is wider, whole columns are dropped.
//! Without a width, all columns are shown.

use record::Run;
use schema::{
    Cause, EngineName, FigureKind, FixCommand, FlowKind, FlowSummary, PublishedResult, ReceiverFinding,
    ReceiverVerdict, RunSummary, StreamSummary,
};
use units::sorted_releases;

use crate::compare::{Comparison, MetricComparison};
use crate::label::{CcNames, fairness, run_labels};
use crate::text_table::{UNKNOWN, drop_columns, line_width, or_unknown, texts, without_control};
use crate::{events, number, words};

pub use crate::run_list::{RunColumns, runs};
pub use crate::text_table::{fitted, table, wrapped};

/// Formats a figure.
type Print = fn(f64) -> String;

/// One run with all its figures.
pub fn show(run: &Run, width: Option<usize>) -> String {
    let summary = run.run();
    let mut out = format!("{}  {}\n", run.summary.scenario, run.summary.title);
    let mut facts = vec![
        texts(["run", &summary.id]),
        texts(["scenario file", summary.file.as_deref().unwrap_or(UNKNOWN)]),
        texts(["engine", &summary.engine_label()]),
        texts(["variant", summary.variant.as_deref().unwrap_or(UNKNOWN)]),
        texts(["started", &summary.started]),
        texts(["duration", &number::seconds(summary.duration_s)]),
        texts(["machine", &run.summary.host.label()]),
        texts(["record", &run.location()]),
    ];
    for (fields, how) in [(&summary.sweep, "swept"), (&summary.set, "--set")] {
        facts.extend(fields.iter().map(|(field, value)| texts([how, &format!("{field}={value}")])));
    }
    if let Some(index) = fairness(summary) {
        facts.push(texts(["fairness (Jain)", &index]));
    }
    if run.partial {
        facts.push(texts(["partial", "the run was cut short; figures are incomplete"]));
    }
    out.push_str(&table(&facts, &[false, false]));
    for flow in &summary.flows {
        out.push('\n');
        out.push_str(&flow_facts(flow));
    }
    if !summary.links.is_empty() {
        out.push('\n');
        out.push_str(&links(summary, width));
    }
    // A record whose events cannot be read is shown without them.
    let mut events = events::rows(&run.events().unwrap_or_default());
    if !events.is_empty() {
        out.push('\n');
        let mut right_aligned = vec![false, false, true, true, true, true];
        drop_columns(&mut events, &mut right_aligned, width, &["TOTAL", "LAST", "FIRST"]);
        out.push_str(&table(&events, &right_aligned));
    }
    out.push('\n');
    out.push_str(&quality(summary));
    out
}

/// Two runs metric by metric, with the ratio of the second to the first.
pub fn compare(comparison: &Comparison, width: Option<usize>) -> String {
    let mut out = format!("A  {}\nB  {}\n", comparison.a, comparison.b);
    for flow in &comparison.flows {
        let mut rows = vec![texts([flow.name.as_str(), "A", "B", "B/A"])];
        let verdict = |name: Option<&'static str>, also: Option<&'static str>| {
            let cause = |name: Option<&'static str>| name.and_then(Cause::from_name);
            words::both_limits(cause(name), cause(also)).unwrap_or_else(|| UNKNOWN.into())
        };
        let (a, b) =
            (verdict(flow.verdict_a, flow.verdict_also_a), verdict(flow.verdict_b, flow.verdict_also_b));
        rows.push(vec!["limited by".into(), a, b, String::new()]);
        if flow.cc_a != flow.cc_b || flow.cc_from_a != flow.cc_from_b {
            let cc = |name: &Option<String>, from: &Option<String>| match (name, from) {
                (Some(name), Some(from)) if flow.cc_a == flow.cc_b => format!("{name} ({from})"),
                (name, _) => name.clone().unwrap_or_else(|| UNKNOWN.into()),
            };
            let (a, b) = (cc(&flow.cc_a, &flow.cc_from_a), cc(&flow.cc_b, &flow.cc_from_b));
            rows.push(vec!["congestion control".into(), a, b, String::new()]);
        }
        for metric in &flow.metrics {
            let (name, print) = presentation(metric);
            rows.push(vec![
                name,
                or_unknown(metric.a, print),
                or_unknown(metric.b, print),
                or_unknown(metric.ratio, |ratio| number::significant(ratio, 3)),
            ]);
        }
        out.push('\n');
        let mut right_aligned = vec![false, true, true, true];
        if width.is_some_and(|width| line_width(&rows) > width) {
            // The verdict is often the longest text.
            let verdict = rows.remove(1);
            out.push_str(&format!("{}: A {}: {}\n", flow.name, verdict[0], verdict[1]));
            out.push_str(&format!("{}: B {}: {}\n", flow.name, verdict[0], verdict[2]));
            drop_columns(&mut rows, &mut right_aligned, width, &["B/A"]);
        }
        out.push_str(&table(&rows, &right_aligned));
    }
    out
}

/// The published figures beside those of the engines.
pub fn published(results: &[PublishedResult], width: Option<usize>) -> String {
    if results.is_empty() {
        return String::new();
    }
    let kernels = kernels(results);
    let engines = words::PUBLISHED_ENGINES.map(|(_, name)| name.to_uppercase());
    let header = ["", "FIGURE", "PUBLISHED"].into_iter().chain(engines.iter().map(String::as_str));
    let mut rows = vec![with_kernels(header, &kernels)];
    let mut reasons = Vec::new();
    for result in results {
        let kind = match result.kind {
            FigureKind::Published => String::new(),
            other => format!(" ({})", words::figure_kind(other)),
        };
        let variant = result.variant.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
        let metric = words::metric_scope(result.metric.rsplit('.').next().unwrap_or_default());
        let metric = format!("{variant}{metric}");
        let first = vec![format!("{}{kind}", result.id), metric, words::published(result)];
        rows.push([first, figures(result, &kernels)].concat());
        if let Some(model) = result.model_published_kernel {
            let model = words::figure(model, &result.unit);
            reasons
                .push(format!("{}: the model gives {model} for the kernel of the publication\n", result.id));
        }
        if !result.faults.is_empty() {
            reasons.push(format!("{}: unreliable measurement: {}\n", result.id, result.faults.join("; ")));
        }
        if let Some(contradiction) = &result.contradiction {
            reasons.push(format!("{}: the source contradicts itself: {contradiction}\n", result.id));
        }
        for text in result
            .claim
            .iter()
            .map(|claim| format!("the source: {claim}"))
            .chain(words::judged_reasons(result))
        {
            reasons.push(format!("{}: {text}\n", result.id));
        }
        if let Some(why) = &result.why {
            reasons.push(format!("{}: {why}\n", result.id));
        }
    }
    drop_unused_engines(&mut rows, 3);
    let last = rows[0].len() - 1;
    let right_aligned: Vec<bool> = (0..=last).map(|column| column > 1 && column != last).collect();
    reasons.dedup();
    fitted(rows, &right_aligned, width, &[]) + &reasons.concat()
}

/// Removes the columns of engines without figures. The engines' columns are those from `first` on, except the
/// last.
fn drop_unused_engines(rows: &mut [Vec<String>], first: usize) {
    for column in (first..rows[0].len() - 1).rev() {
        if rows.iter().skip(1).all(|row| row[column] == UNKNOWN) {
            rows.iter_mut().for_each(|row| drop(row.remove(column)));
        }
    }
}

/// The versions of all guest kernels that have a figure, oldest first.
pub(crate) fn kernels<'a>(results: impl IntoIterator<Item = &'a PublishedResult>) -> Vec<&'a str> {
    let known = results.into_iter().flat_map(|result| &result.kernels);
    sorted_releases(known.map(|known| known.kernel.as_str()))
}

/// A table's header with a column for each guest kernel, and one for the verdict.
fn with_kernels<'a>(header: impl IntoIterator<Item = &'a str>, kernels: &[&str]) -> Vec<String> {
    let kernels = kernels.iter().map(|version| format!("LINUX {version}"));
    header.into_iter().map(str::to_owned).chain(kernels).chain(["VERDICT".to_owned()]).collect()
}

/// The figures of all engines, and the verdict. An engine's verdict follows its figure if it differs from the
/// result's.
fn figures(result: &PublishedResult, kernels: &[&str]) -> Vec<String> {
    let cell = |engine: &EngineName, kernel| {
        words::judged_figure(result, engine, kernel).unwrap_or_else(|| UNKNOWN.to_owned())
    };
    let engines = words::PUBLISHED_ENGINES.iter().map(|(engine, _)| cell(engine, None));
    let guests = kernels.iter().map(|version| cell(&EngineName::Kernel, Some(version)));
    engines.chain(guests).chain([words::verdict(result.verdict).to_owned()]).collect()
}

/// The goodput and the round-trip times of each flow of each run, and the limit of each flow; UDP flows
/// are in [`datagrams`].
pub fn results(runs: &[RunSummary], width: Option<usize>) -> String {
    let labels = run_labels(&runs.iter().collect::<Vec<_>>());
    let flows: Vec<(&String, &FlowSummary)> = runs
        .iter()
        .zip(&labels)
        .flat_map(|(run, label)| run.flows.iter().map(move |flow| (label, flow)))
        .filter(|(_, flow)| flow.kind != FlowKind::Udp)
        .collect();
    if flows.is_empty() {
        return String::new();
    }
    let ccs = CcNames::of(flows.iter().map(|(_, flow)| *flow));
    let mut rows =
        vec![texts(["RUN", "FLOW", "CC", "GOODPUT", "STEADY", "MIN RTT", "MEDIAN", "99 %", "LIMITED BY"])];
    for (label, flow) in flows {
        let rtt = |us: Option<f64>| or_unknown(us, number::rounded_micros);
        rows.push(vec![
            label.clone(),
            flow.name.clone(),
            ccs.name(flow).unwrap_or_else(|| UNKNOWN.into()),
            or_unknown(flow.goodput_bps, number::rate),
            or_unknown(flow.steady_goodput_bps, number::rate),
            rtt(flow.min_rtt_us),
            rtt(flow.median_rtt_us),
            rtt(flow.p99_rtt_us),
            words::limits(flow).unwrap_or_else(|| UNKNOWN.into()),
        ]);
    }
    if !ccs.are_relevant() {
        rows.iter_mut().for_each(|row| drop(row.remove(2)));
    }
    let is_text = |name: &String| matches!(name.as_str(), "RUN" | "FLOW" | "CC" | "LIMITED BY");
    let right_aligned: Vec<bool> = rows[0].iter().map(|name| !is_text(name)).collect();
    let mut out = fitted(rows, &right_aligned, width, &["STEADY", "99 %", "MIN RTT", "LIMITED BY", "CC"]);
    for (run, label) in runs.iter().zip(&labels) {
        if let Some(index) = fairness(run) {
            out.push_str(&format!("fairness of {label} (Jain's index): {index}\n"));
        }
    }
    out
}

/// Maximum number of flows that [`explanations`] explains.
const MAX_EXPLAINED_FLOWS: usize = 6;

/// The limit of each flow with a verdict: the causes' shares, the evidence and the fix.
pub fn explanations(runs: &[RunSummary]) -> String {
    let labels = run_labels(&runs.iter().collect::<Vec<_>>());
    let flows = runs
        .iter()
        .zip(&labels)
        .flat_map(|(run, label)| run.flows.iter().map(move |flow| (label, flow)))
        .filter(|(_, flow)| flow.verdict.is_some());
    let mut out = String::new();
    for (label, flow) in flows.clone().take(MAX_EXPLAINED_FLOWS) {
        out.push_str(&format!("\n{label} {}: {}\n", flow.name, shares(flow)));
        for sentence in &flow.evidence {
            out.push_str(&format!("  * {sentence}\n"));
        }
        out.push_str(&fix(flow));
    }
    let more = flows.count().saturating_sub(MAX_EXPLAINED_FLOWS);
    if more > 0 {
        out.push_str(&format!("\n{more} more flows: longfat show RUN\n"));
    }
    without_control(&out)
}

/// `limited by send buffer 67 %, receive window 33 % of the time`: the causes' shares of the steady part, the
/// largest first; those below 1 % are omitted.
fn shares(flow: &FlowSummary) -> String {
    let limited = if flow.limited_steady.largest().is_some() { &flow.limited_steady } else { &flow.limited };
    let mut causes = Cause::ALL.map(|cause| (limited.share(cause), cause));
    causes.sort_by(|a, b| b.0.total_cmp(&a.0));
    let shown = causes.iter().filter(|(share, _)| *share >= 0.01);
    let shown: Vec<String> =
        shown.map(|(share, cause)| format!("{} {}", words::cause(*cause), number::share(*share))).collect();
    match shown.is_empty() {
        true => format!("limited by {}", words::limits(flow).unwrap_or_else(|| UNKNOWN.into())),
        false => format!("limited by {} of the time", shown.join(", ")),
    }
}

/// The limit of a flow, as its receiving end alone measures it, with the evidence.
pub fn receiver_verdict(flow: &str, verdict: &ReceiverVerdict) -> String {
    let limit = match verdict.finding {
        ReceiverFinding::Unknown => "the receiving end does not show what limits it".to_owned(),
        finding => format!(
            "limited by {} (in {} of the receiver's samples)",
            words::receiver_finding(finding),
            number::share(verdict.share)
        ),
    };
    let evidence: Vec<String> = verdict.evidence.iter().map(|evidence| format!("\n  {evidence}")).collect();
    format!("{flow}: {limit}{}", evidence.concat())
}

/// How to remove a flow's limit: a command for each host and the reasons for the values, or the advice; empty
/// if there is none.
pub fn fix(flow: &FlowSummary) -> String {
    if flow.fixes.is_empty() {
        return flow.remedy.iter().map(|remedy| format!("  to fix it: {remedy}\n")).collect();
    }
    let mut out = String::new();
    let mut reasons: Vec<String> = Vec::new();
    for fix in FixCommand::of(&flow.fixes) {
        out.push_str(&format!("  to fix it, on {}:\n    {}\n", fix.hosts, fix.command));
        if !reasons.contains(&fix.reasons) {
            reasons.push(fix.reasons);
        }
    }
    out + &format!("  ({})\n", reasons.join("; "))
}

/// The datagram counts of each run's UDP flows; empty if there are none.
pub fn datagrams(runs: &[RunSummary], width: Option<usize>) -> String {
    let labels = run_labels(&runs.iter().collect::<Vec<_>>());
    let mut rows =
        vec![texts(["RUN", "UDP FLOW", "GOODPUT", "SENT", "LOST", "SHARE", "MEAN DELAY", "JITTER"])];
    for (run, label) in runs.iter().zip(&labels) {
        for flow in run.flows.iter().filter(|flow| flow.kind == FlowKind::Udp) {
            let count = |value: Option<u64>| value.map_or_else(|| UNKNOWN.to_owned(), number::count);
            rows.push(vec![
                label.clone(),
                flow.name.clone(),
                or_unknown(flow.goodput_bps, number::rate),
                count(flow.datagrams_sent),
                count(flow.datagrams_lost),
                or_unknown(flow.loss_share, number::share),
                or_unknown(flow.mean_owd_us.or(flow.min_owd_us), number::micros),
                or_unknown(flow.jitter_us, number::micros),
            ]);
        }
    }
    if rows.len() == 1 {
        return String::new();
    }
    let right_aligned = [false, false, true, true, true, true, true, true];
    fitted(rows, &right_aligned, width, &["LOST", "SENT", "JITTER", "MEAN DELAY"])
}

/// The play-out of each run's real-time streams; empty if there are none.
pub fn streams(runs: &[RunSummary], width: Option<usize>) -> String {
    let labels = run_labels(&runs.iter().collect::<Vec<_>>());
    let mut rows = vec![texts([
        "RUN",
        "STREAM",
        "IN TIME",
        "LATE",
        "GAPS OF 1",
        "2-10",
        "11-100",
        "OVER 100",
        "LONGEST",
        "SUSTAINABLE",
    ])];
    for (run, label) in runs.iter().zip(&labels) {
        for (flow, stream) in run.flows.iter().filter_map(|flow| Some((flow, flow.stream?))) {
            rows.push(vec![
                label.clone(),
                flow.name.clone(),
                number::share(stream.in_time_share),
                number::count(stream.late_packets),
                number::count(stream.gaps_of_1),
                number::count(stream.gaps_of_2_to_10),
                number::count(stream.gaps_of_11_to_100),
                number::count(stream.gaps_over_100),
                number::count(stream.longest_gap_packets),
                sustainable(&stream),
            ]);
        }
    }
    if rows.len() == 1 {
        return String::new();
    }
    let right_aligned = [false, false, true, true, true, true, true, true, true, false];
    fitted(rows, &right_aligned, width, &["LATE", "LONGEST", "11-100", "2-10"])
}

/// Whether the path sustains a stream, and up to which rate.
pub(crate) fn sustainable(stream: &StreamSummary) -> String {
    let word = if stream.is_sustainable { "yes" } else { "no" };
    match stream.sustainable_up_to_bps {
        Some(rate) => format!("{word}, up to {}", number::rate(rate)),
        None => word.to_owned(),
    }
}

/// A flow's figures, evidence and remedy.
fn flow_facts(flow: &FlowSummary) -> String {
    let cc = flow.cc_label().map(|cc| format!(", {cc}")).unwrap_or_default();
    let mut out = format!("flow {}: {} to {} ({}{cc})\n", flow.name, flow.from, flow.to, flow.kind);
    let rate = |value: Option<f64>| value.map(number::rate);
    let size = |value: Option<u64>| value.map(|v| number::bytes(v as f64));
    let count = |value: Option<u64>| value.map(number::count);
    let time = |value: Option<f64>| value.map(number::micros);
    let facts = [
        ("goodput", rate(flow.goodput_bps)),
        ("steady goodput", rate(flow.steady_goodput_bps)),
        ("wire limit", rate(flow.wire_limit_bps)),
        ("received", size(flow.bytes)),
        ("segments sent", count(flow.sent_segs)),
        ("retransmitted", count(flow.retransmitted_segs)),
        ("first RTT", time(flow.first_rtt_us)),
        ("min RTT", time(flow.min_rtt_us)),
        ("median RTT", time(flow.median_rtt_us)),
        ("mean RTT", time(flow.mean_rtt_us)),
        ("99 % of RTTs at most", time(flow.p99_rtt_us)),
        ("max RTT", time(flow.max_rtt_us)),
        ("pings sent", count(flow.pings_sent)),
        ("pings lost", count(flow.pings_lost)),
        ("datagrams sent", count(flow.datagrams_sent)),
        ("datagrams lost", count(flow.datagrams_lost)),
        ("loss", flow.loss_share.map(number::share)),
        ("datagrams reordered", count(flow.datagrams_reordered)),
        ("datagrams duplicated", count(flow.datagrams_duplicated)),
        ("min one-way delay", time(flow.min_owd_us)),
        ("mean one-way delay", time(flow.mean_owd_us)),
        ("max one-way delay", time(flow.max_owd_us)),
        ("jitter", time(flow.jitter_us)),
        ("segment size (MSS)", count(flow.mss_bytes).map(|n| n + " B")),
        ("max cwnd", size(flow.max_cwnd_bytes)),
        ("mean cwnd", size(flow.mean_cwnd_bytes)),
        ("max receive window", size(flow.max_rcv_wnd_bytes)),
        ("binding window", size(flow.binding_window_bytes)),
        ("window / buffer", flow.window_share.map(number::share)),
        ("limited by", words::limits(flow)),
        (
            "receiver's verdict",
            flow.receiver_verdict.as_ref().map(|v| words::receiver_finding(v.finding).to_owned()),
        ),
    ];
    let rows: Vec<Vec<String>> =
        facts.into_iter().filter_map(|(name, value)| Some(vec![format!("  {name}"), value?])).collect();
    out.push_str(&table(&rows, &[false, true]));
    let by_receiver = flow.receiver_verdict.iter().flat_map(|verdict| &verdict.evidence);
    for sentence in flow.evidence.iter().chain(by_receiver) {
        out.push_str(&format!("  * {sentence}\n"));
    }
    out + &fix(flow)
}

fn links(run: &RunSummary, width: Option<usize>) -> String {
    let mut rows = vec![texts([
        "LINK",
        "RATE",
        "UTILIZATION",
        "SENT",
        "DROPPED (QUEUE)",
        "LOST (LINK)",
        "MAX QUEUE",
        "MEAN QUEUE",
    ])];
    for link in &run.links {
        rows.push(vec![
            format!("{} {}", link.name, link.direction),
            or_unknown(link.rate_bps, number::rate),
            or_unknown(link.utilization, number::share),
            number::count(link.sent_packets),
            number::count(link.dropped_queue),
            number::count(link.dropped_loss),
            number::bytes(link.max_queue_bytes as f64),
            number::bytes(link.mean_queue_bytes),
        ]);
    }
    if run.links.iter().any(|link| !link.remarks().is_empty()) {
        rows[0].push("OTHER EVENTS".into());
        rows[1..].iter_mut().zip(&run.links).for_each(|(row, link)| row.push(link.remarks()));
    }
    let mut right_aligned = vec![true; rows[0].len()];
    right_aligned[0] = false;
    if let Some(events) = right_aligned.get_mut(8) {
        *events = false;
    }
    let drop_order = ["MEAN QUEUE", "LOST (LINK)", "SENT", "MAX QUEUE", "RATE", "UTILIZATION"];
    fitted(rows, &right_aligned, width, &drop_order)
}

fn quality(run: &RunSummary) -> String {
    let quality = &run.quality;
    let mut out =
        if quality.is_reliable() { "quality: reliable".to_owned() } else { "quality: unreliable".to_owned() };
    if let Some(late) = quality.emulator_late_p99_us {
        out.push_str(&format!(", 99 % of packets at most {} late", number::micros(late)));
    }
    if let Some(idle) = quality.cpu_idle_min {
        out.push_str(&format!(", CPU idle at least {}", number::share(idle)));
    }
    out.push('\n');
    for reason in quality.reasons() {
        out.push_str(&format!("  * unreliable: {reason}\n"));
    }
    for warning in quality.warnings() {
        out.push_str(&format!("  * {warning}\n"));
    }
    out
}

/// A compared metric's name without its unit suffix, and the format of its values.
fn presentation(metric: &MetricComparison) -> (String, Print) {
    let name = metric.metric;
    let known: [(&str, Print); 5] = [
        ("_bps", number::rate),
        ("_bytes", number::bytes),
        ("_us", number::micros),
        ("_s", number::seconds),
        // "sent" alone has no unit.
        ("_segs", |n| number::count(n as u64)),
    ];
    for (suffix, print) in known {
        if let Some(stem) = name.strip_suffix(suffix) {
            let words = stem.replace('_', " ").replace("rtt", "RTT").replace("rcv wnd", "receive window");
            return (if suffix == "_segs" { format!("{stem} segments") } else { words }, print);
        }
    }
    // `bytes` is the number of bytes received.
    (if name == "bytes" { "received".into() } else { name.replace('_', " ") }, number::bytes)
}
