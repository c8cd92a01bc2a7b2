//! Which runs the wanted results need: the model of all, the simulator where a figure is not a closed form, and the lab for
//! what fits in its time.

use std::collections::BTreeSet;

use guest::Image;
use scenario::{Kind, Published, Scenario};
use units::{KernelVersion, Time};

use crate::{EngineChoice, Experiment, Job, Result, Selection, check_guest, find_guest};

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
    /// The runs that the results with these ids need by `engines`, and in the lab what fits in this time.
    ///
    /// # Errors
    /// Scenarios that do not fit together, and guest kernels that are not there.
    pub fn new(
        experiments: &'a [Experiment],
        ids: &BTreeSet<&str>,
        engines: &[EngineChoice],
        lab: Option<Time>,
    ) -> Result<Self> {
        let mut plan = Plan { jobs: Vec::new(), left_out: Vec::new() };
        let mut in_lab: Vec<Job<'a>> = Vec::new();
        let mut guests: Vec<(&EngineChoice, Image)> = Vec::new();
        for engine in engines {
            if let EngineChoice::Kernel(request) = engine {
                guests.push((engine, find_guest(request.as_deref())?));
            }
        }
        for one in experiments {
            for variants in each(one) {
                let figures: Vec<&Published> = one
                    .file
                    .published()
                    .iter()
                    .filter(|p| ids.contains(p.id.as_str()) && p.variant.as_ref() == variants.first())
                    .collect();
                let to_be_run = figures.iter().any(|p| !p.figure.is_closed_form());
                let jobs =
                    |engine| one.jobs(&Selection { variants: variants.clone(), ..Selection::by(engine) });
                if engines.contains(&EngineChoice::Model) && !figures.is_empty() {
                    plan.jobs.extend(jobs(EngineChoice::Model)?);
                }
                for (engine, guest) in guests.iter().filter(|_| to_be_run) {
                    // As the lab's: what a guest kernel cannot run is known before.
                    plan.add_guests(jobs(EngineChoice::Lab)?, engine, guest);
                }
                if engines.contains(&EngineChoice::Sim) && to_be_run {
                    plan.jobs.extend(jobs(EngineChoice::Sim)?);
                }
                if lab.is_some() && to_be_run {
                    in_lab.extend(jobs(EngineChoice::Lab)?);
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
        self.jobs.iter().any(|job| job.engine == EngineChoice::Lab)
    }

    /// The runs in a guest kernel, without those that it cannot make.
    fn add_guests(&mut self, jobs: Vec<Job<'a>>, engine: &EngineChoice, guest: &Image) {
        for job in jobs {
            let why = other_kernel(&job.scenario, guest.version)
                .or_else(|| simulated_flow(&job.scenario))
                .or_else(|| check_guest(&job.scenario).err().map(|error| error.to_string()));
            match why {
                Some(why) => self.leave_out(format!("{}: {why}", name(&job))),
                None => self.jobs.push(Job { engine: engine.clone(), guest: Some(guest.clone()), ..job }),
            }
        }
    }

    /// Notes what is not run. Repeats of one run have one reason.
    fn leave_out(&mut self, sentence: String) {
        if !self.left_out.contains(&sentence) {
            self.left_out.push(sentence);
        }
    }

    /// The shortest first, until the time is used up.
    fn take(&mut self, mut jobs: Vec<Job<'a>>, budget: Time) {
        jobs.sort_by_key(|job| job.scenario.duration);
        let mut left_s = budget.as_secs_f64();
        for job in jobs {
            let needs_s = job.scenario.duration.as_secs_f64() + LAB_OVERHEAD_S;
            let name = name(&job);
            if let Some(why) = simulated_kernel(&job.scenario).or_else(|| simulated_flow(&job.scenario)) {
                self.leave_out(format!("{name}: {why}"));
            } else if needs_s > left_s {
                self.leave_out(format!("{name}: takes {needs_s:.0} s"));
            } else {
                left_s -= needs_s;
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
fn each(experiment: &Experiment) -> Vec<Vec<String>> {
    let variants: Vec<Vec<String>> = experiment.file.variants().map(|name| vec![name.to_owned()]).collect();
    if variants.is_empty() { vec![Vec::new()] } else { variants }
}
