//! The report's tables, bars and boxes as HTML. Every text that comes from a record is escaped here.

use std::fmt::Write;

use schema::{
    Cause, EngineName, FixCommand, FlowKind, FlowSummary, PublishedResult, PublishedVerdict, RunSummary,
};

use crate::escape::escape;
use crate::label::fairness;
use crate::number;
use crate::reproduction::{KernelPair, Reproduced};
use crate::style::cause_class;
use crate::table::sustainable;
use crate::words;

/// A column's heading, and a flow's figure in it.
type FlowColumn = (&'static str, fn(&FlowSummary) -> Option<String>);

/// One card per bulk transfer of each run: goodput, what limited it, the evidence, and the setting that
/// removes the limit.
pub(crate) fn result_cards(runs: &[&RunSummary], labels: &[String]) -> String {
    let mut cards = String::new();
    for (run, label) in runs.iter().zip(labels) {
        for flow in run.flows.iter().filter(|flow| flow.is_bulk_transfer()) {
            result_card(&mut cards, run, label, flow);
        }
    }
    if cards.is_empty() { cards } else { format!("<div class=\"answers\">\n{cards}</div>\n") }
}

fn result_card(out: &mut String, run: &RunSummary, label: &str, flow: &FlowSummary) {
    let _ = write!(
        out,
        "<article class=\"card\">\n<h3>{}: {}<span class=\"engine\">{} to {}, {}</span></h3>\n",
        escape(label),
        escape(&flow.name),
        escape(&flow.from),
        escape(&flow.to),
        escape(&flow.cc_label().unwrap_or_else(|| flow.kind.to_string())),
    );
    if let Some(goodput) = flow.steady_or_overall_goodput_bps() {
        let of = flow.wire_limit_bps.filter(|limit| *limit > 0.0).map(|limit| {
            let (limit, share) = (unbroken(number::rate(limit)), unbroken(number::share(goodput / limit)));
            format!("{share} of the {limit} that the path can carry")
        });
        // Without a steady part, the figure is the overall mean.
        let mean = flow.goodput_bps.filter(|_| flow.steady_goodput_bps.is_some());
        let which = match mean {
            Some(mean) => format!("steady goodput, mean {}", unbroken(number::rate(mean))),
            None => "goodput".to_owned(),
        };
        let of = [Some(which), of].into_iter().flatten().collect::<Vec<_>>().join("; ");
        let _ =
            writeln!(out, "<p class=\"figure\">{} <small>{of}</small></p>", unbroken(number::rate(goodput)));
    }
    if let Some(cause) = flow.verdict {
        let also = flow.verdict_also.map_or(0.0, |also| flow.limited_steady.share(also));
        let share = flow.limited_steady.share(cause) + also;
        let time = if share > 0.0 {
            format!(" for {} of its steady part", unbroken(number::share(share)))
        } else {
            String::new()
        };
        let _ = writeln!(
            out,
            "<p><span class=\"by {}\"></span>Limited by <b>{}</b>{time}. {}</p>",
            cause_class(cause),
            words::limits(flow).unwrap_or_default(),
            words::explain(cause)
        );
    } else {
        out.push_str("<p>It is unknown what limited the flow.</p>\n");
    }
    if !flow.evidence.is_empty() {
        let items: String =
            flow.evidence.iter().map(|sentence| format!("<li>{}</li>", escape(sentence))).collect();
        let _ = writeln!(out, "<ul>{items}</ul>");
    }
    for FixCommand { hosts, command, reasons } in FixCommand::of(&flow.fixes) {
        let (hosts, command, reasons) = (escape(&hosts), escape(command), escape(&reasons));
        let _ = writeln!(out, "<p class=\"remedy\"><b>On {hosts}</b><code>{command}</code> {reasons}</p>");
    }
    if let Some(remedy) = flow.remedy.as_ref().filter(|_| flow.fixes.is_empty()) {
        let _ = writeln!(out, "<p class=\"remedy\"><b>Remedy</b>{}</p>", escape(remedy));
    }
    if !run.quality.is_reliable() {
        out.push_str("<p><span class=\"chip missed\">unreliable measurement, see above</span></p>\n");
    }
    out.push_str("</article>\n");
}

/// A warning box per run whose measurement is unreliable, with the reasons.
pub(crate) fn unreliable_boxes(runs: &[&RunSummary], labels: &[String]) -> String {
    let mut out = String::new();
    for (run, label) in runs.iter().zip(labels).filter(|(run, _)| !run.quality.is_reliable()) {
        let _ = writeln!(
            out,
            "<div class=\"card bad\">\n<h3>Do not cite the run {}: the measurement is unreliable</h3>{}</div>",
            escape(label),
            list(run.quality.reasons())
        );
    }
    out
}

/// The quality of each run: lateness, stalls, idle time, drops outside the emulated network, and warnings.
pub(crate) fn quality_table(runs: &[&RunSummary], labels: &[String]) -> String {
    let late = |us: Option<f64>| us.map_or("\u{2013}".to_owned(), number::micros);
    let mut table = Table::new(&["run", "verdict"]);
    table.head(
        [
            "late, median",
            "late, 99 %",
            "late, max",
            "stalls",
            "stalled, total",
            "idle CPU, min",
            "other drops",
        ],
        true,
    );
    table.head(["reasons and warnings"], false);
    for (run, label) in runs.iter().zip(labels) {
        let quality = &run.quality;
        table.cell(&escape(label));
        table.cell(if quality.is_reliable() {
            "<span class=\"chip within\">reliable</span>"
        } else {
            "<span class=\"chip missed\">unreliable</span>"
        });
        table.number(&late(quality.emulator_late_p50_us));
        table.number(&late(quality.emulator_late_p99_us));
        table.number(&late(quality.emulator_late_max_us));
        table.number(&quality.stalls.map_or("\u{2013}".to_owned(), number::count));
        table.number(&late(quality.stalled_total_us));
        table.number(&quality.cpu_idle_min.map_or("\u{2013}".to_owned(), number::share));
        table.number(&number::count(quality.outside_drops));
        table.classed("why", &list(&quality.notes));
        table.end_row();
    }
    table.finish()
}

fn list(notes: &[String]) -> String {
    let items: String = notes.iter().map(|note| format!("<li>{}</li>", escape(note))).collect();
    if items.is_empty() { items } else { format!("<ul>{items}</ul>") }
}

/// Replaces spaces by no-break spaces, so that a figure and its unit stay on one line.
fn unbroken(text: String) -> String {
    text.replace(' ', "\u{a0}")
}

/// The published figures beside those of the runs.
pub(crate) fn published_table(results: &[PublishedResult]) -> String {
    if results.is_empty() {
        return String::new();
    }
    let has = |engine: &EngineName| results.iter().any(|r| words::judged_figure(r, engine, None).is_some());
    let engines: Vec<(EngineName, &str)> =
        words::PUBLISHED_ENGINES.into_iter().filter(|(engine, _)| has(engine)).collect();
    let has_published_kernel = results.iter().any(|result| result.model_published_kernel.is_some());
    let mut table = Table::new(&["", "kind", "published"]);
    let kernels = crate::table::kernels(results);
    table.head(engines.iter().map(|(_, name)| *name), true);
    table.head(has_published_kernel.then_some("model, published kernel"), true);
    let heads: Vec<String> = kernels.iter().map(|version| format!("Linux {version}")).collect();
    table.head(heads.iter().map(String::as_str), true);
    table.head(["verdict", "why"], false);
    for result in results {
        let variant = result.variant.as_ref().map(|name| format!(" ({})", escape(name))).unwrap_or_default();
        table.cell(&format!(
            "<b>{}</b><br><small><code>{}</code>{variant}</small>",
            escape(&result.id),
            escape(&words::metric_scope(&result.metric))
        ));
        table.cell(words::figure_kind(result.kind));
        let tolerance = match (result.published, &result.bound) {
            (Some(_), None) => format!("<br><small>\u{b1} {}</small>", number::share(result.tolerance)),
            _ => String::new(),
        };
        table.number(&(escape(&words::published(result)) + &tolerance));
        let engine_cell = |engine: &EngineName, kernel| {
            let text = words::judged_figure(result, engine, kernel);
            escape(text.as_deref().unwrap_or("\u{2013}"))
        };
        for (engine, _) in &engines {
            table.number(&engine_cell(engine, None));
        }
        if has_published_kernel {
            let figure = result.model_published_kernel.map(|value| words::figure(value, &result.unit));
            table.number(&escape(figure.as_deref().unwrap_or("\u{2013}")));
        }
        for version in &kernels {
            table.number(&engine_cell(&EngineName::Kernel, Some(version)));
        }
        table.cell(&chip(result.verdict));
        let reasons = words::judged_reasons(result);
        let claim = result.claim.as_ref().map(|text| format!("the source: {text}"));
        let why = claim
            .iter()
            .chain(&result.faults)
            .chain(&result.contradiction)
            .chain(&reasons)
            .chain(&result.why)
            .map(|text| escape(text));
        table.classed("why", &why.collect::<Vec<_>>().join("<br>"));
        table.end_row();
    }
    table.finish()
}

/// The figures that each engine has of each result, and why it has no others.
pub(crate) fn coverage_table(results: &[Reproduced]) -> String {
    let covered = || results.iter().filter(|result| !result.engines.is_empty());
    let Some(first) = covered().next() else { return String::new() };
    let mut table = Table::new(&["", "figures"]);
    table.head(first.engines.iter().map(|one| words::engine_heading(&one.engine)), false);
    for result in covered() {
        table.cell(&format!("<b>{}</b>", escape(&result.id)));
        table.number(&result.engines[0].figures.to_string());
        for engine in &result.engines {
            table.cell(&escape(&words::coverage(engine)));
        }
        table.end_row();
    }
    table.finish()
}

/// Figures with the source's kernel and with today's.
pub(crate) fn kernel_table<'a>(pairs: impl Iterator<Item = KernelPair<'a>>) -> String {
    let pairs: Vec<KernelPair<'a>> = pairs.collect();
    let has_lab = pairs.iter().any(|pair| pair.lab().is_some());
    let mut table = Table::new(&[""]);
    table.head(["source\u{2019}s kernel", "today\u{2019}s kernel"], true);
    table.head(has_lab.then_some("in the lab"), true);
    for pair in pairs {
        let figure = &pair.today.figure;
        let variant = figure.variant.as_deref().unwrap_or_default();
        table.cell(&format!(
            "<b>{}</b><br><small><code>{}</code> ({}, {})</small>",
            escape(&figure.id),
            escape(&words::metric_scope(&figure.metric)),
            escape(pair.source_variant),
            escape(variant)
        ));
        let lab = has_lab.then(|| pair.lab());
        for text in [pair.source.clone(), pair.today()].into_iter().chain(lab) {
            table.number(&escape(text.as_deref().unwrap_or("\u{2013}")));
        }
        table.end_row();
    }
    table.finish()
}

