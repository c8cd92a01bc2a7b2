//! Selects the runs of an experiment: variants, sweep points, engines, repeats.

use computed_runs::sysctl_defaults;
use guest::Image;
use scenario::{MAX_POINTS, Scenario, replaces};

use crate::{
    EngineChoice, Error, Experiment, Job, Point, Result, congestion,
    engines::{check_guest, find_guest},
    machine::machine_setting,
    scenario_file,
};

/// Selects runs of an experiment.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Engines that execute the runs.
    pub engines: Vec<EngineChoice>,
    /// Variants; empty: all of the file.
    pub variants: Vec<String>,
    /// Fields to sweep in addition to the file's, with their values.
    pub over: Vec<(String, Vec<String>)>,
    /// Number of repeats; `None`: as the file states.
    pub repeat: Option<u32>,
}

impl Selection {
    /// All variants with one engine, repeated as the file states.
    pub fn with_engine(engine: EngineChoice) -> Self {
        Selection { engines: vec![engine], ..Selection::default() }
    }
}

impl Experiment {
    /// The selected runs in display order.
    ///
    /// # Errors
    /// Unknown or conflicting fields, variants or congestion controls; missing guest kernels.
    pub fn jobs(&self, selection: &Selection) -> Result<Vec<Job<'_>>> {
        let points = self.points(selection)?;
        let with_guest = |engine: &EngineChoice| Ok((engine.clone(), guest_of(engine)?));
        let engines: Vec<(EngineChoice, Option<Image>)> =
            selection.engines.iter().map(with_guest).collect::<Result<_>>()?;
        let mut jobs = Vec::new();
        for variant in self.variants(&selection.variants) {
            for (index, fields) in points.iter().enumerate() {
                let mut scenario = self.resolve(variant.as_deref(), fields)?;
                let repeats = selection.repeat.unwrap_or(scenario.repeat);
                let point = (!fields.is_empty())
                    .then(|| Point { number: index + 1, values: fields.iter().cloned().collect() });
                if point.is_some() {
                    // The record of a repeat must not depend on the number of repeats, so that later sweeps
                    // can reuse it.
                    scenario.repeat = 1;
                }
                for (engine, guest) in &engines {
                    if guest.is_some() {
                        check_guest(&scenario)?;
                    }
                    jobs.extend(repeated(&Job {
                        experiment: self,
                        engine: engine.clone(),
                        guest: guest.clone(),
                        variant: variant.clone(),
                        point: point.clone(),
                        repeat: 1,
                        repeats,
                        scenario: self.with_sysctl_defaults(scenario.clone(), engine),
                    }));
                }
            }
        }
        Ok(jobs)
    }

    /// A variant's scenario with these fields and then the experiment's overridden values.
    ///
    /// # Errors
    /// Unknown or conflicting fields, variants or congestion controls.
    pub(crate) fn resolve(&self, variant: Option<&str>, fields: &[(String, String)]) -> Result<Scenario> {
        let sets = [fields, self.sets.as_slice()].concat();
        let scenario = scenario_file::resolve(&self.file, &self.path, variant, &sets)?;
        congestion::check(&self.file, &self.path, variant, &sets, &scenario)?;
        Ok(scenario)
    }

    /// A scenario with the sysctls that it does not state, except those that `engine` uses by itself.
    pub(crate) fn with_sysctl_defaults(&self, scenario: Scenario, engine: &EngineChoice) -> Scenario {
        sysctl_defaults::add_defaults(&machine_setting, scenario, engine, self.kernel)
    }

    /// The requested variants, each once (default: all); one `None` if the file has no variants.
    pub(crate) fn variants(&self, requested: &[String]) -> Vec<Option<String>> {
        let mut variants: Vec<Option<String>> = Vec::new();
        for name in requested.iter().cloned().map(Some) {
            if !variants.contains(&name) {
                variants.push(name);
            }
        }
        if variants.is_empty() {
            variants = self.file.variants().map(|name| Some(name.to_owned())).collect();
        }
        if variants.is_empty() {
            variants.push(None);
        }
        variants
    }

    /// All combinations of the file's sweep points with those of the selection, as path and value of every
    /// field.
    fn points(&self, selection: &Selection) -> Result<Vec<Vec<(String, String)>>> {
        let mut points = self.file.points();
        for (field, values) in &selection.over {
            if let Some(swept) = swept_field(&points, field) {
                return Err(Error::BadInput(format!("--over {field}: {swept} is swept already")));
            }
            let with = |point: &Vec<(String, String)>, value: &String| {
                [point.as_slice(), &[(field.clone(), value.clone())]].concat()
            };
            if points.len() * values.len() > MAX_POINTS {
                let count = points.len() * values.len();
                return Err(Error::BadInput(format!(
                    "the sweep has {count} points; the maximum is {MAX_POINTS}"
                )));
            }
            points =
                points.iter().flat_map(|point| values.iter().map(move |value| with(point, value))).collect();
        }
        let set_and_swept = self.sets.iter().find_map(|(path, _)| Some((path, swept_field(&points, path)?)));
        match set_and_swept {
            Some((path, swept)) if path == swept => {
                Err(Error::BadInput(format!("--set {path}: this field is swept")))
            }
            Some((path, swept)) => Err(Error::BadInput(format!("--set {path}: {swept} is swept"))),
            None => Ok(points),
        }
    }
}

