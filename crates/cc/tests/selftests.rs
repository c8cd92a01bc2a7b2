//! The congestion controls of the kernel's selftests. docs/write-your-own-cc.md has a table of their results.
//!
//! The files are those of Debian's source packages and are not part of this repository. They are read from
//! the folder `LONGFAT_SELFTESTS` (as `linux-source-VERSION/tools/testing/selftests/bpf/progs`), or else from
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

/// Version of the kernel that the table's eBPF column is for.
const TABLE_KERNEL: &str = "6.18";
const BEGIN: &str = "<!-- selftests: written by scripts/selftests.sh -->";
const END: &str = "<!-- end of selftests -->";
const PROGS: &str = "tools/testing/selftests/bpf/progs";
/// Selftests that the kernel must refuse, and their deliberate errors.
const EXPECTED_REFUSALS: [(&str, &str); 5] = [
    ("bpf_dctcp_release.c", "release may not change options"),
    ("bpf_tcp_nogpl.c", "another license"),
    ("tcp_ca_incompl_cong_ops.c", "operations are missing"),
    ("tcp_ca_unsupp_cong_op.c", "get_info is not for eBPF"),
    ("tcp_ca_untrusted_btf_write.c", "a write through an untrusted pointer"),
];

/// Finds the source trees, by version ("6.12"). Unpacked trees are in the temporary folder, which the caller
/// must not drop while it uses them.
fn find_trees() -> Option<(BTreeMap<Version, PathBuf>, Option<tempfile::TempDir>)> {
    if let Some(folder) = std::env::var_os("LONGFAT_SELFTESTS") {
        let found = find_versions(Path::new(&folder), "");
        assert!(!found.is_empty(), "LONGFAT_SELFTESTS={} has no linux-source-*", folder.display());
        return Some((found, None));
    }
    let packed = find_versions(Path::new("/usr/src"), ".tar.xz");
    if packed.is_empty() {
        return None;
    }
    let unpacked = tempfile::tempdir().unwrap();
    for (version, archive) in &packed {
        let mut tar = Command::new("tar");
        tar.arg("-xJf").arg(archive).arg("-C").arg(unpacked.path());
        let status = tar.arg(format!("linux-source-{}/{PROGS}", version.0)).status().unwrap();
        assert!(status.success(), "cannot unpack {}", archive.display());
    }
    Some((find_versions(unpacked.path(), ""), Some(unpacked)))
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

/// The entries `linux-source-VERSION` of a folder whose names end with `suffix`.
fn find_versions(folder: &Path, suffix: &str) -> BTreeMap<Version, PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let version = name.strip_prefix("linux-source-")?.strip_suffix(suffix)?;
        let is_version = version.chars().all(|c| c.is_ascii_digit() || c == '.');
        is_version.then(|| (Version(version.to_string()), entry.path()))
    });
    named.collect()
}

/// All files with a `struct tcp_congestion_ops` variable, sorted by name.
fn find_algorithms(tree: &Path) -> Vec<PathBuf> {
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

/// Loads the file into the running kernel. No socket uses it: some of these programs are only meant to be
/// loaded, not to run.
fn load_into_kernel(path: &Path) -> Result<(), String> {
    let source = Source::file(path).map_err(|e| e.to_string())?;
    kernel::load(&source, &ParameterValues::new(), None).map(drop).map_err(|e| e.to_string())
}

/// Not a separate test: `run_natively` starts it in a child process, which may crash, to run one file
/// natively.
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
    let result = trial().err().unwrap_or_else(|| "runs".into());
    println!("\ntrial: {}", result.lines().next().unwrap_or_default());
}

