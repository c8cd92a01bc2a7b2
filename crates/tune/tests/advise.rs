//! Advice for hosts of many kinds.

use proptest::prelude::*;
use tune::{
    Advice, Coalescing, Device, Goal, HostFacts, InfeasibleGoal, Offloads, Reading, RecommendationStatus,
    Rings, Softnet, SysctlValue, Target, advise,
};
use units::{BitRate, Bytes, Time};

/// Linux with its default settings, and 24 GiB of memory.
fn host(kernel: &str) -> HostFacts {
    let settings = [
        ("net.ipv4.tcp_rmem", "4096 131072 33554432"),
        ("net.ipv4.tcp_wmem", "4096 16384 4194304"),
        ("net.ipv4.tcp_mem", "287898 383867 575796"),
        ("net.core.rmem_max", "4194304"),
        ("net.core.wmem_max", "4194304"),
        ("net.ipv4.tcp_window_scaling", "1"),
        ("net.ipv4.tcp_sack", "1"),
        ("net.ipv4.tcp_timestamps", "1"),
        ("net.ipv4.tcp_moderate_rcvbuf", "1"),
        ("net.ipv4.tcp_no_metrics_save", "0"),
        ("net.ipv4.tcp_slow_start_after_idle", "1"),
        ("net.ipv4.tcp_adv_win_scale", "-2"),
        ("net.ipv4.tcp_mtu_probing", "0"),
        ("net.ipv4.tcp_congestion_control", "reno"),
        ("net.ipv4.tcp_allowed_congestion_control", "reno cubic"),
        ("net.core.default_qdisc", "pfifo_fast"),
        ("net.core.netdev_max_backlog", "1000"),
    ];
    let mut facts = HostFacts {
        kernel: kernel.into(),
        memory_bytes: Reading::Known(24 << 30),
        cpus: 8,
        ..HostFacts::default()
    };
    for (name, value) in settings {
        set(&mut facts, name, value);
    }
    facts
}

fn set(facts: &mut HostFacts, name: &str, value: &str) {
    let setting = SysctlValue { value: value.into(), read_only: false };
    facts.sysctls.insert(name.into(), Reading::Known(setting));
}

fn goal(rate: &str, rtt: &str, streams: u32) -> Goal {
    Goal { rate: rate.parse().unwrap(), rtt: rtt.parse().unwrap(), streams, device: None, lower: false }
}

fn status<'a>(advice: &'a Advice, name: &str) -> Option<(&'a RecommendationStatus, &'a str)> {
    let matches = |target: &Target| target.name() == name;
    advice.items.iter().find(|item| matches(&item.target)).map(|item| (&item.status, item.advised.as_str()))
}

#[test]
fn advice_for_ten_gigabits_over_fifty_milliseconds_by_kernel() {
    let advice = advise(&host("6.18.44"), &goal("10gbit", "50ms", 1)).unwrap();
    assert_eq!(advice.buffer_bytes, 120 << 20, "Lab 8: twice 62.5 MB, in MiB");
    assert_eq!(
        status(&advice, "net.ipv4.tcp_rmem"),
        Some((&RecommendationStatus::Change, "4096 131072 125829120"))
    );
    assert_eq!(
        status(&advice, "net.ipv4.tcp_wmem"),
        Some((&RecommendationStatus::Change, "4096 16384 125829120"))
    );
    assert_eq!(status(&advice, "net.core.rmem_max"), Some((&RecommendationStatus::Change, "125829120")));
    assert_eq!(status(&advice, "net.ipv4.tcp_window_scaling"), Some((&RecommendationStatus::Satisfied, "1")));
    assert_eq!(
        status(&advice, "net.ipv4.tcp_congestion_control"),
        Some((&RecommendationStatus::Change, "cubic"))
    );
    assert_eq!(status(&advice, "net.ipv4.tcp_adv_win_scale"), None, "ignored since 6.6");
    assert_eq!(status(&advice, "net.ipv4.tcp_mem"), None, "240 MiB are far below the pressure of 1.5 GB");
}

