//! A record's tables as comma-separated values (RFC 4180): a line of column names as in the Parquet file,
//! then one line per row. Absent cells are empty.

use crate::columns::TableName;
use crate::{Error, Run, table::Table};

impl Run {
    /// A table of this record; where `only` is not empty, only the rows of flows, links or subjects with
    /// these names.
    ///
    /// # Errors
    /// If the table cannot be read.
    pub fn csv(&self, table: TableName, only: &[String]) -> Result<String, Error> {
        Ok(match table {
            TableName::Flows => csv(&self.flows()?, only),
            TableName::Links => csv(&self.links()?, only),
            TableName::Events => csv(&self.events()?, only),
            TableName::Trace => csv(&self.trace()?, only),
        })
    }
}

/// Index of the column that names the row's flow, link or subject: the second in every table.
const SUBJECT_COLUMN: usize = 1;

fn csv<T: Table>(rows: &[T], only: &[String]) -> String {
    let columns = T::columns();
    let mut text = columns.iter().map(|column| column.name).collect::<Vec<_>>().join(",") + "\n";
    for row in rows {
        let subject = row.text(SUBJECT_COLUMN).unwrap_or_default();
        if !only.is_empty() && !only.iter().any(|name| name == subject) {
            continue;
        }
        for (index, column) in columns.iter().enumerate() {
            if index > 0 {
                text.push(',');
            }
            match column.kind.is_text() {
                true => text.push_str(&quoted(row.text(index).unwrap_or_default())),
                false => text.push_str(&row.int(index).map_or(String::new(), |n| n.to_string())),
            }
        }
        text.push('\n');
    }
    text
}

/// A text field; quoted where it has a separator, a quote or a line break.
pub(crate) fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use schema::{Event, EventKind};

    use super::*;

    #[test]
    fn rows_are_lines_and_special_characters_are_quoted() {
        let event = |subject: &str| Event {
            time_us: 5,
            subject: subject.into(),
            kind: EventKind::Retransmit,
            value: 2,
        };
        let rows = [event("a"), event("b,\"c\"")];
        assert_eq!(
            csv(&rows, &[]),
            "time_us,subject,kind,value\n5,a,retransmit,2\n5,\"b,\"\"c\"\"\",retransmit,2\n"
        );
        assert_eq!(csv(&rows, &["a".into()]), "time_us,subject,kind,value\n5,a,retransmit,2\n");
    }
}
