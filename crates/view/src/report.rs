//! The report: one HTML file with the results in words, tables and plots. It opens offline and has no
//! scripts.

use std::collections::BTreeSet;
use std::fmt::Write;

use schema::{EngineName, PublishedResult, RunSummary, Summary};

use crate::escape::escape;
use crate::label::{detailed, run_labels};
use crate::loaded::LoadedRun;
use crate::number;
use crate::plot::plot;
use crate::plot_options::{PlotOptions, Reference};
use crate::report_parts::{
    datagram_table, flow_table, link_table, ping_table, published_table, quality_table, result_cards,
    stream_table, unreliable_boxes, verdict_bars,
};
use crate::style::{PAGE_CSS, plot_css};

/// Maximum number of runs in a plot that compares runs.
const MAX_COMPARED_RUNS: usize = 7;
/// Maximum number of runs with separate plots.
const MAX_PLOTTED_RUNS: usize = 24;

/// Information in a report in addition to the runs.
#[derive(Debug, Clone, Default)]
pub struct ReportExtra {
    /// When the report was created, as text.
    pub created: Option<String>,
    /// The command that reproduces the runs.
    pub command: Option<String>,
}

/// The report on `summary`. `runs` are the records of the runs in it that have series.
pub fn report(summary: &Summary, runs: &[LoadedRun], extra: &ReportExtra) -> String {
    let title = escape(if summary.title.is_empty() { &summary.scenario } else { &summary.title });
    let mut page = page_head(&title);
    header(&mut page, summary, &title, extra);
    let shown = shown_runs(summary);
    let labels = run_labels(&shown);
    page.push_str(&unreliable_boxes(&shown, &labels));
    section(&mut page, "Results", "", &result_cards(&shown, &labels));
    section(
        &mut page,
        "Published and measured",
        "The published figure beside the model\u{2019}s prediction for this machine and the measurement. \u{201c}Differs\u{201d} means: \
         outside the tolerance, for a known reason.",
        &published_table(&summary.published),
    );
    section(
        &mut page,
        "What limited each flow",
        "Each sample of a flow is labelled with what limited the flow at that moment. The bars show each cause\u{2019}s share of \
         the steady part of the flow.",
        &verdict_bars(&shown, &labels),
    );
    comparison(&mut page, summary, runs);
    single_runs(&mut page, summary, runs);
    section(
        &mut page,
        "Flows",
        "Goodput counts the bytes that the receiving application read; the steady goodput excludes the start. The wire limit is the \
         goodput that the slowest link allows after the headers of all layers.",
        &flow_table(&shown, &labels),
    );
    section(
        &mut page,
        "Datagrams",
        "The counts of each UDP flow\u{2019}s receiver. Delays are one-way. Datagrams in flight at the end do not count as lost.",
        &datagram_table(&shown, &labels),
    );
    section(
        &mut page,
        "Real-time streams",
        "The packets that the receiver could play at their time. Gaps are counted by their length in packets. A stream is sustainable if no more packets \
         miss their time than its tolerate_loss allows.",
        &stream_table(&shown, &labels),
    );
    section(
        &mut page,
        "Round-trip times (ping)",
        "The first echo also waits for address resolution (ARP), which takes another round trip.",
        &ping_table(&shown, &labels),
    );
    section(
        &mut page,
        "Links",
        "Both directions of every link that has a rate, a delay or a loss. Packets are counted as on the wire, one per segment.",
        &link_table(&shown, &labels),
    );
    section(
        &mut page,
        "Is the measurement reliable?",
        "How late the emulated network delivered packets, how long it stalled, and how much processor time was idle. On a busy \
         machine a lab measures the machine instead of the network.",
        &quality_table(&shown, &labels),
    );
    footer(&mut page, runs);
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

/// The section of one scenario in a page of several: its tables and plots.
pub fn scenario_section(summary: &Summary, runs: &[LoadedRun]) -> String {
    let mut out = String::new();
    let title = escape(if summary.title.is_empty() { &summary.scenario } else { &summary.title });
    let shown = shown_runs(summary);
    let labels = run_labels(&shown);
    let _ = writeln!(out, "<h2>{title} <span class=\"engine\">{}</span></h2>", escape(&summary.scenario));
    out.push_str(&unreliable_boxes(&shown, &labels));
    section(&mut out, "Published and measured", "", &published_table(&summary.published));
    if shown.iter().any(|run| run.engine != EngineName::Model) {
        section(&mut out, "What limited each flow", "", &verdict_bars(&shown, &labels));
        section(&mut out, "Flows", "", &flow_table(&shown, &labels));
        section(&mut out, "Links", "", &link_table(&shown, &labels));
    }
    let drawn: Vec<&LoadedRun> = runs.iter().filter(|run| !run.flows.is_empty()).collect();
    for compared in drawn.chunks(MAX_COMPARED_RUNS) {
        let indexed = compared.iter().enumerate();
        let published =
            indexed.flat_map(|(index, run)| references(&summary.published, &run.run, Some(index))).collect();
        section(&mut out, "Over time", "", &picture(compared, &["goodput", "cwnd", "rtt"], published));
    }
    out
}

/// How a scenario's figures depend on its unknown parameters: for each a sentence and its plots (SVG).
pub fn sensitivity_section(title: &str, scenario: &str, parts: &[(&str, Vec<String>)]) -> String {
    let mut out = String::new();
    let (title, scenario) = (escape(title), escape(scenario));
    let _ = writeln!(out, "<h2>{title}: unknown parameters <span class=\"engine\">{scenario}</span></h2>");
    out.push_str(
        "<p>Simulated at a tenth of the rate and of the duration: multiply rates and times by ten.</p>\n",
    );
    for (about, pictures) in parts {
        let _ = writeln!(out, "<p>{}</p>", escape(about));
        pictures.iter().for_each(|svg| out.push_str(&plot_card(svg)));
    }
    out
}

fn header(page: &mut String, summary: &Summary, title: &str, extra: &ReportExtra) {
    let host = &summary.host;
    let engines: BTreeSet<&str> = summary.runs.iter().map(|run| run.engine.name()).collect();
    let plural = if summary.runs.len() == 1 { "" } else { "s" };
    let engines = engines.into_iter().collect::<Vec<_>>().join(", ");
    let mut facts = vec![
        format!("scenario <code>{}</code>", escape(&summary.scenario)),
        format!("{} run{plural} ({})", summary.runs.len(), escape(&engines)),
        escape(&host.label()),
    ];
    if let Some(started) = summary.runs.iter().map(|run| run.started.as_str()).filter(|s| !s.is_empty()).min()
    {
        facts.push(escape(started));
    }
    facts.extend(extra.created.as_ref().map(|created| format!("report of {}", escape(created))));
    let facts: String = facts.iter().map(|fact| format!("<span>{fact}</span>")).collect();
    let _ = write!(page, "<header>\n<h1>{title}</h1>\n<p class=\"facts\">{facts}</p>\n");
    if let Some(command) = &extra.command {
        let _ = writeln!(page, "<pre><code>{}</code></pre>", escape(command));
    }
    page.push_str("</header>\n");
}

/// A page up to its header; `title` is escaped.
pub(crate) fn page_head(title: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title} \u{b7} longfat</title>\n\
         <style>\n{}{PAGE_CSS}</style>\n</head>\n<body>\n<main>\n",
        plot_css()
    )
}

