//! The scenario files that are part of this program: those of `scenarios/`, by name.
//!
//! Commands accept a name in place of a scenario file, unless a file of that name exists. None of these files
//! names another file, so that they work in any directory (a test checks this).

use std::path::Path;

use scenario::ScenarioFile;

/// A scenario file of this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuiltIn {
    /// Its name, as in `lab8`; unique among all collections.
    pub name: &'static str,
    /// Its collection.
    pub collection: Collection,
    /// The file's text.
    pub text: &'static str,
}

/// A folder of `scenarios/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Collection {
    /// Labs, published experiments, and scenarios of the documentation.
    Experiments,
    /// Networks as they occur in practice.
    Gallery,
    /// A healthy path, and paths with one fault each.
    Faults,
    /// Scenarios with swept fields.
    Sweeps,
}

impl Collection {
    /// All collections, in display order.
    pub const ALL: [Collection; 4] =
        [Collection::Experiments, Collection::Gallery, Collection::Faults, Collection::Sweeps];

    /// Its name in lists.
    pub fn name(self) -> &'static str {
        match self {
            Collection::Experiments => "experiments",
            Collection::Gallery => "gallery",
            Collection::Faults => "faults",
            Collection::Sweeps => "sweeps",
        }
    }

    /// The folder below `scenarios/`, with a slash at its end; empty for the experiments.
    fn folder(self) -> &'static str {
        match self {
            Collection::Experiments => "",
            Collection::Gallery => "gallery/",
            Collection::Faults => "faults/",
            Collection::Sweeps => "sweeps/",
        }
    }
}

macro_rules! texts {
    ($($collection:ident in $folder:literal: $($name:literal),*;)*) => {
        &[$($(BuiltIn {
            name: $name,
            collection: Collection::$collection,
            text: include_str!(concat!("../../../scenarios/", $folder, $name, ".toml")),
        }),*),*]
    };
}

/// All built-in scenario files, by collection and then by name.
pub const BUILT_IN: &[BuiltIn] = texts![
    Experiments in "": "areas", "cc-differential", "closed-forms", "g-endbuf", "g-mtu", "g-mtufair",
        "g-mtufair-short", "g-multi", "g-multi-transfer", "g-recover", "g-rttfair", "g-rttfair-short", "h-100m",
        "h-900", "h-burst", "h-gigabit", "h-lab", "h-pathbuff", "h-pe1650", "h-transpac", "l8-hol", "lab13",
        "lab8", "lab8-kernel-6-1", "lab8-ping", "loss-law", "u-buffers", "u-runs", "u-web100", "verdicts",
        "xcp", "zero-window";
    Gallery in "gallery/": "chain", "dsl", "e-vlbi", "incast", "leo", "transatlantic";
    Faults in "faults/": "cpu-bound-receiver", "ecn-marks", "half-speed-hop", "healthy",
        "lossy-link", "mtu-black-hole", "own-queue", "policer", "small-rmem", "small-switch-buffer",
        "small-wmem", "window-scaling-off";
    Sweeps in "sweeps/": "cc-rtt-loss", "mtu", "socket-buffers", "streams", "transports",
        "tsunami-paths", "udp", "udt-paths";
];

/// The MiniEdit topologies of this program: the networks of the lab sheets as the course ships them, by file
/// name.
pub const TOPOLOGIES: [(&str, &str); 2] = [
    ("lab8.mn", include_str!("../../../scenarios/lab8.mn")),
    ("lab13.mn", include_str!("../../../scenarios/lab13.mn")),
];

/// The text of the built-in MiniEdit topology that a command reads for `path`: a file of that name takes
/// precedence.
pub(crate) fn topology(path: &Path) -> Option<&'static str> {
    let text = path.to_str().filter(|_| !path.exists())?;
    let name = text.strip_prefix("scenarios/").unwrap_or(text);
    TOPOLOGIES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

impl BuiltIn {
    /// The parsed file.
    ///
    /// # Errors
    /// The file has mistakes, which a test excludes.
    pub fn parse(&self) -> Result<ScenarioFile, scenario::Error> {
        ScenarioFile::parse(self.name, self.text)
    }
}

/// The built-in scenario that `path` names: `dsl`, or as in the source tree `gallery/dsl`,
/// `scenarios/gallery/dsl.toml`.
pub fn find(path: &Path) -> Option<&'static BuiltIn> {
    let text = path.to_str()?;
    let text = text.strip_prefix("scenarios/").unwrap_or(text);
    let text = text.strip_suffix(".toml").unwrap_or(text);
    BUILT_IN.iter().find(|one| {
        text == one.name || text.strip_prefix(one.collection.folder()).is_some_and(|rest| rest == one.name)
    })
}

