//! Comparison of engines.

use schema::{Cause, EngineName, FlowSummary, RunSummary};

use crate::synthetic;

fn run(engine: EngineName, started: &str, goodput: f64, verdict: Cause) -> RunSummary {
    let flow = FlowSummary {
        name: "bulk".into(),
        goodput_bps: Some(goodput * 0.9),
        steady_goodput_bps: Some(goodput),
        verdict: Some(verdict),
        ..FlowSummary::default()
    };
    RunSummary {
        engine,
        started: started.into(),
        variant: Some("tuned".into()),
        flows: vec![flow],
        partial: false,
        ..synthetic::summary_of(&[synthetic::run("tuned", 2, 1e6)]).runs.remove(0)
    }
}

#[test]
fn the_latest_run_of_each_engine_is_compared_with_the_most_realistic_one() {
    let runs = [
        run(EngineName::Hosts, "2026-11-24T01:00:00Z", 100e6, Cause::Loss),
        run(EngineName::Hosts, "2026-11-24T02:00:00Z", 470e6, Cause::PathRate),
        run(EngineName::Model, "2026-11-24T00:00:00Z", 478e6, Cause::PathRate),
        run(EngineName::Lab, "2026-11-24T03:00:00Z", 300e6, Cause::HostCpu),
    ];
    let compared = view::engines("lab8", &runs);
    assert_eq!(compared.runs.len(), 3);
    let [group] = compared.groups.as_slice() else { panic!("{compared:?}") };
    assert_eq!((group.measured.as_str(), group.others.join(",").as_str()), ("hosts", "model,lab"));
    assert_eq!(
        group.differences,
        [
            "bulk: the steady goodput is 470 Mb/s (hosts) against 300 Mb/s (lab), +57 %, and the limit is path rate (hosts) against \
             host CPU (lab)"
        ]
    );
    let text = view::engines_text(&compared, None);
    assert!(
        text.contains(
            "tuned: the path behaves as modelled (hosts against model, lab), except for bulk: the steady goodput is 470 Mb/s (hosts)"
        ) && text.ends_with("host CPU (lab).\n"),
        "{text}"
    );
    let agreeing = view::engines("lab8", &runs[1..3]);
    assert!(
        view::engines_text(&agreeing, None)
            .ends_with("tuned: the path behaves as modelled (hosts against model).\n")
    );
    // Repeats with other seeds are compared; runs of other kernels and runs changed in other ways are not.
    let mut changed = runs.clone();
    changed[3].set = [("seed".into(), "7".into())].into();
    assert_eq!(view::engines("lab8", &changed).runs.len(), 3);
    changed[3].set.insert("duration".into(), "5s".into());
    assert_eq!(view::engines("lab8", &changed).runs, changed[3..]);
    let mut old = run(EngineName::Sim, "2026-11-24T00:30:00Z", 400e6, Cause::PathRate);
    old.kernel = Some("2.4".into());
    let with_old = view::engines("lab8", &[runs[1].clone(), runs[2].clone(), old]);
    let engines: Vec<&str> = with_old.runs.iter().map(|run| run.engine.name()).collect();
    assert_eq!(engines, ["sim", "hosts"], "the model's run is of another kernel");
    let alone = view::engines("lab8", &runs[..1]);
    assert!(view::engines_text(&alone, None).contains("Only one engine"));
}
