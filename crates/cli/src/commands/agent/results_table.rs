//! The table of `longfat agent results`.

use agent::TestRow;
use view::{number, table};

use super::text::{UNKNOWN, instant, kind};

/// The columns that a narrow terminal lacks, the least important first.
const DROP_ORDER: [&str; 5] = ["CAPACITY", "HOPS", "PATH MTU", "AVAILABLE", "LIMIT OR REASON"];

/// The columns, from left to right. Rates have their unit in the cell.
const COLUMNS: &[Column] = &[
    Column::text("RESERVATION", |row| Some(row.id.clone())),
    Column::text("START (UTC)", |row| Some(instant(row.start_us))),
    Column::text("FROM", |row| Some(row.from.clone())),
    Column::text("TO", |row| Some(row.to.clone())),
    Column::text("KIND", |row| Some(kind(row))),
    Column::text("STATE", |row| Some(row.state.name().replace('_', " "))),
    Column::figure("GOODPUT", |row| row.figures.goodput_bps.map(number::rate)),
    Column::figure("LOSS", |row| row.figures.loss_share.map(number::share)),
    Column::figure("MIN RTT", |row| row.figures.min_rtt_us.map(number::rounded_micros)),
    Column::figure("AVAILABLE", |row| row.figures.available_bps.map(number::rate)),
    Column::figure("CAPACITY", |row| row.figures.capacity_bps.map(number::rate)),
    // In whole bytes: 1492 and 1500 must not both be 1.5 kB.
    Column::figure("PATH MTU", |row| row.figures.mtu_bytes.map(|bytes| format!("{bytes} B"))),
    Column::figure("HOPS", |row| row.figures.hops.map(|hops| hops.to_string())),
    Column::text("LIMIT OR REASON", limit_or_reason),
];

/// The cell of a test in a column; `None` if the test has no value there.
type Cell = fn(&TestRow) -> Option<String>;

/// A column of the table.
struct Column {
    header: &'static str,
    is_right_aligned: bool,
    cell: Cell,
}

impl Column {
    const fn text(header: &'static str, cell: Cell) -> Column {
        Column { header, is_right_aligned: false, cell }
    }

    const fn figure(header: &'static str, cell: Cell) -> Column {
        Column { header, is_right_aligned: true, cell }
    }

    fn is_used(&self, rows: &[TestRow]) -> bool {
        rows.iter().any(|row| (self.cell)(row).is_some())
    }
}

/// Why the test has no result, or what limited it.
fn limit_or_reason(row: &TestRow) -> Option<String> {
    let limited_by = row.figures.verdict.as_ref().map(|verdict| verdict.replace('_', " "));
    row.reason.clone().or(limited_by)
}

/// The tests, a line each. A column without a value in any line is omitted: each kind of test has other
/// figures.
pub(super) fn results_table(rows: &[TestRow], width: Option<usize>) -> String {
    if rows.is_empty() {
        return "no tests".into();
    }
    let columns: Vec<&Column> = COLUMNS.iter().filter(|column| column.is_used(rows)).collect();
    let mut lines: Vec<Vec<String>> = vec![columns.iter().map(|column| column.header.to_owned()).collect()];
    for row in rows {
        let cells = columns.iter().map(|column| (column.cell)(row).unwrap_or_else(|| UNKNOWN.into()));
        lines.push(cells.collect());
    }
    let is_right_aligned: Vec<bool> = columns.iter().map(|column| column.is_right_aligned).collect();
    table::fitted(lines, &is_right_aligned, width, &DROP_ORDER).trim_end().to_string()
}

#[cfg(test)]
mod tests {
    use agent::{Figures, State};

    use super::*;

    fn row(kind: &str, figures: Figures) -> TestRow {
        TestRow {
            id: "a/1".into(),
            from: "a".into(),
            to: "b".into(),
            kind: kind.into(),
            options: None,
            task: None,
            start_us: 0,
            duration_us: 10_000_000,
            state: State::Finished,
            reason: None,
            reason_kind: None,
            figures,
            record: None,
        }
    }

    fn throughput() -> TestRow {
        let (goodput_bps, loss_share) = (Some(941e6), Some(0.0001));
        let verdict = Some("path_rate".into());
        row("throughput", Figures { goodput_bps, loss_share, verdict, ..Figures::default() })
    }

    fn probe() -> TestRow {
        row("probe", Figures { available_bps: Some(8e8), capacity_bps: Some(1e9), ..Figures::default() })
    }

    fn trace() -> TestRow {
        let (min_rtt_us, mtu_bytes, hops) = (Some(12_400.0), Some(1492), Some(3));
        row("trace", Figures { min_rtt_us, mtu_bytes, hops, ..Figures::default() })
    }

    /// The cells of each line right of the state.
    fn figures(rows: &[TestRow], width: Option<usize>) -> Vec<Vec<String>> {
        let table = results_table(rows, width);
        let cells = |line: &str| -> Vec<String> {
            let cells = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
            cells.skip(6).map(str::to_owned).collect()
        };
        table.lines().map(cells).collect()
    }

    #[test]
    fn a_figure_has_a_column_if_a_test_has_it() {
        assert_eq!(
            figures(&[throughput()], None),
            [["GOODPUT", "LOSS", "LIMIT OR REASON"], ["941 Mb/s", "<0.1 %", "path rate"]]
        );
        assert_eq!(figures(&[probe()], None), [["AVAILABLE", "CAPACITY"], ["800 Mb/s", "1.00 Gb/s"]]);
        assert_eq!(figures(&[trace()], None), [["MIN RTT", "PATH MTU", "HOPS"], ["12.4 ms", "1492 B", "3"]]);
        assert_eq!(
            figures(&[trace(), throughput()], None),
            [
                ["GOODPUT", "LOSS", "MIN RTT", "PATH MTU", "HOPS", "LIMIT OR REASON"],
                ["-", "-", "12.4 ms", "1492 B", "3", "-"],
                ["941 Mb/s", "<0.1 %", "-", "-", "-", "path rate"],
            ]
        );
    }

    #[test]
    fn tests_without_figures_have_the_reason() {
        let not_run = TestRow {
            state: State::NotRun,
            reason: Some("cancelled at a: not needed".into()),
            ..row("trace", Figures::default())
        };
        assert_eq!(figures(&[not_run], None), [["LIMIT OR REASON"], ["cancelled at a: not needed"]]);
        assert_eq!(results_table(&[], None), "no tests");
    }

    #[test]
    fn a_narrow_terminal_shows_the_limit_before_the_capacity() {
        let rows = [throughput(), probe(), trace()];
        let header = |width| figures(&rows, width).swap_remove(0);
        let all =
            ["GOODPUT", "LOSS", "MIN RTT", "AVAILABLE", "CAPACITY", "PATH MTU", "HOPS", "LIMIT OR REASON"];
        assert_eq!(header(None), all);
        let kept = ["GOODPUT", "LOSS", "MIN RTT", "AVAILABLE", "PATH MTU", "LIMIT OR REASON"];
        assert_eq!(header(Some(130)), kept);
        assert!(results_table(&rows, Some(130)).lines().all(|line| line.chars().count() <= 130));
    }
}
