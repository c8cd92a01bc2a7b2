//! A scenario file: the base, its variants, and the published figures.

use std::collections::BTreeMap;

use crate::{
    decode_cc::parameter,
    decode_scenario::decode_scenario,
    error::{Error, Problems, Source},
    fill::fill,
    layer::{apply, normalise},
    name::{NamedKind, check_name},
    published::{Published, decode_published},
    set::set_layer,
    streams::expand_streams,
    suggest::suggest,
    sweep::{Axis, PointIndices, combinations, decode_sweeps, groups, value_text},
    trace_file::{Files, ReadFile, no_files},
    tree::{FILE_START, Node, Span, Table, parse_document},
    types::Scenario,
    validate::validate,
};

/// A scenario file that is valid in every variant.
#[derive(Debug, Clone)]
pub struct ScenarioFile {
    name: String,
    title: String,
    source: Source,
    base: Table,
    variants: Vec<Variant>,
    published: Vec<Published>,
    sweeps: Vec<Axis>,
    /// The texts of the files that it names.
    files: BTreeMap<String, String>,
}

#[derive(Debug, Clone)]
struct Variant {
    name: String,
    layer: Table,
}

impl ScenarioFile {
    /// Parses and checks the text of the file `name`, a path for messages whose stem is the scenario's name.
    ///
    /// The base must be valid by itself and is checked first; then each variant and the published figures.
    /// The scenario cannot name other files; see [`ScenarioFile::parse_with`].
    ///
    /// # Errors
    /// All mistakes of the first check that fails.
    pub fn parse(name: &str, text: &str) -> Result<Self, Error> {
        Self::parse_with(name, text, &no_files)
    }

    /// As [`ScenarioFile::parse`]. `load` reads the files that the scenario names (rate traces, congestion
    /// controls). Its argument is the path as written, which is relative and has no `..`; its error is why
    /// the file cannot be read.
    ///
    /// # Errors
    /// As [`ScenarioFile::parse`]; also files that cannot be read or used.
    pub fn parse_with(name: &str, text: &str, load: &ReadFile) -> Result<Self, Error> {
        let files = Files::new(load, BTreeMap::new());
        let source = Source::file(name, text);
        let sources = std::slice::from_ref(&source);
        let name = stem(name);
        let mut problems = Problems::default();
        let mut root = match parse_document(text, 0) {
            Ok(root) => root,
            Err((message, span)) => {
                problems.add(span, format!("this is not TOML: {message}"));
                Table::default()
            }
        };
        problems = problems.stop(sources)?;
        normalise(&mut root);
        let base = resolve_tree(&name, &root, &files, &mut problems);
        let variants = decode_variants(&root, &mut problems);
        let sweeps = decode_sweeps(&root, &mut problems);
        problems = problems.stop(sources)?;
        for variant in &variants {
            check_variant(&name, &root, &files, variant, &mut problems);
        }
        problems = problems.stop(sources)?;
        check_sweeps(&name, &root, &files, &variants, &sweeps, &mut problems);
        let names: Vec<&str> = variants.iter().map(|v| v.name.as_str()).collect();
        let published = decode_published(&root, &names, &base, &mut problems);
        problems.stop(sources)?;
        let files = files.into_read();
        Ok(ScenarioFile { name, title: base.title, source, base: root, variants, published, sweeps, files })
    }

    /// The title in one line; the name if the file has none.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The title where `sets` may change it, as [`ScenarioFile::resolve`] takes them.
    pub fn title_with(&self, sets: &[(String, String)]) -> String {
        let title =
            self.layered(None, sets).ok().and_then(|(tree, _)| tree.get("title")?.text().map(str::to_owned));
        title.unwrap_or_else(|| self.title.clone())
    }

    /// The scenario's name: the file's stem.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The variants' names, in the order of the file.
    pub fn variants(&self) -> impl Iterator<Item = &str> {
        self.variants.iter().map(|v| v.name.as_str())
    }

    /// The published figures.
    pub fn published(&self) -> &[Published] {
        &self.published
    }

    /// The points of the sweeps, each as path and value of every swept field, as [`ScenarioFile::resolve`]
    /// takes them. A file without sweeps has one point without fields.
    pub fn points(&self) -> Vec<Vec<(String, String)>> {
        let value = |axis: &Axis, index: usize| value_text(&axis.values[index]).unwrap_or_default();
        let point = |indices: PointIndices| {
            self.sweeps
                .iter()
                .zip(indices)
                .map(|(axis, index)| (axis.field.clone(), value(axis, index)))
                .collect()
        };
        combinations(&self.sweeps).into_iter().map(point).collect()
    }

