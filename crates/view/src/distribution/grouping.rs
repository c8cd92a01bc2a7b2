//! Groups of runs that differ only in repeat and seed, and what distinguishes the groups.

use std::collections::BTreeSet;

use scenario::Amount;
use schema::RunSummary;

use crate::ChartValue;
use crate::settings::{Settings, changed_fields, distinguishing};

/// Runs of one engine, variant, sweep point and settings.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RunGroup {
    /// Its label without the sweep point; empty if nothing distinguishes it.
    pub(crate) series: String,
    /// The value of the swept field, if one is on the axis.
    pub(crate) at: Option<ChartValue>,
    /// Indices of its runs.
    pub(crate) runs: Vec<usize>,
}

/// All groups.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Grouping {
    /// The swept field whose values are on the axis.
    pub(crate) field: Option<String>,
    /// By series in the order of first appearance. In each series by the field's value if all values are
    /// numbers, otherwise in the order of their first runs.
    pub(crate) groups: Vec<RunGroup>,
}

/// A fact about a run, such as its variant or a swept field's value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Fact {
    /// The field; empty for scenario, engine and variant, which need no name.
    field: String,
    /// Distinguishes facts without a field.
    kind: u8,
    value: String,
}

/// Groups runs, each given with its scenario's name.
pub(crate) fn group_runs(runs: &[(&str, &RunSummary)]) -> Grouping {
    let with_settings = runs.iter().zip(distinguishing(runs));
    let facts: Vec<Vec<Fact>> =
        with_settings.map(|((scenario, run), settings)| facts(scenario, run, settings)).collect();
    let distinguishing: Vec<Vec<Fact>> = facts
        .iter()
        .map(|own| {
            own.iter().filter(|fact| !facts.iter().all(|other| other.contains(fact))).cloned().collect()
        })
        .collect();
    let field = axis_field(runs, &distinguishing);
    let mut groups: Vec<RunGroup> = Vec::new();
    for (index, own) in distinguishing.iter().enumerate() {
        let is_on_axis = |fact: &&Fact| Some(&fact.field) == field.as_ref();
        let at = own.iter().find(is_on_axis).map(|fact| ChartValue {
            number: Amount::parse(&fact.value).map(|amount| amount.value),
            text: fact.value.clone(),
        });
        let series =
            own.iter().filter(|fact| !is_on_axis(fact)).map(Fact::text).collect::<Vec<_>>().join(", ");
        match groups.iter_mut().find(|group| group.series == series && group.at == at) {
            Some(group) => group.runs.push(index),
            None => groups.push(RunGroup { series, at, runs: vec![index] }),
        }
    }
    sort(&mut groups);
    Grouping { field, groups }
}

impl Fact {
    fn text(&self) -> String {
        let short = self.field.rsplit('.').next().unwrap_or_default();
        format!("{short} {}", self.value).trim().to_owned()
    }
}

/// All facts about a run; `settings` are those that [`distinguishing`] returns for it.
fn facts<'a>(scenario: &str, run: &'a RunSummary, mut settings: Settings<'a>) -> Vec<Fact> {
    let plain = |kind, value: &str| Fact { field: String::new(), kind, value: value.to_owned() };
    let mut facts = vec![plain(0, scenario)];
    facts.extend(run.variant.as_deref().map(|variant| plain(1, variant)));
    facts.push(plain(2, &run.engine_label()));
    settings.extend(changed_fields(run));
    let swept = run.sweep.iter().map(|(field, value)| (field.as_str(), value.as_str()));
    let named = |(field, value): (&str, &str)| Fact { field: field.into(), kind: 3, value: value.into() };
    facts.extend(swept.chain(settings).map(named));
    facts
}

/// The first swept field in which the runs differ and which all of them have, one with numbers if there is
/// one.
fn axis_field(runs: &[(&str, &RunSummary)], distinguishing: &[Vec<Fact>]) -> Option<String> {
    let (_, first) = runs.first()?;
    let differs =
        |field: &&String| distinguishing.iter().all(|own| own.iter().any(|fact| fact.field == **field));
    let is_number = |(_, run): &(&str, &RunSummary), field: &String| {
        run.sweep.get(field).is_some_and(|value| Amount::parse(value).is_some())
    };
    let found: Vec<&String> = first.sweep.keys().filter(differs).collect();
    let with_numbers = found.iter().find(|field| runs.iter().all(|run| is_number(run, field)));
    with_numbers.or(found.first()).map(|field| (*field).clone())
}

