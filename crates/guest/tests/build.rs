//! Builds of a tree that is no kernel: its makefile does what a kernel's targets do, in a second and without a compiler run.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use guest::{Cache, Error, Origin, Outcome, Progress, Request, Source, Stage, build};

/// The options that the crate's kernels have.
const OPTIONS: &str = include_str!("../kernel.config");

/// Answers as a kernel does.
const KERNEL: &str = "#!/bin/sh
case $1 in --version) echo 6.13.5-test;; --help) echo time-travel=inf-cpu;; *) exit 1;; esac
";

/// A makefile with the targets that a build uses; `linux` copies an ELF file that strip takes.
const MAKEFILE: &str = "
allnoconfig: ; @cp $(KCONFIG_ALLCONFIG) .config
kernelversion: ; @echo 6.13.5
mrproper: ; @rm -f stale.o
linux: ; @test ! -e stale.o; test ! -e .git; echo '  CC      a.o'; echo '  CC      b.o'; cp kernel linux
";

struct Place {
    dir: tempfile::TempDir,
    cache: Cache,
}

impl Place {
    fn new(makefile: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("net-next");
        for directory in ["arch/um/os-Linux", ".git"] {
            fs::create_dir_all(tree.join(directory)).unwrap();
        }
        fs::write(tree.join("Makefile"), makefile).unwrap();
        fs::write(tree.join("Kconfig"), "").unwrap();
        fs::write(tree.join("stale.o"), "").unwrap();
        fs::write(tree.join("arch/um/Kconfig"), "config HZ\n\tint\n\tdefault 100\n").unwrap();
        fs::write(tree.join("arch/um/os-Linux/util.c"), "\treturn getrandom(buf, len, flags);\n").unwrap();
        let cache = Cache::at(dir.path().join("kernels"));
        Place { dir, cache }
    }

    fn tree(&self) -> PathBuf {
        self.dir.path().join("net-next")
    }

    /// A file that is run as the kernel is.
    fn program(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        path
    }

    fn build(&self, source: Source, force: bool) -> Result<Outcome, Error> {
        self.build_reporting(source, force, &AtomicBool::new(false), &mut |_| {})
    }

    fn build_reporting(
        &self,
        source: Source,
        force: bool,
        stop: &AtomicBool,
        report: &mut dyn FnMut(Progress),
    ) -> Result<Outcome, Error> {
        build(&self.cache, &Request { source, name: None, jobs: 1, force }, stop, report)
    }

    /// What is in the cache, but for its lock.
    fn left(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.cache.directory())
            .unwrap()
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| name != ".lock")
            .collect();
        names.sort();
        names
    }
}

/// Whether this machine has what every build needs; without it there is only the error that says so.
fn can_build(result: &Result<Outcome, Error>) -> bool {
    match result {
        Err(error @ (Error::MissingTools { .. } | Error::Processor(_))) => {
            testing::skip(testing::Missing::Feature, error);
            false
        }
        _ => true,
    }
}

fn run_ok(path: &Path) -> bool {
    path.exists()
}

#[test]
fn a_finished_kernel_is_checked_and_kept() {
    let place = Place::new(MAKEFILE);
    let file = place.program("my-kernel", KERNEL);
    let built = place.build(Source::File(file.clone()), false).unwrap();
    let image = built.image().clone();
    assert!(matches!(built, Outcome::Built(_)));
    assert_eq!((image.name.as_str(), image.release.as_str()), ("my-kernel", "6.13.5-test"));
    assert_eq!(image.origin, Origin::File { file: file.canonicalize().unwrap() });
    image.verify().unwrap();
    assert_eq!(place.cache.find(Some("6.13")).unwrap(), image);
    assert!(matches!(place.build(Source::File(file.clone()), false).unwrap(), Outcome::Exists(_)));
    assert!(matches!(place.build(Source::File(file), true).unwrap(), Outcome::Built(_)));
    assert_eq!(place.left(), ["my-kernel"]);
}

#[test]
fn other_files_are_refused_with_the_reason() {
    let place = Place::new(MAKEFILE);
    for (name, text, why) in [
        ("sh", "#!/bin/sh\necho GNU bash, version 5\n", "not with a release"),
        ("old", "#!/bin/sh\ncase $1 in --version) echo 5.4.1;; *) echo help;; esac\n", "TIME_TRAVEL"),
        ("broken", "#!/bin/sh\nexit 1\n", "does not run"),
        ("text", "no program", "cannot be run"),
    ] {
        let error = place.build(Source::File(place.program(name, text)), false).unwrap_err();
        assert!(matches!(error, Error::NotAKernel { .. }), "{error:?}");
        assert!(error.to_string().contains(why), "{error}");
    }
    let error = place.build(Source::File("/nonexistent/linux".into()), false).unwrap_err().to_string();
    assert!(error.contains("cannot find /nonexistent/linux"), "{error}");
    assert!(place.left().is_empty(), "{:?}", place.left());
}
