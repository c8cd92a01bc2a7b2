//! All runs that a command asks for: variants, engines and repeats of a scenario file.

use scenario::Scenario;

use crate::{
    congestion,
    engine::Engine,
    job::{Asked, Job},
    open,
};

/// What is asked for of a file.
pub struct Wanted<'a> {
    pub engines: &'a [Engine],
    /// Empty: all that the file has.
    pub variants: &'a [String],
    /// Path and value of each `--set`.
    pub sets: &'a [(String, String)],
}

/// The runs, in the order in which they are told.
pub fn jobs<'a>(asked: &'a Asked<'a>, wanted: &Wanted<'a>) -> anyhow::Result<Vec<Job<'a>>> {
    let mut jobs = Vec::new();
    for variant in variants(asked, wanted) {
        let scenario = open::resolve(asked.file, asked.path, variant, wanted.sets)?;
        congestion::check(asked.file, asked.path, variant, wanted.sets, &scenario)?;
        for &engine in wanted.engines {
            // A closed form gives the same each time.
            let repeats = if engine == Engine::Model { 1 } else { scenario.repeat };
            for repeat in 1..=repeats {
                let seed = scenario.seed.wrapping_add(u64::from(repeat - 1));
                let scenario = Scenario { seed, ..scenario.clone() };
                jobs.push(Job { asked, engine, variant, point: None, repeat, scenario });
            }
        }
    }
    Ok(jobs)
}

/// The variants asked for; one without a name where the file has none.
fn variants<'a>(asked: &'a Asked<'a>, wanted: &Wanted<'a>) -> Vec<Option<&'a str>> {
    let mut variants: Vec<Option<&str>> = wanted.variants.iter().map(|v| Some(v.as_str())).collect();
    if variants.is_empty() {
        variants = asked.file.variants().map(Some).collect();
    }
    if variants.is_empty() {
        variants.push(None);
    }
    variants
}
