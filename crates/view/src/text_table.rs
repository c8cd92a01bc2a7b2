//! Tables for terminals: aligned columns, fewer of them on narrow terminals.

/// Shown in place of an unknown figure.
pub(crate) const UNKNOWN: &str = "-";

/// Longest word that counts as the unit of a number before it, characters.
const MAX_UNIT_LENGTH: usize = 5;

/// Cells are not broken into lines shorter than this, characters.
const MIN_TEXT_WIDTH: usize = 9;

/// A figure, or [`UNKNOWN`].
pub(crate) fn or_unknown(value: Option<f64>, print: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), print)
}

/// A row of these cells.
pub(crate) fn texts<'a>(cells: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    cells.into_iter().map(str::to_owned).collect()
}

/// Drops whole columns, in the order of the headers `drop_order`, until the lines of a table have at most
/// `width` characters. A dropped column is restored if it fits after wider ones were dropped. Without a
/// width, all columns are kept. `right_aligned` has an entry for each column.
pub(crate) fn drop_columns(
    rows: &mut [Vec<String>],
    right_aligned: &mut Vec<bool>,
    width: Option<usize>,
    drop_order: &[&str],
) {
    let Some(width) = width else { return };
    let widths = widths(rows);
    let mut is_kept = vec![true; widths.len()];
    let fits = |is_kept: &[bool]| {
        let kept = widths.iter().zip(is_kept).filter_map(|(width, is_kept)| is_kept.then_some(*width));
        width_of_line(kept) <= width
    };
    let mut dropped = Vec::new();
    for header in drop_order {
        if fits(&is_kept) {
            break;
        }
        if let Some(column) = rows.first().and_then(|row| row.iter().position(|name| name == header)) {
            is_kept[column] = false;
            dropped.push(column);
        }
    }
    // The columns at the end of the order are the most important. If dropping does not suffice, all of them
    // are dropped, and the caller breaks cells into lines.
    if fits(&is_kept) {
        for column in dropped.into_iter().rev() {
            is_kept[column] = true;
            is_kept[column] = fits(&is_kept);
        }
    }
    for row in rows {
        let mut column = 0..;
        row.retain(|_| column.next().is_none_or(|column| is_kept[column]));
    }
    let mut column = 0..;
    right_aligned.retain(|_| column.next().and_then(|column| is_kept.get(column).copied()).unwrap_or(true));
}

/// The width of a table's longest line in characters.
pub(crate) fn line_width(rows: &[Vec<String>]) -> usize {
    width_of_line(widths(rows).into_iter())
}

