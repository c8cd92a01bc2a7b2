//! Builds a kernel: downloads or copies its source, configures, compiles and checks it, and adds it to the
//! cache.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
    time::{SystemTime, UNIX_EPOCH},
};

use units::KernelVersion;

use crate::{
    BuildProgress, BuildStage, Cache, Error, Image, Origin, Result, apt::Apt, cache, children::Runner,
    config, error::Attempted, image, sys, tools, tree, uml, work::WorkDirectory,
};

/// Maximum disk space of a source package, its tree (1.8 GB for Linux 7.2) and the objects.
const MAX_BUILD_MIB: u64 = 2600;
/// Number of compiled objects of Debian's packages with `kernel.config`, by version.
const OBJECTS: [(KernelVersion, u64); 3] =
    [(KernelVersion::new(6, 1), 824), (KernelVersion::new(6, 12), 864), (KernelVersion::new(7, 2), 898)];
/// Prefix of make's output lines for compiled objects.
const COMPILED: &str = "  CC  ";

/// Source of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelSource {
    /// The distribution's source package.
    Package {
        /// `6.1`: the newest 6.1.x; `6.1.192`: exactly this one; `None`: the newest.
        version: Option<String>,
        /// A suite whose package lists are used instead of the machine's, such as `sid`.
        suite: Option<String>,
    },
    /// A kernel tree, which is copied.
    Tree(PathBuf),
    /// A compiled kernel, which is copied.
    File(PathBuf),
}

/// Request to build a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildRequest {
    /// Its source.
    pub source: KernelSource,
    /// Its name in the cache; by default a package's kernel is named by its release, others by their
    /// directory or file.
    pub name: Option<String>,
    /// Number of parallel compilers.
    pub jobs: usize,
    /// Whether to build it even if it is in the cache.
    pub force: bool,
}

/// Result of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuildOutcome {
    /// It was built.
    Built(Image),
    /// The cache already had the kernel, from the same package and configuration or with the same name.
    Exists(Image),
}

impl BuildOutcome {
    /// The kernel.
    pub fn image(&self) -> &Image {
        match self {
            BuildOutcome::Built(image) | BuildOutcome::Exists(image) => image,
        }
    }
}

/// Builds a kernel and adds it to the cache. Calls `report` with its progress; ends early when `stop` is set.
///
/// # Errors
/// If programs, disk space or the source are missing, or a program fails: its log then stays in the cache.
pub fn build(
    cache: &Cache,
    request: &BuildRequest,
    stop: &AtomicBool,
    report: &mut dyn FnMut(BuildProgress),
) -> Result<BuildOutcome> {
    let name = match (&request.name, &request.source) {
        (Some(name), _) => {
            cache::check_name(name)?;
            Some(name.clone())
        }
        (None, KernelSource::Package { .. }) => None,
        (None, KernelSource::Tree(path) | KernelSource::File(path)) => Some(cache::name_of(&absolute(path)?)),
    };
    check_utf8(cache.directory())?;
    cache.remove_leftovers()?;
    let work = WorkDirectory::create(cache.directory())?;
    let log = work.join(image::LOG);
    let runner = Runner::new(log.clone(), work.join("tmp"), stop)?;
    let mut build = Build { cache, request, name: name.clone(), work, runner, report };
    let result = build.run();
    // The work directory is removed, but the log of a failure stays.
    let Err(Error::Failed { what, lines, log: _ }) = result else { return result };
    let label = name.unwrap_or_else(|| match &request.source {
        KernelSource::Package { version: Some(version), .. } => version.replace('/', "-"),
        _ => "latest".into(),
    });
    let failure_log = cache.failure_log(&label);
    fs::rename(&log, &failure_log).attempted(|| format!("write {}", failure_log.display()))?;
    Err(Error::Failed { what, lines, log: failure_log })
}

/// A running build.
struct Build<'a> {
    cache: &'a Cache,
    request: &'a BuildRequest,
    name: Option<String>,
    work: WorkDirectory,
    runner: Runner<'a>,
    report: &'a mut dyn FnMut(BuildProgress),
}

