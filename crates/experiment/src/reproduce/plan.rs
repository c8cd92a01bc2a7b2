//! Plans the runs that reproduce selected results: the model for all, simulator and guest kernels for figures
//! that are not closed forms, and the lab within a time budget.

use std::{collections::BTreeSet, fmt};

use guest::Image;
use hosts::HostLocations;
use scenario::Published;
use schema::EngineName;
use units::Time;

use super::limits;
use crate::{EngineChoice, Error, Experiment, Job, Result, Selection, congestion, error::chain, find_guest};

/// Time for set-up and clean-up of a lab run, in addition to its duration, seconds.
const LAB_OVERHEAD_S: f64 = 2.0;

/// The runs that reproduce selected results.
pub struct Plan<'a> {
    /// The runs by scenario file; lab runs are last, in order of duration, then those between real hosts.
    pub jobs: Vec<Job<'a>>,
    /// Runs that are skipped, and why.
    pub skipped: Vec<SkippedRun>,
    /// The requested engines.
    engines: Vec<EngineName>,
}

/// A run that an engine cannot execute, or that does not fit in the time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedRun {
    /// The scenario's name.
    pub scenario: String,
    /// Its variant; `None` in a file without variants.
    pub variant: Option<String>,
    /// The engine.
    pub engine: EngineName,
    /// Why the engine does not execute it, as in `needs Linux 2.4`.
    pub why: String,
}

impl fmt::Display for SkippedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variant = self.variant.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
        write!(f, "{}{variant} ({}): {}", self.scenario, self.engine, self.why)
    }
}

impl<'a> Plan<'a> {
    /// Plans the runs of `engines` for the results with these ids. `lab` is the time budget of the lab;
    /// `None`: no lab runs. Simulations of scenarios that last longer than `longest_sim` are skipped.
    /// `locations` are those of real hosts, for their engine.
    ///
    /// # Errors
    /// A scenario is inconsistent, or a guest kernel is missing.
    pub fn new(
        experiments: &'a [Experiment],
        ids: &BTreeSet<&str>,
        engines: &[EngineChoice],
        lab: Option<Time>,
        longest_sim: Option<Time>,
        locations: &HostLocations,
    ) -> Result<Self> {
        let mut requested: Vec<EngineName> = engines.iter().map(EngineChoice::name).collect();
        requested.extend(lab.map(|_| EngineName::Lab));
        let mut plan = Plan { jobs: Vec::new(), skipped: Vec::new(), engines: requested };
        let mut in_lab: Vec<Job<'a>> = Vec::new();
        let mut between_hosts: Vec<Job<'a>> = Vec::new();
        let mut guests: Vec<(&EngineChoice, Image)> = Vec::new();
        for engine in engines {
            if let EngineChoice::Kernel(request) = engine {
                guests.push((engine, find_guest(request.as_deref())?));
            }
        }
        for one in experiments {
            for variants in single_variants(one) {
                let figures: Vec<&Published> = one
                    .file
                    .published()
                    .iter()
                    .filter(|p| {
                        let variant = variants.first().map(String::as_str);
                        ids.contains(p.id.as_str()) && p.variants().contains(&variant)
                    })
                    .collect();
                // No run for figures that the engine cannot have.
                let needs_run = |engine: &EngineName| {
                    let applies = |p: &Published| p.does_not_apply.of(engine.name()).is_none();
                    figures.iter().any(|p| !p.figure.is_closed_form() && applies(p))
                };
                let jobs = |engine| {
                    one.jobs(&Selection { variants: variants.clone(), ..Selection::with_engine(engine) })
                };
                if engines.contains(&EngineChoice::Model) && !figures.is_empty() {
                    plan.jobs.extend(jobs(EngineChoice::Model)?);
                }
                for (engine, guest) in guests.iter().filter(|_| needs_run(&EngineName::Kernel)) {
                    // Planned as lab jobs: `add_guests` checks what a guest kernel can run.
                    plan.add_guests(jobs(EngineChoice::Lab)?, engine, guest);
                }
                if engines.contains(&EngineChoice::Sim) && needs_run(&EngineName::Sim) {
                    let (long, short): (Vec<_>, Vec<_>) = jobs(EngineChoice::Sim)?
                        .into_iter()
                        .partition(|job| longest_sim.is_some_and(|longest| job.scenario.duration > longest));
                    plan.jobs.extend(short);
                    for job in &long {
                        plan.skip(job, format!("a simulation of {}", job.scenario.duration));
                    }
                }
                if lab.is_some() && needs_run(&EngineName::Lab) {
                    in_lab.extend(jobs(EngineChoice::Lab)?);
                }
                if engines.contains(&EngineChoice::Hosts) && needs_run(&EngineName::Hosts) {
                    between_hosts.extend(jobs(EngineChoice::Hosts)?);
                }
            }
        }
        if let Some(budget) = lab {
            plan.add_lab(in_lab, budget);
        }
        plan.add_between_hosts(between_hosts, locations);
        Ok(plan)
    }

    /// Whether the plan has lab runs.
    pub fn needs_lab(&self) -> bool {
        self.jobs.iter().any(|job| job.engine == EngineChoice::Lab)
    }

    /// Whether runs of this engine were requested.
    pub(super) fn has_engine(&self, engine: &EngineName) -> bool {
        self.engines.contains(engine)
    }

    /// The skipped run of a variant in an engine.
    pub(super) fn skipped_run(
        &self,
        experiment: &Experiment,
        variant: Option<&str>,
        engine: &EngineName,
    ) -> Option<&SkippedRun> {
        self.skipped.iter().find(|run| {
            run.scenario == experiment.file.name()
                && run.variant.as_deref() == variant
                && run.engine == *engine
        })
    }

