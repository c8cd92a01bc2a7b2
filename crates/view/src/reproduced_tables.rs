//! The tables of `longfat reproduce`: for terminals, and in Markdown for docs/reproduced.md.

use std::{fmt::Write, ops::Range};

use schema::{EngineCoverage, EngineName, PublishedResult, PublishedVerdict};

use crate::{
    reproduction::{
        COVERAGE_ABOUT, COVERAGE_TITLE, FigurePart, Reproduced, ReproducedFigure, figures, kernel_pairs,
    },
    table::{fitted, kernels},
    text_table::{UNKNOWN, texts},
    words,
};

/// A generated part of a Markdown page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PagePart {
    /// The tables of runs with the model or the simulator, which give the same figures each time.
    Computed,
    /// The tables of runs with real kernels only: the lab, guests, real hosts.
    RealKernels,
}

impl PagePart {
    /// The markers before and after the part.
    fn marks(self) -> [&'static str; 2] {
        match self {
            PagePart::Computed => [
                "<!-- written by longfat reproduce --markdown: begin -->\n",
                "<!-- written by longfat reproduce --markdown: end -->\n",
            ],
            PagePart::RealKernels => [
                "<!-- written by longfat reproduce --engine lab --markdown: begin -->\n",
                "<!-- written by longfat reproduce --engine lab --markdown: end -->\n",
            ],
        }
    }

    /// The start of its headings.
    fn heading(self) -> &'static str {
        match self {
            PagePart::Computed => "##",
            PagePart::RealKernels => "###",
        }
    }

    /// Whether its table of engines has a column for this engine. Tables of real kernels have columns for
    /// those that were used.
    fn has_column(self, engine: &EngineCoverage, results: &[Reproduced]) -> bool {
        let is_used = || {
            let all = results.iter().flat_map(|result| &result.engines);
            all.filter(|one| one.engine == engine.engine).any(|one| one.reliable + one.unreliable > 0)
        };
        self == PagePart::Computed || is_used()
    }
}

/// The measured quantity, as in `lab8 tuned: flows.bulk.goodput (whole run)`.
fn what(one: &ReproducedFigure) -> String {
    let variant = one.figure.variant.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
    format!("{}{variant}: {}", one.scenario, words::metric_scope(&one.figure.metric))
}

/// The cells of all engines and guest kernels.
fn engine_cells(figure: &PublishedResult, kernels: &[&str]) -> Vec<String> {
    let cell = |engine: &EngineName, kernel| {
        words::judged_figure(figure, engine, kernel).unwrap_or_else(|| UNKNOWN.to_owned())
    };
    let engines = words::PUBLISHED_ENGINES.iter().map(|(engine, _)| cell(engine, None));
    engines.chain(kernels.iter().map(|version| cell(&EngineName::Kernel, Some(version)))).collect()
}

/// The remarks about a figure: contradictions, reasons and causes.
fn remarks(one: &ReproducedFigure) -> Vec<String> {
    let figure = &one.figure;
    let faults = (!figure.faults.is_empty())
        .then(|| format!("{}: unreliable measurement: {}", what(one), figure.faults.join("; ")));
    let claim = figure.claim.as_ref().map(|text| format!("the source: {text}"));
    let contradiction =
        figure.contradiction.as_ref().map(|text| format!("the source contradicts itself: {text}"));
    let reasons = words::judged_reasons(figure).into_iter();
    claim.into_iter().chain(faults).chain(contradiction).chain(reasons).chain(figure.why.clone()).collect()
}

