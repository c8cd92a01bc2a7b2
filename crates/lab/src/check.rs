//! `longfat lab check`: what a lab can do on this machine, and how to remove its limits.
//!
//! [`crate::facts`] gathers the facts; this module judges them. A lab needs network namespaces and either TAP
//! devices or packet sockets; everything else that is missing only limits it.

use serde::Serialize;

use crate::{
    Error,
    error::Attempted,
    facts::{Attempt, Facts, Settings, Tun},
    namespace_limits::standing_remedy,
    stalls::LATE_NS,
    turnaround::{self, Turnaround},
};

/// The document's name and version.
const SCHEMA: &str = "longfat.check/1";
/// Buffers that fill 10 Gb/s over 50 ms: its bandwidth-delay product, 62.5 MB.
const BUFFER_BYTES: i64 = 62_500_000;

/// Result of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckState {
    /// It works.
    Ok,
    /// It works with limits.
    Limited,
    /// It does not work.
    Missing,
}

/// One feature of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckItem {
    /// Its name, such as `namespaces`.
    pub name: &'static str,
    /// Whether it works.
    pub state: CheckState,
    /// The finding.
    pub found: String,
    /// How to fix it, if it can be fixed.
    pub remedy: Option<String>,
}

/// The features of a machine that labs need or use.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Check {
    /// `longfat.check/1`.
    pub schema: &'static str,
    /// Whether labs work here at all.
    pub can_run: bool,
    /// One for each feature, the most important first.
    pub items: Vec<CheckItem>,
    /// Minimum time from a packet's arrival at a lab's host to the host's reply; absent if it could not be
    /// measured.
    pub turnaround: Option<Turnaround>,
}

/// Checks this machine, in about a second. The process must have one thread only. It acquires the privilege
/// of a lab if that is permitted.
///
/// # Errors
/// [`Error::System`] if the child process that tests the features fails.
pub fn check() -> Result<Check, Error> {
    let facts = Facts::gather().attempted(|| "try what this machine can do".into())?;
    let mut check = judge(&facts);
    if check.can_run {
        let measured = turnaround::measure();
        check.items.push(judge_turnaround(&measured));
        check.turnaround = measured.unwrap_or_default();
    }
    Ok(check)
}

