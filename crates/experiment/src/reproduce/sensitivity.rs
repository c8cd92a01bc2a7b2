//! Sensitivity of figures to parameters that their source does not state: sweeps at a tenth of the rate and
//! of the duration. Windows, losses and recovery times scale down to a tenth as well, and a run takes half a
//! second.

use std::collections::BTreeSet;

use crate::{EngineChoice, Experiment, RecordedRuns, Result, RunOptions, Selection};

/// A scenario whose figures depend on a field that its source does not state.
#[derive(Debug)]
pub struct Study {
    scenario: &'static str,
    ids: &'static [&'static str],
    metrics: &'static [&'static str],
    /// The sweeps of the study.
    pub sweeps: &'static [StudySweep],
}

/// One field and its values.
#[derive(Debug)]
pub struct StudySweep {
    sets: &'static [(&'static str, &'static str)],
    field: &'static str,
    values: &'static [&'static str],
    /// One sentence: why the field is swept.
    pub about: &'static str,
}

/// Settings that scale the pairs of flows of the G scenarios down to a tenth.
const TENTH_SCALE: &[(&str, &str)] = &[
    ("duration", "700s"),
    ("sample", "100ms"),
    ("links.bottleneck.forward.rate", "100mbit"),
    ("links.cern1-geneva.forward.rate", "100mbit"),
    ("links.cern2-geneva.forward.rate", "100mbit"),
    ("hosts.*.nic.tx_queue", "10p"),
];

const QUEUE: &str = "links.bottleneck.forward.queue";

const G_SWEEPS: &[StudySweep] = &[
    StudySweep {
        sets: &[],
        field: QUEUE,
        values: &["40kB", "54kB", "64kB", "76kB", "90kB", "128kB", "250kB"],
        about: "The source does not give the depth of the queue.",
    },
    StudySweep {
        sets: &[(QUEUE, "76kB")],
        field: "links.bottleneck.forward.loss",
        values: &["0.0", "0.000004", "0.00002", "0.00005", "0.0001", "0.0002"],
        about: "The source does not give the rate of random loss either; these runs have a queue of 76 kB.",
    },
];

const STUDIES: &[Study] = &[
    Study {
        scenario: "g-rttfair",
        ids: &["G-rttfair", "G-griddt-rtt"],
        metrics: &["flows.rtt181.goodput", "flows.rtt117.goodput"],
        sweeps: G_SWEEPS,
    },
    Study {
        scenario: "g-mtufair",
        ids: &["G-mtufair", "G-griddt-mtu"],
        metrics: &["flows.mtu3000.goodput", "flows.mtu9000.goodput"],
        sweeps: G_SWEEPS,
    },
];

/// The studies of results with these ids, each with its experiment.
pub fn studies<'a>(
    ids: &BTreeSet<&str>,
    experiments: &'a [Experiment],
) -> Vec<(&'static Study, &'a Experiment)> {
    let wanted = STUDIES.iter().filter(|study| study.ids.iter().any(|id| ids.contains(id)));
    let with = |study: &'static Study| {
        Some((study, experiments.iter().find(|one| one.file.name() == study.scenario)?))
    };
    wanted.filter_map(with).collect()
}

impl StudySweep {
    /// Runs the sweep and returns it for each metric of the study.
    ///
    /// # Errors
    /// The error of the first run that failed, or [`crate::Error::Interrupted`].
    pub fn run(
        &self,
        study: &Study,
        experiment: &Experiment,
        options: &RunOptions<'_>,
    ) -> Result<Vec<schema::Sweep>> {
        let sets = TENTH_SCALE.iter().chain(self.sets);
        let sets = sets.map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let experiment = Experiment { sets, ..experiment.clone() };
        let over = vec![(self.field.to_owned(), self.values.iter().map(ToString::to_string).collect())];
        let selection = Selection { over, ..Selection::with_engine(EngineChoice::Sim) };
        let plan = experiment.plan_sweep(&selection, None, &RecordedRuns::none())?;
        let mut sweeps = plan.run_for(study.metrics, options)?;
        // These curves have peaks, which the knee search would report as knees.
        sweeps.iter_mut().for_each(|sweep| sweep.knees.clear());
        Ok(sweeps)
    }
}
