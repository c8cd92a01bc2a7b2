//! Results of sweep points, stored by content. The address of a run is a hash of everything that determines
//! its result: the resolved scenario with its seed, the engine, the simulated kernel, the settings that hosts
//! inherit from this machine, the C files of congestion controls with the user's headers that they include,
//! and the program's version. Workers on several machines can write to one store in any order, and no run is
//! executed twice.
//!
//! A result has no instants, paths or wall-clock times: equal addresses have equal bytes.
//!
//! ```text
//! DIRECTORY/3f/3f0c...9a.json    longfat.point/1
//! ```

use std::{
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use cc::UserHeader;
use computed_runs::congestion::flows_with_cc;
use data_encoding::HEXLOWER;
use record::RunsLocation;
use scenario::Cc;
use schema::RunSummary;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{EngineChoice, Error, Job, Outcome, Result, congestion, error::Attempted, machine::setting};

/// The value of a point document's `schema` field.
pub const POINT_SCHEMA: &str = "longfat.point/1";

/// The sysctls that engines without a kernel read from this machine where the scenario does not state them.
const INHERITED: [&str; 7] = [
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_wmem",
];

/// The result of one run of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PointDocument {
    /// Always [`POINT_SCHEMA`].
    pub schema: String,
    /// The run's address.
    pub address: String,
    /// The program's version.
    pub version: String,
    /// The scenario's name.
    pub scenario: String,
    /// The summary. Its id is the address; it has no instants, labels, paths or wall-clock times.
    pub run: RunSummary,
}

impl PointDocument {
    /// The document of a run.
    pub fn of(job: &Job<'_>, summary: &RunSummary) -> Self {
        let address = job.address();
        let mut flows = summary.flows.clone();
        // The file's published figures name these parts; they do not belong to the point.
        flows.iter_mut().for_each(|flow| flow.parts.clear());
        let run = RunSummary {
            flows,
            id: address.clone(),
            file: None,
            set: Default::default(),
            sweep: Default::default(),
            record: None,
            repeat: 1,
            wall_s: 0.0,
            started: String::new(),
            ..summary.clone()
        };
        PointDocument {
            schema: POINT_SCHEMA.into(),
            address,
            version: env!("CARGO_PKG_VERSION").into(),
            scenario: job.experiment.file.name().into(),
            run,
        }
    }

    /// As stored.
    ///
    /// # Errors
    /// The document cannot be encoded.
    pub fn to_json(&self) -> Result<String> {
        Ok(serde_json::to_string(self)? + "\n")
    }
}

impl Job<'_> {
    /// The address of this run's result.
    pub fn address(&self) -> String {
        let scenario = &self.scenario;
        let mut text = format!("{POINT_SCHEMA}\n{}\n{}\n", env!("CARGO_PKG_VERSION"), self.engine.name());
        let kernel = self.default_kernel().unwrap_or_default();
        let _ = writeln!(text, "{}\n{kernel}", self.variant.as_deref().unwrap_or_default());
        for name in INHERITED {
            for host in scenario.hosts.iter().filter(|host| !host.sysctl.contains_key(name)) {
                let value = setting(Some(host), name).unwrap_or_default();
                let _ = writeln!(text, "{} {name} = {value}", host.name);
            }
        }
        let _ = writeln!(text, "{}\n{}", scenario.name, scenario.to_toml());
        for (_, cc) in flows_with_cc(scenario) {
            if let Cc::File { text: source, .. } = cc {
                text.push_str(source);
            }
        }
        let mut hash = Sha256::new_with_prefix(text.as_bytes());
        for UserHeader { name, content } in congestion::user_headers(self) {
            hash.update(format!("\n{name} {}\n", content.len()));
            hash.update(&content);
        }
        HEXLOWER.encode(&hash.finalize())
    }
}

/// The directory of results among the records.
const DIRECTORY: &str = ".points";

/// A directory of results.
#[derive(Debug, Clone)]
pub struct PointStore {
    directory: PathBuf,
    /// The directory to which results are written. If the records are in an object store, results are
    /// uploaded from it.
    outbox: PathBuf,
    name: String,
}

impl PointStore {
    /// The store of a directory of records. The directory need not exist.
    pub fn of_runs(runs_dir: &Path) -> Self {
        let directory = runs_dir.join(DIRECTORY);
        PointStore { outbox: directory.clone(), name: directory.display().to_string(), directory }
    }

    /// The store of a directory of records or of an object store, whose results are read now.
    ///
    /// # Errors
    /// The object store cannot be read, or nothing can be written.
    pub fn of_location(runs: &RunsLocation) -> Result<Self> {
        runs.refresh_files(DIRECTORY)?;
        Ok(PointStore {
            directory: runs.readable().join(DIRECTORY),
            outbox: runs.writable()?.join(DIRECTORY),
            name: format!("{runs}/{DIRECTORY}"),
        })
    }