/// The width of a line with columns of these widths: two spaces between those that are not empty.
fn width_of_line(columns: impl Iterator<Item = usize>) -> usize {
    let (sum, count) =
        columns.filter(|width| *width > 0).fold((0, 0_usize), |(sum, n), width| (sum + width, n + 1));
    sum + 2 * count.saturating_sub(1)
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

/// Pads columns to their widest cell. Lines have no trailing spaces.
pub fn table(rows: &[Vec<String>], right_aligned: &[bool]) -> String {
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
            let is_right_aligned = right_aligned.get(column).copied().unwrap_or(false);
            line.push_str(&if is_right_aligned { padding + cell } else { cell.clone() + &padding });
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// A table that is at most `width` characters wide, if its words allow it: it drops the columns of the
/// headers `drop_order`, then breaks the texts within cells, and if that is not enough shows each row as a
/// block with a line per column.
pub fn fitted(
    mut rows: Vec<Vec<String>>,
    right_aligned: &[bool],
    width: Option<usize>,
    drop_order: &[&str],
) -> String {
    let mut right_aligned = right_aligned.to_vec();
    drop_columns(&mut rows, &mut right_aligned, width, drop_order);
    let Some(width) = width.filter(|width| line_width(&rows) > *width) else {
        return table(&rows, &right_aligned);
    };
    match broken_cells(&rows, &right_aligned, width) {
        Some(rows) => table(&rows, &right_aligned),
        None => blocks(&rows, width),
    }
}

/// The rows with the texts of their left-aligned cells broken into several lines so that all fit; `None` if
/// they cannot fit.
fn broken_cells(rows: &[Vec<String>], right_aligned: &[bool], width: usize) -> Option<Vec<Vec<String>>> {
    let mut target = widths(rows);
    let longest_word = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let parts = |cell: &String| -> Vec<usize> {
            words(cell).iter().flat_map(|word| path_parts(word)).map(|part| part.chars().count()).collect()
        };
        cells.flat_map(parts).max().unwrap_or(0)
    };
    let min_widths: Vec<usize> = (0..target.len())
        .map(|column| match right_aligned.get(column) {
            Some(true) => target[column],
            _ => longest_word(column).max(MIN_TEXT_WIDTH).min(target[column]),
        })
        .collect();
    let gaps = 2 * target.iter().filter(|width| **width > 0).count().saturating_sub(1);
    while target.iter().sum::<usize>() + gaps > width {
        let spare = |column: &usize| target[*column] - min_widths[*column];
        let widest =
            (0..target.len()).filter(|column| spare(column) > 0).max_by_key(|column| target[*column])?;
        target[widest] -= 1;
    }
    let mut out = Vec::new();
    for row in rows {
        let cells: Vec<Vec<String>> =
            row.iter().zip(&target).map(|(cell, width)| lines_of(cell, *width)).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(1);
        let line = |at: usize| cells.iter().map(|cell| cell.get(at).cloned().unwrap_or_default()).collect();
        out.extend((0..height).map(line));
    }
    Some(out)
}

/// A text in lines of at most `width` characters, broken at spaces.
fn lines_of(text: &str, width: usize) -> Vec<String> {
    let mut out = String::new();
    wrap_line(&mut out, text, 0, width);
    out.lines().flat_map(|line| broken_path(line, width)).collect()
}

/// The parts of a word between which it may be broken: the keys of a path such as `flows.bulk.goodput`.
fn path_parts(word: &str) -> Vec<&str> {
    match word.starts_with(|c: char| c.is_ascii_lowercase()) {
        true => word.split_inclusive('.').collect(),
        false => vec![word],
    }
}

/// A line that is a path longer than `width`, in several lines.
fn broken_path(line: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let parts = if line.chars().count() <= width { vec![line] } else { path_parts(line) };
    for part in parts {
        let last = lines.last_mut().expect("begins with one");
        match last.is_empty() || last.chars().count() + part.chars().count() <= width {
            true => last.push_str(part),
            false => lines.push(part.to_owned()),
        }
    }
    lines
}

/// Each row as a block: its first cell, and below it a line for each other cell with its header.
fn blocks(rows: &[Vec<String>], width: usize) -> String {
    let Some((header, body)) = rows.split_first() else { return String::new() };
    let names = header.iter().skip(1).map(|name| name.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for row in body {
        let mut cells = row.iter().map(|cell| without_control(cell).replace('\n', ""));
        out.push_str(&format!("{}\n", cells.next().unwrap_or_default()));
        for (name, cell) in header.iter().skip(1).zip(cells).filter(|(_, cell)| !cell.is_empty()) {
            out.push_str(&wrapped(&format!("  {name:<names$}  {cell}"), width));
        }
    }
    out
}

/// Breaks the sentences of a text at spaces into lines of at most `width` characters, each below the
/// beginning of the first. A sentence in the last column of a table (two spaces or more between columns)
/// stays in its column; if that column has less than a third of the width, or a word that does not fit, the
/// sentence begins on the next line. Commands are not broken (the indented lines without columns below a line
/// that ends with a colon).
pub fn wrapped(text: &str, width: usize) -> String {
    let mut out = String::new();
    let mut command_indent = None;
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let is_command =
            command_indent.is_some_and(|of_colon| indent > of_colon) && !line.trim_start().contains("  ");
        if !is_command {
            command_indent = line.trim_end().ends_with(':').then_some(indent);
        }
        if is_command {
            out.push_str(line);
        } else {
            wrap_columns(&mut out, line, width);
        }
        out.push('\n');
    }
    out
}

/// Appends a line of a table or a sentence, broken into lines of at most `width` characters.
fn wrap_columns(out: &mut String, line: &str, width: usize) {
    let start = sentence_start(line);
    if line.chars().count() <= width {
        return out.push_str(line);
    }
    let column = line.trim_end().rfind("  ").map_or(0, |at| at + 2);
    let is_indent = line[..column].trim().is_empty();
    let longest_word = words(&line[column..]).into_iter().map(|word| word.chars().count()).max().unwrap_or(0);
    if (start <= width * 7 / 10 && start + longest_word <= width) || is_indent {
        return wrap_line(out, line, start, width);
    }
    wrap_columns(out, line[..column].trim_end(), width);
    let indent = line.len() - line.trim_start().len();
    let indent = " ".repeat((indent + 4).min(width / 3));
    out.push('\n');
    wrap_line(out, &format!("{indent}{}", &line[column..]), indent.len(), width);
}

/// The character at which the last column of a line begins, after a list's mark.
fn sentence_start(line: &str) -> usize {
    let gap = line.rfind("  ").map_or(0, |at| at + 2);
    let rest = &line[gap..];
    let mark = if rest.trim_start().starts_with("* ") { 2 } else { 0 };
    line[..gap].chars().count() + (rest.len() - rest.trim_start().len()) + mark
}

/// Appends a line that is broken at the spaces from the character `start` on.
fn wrap_line(out: &mut String, line: &str, start: usize, width: usize) {
    let byte = line.char_indices().nth(start).map_or(line.len(), |(at, _)| at);
    out.push_str(&line[..byte]);
    let mut column = start;
    for (index, word) in words(&line[byte..]).into_iter().enumerate() {
        let length = word.chars().count();
        if index > 0 && column + 1 + length > width {
            out.push('\n');
            out.push_str(&" ".repeat(start));
            column = start;
        } else if index > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(&word);
        column += length;
    }
}

/// The words of a sentence; a short word after a number stays with it, as in `20 %`.
fn words(sentence: &str) -> Vec<String> {
    let is_number =
        |word: &str| word.ends_with(|c: char| c.is_ascii_digit()) && !word.contains(char::is_alphabetic);
    let mut words: Vec<String> = Vec::new();
    for word in sentence.split(' ') {
        match words.last_mut() {
            Some(last) if is_number(last) && word.chars().count() <= MAX_UNIT_LENGTH => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
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
            let (mut rows, mut right_aligned) = (rows(), vec![false, false, true, false]);
            drop_columns(&mut rows, &mut right_aligned, width, &["ENGINE", "GOODPUT", "nothing"]);
            assert_eq!(right_aligned.contains(&true), rows[0].contains(&"GOODPUT".to_owned()));
            rows[0].join("|")
        };
        assert_eq!(line_width(&rows()), 5 + 2 + 6 + 2 + 9 + 2 + 7);
        assert_eq!(kept(None), "ID|ENGINE|GOODPUT|");
        assert_eq!(kept(Some(33)), "ID|ENGINE|GOODPUT|");
        assert_eq!(kept(Some(32)), "ID|GOODPUT|");
        assert_eq!(kept(Some(10)), "ID|");
    }

    #[test]
    fn a_narrow_column_is_restored_after_a_wide_one_is_dropped() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let mut rows = vec![
            row(["SCENARIO", "ID", "GOODPUT"]),
            row(["path-100mbit-100ms", "20261125T180646Z-sim-bufferbloat-2", "9.54 Mb/s"]),
        ];
        let mut right_aligned = vec![false, false, true];
        drop_columns(&mut rows, &mut right_aligned, Some(50), &["GOODPUT", "SCENARIO"]);
        assert_eq!((rows[0].join("|"), right_aligned), ("ID|GOODPUT".to_owned(), vec![false, true]));
    }

    #[test]
    fn sentences_are_broken_at_spaces() {
        let text =
            "  * the window was full for most of the time\n      not a command, as no colon is before it\n";
        assert_eq!(
            wrapped(text, 22),
            "  * the window was\n    full for most of\n    the time\n\
             \x20     not a command,\n      as no colon is\n      before it\n"
        );
        assert_eq!(wrapped("record: runs/a-long-name/of-a-run", 10), "record:\nruns/a-long-name/of-a-run\n");
        assert_eq!(wrapped("sndbuf_limited 20 % of it", 18), "sndbuf_limited\n20 % of it\n");
        assert_eq!(wrapped("short\n\nlines\n", 10), "short\n\nlines\n");
    }

    #[test]
    fn commands_are_not_broken_and_columns_stay_aligned() {
        let command = "  to fix it, on h2:\n    sysctl -w net.ipv4.tcp_rmem=\"1 2 3\"\n";
        assert_eq!(wrapped(command, 20), command);
        let after = format!("{command}  and then a sentence");
        assert!(wrapped(&after, 20).ends_with("\n  and then a\n  sentence\n"), "{}", wrapped(&after, 20));
        let below = "Names:\n  bbr  the version that is described first\n";
        assert_eq!(
            wrapped(below, 20),
            "Names:\n  bbr  the version\n       that is\n       described\n       first\n"
        );
        let listed = "ok  timer  sleeps end 53 us late, as a rule\n";
        assert_eq!(
            wrapped(listed, 24),
            "ok  timer  sleeps end\n           53 us late,\n           as a rule\n"
        );
        let narrow = "  gain = 2.88671875  how far the window grows\n";
        assert_eq!(wrapped(narrow, 24), "  gain = 2.88671875\n      how far the window\n      grows\n");
    }

    #[test]
    fn a_table_drops_columns_then_breaks_cells_then_becomes_blocks() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = vec![row(["ID", "FIGURE", "SIM"]), row(["L8", "goodput of the whole run", "4.39 Gb/s"])];
        let fitted = |width, drop: &[&str]| fitted(rows.clone(), &[false, false, true], width, drop);
        assert_eq!(fitted(None, &["ID"]), fitted(Some(39), &[]));
        assert_eq!(
            fitted(Some(35), &["ID"]),
            "FIGURE                          SIM\ngoodput of the whole run  4.39 Gb/s\n"
        );
        assert_eq!(
            fitted(Some(30), &[]),
            "ID  FIGURE                SIM\nL8  goodput of the  4.39 Gb/s\n    whole run\n"
        );
        assert_eq!(
            fitted(Some(20), &[]),
            "L8\n  FIGURE  goodput of\n          the whole\n          run\n  SIM     4.39 Gb/s\n"
        );
    }

    #[test]
    fn paths_are_broken_between_their_keys() {
        assert_eq!(lines_of("tuned: flows.bulk.goodput", 12), ["tuned:", "flows.bulk.", "goodput"]);
        assert_eq!(lines_of("4.39 Gb/s", 4), ["4.39 Gb/s"]);
    }

    #[test]
    fn an_empty_last_column_needs_no_width() {
        let mut rows = rows();
        rows[1][3].clear();
        assert_eq!(line_width(&rows), 5 + 2 + 6 + 2 + 9);
        assert!(table(&rows, &[false, false, true]).ends_with("run-1  sim     4.40 Gb/s\n"));
    }
}
