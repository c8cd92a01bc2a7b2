//! Plans the runs that reproduce selected results: the model for all, simulator and guest kernels for figures that are not
//! closed forms, and the lab within a time budget.

use std::collections::BTreeSet;

use guest::Image;
use hosts::HostLocations;
use scenario::{Published, Scenario};
use units::{KernelVersion, Time};

use crate::{EngineChoice, Experiment, Job, Result, Selection, check_guest, find_guest};

/// Time for set-up and clean-up of a lab run, in addition to its duration, seconds.
const LAB_OVERHEAD_S: f64 = 2.0;

/// The runs that reproduce selected results.
pub struct Plan<'a> {
    /// The runs by scenario file; lab runs are last, in order of duration, then those between real hosts.
    pub jobs: Vec<Job<'a>>,
    /// Runs that are skipped, and why: one sentence each.
    pub skipped: Vec<String>,
}

impl<'a> Plan<'a> {
    /// Plans the runs of `engines` for the results with these ids. `lab` is the time budget of the lab; `None`: no lab runs.
    /// Simulations of scenarios that last longer than `longest_sim` are skipped. `locations` are those of real hosts, for their
    /// engine.
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
        let mut plan = Plan { jobs: Vec::new(), skipped: Vec::new() };
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
                let needs_runs = figures.iter().any(|p| !p.figure.is_closed_form());
                let jobs = |engine| {
                    one.jobs(&Selection { variants: variants.clone(), ..Selection::with_engine(engine) })
                };
                if engines.contains(&EngineChoice::Model) && !figures.is_empty() {
                    plan.jobs.extend(jobs(EngineChoice::Model)?);
                }
                for (engine, guest) in guests.iter().filter(|_| needs_runs) {
                    // Planned as lab jobs: `add_guests` checks what a guest kernel can run.
                    plan.add_guests(jobs(EngineChoice::Lab)?, engine, guest);
                }
                if engines.contains(&EngineChoice::Sim) && needs_runs {
                    let (long, short): (Vec<_>, Vec<_>) = jobs(EngineChoice::Sim)?
                        .into_iter()
                        .partition(|job| longest_sim.is_some_and(|longest| job.scenario.duration > longest));
                    plan.jobs.extend(short);
                    long.iter().for_each(|job| {
                        plan.skip(format!("{}: a simulation of {}", name(job), job.scenario.duration));
                    });
                }
                if lab.is_some() && needs_runs {
                    in_lab.extend(jobs(EngineChoice::Lab)?);
                }
                if engines.contains(&EngineChoice::Hosts) && needs_runs {
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

    /// Adds the runs that a guest kernel can execute; skips the others.
    fn add_guests(&mut self, jobs: Vec<Job<'a>>, engine: &EngineChoice, guest: &Image) {
        for job in jobs {
            let why = other_kernel(&job.scenario, guest.version)
                .or_else(|| check_guest(&job.scenario).err().map(|error| error.to_string()));
            match why {
                Some(why) => self.skip(format!("{}: {why}", name(&job))),
                None => {
                    let scenario = job.experiment.with_sysctl_defaults(job.scenario, engine);
                    self.jobs.push(Job {
                        engine: engine.clone(),
                        guest: Some(guest.clone()),
                        scenario,
                        ..job
                    });
                }
            }
        }
    }

    /// Adds the runs that real hosts can execute; skips the others.
    fn add_between_hosts(&mut self, jobs: Vec<Job<'a>>, locations: &HostLocations) {
        for job in jobs {
            let why = simulated_kernel(&job.scenario, "real hosts have their own")
                .or_else(|| hosts::check(&job.scenario, locations).err().map(|error| error.to_string()));
            match why {
                Some(why) => self.skip(format!("{}: {why}", name(&job))),
                None => self.jobs.push(job),
            }
        }
    }

    /// Notes a skipped run once, not for each of its repeats.
    fn skip(&mut self, sentence: String) {
        if !self.skipped.contains(&sentence) {
            self.skipped.push(sentence);
        }
    }

    /// Adds lab runs, the shortest first, until the time budget is used up; skips the others.
    fn add_lab(&mut self, mut jobs: Vec<Job<'a>>, budget: Time) {
        jobs.sort_by_key(|job| job.scenario.duration);
        let mut remaining_s = budget.as_secs_f64();
        for job in jobs {
            let needs_s = job.scenario.duration.as_secs_f64() + LAB_OVERHEAD_S;
            let name = name(&job);
            let own_kernel = simulated_kernel(&job.scenario, "the lab uses this machine's kernel");
            let unsupported = || lab::check_flows(&job.scenario).err().map(|error| error.to_string());
            if let Some(why) = own_kernel.or_else(unsupported) {
                self.skip(format!("{name}: {why}"));
            } else if needs_s > remaining_s {
                self.skip(format!("{name}: takes {needs_s:.0} s"));
            } else {
                remaining_s -= needs_s;
                self.jobs.push(job);
            }
        }
    }
}

fn name(job: &Job<'_>) -> String {
    match &job.variant {
        Some(variant) => format!("{} {variant}", job.experiment.file.name()),
        None => job.experiment.file.name().to_owned(),
    }
}

/// Why an engine with real kernels cannot run a scenario: a host has a simulated kernel.
fn simulated_kernel(scenario: &Scenario, instead: &str) -> Option<String> {
    let (major, minor) = scenario.hosts.iter().find_map(|host| host.kernel)?;
    Some(format!("Linux {major}.{minor} is simulated; {instead}"))
}

/// Why a guest cannot run a scenario: a host has another kernel.
fn other_kernel(scenario: &Scenario, guest: KernelVersion) -> Option<String> {
    let is_other =
        |(major, minor): &(u8, u8)| (u32::from(*major), u32::from(*minor)) != (guest.major, guest.minor);
    let (major, minor) = scenario.hosts.iter().filter_map(|host| host.kernel).find(is_other)?;
    Some(format!("Linux {major}.{minor} is simulated; the guest runs {guest}"))
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
}
