//! One table of a record for the page: pyramids of the requested measures by subject (a flow, or a direction
//! of a link), and the samples of short spans, which are read from the file for each request.
//!
//! Row groups are read in parallel. If a record grows, only the new parts are read; a record whose files
//! changed otherwise (a run that has finished) is read again from the start.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rayon::prelude::*;
use record::{ColumnFile, Run, TableName, Texts};
use schema::Cause;

use super::causes::CauseIntervals;
use super::measure::Measure;
use super::pyramid::{Block, Pyramid, blocks, means, points};

/// A table's series.
pub(crate) struct Layer {
    table: TableName,
    files: Vec<Stamp>,
    groups: Vec<Group>,
    /// The flows, or links with their direction.
    pub(crate) subjects: Vec<String>,
    /// The series by measure.
    series: BTreeMap<String, Read<Pyramid>>,
    /// The causes that limited flows, once requested.
    causes: Option<Read<CauseIntervals>>,
    /// Rows read so far.
    pub(crate) rows: u64,
    /// The last row's time.
    pub(crate) end_us: i64,
}

/// The state of a file when it was read.
#[derive(Debug, Clone, PartialEq)]
struct Stamp {
    path: PathBuf,
    bytes: u64,
    written: Option<SystemTime>,
}

/// A row group and the time span of its rows.
#[derive(Debug, Clone)]
struct Group {
    file: usize,
    number: usize,
    first_us: i64,
    last_us: i64,
}

/// Data computed from a table's rows: by subject, and the number of files read so far.
struct Read<T> {
    files: usize,
    by_subject: Vec<T>,
}

impl<T: Default> Read<T> {
    fn new(subjects: usize) -> Self {
        Read { files: 0, by_subject: std::iter::repeat_with(T::default).take(subjects).collect() }
    }
}

/// A curve to draw: times in microseconds.
pub(crate) struct Curve {
    pub(crate) subject: String,
    pub(crate) measure: String,
    pub(crate) points: Vec<(i64, f64)>,
    /// The means of a noisy measure with many samples.
    pub(crate) means: Option<Vec<(i64, f64)>>,
}

/// Number of columns of a chart that share one mean of a noisy measure.
const MEAN_COLUMNS: usize = 8;

impl Curve {
    fn draw(&mut self, blocks: &[Block], is_smoothed: bool, (from_us, to_us): (i64, i64), columns: usize) {
        self.points = points(blocks, from_us, to_us, columns);
        self.means = is_smoothed.then(|| means(blocks, from_us, to_us, columns / MEAN_COLUMNS)).flatten();
    }
}

/// The requested columns of a row group.
struct Rows {
    times: Vec<i64>,
    subjects: Texts,
    /// The values by measure, then by row.
    values: Vec<Vec<f64>>,
    /// If requested, each row's cause as index into [`Cause::ALL`].
    causes: Option<Vec<Option<u8>>>,
}

/// A row group to be read, and the measures to compute.
struct Task<'a> {
    file: usize,
    number: usize,
    measures: Vec<&'a Measure>,
    causes: bool,
}

/// The computed data of a row group for one subject.
struct Digest {
    subject: String,
    /// The blocks by measure.
    blocks: Vec<Vec<Block>>,
    causes: Vec<(i64, Option<u8>)>,
}

impl Layer {
    pub(crate) fn new(table: TableName) -> Self {
        Layer {
            table,
            files: Vec::new(),
            groups: Vec::new(),
            subjects: Vec::new(),
            series: BTreeMap::new(),
            causes: None,
            rows: 0,
            end_us: 0,
        }
    }