fn reason<'a>(advice: &'a Advice, name: &str) -> &'a str {
    &advice.items.iter().find(|item| item.target.name() == name).unwrap().reason
}

/// The share by `tcp_win_from_space` of kernels before 6.6.
#[test]
fn the_window_scale_of_older_kernels_is_changed_if_less_than_half_is_window() {
    let name = "net.ipv4.tcp_adv_win_scale";
    for (scale, share) in [
        ("0", "this kernel advertises all of the buffer"),
        ("-1", "; this kernel advertises half of the buffer"),
        ("1", "; this kernel advertises half of the buffer"),
        ("2", "this kernel advertises 3/4 of the buffer"),
        ("31", "this kernel advertises almost all of the buffer"),
    ] {
        let mut facts = host("6.1.0");
        set(&mut facts, name, scale);
        let advice = advise(&facts, &goal("10gbit", "50ms", 1)).unwrap();
        assert_eq!(status(&advice, name), None, "{scale}");
        let reason = reason(&advice, "net.ipv4.tcp_rmem");
        assert!(reason.contains(share), "{scale}: {reason}");
    }
    for (scale, part) in [("-2", "only 1/4 of the buffer"), ("-3", "only 1/8 of the buffer")] {
        let mut facts = host("6.1.0");
        set(&mut facts, name, scale);
        let advice = advise(&facts, &goal("10gbit", "50ms", 1)).unwrap();
        assert_eq!(status(&advice, name), Some((&RecommendationStatus::Change, "1")), "{scale}");
        assert!(reason(&advice, name).contains(part), "{}", reason(&advice, name));
        let buffer = reason(&advice, "net.ipv4.tcp_rmem");
        assert!(buffer.contains("tcp_adv_win_scale = 1 this kernel advertises half"), "{buffer}");
    }
}

/// `tcp_mem` is in pages, which have 64 KiB on some ARM machines.
#[test]
fn the_memory_limit_is_in_pages_of_the_host() {
    let mut facts = host("6.18.44");
    set(&mut facts, "net.ipv4.tcp_mem", "1000 2000 3000");
    let goal = goal("10gbit", "50ms", 1);
    // 240 MiB.
    for (page_bytes, advised, text) in [
        (Reading::Known(4096), "46080 61440 92160", "2,000 pages of 4,096 bytes"),
        (Reading::Known(65_536), "2880 3840 5760", "2,000 pages of 65,536 bytes"),
        (Reading::unknown("an earlier version"), "46080 61440 92160", "2,000 pages of 4,096 bytes"),
        (Reading::Known(0), "46080 61440 92160", "2,000 pages of 4,096 bytes"),
    ] {
        facts.page_bytes = page_bytes;
        let advice = advise(&facts, &goal).unwrap();
        assert_eq!(status(&advice, "net.ipv4.tcp_mem"), Some((&RecommendationStatus::Change, advised)));
        assert!(
            reason(&advice, "net.ipv4.tcp_mem").contains(text),
            "{}",
            reason(&advice, "net.ipv4.tcp_mem")
        );
    }
    facts.page_bytes = Reading::Known(65_536);
    set(&mut facts, "net.ipv4.tcp_mem", "2000 4000 8000");
    assert_eq!(status(&advise(&facts, &goal).unwrap(), "net.ipv4.tcp_mem"), None, "4000 pages are 250 MiB");
}

#[test]
fn settings_are_lowered_on_request_only() {
    let mut facts = host("6.18.44");
    set(&mut facts, "net.ipv4.tcp_rmem", "4096 131072 536870912");
    set(&mut facts, "net.core.rmem_max", "536870912");
    let small = goal("100mbit", "20ms", 1);
    let advice = advise(&facts, &small).unwrap();
    assert_eq!(
        status(&advice, "net.ipv4.tcp_rmem"),
        Some((&RecommendationStatus::Exceeded, "4096 131072 536870912"))
    );
    assert_eq!(status(&advice, "net.core.rmem_max"), Some((&RecommendationStatus::Exceeded, "536870912")));
    let lower = advise(&facts, &Goal { lower: true, ..small }).unwrap();
    assert_eq!(
        status(&lower, "net.ipv4.tcp_rmem"),
        Some((&RecommendationStatus::Change, "4096 131072 1048576"))
    );
    assert_eq!(status(&lower, "net.core.rmem_max"), Some((&RecommendationStatus::Change, "1048576")));
}

