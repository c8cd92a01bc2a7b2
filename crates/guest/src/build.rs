//! How a kernel is made: its source is got or copied, configured, compiled, checked, and put into the cache.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
    time::{SystemTime, UNIX_EPOCH},
};

use units::KernelVersion;

use crate::{
    Cache, Error, Image, Origin, Progress, Result, Stage, apt::Apt, cache, children::Runner, config,
    error::Attempted, image, sys, tools, tree, uml, work::WorkDirectory,
};

/// A source package, its tree (1.8 GB of Linux 7.2) and the objects take this much at most.
const NEED_MIB: u64 = 2600;
/// Objects that are compiled, by version: what `kernel.config` makes of Debian's packages.
const OBJECTS: [(KernelVersion, u64); 3] =
    [(KernelVersion::new(6, 1), 824), (KernelVersion::new(6, 12), 864), (KernelVersion::new(7, 2), 898)];
/// What make prints before the name of an object that it compiles.
const COMPILED: &str = "  CC  ";

/// What to make a kernel of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The distribution's source package.
    Package {
        /// `6.1`: the newest 6.1.x, `6.1.192`: this one, `None`: the newest that there is.
        version: Option<String>,
        /// A suite whose package lists are to be used instead of the machine's, such as `sid`.
        suite: Option<String>,
    },
    /// A kernel tree, which is copied.
    Tree(PathBuf),
    /// A finished kernel, which is copied.
    File(PathBuf),
}

/// A kernel to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Of what.
    pub source: Source,
    /// Its name in the cache; without it a package's kernel is named by its release, another by its directory or file.
    pub name: Option<String>,
    /// Compilers that run at once.
    pub jobs: usize,
    /// Makes it even if it is there.
    pub force: bool,
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is made.
    Built(Image),
    /// It was there, made of the same package and configuration or with the same name.
    Exists(Image),
}

impl Outcome {
    /// The kernel.
    pub fn image(&self) -> &Image {
        match self {
            Outcome::Built(image) | Outcome::Exists(image) => image,
        }
    }
}

/// Makes a kernel and puts it into the cache. While it goes on `report` is called; when `stop` is set it ends early.
///
/// # Errors
/// Where programs, disk space or the source are missing, or a program fails: its log is then kept in the cache.
pub fn build(
    cache: &Cache,
    request: &Request,
    stop: &AtomicBool,
    report: &mut dyn FnMut(Progress),
) -> Result<Outcome> {
    let name = match (&request.name, &request.source) {
        (Some(name), _) => {
            cache::check_name(name)?;
            Some(name.clone())
        }
        (None, Source::Package { .. }) => None,
        (None, Source::Tree(path) | Source::File(path)) => Some(cache::name_of(&absolute(path)?)),
    };
    cache.remove_leftovers()?;
    let work = WorkDirectory::make(cache.directory())?;
    let log = work.join(image::LOG);
    let runner = Runner::new(log.clone(), work.join("tmp"), stop)?;
    let mut build = Build { cache, request, name: name.clone(), work, runner, report };
    let made = build.run();
    // The work directory goes, its log stays.
    let Err(Error::Failed { what, lines, log: _ }) = made else { return made };
    let label = name.unwrap_or_else(|| match &request.source {
        Source::Package { version: Some(version), .. } => version.replace('/', "-"),
        _ => "latest".into(),
    });
    let kept = cache.failure_log(&label);
    fs::rename(&log, &kept).attempted(|| format!("write {}", kept.display()))?;
    Err(Error::Failed { what, lines, log: kept })
}

/// A build under way.
struct Build<'a> {
    cache: &'a Cache,
    request: &'a Request,
    name: Option<String>,
    work: WorkDirectory,
    runner: Runner<'a>,
    report: &'a mut dyn FnMut(Progress),
}

