//! The source of a kernel: unpacked or copied into a work directory, and patched there in three ways.
//!
//! 1. `arch/um/Kconfig` fixes HZ at 100; distributions use 250. TCP's timers depend on it.
//! 2. Reading the clock takes 256 ns of virtual time in User-Mode Linux, and its resolution is 256 ns. With
//!    the patch it takes no virtual time, except in an endless loop, and the resolution is 1 ns: programs act
//!    at the instant at which their timers expire.
//! 3. Before 6.13 User-Mode Linux has a buffer of 2,696 bytes for a program's vector registers, which is too
//!    small for processors with AMX: the machine's kernel restores all registers or none, so the guest would
//!    panic before its first program. With the patch the buffer is larger.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{Error, Result, children::Runner, error::Attempted, package::PREFIX};

/// Files of every kernel tree that can be built for User-Mode Linux.
const REQUIRED_FILES: [&str; 3] = ["Makefile", "Kconfig", "arch/um/Kconfig"];
/// The repository, which is not copied because a build does not need it.
const REPOSITORY: &str = ".git";

/// The files with HZ, with the function that reads the clock, and with the clock's resolution.
const KCONFIG: &str = "arch/um/Kconfig";
const CLOCK: &str = "arch/um/kernel/time.c";
const CLOCK_UNIT: &str = "arch/um/include/linux/time-internal.h";
/// The file with the size of the buffer for vector registers, its line before 6.13, and its replacement. AMX
/// needs 11,008 bytes. The buffer is on kernel stacks, which are therefore larger than by default
/// (KERNEL_STACK_ORDER in kernel.config).
const REGISTERS: &str = "arch/x86/um/user-offsets.c";
const REGISTERS_BYTES: &str = "DEFINE_LONGS(HOST_FP_SIZE, 2696);";
const LARGER_REGISTERS_BYTES: &str = "DEFINE_LONGS(HOST_FP_SIZE, 12288);";
/// The function that reads the clock, and the call in it that advances the clock.
const READ_CLOCK: &str = "static u64 timer_read(struct clocksource *cs)\n";
const ADVANCE_CLOCK: &str = "\ttime_travel_update_time_rel(TIMER_MULTIPLIER);\n";
/// Inserted before that function to replace the call. 10,000 readings at one instant count as a busy-waiting
/// loop.
const CLOCK_WAS_READ: &str = "\
/*
 * longfat: reading the clock takes no time, so that programs act at the instant at which their timers end. A loop that
 * waits for the clock to move without sleeping would never end; so the clock moves after many readings at one instant.
 */
static void time_travel_clock_was_read(void)
{
	static unsigned long long last;
	static unsigned int readings;

	if (time_travel_time != last) {
		last = time_travel_time;
		readings = 0;
	} else if (++readings >= 10000) {
		time_travel_update_time_rel(1000);
	}
}

";

/// Checks that a directory is a kernel tree.
///
/// # Errors
/// [`Error::NotATree`].
pub(crate) fn check(directory: &Path) -> Result<()> {
    match REQUIRED_FILES.into_iter().find(|file| !directory.join(file).is_file()) {
        None => Ok(()),
        Some(file) => Err(Error::NotATree(directory.into(), file)),
    }
}

/// Copies a tree without its repository and build products; does not change the original.
pub(crate) fn copy(from: &Path, to: &Path, runner: &mut Runner<'_>) -> Result<()> {
    let entries = fs::read_dir(from).attempted(|| format!("list {}", from.display()))?;
    let parts: Vec<PathBuf> =
        entries.flatten().filter(|entry| entry.file_name() != REPOSITORY).map(|entry| entry.path()).collect();
    let mut command = runner.program("cp");
    // Ownership is not preserved: this user owns the copy.
    command
        .args(["-R", "-P", "--preserve=mode,timestamps", "--reflink=auto", "--target-directory"])
        .arg(to)
        .args(parts);
    runner.run("copying the kernel tree", command)?;
    let mut clean = runner.program("make");
    clean.arg("-C").arg(to).args(["ARCH=um", "mrproper"]);
    runner.run("cleaning the copy of the kernel tree", clean)
}

/// The commit of a tree, if it is in a git repository.
pub(crate) fn commit(directory: &Path, runner: &mut Runner<'_>) -> Option<String> {
    let mut command = runner.program("git");
    command.arg("-C").arg(directory).args(["describe", "--always", "--dirty"]);
    // This fails without git, without a repository, and in a repository of another user.
    let text = runner.output("reading the commit", command, None).ok()?;
    Some(text.trim().to_string()).filter(|commit| !commit.is_empty())
}

/// Unpacks the tree in a source package to `to`; `package` is a temporary directory for the package's files.
pub(crate) fn unpack(deb: &Path, package: &Path, to: &Path, runner: &mut Runner<'_>) -> Result<()> {
    let mut command = runner.program("dpkg-deb");
    command.arg("-x").arg(deb).arg(package);
    runner.run("unpacking the package", command)?;
    let archive =
        find_archive(&package.join("usr/src")).attempted(|| format!("list {}", package.display()))?;
    let archive = archive.ok_or_else(|| Error::NotATree(deb.into(), "usr/src/linux-source-*.tar.*"))?;
    let mut command = runner.program("tar");
    command.args(["--strip-components=1", "--no-same-owner", "-C"]).arg(to).arg("-xf").arg(archive);
    runner.run("unpacking the kernel's source", command)?;
    // The build no longer needs these 300 MB.
    let _ = fs::remove_dir_all(package);
    let _ = fs::remove_file(deb);
    check(to)
}

