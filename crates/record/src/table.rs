//! How each row type is stored in its Parquet file: the columns, and a row's cell in each.

use schema::{Cause, ColumnInfo, Event, EventKind, FlowSample, LinkSample, Metrics, TraceKind, TraceRow};

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnKind {
    /// A 64-bit integer that every row has.
    Int,
    /// A 64-bit integer that may be absent.
    OptionalInt,
    /// UTF-8 text that every row has.
    Text,
    /// UTF-8 text that may be absent.
    OptionalText,
}

impl ColumnKind {
    pub(crate) fn is_text(self) -> bool {
        matches!(self, ColumnKind::Text | ColumnKind::OptionalText)
    }

    pub(crate) fn is_optional(self) -> bool {
        matches!(self, ColumnKind::OptionalInt | ColumnKind::OptionalText)
    }
}

/// One column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) kind: ColumnKind,
    pub(crate) doc: &'static str,
}

/// A row type that can be stored. Cells are addressed by their column's index in `columns()`.
pub(crate) trait Table: Sized + Clone {
    /// The file's stem.
    const NAME: &'static str;
    /// Whether each row has the columns of [`crate::origin::Origin`]. A trace has too many rows for them.
    const HAS_ORIGIN: bool = true;
    /// All columns, in storage order.
    fn columns() -> Vec<Column>;
    /// A row without values, to be filled cell by cell.
    fn empty() -> Self;
    /// The time of the row.
    fn time_us(&self) -> i64;
    /// An integer cell.
    fn int(&self, column: usize) -> Option<i64>;
    /// Sets an integer cell.
    fn set_int(&mut self, column: usize, value: i64);
    /// A text cell.
    fn text(&self, column: usize) -> Option<&str>;
    /// Sets a text cell; the error states which text is unknown.
    fn set_text(&mut self, column: usize, value: &str) -> Result<(), String>;
}

const TIME: Column = Column { name: "time_us", kind: ColumnKind::Int, doc: "time since the run's start" };

fn metric_columns(infos: &[ColumnInfo]) -> impl Iterator<Item = Column> + '_ {
    infos.iter().map(|c| Column { name: c.name, kind: ColumnKind::OptionalInt, doc: c.doc })
}

impl Table for FlowSample {
    const NAME: &'static str = "flows";

    fn columns() -> Vec<Column> {
        let flow = Column { name: "flow", kind: ColumnKind::Text, doc: "the flow's name" };
        let limited_by = Column {
            name: "limited_by",
            kind: ColumnKind::OptionalText,
            doc: "what limited the flow in the interval that ends here",
        };
        [TIME, flow, limited_by].into_iter().chain(metric_columns(Self::COLUMNS)).collect()
    }

    fn empty() -> Self {
        Self::default()
    }

    fn time_us(&self) -> i64 {
        self.time_us
    }

    fn int(&self, column: usize) -> Option<i64> {
        if column == 0 { Some(self.time_us) } else { self.metric(column - 3) }
    }

    fn set_int(&mut self, column: usize, value: i64) {
        if column == 0 { self.time_us = value } else { self.set_metric(column - 3, Some(value)) }
    }

    fn text(&self, column: usize) -> Option<&str> {
        if column == 1 { Some(&self.flow) } else { self.limited_by.map(Cause::name) }
    }

    fn set_text(&mut self, column: usize, value: &str) -> Result<(), String> {
        if column == 1 {
            self.flow = value.to_owned();
            return Ok(());
        }
        self.limited_by = Some(Cause::from_name(value).ok_or_else(|| format!("unknown cause {value:?}"))?);
        Ok(())
    }
}

impl Table for LinkSample {
    const NAME: &'static str = "links";

    fn columns() -> Vec<Column> {
        let link = Column { name: "link", kind: ColumnKind::Text, doc: "the link's name" };
        let direction = Column { name: "direction", kind: ColumnKind::Text, doc: "forward or backward" };
        [TIME, link, direction].into_iter().chain(metric_columns(Self::COLUMNS)).collect()
    }

    fn empty() -> Self {
        Self::default()
    }

    fn time_us(&self) -> i64 {
        self.time_us
    }

    fn int(&self, column: usize) -> Option<i64> {
        if column == 0 { Some(self.time_us) } else { self.metric(column - 3) }
    }

    fn set_int(&mut self, column: usize, value: i64) {
        if column == 0 { self.time_us = value } else { self.set_metric(column - 3, Some(value)) }
    }

    fn text(&self, column: usize) -> Option<&str> {
        Some(if column == 1 { &self.link } else { self.direction.name() })
    }

    fn set_text(&mut self, column: usize, value: &str) -> Result<(), String> {
        match column {
            1 => self.link = value.to_owned(),
            _ => self.direction = value.into(),
        }
        Ok(())
    }
}

impl Table for Event {
    const NAME: &'static str = "events";

    fn columns() -> Vec<Column> {
        vec![
            TIME,
            Column {
                name: "subject",
                kind: ColumnKind::Text,
                doc: "the flow's name, or the link and direction",
            },
            Column { name: "kind", kind: ColumnKind::Text, doc: "what happened" },
            Column { name: "value", kind: ColumnKind::Int, doc: "the kind's number" },
        ]
    }

    fn empty() -> Self {
        Event { time_us: 0, subject: String::new(), kind: EventKind::Start, value: 0 }
    }

    fn time_us(&self) -> i64 {
        self.time_us
    }

    fn int(&self, column: usize) -> Option<i64> {
        Some(if column == 0 { self.time_us } else { self.value })
    }

    fn set_int(&mut self, column: usize, value: i64) {
        *(if column == 0 { &mut self.time_us } else { &mut self.value }) = value;
    }

    fn text(&self, column: usize) -> Option<&str> {
        Some(if column == 1 { &self.subject } else { self.kind.name() })
    }

    fn set_text(&mut self, column: usize, value: &str) -> Result<(), String> {
        if column == 1 {
            self.subject = value.to_owned();
            return Ok(());
        }
        self.kind = EventKind::from_name(value).ok_or_else(|| format!("unknown kind of event {value:?}"))?;
        Ok(())
    }
}

impl Table for TraceRow {
    const NAME: &'static str = "trace";
    const HAS_ORIGIN: bool = false;

    fn columns() -> Vec<Column> {
        let flow = Column { name: "flow", kind: ColumnKind::Text, doc: "the flow's name" };
        let kind = Column {
            name: "kind",
            kind: ColumnKind::Text,
            doc: "sent, retransmit, ack, or sack: an ACK with SACK blocks",
        };
        [TIME, flow, kind].into_iter().chain(metric_columns(Self::COLUMNS)).collect()
    }

    fn empty() -> Self {
        Self::default()
    }

    fn time_us(&self) -> i64 {
        self.time_us
    }

    fn int(&self, column: usize) -> Option<i64> {
        if column == 0 { Some(self.time_us) } else { self.metric(column - 3) }
    }

    fn set_int(&mut self, column: usize, value: i64) {
        if column == 0 { self.time_us = value } else { self.set_metric(column - 3, Some(value)) }
    }

    fn text(&self, column: usize) -> Option<&str> {
        Some(if column == 1 { &self.flow } else { self.kind.name() })
    }

    fn set_text(&mut self, column: usize, value: &str) -> Result<(), String> {
        if column == 1 {
            self.flow = value.to_owned();
            return Ok(());
        }
        self.kind = TraceKind::from_name(value).ok_or_else(|| format!("unknown kind of row {value:?}"))?;
        Ok(())
    }
}