impl Build<'_> {
    fn run(&mut self) -> Result<Outcome> {
        match &self.request.source {
            Source::Package { version, suite } => self.of_package(version.as_deref(), suite.as_deref()),
            Source::Tree(directory) => self.of_tree(&absolute(directory)?),
            Source::File(file) => self.of_file(&absolute(file)?),
        }
    }

    fn of_package(&mut self, version: Option<&str>, suite: Option<&str>) -> Result<Outcome> {
        let apt = Apt::new(self.work.directory("apt")?, suite)?;
        let mut package = apt.choose(version, &mut self.runner, self.report)?;
        let origin = |package: &crate::package::Package| Origin::Package {
            package: package.name.clone(),
            version: package.version.clone(),
            suite: suite.map(Into::into),
        };
        if let Some(image) = self.existing(|image| is_same_package(&image.origin, &origin(&package)))? {
            return Ok(Outcome::Exists(image));
        }
        self.check_machine()?;
        let download = self.work.directory("download")?;
        let deb = apt.download(&mut package, version, &download, &mut self.runner, self.report)?;
        (self.report)(Progress::start(Stage::Unpack));
        let tree = self.work.directory("tree")?;
        tree::unpack(&deb, &self.work.directory("package")?, &tree, &mut self.runner)?;
        self.compile(&tree, package.kernel, origin(&package))
    }

    fn of_tree(&mut self, directory: &Path) -> Result<Outcome> {
        tree::check(directory)?;
        if let Some(image) = self.existing(|_| true)? {
            return Ok(Outcome::Exists(image));
        }
        self.check_machine()?;
        (self.report)(Progress::start(Stage::Unpack));
        let commit = tree::commit(directory, &mut self.runner);
        let tree = self.work.directory("tree")?;
        tree::copy(directory, &tree, &mut self.runner)?;
        let mut command = self.make(&tree);
        command.args(["-s", "kernelversion"]);
        let text = self.runner.output("reading the kernel's version", command, None)?;
        let version = text.trim().parse().map_err(|_| Error::NotATree(directory.into(), "version"))?;
        self.compile(&tree, version, Origin::Tree { directory: directory.into(), commit })
    }

    fn of_file(&mut self, file: &Path) -> Result<Outcome> {
        if let Some(image) = self.existing(|_| true)? {
            return Ok(Outcome::Exists(image));
        }
        let directory = self.work.directory("image")?;
        let binary = directory.join(image::BINARY);
        let copied =
            fs::copy(file, &binary).and_then(|_| fs::set_permissions(&binary, Permissions::from_mode(0o755)));
        copied.attempted(|| format!("copy {}", file.display()))?;
        self.finish(&directory, Origin::File { file: file.into() }, None, Vec::new())
    }

    /// The kernel that is there already, unless it is damaged, out of date or unwanted.
    fn existing(&self, is_wanted: impl Fn(&Image) -> bool) -> Result<Option<Image>> {
        let is_current = |image: &Image| match self.request.source {
            Source::File(_) => true,
            _ => image.configuration.as_deref() == Some(&configuration()),
        };
        let has_name =
            |image: &Image| self.name.as_ref().map_or(image.name == image.release, |n| *n == image.name);
        let images = self.cache.images()?;
        let found = images.into_iter().find(|image| has_name(image) && is_wanted(image) && is_current(image));
        Ok(found.filter(|image| !self.request.force && image.verify().is_ok()))
    }

    /// Refuses to begin what could not be finished.
    fn check_machine(&mut self) -> Result<()> {
        tools::check(&mut self.runner, &self.work.join("tmp"))?;
        let directory = self.cache.directory();
        let free = sys::file_system(directory)
            .map(|system| system.free_bytes)
            .attempted(|| format!("ask for the space in {}", directory.display()))?;
        let free_mib = free >> 20;
        if free_mib < NEED_MIB {
            return Err(Error::NoSpace { directory: directory.into(), need_mib: NEED_MIB, free_mib });
        }
        Ok(())
    }

    /// Compiles a tree of one's own.
    fn compile(&mut self, tree: &Path, version: KernelVersion, origin: Origin) -> Result<Outcome> {
        (self.report)(Progress::start(Stage::Configure));
        tree::change(tree)?;
        let options = self.work.join("options");
        fs::write(&options, config::OPTIONS).attempted(|| format!("write {}", options.display()))?;
        let mut command = self.make(tree);
        command.arg("allnoconfig").env("KCONFIG_ALLCONFIG", &options);
        self.runner.run("configuring the kernel", command)?;
        let config = tree.join(".config");
        let text = fs::read_to_string(&config).attempted(|| format!("read {}", config.display()))?;
        let lacks = config::check(&version.to_string(), &text)?;

        let total = objects(version);
        let mut done = 0;
        (self.report)(Progress { stage: Stage::Compile, done, total });
        let mut command = self.make(tree);
        command.arg(format!("-j{}", self.request.jobs.max(1))).arg("linux");
        let report = &mut self.report;
        self.runner.run_watched("compiling the kernel", command, |output| {
            done += output.lines().filter(|line| line.starts_with(COMPILED)).count() as u64;
            report(Progress { stage: Stage::Compile, done, total: total.max(done) });
        })?;

        let directory = self.work.directory("image")?;
        let mut strip = self.runner.program("strip");
        strip.arg("-o").arg(directory.join(image::BINARY)).arg(tree.join("linux"));
        self.runner.run("stripping the kernel", strip)?;
        let kept = directory.join(image::CONFIGURATION);
        fs::copy(&config, &kept).attempted(|| format!("write {}", kept.display()))?;
        self.finish(&directory, origin, Some(configuration()), lacks)
    }

    /// Checks the kernel in `directory` and puts it into the cache.
    fn finish(
        &mut self,
        directory: &Path,
        origin: Origin,
        configuration: Option<String>,
        lacks: Vec<String>,
    ) -> Result<Outcome> {
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
        self.cache.put(directory, &name).map(Outcome::Built)
    }

    /// make in a tree, for User-Mode Linux. Who built the kernel, where and when is not in it: the same source and the same
    /// compiler give the same bytes.
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

/// Which list of options kernels are built with now.
fn configuration() -> String {
    image::sha256_of_text(config::OPTIONS)
}

/// The suite whose lists named a package makes no difference.
fn is_same_package(one: &Origin, other: &Origin) -> bool {
    let package = |origin: &Origin| match origin {
        Origin::Package { package, version, .. } => Some((package.clone(), version.clone())),
        _ => None,
    };
    package(one).is_some() && package(one) == package(other)
}

/// An estimate of the objects that a version has: those of the nearest version before it.
fn objects(version: KernelVersion) -> u64 {
    let before = OBJECTS.iter().rev().find(|(known, _)| *known <= version);
    before.unwrap_or(&OBJECTS[0]).1
}

fn absolute(path: &Path) -> Result<PathBuf> {
    path.canonicalize().attempted(|| format!("find {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_those_of_the_version_before() {
        assert_eq!(objects(KernelVersion::new(5, 10)), OBJECTS[0].1);
        assert_eq!(objects("6.1.192".parse().unwrap()), OBJECTS[0].1);
        assert_eq!(objects(KernelVersion::new(6, 18)), OBJECTS[1].1);
        assert_eq!(objects(KernelVersion::new(9, 0)), OBJECTS[2].1);
    }

    #[test]
    fn a_package_is_the_same_in_any_suite() {
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
