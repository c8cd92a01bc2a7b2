//! Text tables for terminals, without colours. Every line ends with a newline.

use record::{Run, RunEntry};
use schema::{Cause, EngineName, FigureKind, FlowKind, FlowSummary, PublishedResult, RunSummary};
use units::sorted_releases;

use crate::compare::{Comparison, MetricComparison};
use crate::label::{CcNames, fairness, run_labels};
use crate::{events, number, words};

/// How a figure is printed.
type Print = fn(f64) -> String;

/// Shown in place of an unknown figure.
pub(crate) const UNKNOWN: &str = "-";

/// Which columns the list of runs has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunColumns {
    /// Those that tell runs apart, and the main result.
    Short,
    /// Also the scenario file and the record's directory.
    Long,
}

/// The runs, one per line, newest last.
pub fn runs(entries: &[RunEntry], columns: RunColumns) -> String {
    if entries.is_empty() {
        return "no runs yet\n".to_owned();
    }
    let mut rows =
        vec![texts(["SCENARIO", "ID", "ENGINE", "VARIANT", "CHANGED", "GOODPUT", "LIMITED BY", ""])];
    let is_long = columns == RunColumns::Long;
    if is_long {
        rows[0].extend(texts(["FILE", "RECORD"]));
    }
    for entry in entries {
        let mut row = vec![entry.scenario.clone(), entry.id.clone()];
        row.extend(match &entry.run {
            Err(e) => texts([UNKNOWN, UNKNOWN, "", UNKNOWN, UNKNOWN, &e.to_string()]),
            Ok(run) => {
                let summary = run.run();
                let main = main_flow(summary);
                vec![
                    summary.engine_label(),
                    summary.variant.clone().unwrap_or_else(|| UNKNOWN.into()),
                    changed(summary),
                    or_unknown(main.and_then(|flow| flow.goodput_bps), number::rate),
                    main.and_then(words::limits).unwrap_or_else(|| UNKNOWN.into()),
                    remark(entry.partial, summary),
                ]
            }
        });
        if is_long {
            let file = entry.run.as_ref().ok().and_then(|run| run.run().file.clone());
            row.push(file.unwrap_or_else(|| UNKNOWN.into()));
            row.push(entry.path.display().to_string());
        }
        rows.push(row);
    }
    const CHANGED: usize = 4;
    if rows.iter().skip(1).all(|row| row[CHANGED].is_empty()) {
        rows.iter_mut().for_each(|row| drop(row.remove(CHANGED)));
    }
    let right: Vec<bool> = rows[0].iter().map(|name| name == "GOODPUT").collect();
    table(&rows, &right)
}

/// The swept fields and those changed with `--set`, with their values.
fn changed(summary: &RunSummary) -> String {
    let fields = summary.sweep.iter().chain(&summary.set);
    fields.map(|(field, value)| format!("{field}={value}")).collect::<Vec<_>>().join(" ")
}

/// One run with all its figures.
pub fn show(run: &Run) -> String {
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
        texts(["record", &run.path.display().to_string()]),
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
        out.push_str(&links(summary));
    }
    // A record whose events cannot be read is shown without them.
    let events = events::rows(&run.events().unwrap_or_default());
    if !events.is_empty() {
        out.push('\n');
        out.push_str(&table(&events, &[false, false, true, true, true, true]));
    }
    out.push('\n');
    out.push_str(&quality(summary));
    out
}

/// Two runs metric by metric, with the ratio of the second to the first.
pub fn compare(comparison: &Comparison) -> String {
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
        out.push_str(&table(&rows, &[false, true, true, true]));
    }
    out
}

/// The published figures beside those of the engines.
pub fn published(results: &[PublishedResult]) -> String {
    if results.is_empty() {
        return String::new();
    }
    let kernels = kernels(results);
    let mut rows = vec![with_kernels(&["", "FIGURE", "PUBLISHED", "MODEL", "SIM", "LAB"], &kernels)];
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
    // An engine without figures has no column.
    for column in (3..rows[0].len() - 1).rev() {
        if rows.iter().skip(1).all(|row| row[column] == UNKNOWN) {
            rows.iter_mut().for_each(|row| drop(row.remove(column)));
        }
    }
    let last = rows[0].len() - 1;
    let right: Vec<bool> = (0..=last).map(|column| column > 1 && column != last).collect();
    reasons.dedup();
    table(&rows, &right) + &reasons.concat()
}

/// The versions of all guest kernels that have a figure, oldest first.
pub(crate) fn kernels<'a>(results: impl IntoIterator<Item = &'a PublishedResult>) -> Vec<&'a str> {
    let known = results.into_iter().flat_map(|result| &result.kernels);
    sorted_releases(known.map(|known| known.kernel.as_str()))
}

/// A table's head with a column for each guest kernel, and one for the verdict.
fn with_kernels(head: &[&str], kernels: &[&str]) -> Vec<String> {
    let kernels = kernels.iter().map(|version| format!("LINUX {version}"));
    head.iter().map(|name| (*name).to_owned()).chain(kernels).chain(["VERDICT".to_owned()]).collect()
}

