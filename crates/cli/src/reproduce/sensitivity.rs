//! How figures vary with what their source does not say: sweeps for the page, at a tenth of rate and time, where windows,
//! losses and recovery are a tenth as well and a run takes half a second.

use std::{collections::BTreeSet, num::NonZeroUsize, sync::atomic::AtomicBool};

use crate::{
    batch,
    engine::Engine,
    job::{Asked, Keep, Means},
    jobs::{Wanted, jobs},
    progress::Board,
    repeat::RepeatTime,
    sweep_points::{self, PointRun},
};

/// A scenario whose figures hang on a field that its source does not give.
struct Study {
    scenario: &'static str,
    ids: &'static [&'static str],
    metrics: &'static [&'static str],
    sweeps: &'static [Sweep],
}

/// One field and its values.
struct Sweep {
    sets: &'static [(&'static str, &'static str)],
    field: &'static str,
    values: &'static [&'static str],
    about: &'static str,
}

/// A tenth of what the G pairs have.
const TENTH: &[(&str, &str)] = &[
    ("duration", "700s"),
    ("sample", "100ms"),
    ("links.bottleneck.forward.rate", "100mbit"),
    ("links.cern1-geneva.forward.rate", "100mbit"),
    ("links.cern2-geneva.forward.rate", "100mbit"),
    ("hosts.*.nic.tx_queue", "10p"),
];

const QUEUE: &str = "links.bottleneck.forward.queue";

const G_SWEEPS: &[Sweep] = &[
    Sweep {
        sets: &[],
        field: QUEUE,
        values: &["40kB", "54kB", "64kB", "76kB", "90kB", "128kB", "250kB"],
        about: "The source does not give the depth of the queue.",
    },
    Sweep {
        sets: &[(QUEUE, "76kB")],
        field: "links.bottleneck.forward.loss",
        values: &["0.0", "0.000004", "0.00002", "0.00005", "0.0001", "0.0002"],
        about: "Nor does it give the path\u{2019}s own loss; here with a queue of 76 kB.",
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

/// A section of the page for each study that has a wanted result.
pub fn sections(
    wanted: &BTreeSet<&str>,
    asked: &[Asked<'_>],
    workers: Option<NonZeroUsize>,
    stop: &AtomicBool,
) -> anyhow::Result<Vec<String>> {
    let mut sections = Vec::new();
    for study in STUDIES.iter().filter(|study| study.ids.iter().any(|id| wanted.contains(id))) {
        let Some(one) = asked.iter().find(|asked| asked.file.name() == study.scenario) else { continue };
        let mut parts = Vec::new();
        for sweep in study.sweeps {
            parts.push((sweep.about, charts(study, sweep, one, workers, stop)?));
        }
        sections.push(view::sensitivity_section(one.file.title(), one.file.name(), &parts));
    }
    Ok(sections)
}

/// A picture of each of the study's figures.
fn charts(
    study: &Study,
    sweep: &Sweep,
    asked: &Asked<'_>,
    workers: Option<NonZeroUsize>,
    stop: &AtomicBool,
) -> anyhow::Result<Vec<String>> {
    let sets: Vec<(String, String)> =
        TENTH.iter().chain(sweep.sets).map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let over = [(sweep.field.to_owned(), sweep.values.iter().map(ToString::to_string).collect())];
    let wanted = Wanted { engines: &[Engine::Sim], sets: &sets, over: &over, ..Wanted::default() };
    let jobs = jobs(asked, &wanted)?;
    let board = Board::new(jobs.len());
    let means =
        Means { lab: None, keep: Keep::Nothing, board: &board, stop, repeat_time: RepeatTime::default() };
    let mut made = batch::make_all(&jobs, &means, workers)?;
    if let Some(error) = made.iter_mut().find_map(|one| one.failed.take()) {
        return Err(error);
    }
    let runs: Vec<PointRun<'_>> = jobs
        .iter()
        .zip(made)
        .map(|(job, made)| PointRun { job, run: made.summary, earlier: false })
        .collect();
    let mut charts = Vec::new();
    for metric in study.metrics {
        let figure = jobs[0].scenario.figure(metric).map_err(|why| anyhow::anyhow!("{metric}: {why}"))?;
        let mut swept = sweep_points::sweep(asked, &runs, &[sweep.field.to_owned()], &figure);
        // A peak is no knee.
        swept.knees.clear();
        charts.push(view::sweep::sweep_chart(&swept));
    }
    Ok(charts)
}
