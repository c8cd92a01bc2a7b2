//! A record's events for charts: individually, or as a count if several of a kind fall into one column.

use std::collections::BTreeMap;

use record::{ColumnFile, Run, TableName};
use serde::Serialize;

/// An event, or several of one kind in the same column of a chart.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Mark {
    /// The flow, or the link with its direction.
    pub(crate) subject: String,
    /// The kind of event.
    pub(crate) kind: String,
    /// The time of the first, seconds.
    pub(crate) t: f64,
    /// The number of events.
    pub(crate) count: u32,
    /// The sum of their values.
    pub(crate) value: i64,
}

/// All events of a record.
#[derive(Default)]
pub(crate) struct Events {
    /// The files read: path and size.
    files: Vec<(std::path::PathBuf, u64)>,
    subjects: Vec<String>,
    kinds: Vec<String>,
    /// Time in microseconds, subject, kind, value; in order of time.
    rows: Vec<(i64, u32, u32, i64)>,
}

impl Events {
    /// Reads new events of the record.
    pub(crate) fn update(&mut self, run: &Run) -> Result<(), record::Error> {
        let size = |path: std::path::PathBuf| (path.metadata().map_or(0, |m| m.len()), path);
        let files: Vec<_> =
            run.files(TableName::Events)?.into_iter().map(size).map(|(n, path)| (path, n)).collect();
        if !files.starts_with(&self.files) {
            *self = Events::default();
        }
        let read = files[self.files.len()..].iter().try_for_each(|(path, _)| {
            let file = ColumnFile::open(path)?;
            (0..file.groups()).try_for_each(|group| self.read(&file, group))
        });
        if read.is_err() {
            // The rows before the error would be read once more.
            *self = Events::default();
            return read;
        }
        self.rows.sort_by_key(|row| row.0);
        self.files = files;
        Ok(())
    }

    fn read(&mut self, file: &ColumnFile, group: usize) -> Result<(), record::Error> {
        let ints = |column| Ok::<_, record::Error>(file.ints(group, column)?.unwrap_or_default());
        let (times, values) = (ints("time_us")?, ints("value")?);
        let subjects = file.texts(group, "subject")?.unwrap_or_default();
        let kinds = file.texts(group, "kind")?.unwrap_or_default();
        let subject_numbers: Vec<u32> =
            subjects.names.iter().map(|name| number(&mut self.subjects, name)).collect();
        let kind_numbers: Vec<u32> = kinds.names.iter().map(|name| number(&mut self.kinds, name)).collect();
        for (((time, value), subject), kind) in
            times.into_iter().zip(values).zip(subjects.rows).zip(kinds.rows)
        {
            if let (Some(time), Some(value), Some(subject), Some(kind)) = (time, value, subject, kind) {
                self.rows.push((time, subject_numbers[subject as usize], kind_numbers[kind as usize], value));
            }
        }
        Ok(())
    }

    /// The events between two instants. Those of one kind and subject in the same one of `columns` columns
    /// are one mark.
    pub(crate) fn marks(&self, (from_us, to_us): (i64, i64), columns: usize) -> Vec<Mark> {
        let first = self.rows.partition_point(|row| row.0 < from_us);
        let end = self.rows.partition_point(|row| row.0 <= to_us);
        let width = to_us.saturating_sub(from_us).max(1) as f64 / columns.max(1) as f64;
        let mut found: BTreeMap<(u32, u32, u64), Mark> = BTreeMap::new();
        for (time_us, subject, kind, value) in &self.rows[first.min(end)..end] {
            let column = (time_us.saturating_sub(from_us) as f64 / width) as u64;
            let mark = found.entry((*subject, *kind, column)).or_insert_with(|| Mark {
                subject: self.subjects[*subject as usize].clone(),
                kind: self.kinds[*kind as usize].clone(),
                t: *time_us as f64 / 1e6,
                count: 0,
                value: 0,
            });
            mark.count += 1;
            mark.value = mark.value.saturating_add(*value);
        }
        let mut marks: Vec<Mark> = found.into_values().collect();
        marks.sort_by(|a, b| a.t.total_cmp(&b.t));
        marks
    }
}

fn number(names: &mut Vec<String>, name: &str) -> u32 {
    let known = names.iter().position(|known| known == name);
    known.unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    }) as u32
}

#[cfg(test)]
mod tests {
    use schema::{Event, EventKind};

    use super::*;

    /// As of a run that ends while its parts are read.
    #[test]
    fn events_count_once_after_an_error() {
        let runs = tempfile::tempdir().unwrap();
        let summary = serde_json::from_str(record::EXAMPLE_SUMMARY).unwrap();
        let mut writer =
            record::Writer::create(runs.path(), "x", "20261121T040000Z-lab", "", &summary).unwrap();
        for time_us in [10_000_000, 100_000_000] {
            let event = Event { time_us, subject: "a".into(), kind: EventKind::Retransmit, value: 1 };
            writer.append(&[], &[], &[event]).unwrap();
        }
        let run = Run::open(writer.path()).unwrap();
        let last = run.files(TableName::Events).unwrap().pop().unwrap();
        let content = std::fs::read(&last).unwrap();
        let mut events = Events::default();
        std::fs::write(&last, "").unwrap();
        assert!(events.update(&run).is_err());
        std::fs::write(&last, content).unwrap();
        events.update(&run).unwrap();
        let counts: Vec<u32> = events.marks((0, 200_000_000), 2).iter().map(|mark| mark.count).collect();
        assert_eq!(counts, [1, 1]);
    }
}