/// Runs the file in the simulator, in a child process.
fn run_natively(path: &Path) -> Result<(), String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "selftests::native_trial", "--nocapture"])
        .env("LONGFAT_TEST_NATIVE", path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > Duration::from_secs(120) {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    match stdout.lines().find_map(|l| l.strip_prefix("trial: ")) {
        Some("runs") => Ok(()),
        Some(why) => Err(why.into()),
        None => Err(format!("crashes ({})", output.status)),
    }
}

/// A cell of the table: `success`, or line and message of the error without path, name and remedy.
fn format_cell(result: &Result<(), String>, success: &str, path: &Path) -> String {
    let Err(why) = result else { return success.into() };
    let first = why.lines().next().unwrap_or_default();
    let (_, first) = first.split_once(&format!("{}:", path.display())).unwrap_or(("", first));
    let reason = first.split("; ").next().unwrap_or_default();
    let named = if first.starts_with(|c: char| c.is_ascii_digit()) { "line " } else { "" };
    format!("refused: {named}{}", reason.replace('|', "\\|").replace('*', "\\*"))
}

/// Like [`format_cell`], for the eBPF column: marks the refusals that a selftest expects.
fn format_kernel_cell(result: &Result<(), String>, path: &Path) -> String {
    let cell = format_cell(result, "loads", path);
    let file = path.file_name().unwrap_or_default();
    match EXPECTED_REFUSALS.iter().find(|(name, _)| file == *name) {
        Some((_, what)) => cell.replacen("refused:", &format!("refused as expected ({what}):"), 1),
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

/// Tries all files natively, and in the kernel if `with_kernel`.
fn build_rows(trees: &BTreeMap<Version, PathBuf>, with_kernel: bool) -> Vec<Row> {
    let mut rows = Vec::new();
    for (version, tree) in trees {
        let found = find_algorithms(tree);
        assert!(found.len() >= 7, "{}: only {found:?}", version.0);
        for path in found {
            let file = path.file_name().unwrap().to_string_lossy().into_owned();
            rows.push(Row {
                in_kernel: match with_kernel {
                    true => format_kernel_cell(&load_into_kernel(&path), &path),
                    false => String::new(),
                },
                natively: format_cell(&run_natively(&path), "runs", &path),
                version: version.0.clone(),
                file,
            });
        }
    }
    rows.sort_by_key(|row| row.file.clone());
    rows
}

fn format_table(rows: &[Row]) -> String {
    let mut text =
        format!("| file | of Linux | eBPF on Linux {TABLE_KERNEL} | simulator |\n|---|---|---|---|\n");
    for Row { file, version, in_kernel, natively } in rows {
        text.push_str(&format!("| `{file}` | {version} | {in_kernel} | {natively} |\n"));
    }
    text
}

fn parse_table(table: &str) -> Vec<Row> {
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
    let Some((trees, _folder)) = find_trees() else {
        let why = "no /usr/src/linux-source-*.tar.xz; to download the sources, run scripts/selftests.sh";
        return testing::skip(testing::Missing::Feature, why);
    };
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let is_table_kernel =
        release.starts_with(&format!("{TABLE_KERNEL}.")) && kernel::missing_requirement().is_none();
    let found = build_rows(&trees, is_table_kernel);
    for registered in kernel::loaded_controls().unwrap_or_default() {
        assert!(
            !registered.held_by.iter().any(|(pid, _)| *pid == std::process::id())
                || !registered.name.starts_with("bpf_"),
            "{registered:?} is still registered"
        );
    }
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/write-your-own-cc.md");
    let text = fs::read_to_string(&docs).unwrap();
    let (before, remaining) = text.split_once(BEGIN).expect("the table's beginning is marked");
    let (table, after) = remaining.split_once(END).expect("the table's end is marked");
    if std::env::var_os("LONGFAT_SELFTESTS_WRITE").is_some() {
        assert!(is_table_kernel, "the table is for Linux {TABLE_KERNEL} with BTF, as root");
        return fs::write(&docs, format!("{before}{BEGIN}\n{}{END}{after}", format_table(&found))).unwrap();
    }
    let expected: Vec<Row> =
        parse_table(table).into_iter().filter(|r| found.iter().any(|f| f.version == r.version)).collect();
    assert!(
        !expected.is_empty(),
        "the table has no rows for {:?}; scripts/selftests.sh rewrites it",
        trees.keys()
    );
    let strip_kernel_column = |rows: Vec<Row>| -> Vec<Row> {
        if is_table_kernel {
            return rows;
        }
        rows.into_iter().map(|row| Row { in_kernel: String::new(), ..row }).collect()
    };
    for (found, expected) in found.iter().zip(&strip_kernel_column(expected)) {
        // The kernel of the table has no dctcp module, but another kernel of the same series may have it.
        if found.in_kernel == "loads" && expected.in_kernel.contains("has no function dctcp_") {
            continue;
        }
        assert_eq!(found, expected, "scripts/selftests.sh rewrites the table");
    }
    if !is_table_kernel {
        testing::skip(
            testing::Missing::Feature,
            format!("the table's eBPF column is for Linux {TABLE_KERNEL}"),
        );
    }
}
