//! The list of runs: one per line, with fewer columns and shorter cells on narrow terminals.

use record::RunEntry;
use schema::{FlowSummary, RunSummary};

use crate::text_table::{UNKNOWN, drop_columns, line_width, or_unknown, table, texts};
use crate::{number, words};

/// Which columns the list of runs has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunColumns {
    /// The columns that distinguish runs, and the main result.
    Short,
    /// Also the columns of the scenario file and the record's directory.
    Long,
}

/// Length of the cells of the list of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CellForm {
    Whole,
    /// For narrow terminals.
    Short,
}

/// Columns of the list of runs in the order in which they are omitted on a narrow terminal. An id contains
/// the variant and the engine.
const SHORT_LIST_DROPS: [&str; 6] = ["VARIANT", "ENGINE", "LIMITED BY", "CHANGED", "GOODPUT", "SCENARIO"];
/// Columns of the long list in the order in which they are omitted on a narrow terminal. A record's directory
/// contains the scenario and the id.
const LONG_LIST_DROPS: [&str; 8] =
    ["VARIANT", "ENGINE", "SCENARIO", "ID", "LIMITED BY", "CHANGED", "FILE", "GOODPUT"];

/// The runs, one per line, newest last.
pub fn runs(entries: &[RunEntry], columns: RunColumns, width: Option<usize>) -> String {
    if entries.is_empty() {
        return "no runs yet\n".to_owned();
    }
    let mut rows = run_rows(entries, columns, CellForm::Whole);
    if width.is_some_and(|width| line_width(&rows) > width) {
        rows = run_rows(entries, columns, CellForm::Short);
    }
    let mut right_aligned: Vec<bool> = rows[0].iter().map(|name| name == "GOODPUT").collect();
    let drop_order: &[&str] = match columns {
        RunColumns::Short => &SHORT_LIST_DROPS,
        RunColumns::Long => &LONG_LIST_DROPS,
    };
    drop_columns(&mut rows, &mut right_aligned, width, drop_order);
    table(&rows, &right_aligned)
}

/// The header and a row for each run. The column of changed fields is omitted if no run has any.
fn run_rows(entries: &[RunEntry], columns: RunColumns, form: CellForm) -> Vec<Vec<String>> {
    let mut rows =
        vec![texts(["SCENARIO", "ID", "ENGINE", "VARIANT", "CHANGED", "GOODPUT", "LIMITED BY", ""])];
    let is_long = columns == RunColumns::Long;
    if is_long {
        rows[0].extend(texts(["FILE", "RECORD"]));
    }
    for entry in entries {
        let mut row = vec![entry.scenario.clone(), entry.id.clone()];
        row.extend(match &entry.run {
            Err(_) if form == CellForm::Short => {
                texts([UNKNOWN, UNKNOWN, "", UNKNOWN, UNKNOWN, "unreadable"])
            }
            Err(e) => texts([UNKNOWN, UNKNOWN, "", UNKNOWN, UNKNOWN, &e.to_string()]),
            Ok(run) => {
                let summary = run.run();
                let main = main_flow(summary);
                vec![
                    summary.engine_label(),
                    summary.variant.clone().unwrap_or_else(|| UNKNOWN.into()),
                    changed(summary, form),
                    or_unknown(main.and_then(|flow| flow.goodput_bps), number::rate),
                    main.and_then(|flow| limits(flow, form)).unwrap_or_else(|| UNKNOWN.into()),
                    remark(entry.partial, summary),
                ]
            }
        });
        if is_long {
            let file = entry.run.as_ref().ok().and_then(|run| run.run().file.clone());
            row.push(file.unwrap_or_else(|| UNKNOWN.into()));
            row.push(entry.location());
        }
        rows.push(row);
    }
    const CHANGED: usize = 4;
    if rows.iter().skip(1).all(|row| row[CHANGED].is_empty()) {
        rows.iter_mut().for_each(|row| drop(row.remove(CHANGED)));
    }
    rows
}

/// The swept fields and those changed with `--set`, with their values; in the short form each field is named
/// by its last key.
fn changed(summary: &RunSummary, form: CellForm) -> String {
    let name = |field: &str| match form {
        CellForm::Whole => field.to_owned(),
        CellForm::Short => field.rsplit('.').next().unwrap_or_default().to_owned(),
    };
    let fields = summary.sweep.iter().chain(&summary.set);
    fields.map(|(field, value)| format!("{}={value}", name(field))).collect::<Vec<_>>().join(" ")
}

/// The cause that limited a flow; in the short form the larger of two limits.
fn limits(flow: &FlowSummary, form: CellForm) -> Option<String> {
    match (form, flow.verdict, flow.verdict_also) {
        (CellForm::Short, Some(cause), Some(_)) => Some(format!("{} \u{2026}", words::cause(cause))),
        _ => words::limits(flow),
    }
}

/// The flow that represents a run in one line: the bulk transfer with the highest goodput, or without bulk
/// transfers the flow with the highest goodput.
fn main_flow(run: &RunSummary) -> Option<&FlowSummary> {
    let rank = |flow: &FlowSummary| (flow.is_bulk_transfer(), flow.goodput_bps.unwrap_or(0.0));
    let known = run.flows.iter().filter(|flow| flow.is_bulk_transfer() || flow.goodput_bps.is_some());
    known.max_by(|a, b| rank(a).0.cmp(&rank(b).0).then(rank(a).1.total_cmp(&rank(b).1)))
}

fn remark(partial: bool, run: &RunSummary) -> String {
    match (partial, run.quality.is_reliable()) {
        (true, _) => "partial".to_owned(),
        (false, false) => "unreliable".to_owned(),
        (false, true) => String::new(),
    }
}