#[test]
fn an_infeasible_goal_is_an_error_that_names_a_feasible_one() {
    let error = advise(&host("6.18"), &goal("100gbit", "300ms", 1)).unwrap_err();
    let InfeasibleGoal::Window { streams, .. } = error else { panic!("{error}") };
    let with_streams = |streams| advise(&host("6.18"), &goal("100gbit", "300ms", streams));
    assert!(!matches!(with_streams(streams), Err(InfeasibleGoal::Window { .. })), "{streams} are enough");
    let largest = advise(&host("6.18"), &goal("100gbit", "85.87ms", 1)).unwrap();
    assert_eq!(
        largest.buffer_bytes,
        i32::MAX as u64,
        "a window of 1.0734 GB is possible, twice as much buffer is not"
    );
    let mut small = host("6.18");
    small.memory_bytes = Reading::Known(256 << 20);
    let error = advise(&small, &goal("10gbit", "50ms", 1)).unwrap_err();
    assert!(
        matches!(error, InfeasibleGoal::Memory { .. }) && error.to_string().contains("240 MiB"),
        "{error}"
    );
}

#[test]
fn settings_of_the_whole_machine_are_not_changed_from_a_namespace() {
    let mut facts = host("6.18");
    let value = "4194304".to_string();
    facts.sysctls.insert("net.core.rmem_max".into(), Reading::Known(SysctlValue { value, read_only: true }));
    facts.sysctls.insert("net.core.wmem_max".into(), Reading::unknown("no such setting"));
    let advice = advise(&facts, &goal("10gbit", "50ms", 1)).unwrap();
    assert!(matches!(
        status(&advice, "net.core.rmem_max"),
        Some((RecommendationStatus::NotChangeable { .. }, _))
    ));
    assert!(matches!(status(&advice, "net.core.wmem_max"), Some((RecommendationStatus::Unknown { .. }, _))));
    assert!(advice.changes().all(|(name, ..)| !name.starts_with("net.core.")));
}