fn chip(verdict: PublishedVerdict) -> String {
    let class = match verdict {
        PublishedVerdict::Within => "within",
        PublishedVerdict::Differs | PublishedVerdict::Contradicted => "differs",
        PublishedVerdict::Missed => "missed",
        PublishedVerdict::Unreliable | PublishedVerdict::Untrusted => "differs",
        PublishedVerdict::NotRun | PublishedVerdict::NoFigure | PublishedVerdict::DoesNotApply => "none",
    };
    format!("<span class=\"chip {class}\">{}</span>", words::verdict(verdict))
}

/// A stacked bar per flow, the legend, and a table of the shares.
pub(crate) fn verdict_bars(runs: &[&RunSummary], labels: &[String]) -> String {
    let flows = window_flows(runs, labels);
    let known: Vec<&(&String, &FlowSummary)> =
        flows.iter().filter(|(_, flow)| flow.limited_steady.largest().is_some()).collect();
    if known.is_empty() {
        return String::new();
    }
    let causes: Vec<Cause> = Cause::ALL
        .into_iter()
        .filter(|c| known.iter().any(|(_, f)| f.limited_steady.share(*c) > 0.0))
        .collect();
    let mut out = "<div class=\"card\">\n<div class=\"bars\">\n".to_owned();
    for (label, flow) in &known {
        let _ = write!(out, "<div><b>{}</b> {}</div><div class=\"bar\">", escape(label), escape(&flow.name));
        for cause in &causes {
            let percent = flow.limited_steady.share(*cause) * 100.0;
            if percent > 0.0 {
                let (class, name) = (cause_class(*cause), words::cause(*cause));
                let _ = write!(
                    out,
                    "<i class=\"{class}\" style=\"width:{percent:.2}%\" title=\"{name} {percent:.1} %\"></i>"
                );
            }
        }
        out.push_str("</div>\n");
    }
    out.push_str("</div>\n<ul class=\"legend\">");
    for cause in &causes {
        let _ = write!(
            out,
            "<li><span class=\"by {}\"></span>{}</li>",
            cause_class(*cause),
            words::cause(*cause)
        );
    }
    out.push_str("</ul>\n</div>\n");
    let mut table = Table::new(&["run", "flow", "limited by"]);
    table.head(causes.iter().map(|cause| words::cause(*cause)), true);
    for (label, flow) in &known {
        table.cell(&escape(label));
        table.cell(&escape(&flow.name));
        table.cell(&format!("<b>{}</b>", words::limits(flow).unwrap_or_else(|| "unknown".into())));
        for cause in &causes {
            table.number(&number::share(flow.limited_steady.share(*cause)));
        }
        table.end_row();
    }
    out + &table.finish()
}

