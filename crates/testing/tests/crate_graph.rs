//! Checks that the crate graph in ARCHITECTURE.md matches the manifests.
//! `LONGFAT_UPDATE=1 cargo test -p longfat-testing` writes it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

/// The workspace's crates among the dependencies of each crate, without dev-dependencies.
type Graph = BTreeMap<String, BTreeSet<String>>;

const BEGIN: &str = "<!-- crate graph: written by a test -->\n```text\n";
const END: &str = "```\n";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn graph() -> Graph {
    let mut manifests = Graph::new();
    for folder in fs::read_dir(root().join("crates")).unwrap().flatten() {
        let text = fs::read_to_string(folder.path().join("Cargo.toml")).unwrap();
        let manifest: toml::Table = text.parse().unwrap();
        let dependencies = manifest.get("dependencies").and_then(toml::Value::as_table);
        let dependencies = dependencies.map(|table| table.keys().cloned().collect());
        manifests.insert(folder.file_name().into_string().unwrap(), dependencies.unwrap_or_default());
    }
    let own: BTreeSet<String> = manifests.keys().cloned().collect();
    manifests.values_mut().for_each(|dependencies| dependencies.retain(|name| own.contains(name)));
    manifests
}

/// All crates that a crate depends on indirectly.
fn indirect(graph: &Graph, name: &str) -> BTreeSet<String> {
    let through = |direct: &String| {
        let further = indirect(graph, direct);
        graph[direct].iter().cloned().chain(further).collect::<Vec<_>>()
    };
    graph[name].iter().flat_map(through).collect()
}

/// Length of the longest dependency chain that ends at this crate, this one included.
fn layer(graph: &Graph, name: &str) -> usize {
    1 + graph[name].iter().map(|below| layer(graph, below)).max().unwrap_or(0)
}

/// One line for each crate, the program first, with its direct dependencies that are not also indirect ones.
fn drawn(graph: &Graph) -> String {
    let mut names: Vec<&String> = graph.keys().filter(|name| *name != "testing").collect();
    names.sort_by_key(|name| (usize::MAX - layer(graph, name), (*name).clone()));
    let mut text = String::new();
    for name in names {
        let indirect = indirect(graph, name);
        let direct: Vec<&str> = graph[name].difference(&indirect).map(String::as_str).collect();
        let line = format!("{:2} {name:15} {}", layer(graph, name), direct.join(", "));
        writeln!(text, "{}", line.trim_end()).unwrap();
    }
    text
}

#[test]
fn the_graph_in_architecture_matches_the_manifests() {
    let path = root().join("ARCHITECTURE.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("ARCHITECTURE.md has the marker of the graph");
    let (written, after) = rest.split_once(END).expect("the graph ends");
    let drawn = drawn(&graph());
    if std::env::var_os("LONGFAT_UPDATE").is_some() {
        fs::write(&path, format!("{before}{BEGIN}{drawn}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(written, drawn, "LONGFAT_UPDATE=1 cargo test -p longfat-testing writes the graph");
}