#[test]
fn devices_get_commands_but_no_sysctl_changes() {
    let mut facts = host("6.18");
    facts.devices.push(Device {
        name: "eth7".into(),
        up: true,
        mtu: 9000,
        qdisc: Some("pfifo_fast".into()),
        tx_queue_len: 1000,
        speed_mbps: Reading::Known(1000),
        rings: Reading::Known(Rings { rx: 256, rx_max: 4096, tx: 4096, tx_max: 4096 }),
        offloads: Reading::Known(Offloads {
            tso: true,
            gso: true,
            gro: false,
            lro: false,
            rx_checksum: true,
            tx_checksum: true,
        }),
        coalescing: Reading::Known(Coalescing { rx_us: 3, tx_us: 64, ..Coalescing::default() }),
        ..Device::default()
    });
    facts.fq = Reading::Known(true);
    let advice = advise(&facts, &goal("10gbit", "50ms", 1)).unwrap();
    assert_eq!(status(&advice, "eth7 rx-usecs"), Some((&RecommendationStatus::Change, "50")));
    assert_eq!(status(&advice, "eth7 tx-usecs"), Some((&RecommendationStatus::Satisfied, "64")));
    assert!(advice.device_changes().any(|change| change == ("eth7 rx-usecs".into(), "50")));
    let short = advise(&facts, &goal("10gbit", "100us", 1)).unwrap();
    assert_eq!(status(&short, "eth7 rx-usecs"), None, "it would lengthen the round trip by half");
    let mut adaptive = facts.clone();
    adaptive.devices.last_mut().unwrap().coalescing =
        Reading::Known(Coalescing { adaptive_rx: true, ..Coalescing::default() });
    let advice_of_adaptive = advise(&adaptive, &goal("10gbit", "50ms", 1)).unwrap();
    assert_eq!(status(&advice_of_adaptive, "eth7 rx-usecs"), Some((&RecommendationStatus::Satisfied, "0")));
    let mut lacking = facts.clone();
    lacking.devices.last_mut().unwrap().coalescing = Reading::unknown("the driver does not report it");
    let named = Goal { device: Some("eth7".into()), ..goal("10gbit", "50ms", 1) };
    let advice_of_lacking = advise(&lacking, &named).unwrap();
    let lacking = status(&advice_of_lacking, "eth7 rx-usecs").unwrap();
    assert!(matches!(lacking.0, RecommendationStatus::Unknown { .. }), "{lacking:?}");
    assert!(advice_of_lacking.device_changes().all(|(name, _)| !name.contains("usecs")));
    assert_eq!(status(&advice, "eth7 rx ring"), Some((&RecommendationStatus::Change, "4096")));
    assert_eq!(status(&advice, "eth7 tx ring"), Some((&RecommendationStatus::Satisfied, "4096")));
    assert_eq!(status(&advice, "eth7 gro"), Some((&RecommendationStatus::Change, "on")));
    assert_eq!(
        status(&advice, "eth7 link").unwrap().0,
        &RecommendationStatus::ManualReview,
        "a link of 1 Gb/s cannot carry 10"
    );
    assert_eq!(status(&advice, "eth7 qdisc"), Some((&RecommendationStatus::ManualReview, "fq")));
    assert_eq!(
        status(&advice, "net.ipv4.tcp_mtu_probing"),
        Some((&RecommendationStatus::Change, "1")),
        "jumbo frames"
    );
    assert_eq!(status(&advice, "net.core.default_qdisc"), Some((&RecommendationStatus::Change, "fq")));
    assert!(advice.changes().all(|(name, ..)| name.starts_with("net.")));
    let export = |format| tune::export(&advice, format, "10 Gb/s x 50 ms");
    let ethtool = export(tune::ExportFormat::Ethtool);
    assert!(
        ethtool.contains("ethtool -G eth7 rx 4096\n")
            && ethtool.contains("ethtool -C eth7 rx-usecs 50\n")
            && ethtool.contains("ethtool -K eth7 gro on\n"),
        "{ethtool}"
    );
    assert!(!ethtool.contains("tcp_rmem"));
    assert!(export(tune::ExportFormat::NetworkManager).contains("ethtool.ring-rx 4096"));
    // NetworkManager has no property for them: they are comments, so that none is missing.
    let mut by_hand = facts.clone();
    by_hand.governors = Reading::Known(vec!["powersave".into()]);
    by_hand.devices.last_mut().unwrap().tx_queue_len = 100;
    let by_hand = advise(&by_hand, &goal("10gbit", "50ms", 1)).unwrap();
    let text = tune::export(&by_hand, tune::ExportFormat::NetworkManager, "10 Gb/s x 50 ms");
    for command in ["ip link set dev eth7 txqueuelen 1000", "cpupower frequency-set -g performance"] {
        assert!(text.lines().any(|line| line.starts_with('#') && line.ends_with(command)), "{text}");
    }
    assert!(export(tune::ExportFormat::Sysctl).contains("\nnet.ipv4.tcp_rmem = 4096 131072 125829120\n"));
    let ansible = export(tune::ExportFormat::Ansible);
    assert!(ansible.contains("    value: \"4096 131072 125829120\"\n"), "{ansible}");
    assert!(ansible.contains("ansible.builtin.command: ethtool -G eth7 rx 4096"), "{ansible}");
}

