//! Which runs the wanted results need: the model of all, the simulator where a figure is not a closed form, and the lab for
//! what fits in its time.

use std::collections::BTreeSet;

use guest::Image;
use scenario::{Kind, Published, Scenario};
use units::{KernelVersion, Time};

use crate::{
    engine::Engine,
    job::{Asked, Job},
    jobs::{Wanted, jobs},
    kernel_engine,
};

/// How long the lab may take in all.
#[derive(Debug, Clone, Copy)]
pub struct Budget(pub Time);

/// What each lab run takes beside its own duration, seconds.
const LAB_OVERHEAD_S: f64 = 2.0;

/// The runs to make.
pub struct Plan<'a> {
    /// In the order of the files.
    pub jobs: Vec<Job<'a>>,
    /// What the lab and guest kernels were not asked to do, and why.
    pub left_out: Vec<String>,
}

impl<'a> Plan<'a> {
    /// The runs that `wanted` needs by `engines`, and in the lab within the budget. `variants` are those of each file.
    pub fn new(
        asked: &'a [Asked<'a>],
        variants: &'a [Vec<String>],
        wanted: &BTreeSet<&str>,
        engines: &[Engine],
        lab: Option<Budget>,
    ) -> anyhow::Result<Self> {
        let mut plan = Plan { jobs: Vec::new(), left_out: Vec::new() };
        let mut in_lab: Vec<Job<'a>> = Vec::new();
        let mut guests: Vec<(&Engine, Image)> = Vec::new();
        for engine in engines {
            if let Engine::Kernel(request) = engine {
                guests.push((engine, kernel_engine::find(request.as_deref())?));
            }
        }
        for (one, names) in asked.iter().zip(variants) {
            for named in each(names) {
                let figures: Vec<&Published> = one
                    .file
                    .published()
                    .iter()
                    .filter(|p| wanted.contains(p.id.as_str()) && p.variant.as_ref() == named.first())
                    .collect();
                let to_be_run = figures.iter().any(|p| !p.figure.is_closed_form());
                if engines.contains(&Engine::Model) && !figures.is_empty() {
                    plan.jobs.extend(jobs(
                        one,
                        &Wanted { engines: &[Engine::Model], variants: named, ..Wanted::default() },
                    )?);
                }
                for (engine, guest) in guests.iter().filter(|_| to_be_run) {
                    plan.add_guests(one, engine, guest, named)?;
                }
                if engines.contains(&Engine::Sim) && to_be_run {
                    plan.jobs.extend(jobs(
                        one,
                        &Wanted { engines: &[Engine::Sim], variants: named, ..Wanted::default() },
                    )?);
                }
                if lab.is_some() && to_be_run {
                    in_lab.extend(jobs(
                        one,
                        &Wanted { engines: &[Engine::Lab], variants: named, ..Wanted::default() },
                    )?);
                }
            }
        }
        if let Some(budget) = lab {
            plan.take(in_lab, budget);
        }
        Ok(plan)
    }

    /// True where something is to be run in the lab.
    pub fn needs_lab(&self) -> bool {
        self.jobs.iter().any(|job| job.engine == Engine::Lab)
    }

    /// The runs in a guest kernel, without those that it cannot make.
    fn add_guests(
        &mut self,
        asked: &'a Asked<'a>,
        engine: &Engine,
        guest: &Image,
        named: &'a [String],
    ) -> anyhow::Result<()> {
        // As the lab's: what a guest kernel cannot run is known before.
        let all = jobs(asked, &Wanted { engines: &[Engine::Lab], variants: named, ..Wanted::default() })?;
        for job in all {
            let why = other_kernel(&job.scenario, guest.version)
                .or_else(|| simulated_flow(&job.scenario))
                .or_else(|| kernel_engine::check(&job.scenario).err().map(|error| error.to_string()));
            match why {
                Some(why) => self.left_out.push(format!("{}: {why}", name(&job))),
                None => self.jobs.push(Job { engine: engine.clone(), guest: Some(guest.clone()), ..job }),
            }
        }
        Ok(())
    }

    /// The shortest first, until the time is used up.
    fn take(&mut self, mut jobs: Vec<Job<'a>>, budget: Budget) {
        jobs.sort_by_key(|job| job.scenario.duration);
        let mut left_s = budget.0.as_secs_f64();
        for job in jobs {
            let needs_s = job.scenario.duration.as_secs_f64() + LAB_OVERHEAD_S;
            let name = name(&job);
            if let Some(why) = simulated_kernel(&job.scenario).or_else(|| simulated_flow(&job.scenario)) {
                self.left_out.push(format!("{name}: {why}"));
            } else if needs_s > left_s {
                self.left_out.push(format!("{name}: takes {needs_s:.0} s"));
            } else {
                left_s -= needs_s;
                self.jobs.push(job);
            }
        }
    }
}

fn name(job: &Job<'_>) -> String {
    match job.variant {
        Some(variant) => format!("{} {variant}", job.asked.file.name()),
        None => job.asked.file.name().to_owned(),
    }
}

/// The kernel of a host that the lab has not.
fn simulated_kernel(scenario: &Scenario) -> Option<String> {
    let (major, minor) = scenario.hosts.iter().find_map(|host| host.kernel)?;
    Some(format!("Linux {major}.{minor} is simulated, the lab has this machine's"))
}

/// The kernel of a host that is another than the guest's.
fn other_kernel(scenario: &Scenario, guest: KernelVersion) -> Option<String> {
    let is_other =
        |(major, minor): &(u8, u8)| (u32::from(*major), u32::from(*minor)) != (guest.major, guest.minor);
    let (major, minor) = scenario.hosts.iter().filter_map(|host| host.kernel).find(is_other)?;
    Some(format!("Linux {major}.{minor} is simulated, the guest has {guest}"))
}

/// Flows that only the simulator has.
fn simulated_flow(scenario: &Scenario) -> Option<String> {
    let other = scenario.flows.iter().find(|f| !matches!(f.kind, Kind::Tcp(_) | Kind::Ping(_)));
    other.map(|flow| format!("{} flows are simulated", flow.kind.name()))
}

/// Each of a file's variants by itself; nothing where it has none.
fn each(names: &[String]) -> impl Iterator<Item = &[String]> {
    let none = names.is_empty().then_some(names);
    names.chunks(1).chain(none)
}
