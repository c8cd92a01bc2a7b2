//! Decodes a scenario: the top level of the file. Checks types and single values; `validate.rs` checks the
//! relations between values.

use units::Time;

use crate::{
    decode_flows::decode_flows,
    decode_hosts::{decode_hosts, simulated_kernel},
    decode_links::decode_links,
    decode_routers::decode_routers,
    error::Problems,
    name::{NamedKind, check_name},
    read::{Keys, Reader},
    trace_file::Files,
    tree::{FILE_START, Table},
    types::{Scenario, SysctlDefaults},
};

pub(crate) const TOP: Keys = Keys {
    what: "a scenario",
    known: &[
        "title",
        "duration",
        "sample",
        "seed",
        "repeat",
        "sysctl",
        "fixed_neighbours",
        "hosts",
        "switches",
        "routers",
        "links",
        "flows",
        "capture",
        "variants",
        "published",
        "sweeps",
    ],
    nested: None,
};
pub(crate) const SWITCHES: Keys = Keys { what: "switches", known: &["names"], nested: None };

const DEFAULT_SAMPLE: Time = Time::from_millis(10);
const MIN_SAMPLE: Time = Time::from_nanos(1_000);
const MAX_SAMPLE: Time = Time::from_secs(10);

/// Decodes the scenario `name` from a normalised tree. Reports and skips wrong values.
///
/// `fill.rs` assigns addresses that the file omits.
pub(crate) fn decode_scenario(name: &str, root: &Table, files: &Files, problems: &mut Problems) -> Scenario {
    let mut top = Reader::of_table(root, FILE_START, &TOP, problems);
    let title = top.text("title").unwrap_or_else(|| name.to_owned());
    if root.get("flows").is_some() {
        top.required("duration", "\"20s\"");
    }
    let duration = top.positive_time("duration").unwrap_or_default();
    let sample = sample(&mut top);
    let seed = top.integer("seed", 0..=u64::MAX, "").unwrap_or(1);
    let repeat = top.integer("repeat", 1..=1000, "").unwrap_or(1) as u32;
    let sysctl = sysctl_defaults(&mut top);
    let fixed_neighbours = top.boolean("fixed_neighbours").unwrap_or(false);
    let captures = top.texts("capture").into_iter().map(|(name, _)| name.to_owned()).collect();
    let links = decode_links(root, files, problems);
    Scenario {
        name: name.to_owned(),
        title,
        duration,
        sample,
        seed,
        repeat,
        sysctl,
        fixed_neighbours,
        hosts: decode_hosts(root, &links, problems),
        switches: decode_switches(root, problems),
        routers: decode_routers(root, &links, problems),
        links,
        flows: decode_flows(root, files, problems),
        captures,
    }
}

fn sample(top: &mut Reader) -> Time {
    let sample = top.time("sample").unwrap_or(DEFAULT_SAMPLE);
    if !(MIN_SAMPLE..=MAX_SAMPLE).contains(&sample) {
        top.report("sample", format!("\"sample\" cannot be {sample}"), "write a time from 1us to 10s");
    }
    sample
}

/// Decodes `"machine"` or a kernel whose defaults apply, such as `"6.1"`.
fn sysctl_defaults(top: &mut Reader) -> Option<SysctlDefaults> {
    let text = top.text("sysctl")?;
    if text.trim() == "machine" {
        return Some(SysctlDefaults::Machine);
    }
    match simulated_kernel(&text) {
        Some(kernel) => Some(SysctlDefaults::Linux(kernel.version)),
        None => {
            let help = "write \"machine\" for the values of the machine that runs it, or a kernel whose defaults \
                        apply: \"2.4\", or 5.0 and later, such as \"6.1\"";
            top.report("sysctl", format!("no sysctl defaults are known for {text:?}"), help);
            None
        }
    }
}

fn decode_switches(root: &Table, problems: &mut Problems) -> Vec<String> {
    let Some(node) = root.get("switches") else { return Vec::new() };
    let Some(mut reader) = Reader::new(node, &SWITCHES, problems) else { return Vec::new() };
    let Some(names) = reader.required("names", "[\"s1\", \"s2\"]") else { return Vec::new() };
    let problems = reader.problems();
    let Some(items) = names.list() else {
        problems.add(names.span, format!("\"names\" is a list of strings, not {}", names.kind()));
        return Vec::new();
    };
    let mut switches = Vec::new();
    for item in items {
        match item.text() {
            Some(name) => {
                check_name(NamedKind::Switch, name, item.span, problems);
                switches.push(name.to_owned());
            }
            None => problems.add(item.span, format!("a switch's name is a string, not {}", item.kind())),
        }
    }
    switches
}
