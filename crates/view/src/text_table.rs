//! Tables for terminals: aligned columns, and fewer of them where the terminal is narrow.

/// Drops whole columns, in the order of the headers `first`, until the lines of a table have at most `width` characters. All
/// columns stay without a width. `right` has an entry for each column.
pub(crate) fn drop_columns(
    rows: &mut [Vec<String>],
    right: &mut Vec<bool>,
    width: Option<usize>,
    first: &[&str],
) {
    let Some(width) = width else { return };
    for header in first {
        if line_width(rows) <= width {
            return;
        }
        let Some(column) = rows.first().and_then(|row| row.iter().position(|name| name == header)) else {
            continue;
        };
        rows.iter_mut().filter(|row| row.len() > column).for_each(|row| drop(row.remove(column)));
        right.remove(column);
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

/// Breaks the sentences of a text at spaces into lines of at most `width` characters, with the indentation of the first line. Rows of
/// tables (two spaces between columns) and commands (indented by four spaces or more) stay whole.
pub fn wrapped(text: &str, width: usize) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let body = line.trim_start();
        let indent = line.len() - body.len();
        if line.chars().count() <= width || indent >= 4 || body.contains("  ") {
            out.push_str(line);
            out.push('\n');
            continue;
        }
        let hanging = " ".repeat(indent + if body.starts_with("* ") { 2 } else { 0 });
        let mut current = " ".repeat(indent);
        let mut is_empty = true;
        for word in body.split(' ') {
            let needed = current.chars().count() + word.chars().count() + usize::from(!is_empty);
            if !is_empty && needed > width {
                out.push_str(&current);
                out.push('\n');
                current.clone_from(&hanging);
                is_empty = true;
            }
            if !is_empty {
                current.push(' ');
            }
            current.push_str(word);
            is_empty = false;
        }
        out.push_str(&current);
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
            let (mut rows, mut right) = (rows(), vec![false, false, true, false]);
            drop_columns(&mut rows, &mut right, width, &["ENGINE", "GOODPUT", "nothing"]);
            assert_eq!(right.contains(&true), rows[0].contains(&"GOODPUT".to_owned()));
            rows[0].join("|")
        };
        assert_eq!(line_width(&rows()), 5 + 2 + 6 + 2 + 9 + 2 + 7);
        assert_eq!(kept(None), "ID|ENGINE|GOODPUT|");
        assert_eq!(kept(Some(33)), "ID|ENGINE|GOODPUT|");
        assert_eq!(kept(Some(32)), "ID|GOODPUT|");
        assert_eq!(kept(Some(10)), "ID|");
    }

    #[test]
    fn sentences_are_broken_at_spaces_and_commands_and_tables_are_not() {
        let text = "  * the window was full for most of the time\n    sysctl -w net.ipv4.tcp_rmem=\"1 2 3\"\nID     GOODPUT  LIMITED BY\n";
        assert_eq!(
            wrapped(text, 20),
            "  * the window was\n    full for most of\n    the time\n    sysctl -w net.ipv4.tcp_rmem=\"1 2 3\"\nID     GOODPUT  LIMITED BY\n"
        );
        assert_eq!(wrapped("record: runs/a-long-name/of-a-run", 10), "record:\nruns/a-long-name/of-a-run\n");
        assert_eq!(wrapped("short\n\nlines\n", 10), "short\n\nlines\n");
    }

    #[test]
    fn an_empty_last_column_takes_no_width() {
        let mut rows = rows();
        rows[1][3].clear();
        assert_eq!(line_width(&rows), 5 + 2 + 6 + 2 + 9);
        assert!(table(&rows, &[false, false, true]).ends_with("run-1  sim     4.40 Gb/s\n"));
    }
}
