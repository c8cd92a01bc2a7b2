//! The congestion controls of the kernel's selftests. A table in docs/write-your-own-cc.md has the result of
//! each.
//!
//! The files are those of Debian's source packages and are not part of this repository. They are read from
//! the folder `LONGFAT_SELFTESTS` (as `linux-source-VERSION/tools/testing/selftests/bpf/progs`), else in
//! /usr/src/linux-source-*.tar.xz. scripts/selftests.sh fetches them, runs this test, and rewrites the table.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use cc::{
    ParameterValues, Source, kernel,
    native::{Library, build},
};
use tcp::test_kit;

/// The kernel of the table's column for eBPF.
const TABLE_KERNEL: &str = "6.18";
const BEGIN: &str = "<!-- selftests: written by scripts/selftests.sh -->";
const END: &str = "<!-- end of selftests -->";
const PROGS: &str = "tools/testing/selftests/bpf/progs";
/// Files that test a refusal, and their deliberate error.
const MEANT: [(&str, &str); 5] = [
    ("bpf_dctcp_release.c", "release may not change options"),
    ("bpf_tcp_nogpl.c", "another license"),
    ("tcp_ca_incompl_cong_ops.c", "operations are missing"),
    ("tcp_ca_unsupp_cong_op.c", "get_info is not for eBPF"),
    ("tcp_ca_untrusted_btf_write.c", "a write through an untrusted pointer"),
];

/// The source trees by version ("6.12"), and a temporary folder that must exist while they are used.
fn trees() -> Option<(BTreeMap<Version, PathBuf>, Option<tempfile::TempDir>)> {
    if let Some(folder) = std::env::var_os("LONGFAT_SELFTESTS") {
        let found = versions(Path::new(&folder), "");
        assert!(!found.is_empty(), "LONGFAT_SELFTESTS={} has no linux-source-*", folder.display());
        return Some((found, None));
    }
    let packed = versions(Path::new("/usr/src"), ".tar.xz");
    if packed.is_empty() {
        return None;
    }
    let place = tempfile::tempdir().unwrap();
    for (version, archive) in &packed {
        let mut tar = Command::new("tar");
        tar.arg("-xJf").arg(archive).arg("-C").arg(place.path());
        let status = tar.arg(format!("linux-source-{}/{PROGS}", version.0)).status().unwrap();
        assert!(status.success(), "cannot unpack {}", archive.display());
    }
    Some((versions(place.path(), ""), Some(place)))
}

/// A kernel series, ordered by its numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Version(String);

impl Version {
    fn numbers(&self) -> Vec<u32> {
        self.0.split('.').filter_map(|n| n.parse().ok()).collect()
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.numbers().cmp(&other.numbers())
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

fn versions(folder: &Path, end: &str) -> BTreeMap<Version, PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let version = name.strip_prefix("linux-source-")?.strip_suffix(end)?;
        let is_version = version.chars().all(|c| c.is_ascii_digit() || c == '.');
        is_version.then(|| (Version(version.to_string()), entry.path()))
    });
    named.collect()
}

/// All files with a `struct tcp_congestion_ops` variable, by name.
fn files(tree: &Path) -> Vec<PathBuf> {
    let progs = tree.join(PROGS);
    let entries = fs::read_dir(&progs).unwrap_or_else(|e| panic!("{}: {e}", progs.display()));
    let is_wanted = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap_or_default();
        path.extension().is_some_and(|e| e == "c")
            && text.lines().any(|l| l.starts_with("struct tcp_congestion_ops ") && l.contains('='))
    };
    let mut found: Vec<PathBuf> = entries.flatten().map(|e| e.path()).filter(is_wanted).collect();
    found.sort();
    found
}

/// Whether the running kernel accepts the file. No socket uses it: some of these programs are only meant to
/// be loaded, not to run.
fn in_kernel(path: &Path) -> Result<(), String> {
    let source = Source::file(path).map_err(|e| e.to_string())?;
    kernel::load(&source, &ParameterValues::new(), None).map(drop).map_err(|e| e.to_string())
}

/// Not a separate test: one file natively, in a process that may crash.
#[test]
fn native_trial() {
    let Some(path) = std::env::var_os("LONGFAT_TEST_NATIVE") else { return };
    let source = Source::file(Path::new(&path)).unwrap();
    let trial = || -> Result<(), String> {
        build(&source).map_err(|e| e.to_string())?;
        let library = Library::open(&source, &ParameterValues::new()).map_err(|e| e.to_string())?;
        let controller = library.controller(None).map_err(|e| e.to_string())?;
        let mut rounds = test_kit::Rounds::new(test_kit::Path::default(), controller);
        rounds.run(200);
        rounds.timeout();
        rounds.run(200);
        if rounds.sk().snd_cwnd == 0 { Err("it set the congestion window to 0".into()) } else { Ok(()) }
    };
    let said = trial().err().unwrap_or_else(|| "runs".into());
    println!("\ntrial: {}", said.lines().next().unwrap_or_default());
}

