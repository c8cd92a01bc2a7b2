//! The source of a kernel: unpacked or copied into a work directory, and changed there in two ways.
//!
//! 1. `arch/um/Kconfig` fixes HZ at 100, distributions have 250. TCP's timers go by it.
//! 2. Reading the clock takes 256 ns of virtual time in User-Mode Linux, and its unit is 256 ns. Here it takes none, unless a
//!    program reads it without end, and the unit is 1 ns: programs act at the instant at which their timers end.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{Error, Result, children::Runner, error::Attempted, package::PREFIX};

/// Files without which a directory is no kernel that can be built for User-Mode Linux.
const MARKS: [&str; 3] = ["Makefile", "Kconfig", "arch/um/Kconfig"];
/// Not copied: history, which a build does not need.
const HISTORY: &str = ".git";

/// The file that has HZ, the one that reads the clock, and the one with the clock's unit.
const KCONFIG: &str = "arch/um/Kconfig";
const CLOCK: &str = "arch/um/kernel/time.c";
const CLOCK_UNIT: &str = "arch/um/include/linux/time-internal.h";
/// The function that reads the clock, and the call in it that moves it.
const READ_CLOCK: &str = "static u64 timer_read(struct clocksource *cs)\n";
const MOVE_CLOCK: &str = "\ttime_travel_update_time_rel(TIMER_MULTIPLIER);\n";
/// What stands before that function instead of the call. 10,000 readings at one instant are a loop that waits.
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

/// Refuses a directory that is no kernel tree.
pub(crate) fn check(directory: &Path) -> Result<()> {
    match MARKS.into_iter().find(|mark| !directory.join(mark).is_file()) {
        None => Ok(()),
        Some(mark) => Err(Error::NotATree(directory.into(), mark)),
    }
}

/// Copies a tree without its history and without what was built in it; the original is not touched.
pub(crate) fn copy(from: &Path, to: &Path, runner: &mut Runner<'_>) -> Result<()> {
    let entries = fs::read_dir(from).attempted(|| format!("list {}", from.display()))?;
    let parts: Vec<PathBuf> =
        entries.flatten().filter(|entry| entry.file_name() != HISTORY).map(|entry| entry.path()).collect();
    let mut command = runner.program("cp");
    // Ownership is not kept: the copy is this user's.
    command
        .args(["-R", "-P", "--preserve=mode,timestamps", "--reflink=auto", "--target-directory"])
        .arg(to)
        .args(parts);
    runner.run("copying the kernel tree", command)?;
    let mut clean = runner.program("make");
    clean.arg("-C").arg(to).args(["ARCH=um", "mrproper"]);
    runner.run("cleaning the copy of the kernel tree", clean)
}

/// The commit of a tree in git, if it is in git.
pub(crate) fn commit(directory: &Path, runner: &mut Runner<'_>) -> Option<String> {
    let mut command = runner.program("git");
    command.arg("-C").arg(directory).args(["describe", "--always", "--dirty"]);
    // A repository of another user, no git, or no repository.
    let text = runner.output("reading the commit", command, None).ok()?;
    Some(text.trim().to_string()).filter(|commit| !commit.is_empty())
}

/// Unpacks the tree in a source package into `to`, with the package's files in `package` meanwhile.
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
    // 300 MB that the build needs no more.
    let _ = fs::remove_dir_all(package);
    let _ = fs::remove_file(deb);
    check(to)
}

/// The archive of the source, in usr/src (Debian) or a directory there (Ubuntu).
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

/// Makes the changes that this module's head lists. A tree that does not have the places is left as it is: the check of the
/// configuration finds a wrong HZ, and a run on a clock that takes time says how late packets were.
pub(crate) fn change(tree: &Path) -> Result<()> {
    replace(&tree.join(KCONFIG), with_hz_250)?;
    replace(&tree.join(CLOCK), with_free_clock)?;
    replace(&tree.join(CLOCK_UNIT), with_exact_clock)
}

/// The clock whose reading takes no time.
fn with_free_clock(source: &str) -> String {
    let Some((before, after)) = source.split_once(READ_CLOCK) else { return source.into() };
    let after = after.replacen(MOVE_CLOCK, "\ttime_travel_clock_was_read();\n", 1);
    format!("{before}{CLOCK_WAS_READ}{READ_CLOCK}{after}")
}

/// The clock's unit, and the shortest time until a timer, of 1 ns.
fn with_exact_clock(header: &str) -> String {
    let line = |line: &str| match line.split_whitespace().collect::<Vec<_>>()[..] {
        ["#define", "TIMER_MULTIPLIER", "256"] => "#define TIMER_MULTIPLIER 1\n".into(),
        ["#define", "TIMER_MIN_DELTA", "500"] => "#define TIMER_MIN_DELTA 1\n".into(),
        _ => format!("{line}\n"),
    };
    header.lines().map(line).collect()
}

fn replace(file: &Path, change: impl Fn(&str) -> String) -> Result<()> {
    let text = fs::read_to_string(file).attempted(|| format!("read {}", file.display()))?;
    fs::write(file, change(&text)).attempted(|| format!("write {}", file.display()))
}

/// `config HZ` with the default 250.
fn with_hz_250(kconfig: &str) -> String {
    let Some((before, entry)) = kconfig.split_once("config HZ\n") else { return kconfig.into() };
    format!("{before}config HZ\n{}", entry.replacen("default 100\n", "default 250\n", 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hz_becomes_250_and_nothing_else() {
        let kconfig =
            "config A\n\tdefault 100\n\nconfig HZ\n\tint\n\tdefault 100\n\nconfig B\n\tdefault 100\n";
        let changed =
            "config A\n\tdefault 100\n\nconfig HZ\n\tint\n\tdefault 250\n\nconfig B\n\tdefault 100\n";
        assert_eq!(with_hz_250(kconfig), changed);
        assert_eq!(with_hz_250("config A\n\tdefault 100\n"), "config A\n\tdefault 100\n");
    }

    #[test]
    fn the_clock_is_free_and_exact() {
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
        let place = tempfile::tempdir().unwrap();
        let (debian, ubuntu) = (place.path().join("debian"), place.path().join("ubuntu"));
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