    /// Checks that the scenario has flows to run. Without flows it only describes a network.
    ///
    /// # Errors
    /// If it has no flows.
    pub fn check_runnable(&self) -> Result<(), Error> {
        let mut problems = Problems::default();
        if self.base.items("flows").is_empty() {
            let help = "write for example [[flows]] with name, from and to";
            problems.add_help(FILE_START, "the scenario has no flows", help);
        }
        problems.stop(std::slice::from_ref(&self.source)).map(|_| ())
    }

    /// Resolves the base or a variant, overlaid with `sets`, the path and value of each `--set`.
    ///
    /// A path is dotted as in a variant: `flows.bulk.cc`, `links.s1-s2.forward.loss`, `hosts.*.mtu`. A value
    /// is TOML; any other text is a string, so that `20ms` needs no quotes.
    ///
    /// # Errors
    /// An unknown variant, or mistakes in `sets`.
    pub fn resolve(&self, variant: Option<&str>, sets: &[(String, String)]) -> Result<Scenario, Error> {
        self.resolve_with(variant, sets, &no_files)
    }

    /// As [`ScenarioFile::resolve`]. `load` reads files that only `sets` name.
    ///
    /// # Errors
    /// As [`ScenarioFile::resolve`]; also files that cannot be read or used.
    pub fn resolve_with(
        &self,
        variant: Option<&str>,
        sets: &[(String, String)],
        load: &ReadFile,
    ) -> Result<Scenario, Error> {
        let files = Files::new(load, self.files.clone());
        let (tree, sources) = self.layered(variant, sets)?;
        let mut found = Problems::default();
        let scenario = resolve_tree(&self.name, &tree, &files, &mut found);
        let mut problems = Problems::default();
        problems.extend_within(&context_of(sets), found);
        problems.stop(&sources)?;
        Ok(scenario)
    }

    /// The error for `mistakes` in congestion controls, with the positions of their flows in the same
    /// `variant` and `sets` as for [`ScenarioFile::resolve`]; `None` without mistakes.
    pub fn cc_error(
        &self,
        variant: Option<&str>,
        sets: &[(String, String)],
        mistakes: &[CcMistake],
    ) -> Option<Error> {
        let (mut tree, sources) = match self.layered(variant, sets) {
            Ok(layered) => layered,
            Err(error) => return Some(error),
        };
        expand_streams(&mut tree, &mut Problems::default());
        let mut found = Problems::default();
        for mistake in mistakes {
            found.add_help(mistake.span(&tree), &mistake.message, &mistake.help);
        }
        let mut problems = Problems::default();
        match variant {
            Some(variant) => problems.extend_within(&format!("variant \"{variant}\""), found),
            None => problems = found,
        }
        problems.stop(&sources).err()
    }

    /// The tree of the base, a variant and `sets`, and the sources that its spans refer to.
    fn layered(
        &self,
        variant: Option<&str>,
        sets: &[(String, String)],
    ) -> Result<(Table, Vec<Source>), Error> {
        let mut sources = vec![self.source.clone()];
        let mut problems = Problems::default();
        let mut tree = self.base.clone();
        if let Some(name) = variant {
            match self.variants.iter().find(|v| v.name == name) {
                Some(found) => tree = apply(&tree, &found.layer, &mut problems),
                None => {
                    let span = Span { source: sources.len(), start: 0, end: name.len() };
                    sources.push(Source::option("--variant", name));
                    problems.add_help(span, "unknown variant", suggest(name, self.variants()));
                }
            }
        }
        for (path, value) in sets {
            let layer = set_layer(path, value, sources.len(), &mut problems);
            sources.push(Source::option("--set", &format!("{path}={value}")));
            tree = apply(&tree, &layer, &mut problems);
        }
        problems.stop(&sources)?;
        Ok((tree, sources))
    }
}

/// A mistake in a flow's congestion control, found by a caller that has the algorithms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CcMistake {
    /// The flow.
    pub flow: String,
    /// The parameter; `None` for a mistake of the algorithm as a whole.
    pub parameter: Option<String>,
    /// The problem.
    pub message: String,
    /// The help.
    pub help: String,
}

impl CcMistake {
    fn span(&self, root: &Table) -> Span {
        let named = |node: &&Node| {
            node.table().and_then(|t| t.get("name")).and_then(Node::text) == Some(self.flow.as_str())
        };
        let cc = root.items("flows").iter().find(named).and_then(|flow| flow.table()?.get("cc"));
        let entry = cc.zip(self.parameter.as_deref()).and_then(|(cc, name)| parameter(cc, name));
        // The value's span, not the key's: with --set the key's span is the whole option.
        entry.map(|e| e.node.span).or(cc.map(|cc| cc.span)).unwrap_or(FILE_START)
    }
}

/// The context of mistakes that occur with these options.
fn context_of(sets: &[(String, String)]) -> String {
    let options: Vec<String> = sets.iter().map(|(path, value)| format!("--set {path}={value}")).collect();
    format!("with {}", options.join(" "))
}

