//! `lab check` on different machines.

use super::*;
use crate::{facts::Attempts, namespace_limits::NamespaceLimits};

/// A machine on which everything works, for root.
fn good() -> Facts {
    let settings = Settings { rmem_max: Some(212_992), wmem_max: Some(212_992), ..Settings::default() };
    Facts {
        kernel: "6.12.0".into(),
        root: true,
        limits: NamespaceLimits { root: true, max_user_namespaces: Some(1000), ..NamespaceLimits::default() },
        attempts: Attempts {
            network: Attempt::Succeeded,
            tap: Attempt::Succeeded,
            packet: Attempt::Succeeded,
            real_time: Attempt::Succeeded,
            mounts_and_pids: Attempt::Succeeded,
            settings: Attempt::Succeeded,
            ..Attempts::default()
        },
        low_latency: Attempt::Succeeded,
        settings,
        tun: Some(Tun { mode: 0o666, opens: Attempt::Succeeded }),
        cpus: 4,
        late_ns: (20_000, 60_000),
        cc_available: vec!["reno".into(), "cubic".into(), "bbr".into()],
        cc_default: "cubic".into(),
        tools: vec![("ping".into(), Some("/usr/bin/ping".into()))],
        ..Facts::default()
    }
}

/// The facts of a machine on which the user's namespaces fail, on creation or on use.
fn refused(user: Attempt, user_network: Attempt) -> Facts {
    let network = Attempt::Failed(libc::EPERM);
    let limits = NamespaceLimits { root: false, ..good().limits };
    Facts {
        root: false,
        limits,
        attempts: Attempts { network, user, user_network, ..Attempts::default() },
        ..good()
    }
}

fn item(facts: &Facts, name: &str) -> (CheckState, String, String) {
    let check = judge(facts);
    let item = check.items.into_iter().find(|i| i.name == name).unwrap();
    (item.state, item.found, item.remedy.unwrap_or_default())
}

#[test]
fn a_fully_capable_machine_gets_no_remedies() {
    let check = judge(&good());
    assert!(check.can_run);
    assert!(check.items.iter().all(|i| i.state == CheckState::Ok && i.remedy.is_none()), "{check:?}");
}

#[test]
fn apparmor_is_named_for_each_denied_step() {
    for (user, network) in [
        (Attempt::Succeeded, Attempt::Failed(libc::EPERM)),
        (Attempt::Failed(libc::EACCES), Attempt::NotMade),
    ] {
        let mut facts = refused(user, network);
        facts.limits.apparmor_restrict_userns = Some(1);
        let (state, found, remedy) = item(&facts, "namespaces");
        assert_eq!(state, CheckState::Missing);
        assert!(found.contains("AppArmor"), "{found}");
        assert!(remedy.contains("userns,") && remedy.contains("restrict_unprivileged_userns=0"), "{remedy}");
        assert!(!judge(&facts).can_run);
    }
}

#[test]
fn each_sysctl_that_forbids_namespaces_is_named() {
    let eperm = Attempt::Failed(libc::EPERM);
    let mut debian = refused(eperm, Attempt::NotMade);
    debian.limits.unprivileged_userns_clone = Some(0);
    assert!(item(&debian, "namespaces").2.contains("kernel.unprivileged_userns_clone=1"));
    let mut none = refused(Attempt::Failed(libc::ENOSPC), Attempt::NotMade);
    none.limits.max_user_namespaces = Some(0);
    assert!(item(&none, "namespaces").2.contains("user.max_user_namespaces=10000"));
    let mut full = refused(Attempt::Succeeded, Attempt::Failed(libc::ENOSPC));
    assert!(item(&full, "namespaces").1.contains("too many"));
    full.limits.max_net_namespaces = Some(0);
    assert!(item(&full, "namespaces").2.contains("user.max_net_namespaces=10000"));
    assert!(
        item(&refused(Attempt::Failed(libc::EINVAL), Attempt::NotMade), "namespaces")
            .2
            .contains("CONFIG_USER_NS")
    );
}

#[test]
fn remedies_in_a_container_name_its_options() {
    let eperm = Attempt::Failed(libc::EPERM);
    let limits = NamespaceLimits { seccomp: true, root: true, ..good().limits };
    let filtered = Facts { limits, root: true, tun: None, ..refused(eperm, Attempt::NotMade) };
    assert!(item(&filtered, "namespaces").2.contains("seccomp=unconfined"));
    assert!(item(&filtered, "/dev/net/tun").2.contains("--device /dev/net/tun"));
    assert_eq!(item(&filtered, "packet ports").0, CheckState::Missing);
}

