//! HTML tables of the report.

use std::fmt::Write;

use crate::escape::escape;

/// Builds an HTML table. Headings are text, cells are HTML.
pub(crate) struct HtmlTable {
    head: String,
    body: String,
    row: String,
}

impl HtmlTable {
    /// A table with these leading columns.
    pub(crate) fn new(head: &[&str]) -> Self {
        let mut table = HtmlTable { head: String::new(), body: String::new(), row: String::new() };
        table.head(head.iter().take(1).copied(), false);
        // "published" is a number; the other leading columns are text.
        for name in &head[1..] {
            table.head([*name], *name == "published");
        }
        table
    }

    /// Adds columns.
    pub(crate) fn head<'a>(&mut self, names: impl IntoIterator<Item = &'a str>, numbers: bool) {
        let class = if numbers { " class=\"n\"" } else { "" };
        for name in names {
            let _ = write!(self.head, "<th{class}>{}</th>", escape(name));
        }
    }

    /// Adds a cell to the row.
    pub(crate) fn cell(&mut self, html: &str) {
        let _ = write!(self.row, "<td>{html}</td>");
    }

    /// Adds a number to the row.
    pub(crate) fn number(&mut self, html: &str) {
        self.classed("n", html);
    }

    /// Adds a cell of a CSS class to the row.
    pub(crate) fn classed(&mut self, class: &str, html: &str) {
        let _ = write!(self.row, "<td class=\"{class}\">{html}</td>");
    }

    /// Begins the next row.
    pub(crate) fn end_row(&mut self) {
        let _ = writeln!(self.body, "<tr>{}</tr>", std::mem::take(&mut self.row));
    }

    /// The table; empty if it has no rows.
    pub(crate) fn finish(self) -> String {
        if self.body.is_empty() {
            return String::new();
        }
        format!(
            "<div class=\"card scroll\">\n<table>\n<thead><tr>{}</tr></thead>\n<tbody>\n{}</tbody>\n</table>\n</div>\n",
            self.head, self.body
        )
    }
}