/// A part of the figures as rows of cells, the first with the headings.
fn rows(results: &[Reproduced], part: FigurePart) -> Vec<Vec<String>> {
    if part == FigurePart::TodaysKernel {
        return kernel_rows(results);
    }
    let part_figures = || figures(results, part).map(|(_, one)| one);
    let kernels = kernels(part_figures().map(|one| &one.figure));
    let mut heads = texts(["ID", "FIGURE", "KIND", "PUBLISHED"]);
    heads.extend(words::PUBLISHED_ENGINES.iter().map(|(_, name)| name.to_uppercase()));
    heads.extend(kernels.iter().map(|version| format!("LINUX {version}")));
    heads.push("VERDICT".into());
    let mut rows = vec![heads];
    for one in part_figures() {
        let figure = &one.figure;
        let kind = words::figure_kind(figure.kind).to_owned();
        let mut row = vec![figure.id.clone(), what(one), kind, words::published(figure)];
        row.extend(engine_cells(figure, &kernels));
        row.push(words::verdict(figure.verdict).to_owned());
        rows.push(row);
    }
    // An engine without runs has no column.
    let last = rows[0].len() - 1;
    let is_unused = |column: usize| rows[1..].iter().all(|row| row[column] == UNKNOWN);
    let unused: Vec<usize> = (4..last).rev().filter(|column| is_unused(*column)).collect();
    let needless: &[usize] = match part {
        FigurePart::Compared => &[],
        FigurePart::WithoutFigure | FigurePart::TodaysKernel => &[3, 2],
        FigurePart::Regression => &[2],
    };
    let verdict = (part == FigurePart::WithoutFigure).then_some(last);
    for column in verdict.into_iter().chain(unused).chain(needless.iter().copied()) {
        rows.iter_mut().for_each(|row| drop(row.remove(column)));
    }
    if part == FigurePart::Regression {
        rows[0][2] = "MEASURED BEFORE".into();
    }
    rows
}

/// The figures with the source's kernel and with today's as rows of cells, the first with the headings.
fn kernel_rows(results: &[Reproduced]) -> Vec<Vec<String>> {
    let kernels = kernels(figures(results, FigurePart::TodaysKernel).map(|(_, one)| &one.figure));
    let mut heads = texts(["ID", "FIGURE", "BESIDE", "SOURCE'S KERNEL", "TODAY'S KERNEL", "IN THE LAB"]);
    heads.extend(kernels.iter().map(|version| format!("LINUX {version}")));
    let mut rows = vec![heads];
    for pair in kernel_pairs(results) {
        let cell = |text: Option<String>| text.unwrap_or_else(|| UNKNOWN.to_owned());
        let figure = &pair.today.figure;
        let guest = |version: &&str| words::judged_figure(figure, &EngineName::Kernel, Some(version));
        let mut row = vec![figure.id.clone(), what(pair.today), pair.source_variant.to_owned()];
        row.extend([cell(pair.source.clone()), cell(pair.today()), cell(pair.lab())]);
        row.extend(kernels.iter().map(guest).map(cell));
        rows.push(row);
    }
    let columns = 3..rows[0].len();
    drop_unused(&mut rows, columns);
    rows
}

/// Removes those of these columns that have no figure.
fn drop_unused(rows: &mut [Vec<String>], columns: Range<usize>) {
    for column in columns.rev() {
        if rows[1..].iter().all(|row| row[column] == UNKNOWN) {
            rows.iter_mut().for_each(|row| drop(row.remove(column)));
        }
    }
}

/// The results without a run to compare with, as rows of cells.
fn facts(results: &[Reproduced]) -> Vec<Vec<String>> {
    let mut rows = vec![texts(["ID", "NOT COMPARED WITH A RUN", "REASON", "SEE"])];
    for result in results.iter().filter(|result| result.figures.is_empty()) {
        let reason = result.not_run.clone().unwrap_or_else(|| "not run".into());
        let shown = result.shown.clone().unwrap_or_default();
        rows.push(vec![result.id.clone(), result.what.clone(), reason, shown]);
    }
    rows
}

/// The figures that each engine has of each result, as rows of cells.
fn coverage(results: &[Reproduced], part: PagePart) -> Vec<Vec<String>> {
    let covered = || results.iter().filter(|result| !result.engines.is_empty());
    let Some(first) = covered().next() else { return Vec::new() };
    let columns: Vec<&EngineName> =
        first.engines.iter().filter(|one| part.has_column(one, results)).map(|one| &one.engine).collect();
    let mut heads = texts(["ID", "FIGURES"]);
    heads.extend(columns.iter().map(|engine| words::engine_heading(engine).to_uppercase()));
    let mut rows = vec![heads];
    for result in covered() {
        let mut row = vec![result.id.clone(), result.engines[0].figures.to_string()];
        let shown = result.engines.iter().filter(|one| columns.contains(&&one.engine));
        row.extend(shown.map(words::coverage));
        rows.push(row);
    }
    rows
}

