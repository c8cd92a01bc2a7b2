//! Facts about this machine that determine what a lab can do on it. Features are tried, not inferred from
//! versions.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    child::in_child,
    cpu_latency::request_low_latency,
    driver::DRIVER_PRIORITY,
    namespace_limits::NamespaceLimits,
    netlink::Netlink,
    port::{Backend, Port},
    standing::try_isolation,
    sys, sysctl,
};

/// Programs that users often run on a lab's hosts.
const TOOLS: [&str; 7] = ["iperf3", "ping", "tc", "ifconfig", "traceroute", "tcpdump", "tshark"];
/// Number and length of the sleeps that measure the timer's lateness: 0.3 s in total.
const SLEEPS: usize = 300;
const SLEEP: Duration = Duration::from_millis(1);

/// Result of an attempt to use a feature.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// Not tried, because a feature that it needs failed.
    #[default]
    NotMade,
    Succeeded,
    /// The kernel's error number.
    Failed(i32),
}

impl Attempt {
    fn of<T>(result: io::Result<T>) -> Self {
        match result {
            Ok(_) => Attempt::Succeeded,
            Err(e) => Attempt::Failed(e.raw_os_error().unwrap_or(libc::EIO)),
        }
    }

    /// Creates a port as a run does.
    fn of_port(backend: Backend) -> Self {
        match Port::try_one(backend) {
            Ok(()) => Attempt::Succeeded,
            Err(e) => Attempt::Failed(e.os_error().unwrap_or(libc::EIO)),
        }
    }

    fn to_number(self) -> i32 {
        match self {
            Attempt::NotMade => -1,
            Attempt::Succeeded => 0,
            Attempt::Failed(errno) => errno,
        }
    }

    fn of_number(number: i32) -> Self {
        match number {
            -1 => Attempt::NotMade,
            0 => Attempt::Succeeded,
            errno => Attempt::Failed(errno),
        }
    }

    pub(crate) fn succeeded(self) -> bool {
        self == Attempt::Succeeded
    }
}

/// Attempts made in a child process, each inside the namespaces that the previous attempts created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Attempts {
    /// A network namespace as the current user.
    pub(crate) network: Attempt,
    /// If that failed: a user namespace and the user's id mapping in it.
    pub(crate) user: Attempt,
    /// A network namespace inside the user namespace.
    pub(crate) user_network: Attempt,
    /// A TAP device with offloads, in the network namespace.
    pub(crate) tap: Attempt,
    /// A packet socket with offloads, in the network namespace.
    pub(crate) packet: Attempt,
    /// Real-time priority in the network namespace.
    pub(crate) real_time: Attempt,
    /// Mount and PID namespaces in the network namespace.
    pub(crate) mounts_and_pids: Attempt,
    /// Writing a sysctl of a network namespace.
    pub(crate) settings: Attempt,
}

/// /dev/net/tun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tun {
    /// Permission bits.
    pub(crate) mode: u32,
    /// Whether this process can open it.
    pub(crate) opens: Attempt,
}

/// Sysctls of the machine; `None` where this kernel does not have them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) rt_runtime_us: Option<i64>,
    pub(crate) rmem_max: Option<i64>,
    pub(crate) wmem_max: Option<i64>,
}

/// All facts that the check judges.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    pub(crate) kernel: String,
    pub(crate) root: bool,
    pub(crate) attempts: Attempts,
    /// Whether deep idle states can be disabled.
    pub(crate) low_latency: Attempt,
    pub(crate) settings: Settings,
    pub(crate) limits: NamespaceLimits,
    pub(crate) tun: Option<Tun>,
    /// RLIMIT_RTPRIO.
    pub(crate) rt_limit: Option<u64>,
    pub(crate) cpus: usize,
    /// How late sleeps end, ns: median and 99th percentile.
    pub(crate) late_ns: (u64, u64),
    pub(crate) cc_available: Vec<String>,
    pub(crate) cc_allowed: Vec<String>,
    pub(crate) cc_default: String,
    /// Each of [`TOOLS`] and its path, if installed.
    pub(crate) tools: Vec<(String, Option<PathBuf>)>,
}

