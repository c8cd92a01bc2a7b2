//! Builds of a tree that is no kernel: its makefile does what a kernel's targets do, in a second and without a compiler run.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
};

use guest::{Cache, Error, Origin, Outcome, Progress, Request, Source, Stage, build};

/// The options that the crate's kernels have.
const OPTIONS: &str = include_str!("../kernel.config");

/// Files that a build changes, and what is in one.
const CLOCK: &str = "arch/um/kernel/time.c";
const CLOCK_UNIT: &str = "arch/um/include/linux/time-internal.h";
const CLOCK_SOURCE: &str =
    "static u64 timer_read(struct clocksource *cs)\n{\n\ttime_travel_update_time_rel(TIMER_MULTIPLIER);\n}\n";

/// Answers as a kernel does.
const KERNEL_C: &str = r#"#include <string.h>
#include <stdio.h>
int main(int n, char **words)
{
	if (n < 2)
		return 1;
	puts(strcmp(words[1], "--version") ? "time-travel=inf-cpu" : "6.13.5");
	return 0;
}
"#;

/// A makefile with the targets that a build uses.
const MAKEFILE: &str = "
allnoconfig: ; @cp $(KCONFIG_ALLCONFIG) .config
kernelversion: ; @echo 6.13.5
mrproper: ; @rm -f stale.o
linux: ; @test ! -e stale.o && test ! -e .git && echo '  CC      a.o' && echo '  CC      b.o' && gcc -o linux kernel.c
";

struct Place {
    dir: tempfile::TempDir,
    cache: Cache,
}

impl Place {
    fn new(makefile: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("net-next");
        for directory in ["arch/um/kernel", "arch/um/include/linux", ".git"] {
            fs::create_dir_all(tree.join(directory)).unwrap();
        }
        fs::write(tree.join("Makefile"), makefile).unwrap();
        fs::write(tree.join("Kconfig"), "").unwrap();
        fs::write(tree.join("stale.o"), "").unwrap();
        fs::write(tree.join("kernel.c"), KERNEL_C).unwrap();
        fs::write(tree.join("arch/um/Kconfig"), "config HZ\n\tint\n\tdefault 100\n").unwrap();
        fs::write(tree.join(CLOCK), CLOCK_SOURCE).unwrap();
        fs::write(tree.join(CLOCK_UNIT), "#define TIMER_MULTIPLIER 256\n").unwrap();
        let cache = Cache::at(dir.path().join("kernels"));
        Place { dir, cache }
    }

    fn tree(&self) -> PathBuf {
        self.dir.path().join("net-next")
    }

    /// A program, compiled of these lines; not executable, as what was downloaded is not.
    fn program(&self, name: &str, text: &str) -> PathBuf {
        let (source, path) = (self.dir.path().join(format!("{name}.c")), self.dir.path().join(name));
        fs::write(&source, text).unwrap();
        assert!(Command::new("cc").arg("-o").args([&path, &source]).status().unwrap().success());
        fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
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
        Err(error @ Error::MissingTools { .. }) => {
            testing::skip(testing::Missing::Tool, error);
            false
        }
        Err(error @ Error::Processor(_)) => {
            testing::skip(testing::Missing::Feature, error);
            false
        }
        _ => true,
    }
}

#[test]
fn a_finished_kernel_is_checked_and_kept() {
    let place = Place::new(MAKEFILE);
    let file = place.program("my-kernel", KERNEL_C);
    let built = place.build(Source::File(file.clone()), false).unwrap();
    let image = built.image().clone();
    assert!(matches!(built, Outcome::Built(_)));
    assert_eq!((image.name.as_str(), image.release.as_str()), ("my-kernel", "6.13.5"));
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
    let old = KERNEL_C.replace("time-travel=inf-cpu", "help");
    let shell = KERNEL_C.replace("6.13.5", "GNU bash, version 5");
    let broken = KERNEL_C.replace("return 0", "return 3");
    let mut files = [
        ("old", old, "TIME_TRAVEL"),
        ("shell", shell, "not with a release"),
        ("broken", broken, "does not run"),
    ]
    .map(|(name, text, why)| (place.program(name, &text), why))
    .to_vec();
    files.push((place.tree().join("Makefile"), "it is no program"));
    for (file, why) in files {
        let error = place.build(Source::File(file.clone()), false).unwrap_err();
        assert!(matches!(error, Error::NotAKernel { .. }), "{error:?}");
        let (error, file) = (error.to_string(), file.display().to_string());
        assert!(error.contains(why) && error.contains(&file), "{error}");
    }
    let error = place.build(Source::File("/nonexistent/linux".into()), false).unwrap_err().to_string();
    assert!(error.contains("cannot find /nonexistent/linux"), "{error}");
    assert!(place.left().is_empty(), "{:?}", place.left());
}