    /// Reads the new rows of `measures` (and of those requested earlier), and with `causes` what limited the
    /// flows.
    pub(crate) fn update(
        &mut self,
        run: &Run,
        measures: &[Measure],
        causes: bool,
    ) -> Result<(), record::Error> {
        let stamps: Vec<Stamp> = run.files(self.table)?.into_iter().map(stamp).collect();
        let earlier: Vec<String> = self.series.keys().cloned().collect();
        let causes = causes || self.causes.is_some();
        if !stamps.starts_with(&self.files) {
            *self = Layer::new(self.table);
        }
        self.index(stamps)?;
        let earlier = earlier.iter().filter(|name| measures.iter().all(|m| m.name != **name));
        let earlier: Vec<Measure> =
            earlier.filter_map(|name| Measure::parse(self.table, name).ok()).collect();
        let all: Vec<&Measure> = measures.iter().chain(&earlier).collect();
        let tasks: Vec<Task<'_>> =
            self.groups.iter().filter_map(|group| self.task(group, &all, causes)).collect();
        let is_trace = self.table == TableName::Trace;
        let digests: Vec<Vec<Digest>> = tasks
            .par_iter()
            .map_init(Reader::default, |reader, task| {
                let file = reader.file(&self.files[task.file].path)?;
                let rows = read(file, self.table, task.number, &task.measures, task.causes)?;
                Ok(digest(&rows, is_trace))
            })
            .collect::<Result<_, record::Error>>()?;
        let names: Vec<Vec<String>> =
            tasks.iter().map(|task| task.measures.iter().map(|m| m.name.clone()).collect()).collect();
        for measure in all {
            self.series.entry(measure.name.clone()).or_insert_with(|| Read::new(self.subjects.len()));
        }
        if causes && self.causes.is_none() {
            self.causes = Some(Read::new(self.subjects.len()));
        }
        for (names, digests) in names.iter().zip(digests) {
            digests.into_iter().for_each(|digest| self.add(names, digest));
        }
        let files = self.files.len();
        self.series.values_mut().for_each(|read| read.files = files);
        self.causes.iter_mut().for_each(|read| read.files = files);
        Ok(())
    }

    /// Finds the row groups and subjects of new files.
    fn index(&mut self, stamps: Vec<Stamp>) -> Result<(), record::Error> {
        let mut new = Vec::new();
        for (file, stamp) in stamps.iter().enumerate().skip(self.files.len()) {
            let groups = ColumnFile::open(&stamp.path)?.groups();
            new.extend((0..groups).map(|number| (file, number)));
        }
        let found: Vec<(Group, u64, Vec<String>)> = new
            .into_par_iter()
            .map_init(Reader::default, |reader, (file, number)| {
                let open = reader.file(&stamps[file].path)?;
                let (first_us, last_us) = span_us(open, number)?;
                let names = subjects(open, self.table, number)?.names;
                Ok((Group { file, number, first_us, last_us }, open.rows(number), names))
            })
            .collect::<Result<_, record::Error>>()?;
        for (group, rows, names) in found {
            self.rows += rows;
            self.end_us = self.end_us.max(group.last_us);
            self.groups.push(group);
            for name in names {
                self.subject(name);
            }
        }
        self.files = stamps;
        Ok(())
    }