/// Table of the bulk transfers.
pub(crate) fn flow_table(runs: &[&RunSummary], labels: &[String]) -> String {
    let columns: [FlowColumn; 12] = [
        ("congestion control", FlowSummary::cc_label),
        ("goodput", |f| f.goodput_bps.map(number::rate)),
        ("steady", |f| f.steady_goodput_bps.map(number::rate)),
        ("wire limit", |f| f.wire_limit_bps.map(number::rate)),
        ("received", |f| f.bytes.map(|n| number::bytes(n as f64))),
        ("retransmitted", |f| f.retransmitted_segs.map(number::count)),
        ("min RTT", |f| f.min_rtt_us.map(number::micros)),
        ("mean RTT", |f| f.mean_rtt_us.map(number::micros)),
        ("max cwnd", |f| f.max_cwnd_bytes.map(|n| number::bytes(n as f64))),
        ("mean cwnd", |f| f.mean_cwnd_bytes.map(|n| number::bytes(n as f64))),
        ("max receive window", |f| f.max_rcv_wnd_bytes.map(|n| number::bytes(n as f64))),
        ("binding window", |f| f.binding_window_bytes.map(|n| number::bytes(n as f64))),
    ];
    let flows = window_flows(runs, labels);
    flow_rows(&flows, &columns) + &fairness_table(runs, labels)
}