    /// Adds the runs that a guest kernel can execute; skips the others.
    fn add_guests(&mut self, jobs: Vec<Job<'a>>, engine: &EngineChoice, guest: &Image) {
        for job in jobs {
            let job = Job { engine: engine.clone(), guest: Some(guest.clone()), ..job };
            match limits::of_guest(&job.scenario, Some(guest.version)) {
                Some(why) => self.skip(&job, why),
                None => {
                    let scenario = job.experiment.with_sysctl_defaults(job.scenario, engine);
                    self.jobs.push(Job { scenario, ..job });
                }
            }
        }
    }

    /// Adds the runs that real hosts can execute; skips the others.
    fn add_between_hosts(&mut self, jobs: Vec<Job<'a>>, locations: &HostLocations) {
        for job in jobs {
            let located = || hosts::check(&job.scenario, locations).err().map(|error| error.to_string());
            match limits::of_hosts(&job.scenario).or_else(located) {
                Some(why) => self.skip(&job, why),
                None => self.jobs.push(job),
            }
        }
    }

    /// Notes that the run of the job with this index failed: it counts as skipped.
    pub fn note_failed(&mut self, index: usize, error: &Error) {
        if let Some(job) = self.jobs.get(index).cloned() {
            self.skip(&job, format!("failed: {}", chain(error)));
        }
    }

    /// Notes a skipped run once, not for each of its repeats.
    fn skip(&mut self, job: &Job<'_>, why: String) {
        let scenario = job.experiment.file.name().to_owned();
        let run = SkippedRun { scenario, variant: job.variant.clone(), engine: job.engine.name(), why };
        if !self.skipped.contains(&run) {
            self.skipped.push(run);
        }
    }

    /// Adds lab runs, the shortest first, until the time budget is used up; skips the others.
    fn add_lab(&mut self, mut jobs: Vec<Job<'a>>, budget: Time) {
        jobs.sort_by_key(|job| job.scenario.duration);
        let mut remaining_s = budget.as_secs_f64();
        for job in jobs {
            let needs_s = job.scenario.duration.as_secs_f64() + LAB_OVERHEAD_S;
            let limit = limits::of_lab(&job.scenario, job.experiment.host.kernel.parse().ok())
                .or_else(|| congestion::check_names(&job).err().map(|error| error.to_string()))
                .or_else(|| congestion::missing_requirement(&job.scenario));
            if let Some(why) = limit {
                self.skip(&job, why);
            } else if needs_s > remaining_s {
                self.skip(&job, format!("takes {needs_s:.0} s, more than remains of the time for the lab"));
            } else {
                remaining_s -= needs_s;
                self.jobs.push(job);
            }
        }
    }
}

/// One selection per variant of a file; one empty selection without variants.
fn single_variants(experiment: &Experiment) -> Vec<Vec<String>> {
    let variants: Vec<Vec<String>> = experiment.file.variants().map(|name| vec![name.to_owned()]).collect();
    if variants.is_empty() { vec![Vec::new()] } else { variants }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lab_runs_all_kinds_of_flows_that_it_supports() {
        let experiments = crate::reproduce::experiments(None).unwrap();
        let (ids, budget) = (BTreeSet::from(["H-udp957"]), Some(Time::from_secs(60)));
        let plan = Plan::new(&experiments, &ids, &[], budget, None, &HostLocations::default()).unwrap();
        assert!(plan.needs_lab(), "{:?}", plan.skipped);
    }

    #[test]
    fn the_lab_runs_todays_variants_and_skips_the_others_with_a_reason() {
        let mut experiments = crate::reproduce::experiments(None).unwrap();
        experiments.iter_mut().for_each(|one| one.host.kernel = "6.18.44-1".into());
        let (ids, budget) = (BTreeSet::from(["H-900"]), Some(Time::from_secs(600)));
        let plan = Plan::new(&experiments, &ids, &[], budget, None, &HostLocations::default()).unwrap();
        let planned: Vec<&str> = plan.jobs.iter().filter_map(|job| job.variant.as_deref()).collect();
        assert_eq!(planned, ["queue-100p-linux-6-18", "queue-1000p-linux-6-18"]);
        let skipped: Vec<String> = plan.skipped.iter().map(ToString::to_string).collect();
        let reason = |variant: &str| format!("h-900 {variant} (lab): needs Linux 2.4");
        assert_eq!(skipped, [reason("queue-100p"), reason("queue-1000p")]);
    }

    #[test]
    fn an_engine_does_not_run_figures_that_do_not_apply_to_it() {
        let experiments = crate::reproduce::experiments(None).unwrap();
        let (ids, budget) = (BTreeSet::from(["L13-why"]), Some(Time::from_secs(600)));
        let engines = [EngineChoice::Sim];
        let plan = Plan::new(&experiments, &ids, &engines, budget, None, &HostLocations::default()).unwrap();
        let runs = |engine: &EngineChoice| -> Vec<String> {
            let own = plan.jobs.iter().filter(|job| job.engine == *engine);
            own.filter_map(|job| job.variant.clone()).collect()
        };
        let instant = "real-path-1500-instant-hosts".to_owned();
        assert!(runs(&EngineChoice::Sim).contains(&instant));
        let in_lab = runs(&EngineChoice::Lab);
        assert!(!in_lab.contains(&instant) && in_lab.len() == 4, "{in_lab:?}");
    }
}