/// The numbers of verdicts on the figures that are compared: unreliable ones are neither within nor missed.
fn tally(results: &[Reproduced]) -> Option<String> {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for (_, one) in figures(results, FigurePart::Compared) {
        let label = match one.figure.verdict {
            PublishedVerdict::Missed if one.figure.known_miss.is_some() => "missed, with a documented cause",
            PublishedVerdict::Missed => "missed, without a documented cause",
            other => words::verdict(other),
        };
        match counts.iter_mut().find(|(known, _)| *known == label) {
            Some((_, count)) => *count += 1,
            None => counts.push((label, 1)),
        }
    }
    let total: usize = counts.iter().map(|(_, count)| count).sum();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let parts: Vec<String> = counts.iter().map(|(label, count)| format!("{label}: {count}")).collect();
    let noun = if total == 1 { "figure" } else { "figures" };
    (total > 0).then(|| format!("Verdicts on {total} {noun}: {}.", parts.join("; ")))
}

/// All remarks, each once, in the order of the results.
fn all_remarks(results: &[Reproduced]) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for (result, one) in FigurePart::ALL.into_iter().flat_map(|part| figures(results, part)) {
        for text in remarks(one) {
            let remark = (result.id.clone(), text);
            if !all.contains(&remark) {
                all.push(remark);
            }
        }
    }
    let order = |id: &str| results.iter().position(|result| result.id == id);
    all.sort_by_key(|(id, _)| order(id));
    all
}

/// The figures in their parts, then remarks (claims, contradictions, reasons), then the results without runs.
pub fn reproduced(results: &[Reproduced], width: Option<usize>) -> String {
    let mut out = String::new();
    for part in FigurePart::ALL {
        let rows = rows(results, part);
        if rows.len() > 1 {
            let is_number =
                |name: &String| !["ID", "FIGURE", "KIND", "BESIDE", "VERDICT"].contains(&name.as_str());
            let right_aligned: Vec<bool> = rows[0].iter().map(is_number).collect();
            let gap = if out.is_empty() { "" } else { "\n" };
            let _ = write!(out, "{gap}{}\n{}", part.title(), fitted(rows, &right_aligned, width, &["KIND"]));
        }
    }
    if let Some(tally) = tally(results) {
        let _ = write!(out, "\n{tally}\n");
    }
    let remarks = all_remarks(results);
    if !remarks.is_empty() {
        out.push('\n');
        remarks.iter().for_each(|(id, text)| out.push_str(&format!("{id}: {text}\n")));
    }
    let engines = coverage(results, PagePart::Computed);
    if engines.len() > 1 {
        let right_aligned = [false, true];
        let _ = write!(out, "\n{COVERAGE_TITLE}\n{}", fitted(engines, &right_aligned, width, &[]));
    }
    let facts = facts(results);
    if facts.len() > 1 {
        let gap = if out.is_empty() { "" } else { "\n" };
        let _ = write!(out, "{gap}{}", fitted(facts, &[false; 4], width, &[]));
    }
    out
}

/// The tables of a part of a page as Markdown.
pub fn markdown(results: &[Reproduced], page_part: PagePart) -> String {
    let heading = page_part.heading();
    let mut out = String::new();
    for part in FigurePart::ALL {
        let rows = rows(results, part);
        if rows.len() > 1 {
            let (title, about) = (part.title(), part.about());
            let _ = write!(out, "{heading} {title}\n\n{about}\n\n{}\n", markdown_table(&rows));
            if let Some(tally) = tally(results).filter(|_| part == FigurePart::Compared) {
                let _ = write!(out, "{tally}\n\n");
            }
        }
    }
    let remarks = all_remarks(results);
    if !remarks.is_empty() {
        let _ = write!(out, "{heading}# Remarks\n\n");
        remarks.iter().for_each(|(id, text)| out.push_str(&format!("- {id}: {}\n", escaped(text))));
        out.push('\n');
    }
    let engines = coverage(results, page_part);
    if engines.len() > 1 {
        let table = markdown_table(&engines);
        let _ = write!(out, "{heading} {COVERAGE_TITLE}\n\n{COVERAGE_ABOUT}\n\n{table}");
    }
    let facts = facts(results);
    if facts.len() > 1 && page_part == PagePart::Computed {
        let _ = write!(out, "\n{heading} Not compared with a run\n\n{}", markdown_table(&facts));
    }
    out
}

fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