/// The archive of the source, in usr/src (Debian) or in a directory there (Ubuntu).
fn find_archive(directory: &Path) -> io::Result<Option<PathBuf>> {
    let mut directories = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type()?;
        if kind.is_file() && name.starts_with(PREFIX) && name.contains(".tar") {
            return Ok(Some(entry.path()));
        }
        if kind.is_dir() && name.starts_with(PREFIX) {
            directories.push(entry.path());
        }
    }
    directories.iter().find_map(|directory| find_archive(directory).transpose()).transpose()
}

/// Applies the patches listed at the top of this module. A tree without the expected files or lines is not
/// changed there: then the check of the configuration detects a wrong HZ, and a run in which reading the
/// clock takes virtual time reports how late packets were.
pub(crate) fn patch(tree: &Path) -> Result<()> {
    replace(&tree.join(KCONFIG), with_hz_250)?;
    replace(&tree.join(CLOCK), with_free_clock)?;
    replace(&tree.join(CLOCK_UNIT), with_exact_clock)?;
    replace(&tree.join(REGISTERS), |source| source.replacen(REGISTERS_BYTES, LARGER_REGISTERS_BYTES, 1))
}

/// Patches the clock so that reading it takes no time.
fn with_free_clock(source: &str) -> String {
    let Some((before, after)) = source.split_once(READ_CLOCK) else { return source.into() };
    let after = after.replacen(ADVANCE_CLOCK, "\ttime_travel_clock_was_read();\n", 1);
    format!("{before}{CLOCK_WAS_READ}{READ_CLOCK}{after}")
}

/// Sets the clock's resolution, and the minimum time until a timer, to 1 ns.
fn with_exact_clock(header: &str) -> String {
    let line = |line: &str| match line.split_whitespace().collect::<Vec<_>>()[..] {
        ["#define", "TIMER_MULTIPLIER", "256"] => "#define TIMER_MULTIPLIER 1\n".into(),
        ["#define", "TIMER_MIN_DELTA", "500"] => "#define TIMER_MIN_DELTA 1\n".into(),
        _ => format!("{line}\n"),
    };
    header.lines().map(line).collect()
}

fn replace(file: &Path, change: impl Fn(&str) -> String) -> Result<()> {
    let text = match fs::read_to_string(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        read => read.attempted(|| format!("read {}", file.display()))?,
    };
    fs::write(file, change(&text)).attempted(|| format!("write {}", file.display()))
}

/// Sets the default of `config HZ` to 250.
fn with_hz_250(kconfig: &str) -> String {
    let Some((before, entry)) = kconfig.split_once("config HZ\n") else { return kconfig.into() };
    format!("{before}config HZ\n{}", entry.replacen("default 100\n", "default 250\n", 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_default_of_hz_is_changed_to_250() {
        let kconfig =
            "config A\n\tdefault 100\n\nconfig HZ\n\tint\n\tdefault 100\n\nconfig B\n\tdefault 100\n";
        let changed =
            "config A\n\tdefault 100\n\nconfig HZ\n\tint\n\tdefault 250\n\nconfig B\n\tdefault 100\n";
        assert_eq!(with_hz_250(kconfig), changed);
        assert_eq!(with_hz_250("config A\n\tdefault 100\n"), "config A\n\tdefault 100\n");
    }

    #[test]
    fn reading_the_patched_clock_takes_no_time_and_its_resolution_is_1_ns() {
        let source = "a\n\nstatic u64 timer_read(struct clocksource *cs)\n{\n\t\t\ttime_travel_update_time_rel(TIMER_MULTIPLIER);\n}\n";
        let changed = with_free_clock(source);
        assert!(changed.contains("{\n\t\t\ttime_travel_clock_was_read();\n}\n"), "{changed}");
        assert!(
            changed.starts_with("a\n\n/*\n * longfat:") && !changed.contains("_rel(TIMER_MULTIPLIER)"),
            "{changed}"
        );
        assert_eq!(with_free_clock("static int x;\n"), "static int x;\n");
        let header = "#define TIMER_MULTIPLIER 256\n#define TIMER_MIN_DELTA  500\n\nint a;\n";
        assert_eq!(
            with_exact_clock(header),
            "#define TIMER_MULTIPLIER 1\n#define TIMER_MIN_DELTA 1\n\nint a;\n"
        );
    }

    #[test]
    fn the_archive_is_found_in_both_distributions_packages() {
        let dir = tempfile::tempdir().unwrap();
        let (debian, ubuntu) = (dir.path().join("debian"), dir.path().join("ubuntu"));
        fs::create_dir_all(ubuntu.join("linux-source-6.8.0/debian")).unwrap();
        fs::create_dir(&debian).unwrap();
        fs::write(debian.join("linux-config-6.1.tar.xz"), "").unwrap();
        fs::write(debian.join("linux-source-6.1.tar.xz"), "").unwrap();
        fs::write(ubuntu.join("linux-source-6.8.0/linux-source-6.8.0.tar.bz2"), "").unwrap();
        assert_eq!(find_archive(&debian).unwrap(), Some(debian.join("linux-source-6.1.tar.xz")));
        let expected = ubuntu.join("linux-source-6.8.0/linux-source-6.8.0.tar.bz2");
        assert_eq!(find_archive(&ubuntu).unwrap(), Some(expected));
        assert_eq!(find_archive(&ubuntu.join("linux-source-6.8.0/debian")).unwrap(), None);
    }
}
