//! All runs that a command asks for: variants, points of sweeps, engines and repeats of a scenario file.

use guest::Image;
use scenario::{MAX_POINTS, Scenario};

use crate::{
    congestion,
    engine::Engine,
    exit::Exit,
    job::{Asked, Job, Point},
    kernel_engine, open,
};

/// What is asked for of a file.
#[derive(Default)]
pub struct Wanted<'a> {
    pub engines: &'a [Engine],
    /// Empty: all that the file has.
    pub variants: &'a [String],
    /// Path and value of each `--set`.
    pub sets: &'a [(String, String)],
    /// Fields that are swept beside those of the file, and their values.
    pub over: &'a [(String, Vec<String>)],
    /// How often, where that is not as the file says.
    pub repeat: Option<u32>,
}

/// The runs, in the order in which they are told.
pub fn jobs<'a>(asked: &'a Asked<'a>, wanted: &Wanted<'a>) -> anyhow::Result<Vec<Job<'a>>> {
    let points = points(asked, wanted)?;
    let engines: Vec<(&Engine, Option<Image>)> =
        wanted.engines.iter().map(|engine| Ok((engine, guest_of(engine)?))).collect::<anyhow::Result<_>>()?;
    let mut jobs = Vec::new();
    for variant in variants(asked, wanted.variants) {
        for (index, fields) in points.iter().enumerate() {
            let sets = [fields.as_slice(), wanted.sets].concat();
            let mut scenario = open::resolve(asked.file, asked.path, variant, &sets)?;
            congestion::check(asked.file, asked.path, variant, &sets, &scenario)?;
            let repeats = wanted.repeat.unwrap_or(scenario.repeat);
            let point = (!fields.is_empty())
                .then(|| Point { number: index + 1, values: fields.iter().cloned().collect() });
            if point.is_some() {
                // The record of one repeat of a point is the same however many there are.
                scenario.repeat = 1;
            }
            for (engine, guest) in &engines {
                if guest.is_some() {
                    kernel_engine::check(&scenario)?;
                }
                jobs.extend(repeated(&Job {
                    asked,
                    engine: (*engine).clone(),
                    guest: guest.clone(),
                    variant,
                    point: point.clone(),
                    repeat: 1,
                    repeats,
                    scenario: scenario.clone(),
                }));
            }
        }
    }
    Ok(jobs)
}

/// The kernel that an engine boots, if it does.
fn guest_of(engine: &Engine) -> anyhow::Result<Option<Image>> {
    match engine {
        Engine::Kernel(request) => kernel_engine::find(request.as_deref()).map(Some),
        Engine::Model | Engine::Sim | Engine::Lab => Ok(None),
    }
}

/// A run and its repeats, each with its seed. A closed form gives the same each time.
pub fn repeated<'a>(job: &Job<'a>) -> Vec<Job<'a>> {
    let repeats = if job.engine == Engine::Model { 1 } else { job.repeats };
    let one = |repeat: u32| {
        let seed = job.scenario.seed.wrapping_add(u64::from(repeat - 1));
        Job { repeat, scenario: Scenario { seed, ..job.scenario.clone() }, ..job.clone() }
    };
    (1..=repeats).map(one).collect()
}

/// The variants asked for; one without a name where the file has none.
fn variants<'a>(asked: &'a Asked<'a>, wanted: &'a [String]) -> Vec<Option<&'a str>> {
    let mut variants: Vec<Option<&str>> = wanted.iter().map(|v| Some(v.as_str())).collect();
    if variants.is_empty() {
        variants = asked.file.variants().map(Some).collect();
    }
    if variants.is_empty() {
        variants.push(None);
    }
    variants
}

/// The points of the file's sweeps, and at each those of the command's, as path and value of every field.
fn points(asked: &Asked<'_>, wanted: &Wanted<'_>) -> anyhow::Result<Vec<Vec<(String, String)>>> {
    let mut points = asked.file.points();
    for (field, values) in wanted.over {
        if points.iter().flatten().any(|(swept, _)| swept == field) {
            return Err(Exit::BadInput(format!("{field} is swept already")).into());
        }
        let with = |point: &Vec<(String, String)>, value: &String| {
            [point.as_slice(), &[(field.clone(), value.clone())]].concat()
        };
        if points.len() * values.len() > MAX_POINTS {
            let count = points.len() * values.len();
            return Err(Exit::BadInput(format!("{count} points; at most {MAX_POINTS} are run")).into());
        }
        points = points.iter().flat_map(|point| values.iter().map(move |value| with(point, value))).collect();
    }
    let set_too = wanted.sets.iter().find(|(set, _)| points.iter().flatten().any(|(swept, _)| swept == set));
    match set_too {
        Some((path, _)) => Err(Exit::BadInput(format!("--set {path}: this field is swept")).into()),
        None => Ok(points),
    }
}