    /// The data of a row group that was not read yet.
    fn task<'a>(&self, group: &Group, all: &[&'a Measure], causes: bool) -> Option<Task<'a>> {
        let is_new = |read: Option<usize>| read.is_none_or(|files| group.file >= files);
        let missing = all.iter().copied().filter(|m| is_new(self.series.get(&m.name).map(|read| read.files)));
        let measures: Vec<&Measure> = missing.collect();
        let causes = causes && is_new(self.causes.as_ref().map(|read| read.files));
        let is_empty = measures.is_empty() && !causes;
        (!is_empty).then_some(Task { file: group.file, number: group.number, measures, causes })
    }

    fn add(&mut self, measures: &[String], digest: Digest) {
        let subject = self.subject(digest.subject);
        for (name, blocks) in measures.iter().zip(digest.blocks) {
            if let Some(read) = self.series.get_mut(name) {
                read.by_subject[subject].append(&blocks);
            }
        }
        if let Some(read) = &mut self.causes {
            digest
                .causes
                .into_iter()
                .for_each(|(time_us, cause)| read.by_subject[subject].push(time_us, cause));
        }
    }

    /// The cause that limited a flow, if it was read and is known.
    pub(crate) fn cause_intervals(&self, subject: usize) -> Option<&CauseIntervals> {
        self.causes
            .as_ref()
            .and_then(|read| read.by_subject.get(subject))
            .filter(|intervals| intervals.is_known())
    }

    fn subject(&mut self, name: String) -> usize {
        if let Some(known) = self.subjects.iter().position(|subject| *subject == name) {
            return known;
        }
        self.subjects.push(name);
        self.series.values_mut().for_each(|read| read.by_subject.push(Pyramid::default()));
        self.causes.iter_mut().for_each(|read| read.by_subject.push(CauseIntervals::default()));
        self.subjects.len() - 1
    }

    /// The curves of `measures` (which [`Layer::update`] has read) for the subjects `wanted`, between two
    /// instants, in `columns` columns. Short spans are read from the file sample by sample.
    pub(crate) fn curves(
        &self,
        measures: &[Measure],
        wanted: &[usize],
        (from_us, to_us): (i64, i64),
        columns: usize,
    ) -> Result<Vec<Curve>, record::Error> {
        let mut curves = Vec::new();
        let mut to_read: Vec<(usize, usize)> = Vec::new();
        for (index, measure) in measures.iter().enumerate() {
            for &subject in wanted {
                let pyramid = self.series.get(&measure.name).and_then(|read| read.by_subject.get(subject));
                let found = pyramid.and_then(|pyramid| pyramid.between(from_us, to_us, columns));
                if found.is_none() {
                    to_read.push((index, subject));
                }
                let mut curve = Curve {
                    subject: self.subjects[subject].clone(),
                    measure: measure.name.clone(),
                    points: Vec::new(),
                    means: None,
                };
                if let Some(found) = found {
                    curve.draw(found, measure.is_smoothed, (from_us, to_us), columns);
                }
                curves.push(curve);
            }
        }
        if to_read.is_empty() {
            return Ok(curves);
        }
        let indexes: Vec<usize> = to_read.iter().map(|(index, _)| *index).collect();
        let needed: Vec<usize> = (0..measures.len()).filter(|index| indexes.contains(index)).collect();
        let samples = self.samples(
            &needed.iter().map(|p| &measures[*p]).collect::<Vec<_>>(),
            wanted,
            (from_us, to_us),
        )?;
        for (index, subject) in to_read {
            let Some(column) = needed.iter().position(|p| *p == index) else { continue };
            let Some(row) = wanted.iter().position(|s| *s == subject) else { continue };
            let found = &samples[column * wanted.len() + row];
            let is_smoothed = measures[index].is_smoothed;
            curves[index * wanted.len() + row].draw(found, is_smoothed, (from_us, to_us), columns);
        }
        Ok(curves)
    }

    /// The samples of a span and one more on each side, by measure and then by subject.
    fn samples(
        &self,
        measures: &[&Measure],
        wanted: &[usize],
        (from_us, to_us): (i64, i64),
    ) -> Result<Vec<Vec<Block>>, record::Error> {
        // Where the span begins or ends between two groups, the adjacent group has the neighbouring sample.
        let mut first = self.groups.partition_point(|g| g.last_us < from_us);
        if self.groups.get(first).is_none_or(|group| group.first_us >= from_us) {
            first = first.saturating_sub(1);
        }
        let mut end = self.groups.partition_point(|g| g.first_us <= to_us);
        if self.groups[..end].last().is_none_or(|group| group.last_us <= to_us) {
            end = (end + 1).min(self.groups.len());
        }
        let is_trace = self.table == TableName::Trace;
        let parts: Vec<Rows> = self.groups[first.min(end)..end]
            .par_iter()
            .map_init(Reader::default, |reader, group| {
                read(reader.file(&self.files[group.file].path)?, self.table, group.number, measures, false)
            })
            .collect::<Result<_, record::Error>>()?;
        let mut samples = vec![Vec::new(); measures.len() * wanted.len()];
        for rows in &parts {
            let index = |name: &String| wanted.iter().position(|s| self.subjects[*s] == *name);
            let indexes: Vec<Option<usize>> = rows.subjects.names.iter().map(index).collect();
            for (row, time_us) in rows.times.iter().enumerate() {
                let name = rows.subjects.rows.get(row).copied().flatten();
                let Some(index) = name.and_then(|name| indexes[name as usize]) else { continue };
                for (measure, values) in rows.values.iter().enumerate() {
                    if is_trace && values[row].is_nan() {
                        continue;
                    }
                    let samples: &mut Vec<Block> = &mut samples[measure * wanted.len() + index];
                    let before = samples.last().map(|last| last.low.0);
                    if *time_us < from_us {
                        // Only the last sample before the span is drawn.
                        samples.clear();
                    } else if samples.last().is_some_and(|last| last.low.0 > to_us) {
                        continue;
                    }
                    samples.push(Block::of(*time_us, values[row], before));
                }
            }
        }
        Ok(samples)
    }
}

/// Keeps the file of the last row group open for the next.
#[derive(Default)]
struct Reader {
    open: Option<(PathBuf, ColumnFile)>,
}

impl Reader {
    fn file(&mut self, path: &Path) -> Result<&ColumnFile, record::Error> {
        if self.open.as_ref().is_none_or(|(known, _)| known != path) {
            self.open = None;
        }
        let file = match self.open.take() {
            Some((_, file)) => file,
            None => ColumnFile::open(path)?,
        };
        Ok(&self.open.insert((path.to_owned(), file)).1)
    }
}

fn stamp(path: PathBuf) -> Stamp {
    let found = path.metadata().ok();
    Stamp {
        bytes: found.as_ref().map_or(0, std::fs::Metadata::len),
        written: found.and_then(|m| m.modified().ok()),
        path,
    }
}