/// A section with a heading and a caption; omitted if it has no content.
pub(crate) fn section(page: &mut String, heading: &str, caption: &str, content: &str) {
    if content.is_empty() {
        return;
    }
    let caption =
        if caption.is_empty() { String::new() } else { format!("<p class=\"caption\">{caption}</p>\n") };
    let _ = write!(page, "<section>\n<h2>{heading}</h2>\n{caption}{content}</section>\n");
}

/// The runs that were measured or simulated; if there are none, the model's.
fn shown_runs(summary: &Summary) -> Vec<&RunSummary> {
    let measured: Vec<&RunSummary> =
        summary.runs.iter().filter(|run| run.engine != EngineName::Model).collect();
    if measured.is_empty() { summary.runs.iter().collect() } else { measured }
}

fn comparison(page: &mut String, summary: &Summary, runs: &[LoadedRun]) {
    let drawn: Vec<&LoadedRun> =
        runs.iter().filter(|run| !run.flows.is_empty()).take(MAX_COMPARED_RUNS).collect();
    if drawn.len() < 2 {
        return;
    }
    let indexed = drawn.iter().enumerate();
    let published =
        indexed.flat_map(|(index, run)| references(&summary.published, &run.run, Some(index))).collect();
    let content = picture(&drawn, &["goodput", "cwnd", "rtt"], published);
    section(page, "The runs side by side", "Each colour is a run; the time axis is the same.", &content);
}

fn single_runs(page: &mut String, summary: &Summary, runs: &[LoadedRun]) {
    let drawn: Vec<&LoadedRun> =
        runs.iter().filter(|run| !run.flows.is_empty()).take(MAX_PLOTTED_RUNS).collect();
    for run in &drawn {
        let partial = if run.partial { ", partial: the run was cut short" } else { "" };
        let (name, id) = (escape(&detailed(&run.run)), escape(&run.run.id));
        let heading = format!("Run: {name} <span class=\"engine\">{id}{partial}</span>");
        let content = picture(
            &[*run],
            &["goodput", "cwnd", "rtt", "queue"],
            references(&summary.published, &run.run, None),
        );
        section(
            page,
            &heading,
            "From top to bottom: the goodput; the congestion window, with the receive window and the slow-start threshold; the \
             round-trip time, which grows with the queue; the queue at the slowest link. The coloured strip shows what limited the \
             flow at each moment.",
            &content,
        );
    }
}

