//! The record's reference (docs/record.md) describes every column and every kind of event, in the same words.

use schema::{ColumnInfo, EventKind, FlowSample, LinkSample, Metrics, TraceKind, TraceRow};

const REFERENCE: &str = include_str!("../../../docs/record.md");

#[test]
fn every_column_is_described() {
    let all = [FlowSample::COLUMNS, LinkSample::COLUMNS, TraceRow::COLUMNS];
    for ColumnInfo { name, doc } in all.into_iter().flatten() {
        assert!(REFERENCE.contains(&format!("| `{name}` | {doc} |")), "{name} is not in docs/record.md");
    }
}

#[test]
fn every_kind_is_described_and_parsed_from_its_name() {
    for kind in EventKind::ALL {
        assert_eq!(EventKind::from_name(kind.name()), Some(kind));
        assert!(REFERENCE.contains(&format!("`{}`", kind.name())), "{kind:?} is not in docs/record.md");
    }
    for kind in TraceKind::ALL {
        assert_eq!(TraceKind::from_name(kind.name()), Some(kind));
        assert!(REFERENCE.contains(&format!("`{}`", kind.name())), "{kind:?} is not in docs/record.md");
    }
}
