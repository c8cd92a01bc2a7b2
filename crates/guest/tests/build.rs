//! Builds of a fake kernel tree: its makefile has the targets of a kernel's, but they take a second and
//! compile one small program.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
};

use guest::{
    BuildOutcome, BuildProgress, BuildRequest, BuildStage, Cache, Error, KernelSource, Origin, build,
};

/// The options of built kernels.
const OPTIONS: &str = include_str!("../kernel.config");

/// Files that a build patches, and the content of one.
const CLOCK: &str = "arch/um/kernel/time.c";
const CLOCK_UNIT: &str = "arch/um/include/linux/time-internal.h";
const REGISTERS: &str = "arch/x86/um/user-offsets.c";
const CLOCK_SOURCE: &str =
    "static u64 timer_read(struct clocksource *cs)\n{\n\ttime_travel_update_time_rel(TIMER_MULTIPLIER);\n}\n";

/// Prints release and options as a UML kernel does.
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

struct Fixture {
    dir: tempfile::TempDir,
    cache: Cache,
}

impl Fixture {
    fn new(makefile: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("net-next");
        for directory in ["arch/um/kernel", "arch/um/include/linux", "arch/x86/um", ".git"] {
            fs::create_dir_all(tree.join(directory)).unwrap();
        }
        fs::write(tree.join("Makefile"), makefile).unwrap();
        fs::write(tree.join("Kconfig"), "").unwrap();
        fs::write(tree.join("stale.o"), "").unwrap();
        fs::write(tree.join("kernel.c"), KERNEL_C).unwrap();
        fs::write(tree.join("arch/um/Kconfig"), "config HZ\n\tint\n\tdefault 100\n").unwrap();
        fs::write(tree.join(CLOCK), CLOCK_SOURCE).unwrap();
        fs::write(tree.join(CLOCK_UNIT), "#define TIMER_MULTIPLIER 256\n").unwrap();
        fs::write(tree.join(REGISTERS), "\tDEFINE_LONGS(HOST_FP_SIZE, 2696);\n").unwrap();
        let cache = Cache::at(dir.path().join("kernels"));
        Fixture { dir, cache }
    }

    fn tree(&self) -> PathBuf {
        self.dir.path().join("net-next")
    }

    /// A program compiled from this text; not executable, like a downloaded file.
    fn program(&self, name: &str, text: &str) -> PathBuf {
        let (source, path) = (self.dir.path().join(format!("{name}.c")), self.dir.path().join(name));
        fs::write(&source, text).unwrap();
        assert!(Command::new("cc").arg("-o").args([&path, &source]).status().unwrap().success());
        fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        path
    }

    fn build(&self, source: KernelSource, force: bool) -> Result<BuildOutcome, Error> {
        self.build_reporting(source, force, &AtomicBool::new(false), &mut |_| {})
    }

    fn build_reporting(
        &self,
        source: KernelSource,
        force: bool,
        stop: &AtomicBool,
        report: &mut dyn FnMut(BuildProgress),
    ) -> Result<BuildOutcome, Error> {
        build(&self.cache, &BuildRequest { source, name: None, jobs: 1, force }, stop, report)
    }