fn picture(runs: &[&LoadedRun], metrics: &[&str], references: Vec<Reference>) -> String {
    let options = PlotOptions { references, standalone: false, ..PlotOptions::default() };
    match plot(runs, metrics, &options) {
        Ok(svg) => plot_card(&svg),
        Err(e) => format!("<p>{}</p>\n", escape(&e.to_string())),
    }
}

/// A picture in a card, which scrolls by itself on a narrow screen.
fn plot_card(svg: &str) -> String {
    format!("<div class=\"card plot\">\n{svg}</div>\n")
}

/// The published goodputs of a run. `index` is its index in a plot of several runs.
fn references(published: &[PublishedResult], run: &RunSummary, index: Option<usize>) -> Vec<Reference> {
    published
        .iter()
        .filter(|result| result.unit == "bit/s" && result.metric.ends_with("goodput"))
        .filter(|result| result.variant.is_none() || result.variant == run.variant)
        .filter_map(|result| {
            let variant = run.variant.as_ref().filter(|_| index.is_some());
            let label = variant.map_or("published".to_owned(), |name| format!("published ({name})"));
            Some(Reference { label, value_bps: result.published?, run: index })
        })
        .collect()
}

/// The first table of a record that has rows, and for an example query the expressions to select and the
/// columns to group by.
fn table_with_rows(run: &LoadedRun) -> Option<(&LoadedRun, &'static str, (&'static str, &'static str))> {
    let goodput = ("flow, avg(goodput_bps)", "flow");
    let rtt = ("flow, avg(srtt_us)", "flow");
    let has_goodput = run.flows.iter().any(|row| row.goodput_bps.is_some());
    if !run.flows.is_empty() {
        return Some((run, "flows", if has_goodput { goodput } else { rtt }));
    }
    if !run.links.is_empty() {
        return Some((run, "links", ("link, direction, max(queue_bytes)", "link, direction")));
    }
    (!run.events.is_empty()).then_some((run, "events", ("subject, kind, count(*)", "subject, kind")))
}

fn footer(page: &mut String, runs: &[LoadedRun]) {
    page.push_str("<footer>\n");
    if !runs.is_empty() {
        page.push_str("<p>The series in the plots are Parquet files in these directories:</p>\n<pre><code>");
        for run in runs {
            let _ = writeln!(page, "{}", escape(&run.path.display().to_string()));
        }
        page.push_str("</code></pre>\n");
        if let Some((run, table, query)) = runs.iter().find_map(|run| table_with_rows(run)) {
            let path = escape(&run.path.join(format!("{table}.parquet")).display().to_string());
            let _ = write!(
                page,
                "<p>For instance in Python or DuckDB:</p>\n\
                 <pre><code>import pandas as pd\n{table} = pd.read_parquet(\"{path}\")\n\n-- or\n\
                 SELECT {} FROM \"{path}\" GROUP BY {};</code></pre>\n",
                query.0, query.1
            );
        }
    }
    let seconds: f64 = runs.iter().map(|run| run.run.wall_s).sum();
    if seconds > 0.0 {
        let _ = writeln!(page, "<p>The runs took {}.</p>", number::seconds(seconds));
    }
    let _ = write!(page, "<p>Created by longfat {}.</p>\n</footer>\n", env!("CARGO_PKG_VERSION"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::{Event, EventKind, LinkSample};

    #[test]
    fn the_example_in_the_footer_opens_a_table_that_has_rows() {
        let summary: Summary = serde_json::from_str(record::EXAMPLE_SUMMARY).unwrap();
        let run = |path: &str, links: Vec<LinkSample>, events: Vec<Event>| {
            LoadedRun::from_rows(summary.clone(), path, Vec::new(), links, events)
        };
        let event = Event { time_us: 1, subject: "bulk".into(), kind: EventKind::Retransmit, value: 1 };
        let (empty, links) =
            (run("a", vec![], vec![]), run("b", vec![LinkSample::default()], vec![event.clone()]));
        let page = |runs: &[LoadedRun]| {
            let mut page = String::new();
            footer(&mut page, runs);
            page
        };
        assert!(!page(std::slice::from_ref(&empty)).contains("pandas"));
        let text = page(&[empty, links]);
        assert!(text.contains("links = pd.read_parquet(\"b/links.parquet\")"), "{text}");
        assert!(!text.contains("flows.parquet"), "{text}");
        let text = page(&[run("c", vec![], vec![event])]);
        assert!(text.contains("FROM \"c/events.parquet\" GROUP BY subject, kind"), "{text}");
    }
}
