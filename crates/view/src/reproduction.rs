//! The page of `longfat reproduce`: all published results, then the scenarios with their tables and plots.

use std::fmt::Write;

use schema::{EngineCoverage, EngineName, FigureKind, PublishedResult};
use serde::Serialize;

use crate::escape::escape;
use crate::html_table::HtmlTable;
use crate::report::{ReportExtra, page_head, section};
use crate::report_parts::published_table;
use crate::words;

/// A published result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reproduced {
    /// Its id.
    pub id: String,
    /// A short description.
    pub what: String,
    /// Why no run is compared with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_run: Option<String>,
    /// The evidence of a result without runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shown: Option<String>,
    /// The figures that each engine has, and why it has no others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub engines: Vec<EngineCoverage>,
    /// Its figures beside those of the runs.
    pub figures: Vec<ReproducedFigure>,
}

/// The title of the table of engines and results.
pub(crate) const COVERAGE_TITLE: &str = "Which engine has which figures";
/// The explanation of that table.
pub(crate) const COVERAGE_ABOUT: &str = "For each result: how many of its figures each engine computed or measured reliably, and why it has no others. \
     \u{201c}Can run\u{201d}: the engine was not requested here. Unreliable figures count as neither within nor missed.";

/// A figure of a published result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReproducedFigure {
    /// The scenario of the run's figure.
    pub scenario: String,
    /// The published figure and the run's.
    #[serde(flatten)]
    pub figure: PublishedResult,
}

/// The page; `sections` are the scenarios' sections, see [`crate::scenario_section`].
pub fn reproduction(results: &[Reproduced], sections: &[String], extra: &ReportExtra) -> String {
    let mut page = page_head("Published results, reproduced");
    page.push_str("<header>\n<h1>Published results, reproduced</h1>\n");
    if let Some(created) = &extra.created {
        let _ = writeln!(page, "<p class=\"facts\"><span>report of {}</span></p>", escape(created));
    }
    if let Some(command) = &extra.command {
        let _ = writeln!(page, "<pre><code>{}</code></pre>", escape(command));
    }
    page.push_str("</header>\n");
    for part in FigurePart::ALL {
        let figures: Vec<PublishedResult> =
            figures(results, part).map(|(_, one)| one.figure.clone()).collect();
        if !figures.is_empty() {
            let table = match part {
                FigurePart::TodaysKernel => kernel_table(results),
                _ => published_table(&figures),
            };
            section(&mut page, part.title(), part.about(), &table);
        }
    }
    section(&mut page, COVERAGE_TITLE, COVERAGE_ABOUT, &coverage_table(results));
    section(&mut page, "Not compared with a run", "", &facts(results));
    sections.iter().for_each(|section| page.push_str(section));
    let _ = write!(
        page,
        "<footer>\n<p>Created by longfat {}.</p>\n</footer>\n</main>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION")
    );
    page
}

/// The parts of the list of figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FigurePart {
    /// Figures and claims of the sources, and figures derived from them.
    Compared,
    /// Experiments for which the source has no figure.
    WithoutFigure,
    /// Experiments of the sources with today's kernel, beside those with the source's.
    TodaysKernel,
    /// Figures that this project measured.
    Regression,
}

impl FigurePart {
    pub(crate) const ALL: [FigurePart; 4] =
        [FigurePart::Compared, FigurePart::WithoutFigure, FigurePart::TodaysKernel, FigurePart::Regression];

    fn of(figure: &PublishedResult) -> Self {
        match figure.kind {
            FigureKind::MeasuredByUs => FigurePart::Regression,
            _ if figure.beside.is_some() => FigurePart::TodaysKernel,
            _ if figure.published.is_none() => FigurePart::WithoutFigure,
            _ => FigurePart::Compared,
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            FigurePart::Compared => "Published and derived figures beside ours",
            FigurePart::WithoutFigure => "Experiments without a figure in the source",
            FigurePart::TodaysKernel => "Today\u{2019}s kernel beside the source\u{2019}s",
            FigurePart::Regression => "Regression figures, measured by this project",
        }
    }

