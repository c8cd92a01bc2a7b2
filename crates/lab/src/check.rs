//! What this machine can do as a lab, and what to do where it cannot.
//!
//! [`crate::facts`] finds out; here the facts are judged. A lab works where there are network namespaces and either TAP
//! devices or packet sockets; everything else only limits what it can do.

use serde::Serialize;

use crate::{
    Error,
    error::Attempted,
    facts::{Facts, NamespaceLimits, Settings, Try, Tun},
    stalls::LATE,
};

/// The document's name and version.
const SCHEMA: &str = "longfat.check/1";
/// Buffers that fill 10 Gb/s over 50 ms: its bandwidth-delay product, 62.5 MB.
const BUFFER_BYTES: i64 = 62_500_000;

/// How far something works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckState {
    /// It works.
    Ok,
    /// Labs work, but not as well as they could.
    Limited,
    /// It does not work.
    Missing,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckItem {
    /// What, such as `namespaces`.
    pub name: &'static str,
    /// How far it works.
    pub state: CheckState,
    /// What was found.
    pub found: String,
    /// What to do about it, where there is something to do.
    pub remedy: Option<String>,
}

/// What a machine can do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// `longfat.check/1`.
    pub schema: &'static str,
    /// Whether labs work here at all.
    pub can_run: bool,
    /// One for each thing, in the order in which they matter.
    pub items: Vec<CheckItem>,
}

/// Looks at this machine, in about a third of a second. To be called before other threads are started.
pub fn check() -> Result<Check, Error> {
    Facts::gather().map(|facts| judge(&facts)).attempted(|| "try what this machine can do".into())
}

fn judge(facts: &Facts) -> Check {
    let namespaces = facts.tries.network.worked() || facts.tries.user_network.worked();
    Check {
        schema: SCHEMA,
        can_run: namespaces && (facts.tries.tap.worked() || facts.tries.packet.worked()),
        items: vec![
            ok("kernel", facts.kernel.clone()),
            judge_namespaces(facts),
            judge_tun(facts),
            judge_tap(facts),
            judge_packet(facts),
            judge_real_time(facts),
            judge_processors(facts.cpus),
            judge_awake(facts),
            judge_timer(facts.late_ns),
            judge_buffers(facts),
            judge_host_settings(facts),
            judge_congestion_control(facts),
            judge_tools(facts),
            judge_lab_up(facts),
        ],
    }
}

fn ok(name: &'static str, found: String) -> CheckItem {
    CheckItem { name, state: CheckState::Ok, found, remedy: None }
}

fn limited(name: &'static str, found: String, remedy: &str) -> CheckItem {
    CheckItem { name, state: CheckState::Limited, found, remedy: Some(remedy.into()) }
}

fn missing(name: &'static str, found: String, remedy: &str) -> CheckItem {
    CheckItem { name, state: CheckState::Missing, found, remedy: Some(remedy.into()) }
}

fn judge_namespaces(facts: &Facts) -> CheckItem {
    const NAME: &str = "namespaces";
    let tries = &facts.tries;
    if tries.network.worked() {
        return ok(NAME, "network namespaces as root".into());
    }
    if tries.user_network.worked() {
        return limited(
            NAME,
            "network namespaces in a user namespace".into(),
            "run as root (sudo) for real-time priority and large socket buffers",
        );
    }
    let failed = [tries.user_network, tries.user, tries.network].into_iter().find_map(|tried| match tried {
        Try::Failed(errno) => Some(errno),
        _ => None,
    });
    let (cause, remedy) = no_namespaces(&facts.limits, failed.unwrap_or(0));
    missing(NAME, format!("no network namespaces: {} ({cause})", error_text(failed.unwrap_or(0))), remedy)
}

impl NamespaceLimits {
    /// The error of a lab that could not make namespaces.
    pub(crate) fn explain(&self, source: std::io::Error) -> Error {
        let (cause, remedy) = no_namespaces(self, source.raw_os_error().unwrap_or(0));
        Error::NoPrivilege { source, cause, remedy }
    }
}

