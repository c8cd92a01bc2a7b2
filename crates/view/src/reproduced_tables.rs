//! The tables of `longfat reproduce`: for terminals, and in Markdown for docs/reproduced.md.

use std::fmt::Write;

use schema::{EngineName, PublishedResult};

use crate::{
    reproduction::{FigurePart, Reproduced, ReproducedFigure, figures, kernel_pairs},
    table::{fitted, kernels},
    text_table::{UNKNOWN, texts},
    words,
};

/// The markers before and after the generated part of a Markdown page.
const MARKS: [&str; 2] = [
    "<!-- written by longfat reproduce --markdown: begin -->\n",
    "<!-- written by longfat reproduce --markdown: end -->\n",
];

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
    let mut rows = vec![texts(["ID", "FIGURE", "BESIDE", "SOURCE'S KERNEL", "TODAY'S KERNEL"])];
    for pair in kernel_pairs(results) {
        let cell = |text: Option<String>| text.unwrap_or_else(|| UNKNOWN.to_owned());
        let id = pair.today.figure.id.clone();
        let (today, beside) = (pair.today(), pair.source_variant.to_owned());
        rows.push(vec![id, what(pair.today), beside, cell(pair.source), cell(today)]);
    }
    rows
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
    let remarks = all_remarks(results);
    if !remarks.is_empty() {
        out.push('\n');
        remarks.iter().for_each(|(id, text)| out.push_str(&format!("{id}: {text}\n")));
    }
    let facts = facts(results);
    if facts.len() > 1 {
        let gap = if out.is_empty() { "" } else { "\n" };
        let _ = write!(out, "{gap}{}", fitted(facts, &[false; 4], width, &[]));
    }
    out
}

/// The tables as Markdown, below headings of the second level.
pub fn markdown(results: &[Reproduced]) -> String {
    let mut out = String::new();
    for part in FigurePart::ALL {
        let rows = rows(results, part);
        if rows.len() > 1 {
            let _ = write!(out, "## {}\n\n{}\n\n{}\n", part.title(), part.about(), markdown_table(&rows));
        }
    }
    let remarks = all_remarks(results);
    if !remarks.is_empty() {
        out.push_str("### Remarks\n\n");
        remarks.iter().for_each(|(id, text)| out.push_str(&format!("- {id}: {}\n", escaped(text))));
        out.push('\n');
    }
    let facts = facts(results);
    if facts.len() > 1 {
        let _ = write!(out, "## Not compared with a run\n\n{}", markdown_table(&facts));
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

/// Whether a Markdown page has a generated part.
pub fn has_marks(page: &str) -> bool {
    MARKS.iter().all(|mark| page.contains(mark))
}

/// The page with its generated part replaced; for a page without one, only that part, with its markers.
pub fn with_generated(page: &str, generated: &str) -> String {
    let [begin, end] = MARKS;
    let Some((before, after)) =
        page.split_once(begin).and_then(|(before, rest)| Some((before, rest.split_once(end)?.1)))
    else {
        return format!("{begin}\n{generated}\n{end}");
    };
    format!("{before}{begin}\n{generated}\n{end}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_generated_part_of_a_page_is_replaced() {
        let page = format!("# Title\n{}old\n{}\nEnd\n", MARKS[0], MARKS[1]);
        let replaced = with_generated(&page, "new\n");
        assert_eq!(replaced, format!("# Title\n{}\nnew\n\n{}\nEnd\n", MARKS[0], MARKS[1]));
        assert_eq!(with_generated(&replaced, "new\n"), replaced);
        assert!(has_marks(&with_generated("", "new\n")) && !has_marks("# Title\n"));
    }
}