    pub(crate) fn about(self) -> &'static str {
        match self {
            FigurePart::Compared => {
                "Published: the source prints the figure or states the claim. Derived: computed from the source\u{2019}s own formula \
                 or figures. Each engine is judged, and the worst verdict of those that apply is the row\u{2019}s. \
                 \u{201c}Contradicts itself\u{201d}: the source\u{2019}s figure contradicts other statements of the source, with which our figure agrees."
            }
            FigurePart::WithoutFigure => "There is nothing to compare these with.",
            FigurePart::TodaysKernel => {
                "The same experiments with the kernel of the source (simulated) and with today\u{2019}s (simulated, and in the lab if it was \
                 run). The sources are older than today\u{2019}s kernel, so they have no figure for it."
            }
            FigurePart::Regression => {
                "No reproduction: these compare this program with an earlier measurement."
            }
        }
    }
}

/// A figure with today's kernel and that with the source's.
pub(crate) struct KernelPair<'a> {
    /// The figure with today's kernel.
    pub(crate) today: &'a ReproducedFigure,
    /// The variant with the source's kernel.
    pub(crate) source_variant: &'a str,
    /// Our figure with the source's kernel in its unit; `None` without a run.
    pub(crate) source: Option<String>,
}

impl KernelPair<'_> {
    /// Our figure with today's kernel in its unit; `None` without a run.
    pub(crate) fn today(&self) -> Option<String> {
        simulated(self.today)
    }

    /// The lab's figure with today's kernel; `None` without a run.
    pub(crate) fn lab(&self) -> Option<String> {
        words::judged_figure(&self.today.figure, &EngineName::Lab, None)
    }
}

fn simulated(one: &ReproducedFigure) -> Option<String> {
    one.figure.sim.map(|value| words::figure(value, &one.figure.unit))
}

/// The figures with today's kernel, each with that of the same metric with the source's.
pub(crate) fn kernel_pairs(results: &[Reproduced]) -> impl Iterator<Item = KernelPair<'_>> {
    figures(results, FigurePart::TodaysKernel).filter_map(|(result, today)| {
        let source_variant = today.figure.beside.as_deref()?;
        let is_source = |other: &&ReproducedFigure| {
            other.scenario == today.scenario
                && other.figure.metric == today.figure.metric
                && other.figure.variant.as_deref() == Some(source_variant)
        };
        let source = result.figures.iter().find(is_source).and_then(simulated);
        Some(KernelPair { today, source_variant, source })
    })
}

/// The figures of one part, each with its result.
pub(crate) fn figures(
    results: &[Reproduced],
    part: FigurePart,
) -> impl Iterator<Item = (&Reproduced, &ReproducedFigure)> {
    let all = results.iter().flat_map(|result| result.figures.iter().map(move |one| (result, one)));
    all.filter(move |(_, one)| FigurePart::of(&one.figure) == part)
}

fn facts(results: &[Reproduced]) -> String {
    let mut items = String::new();
    for result in results {
        let Some(reason) = &result.not_run else { continue };
        let shown = result.shown.as_ref().map(|by| format!(" (see {})", escape(by))).unwrap_or_default();
        let _ = writeln!(
            items,
            "<li><b>{}</b> {}: {}{shown}</li>",
            escape(&result.id),
            escape(&result.what),
            escape(reason)
        );
    }
    if items.is_empty() { items } else { format!("<ul>\n{items}</ul>\n") }
}

/// The figures that each engine has of each result, and why it has no others.
fn coverage_table(results: &[Reproduced]) -> String {
    let covered = || results.iter().filter(|result| !result.engines.is_empty());
    let Some(first) = covered().next() else { return String::new() };
    let mut table = HtmlTable::new(&["", "figures"]);
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
fn kernel_table(results: &[Reproduced]) -> String {
    let pairs: Vec<KernelPair<'_>> = kernel_pairs(results).collect();
    let has_lab = pairs.iter().any(|pair| pair.lab().is_some());
    let mut table = HtmlTable::new(&[""]);
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