#[test]
fn the_error_of_a_run_without_namespaces_matches_the_check() {
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
fn read_only_sysctls_only_limit_a_lab() {
    let mut facts = good();
    facts.attempts.settings = Attempt::Failed(libc::EROFS);
    let (state, found, _) = item(&facts, "host settings");
    assert!(state == CheckState::Limited && found.contains("Read-only"), "{found}");
    assert!(judge(&facts).can_run);
}

#[test]
fn missing_requirements_for_lab_up_are_named() {
    for (errno, remedy) in
        [(libc::EINVAL, "CONFIG_PID_NS"), (libc::ENOSPC, "max_pid_namespaces"), (libc::EPERM, "--privileged")]
    {
        let mut facts = good();
        facts.attempts.mounts_and_pids = Attempt::Failed(errno);
        let (state, _, advice) = item(&facts, "mount and pid namespaces");
        assert!(state == CheckState::Missing && advice.contains(remedy), "{advice}");
        assert!(judge(&facts).can_run);
    }
}

#[test]
fn without_tun_labs_use_packet_sockets() {
    let mut facts = Facts { tun: None, ..good() };
    facts.attempts.tap = Attempt::Failed(libc::ENOENT);
    assert!(judge(&facts).can_run);
    assert_eq!(item(&facts, "tap ports").0, CheckState::Limited);
    facts.attempts.packet = Attempt::Failed(libc::EPERM);
    assert!(!judge(&facts).can_run, "neither kind of port");
    let closed = Facts { tun: Some(Tun { mode: 0o600, opens: Attempt::Failed(libc::EACCES) }), ..good() };
    assert!(item(&closed, "/dev/net/tun").2.contains("chmod 666"));
    let fenced = Facts { tun: Some(Tun { mode: 0o666, opens: Attempt::Failed(libc::EPERM) }), ..good() };
    assert!(item(&fenced, "/dev/net/tun").2.contains("cgroup"));
}

#[test]
fn an_ordinary_user_is_limited_but_can_run() {
    let mut facts = refused(Attempt::Succeeded, Attempt::Succeeded);
    facts.attempts = Attempts {
        tap: Attempt::Succeeded,
        packet: Attempt::Succeeded,
        mounts_and_pids: Attempt::Succeeded,
        settings: Attempt::Succeeded,
        real_time: Attempt::Failed(libc::EPERM),
        ..facts.attempts
    };
    facts.rt_limit = Some(0);
    facts.low_latency = Attempt::Failed(libc::EACCES);
    assert!(judge(&facts).can_run);
    assert_eq!(item(&facts, "idle processors").2, "use sudo");
    assert_eq!(item(&facts, "namespaces").0, CheckState::Limited);
    assert!(item(&facts, "real-time priority").2.contains("limits.conf"));
    assert!(item(&facts, "socket buffers").2.contains("rmem_max=67108864"));
}

#[test]
fn limits_do_not_prevent_runs() {
    let mut facts = good();
    facts.cpus = 1;
    facts.late_ns = (400_000, 5_000_000);
    facts.settings.rt_runtime_us = Some(0);
    facts.cc_available = vec!["reno".into()];
    facts.tools.push(("tshark".into(), None));
    facts.attempts.mounts_and_pids = Attempt::Failed(libc::EPERM);
    let check = judge(&facts);
    assert!(check.can_run);
    let states: Vec<_> = check.items.iter().filter(|i| i.state != CheckState::Ok).map(|i| i.name).collect();
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

#[test]
fn the_turnaround_is_printed_as_a_scenario_key() {
    let echo = crate::HalfRoundTrips { samples: 290, min_us: 2.0, median_us: 4.0 };
    let tcp = crate::HalfRoundTrips { samples: 70, min_us: 18.5, median_us: 26.5 };
    let measured = Turnaround { echo, tcp };
    let item = judge_turnaround(&Ok(Some(measured)));
    assert_eq!((item.state, item.remedy), (CheckState::Ok, None));
    assert!(item.found.ends_with("in a scenario: turnaround = \"26us\""), "{}", item.found);
    for failed in
        [Ok(None), Err(Error::NoThreads { threads: 4, source: std::io::Error::from_raw_os_error(11) })]
    {
        let item = judge_turnaround(&failed);
        assert!(item.state == CheckState::Limited && item.remedy.is_some(), "{item:?}");
    }
}