/// Why there are no namespaces, and what to do.
fn no_namespaces(limits: &NamespaceLimits, errno: i32) -> (&'static str, &'static str) {
    let NamespaceLimits {
        unprivileged_userns_clone: clone,
        max_user_namespaces: most_users,
        max_net_namespaces: most_networks,
        apparmor_restrict_userns: apparmor,
        seccomp,
        root,
    } = *limits;
    let denied = errno == libc::EPERM || errno == libc::EACCES;
    if most_users == Some(0) {
        return (
            "user.max_user_namespaces is 0",
            "sudo sysctl -w user.max_user_namespaces=10000, or use sudo",
        );
    }
    if most_networks == Some(0) {
        return ("user.max_net_namespaces is 0", "sudo sysctl -w user.max_net_namespaces=10000");
    }
    if errno == libc::ENOSPC || errno == libc::EUSERS {
        return (
            "too many namespaces exist",
            "end what made them, or raise user.max_user_namespaces and user.max_net_namespaces",
        );
    }
    if errno == libc::ENOSYS || errno == libc::EINVAL {
        return (
            "this kernel was built without them",
            "use sudo, or a kernel with CONFIG_USER_NS and CONFIG_NET_NS",
        );
    }
    if denied && clone == Some(0) {
        return (
            "kernel.unprivileged_userns_clone is 0",
            "sudo sysctl -w kernel.unprivileged_userns_clone=1, or use sudo",
        );
    }
    // Ubuntu 23.10 and later: the namespace is made, but nothing is allowed in it.
    if denied && apparmor.is_some_and(|restricted| restricted != 0) && !root {
        return (
            "AppArmor keeps programs without a profile from them, as on Ubuntu since 23.10",
            "use sudo, or give longfat an AppArmor profile with the rule `userns,`, or \
             sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        );
    }
    if denied && (seccomp || root) {
        return (
            "a container's filter forbids them",
            "start the container with --cap-add SYS_ADMIN --cap-add NET_ADMIN --device /dev/net/tun \
             --security-opt seccomp=unconfined --security-opt apparmor=unconfined, or with --privileged",
        );
    }
    ("the kernel does not say why", "use sudo")
}

fn judge_tun(facts: &Facts) -> CheckItem {
    const NAME: &str = "/dev/net/tun";
    match facts.tun {
        None => limited(
            NAME,
            "absent; labs use packet sockets instead, which cost more time".into(),
            "sudo modprobe tun; in a container: --device /dev/net/tun",
        ),
        Some(Tun { mode, opens: Try::Worked }) => ok(NAME, format!("opens (mode {mode:o})")),
        Some(Tun { mode, opens }) => limited(
            NAME,
            format!(
                "does not open (mode {mode:o}): {}; labs use packet sockets instead, which cost more time",
                why(opens)
            ),
            if mode & 0o006 == 0o006 {
                "in a container: --device /dev/net/tun, or allow the device to its cgroup"
            } else {
                "sudo chmod 666 /dev/net/tun (every user may open it on most systems), or use sudo"
            },
        ),
    }
}

fn judge_tap(facts: &Facts) -> CheckItem {
    const NAME: &str = "tap ports";
    match facts.tries.tap {
        Try::Worked => ok(NAME, "a TAP device with offloads can be made".into()),
        Try::Untried => missing(NAME, "not tried without namespaces".into(), "see namespaces"),
        Try::Failed(errno) => limited(
            NAME,
            format!("no TAP device can be made: {}", error_text(errno)),
            "see /dev/net/tun; labs use packet sockets meanwhile",
        ),
    }
}

fn judge_packet(facts: &Facts) -> CheckItem {
    const NAME: &str = "packet ports";
    match (facts.tries.packet, facts.tries.tap) {
        (Try::Worked, _) => ok(NAME, "packet sockets with offloads can be made".into()),
        (Try::Untried, _) => missing(NAME, "not tried without namespaces".into(), "see namespaces"),
        (failed, tap) => {
            let found = format!("no packet socket can be made: {}", why(failed));
            let remedy = "a kernel with CONFIG_PACKET, 4.20 or later, and in a container --cap-add NET_RAW";
            if tap.worked() { limited(NAME, found, remedy) } else { missing(NAME, found, remedy) }
        }
    }
}

fn judge_real_time(facts: &Facts) -> CheckItem {
    const NAME: &str = "real-time priority";
    match facts.tries.real_time {
        Try::Worked if facts.settings.rt_runtime_us == Some(0) => limited(
            NAME,
            "granted, but kernel.sched_rt_runtime_us is 0 and such threads never run".into(),
            "sudo sysctl -w kernel.sched_rt_runtime_us=950000",
        ),
        Try::Worked => ok(NAME, "the emulator gets it".into()),
        Try::Untried => limited(NAME, "not tried without namespaces".into(), "see namespaces"),
        failed => {
            let limit = facts.rt_limit.map_or(String::new(), |limit| format!(", RLIMIT_RTPRIO is {limit}"));
            let remedy = match (facts.root, facts.rt_limit) {
                (true, _) => {
                    "in a container: --cap-add SYS_NICE; with real-time group scheduling the cgroup needs cpu.rt_runtime_us"
                }
                (false, Some(0..20)) => {
                    "use sudo, or put \"YOU - rtprio 20\" into /etc/security/limits.conf and log in again"
                }
                (false, _) => "use sudo",
            };
            limited(
                NAME,
                format!("refused: {}{limit}; other programs can delay packets", why(failed)),
                remedy,
            )
        }
    }
}

fn judge_processors(cpus: usize) -> CheckItem {
    const NAME: &str = "processors";
    match cpus {
        0 | 1 => {
            limited(NAME, "1: the emulator shares it with the hosts".into(), "use two processors or more")
        }
        n => ok(NAME, n.to_string()),
    }
}

fn judge_awake(facts: &Facts) -> CheckItem {
    const NAME: &str = "idle processors";
    match facts.awake {
        Try::Worked => ok(NAME, "kept awake while packets are on the way".into()),
        failed => limited(
            NAME,
            format!("/dev/cpu_dma_latency: {}; programs wake later than on a busy machine", why(failed)),
            if facts.root { "in a container: --device /dev/cpu_dma_latency" } else { "use sudo" },
        ),
    }
}

fn judge_timer((median, p99): (u64, u64)) -> CheckItem {
    const NAME: &str = "timer";
    let micros = |ns: u64| ns as f64 / 1e3;
    let found =
        format!("sleeps end {:.0} us late, 1 % of them {:.0} us or more", micros(median), micros(p99));
    if p99 <= LATE {
        return ok(NAME, found);
    }
    limited(NAME, found, "close other programs; on a virtual machine, give it processors of its own")
}

fn judge_buffers(facts: &Facts) -> CheckItem {
    const NAME: &str = "socket buffers";
    let megabytes = |bytes: Option<i64>| bytes.map_or("?".into(), |b| format!("{:.1} MB", b as f64 / 1e6));
    let Settings { rmem_max, wmem_max, .. } = facts.settings;
    let found = format!("net.core.rmem_max {}, wmem_max {}", megabytes(rmem_max), megabytes(wmem_max));
    if facts.tries.network.worked() {
        return ok(NAME, format!("{found}; root may pass them"));
    }
    if [rmem_max, wmem_max].iter().all(|max| max.is_some_and(|bytes| bytes >= BUFFER_BYTES)) {
        return ok(NAME, found);
    }
    limited(
        NAME,
        format!("{found}: buffers that a flow asks for are no larger; autotuned ones can be"),
        "sudo sysctl -w net.core.rmem_max=67108864 net.core.wmem_max=67108864",
    )
}

fn judge_host_settings(facts: &Facts) -> CheckItem {
    const NAME: &str = "host settings";
    match facts.tries.settings {
        Try::Worked => ok(NAME, "sysctls of hosts can be set".into()),
        Try::Untried => limited(NAME, "not tried without namespaces".into(), "see namespaces"),
        failed => limited(
            NAME,
            format!("/proc/sys cannot be written: {}; scenarios that set a sysctl do not run", why(failed)),
            "in a container: --privileged",
        ),
    }
}

fn judge_congestion_control(facts: &Facts) -> CheckItem {
    const NAME: &str = "congestion control";
    let list = |names: &[String]| if names.is_empty() { "none".into() } else { names.join(", ") };
    let found = format!(
        "{}; default {}; allowed to every user outside labs: {}",
        list(&facts.cc_available),
        facts.cc_default,
        list(&facts.cc_allowed)
    );
    let lacking: Vec<&str> =
        ["cubic", "bbr"].into_iter().filter(|name| !facts.cc_available.iter().any(|a| a == name)).collect();
    if lacking.is_empty() {
        return ok(NAME, found);
    }
    let modules: Vec<String> = lacking.iter().map(|name| format!("tcp_{name}")).collect();
    limited(NAME, found, &format!("sudo modprobe -a {}", modules.join(" ")))
}

fn judge_tools(facts: &Facts) -> CheckItem {
    const NAME: &str = "tools";
    let (here, lacking): (Vec<_>, Vec<_>) = facts.tools.iter().partition(|(_, path)| path.is_some());
    let names = |tools: &[&(String, Option<std::path::PathBuf>)]| {
        tools.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
    };
    match (here.is_empty(), lacking.is_empty()) {
        (_, true) => ok(NAME, names(&here)),
        (nothing, false) => {
            let found = if nothing { String::new() } else { format!("{}; ", names(&here)) };
            let remedy = "install them if you want to run them on a lab's hosts; longfat itself needs none";
            limited(NAME, format!("{found}not found: {}", names(&lacking)), remedy)
        }
    }
}

fn judge_lab_up(facts: &Facts) -> CheckItem {
    const NAME: &str = "mount and pid namespaces";
    match facts.tries.mounts_and_pids {
        Try::Worked => ok(NAME, "they can be made: longfat lab up works".into()),
        Try::Untried => missing(NAME, "not tried without namespaces".into(), "see namespaces"),
        failed => missing(
            NAME,
            format!("refused: {}; runs work, longfat lab up does not", why(failed)),
            match failed {
                Try::Failed(errno) => standing_remedy(errno),
                _ => "see namespaces",
            },
        ),
    }
}

/// What to do where the namespaces of labs that stay up are refused.
pub(crate) fn standing_remedy(errno: i32) -> &'static str {
    match errno {
        libc::EINVAL | libc::ENOSYS => "use a kernel with CONFIG_PID_NS",
        libc::ENOSPC | libc::EUSERS => "raise user.max_pid_namespaces and user.max_mnt_namespaces",
        _ => "in a container: --privileged; elsewhere use sudo",
    }
}

