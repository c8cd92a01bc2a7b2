//! Tables and sentences that are printed as text and shown in a report as HTML.

use std::fmt::Write;

use crate::escape::escape;
use crate::table::table;

/// A part of a result.
pub(crate) enum Part {
    /// Rows of cells, the first row being the header; `right_aligned` has an entry for each column.
    Table { rows: Vec<Vec<String>>, right_aligned: Vec<bool> },
    /// Lines.
    Lines(String),
}

/// The parts as text.
pub(crate) fn as_text(parts: &[Part]) -> String {
    let text = |part: &Part| match part {
        Part::Table { rows, right_aligned } => table(rows, right_aligned),
        Part::Lines(lines) => lines.clone(),
    };
    parts.iter().map(text).collect()
}

/// The parts as HTML: tables, and a paragraph per line.
pub(crate) fn as_html(parts: &[Part]) -> String {
    let mut html = String::new();
    for part in parts {
        match part {
            Part::Table { rows, right_aligned } => html_table(&mut html, rows, right_aligned),
            Part::Lines(lines) => {
                for line in lines.lines().filter(|line| !line.trim().is_empty()) {
                    let _ = writeln!(html, "<p>{}</p>", escape(line.trim()));
                }
            }
        }
    }
    html
}

fn html_table(html: &mut String, rows: &[Vec<String>], right_aligned: &[bool]) {
    let Some((header, body)) = rows.split_first() else { return };
    let class = |column: usize| {
        if right_aligned.get(column).copied().unwrap_or_default() { " class=\"n\"" } else { "" }
    };
    html.push_str("<div class=\"card scroll\">\n<table>\n<thead><tr>");
    for (column, cell) in header.iter().enumerate() {
        let _ = write!(html, "<th{}>{}</th>", class(column), escape(&cell.to_lowercase()));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for row in body {
        html.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            let _ = write!(html, "<td{}>{}</td>", class(column), escape(cell));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody>\n</table>\n</div>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_printed_as_text_and_as_html() {
        let parts = [
            Part::Table {
                rows: vec![vec!["ENGINE".into(), "LOSS".into()], vec!["<sim>".into(), "0.1".into()]],
                right_aligned: vec![false, true],
            },
            Part::Lines("knee at 64 kB\n\n  the window law\n".into()),
        ];
        let text = as_text(&parts);
        assert!(text.starts_with("ENGINE  LOSS\n<sim>    0.1\n"), "{text}");
        assert!(text.ends_with("knee at 64 kB\n\n  the window law\n"));
        let html = as_html(&parts);
        assert!(html.contains("<th>engine</th><th class=\"n\">loss</th>"), "{html}");
        assert!(html.contains("<td>&lt;sim&gt;</td><td class=\"n\">0.1</td>"), "{html}");
        assert!(html.ends_with("<p>knee at 64 kB</p>\n<p>the window law</p>\n"), "{html}");
    }
}
