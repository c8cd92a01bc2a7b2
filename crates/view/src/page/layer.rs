//! One table of a record as the page sees it: pyramids of the measures that were asked for, by subject (a flow, or a link's
//! direction), and the samples themselves of short spans, read from the file each time.
//!
//! Row groups are read side by side. A record that grows is read on from where it ended; one whose files changed otherwise
//! (a run that came to its end) is read anew.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rayon::prelude::*;
use record::{ColumnFile, Run, TableName, Texts};
use schema::Cause;

use super::causes::Stretches;
use super::measure::Measure;
use super::pyramid::{Block, Pyramid, blocks, means, points};

/// A table's series.
pub(crate) struct Layer {
    table: TableName,
    files: Vec<Stamp>,
    groups: Vec<Group>,
    /// The flows, or links with their direction.
    pub(crate) subjects: Vec<String>,
    /// By measure, then by subject.
    pyramids: BTreeMap<String, Vec<Pyramid>>,
    /// By subject; only of flows.
    pub(crate) stretches: Vec<Stretches>,
    /// Rows read so far.
    pub(crate) rows: u64,
    /// The last row's time.
    pub(crate) end_us: i64,
}

/// A file as it was when it was read.
#[derive(Debug, Clone, PartialEq)]
struct Stamp {
    path: PathBuf,
    bytes: u64,
    written: Option<SystemTime>,
}

/// A row group and the time that its rows span.
#[derive(Debug, Clone)]
struct Group {
    file: usize,
    number: usize,
    first_us: i64,
    last_us: i64,
}

/// A curve to draw: times in microseconds.
pub(crate) struct Curve {
    pub(crate) subject: String,
    pub(crate) measure: String,
    pub(crate) points: Vec<(i64, f64)>,
    /// Of a noisy measure, where samples are many: their means.
    pub(crate) means: Option<Vec<(i64, f64)>>,
}

/// Columns of a picture that one mean of a noisy measure is for.
const MEAN_COLUMNS: usize = 8;

impl Curve {
    fn draw(&mut self, blocks: &[Block], is_smoothed: bool, (from_us, to_us): (i64, i64), columns: usize) {
        self.points = points(blocks, from_us, to_us, columns);
        self.means = is_smoothed.then(|| means(blocks, from_us, to_us, columns / MEAN_COLUMNS)).flatten();
    }
}

/// What a row group holds of the columns wanted.
struct Rows {
    times: Vec<i64>,
    subjects: Texts,
    /// By measure, then by row.
    values: Vec<Vec<f64>>,
    /// Of flows, where wanted: the place of each row's cause.
    causes: Option<Vec<Option<u8>>>,
}

/// What became of a row group: by subject the blocks of each measure, and causes.
struct Digest {
    file: usize,
    number: usize,
    rows: u64,
    first_us: i64,
    last_us: i64,
    subjects: Vec<(String, Vec<Vec<Block>>, Vec<(i64, Option<u8>)>)>,
}

impl Layer {
    pub(crate) fn new(table: TableName) -> Self {
        Layer {
            table,
            files: Vec::new(),
            groups: Vec::new(),
            subjects: Vec::new(),
            pyramids: BTreeMap::new(),
            stretches: Vec::new(),
            rows: 0,
            end_us: 0,
        }
    }

    /// Reads what the record has by now of `measures` and of those asked for before.
    pub(crate) fn update(&mut self, run: &Run, measures: &[Measure]) -> Result<(), record::Error> {
        let stamps: Vec<Stamp> = run.files(self.table)?.into_iter().map(stamp).collect();
        let asked: Vec<String> = self.pyramids.keys().cloned().collect();
        if !stamps.starts_with(&self.files) {
            *self = Layer::new(self.table);
        }
        let known = self.files.len();
        let missing: Vec<&Measure> =
            measures.iter().filter(|m| !self.pyramids.contains_key(&m.name)).collect();
        // Of old files what is new, of new files all.
        if known > 0 && !missing.is_empty() {
            let digests = self.digest(&stamps, 0..known, &missing, false)?;
            self.take_in(digests, &missing, false);
        }
        let again = asked.iter().filter_map(|name| Measure::parse(self.table, name).ok());
        let again: Vec<Measure> = again.filter(|old| measures.iter().all(|m| m.name != old.name)).collect();
        let all: Vec<&Measure> = measures.iter().chain(&again).collect();
        if known < stamps.len() {
            let digests = self.digest(&stamps, known..stamps.len(), &all, true)?;
            self.take_in(digests, &all, true);
            self.files = stamps;
        }
        Ok(())
    }