/// Jain's fairness index of the bulk transfers of each run.
fn fairness_table(runs: &[&RunSummary], labels: &[String]) -> String {
    let known: Vec<(&String, String)> =
        runs.iter().zip(labels).filter_map(|(run, label)| Some((label, fairness(run)?))).collect();
    if known.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["run"]);
    table.head(["fairness (Jain's index; 1 is perfectly fair)"], true);
    for (label, index) in known {
        table.cell(&escape(label));
        table.number(&index);
        table.end_row();
    }
    table.finish()
}

/// Table of the ping flows.
pub(crate) fn ping_table(runs: &[&RunSummary], labels: &[String]) -> String {
    let columns: [FlowColumn; 7] = [
        ("sent", |f| f.pings_sent.map(number::count)),
        ("lost", |f| f.pings_lost.map(number::count)),
        ("first", |f| f.first_rtt_us.map(number::micros)),
        ("min", |f| f.min_rtt_us.map(number::micros)),
        ("median", |f| f.median_rtt_us.map(number::micros)),
        ("mean", |f| f.mean_rtt_us.map(number::micros)),
        ("max", |f| f.max_rtt_us.map(number::micros)),
    ];
    let pings: Vec<(&String, &FlowSummary)> =
        all_flows(runs, labels).into_iter().filter(|(_, flow)| flow.kind == FlowKind::Ping).collect();
    flow_rows(&pings, &columns)
}

/// Table of the UDP flows.
pub(crate) fn datagram_table(runs: &[&RunSummary], labels: &[String]) -> String {
    let columns: [FlowColumn; 11] = [
        ("goodput", |f| f.goodput_bps.map(number::rate)),
        ("path limit", |f| f.wire_limit_bps.map(number::rate)),
        ("sent", |f| f.datagrams_sent.map(number::count)),
        ("lost", |f| f.datagrams_lost.map(number::count)),
        ("loss", |f| f.loss_share.map(number::share)),
        ("reordered", |f| f.datagrams_reordered.map(number::count)),
        ("duplicated", |f| f.datagrams_duplicated.map(number::count)),
        ("min delay", |f| f.min_owd_us.map(number::micros)),
        ("mean delay", |f| f.mean_owd_us.map(number::micros)),
        ("max delay", |f| f.max_owd_us.map(number::micros)),
        ("jitter", |f| f.jitter_us.map(number::micros)),
    ];
    let flows: Vec<(&String, &FlowSummary)> =
        all_flows(runs, labels).into_iter().filter(|(_, flow)| flow.kind == FlowKind::Udp).collect();
    flow_rows(&flows, &columns)
}

/// Table of the real-time streams.
pub(crate) fn stream_table(runs: &[&RunSummary], labels: &[String]) -> String {
    let columns: [FlowColumn; 9] = [
        ("goodput", |f| f.goodput_bps.map(number::rate)),
        ("in time", |f| Some(number::share(f.stream?.in_time_share))),
        ("late", |f| Some(number::count(f.stream?.late_packets))),
        ("gaps of 1", |f| Some(number::count(f.stream?.gaps_of_1))),
        ("gaps of 2 to 10", |f| Some(number::count(f.stream?.gaps_of_2_to_10))),
        ("gaps of 11 to 100", |f| Some(number::count(f.stream?.gaps_of_11_to_100))),
        ("longer gaps", |f| Some(number::count(f.stream?.gaps_over_100))),
        ("longest gap", |f| Some(number::count(f.stream?.longest_gap_packets))),
        ("sustainable", |f| Some(sustainable(&f.stream?))),
    ];
    let flows: Vec<(&String, &FlowSummary)> =
        all_flows(runs, labels).into_iter().filter(|(_, flow)| flow.stream.is_some()).collect();
    flow_rows(&flows, &columns)
}