    /// Its directory, or its address in an object store.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn path(directory: &Path, address: &str) -> PathBuf {
        let folder: String = address.chars().take(2).collect();
        directory.join(folder).join(format!("{address}.json"))
    }

    /// The document at this address, if it is stored. A damaged file counts as absent.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn get(&self, address: &str) -> Result<Option<PointDocument>> {
        let written = Self::path(&self.outbox, address);
        let path = if written.exists() { written } else { Self::path(&self.directory, address) };
        let json = match fs::read(&path) {
            Ok(json) => json,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).attempted(|| format!("read {}", path.display())),
        };
        let document: Option<PointDocument> = serde_json::from_slice(&json).ok();
        Ok(document.filter(|d| d.schema == POINT_SCHEMA && d.address == address))
    }

    /// Stores a document, in place of one with the same address.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn put(&self, document: &PointDocument) -> Result<()> {
        let path = Self::path(&self.outbox, &document.address);
        write(&path, &document.to_json()?).attempted(|| format!("write {}", path.display()))
    }

    /// Stores the result of a run. An interrupted run has none.
    ///
    /// # Errors
    /// The engine measures, so that its results are not determined by their address; or the directory cannot
    /// be written.
    pub(crate) fn put_run(&self, job: &Job<'_>, outcome: &Outcome) -> Result<()> {
        check_engine(&job.engine)?;
        match outcome.summary.partial || outcome.failed.is_some() {
            true => Ok(()),
            false => self.put(&PointDocument::of(job, &outcome.summary)),
        }
    }
}

/// Checks that an engine's results depend on the content of the point alone.
pub(crate) fn check_engine(engine: &EngineChoice) -> Result<()> {
    match engine {
        EngineChoice::Model | EngineChoice::Sim => Ok(()),
        EngineChoice::Lab | EngineChoice::Kernel(_) | EngineChoice::Hosts => Err(Error::BadInput(format!(
            "engine {}: only results of the model and the simulator are stored by content, because the others measure",
            engine.name()
        ))),
    }
}