#[test]
fn a_tree_is_built_in_a_copy() {
    let place = Place::new(MAKEFILE);
    let mut stages = Vec::new();
    let source = Source::Tree(place.tree());
    let result =
        place.build_reporting(source, false, &AtomicBool::new(false), &mut |progress| stages.push(progress));
    if !can_build(&result) {
        return;
    }
    let image = result.unwrap().image().clone();
    assert_eq!((image.name.as_str(), image.release.as_str()), ("net-next", "6.13.5"));
    assert_eq!(image.origin, Origin::Tree { directory: place.tree().canonicalize().unwrap(), commit: None });
    assert!(image.lacks.is_empty() && image.configuration.is_some());
    image.verify().unwrap();
    let last = stages.last().unwrap();
    assert_eq!((last.stage, last.done), (Stage::Compile, 2));
    for (name, text) in [("config", "CONFIG_HZ=250"), ("build.log", "CC      b.o")] {
        let read = fs::read_to_string(image.path.with_file_name(name)).unwrap();
        assert!(read.contains(text), "{name}: {read}");
    }
    assert_eq!(place.left(), ["net-next"]);
    let read = |name: &str| fs::read_to_string(place.tree().join(name)).unwrap();
    assert!(read("arch/um/Kconfig").contains("100") && !place.tree().join(".config").exists(), "not touched");
    assert!(read(CLOCK) == CLOCK_SOURCE && place.tree().join("stale.o").exists());
    assert!(matches!(place.build(Source::Tree(place.tree()), false).unwrap(), Outcome::Exists(_)));
}

#[test]
fn the_changes_are_in_the_copy() {
    let makefile =
        MAKEFILE.replace("linux: ; @", &format!("linux: ; @cat arch/um/Kconfig {CLOCK} {CLOCK_UNIT} && "));
    let place = Place::new(&makefile);
    let result = place.build(Source::Tree(place.tree()), false);
    if !can_build(&result) {
        return;
    }
    let log = fs::read_to_string(result.unwrap().image().path.with_file_name("build.log")).unwrap();
    for change in ["default 250", "time_travel_clock_was_read();", "TIMER_MULTIPLIER 1"] {
        assert!(log.contains(change), "{change}: {log}");
    }
}

#[test]
fn a_failed_build_leaves_its_log_alone() {
    let makefile = MAKEFILE.replace("linux: ; @", "linux: ; @echo 'net/tcp.c:7: error: bad' && exit 1 && ");
    let place = Place::new(&makefile);
    let result = place.build(Source::Tree(place.tree()), false);
    if !can_build(&result) {
        return;
    }
    let error = result.unwrap_err().to_string();
    let log = place.cache.directory().join("failed-net-next.log");
    assert!(error.starts_with("compiling the kernel failed:\nnet/tcp.c:7: error: bad"), "{error}");
    assert!(error.ends_with(&format!("the whole log is {}", log.display())), "{error}");
    assert!(fs::read_to_string(&log).unwrap().contains("allnoconfig"));
    assert_eq!(place.left(), ["failed-net-next.log"]);
    fs::write(place.tree().join("Makefile"), MAKEFILE).unwrap();
    place.build(Source::Tree(place.tree()), false).unwrap();
    assert_eq!(place.left(), ["net-next"], "the log of the failure goes with success");
}

#[test]
fn a_kernel_without_an_option_is_refused_or_says_so() {
    let without = |option: &str| format!("allnoconfig: ; @grep -v {option}= $(KCONFIG_ALLCONFIG) > .config");
    let makefile =
        |option: &str| MAKEFILE.replace("allnoconfig: ; @cp $(KCONFIG_ALLCONFIG) .config", &without(option));
    assert!(OPTIONS.contains("CONFIG_TUN=y") && OPTIONS.contains("CONFIG_TCP_CONG_CDG=y"));
    let place = Place::new(&makefile("CONFIG_TCP_CONG_CDG"));
    let result = place.build(Source::Tree(place.tree()), false);
    if !can_build(&result) {
        return;
    }
    assert_eq!(result.unwrap().image().lacks, ["CONFIG_TCP_CONG_CDG=y"]);
    let place = Place::new(&makefile("CONFIG_TUN"));
    let error = place.build(Source::Tree(place.tree()), false).unwrap_err().to_string();
    assert!(error.contains("kernel 6.13.5") && error.ends_with("CONFIG_TUN=y"), "{error}");
}

#[test]
fn a_stopped_build_leaves_nothing() {
    let place = Place::new(&MAKEFILE.replace("gcc -o linux kernel.c", "sleep 60"));
    let stop = AtomicBool::new(false);
    let result = place.build_reporting(Source::Tree(place.tree()), false, &stop, &mut |progress| {
        stop.store(progress.stage == Stage::Compile && progress.done == 2, Ordering::Relaxed);
    });
    if !can_build(&result) {
        return;
    }
    assert!(matches!(result, Err(Error::Interrupted)), "{result:?}");
    assert!(place.left().is_empty(), "{:?}", place.left());
}

#[test]
fn what_is_no_tree_is_refused() {
    let place = Place::new(MAKEFILE);
    fs::remove_file(place.tree().join("arch/um/Kconfig")).unwrap();
    let error = place.build(Source::Tree(place.tree()), false).unwrap_err().to_string();
    assert!(error.contains("is no kernel tree: it has no arch/um/Kconfig"), "{error}");
}