/// The field of these points that a value at `path` would replace.
fn swept_field<'a>(points: &'a [Vec<(String, String)>], path: &str) -> Option<&'a str> {
    points.first()?.iter().map(|(field, _)| field.as_str()).find(|field| replaces(path, field))
}

/// The kernel that the kernel engine boots.
fn guest_of(engine: &EngineChoice) -> Result<Option<Image>> {
    match engine {
        EngineChoice::Kernel(request) => find_guest(request.as_deref()).map(Some),
        EngineChoice::Model | EngineChoice::Sim | EngineChoice::Lab | EngineChoice::Hosts => Ok(None),
    }
}

/// A job for each repeat of a run, with its own seed. The model is deterministic: one run.
pub(crate) fn repeated<'a>(job: &Job<'a>) -> Vec<Job<'a>> {
    let repeats = if job.engine == EngineChoice::Model { 1 } else { job.repeats };
    let one = |repeat: u32| {
        let seed = job.scenario.seed.wrapping_add(u64::from(repeat - 1));
        Job { repeat, scenario: Scenario { seed, ..job.scenario.clone() }, ..job.clone() }
    };
    (1..=repeats).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over(fields: &[(&str, &str)]) -> Selection {
        let field = |(field, values): &(&str, &str)| {
            ((*field).to_owned(), values.split(',').map(str::to_owned).collect())
        };
        let over = fields.iter().map(field).collect();
        Selection { variants: vec!["bufferbloat".into()], over, ..Selection::with_engine(EngineChoice::Sim) }
    }

    #[test]
    fn a_swept_field_is_not_replaced_by_a_wider_one() {
        let experiment = || Experiment::from_file("dsl").unwrap();
        let error = |experiment: &Experiment, fields: &[(&str, &str)]| {
            experiment.jobs(&over(fields)).unwrap_err().to_string()
        };
        let delay = "links.modem-server.forward.delay";
        let set = experiment().set("links.modem-server.both.delay", "5ms");
        assert_eq!(
            error(&set, &[(delay, "1ms,50ms")]),
            format!("--set links.modem-server.both.delay: {delay} is swept")
        );
        let twice = [(delay, "1ms,50ms"), ("links.*.both.delay", "5ms")];
        assert_eq!(
            error(&experiment(), &twice),
            format!("--over links.*.both.delay: {delay} is swept already")
        );
        // The other direction is set, and all except one link swept.
        let backward = experiment().set("links.modem-server.backward.delay", "5ms");
        assert_eq!(backward.jobs(&over(&[(delay, "1ms,50ms")])).unwrap().len(), 2);
        let all = [("links.*.both.delay", "1ms,50ms")];
        assert_eq!(experiment().set(delay, "5ms").jobs(&over(&all)).unwrap().len(), 2);
    }

    #[test]
    fn a_variant_that_is_requested_twice_runs_once() {
        let experiment = Experiment::from_file("dsl").unwrap();
        let variants = ["bufferbloat", "fq-codel", "bufferbloat"].map(String::from).to_vec();
        let selection = Selection { variants, ..Selection::with_engine(EngineChoice::Model) };
        assert_eq!(experiment.jobs(&selection).unwrap().len(), 2);
    }
}