fn read(
    file: &ColumnFile,
    table: TableName,
    group: usize,
    measures: &[&Measure],
    with_causes: bool,
) -> Result<Rows, record::Error> {
    let times = file.numbers(group, "time_us")?.unwrap_or_default().into_iter().map(|time| time as i64);
    let times: Vec<i64> = times.collect();
    let kinds = if table == TableName::Trace { file.texts(group, "kind")? } else { None };
    let mut columns: BTreeMap<&str, Option<Vec<f64>>> = BTreeMap::new();
    for column in measures.iter().flat_map(|measure| &measure.columns) {
        if !columns.contains_key(column) {
            columns.insert(column, file.numbers(group, column)?);
        }
    }
    let values = measures.iter().map(|measure| {
        let cells: Vec<Option<&[f64]>> =
            measure.columns.iter().map(|name| columns.get(name).and_then(|cells| cells.as_deref())).collect();
        measure.values(times.len(), &cells, kinds.as_ref())
    });
    let values = values.collect();
    let causes =
        if with_causes { Some(causes(&file.texts(group, "limited_by")?.unwrap_or_default())) } else { None };
    Ok(Rows { subjects: subjects(file, table, group)?, times, values, causes })
}

/// The flow, or the link with its direction, of each row.
fn subjects(file: &ColumnFile, table: TableName, group: usize) -> Result<Texts, record::Error> {
    let text = |column: &str| Ok::<_, record::Error>(file.texts(group, column)?.unwrap_or_default());
    match table {
        TableName::Links => Ok(joined(&text("link")?, &text("direction")?)),
        TableName::Events => text("subject"),
        TableName::Flows | TableName::Trace => text("flow"),
    }
}

/// The time span of a group's rows: from the file's statistics, or else from its rows.
fn span_us(file: &ColumnFile, group: usize) -> Result<(i64, i64), record::Error> {
    if let Some(span) = file.span_us(group) {
        return Ok(span);
    }
    let times = file.numbers(group, "time_us")?.unwrap_or_default();
    let first = times.iter().copied().fold(f64::INFINITY, f64::min);
    let last = times.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Ok(if times.is_empty() { (0, 0) } else { (first as i64, last as i64) })
}

/// Link and direction as events name them, `s1-s2 forward`.
fn joined(links: &Texts, directions: &Texts) -> Texts {
    let mut texts = Texts::default();
    let mut known: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    for (link, direction) in links.rows.iter().zip(&directions.rows) {
        let (Some(link), Some(direction)) = (link, direction) else {
            texts.rows.push(None);
            continue;
        };
        let number = *known.entry((*link, *direction)).or_insert_with(|| {
            let name = format!("{} {}", links.names[*link as usize], directions.names[*direction as usize]);
            texts.names.push(name);
            texts.names.len() as u32 - 1
        });
        texts.rows.push(Some(number));
    }
    texts
}

fn causes(texts: &Texts) -> Vec<Option<u8>> {
    let index = |name: &String| Cause::ALL.iter().position(|cause| cause.name() == name).map(|at| at as u8);
    let indexes: Vec<Option<u8>> = texts.names.iter().map(index).collect();
    texts.rows.iter().map(|row| row.and_then(|name| indexes[name as usize])).collect()
}

fn digest(rows: &Rows, without_gaps: bool) -> Vec<Digest> {
    let names = &rows.subjects.names;
    let mut rows_of_subjects: Vec<Vec<usize>> = vec![Vec::new(); names.len()];
    let is_alone = names.len() == 1 && !without_gaps && rows.subjects.rows.iter().all(Option::is_some);
    if !is_alone {
        for (row, subject) in rows.subjects.rows.iter().enumerate().take(rows.times.len()) {
            if let Some(subject) = subject {
                rows_of_subjects[*subject as usize].push(row);
            }
        }
    }
    let layer_of_subject = |(name, own): (&String, &Vec<usize>)| {
        let block_of_measure = |values: &Vec<f64>| {
            if is_alone {
                return blocks(&rows.times, values);
            }
            let kept = own.iter().filter(|row| !(without_gaps && values[**row].is_nan()));
            let (times, values): (Vec<i64>, Vec<f64>) =
                kept.map(|row| (rows.times[*row], values[*row])).unzip();
            blocks(&times, &values)
        };
        let cause = |row: usize| Some((*rows.times.get(row)?, *rows.causes.as_ref()?.get(row)?));
        Digest {
            subject: name.clone(),
            blocks: rows.values.iter().map(block_of_measure).collect(),
            causes: match is_alone {
                true => (0..rows.times.len()).filter_map(cause).collect(),
                false => own.iter().filter_map(|row| cause(*row)).collect(),
            },
        }
    };
    names.iter().zip(&rows_of_subjects).map(layer_of_subject).collect()
}