    /// Names in the cache's directory, without its lock.
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

/// Whether this machine can build kernels; if not, the test is skipped with the error.
fn can_build(result: &Result<BuildOutcome, Error>) -> bool {
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
fn a_compiled_kernel_is_checked_and_added() {
    let fixture = Fixture::new(MAKEFILE);
    let file = fixture.program("my-kernel", KERNEL_C);
    let built = fixture.build(KernelSource::File(file.clone()), false).unwrap();
    let image = built.image().clone();
    assert!(matches!(built, BuildOutcome::Built(_)));
    assert_eq!((image.name.as_str(), image.release.as_str()), ("my-kernel", "6.13.5"));
    assert_eq!(image.origin, Origin::File { file: file.canonicalize().unwrap() });
    image.verify().unwrap();
    assert_eq!(fixture.cache.find(Some("6.13")).unwrap(), image);
    assert!(matches!(
        fixture.build(KernelSource::File(file.clone()), false).unwrap(),
        BuildOutcome::Exists(_)
    ));
    assert!(matches!(fixture.build(KernelSource::File(file), true).unwrap(), BuildOutcome::Built(_)));
    assert_eq!(fixture.left(), ["my-kernel"]);
}

#[test]
fn other_files_are_rejected_with_the_reason() {
    let fixture = Fixture::new(MAKEFILE);
    let old = KERNEL_C.replace("time-travel=inf-cpu", "help");
    let shell = KERNEL_C.replace("6.13.5", "GNU bash, version 5");
    let broken = KERNEL_C.replace("return 0", "return 3");
    let mut files =
        [("old", old, "TIME_TRAVEL"), ("shell", shell, "not a release"), ("broken", broken, "fails with")]
            .map(|(name, text, why)| (fixture.program(name, &text), why))
            .to_vec();
    files.push((fixture.tree().join("Makefile"), "the file is not an ELF program"));
    for (file, why) in files {
        let error = fixture.build(KernelSource::File(file.clone()), false).unwrap_err();
        assert!(matches!(error, Error::NotAKernel { .. }), "{error:?}");
        let (error, file) = (error.to_string(), file.display().to_string());
        assert!(error.contains(why) && error.contains(&file), "{error}");
    }
    let error =
        fixture.build(KernelSource::File("/nonexistent/linux".into()), false).unwrap_err().to_string();
    assert!(error.contains("cannot find /nonexistent/linux"), "{error}");
    assert!(fixture.left().is_empty(), "{:?}", fixture.left());
}

#[test]
fn a_tree_is_built_in_a_copy() {
    let fixture = Fixture::new(MAKEFILE);
    let mut stages = Vec::new();
    let source = KernelSource::Tree(fixture.tree());
    let result = fixture
        .build_reporting(source, false, &AtomicBool::new(false), &mut |progress| stages.push(progress));
    if !can_build(&result) {
        return;
    }
    let image = result.unwrap().image().clone();
    assert_eq!((image.name.as_str(), image.release.as_str()), ("net-next", "6.13.5"));
    assert_eq!(
        image.origin,
        Origin::Tree { directory: fixture.tree().canonicalize().unwrap(), commit: None }
    );
    assert!(image.lacks.is_empty() && image.configuration.is_some());
    image.verify().unwrap();
    let last = stages.last().unwrap();
    assert_eq!((last.stage, last.done), (BuildStage::Compile, 2));
    for (name, text) in [("config", "CONFIG_HZ=250"), ("build.log", "CC      b.o")] {
        let read = fs::read_to_string(image.path.with_file_name(name)).unwrap();
        assert!(read.contains(text), "{name}: {read}");
    }
    assert_eq!(fixture.left(), ["net-next"]);
    let read = |name: &str| fs::read_to_string(fixture.tree().join(name)).unwrap();
    assert!(
        read("arch/um/Kconfig").contains("100") && !fixture.tree().join(".config").exists(),
        "not touched"
    );
    assert!(read(CLOCK) == CLOCK_SOURCE && fixture.tree().join("stale.o").exists());
    assert!(matches!(
        fixture.build(KernelSource::Tree(fixture.tree()), false).unwrap(),
        BuildOutcome::Exists(_)
    ));
}

#[test]
fn the_copy_is_patched() {
    let makefile = MAKEFILE.replace(
        "linux: ; @",
        &format!("linux: ; @cat arch/um/Kconfig {CLOCK} {CLOCK_UNIT} {REGISTERS} && "),
    );
    let fixture = Fixture::new(&makefile);
    let result = fixture.build(KernelSource::Tree(fixture.tree()), false);
    if !can_build(&result) {
        return;
    }
    let log = fs::read_to_string(result.unwrap().image().path.with_file_name("build.log")).unwrap();
    for change in
        ["default 250", "time_travel_clock_was_read();", "TIMER_MULTIPLIER 1", "HOST_FP_SIZE, 12288"]
    {
        assert!(log.contains(change), "{change}: {log}");
    }
}

#[test]
fn a_failed_build_keeps_only_its_log() {
    let makefile = MAKEFILE.replace("linux: ; @", "linux: ; @echo 'net/tcp.c:7: error: bad' && exit 1 && ");
    let fixture = Fixture::new(&makefile);
    let result = fixture.build(KernelSource::Tree(fixture.tree()), false);
    if !can_build(&result) {
        return;
    }
    let error = result.unwrap_err().to_string();
    let log = fixture.cache.directory().join("failed-net-next.log");
    assert!(error.starts_with("compiling the kernel failed:\nnet/tcp.c:7: error: bad"), "{error}");
    assert!(error.ends_with(&format!("the complete log is {}", log.display())), "{error}");
    assert!(fs::read_to_string(&log).unwrap().contains("allnoconfig"));
    assert_eq!(fixture.left(), ["failed-net-next.log"]);
    fs::write(fixture.tree().join("Makefile"), MAKEFILE).unwrap();
    fixture.build(KernelSource::Tree(fixture.tree()), false).unwrap();
    assert_eq!(fixture.left(), ["net-next"], "a successful build removes the log of the failure");
}

#[test]
fn a_missing_option_is_an_error_if_required_and_reported_if_optional() {
    let without = |option: &str| format!("allnoconfig: ; @grep -v {option}= $(KCONFIG_ALLCONFIG) > .config");
    let makefile =
        |option: &str| MAKEFILE.replace("allnoconfig: ; @cp $(KCONFIG_ALLCONFIG) .config", &without(option));
    assert!(OPTIONS.contains("CONFIG_TUN=y") && OPTIONS.contains("CONFIG_TCP_CONG_CDG=y"));
    let fixture = Fixture::new(&makefile("CONFIG_TCP_CONG_CDG"));
    let result = fixture.build(KernelSource::Tree(fixture.tree()), false);
    if !can_build(&result) {
        return;
    }
    assert_eq!(result.unwrap().image().lacks, ["CONFIG_TCP_CONG_CDG=y"]);
    let fixture = Fixture::new(&makefile("CONFIG_TUN"));
    let error = fixture.build(KernelSource::Tree(fixture.tree()), false).unwrap_err().to_string();
    assert!(error.contains("kernel 6.13.5") && error.ends_with("CONFIG_TUN=y"), "{error}");
}

#[test]
fn a_stopped_build_leaves_nothing() {
    let fixture = Fixture::new(&MAKEFILE.replace("gcc -o linux kernel.c", "sleep 60"));
    let stop = AtomicBool::new(false);
    let result = fixture.build_reporting(KernelSource::Tree(fixture.tree()), false, &stop, &mut |progress| {
        stop.store(progress.stage == BuildStage::Compile && progress.done == 2, Ordering::Relaxed);
    });
    if !can_build(&result) {
        return;
    }
    assert!(matches!(result, Err(Error::Interrupted)), "{result:?}");
    assert!(fixture.left().is_empty(), "{:?}", fixture.left());
}

#[test]
fn a_directory_without_a_kernel_tree_is_rejected() {
    let fixture = Fixture::new(MAKEFILE);
    fs::remove_file(fixture.tree().join("arch/um/Kconfig")).unwrap();
    let error = fixture.build(KernelSource::Tree(fixture.tree()), false).unwrap_err().to_string();
    assert!(error.contains("is not a kernel tree: it has no arch/um/Kconfig"), "{error}");
}