    fn digest(
        &self,
        stamps: &[Stamp],
        files: std::ops::Range<usize>,
        measures: &[&Measure],
        is_new: bool,
    ) -> Result<Vec<Digest>, record::Error> {
        let mut tasks = Vec::new();
        for file in files {
            let groups = ColumnFile::open(&stamps[file].path)?.groups();
            tasks.extend((0..groups).map(|number| (file, number)));
        }
        let with_causes = is_new && self.table == TableName::Flows;
        let open = Reader::default;
        tasks
            .into_par_iter()
            .map_init(open, |reader, (file, number)| {
                let rows = read(reader.file(&stamps[file].path)?, self.table, number, measures, with_causes)?;
                Ok(digest(file, number, &rows, self.table == TableName::Trace))
            })
            .collect()
    }

    fn take_in(&mut self, digests: Vec<Digest>, measures: &[&Measure], is_new: bool) {
        for measure in measures {
            let count = self.subjects.len();
            self.pyramids.entry(measure.name.clone()).or_default().resize_with(count, Pyramid::default);
        }
        for digest in digests {
            if is_new {
                self.groups.push(Group {
                    file: digest.file,
                    number: digest.number,
                    first_us: digest.first_us,
                    last_us: digest.last_us,
                });
                self.rows += digest.rows;
                self.end_us = self.end_us.max(digest.last_us);
            }
            for (name, of_measures, causes) in digest.subjects {
                let subject = self.subject(name);
                for (measure, blocks) in measures.iter().zip(of_measures) {
                    if let Some(pyramids) = self.pyramids.get_mut(&measure.name) {
                        pyramids[subject].append(&blocks);
                    }
                }
                causes.into_iter().for_each(|(time_us, cause)| self.stretches[subject].push(time_us, cause));
            }
        }
    }

    fn subject(&mut self, name: String) -> usize {
        if let Some(known) = self.subjects.iter().position(|subject| *subject == name) {
            return known;
        }
        self.subjects.push(name);
        self.stretches.push(Stretches::default());
        self.pyramids.values_mut().for_each(|pyramids| pyramids.push(Pyramid::default()));
        self.subjects.len() - 1
    }

