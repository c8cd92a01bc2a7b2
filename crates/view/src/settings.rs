//! The settings that distinguish runs of a scenario, besides engine, variant and sweep point. Runs without a
//! difference are repeats.

use std::collections::BTreeMap;

use schema::{EngineName, RunSummary};

/// A field that `--set` changes between repeats.
const SEED: &str = "seed";
/// The name of the simulated kernel among the settings, as in `longfat run --kernel`.
const KERNEL: &str = "kernel";

/// Settings of a run: their names and values.
pub(crate) type Settings<'a> = BTreeMap<&'a str, &'a str>;

/// The fields that `--set` changed.
pub(crate) fn changed_fields(run: &RunSummary) -> Settings<'_> {
    let fields = run.set.iter().filter(|(field, _)| *field != SEED);
    fields.map(|(field, value)| (field.as_str(), value.as_str())).collect()
}

/// The fields that `--set` changed, and the simulated kernel. That of a guest is part of the engine's label.
fn settings(run: &RunSummary) -> Settings<'_> {
    let mut settings = changed_fields(run);
    if let (EngineName::Sim | EngineName::Model, Some(kernel)) = (&run.engine, &run.kernel) {
        settings.insert(KERNEL, kernel);
    }
    settings
}

/// For each run, given with its scenario: the settings that it does not share with all runs of the same
/// scenario, engine and variant. A kernel that the variant states is shared.
pub(crate) fn distinguishing<'a>(runs: &[(&str, &'a RunSummary)]) -> Vec<Settings<'a>> {
    let kind = |(scenario, run): &(&str, &RunSummary)| {
        ((*scenario).to_owned(), run.engine_label(), run.variant.clone())
    };
    let mut shared: BTreeMap<_, Settings<'a>> = BTreeMap::new();
    for run in runs {
        let own = settings(run.1);
        match shared.get_mut(&kind(run)) {
            Some(known) => known.retain(|name, value| own.get(name) == Some(&*value)),
            None => drop(shared.insert(kind(run), own)),
        }
    }
    let own = |run: &(&str, &'a RunSummary)| {
        let shared = &shared[&kind(run)];
        let mut own = settings(run.1);
        own.retain(|name, _| !shared.contains_key(name));
        own
    };
    runs.iter().map(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(engine: &str, set: &[(&str, &str)], kernel: Option<&str>) -> RunSummary {
        let set = set.iter().map(|(field, value)| ((*field).into(), (*value).into())).collect();
        let kernel = kernel.map(Into::into);
        RunSummary { set, kernel, ..RunSummary::begun(engine.into(), String::new()) }
    }

    #[test]
    fn runs_with_different_settings_are_not_repeats() {
        let changed = run("sim", &[("seed", "2"), ("duration", "5s")], Some("6.1"));
        assert_eq!(settings(&changed), [("duration", "5s"), ("kernel", "6.1")].into());
        assert_eq!(settings(&run("kernel", &[("seed", "3")], Some("6.1.192"))), Settings::new());
    }

    #[test]
    fn shared_settings_of_similar_runs_do_not_distinguish_them() {
        let runs = [
            run("sim", &[("duration", "5s"), ("sample", "1ms")], None),
            run("sim", &[("duration", "5s"), ("seed", "7")], Some("2.4")),
            run("lab", &[("duration", "9s")], None),
        ];
        let found = distinguishing(&runs.each_ref().map(|run| ("s", run)));
        assert_eq!(found, [[("sample", "1ms")].into(), [("kernel", "2.4")].into(), Settings::new()]);
    }
}
