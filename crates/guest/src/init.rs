//! The first process inside a guest: mounts the file systems that programs expect, runs one program, and
//! powers the guest off.

use std::{
    fs::{self, File},
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Command, ExitStatus, Stdio},
};

use crate::{Error, SHARED_DIR, error::Attempted, sys};

/// Mount point of the directory that is shared with this machine. /tmp itself is a tmpfs of the guest.
pub const SHARED: &str = "/tmp/shared";

/// File with the program's output, in the shared directory.
pub const OUTPUT: &str = "output";
/// Memory that TCP may use, in pages: the value on a machine with 64 GB (net/ipv4/tcp.c, tcp_init_mem).
const TCP_MEM: (&str, &str) = ("/proc/sys/net/ipv4/tcp_mem", "786432 1048576 1572864");
/// Hosts get no devices of tunnels (net/core/sysctl_net_core.c).
const FALLBACK_TUNNELS: (&str, &str) = ("/proc/sys/net/core/fb_tunnels_only_for_init_net", "1");

/// The first process. The shared directory of [`crate::Guest`] is mounted at [`SHARED`].
#[derive(Debug)]
pub struct Init {
    /// Seed of the kernel's random numbers: the phases of BBR's cycles, sequence numbers, ports.
    pub seed: u64,
}

impl Init {
    /// Runs `program` in a guest that has just booted, and powers the guest off. The program's output goes to
    /// [`OUTPUT`]; a failure is written to the kernel's log.
    pub fn run(&self, program: &mut Command) -> ! {
        let failure = match self.prepare().and_then(|()| run_program(program)) {
            Ok(status) if status.success() => None,
            Ok(status) => Some(describe_status(status)),
            Err(error) => Some(error.to_string()),
        };
        if let Some(failure) = failure {
            // <2>: critical, so that it is printed at every log level (dmesg(1)). If writing fails, nothing else can be done.
            let _ = fs::write("/dev/kmsg", format!("<2>{failure}\n"));
        }
        sys::power_off()
    }

    fn prepare(&self) -> Result<(), Error> {
        for (kind, at, options) in [
            ("proc", "/proc", ""),
            ("sysfs", "/sys", ""),
            ("devtmpfs", "/dev", ""),
            ("tmpfs", "/tmp", "mode=1777"),
            ("tmpfs", "/run", "mode=755"),
        ] {
            sys::mount(kind, at, options).attempted(|| format!("mount {kind} at {at}"))?;
        }
        sys::seed_random_numbers(self.seed).attempted(|| "seed the kernel's random numbers".into())?;
        for dir in ["/dev/shm", SHARED] {
            fs::create_dir_all(dir).attempted(|| format!("create {dir}"))?;
        }
        sys::mount("tmpfs", "/dev/shm", "mode=1777").attempted(|| "mount tmpfs at /dev/shm".into())?;
        sys::mount("hostfs", SHARED, SHARED_DIR).attempted(|| "mount the shared directory".into())?;
        // The kernel derives the limit from the guest's memory, which is small, but emulated hosts should
        // have a large one.
        for (path, value) in [TCP_MEM, FALLBACK_TUNNELS] {
            fs::write(path, value).attempted(|| format!("set {path}"))?;
        }
        Ok(())
    }
}

fn run_program(program: &mut Command) -> Result<ExitStatus, Error> {
    let path = Path::new(SHARED).join(OUTPUT);
    let output = File::create(&path).attempted(|| format!("create {}", path.display()))?;
    let errors = output.try_clone().attempted(|| format!("open {}", path.display()))?;
    program.stdin(Stdio::null()).stdout(output).stderr(errors);
    program.status().attempted(|| "start the guest's program".into())
}

fn describe_status(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("the guest's program ended with code {code}"),
        (None, Some(signal)) => format!("the guest's program was killed by signal {signal}"),
        (None, None) => "the guest's program ended".into(),
    }
}