    /// The curves of `measures` (which [`Layer::update`] has read) of the subjects `wanted`, between two instants, in as many
    /// columns. Short spans are read from the file, sample by sample.
    pub(crate) fn curves(
        &self,
        measures: &[Measure],
        wanted: &[usize],
        (from_us, to_us): (i64, i64),
        columns: usize,
    ) -> Result<Vec<Curve>, record::Error> {
        let mut curves = Vec::new();
        let mut to_read: Vec<(usize, usize)> = Vec::new();
        for (place, measure) in measures.iter().enumerate() {
            for &subject in wanted {
                let pyramid = self.pyramids.get(&measure.name).and_then(|of| of.get(subject));
                let found = pyramid.and_then(|pyramid| pyramid.between(from_us, to_us, columns));
                if found.is_none() {
                    to_read.push((place, subject));
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
        let places: Vec<usize> = to_read.iter().map(|(place, _)| *place).collect();
        let needed: Vec<usize> = (0..measures.len()).filter(|place| places.contains(place)).collect();
        let samples = self.samples(
            &needed.iter().map(|p| &measures[*p]).collect::<Vec<_>>(),
            wanted,
            (from_us, to_us),
        )?;
        for (place, subject) in to_read {
            let Some(column) = needed.iter().position(|p| *p == place) else { continue };
            let Some(row) = wanted.iter().position(|s| *s == subject) else { continue };
            let found = &samples[column * wanted.len() + row];
            let is_smoothed = measures[place].is_smoothed;
            curves[place * wanted.len() + row].draw(found, is_smoothed, (from_us, to_us), columns);
        }
        Ok(curves)
    }

    /// The samples of a span with one more at either side, by measure and then by subject.
    fn samples(
        &self,
        measures: &[&Measure],
        wanted: &[usize],
        (from_us, to_us): (i64, i64),
    ) -> Result<Vec<Vec<Block>>, record::Error> {
        // A group before and one after, for the neighbours of the span.
        let first = self.groups.partition_point(|g| g.last_us < from_us).saturating_sub(1);
        let end = (self.groups.partition_point(|g| g.first_us <= to_us) + 1).min(self.groups.len());
        let is_trace = self.table == TableName::Trace;
        let parts: Vec<Rows> = self.groups[first.min(end)..end]
            .par_iter()
            .map_init(Reader::default, |reader, group| {
                read(reader.file(&self.files[group.file].path)?, self.table, group.number, measures, false)
            })
            .collect::<Result<_, record::Error>>()?;
        let mut samples = vec![Vec::new(); measures.len() * wanted.len()];
        for rows in &parts {
            let place = |name: &String| wanted.iter().position(|s| self.subjects[*s] == *name);
            let places: Vec<Option<usize>> = rows.subjects.names.iter().map(place).collect();
            for (row, time_us) in rows.times.iter().enumerate() {
                let name = rows.subjects.rows.get(row).copied().flatten();
                let Some(place) = name.and_then(|name| places[name as usize]) else { continue };
                for (measure, values) in rows.values.iter().enumerate() {
                    if is_trace && values[row].is_nan() {
                        continue;
                    }
                    let samples: &mut Vec<Block> = &mut samples[measure * wanted.len() + place];
                    if *time_us < from_us {
                        // Only the last before the span is of use.
                        samples.clear();
                    } else if samples.last().is_some_and(|last| last.low.0 > to_us) {
                        continue;
                    }
                    samples.push(Block::of(*time_us, values[row]));
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
    let times: Vec<i64> =
        file.ints(group, "time_us")?.unwrap_or_default().into_iter().map(|time| time.unwrap_or(0)).collect();
    let text = |column: &str| Ok::<_, record::Error>(file.texts(group, column)?.unwrap_or_default());
    let subjects = match table {
        TableName::Links => joined(&text("link")?, &text("direction")?),
        TableName::Events => text("subject")?,
        TableName::Flows | TableName::Trace => text("flow")?,
    };
    let kinds = if table == TableName::Trace { Some(text("kind")?) } else { None };
    let mut columns: BTreeMap<&str, Option<Vec<Option<i64>>>> = BTreeMap::new();
    for column in measures.iter().flat_map(|measure| &measure.columns) {
        if !columns.contains_key(column) {
            columns.insert(column, file.ints(group, column)?);
        }
    }
    let values = measures.iter().map(|measure| {
        let cells: Vec<Option<&[Option<i64>]>> =
            measure.columns.iter().map(|name| columns.get(name).and_then(|cells| cells.as_deref())).collect();
        measure.values(times.len(), &cells, kinds.as_ref())
    });
    let values = values.collect();
    let causes = if with_causes { Some(causes(&text("limited_by")?)) } else { None };
    Ok(Rows { times, subjects, values, causes })
}

/// `s1-s2 forward`, as events name it.
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
    let place = |name: &String| Cause::ALL.iter().position(|cause| cause.name() == name).map(|at| at as u8);
    let places: Vec<Option<u8>> = texts.names.iter().map(place).collect();
    texts.rows.iter().map(|row| row.and_then(|name| places[name as usize])).collect()
}

fn digest(file: usize, number: usize, rows: &Rows, without_gaps: bool) -> Digest {
    let mut of_subjects: Vec<Vec<usize>> = vec![Vec::new(); rows.subjects.names.len()];
    for (row, subject) in rows.subjects.rows.iter().enumerate().take(rows.times.len()) {
        if let Some(subject) = subject {
            of_subjects[*subject as usize].push(row);
        }
    }
    let subjects = rows.subjects.names.iter().zip(&of_subjects).map(|(name, own)| {
        let of_measure = |values: &Vec<f64>| {
            let samples = own.iter().map(|row| (rows.times[*row], values[*row]));
            blocks(samples.filter(|(_, value)| !(without_gaps && value.is_nan())))
        };
        let causes = rows.causes.as_ref().map(|causes| {
            own.iter().map(|row| (rows.times[*row], causes.get(*row).copied().flatten())).collect()
        });
        (name.clone(), rows.values.iter().map(of_measure).collect(), causes.unwrap_or_default())
    });
    Digest {
        file,
        number,
        rows: rows.times.len() as u64,
        subjects: subjects.collect(),
        first_us: rows.times.iter().copied().min().unwrap_or(0),
        last_us: rows.times.iter().copied().max().unwrap_or(0),
    }
}