impl Build<'_> {
    fn run(&mut self) -> Result<BuildOutcome> {
        match &self.request.source {
            KernelSource::Package { version, suite } => {
                self.build_package(version.as_deref(), suite.as_deref())
            }
            KernelSource::Tree(directory) => self.build_tree(&absolute(directory)?),
            KernelSource::File(file) => self.add_file(&absolute(file)?),
        }
    }

    fn build_package(&mut self, version: Option<&str>, suite: Option<&str>) -> Result<BuildOutcome> {
        let apt = Apt::new(self.work.create_directory("apt")?, suite)?;
        let mut package = apt.choose(version, &mut self.runner, self.report)?;
        let origin = |package: &crate::package::Package| Origin::Package {
            package: package.name.clone(),
            version: package.version.clone(),
            suite: suite.map(Into::into),
        };
        if let Some(image) = self.existing(|image| is_same_package(&image.origin, &origin(&package)))? {
            return Ok(BuildOutcome::Exists(image));
        }
        self.check_machine()?;
        let download = self.work.create_directory("download")?;
        let deb = apt.download(&mut package, version, &download, &mut self.runner, self.report)?;
        (self.report)(BuildProgress::start(BuildStage::Unpack));
        let tree = self.work.create_directory("tree")?;
        tree::unpack(&deb, &self.work.create_directory("package")?, &tree, &mut self.runner)?;
        self.compile(&tree, package.kernel, origin(&package))
    }

    fn build_tree(&mut self, directory: &Path) -> Result<BuildOutcome> {
        tree::check(directory)?;
        if let Some(image) = self.existing(|_| true)? {
            return Ok(BuildOutcome::Exists(image));
        }
        self.check_machine()?;
        (self.report)(BuildProgress::start(BuildStage::Unpack));
        let commit = tree::commit(directory, &mut self.runner);
        let tree = self.work.create_directory("tree")?;
        tree::copy(directory, &tree, &mut self.runner)?;
        let mut command = self.make(&tree);
        command.args(["-s", "kernelversion"]);
        let text = self.runner.output("reading the kernel's version", command, None)?;
        let version = text.trim().parse().map_err(|_| Error::NotATree(directory.into(), "version"))?;
        self.compile(&tree, version, Origin::Tree { directory: directory.into(), commit })
    }

    fn add_file(&mut self, file: &Path) -> Result<BuildOutcome> {
        if let Some(image) = self.existing(|_| true)? {
            return Ok(BuildOutcome::Exists(image));
        }
        let directory = self.work.create_directory("image")?;
        let binary = directory.join(image::BINARY);
        let copied =
            fs::copy(file, &binary).and_then(|_| fs::set_permissions(&binary, Permissions::from_mode(0o755)));
        copied.attempted(|| format!("copy {}", file.display()))?;
        self.finish(&directory, Origin::File { file: file.into() }, None, Vec::new())
    }

    /// The matching kernel that is in the cache already, unless it is damaged, out of date or to be rebuilt.
    fn existing(&self, is_requested: impl Fn(&Image) -> bool) -> Result<Option<Image>> {
        let is_current = |image: &Image| match self.request.source {
            KernelSource::File(_) => true,
            _ => image.configuration.as_deref() == Some(&configuration(image.version)),
        };
        let has_name =
            |image: &Image| self.name.as_ref().map_or(image.name == image.release, |n| *n == image.name);
        let images = self.cache.images()?;
        let found =
            images.into_iter().find(|image| has_name(image) && is_requested(image) && is_current(image));
        Ok(found.filter(|image| !self.request.force && image.verify().is_ok()))
    }

    /// Checks in advance that the build has the programs and the disk space that it needs.
    fn check_machine(&mut self) -> Result<()> {
        tools::check(&mut self.runner, &self.work.join("tmp"))?;
        let directory = self.cache.directory();
        let free = sys::file_system(directory)
            .map(|system| system.free_bytes)
            .attempted(|| format!("get the free space in {}", directory.display()))?;
        let free_mib = free >> 20;
        if free_mib < MAX_BUILD_MIB {
            return Err(Error::NoSpace { directory: directory.into(), need_mib: MAX_BUILD_MIB, free_mib });
        }
        Ok(())
    }

    /// Configures and compiles the copy of a tree.
    fn compile(&mut self, tree: &Path, version: KernelVersion, origin: Origin) -> Result<BuildOutcome> {
        (self.report)(BuildProgress::start(BuildStage::Configure));
        tree::patch(tree)?;
        let options = self.work.join("options");
        fs::write(&options, config::options(version)).attempted(|| format!("write {}", options.display()))?;
        let mut command = self.make(tree);
        command.arg("allnoconfig").env("KCONFIG_ALLCONFIG", &options);
        self.runner.run("configuring the kernel", command)?;
        let config = tree.join(".config");
        let text = fs::read_to_string(&config).attempted(|| format!("read {}", config.display()))?;
        let lacks = config::check(version, &text)?;

        let total = objects(version);
        let mut done = 0;
        (self.report)(BuildProgress { stage: BuildStage::Compile, done, total });
        let mut command = self.make(tree);
        command.arg(format!("-j{}", self.request.jobs.max(1))).arg("linux");
        let report = &mut self.report;
        self.runner.run_watched("compiling the kernel", command, |output| {
            done += output.lines().filter(|line| line.starts_with(COMPILED)).count() as u64;
            report(BuildProgress { stage: BuildStage::Compile, done, total: total.max(done) });
        })?;

        let directory = self.work.create_directory("image")?;
        let mut strip = self.runner.program("strip");
        strip.arg("-o").arg(directory.join(image::BINARY)).arg(tree.join("linux"));
        self.runner.run("stripping the kernel", strip)?;
        let copy = directory.join(image::CONFIGURATION);
        fs::copy(&config, &copy).attempted(|| format!("write {}", copy.display()))?;
        self.finish(&directory, origin, Some(configuration(version)), lacks)
    }

    /// Checks the kernel in `directory` and adds it to the cache.
    fn finish(
        &mut self,
        directory: &Path,
        origin: Origin,
        configuration: Option<String>,
        lacks: Vec<String>,
    ) -> Result<BuildOutcome> {
        let binary = directory.join(image::BINARY);
        let from = match &origin {
            Origin::File { file } => file,
            _ => &binary,
        };
        let (release, version) = uml::release_of(&binary, from, &mut self.runner)?;
        let about = binary.metadata().attempted(|| format!("read {}", binary.display()))?;
        let name = self.name.clone().unwrap_or_else(|| release.clone());
        let image = Image {
            sha256: image::sha256_of(&binary)?,
            size_bytes: about.len(),
            built_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
            path: binary,
            name: name.clone(),
            release,
            version,
            origin,
            configuration,
            lacks,
        };
        image.write(directory)?;
        let log = directory.join(image::LOG);
        fs::rename(self.work.join(image::LOG), &log).attempted(|| format!("write {}", log.display()))?;
        self.cache.put(directory, &name).map(BuildOutcome::Built)
    }

    /// make in a tree, for User-Mode Linux. The build's user name, host name and date are constants, so that
    /// the same source and compiler produce the same bytes.
    fn make(&self, tree: &Path) -> std::process::Command {
        let mut command = self.runner.program("make");
        command.arg("-C").arg(tree).arg("ARCH=um");
        for (name, value) in
            [("TIMESTAMP", "1970-01-01"), ("USER", "longfat"), ("HOST", "longfat"), ("VERSION", "1")]
        {
            command.arg(format!("KBUILD_BUILD_{name}={value}"));
        }
        command
    }
}