fn why(tried: Try) -> String {
    match tried {
        Try::Failed(errno) => error_text(errno),
        Try::Worked | Try::Untried => "not tried".into(),
    }
}

fn error_text(errno: i32) -> String {
    std::io::Error::from_raw_os_error(errno).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Tries;

    /// A machine on which everything works, for root.
    fn good() -> Facts {
        let settings = Settings { rmem_max: Some(212_992), wmem_max: Some(212_992), ..Settings::default() };
        Facts {
            kernel: "6.12.0".into(),
            root: true,
            limits: NamespaceLimits {
                root: true,
                max_user_namespaces: Some(1000),
                ..NamespaceLimits::default()
            },
            tries: Tries {
                network: Try::Worked,
                tap: Try::Worked,
                packet: Try::Worked,
                real_time: Try::Worked,
                mounts_and_pids: Try::Worked,
                settings: Try::Worked,
                ..Tries::default()
            },
            awake: Try::Worked,
            settings,
            tun: Some(Tun { mode: 0o666, opens: Try::Worked }),
            cpus: 4,
            late_ns: (20_000, 60_000),
            cc_available: vec!["reno".into(), "cubic".into(), "bbr".into()],
            cc_default: "cubic".into(),
            tools: vec![("ping".into(), Some("/usr/bin/ping".into()))],
            ..Facts::default()
        }
    }

    /// The same for a user whose user namespaces fail: on being made, or in what may be done in them.
    fn refused(user: Try, user_network: Try) -> Facts {
        let network = Try::Failed(libc::EPERM);
        let limits = NamespaceLimits { root: false, ..good().limits };
        Facts {
            root: false,
            limits,
            tries: Tries { network, user, user_network, ..Tries::default() },
            ..good()
        }
    }

    fn item(facts: &Facts, name: &str) -> (CheckState, String, String) {
        let check = judge(facts);
        let item = check.items.into_iter().find(|i| i.name == name).unwrap();
        (item.state, item.found, item.remedy.unwrap_or_default())
    }

    #[test]
    fn where_everything_works_nothing_is_to_be_done() {
        let check = judge(&good());
        assert!(check.can_run);
        assert!(check.items.iter().all(|i| i.state == CheckState::Ok && i.remedy.is_none()), "{check:?}");
    }

    #[test]
    fn ubuntus_apparmor_is_named_whichever_step_it_forbids() {
        for (user, network) in
            [(Try::Worked, Try::Failed(libc::EPERM)), (Try::Failed(libc::EACCES), Try::Untried)]
        {
            let mut facts = refused(user, network);
            facts.limits.apparmor_restrict_userns = Some(1);
            let (state, found, remedy) = item(&facts, "namespaces");
            assert_eq!(state, CheckState::Missing);
            assert!(found.contains("AppArmor"), "{found}");
            assert!(
                remedy.contains("userns,") && remedy.contains("restrict_unprivileged_userns=0"),
                "{remedy}"
            );
            assert!(!judge(&facts).can_run);
        }
    }

    #[test]
    fn each_setting_that_forbids_namespaces_is_named() {
        let eperm = Try::Failed(libc::EPERM);
        let mut debian = refused(eperm, Try::Untried);
        debian.limits.unprivileged_userns_clone = Some(0);
        assert!(item(&debian, "namespaces").2.contains("kernel.unprivileged_userns_clone=1"));
        let mut none = refused(Try::Failed(libc::ENOSPC), Try::Untried);
        none.limits.max_user_namespaces = Some(0);
        assert!(item(&none, "namespaces").2.contains("user.max_user_namespaces=10000"));
        let mut full = refused(Try::Worked, Try::Failed(libc::ENOSPC));
        assert!(item(&full, "namespaces").1.contains("too many"));
        full.limits.max_net_namespaces = Some(0);
        assert!(item(&full, "namespaces").2.contains("user.max_net_namespaces=10000"));
        assert!(
            item(&refused(Try::Failed(libc::EINVAL), Try::Untried), "namespaces")
                .2
                .contains("CONFIG_USER_NS")
        );
    }

    #[test]
    fn a_container_is_told_what_to_start_it_with() {
        let eperm = Try::Failed(libc::EPERM);
        let limits = NamespaceLimits { seccomp: true, root: true, ..good().limits };
        let filtered = Facts { limits, root: true, tun: None, ..refused(eperm, Try::Untried) };
        assert!(item(&filtered, "namespaces").2.contains("seccomp=unconfined"));
        assert!(item(&filtered, "/dev/net/tun").2.contains("--device /dev/net/tun"));
        assert_eq!(item(&filtered, "packet ports").0, CheckState::Missing);
    }

    #[test]
    fn a_run_that_is_refused_namespaces_says_the_same_as_the_check() {
        let limits = NamespaceLimits { max_net_namespaces: Some(0), ..good().limits };
        let error = limits.explain(std::io::Error::from_raw_os_error(libc::ENOSPC));
        assert!(error.is_missing());
        let text = error.to_string();
        assert!(
            text.contains("(user.max_net_namespaces is 0); sudo sysctl -w user.max_net_namespaces"),
            "{text}"
        );
    }

    #[test]
    fn read_only_settings_limit_a_lab_and_no_more() {
        let mut facts = good();
        facts.tries.settings = Try::Failed(libc::EROFS);
        let (state, found, _) = item(&facts, "host settings");
        assert!(state == CheckState::Limited && found.contains("Read-only"), "{found}");
        assert!(judge(&facts).can_run);
    }

    #[test]
    fn what_labs_that_stay_up_need_is_named() {
        for (errno, remedy) in [
            (libc::EINVAL, "CONFIG_PID_NS"),
            (libc::ENOSPC, "max_pid_namespaces"),
            (libc::EPERM, "--privileged"),
        ] {
            let mut facts = good();
            facts.tries.mounts_and_pids = Try::Failed(errno);
            let (state, _, advice) = item(&facts, "mount and pid namespaces");
            assert!(state == CheckState::Missing && advice.contains(remedy), "{advice}");
            assert!(judge(&facts).can_run);
        }
    }

    #[test]
    fn without_tun_labs_run_on_packet_sockets() {
        let mut facts = Facts { tun: None, ..good() };
        facts.tries.tap = Try::Failed(libc::ENOENT);
        assert!(judge(&facts).can_run);
        assert_eq!(item(&facts, "tap ports").0, CheckState::Limited);
        facts.tries.packet = Try::Failed(libc::EPERM);
        assert!(!judge(&facts).can_run, "neither kind of port");
        let closed = Facts { tun: Some(Tun { mode: 0o600, opens: Try::Failed(libc::EACCES) }), ..good() };
        assert!(item(&closed, "/dev/net/tun").2.contains("chmod 666"));
        let fenced = Facts { tun: Some(Tun { mode: 0o666, opens: Try::Failed(libc::EPERM) }), ..good() };
        assert!(item(&fenced, "/dev/net/tun").2.contains("cgroup"));
    }

    #[test]
    fn an_ordinary_user_is_limited_but_can_run() {
        let mut facts = refused(Try::Worked, Try::Worked);
        facts.tries = Tries {
            tap: Try::Worked,
            packet: Try::Worked,
            mounts_and_pids: Try::Worked,
            settings: Try::Worked,
            real_time: Try::Failed(libc::EPERM),
            ..facts.tries
        };
        facts.rt_limit = Some(0);
        facts.awake = Try::Failed(libc::EACCES);
        assert!(judge(&facts).can_run);
        assert_eq!(item(&facts, "idle processors").2, "use sudo");
        assert_eq!(item(&facts, "namespaces").0, CheckState::Limited);
        assert!(item(&facts, "real-time priority").2.contains("limits.conf"));
        assert!(item(&facts, "socket buffers").2.contains("rmem_max=67108864"));
    }

    #[test]
    fn what_only_limits_does_not_forbid() {
        let mut facts = good();
        facts.cpus = 1;
        facts.late_ns = (400_000, 5_000_000);
        facts.settings.rt_runtime_us = Some(0);
        facts.cc_available = vec!["reno".into()];
        facts.tools.push(("tshark".into(), None));
        facts.tries.mounts_and_pids = Try::Failed(libc::EPERM);
        let check = judge(&facts);
        assert!(check.can_run);
        let states: Vec<_> =
            check.items.iter().filter(|i| i.state != CheckState::Ok).map(|i| i.name).collect();
        let expected = [
            "real-time priority",
            "processors",
            "timer",
            "congestion control",
            "tools",
            "mount and pid namespaces",
        ];
        assert_eq!(states, expected);
        assert!(item(&facts, "congestion control").2.contains("tcp_cubic tcp_bbr"));
        assert!(item(&facts, "tools").1.contains("ping; not found: tshark"));
    }
}