fn markdown_table(rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| {
        format!("| {} |\n", cells.iter().map(|c| escaped(c)).collect::<Vec<_>>().join(" | "))
    };
    let heads: Vec<String> =
        rows[0].iter().map(|head| if head == "ID" { "id".into() } else { head.to_lowercase() }).collect();
    let rule = "|---".repeat(heads.len()) + "|\n";
    line(&heads) + &rule + &rows[1..].iter().map(|row| line(row)).collect::<String>()
}

/// Whether a Markdown page has this generated part.
pub fn has_marks(page: &str, part: PagePart) -> bool {
    part.marks().iter().all(|mark| page.contains(mark))
}

/// The page with a generated part replaced; for a page without it, only that part, with its markers.
pub fn with_generated(page: &str, generated: &str, part: PagePart) -> String {
    let [begin, end] = part.marks();
    let Some((before, after)) =
        page.split_once(begin).and_then(|(before, rest)| Some((before, rest.split_once(end)?.1)))
    else {
        return format!("{begin}\n{generated}\n{end}");
    };
    format!("{before}{begin}\n{generated}\n{end}{after}")
}

#[cfg(test)]
mod tests {
    use schema::UncoveredFigures;

    use super::*;

    #[test]
    fn only_one_generated_part_of_a_page_is_replaced() {
        let [begin, end] = PagePart::Computed.marks();
        let [lab_begin, lab_end] = PagePart::RealKernels.marks();
        let lab = format!("{lab_begin}measured\n{lab_end}");
        let page = format!("# Title\n{begin}old\n{end}\nEnd\n{lab}");
        let replaced = with_generated(&page, "new\n", PagePart::Computed);
        assert_eq!(replaced, format!("# Title\n{begin}\nnew\n\n{end}\nEnd\n{lab}"));
        assert_eq!(with_generated(&replaced, "new\n", PagePart::Computed), replaced);
        let measured = with_generated(&replaced, "newer\n", PagePart::RealKernels);
        assert_eq!(measured, replaced.replace("measured\n", "\nnewer\n\n"));
        for part in [PagePart::Computed, PagePart::RealKernels] {
            assert!(has_marks(&with_generated("", "new\n", part), part) && !has_marks("# Title\n", part));
        }
        assert!(!has_marks(&with_generated("", "new\n", PagePart::Computed), PagePart::RealKernels));
    }

    /// A result with coverage by engine: reliable and unreliable figures of three, and a reason for the
    /// others.
    fn covered(engines: &[(EngineName, usize, usize, &str)]) -> Reproduced {
        let of = |(engine, reliable, unreliable, reason): &(EngineName, usize, usize, &str)| {
            let figures = 3 - reliable - unreliable;
            let others = vec![UncoveredFigures { reason: (*reason).into(), figures }];
            EngineCoverage {
                engine: engine.clone(),
                figures: 3,
                reliable: *reliable,
                unreliable: *unreliable,
                others: if figures > 0 { others } else { Vec::new() },
            }
        };
        Reproduced {
            id: "X-1".into(),
            what: "an experiment".into(),
            not_run: None,
            shown: None,
            engines: engines.iter().map(of).collect(),
            figures: Vec::new(),
        }
    }

    #[test]
    fn the_table_of_engines_has_their_figures_and_the_reasons_for_the_others() {
        let results = [covered(&[
            (EngineName::Model, 0, 0, "can run"),
            (EngineName::Sim, 3, 0, ""),
            (EngineName::Lab, 1, 1, "needs Linux 2.4"),
            (EngineName::Kernel, 0, 0, "needs Linux 2.4"),
        ])];
        let rows = coverage(&results, PagePart::Computed);
        assert_eq!(rows[0], ["ID", "FIGURES", "MODEL", "SIMULATED", "LAB", "GUEST KERNEL"]);
        let lab = "1 of 3; unreliable (1); needs Linux 2.4 (1)";
        assert_eq!(rows[1], ["X-1", "3", "can run", "3 of 3", lab, "needs Linux 2.4"]);
        // Tables of real kernels: only the engines that were used.
        let rows = coverage(&results, PagePart::RealKernels);
        assert_eq!(rows[0], ["ID", "FIGURES", "SIMULATED", "LAB"]);
        let page = markdown(&results, PagePart::RealKernels);
        assert!(page.contains(&format!("### {COVERAGE_TITLE}")) && page.contains(lab), "{page}");
        assert!(!page.contains("Not compared with a run"), "{page}");
        assert!(reproduced(&results, None).contains(lab));
    }
}