/// Identifies the current list of options of a version.
fn configuration(version: KernelVersion) -> String {
    image::sha256_of_text(&config::options(version))
}

/// Whether both are the same package, from whichever suite.
fn is_same_package(one: &Origin, other: &Origin) -> bool {
    let package = |origin: &Origin| match origin {
        Origin::Package { package, version, .. } => Some((package.clone(), version.clone())),
        _ => None,
    };
    package(one).is_some() && package(one) == package(other)
}

/// Estimates the number of objects of a version: that of the nearest earlier version.
fn objects(version: KernelVersion) -> u64 {
    let before = OBJECTS.iter().rev().find(|(known, _)| *known <= version);
    before.unwrap_or(&OBJECTS[0]).1
}

fn absolute(path: &Path) -> Result<PathBuf> {
    let found = path.canonicalize().attempted(|| format!("find {}", path.display()))?;
    check_utf8(&found)?;
    Ok(found)
}

/// Checks a path in advance: the kernel's record and apt's configuration are text, so a build with another
/// path would fail at its end.
fn check_utf8(path: &Path) -> Result<()> {
    match path.to_str() {
        Some(_) => Ok(()),
        None => Err(io::Error::new(io::ErrorKind::InvalidInput, "the path is not valid UTF-8; rename it"))
            .attempted(|| format!("use {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

    use super::*;

    #[test]
    fn paths_that_a_record_cannot_contain_are_refused_in_advance() {
        let directory = tempfile::tempdir().unwrap();
        let tree = directory.path().join(OsStr::from_bytes(b"linux\xff"));
        fs::create_dir(&tree).unwrap();
        let refused = absolute(&tree).unwrap_err().to_string();
        assert!(refused.ends_with("the path is not valid UTF-8; rename it"), "{refused}");
        absolute(directory.path()).unwrap();
        let source = KernelSource::Tree(directory.path().into());
        let request = BuildRequest { source, name: Some("x".into()), jobs: 1, force: false };
        build(&Cache::at(&tree), &request, &AtomicBool::new(false), &mut |_| {}).unwrap_err();
        assert_eq!(fs::read_dir(&tree).unwrap().count(), 0, "nothing was begun");
    }

    #[test]
    fn estimates_are_those_of_the_nearest_earlier_version() {
        assert_eq!(objects(KernelVersion::new(5, 10)), OBJECTS[0].1);
        assert_eq!(objects("6.1.192".parse().unwrap()), OBJECTS[0].1);
        assert_eq!(objects(KernelVersion::new(6, 18)), OBJECTS[1].1);
        assert_eq!(objects(KernelVersion::new(9, 0)), OBJECTS[2].1);
    }

    #[test]
    fn equal_packages_of_different_suites_are_the_same() {
        let package = |version: &str, suite: Option<&str>| Origin::Package {
            package: "linux-source-6.1".into(),
            version: version.into(),
            suite: suite.map(Into::into),
        };
        assert!(is_same_package(&package("6.1.192-2", None), &package("6.1.192-2", Some("bookworm"))));
        assert!(!is_same_package(&package("6.1.192-1", None), &package("6.1.192-2", None)));
        let file = Origin::File { file: "/linux".into() };
        assert!(!is_same_package(&file, &file));
    }
}