/// The built-in scenario that a command reads for `path`: a file of that name takes precedence.
pub(crate) fn in_place_of(path: &Path) -> Option<&'static BuiltIn> {
    find(path).filter(|_| !path.exists() || path.is_dir())
}

/// The names of all built-in scenarios, those most similar to `name` first.
pub fn names_near(name: &str) -> Vec<&'static str> {
    schema::by_similarity(name, BUILT_IN.iter().map(|one| one.name))
}

/// Help for a scenario file that does not exist: the nearest names, and for a bare name all there are.
pub(crate) fn help(path: &Path) -> String {
    let Some(name) = path.to_str().filter(|text| !text.contains('/')) else { return String::new() };
    let (stem, is_bare) = match name.rsplit_once('.') {
        Some((stem, _)) => (stem, false),
        None => (name, true),
    };
    let near = names_near(stem);
    if !is_bare {
        let like = near.first().filter(|like| scenario::is_similar(stem, like));
        return like
            .map_or_else(String::new, |like| format!(" (did you mean the built-in scenario {like}?)"));
    }
    let mut text = String::from(", and there is no built-in scenario of this name\n");
    let similar = near.iter().filter(|like| like.contains(name) || scenario::is_similar(name, like));
    let similar: Vec<&str> = similar.copied().take(3).collect();
    if !similar.is_empty() {
        text.push_str(&format!("  nearest names: {}\n", similar.join(", ")));
    }
    for collection in Collection::ALL {
        let names = BUILT_IN.iter().filter(|one| one.collection == collection).map(|one| one.name);
        let names: Vec<&str> = names.collect();
        text.push_str(&wrapped(&format!("  {}: ", collection.name()), &names));
    }
    text + "  longfat scenario list has a line about each"
}

/// The heading and the words in lines of at most 80 columns.
fn wrapped(heading: &str, words: &[&str]) -> String {
    let mut lines = vec![heading.to_owned()];
    for (index, word) in words.iter().enumerate() {
        let end = if index + 1 < words.len() { ", " } else { "" };
        let line = lines.last_mut().expect("a first line");
        if line.len() + word.len() + end.trim_end().len() > 80 {
            line.truncate(line.trim_end().len());
            lines.push("    ".to_owned());
        }
        lines.last_mut().expect("a first line").push_str(&format!("{word}{end}"));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_file_of_the_project_is_built_in() {
        for collection in Collection::ALL {
            let folder =
                Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(collection.folder());
            let files = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
            let files: Vec<_> = files.filter(|path| path.extension().is_some_and(|e| e == "toml")).collect();
            assert_eq!(files.len(), BUILT_IN.iter().filter(|one| one.collection == collection).count());
            for file in files {
                let found = find(Path::new(file.file_stem().unwrap())).unwrap_or_else(|| panic!("{file:?}"));
                assert_eq!(found.text, std::fs::read_to_string(&file).unwrap(), "{file:?}");
            }
        }
    }

    #[test]
    fn names_are_unique_and_the_files_need_no_other_file() {
        for (index, one) in BUILT_IN.iter().enumerate() {
            assert!(BUILT_IN[..index].iter().all(|other| other.name != one.name), "{}", one.name);
            one.parse().unwrap_or_else(|error| panic!("{}: {error}", one.name));
        }
    }

    #[test]
    fn scenarios_are_found_by_name_and_by_path_in_the_source_tree() {
        for path in ["dsl", "gallery/dsl", "dsl.toml", "scenarios/gallery/dsl.toml"] {
            assert_eq!(find(Path::new(path)).map(|one| one.name), Some("dsl"), "{path}");
        }
        for path in ["./dsl", "faults/dsl", "/dsl", "dsl.mn", ""] {
            assert_eq!(find(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn the_class_sheets_topologies_are_networks_of_two_hosts() {
        for (name, text) in TOPOLOGIES {
            assert_eq!(topology(Path::new(name)), Some(text));
            let file = crate::scenario_file::read(Path::new(name), |_| {}).unwrap();
            let scenario = file.resolve(None, &[]).unwrap();
            let hosts: Vec<String> = scenario.hosts.iter().map(|host| host.address().to_string()).collect();
            assert_eq!(hosts, ["10.0.0.1", "10.0.0.2"], "{name}");
            assert_eq!(scenario.links.len(), 3, "{name}");
        }
        assert_eq!(topology(Path::new("other/lab8.mn")), None);
    }

    #[test]
    fn the_help_begins_with_similar_names() {
        let help = help(Path::new("lab9"));
        assert!(help.contains("nearest names: lab8"), "{help}");
        assert!(help.lines().all(|line| line.len() <= 80), "{help}");
        assert!(BUILT_IN.iter().all(|one| help.contains(one.name)), "{help}");
        assert_eq!(super::help(Path::new("lab9.toml")), " (did you mean the built-in scenario lab8?)");
        assert_eq!(super::help(Path::new("nothing.toml")), "");
    }
}
