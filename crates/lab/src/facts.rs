//! Facts about this machine that decide what a lab can do on it: what works is tried, not guessed.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    awake,
    child::in_child,
    port::{Backend, Port},
    standing::try_isolation,
    sys,
};

/// Programs that people run on a lab's hosts.
const TOOLS: [&str; 7] = ["iperf3", "ping", "tc", "ifconfig", "traceroute", "tcpdump", "tshark"];
/// How the timer's lateness is measured: so many sleeps of so long take 0.3 s.
const SLEEPS: usize = 300;
const SLEEP: Duration = Duration::from_millis(1);
/// What the emulator's thread asks for.
const PRIORITY: i32 = 20;

/// What came of trying something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Try {
    /// It was not tried, because what it needs failed.
    #[default]
    Untried,
    Worked,
    /// The kernel's error number.
    Failed(i32),
}

impl Try {
    fn of<T>(result: io::Result<T>) -> Self {
        match result {
            Ok(_) => Try::Worked,
            Err(e) => Try::Failed(e.raw_os_error().unwrap_or(libc::EIO)),
        }
    }

    /// A port, made as a run makes it.
    fn of_port(backend: Backend) -> Self {
        match Port::try_one(backend) {
            Ok(()) => Try::Worked,
            Err(e) => Try::Failed(e.os_error().unwrap_or(libc::EIO)),
        }
    }

    fn to_number(self) -> i32 {
        match self {
            Try::Untried => -1,
            Try::Worked => 0,
            Try::Failed(errno) => errno,
        }
    }

    fn of_number(number: i32) -> Self {
        match number {
            -1 => Try::Untried,
            0 => Try::Worked,
            errno => Try::Failed(errno),
        }
    }

    pub(crate) fn worked(self) -> bool {
        self == Try::Worked
    }
}

/// What was tried in a child process, each in the namespaces that the ones before made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tries {
    /// A network namespace as the user that we are.
    pub(crate) network: Try,
    /// A user namespace, where the former failed, and the user's id in it.
    pub(crate) user: Try,
    /// A network namespace in it.
    pub(crate) user_network: Try,
    /// A TAP device with offloads, in whichever network namespace there is.
    pub(crate) tap: Try,
    /// A packet socket with offloads there.
    pub(crate) packet: Try,
    /// Real-time priority there.
    pub(crate) real_time: Try,
    /// Mount and process id namespaces there.
    pub(crate) mounts_and_pids: Try,
    /// Writing a sysctl of a network namespace.
    pub(crate) settings: Try,
}

/// /dev/net/tun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tun {
    /// Permission bits.
    pub(crate) mode: u32,
    /// Opened by us.
    pub(crate) opens: Try,
}

/// Numbers of /proc/sys; `None` where this kernel has no such setting.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) rt_runtime_us: Option<i64>,
    pub(crate) rmem_max: Option<i64>,
    pub(crate) wmem_max: Option<i64>,
}

/// What can keep this process from making namespaces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct NamespaceLimits {
    pub(crate) unprivileged_userns_clone: Option<i64>,
    pub(crate) max_user_namespaces: Option<i64>,
    pub(crate) max_net_namespaces: Option<i64>,
    pub(crate) apparmor_restrict_userns: Option<i64>,
    /// Whether system calls are filtered, as in most containers.
    pub(crate) seccomp: bool,
    pub(crate) root: bool,
}

impl NamespaceLimits {
    pub(crate) fn of_this_process() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        NamespaceLimits {
            unprivileged_userns_clone: number("kernel.unprivileged_userns_clone"),
            max_user_namespaces: number("user.max_user_namespaces"),
            max_net_namespaces: number("user.max_net_namespaces"),
            apparmor_restrict_userns: number("kernel.apparmor_restrict_unprivileged_userns"),
            seccomp: status.lines().any(|l| l.starts_with("Seccomp:") && l.ends_with('2')),
            root: sys::is_root(),
        }
    }
}

/// Everything that is judged.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    pub(crate) kernel: String,
    pub(crate) root: bool,
    pub(crate) tries: Tries,
    /// Whether idle processors may be kept awake.
    pub(crate) awake: Try,
    pub(crate) settings: Settings,
    pub(crate) limits: NamespaceLimits,
    pub(crate) tun: Option<Tun>,
    /// RLIMIT_RTPRIO.
    pub(crate) rt_limit: Option<u64>,
    pub(crate) cpus: usize,
    /// How late sleeps end, nanoseconds: median and 99th percentile.
    pub(crate) late_ns: (u64, u64),
    pub(crate) cc_available: Vec<String>,
    pub(crate) cc_allowed: Vec<String>,
    pub(crate) cc_default: String,
    /// Programs looked for and where they are.
    pub(crate) tools: Vec<(String, Option<PathBuf>)>,
}