/// Writes a file so that readers see all of it or nothing. It is not synchronized: a result that a power
/// failure destroys is computed again.
fn write(path: &Path, text: &str) -> io::Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    // Several processes may store the same result.
    let temporary = folder.join(format!(".{}-{number}.new", std::process::id()));
    fs::write(&temporary, text)?;
    fs::rename(&temporary, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Experiment, Retention, RunOptions, Selection, run_all};

    fn experiment() -> Experiment {
        Experiment::from_file("dsl").unwrap().set("duration", "4s")
    }

    fn selection(values: &[&str]) -> Selection {
        let values = values.iter().map(|text| (*text).to_owned()).collect();
        Selection {
            variants: vec!["bufferbloat".into()],
            over: vec![("links.modem-server.forward.queue".into(), values)],
            ..Selection::with_engine(EngineChoice::Sim)
        }
    }

    #[test]
    fn the_address_depends_on_content_and_not_on_how_the_point_is_reached() {
        let swept = experiment();
        let jobs = swept.jobs(&selection(&["25kB", "50kB"])).unwrap();
        let set = experiment().set("links.modem-server.forward.queue", "50kB");
        let one = set.jobs(&Selection { over: Vec::new(), ..selection(&[]) }).unwrap();
        assert_eq!(jobs[1].address(), one[0].address());
        assert_ne!(jobs[0].address(), jobs[1].address());
        assert_eq!(jobs[0].address().len(), 64);

        let with = |sets: &[(&str, &str)]| {
            let changed = sets.iter().fold(experiment(), |one, (path, value)| one.set(path, value));
            changed.jobs(&selection(&["25kB"])).unwrap()[0].address()
        };
        assert_ne!(with(&[("seed", "7")]), with(&[]));
        assert_ne!(with(&[("sysctl", "\"6.1\"")]), with(&[]));
        let of_kernel = |kernel: Option<&str>, machine: &str, sets: &[(&str, &str)]| {
            let mut one = sets.iter().fold(experiment(), |one, (path, value)| one.set(path, value));
            one.host.kernel = machine.into();
            one.kernel = kernel.map(|kernel| kernel.parse().unwrap());
            one.jobs(&selection(&["25kB"])).unwrap()[0].address()
        };
        assert_ne!(of_kernel(Some("5.10"), "6.1.2", &[]), of_kernel(None, "6.1.2", &[]));
        assert_ne!(of_kernel(None, "6.8.0", &[]), of_kernel(None, "6.1.2", &[]));
        // The hosts without the key `kernel` have the requested kernel, or the machine's, also if the sender
        // has another.
        let sender = [("sysctl", "\"6.1\""), ("hosts.laptop.kernel", "\"5.10\"")];
        assert_ne!(of_kernel(Some("6.1"), "6.1.2", &sender), of_kernel(Some("6.12"), "6.1.2", &sender));
        assert_ne!(of_kernel(None, "6.8.0", &sender), of_kernel(None, "6.1.2", &sender));
        // Without such hosts neither matters.
        let all = [("sysctl", "\"6.1\""), ("hosts.*.kernel", "\"5.10\"")];
        assert_eq!(of_kernel(Some("6.12"), "6.8.0", &all), of_kernel(None, "6.1.2", &all));
    }

    /// A scenario whose congestion control is a C file that includes headers, one of them with this text;
    /// `None`: no headers.
    fn with_header(folder: &Path, header: Option<&str>) -> Experiment {
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        write("my.h", "#include \"shared/beta.h\"\n");
        fs::create_dir_all(folder.join("shared")).unwrap();
        write("shared/beta.h", header.unwrap_or_default());
        let reno = cc::Source::built_in("reno").unwrap();
        let include = if header.is_some() { "#include \"my.h\"\n" } else { "" };
        write("mine.bpf.c", &format!("{include}{}", reno.text()));
        let scenario = "duration = \"1s\"\nsysctl = \"6.1\"\n[hosts.h1]\naddress = \"10.0.0.1/24\"\n[hosts.h2]\n\
            address = \"10.0.0.2/24\"\n[[links]]\nends = [\"h1\", \"h2\"]\nboth = { rate = \"10mbit\", delay = \"10ms\" }\n\
            [[flows]]\nname = \"bulk\"\nfrom = \"h1\"\nto = \"h2\"\ncc = { file = \"mine.bpf.c\" }\n";
        write("s.toml", scenario);
        Experiment::from_file(folder.join("s.toml")).unwrap()
    }

    #[test]
    fn a_changed_header_changes_the_address_and_records_with_headers_are_not_reused() {
        let folder = tempfile::tempdir().unwrap();
        let runs_dir = folder.path().join("runs");
        let selection = Selection {
            over: vec![("links.h1-h2.forward.queue".into(), vec!["25kB".into()])],
            ..Selection::with_engine(EngineChoice::Sim)
        };
        // The address, and whether a second sweep would reuse the record.
        let run = |header: Option<&str>| {
            let experiment = with_header(folder.path(), header);
            let jobs = experiment.jobs(&selection).unwrap();
            let options = RunOptions { retention: Retention::Record(&runs_dir), ..RunOptions::default() };
            run_all(&jobs, &options).unwrap();
            let recorded =
                crate::RecordedRuns::read(&runs_dir.as_path().into(), experiment.file.name()).unwrap();
            (jobs[0].address(), recorded.find(&jobs[0]).unwrap().is_some())
        };
        let (without, is_reused) = run(None);
        assert!(is_reused, "all of it is in the record");
        let (first, is_reused) = run(Some("#define MY_BETA 700\n"));
        assert!(!is_reused);
        let (changed, _) = run(Some("#define MY_BETA 800\n"));
        assert!(without != first && first != changed, "{without} {first} {changed}");
        assert_eq!(run(Some("#define MY_BETA 700\n")).0, first);
    }

    #[test]
    fn a_record_is_reused_unless_only_some_hosts_have_the_key_kernel() {
        let runs = tempfile::tempdir().unwrap();
        let is_reused = |sets: &[(&str, &str)]| {
            let experiment = sets.iter().fold(experiment(), |one, (path, value)| one.set(path, value));
            let jobs = experiment.jobs(&selection(&["25kB"])).unwrap();
            let options = RunOptions { retention: Retention::Record(runs.path()), ..RunOptions::default() };
            run_all(&jobs, &options).unwrap();
            let recorded = crate::RecordedRuns::read(&runs.path().into(), experiment.file.name()).unwrap();
            recorded.find(&jobs[0]).unwrap().is_some()
        };
        let sysctl = ("sysctl", "\"6.1\"");
        assert!(is_reused(&[sysctl]));
        assert!(!is_reused(&[sysctl, ("hosts.laptop.kernel", "\"5.10\"")]));
        assert!(is_reused(&[sysctl, ("hosts.*.kernel", "\"5.10\"")]));
    }

    #[test]
    fn a_result_is_stored_once_with_the_same_bytes_and_a_damaged_one_is_absent() {
        let runs = tempfile::tempdir().unwrap();
        let store = PointStore::of_runs(runs.path());
        let experiment = experiment();
        let jobs = experiment.jobs(&selection(&["25kB"])).unwrap();
        let address = jobs[0].address();
        assert_eq!(store.get(&address).unwrap(), None);
        let options = RunOptions { retention: Retention::Point(&store), ..RunOptions::default() };
        let bytes = || {
            run_all(&jobs, &options).unwrap();
            fs::read_to_string(PointStore::path(&store.directory, &address)).unwrap()
        };
        let first = bytes();
        assert_eq!(first, bytes());
        let stored = store.get(&address).unwrap().unwrap().run;
        assert_eq!((stored.id.as_str(), stored.flows.is_empty()), (address.as_str(), false));
        for damaged in [&first.as_bytes()[..first.len() / 2], &[0xff; 4096], &[0; 4096]] {
            fs::write(PointStore::path(&store.directory, &address), damaged).unwrap();
            assert_eq!(store.get(&address).unwrap(), None);
        }
        let files = fs::read_dir(store.directory.join(&address[..2])).unwrap().count();
        assert_eq!(files, 1, "no temporary file is left");
    }
}
