//! Tables for terminals: aligned columns, and fewer of them where the terminal is narrow.

/// Longest word that counts as the unit of a number before it, characters.
const MAX_UNIT_LENGTH: usize = 5;

/// Drops whole columns, in the order of the headers `first`, until the lines of a table have at most `width`
/// characters. All columns stay without a width. `right` has an entry for each column.
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

/// Breaks the sentences of a text at spaces into lines of at most `width` characters, each below the
/// beginning of the first. A sentence in the last column of a table (two spaces or more between columns)
/// stays in its column. Stay whole: commands (the indented lines without columns below a line that ends with
/// a colon), and lines whose last column has less than a third of the width.
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
        let start = sentence_start(line);
        if line.chars().count() <= width || is_command || start > width * 7 / 10 {
            out.push_str(line);
        } else {
            wrap_line(&mut out, line, start, width);
        }
        out.push('\n');
    }
    out
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
    fn commands_stay_whole_and_columns_keep_their_place() {
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
        let wide = "ID     GOODPUT  LIMITED BY\n";
        assert_eq!(wrapped(wide, 20), wide);
    }

    #[test]
    fn an_empty_last_column_takes_no_width() {
        let mut rows = rows();
        rows[1][3].clear();
        assert_eq!(line_width(&rows), 5 + 2 + 6 + 2 + 9);
        assert!(table(&rows, &[false, false, true]).ends_with("run-1  sim     4.40 Gb/s\n"));
    }
}