fn judge(facts: &Facts) -> Check {
    let namespaces = facts.attempts.network.succeeded() || facts.attempts.user_network.succeeded();
    Check {
        schema: SCHEMA,
        can_run: namespaces && (facts.attempts.tap.succeeded() || facts.attempts.packet.succeeded()),
        items: vec![
            ok("kernel", facts.kernel.clone()),
            judge_namespaces(facts),
            judge_tun(facts),
            judge_tap(facts),
            judge_packet(facts),
            judge_real_time(facts),
            judge_processors(facts.cpus),
            judge_idle_states(facts),
            judge_timer(facts.late_ns),
            judge_buffers(facts),
            judge_host_settings(facts),
            judge_congestion_control(facts),
            judge_tools(facts),
            judge_lab_up(facts),
        ],
        turnaround: None,
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
    let attempts = &facts.attempts;
    if attempts.network.succeeded() {
        return ok(NAME, "network namespaces as root".into());
    }
    if attempts.user_network.succeeded() {
        return limited(
            NAME,
            "network namespaces inside a user namespace".into(),
            match facts.root {
                true => {
                    "in a container: --cap-add SYS_ADMIN --cap-add NET_ADMIN for real-time priority and large socket buffers"
                }
                false => "run as root (sudo) for real-time priority and large socket buffers",
            },
        );
    }
    let failed =
        [attempts.user_network, attempts.user, attempts.network].into_iter().find_map(
            |attempt| match attempt {
                Attempt::Failed(errno) => Some(errno),
                _ => None,
            },
        );
    let (cause, remedy) = facts.limits.cause_and_remedy(failed.unwrap_or(0));
    missing(NAME, format!("no network namespaces: {} ({cause})", error_text(failed.unwrap_or(0))), remedy)
}

fn judge_tun(facts: &Facts) -> CheckItem {
    const NAME: &str = "/dev/net/tun";
    match facts.tun {
        None => limited(
            NAME,
            "does not exist; labs use packet sockets instead, which cost more processor time".into(),
            "sudo modprobe tun; in a container: --device /dev/net/tun",
        ),
        Some(Tun { mode, opens: Attempt::Succeeded }) => ok(NAME, format!("can be opened (mode {mode:o})")),
        Some(Tun { mode, opens }) => limited(
            NAME,
            format!(
                "cannot be opened (mode {mode:o}): {}; labs use packet sockets instead, which cost more processor time",
                why(opens)
            ),
            if mode & 0o006 == 0o006 {
                "in a container: --device /dev/net/tun, or allow the device in its cgroup"
            } else {
                "sudo chmod 666 /dev/net/tun (every user may open it on most systems), or use sudo"
            },
        ),
    }
}

fn judge_tap(facts: &Facts) -> CheckItem {
    const NAME: &str = "tap ports";
    match facts.attempts.tap {
        Attempt::Succeeded => ok(NAME, "TAP devices with offloads can be created".into()),
        Attempt::NotMade => missing(NAME, "not tried without namespaces".into(), "see namespaces"),
        Attempt::Failed(errno) => limited(
            NAME,
            format!("cannot create a TAP device: {}", error_text(errno)),
            "see /dev/net/tun; until then labs use packet sockets",
        ),
    }
}

fn judge_packet(facts: &Facts) -> CheckItem {
    const NAME: &str = "packet ports";
    match (facts.attempts.packet, facts.attempts.tap) {
        (Attempt::Succeeded, _) => ok(NAME, "packet sockets with offloads can be opened".into()),
        (Attempt::NotMade, _) => missing(NAME, "not tried without namespaces".into(), "see namespaces"),
        (failed, tap) => {
            let found = format!("cannot open a packet socket: {}", why(failed));
            let remedy = "use a kernel with CONFIG_PACKET, 4.20 or later; in a container: --cap-add NET_RAW";
            if tap.succeeded() { limited(NAME, found, remedy) } else { missing(NAME, found, remedy) }
        }
    }
}

fn judge_real_time(facts: &Facts) -> CheckItem {
    const NAME: &str = "real-time priority";
    match facts.attempts.real_time {
        Attempt::Succeeded if facts.settings.rt_runtime_us == Some(0) => limited(
            NAME,
            "granted, but kernel.sched_rt_runtime_us is 0, so real-time threads never run".into(),
            "sudo sysctl -w kernel.sched_rt_runtime_us=950000",
        ),
        Attempt::Succeeded => ok(NAME, "granted to the emulator".into()),
        Attempt::NotMade => limited(NAME, "not tried without namespaces".into(), "see namespaces"),
        failed => {
            let limit = facts.rt_limit.map_or(String::new(), |limit| format!(", RLIMIT_RTPRIO is {limit}"));
            let remedy = match (facts.root, facts.rt_limit) {
                (true, _) => {
                    "in a container: --cap-add SYS_NICE; with real-time group scheduling set cpu.rt_runtime_us of the cgroup"
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
        0 | 1 => limited(
            NAME,
            "1; the emulator shares it with the hosts".into(),
            "use a machine with two or more processors",
        ),
        n => ok(NAME, n.to_string()),
    }
}

fn judge_idle_states(facts: &Facts) -> CheckItem {
    const NAME: &str = "idle processors";
    match facts.low_latency {
        Attempt::Succeeded => ok(NAME, "deep idle states are disabled while packets are in flight".into()),
        failed => limited(
            NAME,
            format!(
                "cannot open /dev/cpu_dma_latency: {}; idle processors take longer to wake up, which delays packets",
                why(failed)
            ),
            if facts.root { "in a container: --device /dev/cpu_dma_latency" } else { "use sudo" },
        ),
    }
}

fn judge_timer((median, p99): (u64, u64)) -> CheckItem {
    const NAME: &str = "timer";
    let micros = |ns: u64| ns as f64 / 1e3;
    let found =
        format!("sleeps end {:.0} us late, 1 % of them {:.0} us or more", micros(median), micros(p99));
    if p99 <= LATE_NS {
        return ok(NAME, found);
    }
    limited(NAME, found, "close other programs; give a virtual machine dedicated processors")
}

fn judge_buffers(facts: &Facts) -> CheckItem {
    const NAME: &str = "socket buffers";
    let megabytes = |bytes: Option<i64>| bytes.map_or("?".into(), |b| format!("{:.1} MB", b as f64 / 1e6));
    let Settings { rmem_max, wmem_max, .. } = facts.settings;
    let found = format!("net.core.rmem_max {}, wmem_max {}", megabytes(rmem_max), megabytes(wmem_max));
    if facts.attempts.network.succeeded() {
        return ok(NAME, format!("{found}; root may exceed them"));
    }
    if [rmem_max, wmem_max].iter().all(|max| max.is_some_and(|bytes| bytes >= BUFFER_BYTES)) {
        return ok(NAME, found);
    }
    limited(
        NAME,
        format!("{found}; they cap buffers that a flow sets, but not autotuned ones"),
        "sudo sysctl -w net.core.rmem_max=67108864 net.core.wmem_max=67108864",
    )
}

fn judge_host_settings(facts: &Facts) -> CheckItem {
    const NAME: &str = "host settings";
    match facts.attempts.settings {
        Attempt::Succeeded => ok(NAME, "hosts' sysctls can be set".into()),
        Attempt::NotMade => limited(NAME, "not tried without namespaces".into(), "see namespaces"),
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
        "{}; default {}; allowed for unprivileged users outside labs: {}",
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
            let remedy = "install them to run them on a lab's hosts; longfat itself does not need them";
            limited(NAME, format!("{found}not found: {}", names(&lacking)), remedy)
        }
    }
}

fn judge_lab_up(facts: &Facts) -> CheckItem {
    const NAME: &str = "mount and pid namespaces";
    match facts.attempts.mounts_and_pids {
        Attempt::Succeeded => ok(NAME, "can be created: longfat lab up works".into()),
        Attempt::NotMade => missing(NAME, "not tried without namespaces".into(), "see namespaces"),
        failed => missing(
            NAME,
            format!("refused: {}; runs work, longfat lab up does not", why(failed)),
            match failed {
                Attempt::Failed(errno) => standing_remedy(errno),
                _ => "see namespaces",
            },
        ),
    }
}

fn judge_turnaround(measured: &Result<Option<Turnaround>, Error>) -> CheckItem {
    const NAME: &str = "turnaround";
    let why = match measured {
        Ok(Some(Turnaround { echo, tcp })) => {
            return ok(
                NAME,
                format!(
                    "{:.0} us for TCP and {:.0} us for echoes at each host of a lab (medians); in a scenario: \
                     turnaround = \"{:.0}us\"",
                    tcp.median_us, echo.median_us, tcp.median_us
                ),
            );
        }
        Ok(None) => "no packet returned".into(),
        Err(error) => error.to_string(),
    };
    limited(NAME, format!("not measured: {why}"), "close other programs and check again")
}

fn why(attempt: Attempt) -> String {
    match attempt {
        Attempt::Failed(errno) => error_text(errno),
        Attempt::Succeeded | Attempt::NotMade => "not tried".into(),
    }
}

fn error_text(errno: i32) -> String {
    std::io::Error::from_raw_os_error(errno).to_string()
}

#[cfg(test)]
mod tests;