fn natively(path: &Path) -> Result<(), String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "selftests::native_trial", "--nocapture"])
        .env("LONGFAT_TEST_NATIVE", path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > Duration::from_secs(120) {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    match said.lines().find_map(|l| l.strip_prefix("trial: ")) {
        Some("runs") => Ok(()),
        Some(why) => Err(why.into()),
        None => Err(format!("crashes ({})", output.status)),
    }
}

/// A cell of the table: line and message without path, name and remedy.
fn cell(result: &Result<(), String>, good: &str, path: &Path) -> String {
    let Err(why) = result else { return good.into() };
    let first = why.lines().next().unwrap_or_default();
    let (_, first) = first.split_once(&format!("{}:", path.display())).unwrap_or(("", first));
    let reason = first.split("; ").next().unwrap_or_default();
    let named = if first.starts_with(|c: char| c.is_ascii_digit()) { "line " } else { "" };
    format!("refused: {named}{}", reason.replace('|', "\\|").replace('*', "\\*"))
}

/// Like [`cell`], for selftests that may expect the refusal.
fn cell_in_kernel(result: &Result<(), String>, path: &Path) -> String {
    let cell = cell(result, "loads", path);
    let file = path.file_name().unwrap_or_default();
    match MEANT.iter().find(|(name, _)| file == *name) {
        Some((_, what)) => cell.replacen("refused:", &format!("refused as meant ({what}):"), 1),
        None => cell,
    }
}

/// One line of the table for each file and version.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    file: String,
    version: String,
    in_kernel: String,
    natively: String,
}

fn rows(trees: &BTreeMap<Version, PathBuf>, kernel: bool) -> Vec<Row> {
    let mut rows = Vec::new();
    for (version, tree) in trees {
        let found = files(tree);
        assert!(found.len() >= 7, "{}: only {found:?}", version.0);
        for path in found {
            let file = path.file_name().unwrap().to_string_lossy().into_owned();
            rows.push(Row {
                in_kernel: if kernel { cell_in_kernel(&in_kernel(&path), &path) } else { String::new() },
                natively: cell(&natively(&path), "runs", &path),
                version: version.0.clone(),
                file,
            });
        }
    }
    rows.sort_by_key(|row| row.file.clone());
    rows
}

fn write(rows: &[Row]) -> String {
    let mut text =
        format!("| file | of Linux | eBPF on Linux {TABLE_KERNEL} | simulator |\n|---|---|---|---|\n");
    for Row { file, version, in_kernel, natively } in rows {
        text.push_str(&format!("| `{file}` | {version} | {in_kernel} | {natively} |\n"));
    }
    text
}

fn read(table: &str) -> Vec<Row> {
    let cells = |line: &str| -> Option<Row> {
        let line = line.strip_prefix("| `")?.strip_suffix(" |")?;
        let mut cells = line.split(" | ").map(str::to_string);
        let file = cells.next()?.trim_end_matches('`').to_string();
        Some(Row { file, version: cells.next()?, in_kernel: cells.next()?, natively: cells.next()? })
    };
    table.lines().filter_map(cells).collect()
}

#[test]
fn the_kernels_selftests_have_the_results_of_the_table() {
    let Some((trees, _place)) = trees() else {
        let why = "no /usr/src/linux-source-*.tar.xz; scripts/selftests.sh fetches what is needed";
        return testing::skip(testing::Missing::Feature, why);
    };
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let on_table_kernel =
        release.starts_with(&format!("{TABLE_KERNEL}.")) && kernel::missing_requirement().is_none();
    let found = rows(&trees, on_table_kernel);
    for registered in kernel::loaded_controls().unwrap_or_default() {
        assert!(
            !registered.held_by.iter().any(|(pid, _)| *pid == std::process::id())
                || !registered.name.starts_with("bpf_"),
            "{registered:?} is still there"
        );
    }
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/write-your-own-cc.md");
    let text = fs::read_to_string(&docs).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the table's beginning is marked");
    let (table, after) = rest.split_once(END).expect("the table's end is marked");
    if std::env::var_os("LONGFAT_SELFTESTS_WRITE").is_some() {
        assert!(on_table_kernel, "the table is for Linux {TABLE_KERNEL} with BTF, as root");
        return fs::write(&docs, format!("{before}{BEGIN}\n{}{END}{after}", write(&found))).unwrap();
    }
    let expected: Vec<Row> =
        read(table).into_iter().filter(|r| found.iter().any(|f| f.version == r.version)).collect();
    assert!(
        !expected.is_empty(),
        "the table has none of {:?}; scripts/selftests.sh writes it anew",
        trees.keys()
    );
    let strip = |rows: Vec<Row>| -> Vec<Row> {
        if on_table_kernel {
            return rows;
        }
        rows.into_iter().map(|row| Row { in_kernel: String::new(), ..row }).collect()
    };
    for (found, expected) in found.iter().zip(&strip(expected)) {
        // The table's kernel has no dctcp; another one of the same series may have it.
        if found.in_kernel == "loads" && expected.in_kernel.contains("has no function dctcp_") {
            continue;
        }
        assert_eq!(found, expected, "scripts/selftests.sh rewrites the table");
    }
    if !on_table_kernel {
        testing::skip(testing::Missing::Feature, format!("the column for eBPF is of Linux {TABLE_KERNEL}"));
    }
}
