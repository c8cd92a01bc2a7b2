//! Tables for terminals: aligned columns, and fewer of them where the terminal is narrow.

/// Drops whole columns, in the order of the headers `first`, until the lines of a table have at most `width` characters. All
/// columns stay without a width.
pub(crate) fn drop_columns(rows: &mut [Vec<String>], width: Option<usize>, first: &[&str]) {
    let Some(width) = width else { return };
    for header in first {
        if line_width(rows) <= width {
            return;
        }
        let Some(column) = rows.first().and_then(|row| row.iter().position(|name| name == header)) else {
            continue;
        };
        rows.iter_mut().filter(|row| row.len() > column).for_each(|row| drop(row.remove(column)));
    }
}

/// The width of a table's longest line in characters.
pub(crate) fn line_width(rows: &[Vec<String>]) -> usize {
    let widths = widths(rows);
    widths.iter().sum::<usize>() + 2 * widths.iter().filter(|width| **width > 0).count().saturating_sub(1)
}

/// The width of each column.
fn widths(rows: &[Vec<String>]) -> Vec<usize> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let mut widths = vec![0; columns];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    widths
}

/// Pads columns to their widest cell; `right` marks the right-aligned ones. Lines have no trailing spaces.
pub fn table(rows: &[Vec<String>], right: &[bool]) -> String {
    let clean = |cell: &String| without_control(cell).replace('\n', "");
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(clean).collect()).collect();
    let widths = widths(&rows);
    let mut out = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let padding = " ".repeat(widths[column].saturating_sub(cell.chars().count()));
            if column > 0 {
                line.push_str("  ");
            }
            let is_right = right.get(column).copied().unwrap_or(false);
            line.push_str(&if is_right { padding + cell } else { cell.clone() + &padding });
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// Text without control characters except the ends of lines, so that a name cannot affect the terminal.
pub(crate) fn without_control(text: &str) -> String {
    text.chars().filter(|c| *c == '\n' || !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Vec<String>> {
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        vec![row(["ID", "ENGINE", "GOODPUT", ""]), row(["run-1", "sim", "4.40 Gb/s", "partial"])]
    }

    #[test]
    fn whole_columns_are_dropped_in_order_until_the_lines_fit() {
        let kept = |width: Option<usize>| {
            let mut rows = rows();
            drop_columns(&mut rows, width, &["ENGINE", "GOODPUT", "nothing"]);
            rows[0].join("|")
        };
        assert_eq!(line_width(&rows()), 5 + 2 + 6 + 2 + 9 + 2 + 7);
        assert_eq!(kept(None), "ID|ENGINE|GOODPUT|");
        assert_eq!(kept(Some(33)), "ID|ENGINE|GOODPUT|");
        assert_eq!(kept(Some(32)), "ID|GOODPUT|");
        assert_eq!(kept(Some(10)), "ID|");
    }

    #[test]
    fn an_empty_last_column_takes_no_width() {
        let mut rows = rows();
        rows[1][3].clear();
        assert_eq!(line_width(&rows), 5 + 2 + 6 + 2 + 9);
        assert!(table(&rows, &[false, false, true]).ends_with("run-1  sim     4.40 Gb/s\n"));
    }
}