impl Facts {
    /// Gathers the facts, in about a third of a second. The process must have one thread only.
    pub(crate) fn gather() -> io::Result<Self> {
        let attempts = try_in_child()?;
        let words = |name: &str| sysctl::text(name).split_whitespace().map(Into::into).collect();
        let tun = fs::metadata("/dev/net/tun").ok().map(|found| Tun {
            mode: found.permissions().mode() & 0o777,
            opens: Attempt::of(fs::File::options().read(true).write(true).open("/dev/net/tun")),
        });
        Ok(Facts {
            kernel: sysctl::text("kernel.osrelease"),
            root: os::is_root(),
            attempts,
            low_latency: Attempt::of(request_low_latency()),
            settings: Settings {
                rt_runtime_us: sysctl::number("kernel.sched_rt_runtime_us"),
                rmem_max: sysctl::number("net.core.rmem_max"),
                wmem_max: sysctl::number("net.core.wmem_max"),
            },
            limits: NamespaceLimits::of_this_process(),
            tun,
            rt_limit: real_time_limit(&fs::read_to_string("/proc/self/limits").unwrap_or_default()),
            cpus: os::allowed_cpus().map_or(1, |cpus| cpus.len()),
            late_ns: lateness(),
            cc_available: words("net.ipv4.tcp_available_congestion_control"),
            cc_allowed: words("net.ipv4.tcp_allowed_congestion_control"),
            cc_default: sysctl::text("net.ipv4.tcp_congestion_control"),
            tools: TOOLS.iter().map(|tool| (tool.to_string(), find(tool))).collect(),
        })
    }
}

/// The soft limit of real-time priority in /proc/self/limits; `None` if unlimited or unknown.
fn real_time_limit(limits: &str) -> Option<u64> {
    let rest = limits.lines().find_map(|line| line.strip_prefix("Max realtime priority"))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// The path of a program in PATH or in the directories of system programs.
fn find(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(system).map(|dir| dir.join(tool)).find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

fn try_in_child() -> io::Result<Attempts> {
    let [network, user, user_network, tap, packet, real_time, mounts_and_pids, settings] =
        in_child(|| try_all().map(Attempt::to_number))?.map(Attempt::of_number);
    Ok(Attempts { network, user, user_network, tap, packet, real_time, mounts_and_pids, settings })
}

/// The attempts, in the order of the fields of [`Attempts`].
fn try_all() -> [Attempt; 8] {
    let mut attempts = [Attempt::NotMade; 8];
    attempts[0] = Attempt::of(try_network());
    if !attempts[0].succeeded() {
        attempts[1] = Attempt::of(become_root_of_a_user_namespace());
        if attempts[1].succeeded() {
            attempts[2] = Attempt::of(try_network());
        }
    }
    if attempts[0].succeeded() || attempts[2].succeeded() {
        attempts[3] = Attempt::of_port(Backend::Tap);
        attempts[4] = Attempt::of_port(Backend::Packet);
        attempts[5] = Attempt::of(sys::set_real_time(DRIVER_PRIORITY));
        attempts[7] = Attempt::of(fs::File::options().write(true).open("/proc/sys/net/ipv4/tcp_sack"));
        attempts[6] = Attempt::of(try_isolation());
    }
    attempts
}

/// Moves this process into a new network namespace and configures it: in a container, root may be permitted
/// to create a namespace but not to configure it.
fn try_network() -> io::Result<()> {
    os::unshare_network()?;
    Netlink::open()?.set_up_loopback()
}

/// Executes the steps of [`crate::acquire_privilege`].
fn become_root_of_a_user_namespace() -> io::Result<()> {
    let (user, group) = os::effective_ids();
    sys::unshare_user()?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {group} 1"))
}

/// Measures how late sleeps end on a thread like the emulator's.
fn lateness() -> (u64, u64) {
    let measure = || {
        os::reduce_timer_slack();
        let _ = sys::set_real_time(DRIVER_PRIORITY);
        let _low_latency = request_low_latency();
        let mut late: Vec<u64> = (0..SLEEPS)
            .map(|_| {
                let before = sys::monotonic().as_nanos();
                std::thread::sleep(SLEEP);
                (sys::monotonic().as_nanos() - before).saturating_sub(SLEEP.as_nanos() as u64)
            })
            .collect();
        late.sort_unstable();
        (late[SLEEPS / 2], late[SLEEPS * 99 / 100])
    };
    std::thread::scope(|scope| scope.spawn(measure).join()).unwrap_or((u64::MAX, u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_real_time_priority_is_parsed() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max realtime priority     95                   99\n\
                      Max realtime timeout      unlimited            unlimited            us\n";
        assert_eq!(real_time_limit(limits), Some(95));
        assert_eq!(real_time_limit("Max realtime priority     unlimited   unlimited\n"), None);
        assert_eq!(real_time_limit(""), None);
    }

    #[test]
    fn only_installed_programs_are_found() {
        assert!(find("sh").is_some());
        assert_eq!(find("no-such-program-of-longfat"), None);
    }

    #[test]
    fn a_child_returns_its_results() {
        let attempts = [Attempt::NotMade, Attempt::Succeeded, Attempt::Failed(libc::EPERM)];
        assert_eq!(in_child(|| attempts.map(Attempt::to_number)).unwrap().map(Attempt::of_number), attempts);
    }
}