impl Facts {
    /// Gathers them, in about a third of a second. Before other threads are started.
    pub(crate) fn gather() -> io::Result<Self> {
        let tries = try_in_child()?;
        let words = |name: &str| sysctl(name).split_whitespace().map(Into::into).collect();
        let tun = fs::metadata("/dev/net/tun").ok().map(|found| Tun {
            mode: found.permissions().mode() & 0o777,
            opens: Try::of(fs::File::options().read(true).write(true).open("/dev/net/tun")),
        });
        Ok(Facts {
            kernel: sysctl("kernel.osrelease"),
            root: sys::is_root(),
            tries,
            awake: Try::of(awake::ask()),
            settings: Settings {
                rt_runtime_us: number("kernel.sched_rt_runtime_us"),
                rmem_max: number("net.core.rmem_max"),
                wmem_max: number("net.core.wmem_max"),
            },
            limits: NamespaceLimits::of_this_process(),
            tun,
            rt_limit: real_time_limit(&fs::read_to_string("/proc/self/limits").unwrap_or_default()),
            cpus: sys::allowed_cpus().map_or(1, |cpus| cpus.len()),
            late_ns: lateness(),
            cc_available: words("net.ipv4.tcp_available_congestion_control"),
            cc_allowed: words("net.ipv4.tcp_allowed_congestion_control"),
            cc_default: sysctl("net.ipv4.tcp_congestion_control"),
            tools: TOOLS.iter().map(|tool| (tool.to_string(), find(tool))).collect(),
        })
    }
}

/// A setting's text; empty where there is none.
fn sysctl(name: &str) -> String {
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    fs::read_to_string(path).unwrap_or_default().trim().into()
}

fn number(name: &str) -> Option<i64> {
    sysctl(name).parse().ok()
}

/// The soft limit in /proc/self/limits; `None` is unlimited or unknown.
fn real_time_limit(limits: &str) -> Option<u64> {
    let rest = limits.lines().find_map(|line| line.strip_prefix("Max realtime priority"))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// Where a program is on PATH, or where system programs are.
fn find(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(system).map(|dir| dir.join(tool)).find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

fn try_in_child() -> io::Result<Tries> {
    let [network, user, user_network, tap, packet, real_time, mounts_and_pids, settings] =
        in_child(|| try_all().map(Try::to_number))?.map(Try::of_number);
    Ok(Tries { network, user, user_network, tap, packet, real_time, mounts_and_pids, settings })
}

/// In the order of the fields of [`Tries`].
fn try_all() -> [Try; 8] {
    let mut tries = [Try::Untried; 8];
    tries[0] = Try::of(sys::unshare_network());
    if !tries[0].worked() {
        tries[1] = Try::of(become_root_of_a_user_namespace());
        if tries[1].worked() {
            tries[2] = Try::of(sys::unshare_network());
        }
    }
    if tries[0].worked() || tries[2].worked() {
        tries[3] = Try::of_port(Backend::Tap);
        tries[4] = Try::of_port(Backend::Packet);
        tries[5] = Try::of(sys::set_real_time(PRIORITY));
        tries[7] = Try::of(fs::File::options().write(true).open("/proc/sys/net/ipv4/tcp_sack"));
        tries[6] = Try::of(try_isolation());
    }
    tries
}

/// As [`crate::acquire`] does.
fn become_root_of_a_user_namespace() -> io::Result<()> {
    let (user, group) = sys::effective_ids();
    sys::unshare_user()?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {group} 1"))
}

/// How late sleeps end on a thread like the emulator's.
fn lateness() -> (u64, u64) {
    let measure = || {
        sys::set_timer_slack();
        let _ = sys::set_real_time(PRIORITY);
        let _awake = awake::ask();
        let mut late: Vec<u64> = (0..SLEEPS)
            .map(|_| {
                let before = sys::monotonic().0;
                std::thread::sleep(SLEEP);
                (sys::monotonic().0 - before).saturating_sub(SLEEP.as_nanos() as u64)
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
    fn the_limit_of_priorities_is_found() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max realtime priority     95                   99\n\
                      Max realtime timeout      unlimited            unlimited            us\n";
        assert_eq!(real_time_limit(limits), Some(95));
        assert_eq!(real_time_limit("Max realtime priority     unlimited   unlimited\n"), None);
        assert_eq!(real_time_limit(""), None);
    }

    #[test]
    fn programs_are_found_and_others_not() {
        assert!(find("sh").is_some());
        assert_eq!(find("no-such-program-of-longfat"), None);
    }

    #[test]
    fn a_child_tells_what_it_tried() {
        let tries = [Try::Untried, Try::Worked, Try::Failed(libc::EPERM)];
        assert_eq!(in_child(|| tries.map(Try::to_number)).unwrap().map(Try::of_number), tries);
    }
}