proptest! {
    /// After the advice is applied there is nothing more to change, and no buffer became smaller.
    #[test]
    fn advice_is_idempotent(rate in 1u64..=400_000, rtt_us in 10u64..=400_000, streams in 1u32..=64, max in 4096u64..1 << 31) {
        let mut facts = host("6.18.44");
        facts.memory_bytes = Reading::Known(1 << 50);
        set(&mut facts, "net.ipv4.tcp_rmem", &format!("4096 4096 {max}"));
        let (rate, rtt) = (BitRate(rate * 1_000_000), Time::from_micros(rtt_us));
        let goal = Goal { rate, rtt, streams, device: None, lower: false };
        let Ok(advice) = advise(&facts, &goal) else { return Ok(()) };
        let before = facts.clone();
        for (name, _, value) in advice.changes() {
            set(&mut facts, name, value);
        }
        let again = advise(&facts, &goal).unwrap();
        prop_assert_eq!(again.changes().count(), 0);
        for name in ["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem", "net.ipv4.tcp_mem"] {
            let (old, new) = (before.triple(name).unwrap(), facts.triple(name).unwrap());
            prop_assert!(new.iter().zip(old).all(|(new, old)| *new >= old), "{}: {:?} {:?}", name, old, new);
        }
        let bdp = model::bdp(goal.rate, goal.rtt);
        prop_assert!(streams > 1 || facts.triple("net.ipv4.tcp_rmem").unwrap()[2] >= 2 * bdp.0);
        prop_assert!(Bytes(advice.buffer_bytes) <= Bytes(i32::MAX as u64));
    }

    /// Facts also come from other hosts, which are not trusted.
    #[test]
    fn arbitrary_facts_cause_no_panic(texts in proptest::collection::vec("[-0-9 a-z]{0,40}", 17), rate in any::<u64>(), rtt in any::<u64>(), streams in any::<u32>()) {
        let mut facts = host("6.18.44");
        let names: Vec<String> = facts.sysctls.keys().cloned().collect();
        for (name, text) in names.iter().zip(&texts) {
            set(&mut facts, name, text);
        }
        let (rate, rtt) = (BitRate(rate), Time::from_nanos(rtt));
        let _ = advise(&facts, &Goal { rate, rtt, streams, device: None, lower: true });
    }
}

/// The facts of a host whose settings are files.
fn facts_of(proc_sys: &std::path::Path) -> HostFacts {
    let mut facts = host("6.1.0");
    let names: Vec<String> = facts.sysctls.keys().cloned().collect();
    for name in names {
        let value = std::fs::read_to_string(proc_sys.join(name.replace('.', "/"))).unwrap();
        set(&mut facts, &name, value.trim_end());
    }
    facts.fq = Reading::Known(true);
    facts.softnet = Reading::unknown("a test");
    facts
}