/// Sorts groups by series in order of first appearance, then by the field's value if all values are numbers.
fn sort(groups: &mut [RunGroup]) {
    let mut order: Vec<String> = Vec::new();
    for group in groups.iter() {
        if !order.contains(&group.series) {
            order.push(group.series.clone());
        }
    }
    let numbers: Option<BTreeSet<u64>> =
        groups.iter().map(|group| Some(group.at.as_ref()?.number?.to_bits())).collect();
    let position = |series: &String| order.iter().position(|known| known == series);
    groups.sort_by(|a, b| {
        let number = |group: &RunGroup| group.at.as_ref().and_then(|at| at.number).unwrap_or(0.0);
        let by_value = match numbers {
            Some(_) => number(a).total_cmp(&number(b)),
            None => std::cmp::Ordering::Equal,
        };
        position(&a.series).cmp(&position(&b.series)).then(by_value)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(engine: &str, variant: Option<&str>, swept: &[(&str, &str)], set: &[(&str, &str)]) -> RunSummary {
        let summary: schema::Summary = serde_json::from_str(record::EXAMPLE_SUMMARY).unwrap();
        let map = |pairs: &[(&str, &str)]| pairs.iter().map(|(a, b)| ((*a).into(), (*b).into())).collect();
        RunSummary {
            engine: engine.into(),
            variant: variant.map(Into::into),
            sweep: map(swept),
            set: map(set),
            ..summary.runs[0].clone()
        }
    }

    fn shown(runs: &[RunSummary]) -> (Option<String>, Vec<(String, String, usize)>) {
        let runs: Vec<(&str, &RunSummary)> = runs.iter().map(|run| ("s", run)).collect();
        let found = group_runs(&runs);
        let at = |group: &RunGroup| group.at.as_ref().map(|at| at.text.clone()).unwrap_or_default();
        let groups = found.groups.iter().map(|group| (group.series.clone(), at(group), group.runs.len()));
        (found.field, groups.collect())
    }

    #[test]
    fn repeats_form_one_group_and_variants_separate_ones() {
        let repeats = [
            run("sim", Some("cubic"), &[], &[("seed", "1")]),
            run("sim", Some("reno"), &[], &[]),
            run("sim", Some("cubic"), &[], &[("seed", "2")]),
        ];
        let expected = vec![("cubic".into(), String::new(), 2), ("reno".into(), String::new(), 1)];
        assert_eq!(shown(&repeats), (None, expected));
        assert_eq!(shown(&repeats[..1]).1, [(String::new(), String::new(), 1)], "nothing differs");
    }

    #[test]
    fn the_swept_field_is_the_axis_and_other_fields_are_series() {
        let of = |queue: &str, cc: &str| {
            run("sim", None, &[("flows.bulk.cc", cc), ("links.a-b.forward.queue", queue)], &[])
        };
        let one_field = [of("100p", "reno"), of("20p", "reno"), of("100p", "reno")];
        let (field, groups) = shown(&one_field);
        assert_eq!(field.as_deref(), Some("links.a-b.forward.queue"));
        assert_eq!(groups, [(String::new(), "20p".into(), 1), (String::new(), "100p".into(), 2)]);
        let (field, groups) = shown(&[of("100p", "reno"), of("20p", "cubic")]);
        assert_eq!(field.as_deref(), Some("links.a-b.forward.queue"), "the one with numbers");
        assert_eq!(groups[1], ("cc cubic".into(), "20p".into(), 1));
    }

    #[test]
    fn settings_and_engines_form_separate_groups() {
        let runs =
            [run("lab", None, &[], &[("duration", "5s")]), run("sim", None, &[], &[("duration", "9s")])];
        let names: Vec<String> = shown(&runs).1.into_iter().map(|group| group.0).collect();
        assert_eq!(names, ["lab, duration 5s", "sim, duration 9s"]);
    }

    #[test]
    fn simulated_kernels_form_groups_unless_the_variant_states_them() {
        let with = |kernel: Option<&str>, variant| RunSummary {
            kernel: kernel.map(Into::into),
            ..run("sim", variant, &[], &[])
        };
        let names = |runs: &[RunSummary]| -> Vec<(String, usize)> {
            shown(runs).1.into_iter().map(|(series, _, runs)| (series, runs)).collect()
        };
        let kernels = [with(None, None), with(Some("2.4"), None), with(Some("2.4"), None)];
        assert_eq!(names(&kernels), [(String::new(), 1), ("kernel 2.4".into(), 2)]);
        let variants = [with(Some("6.1"), Some("new")), with(Some("2.4"), Some("old"))];
        assert_eq!(names(&variants), [("new".into(), 1), ("old".into(), 1)]);
    }
}