/// Table of the link directions.
pub(crate) fn link_table(runs: &[&RunSummary], labels: &[String]) -> String {
    let mut table = Table::new(&["run", "link"]);
    table.head(
        [
            "rate",
            "utilization",
            "sent",
            "dropped by the queue",
            "lost on the link",
            "max queue",
            "mean queue",
        ],
        true,
    );
    let has_remarks = runs.iter().flat_map(|run| &run.links).any(|link| !link.remarks().is_empty());
    if has_remarks {
        table.head(["other events"], false);
    }
    for (run, label) in runs.iter().zip(labels) {
        for link in &run.links {
            table.cell(&escape(label));
            table.cell(&escape(&format!("{} {}", link.name, link.direction)));
            table.number(&link.rate_bps.map_or("unlimited".to_owned(), number::rate));
            table.number(&link.utilization.map_or("\u{2013}".to_owned(), number::share));
            table.number(&number::count(link.sent_packets));
            table.number(&number::count(link.dropped_queue));
            table.number(&number::count(link.dropped_loss));
            table.number(&number::bytes(link.max_queue_bytes as f64));
            table.number(&number::bytes(link.mean_queue_bytes));
            if has_remarks {
                table.cell(&escape(&link.remarks()));
            }
            table.end_row();
        }
    }
    table.finish()
}

/// One row per flow; columns without values are omitted.
fn flow_rows(flows: &[(&String, &FlowSummary)], columns: &[FlowColumn]) -> String {
    let columns: Vec<_> =
        columns.iter().filter(|(_, get)| flows.iter().any(|(_, f)| get(f).is_some())).collect();
    let mut table = Table::new(&["run", "flow"]);
    table.head(columns.iter().map(|(name, _)| *name), true);
    for (label, flow) in flows {
        table.cell(&escape(label));
        table.cell(&escape(&flow.name));
        for (_, get) in &columns {
            table.number(&get(flow).map_or_else(|| "\u{2013}".to_owned(), |value| escape(&value)));
        }
        table.end_row();
    }
    table.finish()
}

fn all_flows<'a>(runs: &[&'a RunSummary], labels: &'a [String]) -> Vec<(&'a String, &'a FlowSummary)> {
    let pairs = runs.iter().zip(labels);
    pairs.flat_map(|(run, label)| run.flows.iter().map(move |flow| (label, flow))).collect()
}

fn window_flows<'a>(runs: &[&'a RunSummary], labels: &'a [String]) -> Vec<(&'a String, &'a FlowSummary)> {
    all_flows(runs, labels).into_iter().filter(|(_, flow)| flow.is_bulk_transfer()).collect()
}

/// Builds an HTML table. Headings are text, cells are HTML.
struct Table {
    head: String,
    body: String,
    row: String,
}

impl Table {
    fn new(head: &[&str]) -> Self {
        let mut table = Table { head: String::new(), body: String::new(), row: String::new() };
        table.head(head.iter().take(1).copied(), false);
        // "published" is a number; the other leading columns are text.
        for name in &head[1..] {
            table.head([*name], *name == "published");
        }
        table
    }

    fn head<'a>(&mut self, names: impl IntoIterator<Item = &'a str>, numbers: bool) {
        let class = if numbers { " class=\"n\"" } else { "" };
        for name in names {
            let _ = write!(self.head, "<th{class}>{}</th>", escape(name));
        }
    }

    fn cell(&mut self, html: &str) {
        let _ = write!(self.row, "<td>{html}</td>");
    }

    fn number(&mut self, html: &str) {
        self.classed("n", html);
    }

    fn classed(&mut self, class: &str, html: &str) {
        let _ = write!(self.row, "<td class=\"{class}\">{html}</td>");
    }

    fn end_row(&mut self) {
        let _ = writeln!(self.body, "<tr>{}</tr>", std::mem::take(&mut self.row));
    }

    /// The table; empty if it has no rows.
    fn finish(self) -> String {
        if self.body.is_empty() {
            return String::new();
        }
        format!(
            "<div class=\"card scroll\">\n<table>\n<thead><tr>{}</tr></thead>\n<tbody>\n{}</tbody>\n</table>\n</div>\n",
            self.head, self.body
        )
    }
}