/// Every setting that suits the path after `--apply`, changed or not, is reported by `--check` when it
/// becomes worse.
#[test]
fn check_reports_every_setting_that_became_worse() {
    let worse = [
        ("net.ipv4.tcp_rmem", "4096 131072 16384"),
        ("net.ipv4.tcp_rmem", "4096 4096 536870912"),
        ("net.ipv4.tcp_rmem", "1024 131072 536870912"),
        ("net.ipv4.tcp_rmem", "256 256 256"),
        ("net.ipv4.tcp_wmem", "4096 16384 65536"),
        ("net.ipv4.tcp_wmem", "4096 4096 536870912"),
        ("net.ipv4.tcp_mem", "10 20 30"),
        ("net.core.rmem_max", "212992"),
        ("net.core.wmem_max", "212992"),
        ("net.ipv4.tcp_window_scaling", "0"),
        ("net.ipv4.tcp_sack", "0"),
        ("net.ipv4.tcp_timestamps", "0"),
        ("net.ipv4.tcp_moderate_rcvbuf", "0"),
        ("net.ipv4.tcp_no_metrics_save", "0"),
        ("net.ipv4.tcp_slow_start_after_idle", "1"),
        ("net.ipv4.tcp_adv_win_scale", "-3"),
        ("net.ipv4.tcp_congestion_control", "reno"),
        ("net.core.default_qdisc", "pfifo_fast"),
    ];
    // With default settings, and with settings far above the path's needs, of which --apply changes almost
    // nothing.
    for better in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let proc_sys = folder.path().join("sys");
        let path_of = |name: &str| proc_sys.join(name.replace('.', "/"));
        let mut facts = host("6.1.0");
        if better {
            for (name, value) in [
                ("net.ipv4.tcp_rmem", "4096 131072 536870912"),
                ("net.ipv4.tcp_wmem", "4096 16384 536870912"),
                ("net.core.rmem_max", "536870912"),
                ("net.core.wmem_max", "536870912"),
                ("net.ipv4.tcp_no_metrics_save", "1"),
                ("net.ipv4.tcp_adv_win_scale", "1"),
            ] {
                set(&mut facts, name, value);
            }
        }
        for (name, value) in &facts.sysctls {
            std::fs::create_dir_all(path_of(name).parent().unwrap()).unwrap();
            std::fs::write(path_of(name), &value.known().unwrap().value).unwrap();
        }
        let paths = tune::HostPaths {
            proc_sys: proc_sys.clone(),
            sysctl_file: None,
            state_dir: folder.path().join("state"),
            journal_name: "journal.json".into(),
        };
        let goal = goal("10gbit", "50ms", 1);
        let advice = advise(&facts_of(&proc_sys), &goal).unwrap();
        tune::apply(&paths, &tune::RequestedSettings::from_advice(&advice, &goal, "a test"), |_| {}).unwrap();
        let check = || tune::check(&paths, &facts_of(&proc_sys)).unwrap().unwrap();
        assert_eq!(check(), []);
        for (name, value) in worse {
            let original = std::fs::read_to_string(path_of(name)).unwrap();
            std::fs::write(path_of(name), value).unwrap();
            let reported: Vec<String> = check().into_iter().map(|difference| difference.name).collect();
            assert_eq!(reported, [name], "{name} = {value}, better: {better}");
            std::fs::write(path_of(name), original).unwrap();
        }
        assert_eq!(check(), []);
        let checked: Vec<&str> = worse.iter().map(|(name, _)| *name).collect();
        let advised = advise(&facts_of(&proc_sys), &goal).unwrap();
        for item in &advised.items {
            assert!(checked.contains(&item.target.name().as_str()), "{} is not tested", item.target.name());
        }
    }
}

/// The counters count since the machine started: a check that used them would never be satisfied again.
#[test]
fn drops_before_the_advice_was_followed_do_not_count_in_a_check() {
    let mut facts = host("6.12.0");
    facts.softnet = Reading::Known(Softnet { processed: 1000, dropped: 1, squeezed: 1000 });
    let name = "net.core.netdev_max_backlog";
    let goal = goal("10gbit", "50ms", 1);
    for (now, expected) in [
        ("1000", (RecommendationStatus::Change, "4000")),
        // A second `--apply` changes nothing.
        ("4000", (RecommendationStatus::Satisfied, "4000")),
        ("250000", (RecommendationStatus::Satisfied, "250000")),
    ] {
        set(&mut facts, name, now);
        let advised = advise(&facts, &goal).unwrap();
        assert_eq!(status(&advised, name), Some((&expected.0, expected.1)), "{now}");
    }
    assert_eq!(status(&advise(&facts.without_counters(), &goal).unwrap(), name), None);
}

#[test]
fn timestamps_without_random_offsets_are_on() {
    let mut facts = host("6.12.0");
    let name = "net.ipv4.tcp_timestamps";
    for (now, expected) in [
        ("0", (RecommendationStatus::Change, "1")),
        ("1", (RecommendationStatus::Satisfied, "1")),
        ("2", (RecommendationStatus::Satisfied, "2")),
    ] {
        set(&mut facts, name, now);
        let advice = advise(&facts, &goal("10gbit", "50ms", 1)).unwrap();
        assert_eq!(status(&advice, name), Some((&expected.0, expected.1)), "{now}");
    }
}
