//! Checks that a file is a kernel that the lab can boot. A User-Mode Linux kernel prints its release and its
//! options like any program.

use std::{fs::File, io::Read, path::Path, time::Duration};

use units::KernelVersion;

use crate::{Error, Result, children::Runner, error::Attempted};

/// Timeout for printing the release: a kernel does so at once, but the file may be any program.
const PRINT_TIMEOUT: Duration = Duration::from_secs(10);
/// The option of the kernel's command line for virtual time.
const TIME_TRAVEL: &str = "time-travel=inf-cpu";
/// The first bytes of a program (elf(5)). Other files are not run.
const ELF: [u8; 4] = *b"\x7fELF";

/// The release of the kernel in `file`; errors name it `origin`.
///
/// # Errors
/// If it is not a User-Mode Linux kernel, or one without time travel.
pub(crate) fn release_of(
    file: &Path,
    origin: &Path,
    runner: &mut Runner<'_>,
) -> Result<(String, KernelVersion)> {
    let wrong = |why: String| Error::NotAKernel { path: origin.into(), why };
    let mut magic = Vec::new();
    let read = File::open(file).and_then(|file| file.take(ELF.len() as u64).read_to_end(&mut magic));
    read.attempted(|| format!("read {}", file.display()))?;
    if magic != ELF {
        return Err(wrong("the file is not an ELF program".into()));
    }
    let mut print = |option: &str| {
        let mut command = runner.program(&file.to_string_lossy());
        command.arg(option);
        match runner.output("reading the kernel's release", command, Some(PRINT_TIMEOUT)) {
            Err(Error::Failed { lines, .. }) => {
                Err(wrong(format!("the program fails with {option} ({})", lines.join("; "))))
            }
            Err(Error::Os { source, .. }) => Err(wrong(format!("the program cannot be run: {source}"))),
            other => other,
        }
    };
    let release = print("--version")?.trim().to_string();
    let version = release.parse::<KernelVersion>().ok().filter(|_| !release.contains(char::is_whitespace));
    let shown: String = release.chars().take(60).collect();
    let version = version.ok_or_else(|| wrong(format!("--version prints {shown:?}, not a release")))?;
    if print("--help")?.contains(TIME_TRAVEL) {
        return Ok((release, version));
    }
    Err(wrong("the kernel was built without CONFIG_UML_TIME_TRAVEL_SUPPORT".into()))
}