/// The stem of a path: `lab8` of `scenarios/lab8.toml`.
fn stem(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    let stem = file.strip_suffix(".toml").unwrap_or(file).trim_start_matches('.');
    if stem.is_empty() { "scenario".to_owned() } else { stem.to_owned() }
}

/// Decodes a tree, and validates it as a whole if its parts are valid.
fn resolve_tree(name: &str, root: &Table, files: &Files, problems: &mut Problems) -> Scenario {
    let before = problems.len();
    let mut root = root.clone();
    expand_streams(&mut root, problems);
    let mut scenario = decode_scenario(name, &root, files, problems);
    if problems.len() == before {
        fill(&mut scenario);
        validate(&scenario, &root, problems);
    }
    scenario
}

fn decode_variants(root: &Table, problems: &mut Problems) -> Vec<Variant> {
    let Some(node) = root.get("variants") else { return Vec::new() };
    let Some(items) = node.list() else {
        let message = format!("\"variants\" is a list of tables, not {}", node.kind());
        problems.add_help(node.span, message, "write [[variants]] above each variant");
        return Vec::new();
    };
    let mut variants: Vec<Variant> = Vec::new();
    for item in items {
        let Some(variant) = decode_variant(item, problems) else { continue };
        if variants.iter().any(|v| v.name == variant.name) {
            let span = item.table().and_then(|t| t.get("name")).map_or(item.span, |n| n.span);
            problems.add(span, format!("two variants are called \"{}\"", variant.name));
        }
        variants.push(variant);
    }
    variants
}

fn decode_variant(node: &Node, problems: &mut Problems) -> Option<Variant> {
    let Some(table) = node.table() else {
        problems.add(node.span, format!("a variant is a table, not {}", node.kind()));
        return None;
    };
    let mut layer = table.clone();
    let Some(name) = layer.remove("name") else {
        problems.add_help(node.span, "a variant needs \"name\"", "for example name = \"tuned\"");
        return None;
    };
    let Some(text) = name.node.text() else {
        problems.add(name.node.span, format!("\"name\" is a string, not {}", name.node.kind()));
        return None;
    };
    check_name(NamedKind::Variant, text, name.node.span, problems);
    Some(Variant { name: text.to_owned(), layer })
}

fn check_variant(name: &str, root: &Table, files: &Files, variant: &Variant, problems: &mut Problems) {
    let mut found = Problems::default();
    let tree = apply(root, &variant.layer, &mut found);
    // A variant may equal the base: it is then the baseline of a comparison.
    resolve_tree(name, &tree, files, &mut found);
    problems.extend_within(&format!("variant \"{}\"", variant.name), found);
}

/// Checks every point of the sweeps, in the base or in every variant. First checks each value without the
/// other sweeps, so that a wrong value is reported once.
fn check_sweeps(
    name: &str,
    root: &Table,
    files: &Files,
    variants: &[Variant],
    sweeps: &[Axis],
    problems: &mut Problems,
) {
    for axis in sweeps {
        for value in axis.values.iter().filter(|value| value_text(value).is_none()) {
            problems.add(value.span, format!("a field cannot be {}", value.kind()));
        }
    }
    let apply_variant = |variant: &Variant| apply(root, &variant.layer, &mut Problems::default());
    let mut trees: Vec<Table> = variants.iter().map(apply_variant).collect();
    if trees.is_empty() {
        trees.push(root.clone());
    }
    let mut check = |tree: &Table, layers: &[(&Axis, &Node)]| {
        let mut found = Problems::default();
        let mut tree = tree.clone();
        for (axis, value) in layers {
            tree = apply(&tree, &axis.layer(value), &mut found);
        }
        if found.is_empty() {
            resolve_tree(name, &tree, files, &mut found);
        }
        let settings = layers
            .iter()
            .map(|(axis, value)| format!("{} = {}", axis.field, value_text(value).unwrap_or_default()));
        problems.extend_within(&format!("with {}", settings.collect::<Vec<_>>().join(", ")), found);
        problems.is_empty()
    };
    for tree in &trees {
        // All values, so that all mistakes are reported.
        let mut is_valid = true;
        for group in groups(sweeps) {
            for index in 0..sweeps[group[0]].values.len() {
                let layers: Vec<(&Axis, &Node)> =
                    group.iter().map(|axis| (&sweeps[*axis], &sweeps[*axis].values[index])).collect();
                is_valid &= check(tree, &layers);
            }
        }
        let points = if sweeps.len() > 1 && is_valid { combinations(sweeps) } else { Vec::new() };
        for point in points {
            let layers: Vec<(&Axis, &Node)> =
                sweeps.iter().zip(point).map(|(axis, index)| (axis, &axis.values[index])).collect();
            if !check(tree, &layers) {
                return;
            }
        }
    }
}