/// The figures of all engines, and the verdict. An engine's verdict follows its figure where it differs from the result's.
fn figures(result: &PublishedResult, kernels: &[&str]) -> Vec<String> {
    let cell = |engine: &EngineName, kernel| {
        words::judged_figure(result, engine, kernel).unwrap_or_else(|| UNKNOWN.to_owned())
    };
    let engines = [EngineName::Model, EngineName::Sim, EngineName::Lab];
    let engines = engines.iter().map(|engine| cell(engine, None));
    let guests = kernels.iter().map(|version| cell(&EngineName::Kernel, Some(version)));
    engines.chain(guests).chain([words::verdict(result.verdict).to_owned()]).collect()
}

/// The goodput and the round-trip times of each flow of each run, and what limited it; UDP flows are in [`datagrams`].
pub fn results(runs: &[RunSummary]) -> String {
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
    let mut right = vec![false, false, false, true, true, true, true, true, false];
    if !ccs.are_relevant() {
        right.remove(2);
        rows.iter_mut().for_each(|row| drop(row.remove(2)));
    }
    let mut out = table(&rows, &right);
    for (run, label) in runs.iter().zip(&labels) {
        if let Some(index) = fairness(run) {
            out.push_str(&format!("fairness of {label} (Jain's index): {index}\n"));
        }
    }
    out
}

/// Most flows that [`explanations`] explains.
const MAX_EXPLAINED_FLOWS: usize = 6;

/// What limited each flow with a verdict: the causes' shares, the evidence and the fix.
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
/// largest first; those below 1 % are left out.
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

/// How to remove a flow's limit: a command for each host and the reasons for the values, or the advice; empty where
/// there is none.
pub fn fix(flow: &FlowSummary) -> String {
    if flow.fixes.is_empty() {
        return flow.remedy.iter().map(|remedy| format!("  to fix it: {remedy}\n")).collect();
    }
    let mut out = String::new();
    let mut reasons: Vec<&str> = Vec::new();
    for fix in &flow.fixes {
        out.push_str(&format!("  to fix it, on {}:\n    {}\n", fix.host, fix.command));
        if !reasons.contains(&fix.reason.as_str()) {
            reasons.push(&fix.reason);
        }
    }
    out + &format!("  ({})\n", reasons.join("; "))
}

/// The datagram counts of each run's UDP flows; empty where there are none.
pub fn datagrams(runs: &[RunSummary]) -> String {
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
    table(&rows, &[false, false, true, true, true, true, true, true])
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
    ];
    let rows: Vec<Vec<String>> =
        facts.into_iter().filter_map(|(name, value)| Some(vec![format!("  {name}"), value?])).collect();
    out.push_str(&table(&rows, &[false, true]));
    for sentence in &flow.evidence {
        out.push_str(&format!("  * {sentence}\n"));
    }
    out + &fix(flow)
}

fn links(run: &RunSummary) -> String {
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
    table(&rows, &[false, true, true, true, true, true, true, true, false])
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

/// The flow that represents a run in one line: of those with a congestion window, else of all, the one with
/// the most goodput.
fn main_flow(run: &RunSummary) -> Option<&FlowSummary> {
    let rank = |flow: &FlowSummary| (flow.has_window(), flow.goodput_bps.unwrap_or(0.0));
    let known = run.flows.iter().filter(|flow| flow.has_window() || flow.goodput_bps.is_some());
    known.max_by(|a, b| rank(a).0.cmp(&rank(b).0).then(rank(a).1.total_cmp(&rank(b).1)))
}

fn remark(partial: bool, run: &RunSummary) -> String {
    match (partial, run.quality.is_reliable()) {
        (true, _) => "partial".to_owned(),
        (false, false) => "unreliable".to_owned(),
        (false, true) => String::new(),
    }
}

/// A compared metric's name without its unit suffix, and how its values are printed.
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
            let name = if suffix == "_segs" { format!("{stem} segments") } else { stem.replace('_', " ") };
            return (name, print);
        }
    }
    // `bytes` is the number of bytes received.
    (name.replace('_', " "), number::bytes)
}

pub(crate) fn or_unknown(value: Option<f64>, print: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), print)
}

pub(crate) fn texts<'a>(cells: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    cells.into_iter().map(str::to_owned).collect()
}

/// Pads columns to their widest cell; `right` marks the right-aligned ones. Lines have no trailing spaces.
pub fn table(rows: &[Vec<String>], right: &[bool]) -> String {
    let clean = |cell: &String| without_control(cell).replace('\n', "");
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(clean).collect()).collect();
    let width = |cell: &str| cell.chars().count();
    let widths: Vec<usize> = (0..right.len())
        .map(|column| {
            rows.iter().filter_map(|row| row.get(column)).map(|cell| width(cell)).max().unwrap_or(0)
        })
        .collect();
    let mut out = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let padding = " ".repeat(widths[column].saturating_sub(width(cell)));
            if column > 0 {
                line.push_str("  ");
            }
            line.push_str(&if right[column] { padding + cell } else { cell.clone() + &padding });
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// Text without control characters except the ends of lines, so that a name cannot affect the terminal.
fn without_control(text: &str) -> String {
    text.chars().filter(|c| *c == '\n' || !c.is_control()).collect()
}
