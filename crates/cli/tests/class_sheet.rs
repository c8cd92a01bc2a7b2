//! The commands of the course's Lab 8 and Lab 13, typed into `longfat lab shell` as students type them into
//! Mininet, but at 100 Mb/s.

use crate::common;
use std::path::{Path, PathBuf};

use common::{
    SMALL, TestDir,
    lab::{Lab, have},
    lab_slots::acquire_lab_slot,
};

/// Mininet topology of Lab 8: h1 - s1 - s2 - h2.
fn lab8() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenario/tests/mn/lab8.mn")
}

const DELAY: &str = "sudo tc qdisc add dev s1-eth2 root handle 1: netem delay 20ms\n";
const RATE: &str =
    "sudo tc qdisc add dev s1-eth2 parent 1: handle 2: tbf rate 100mbit burst 500000 limit 250000\n";

#[test]
fn delay_and_rate_match_the_class_sheet() {
    if !have(&["iperf3"]) {
        return;
    }
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(SMALL);
    let lab = Lab::of(&test_dir, &lab8(), &[]);
    assert!(lab.rtt_ms("h1", "h2") < 5.0, "no delay is set yet");
    let typed = lab.type_into_shell(&format!(
        "# buffers first, then the emulated path\n\
         h1 sysctl -w net.ipv4.tcp_rmem='10240 87380 16777216'\n\
         h1 sysctl -w net.ipv4.tcp_wmem='10240 87380 16777216'\n\
         h2 sysctl -w net.ipv4.tcp_rmem='10240 87380 16777216'\n\
         h2 sysctl -w net.ipv4.tcp_congestion_control=reno\n\
         {DELAY}{RATE}\
         tc qdisc show dev s1-eth2\n\
         h1 sysctl net.ipv4.tcp_rmem\n\
         h1 ping -c 1 h2\n\
         exit\n\
         this line is never read\n"
    ));
    assert_eq!(typed.code, 0, "{typed:?}");
    let rmem: Vec<&str> = typed.stdout.lines().filter(|l| l.contains("10240")).collect();
    assert!(rmem.len() >= 4 && rmem.last().unwrap().contains("16777216"), "{typed:?}");
    assert!(typed.stdout.contains("netem 1:") && typed.stdout.contains("tbf 2:"), "{typed:?}");
    assert!(typed.stdout.contains(" 0% packet loss"), "{typed:?}");
    let control = |host: &str| lab.exec(host, &["cat", "/proc/sys/net/ipv4/tcp_congestion_control"]).stdout;
    assert_eq!(control("h2").trim(), "reno");
    assert_ne!(control("h1").trim(), "reno", "each host has its own sysctls");
    let rtt = lab.rtt_ms("h1", "h2");
    assert!((20.0..23.0).contains(&rtt), "{rtt} ms");

    lab.serve_iperf3("h2");
    lab.serve_iperf3("h1");
    let forward = lab.exec("h1", &["iperf3", "-c", "h2", "-t", "2", "-O", "1", "-J"]);
    let json: serde_json::Value = serde_json::from_str(&forward.stdout).unwrap();
    let goodput = json["end"]["sum_received"]["bits_per_second"].as_f64().unwrap();
    // The token bucket passes a burst of 500000 bytes at once, and a busy machine shortens or prolongs the
    // two seconds.
    assert!((30e6..115e6).contains(&goodput), "{goodput} b/s");
    let back = lab.iperf3_bps("h2", "h1");
    assert!(back > 115e6, "only s1 to s2 is limited: {back} b/s");

    let lossy = lab.type_into_shell(
        "tc qdisc change dev s1-eth2 root handle 1: netem loss 20%\ntc qdisc show dev s1-eth2\n",
    );
    assert!(
        lossy.code == 0 && lossy.stdout.contains("loss 20%") && lossy.stdout.contains("tbf 2:"),
        "{lossy:?}"
    );
    let pings = lab.exec("h1", &["ping", "-c", "200", "-i", "0.01", "-W", "1", "h2"]);
    let received: u32 =
        pings.stdout.split(" received").next().and_then(|t| t.rsplit(' ').next()).unwrap().parse().unwrap();
    // 160 on average, with a standard deviation of 5.7. Changing netem without `delay` removes its delay.
    assert!((130..190).contains(&received), "{pings:?}");
    assert!(lab.type_into_shell("tc qdisc del dev s1-eth2 root\n").code == 0);
    assert!(lab.rtt_ms("h1", "h2") < 5.0, "the delay is removed");
}

#[test]
fn jumbo_frames_pass_only_if_every_port_has_their_mtu() {
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(SMALL);
    let lab = Lab::of(&test_dir, &lab8(), &[]);
    let jumbo =
        || lab.exec("h1", &["ping", "-M", "do", "-s", "8972", "-c", "2", "-i", "0.2", "-W", "1", "h2"]);
    assert_ne!(jumbo().code, 0, "the host's MTU is 1500");
    let mtu = |host: &str| format!("{host} ifconfig {host}-eth0 mtu 9000\n");
    let hosts = match have(&["ifconfig"]) {
        true => mtu("h1") + &mtu("h2"),
        false => "h1 ip link set dev h1-eth0 mtu 9000\nh2 ip link set dev h2-eth0 mtu 9000\n".into(),
    };
    let typed = lab.type_into_shell(&hosts);
    assert_eq!(typed.code, 0, "{typed:?}");
    assert_ne!(jumbo().code, 0, "the MTU of the switches is 1500");
    let typed = lab.type_into_shell(
        "ifconfig s1-eth1 mtu 9000\nifconfig s1-eth2 mtu 9000\ns2 ifconfig s2-eth1 mtu 9000\n",
    );
    assert_eq!(typed.code, 0, "{typed:?}");
    assert_ne!(jumbo().code, 0, "the MTU of s2-eth2 is 1500");
    let typed = lab.type_into_shell("sudo ifconfig s2-eth2 mtu 9000\n");
    assert_eq!(typed.code, 0, "{typed:?}");
    let passed = jumbo();
    assert!(passed.stdout.contains(" 0% packet loss"), "{passed:?}; {}", lab.shell(&["links"]).stdout);
    let back = lab.exec("h2", &["ping", "-M", "do", "-s", "8972", "-c", "1", "-W", "1", "h1"]);
    assert_eq!(back.code, 0, "{back:?}");
}

#[test]
fn tc_can_be_called_by_name_by_path_and_with_sudo() {
    if !have(&["tc"]) {
        return;
    }
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(SMALL);
    let lab = Lab::of(&test_dir, &lab8(), &[]);
    let calls: Vec<&str> = ["tc", "/sbin/tc", "/usr/sbin/tc", "sudo tc"]
        .into_iter()
        .filter(|call| match call.strip_prefix("sudo") {
            Some(_) => have(&["sudo"]) && common::is_root(),
            None => !call.starts_with('/') || Path::new(call).exists(),
        })
        .collect();
    for (i, call) in calls.iter().enumerate() {
        let delay = 5 * (i + 1);
        let set = format!("h1 {call} qdisc replace dev h1-eth0 root netem delay {delay}ms\n");
        let typed = lab.type_into_shell(&format!("{set}h1 {call} qdisc show dev h1-eth0\n"));
        assert!(typed.code == 0 && typed.stdout.contains(&format!("delay {delay}ms")), "{call}: {typed:?}");
        let rtt = lab.rtt_ms("h1", "h2");
        assert!((delay as f64..delay as f64 + 4.0).contains(&rtt), "{call}: {rtt} ms");
    }
    // A host can also configure the ports of switches, which are all in the root namespace in Mininet.
    let port = lab.type_into_shell(
        "h1 tc qdisc add dev s2-eth1 root netem delay 40ms\nh1 tc qdisc del dev h1-eth0 root\n",
    );
    assert_eq!(port.code, 0, "{port:?}");
    assert!((40.0..44.0).contains(&lab.rtt_ms("h1", "h2")));
}

#[test]
fn unsupported_arguments_are_refused_by_name() {
    if !have(&["tc"]) {
        return;
    }
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(SMALL);
    let lab = Lab::of(&test_dir, &lab8(), &[]);
    for (line, named) in [
        ("tc qdisc add dev s1-eth2 root cake", "cake"),
        ("tc qdisc add dev s1-eth2 root htb direct_qlen 5", "direct_qlen"),
        ("tc class add dev s1-eth2 parent 1: classid 1:1 hfsc sc rate 1mbit", "hfsc"),
        ("tc filter add dev s1-eth2 parent 1: u32 match ip dport 80 0xffff flowid 1:1", "parent 1:"),
        ("tc qdisc add dev s9-eth1 root netem delay 1ms", "s9-eth1"),
        ("tc qdisc change dev s1-eth2 root netem delay 1ms", "no such qdisc"),
        ("tc qdisc add dev s1-eth2 root netem delay soon", "soon"),
        ("tc qdisc add dev s1-eth2 parent 7: tbf rate 1mbit burst 10kb limit 10kb", "7:"),
        ("ifconfig s1-eth1 mtu huge", "huge"),
        ("ifconfig s1-eth7", "s1-eth7"),
        ("ovs-vsctl show", "ovs-vsctl"),
        ("h1 tc qdisc add dev h1-eth0 root netem slot 1ms", "slot"),
    ] {
        let typed = lab.type_into_shell(&format!("{line}\n"));
        // The shell also quotes a host's whole command; the first line must name the unsupported argument
        // itself.
        let first_line = typed.stderr.lines().next().unwrap_or_default();
        assert!(
            typed.code == 1 && first_line.contains(named) && !first_line.contains(line),
            "{line}: {typed:?}"
        );
    }
    assert!(lab.rtt_ms("h1", "h2") < 5.0, "refused commands have no effect");
    // The real tc handles other qdiscs of a host, and a host's other devices.
    for device in ["h1-eth0", "lo"] {
        let set = format!("h1 tc qdisc replace dev {device} root pfifo limit 7");
        let real = lab.type_into_shell(&format!("{set}\nh1 tc qdisc show dev {device}\n"));
        let shown = real.stdout.contains("qdisc pfifo") && real.stdout.contains("limit 7p");
        assert!(real.code == 0 && shown, "{device}: {real:?}");
    }
}

#[test]
fn shapers_queues_and_policers_have_effect_and_counters() {
    if !have(&["iperf3"]) {
        return;
    }
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(SMALL);
    let lab = Lab::of(&test_dir, &lab8(), &[]);
    let typed = lab.type_into_shell(
        "tc qdisc add dev s1-eth2 root handle 5: htb default 1\n\
         tc class add dev s1-eth2 parent 5: classid 5:1 htb rate 10mbit\n\
         tc qdisc add dev s1-eth2 parent 5:1 handle 10: netem delay 5ms\n\
         tc qdisc add dev s1-eth2 parent 10: fq_codel limit 100\n",
    );
    assert_eq!((typed.code, typed.stdout.as_str()), (0, ""), "{typed:?}");
    lab.serve_iperf3("h2");
    let goodput = lab.iperf3_bps("h1", "h2");
    assert!((1e6..10.2e6).contains(&goodput), "{goodput}");
    let shown = lab.type_into_shell("tc -s qdisc show dev s1-eth2\ntc class show dev s1-eth2\n").stdout;
    let sent: u64 = shown.split(" Sent ").nth(1).and_then(|t| t.split(' ').next()).unwrap().parse().unwrap();
    assert!(sent > 100_000 && shown.contains("backlog") && shown.contains("overlimits"), "{shown}");
    assert!(shown.contains("fq_codel 8001:") && shown.contains("class htb 5:1 root rate 10Mbit"), "{shown}");
    // 2 Mb/s of the datagrams pass the policer; the burst is 20 ms of them.
    let typed = lab.type_into_shell(
        "tc qdisc del dev s1-eth2 root\n\
         tc qdisc add dev s2-eth1 ingress\n\
         tc filter add dev s2-eth1 parent ffff: matchall police rate 2mbit burst 5kb conform-exceed drop\n",
    );
    assert_eq!(typed.code, 0, "{typed:?}");
    let udp = lab.exec("h1", &["iperf3", "-c", "h2", "-u", "-b", "10M", "-t", "2", "-J"]).stdout;
    let json: serde_json::Value = serde_json::from_str(&udp).unwrap();
    let lost = json["end"]["sum"]["lost_percent"].as_f64().unwrap();
    assert!((50.0..95.0).contains(&lost), "about four fifths: {json}");
    let shown = lab.type_into_shell("tc -s qdisc show dev s1-eth2\n").stdout;
    assert!(!shown.contains("dropped 0,"), "the policer's drops are those of the sending port: {shown}");
}

#[test]
fn the_sheets_topology_is_built_in_and_accepts_the_settings_of_its_machine() {
    let _turn = acquire_lab_slot();
    let test_dir = TestDir::new(SMALL);
    let settings = ["-c", "h1 cat /proc/sys/net/ipv4/tcp_rmem", "-c", "h2 cat /proc/sys/net/ipv4/tcp_wmem"];
    let sheet =
        test_dir.run(&[&["lab", "shell", "lab8.mn", "--defaults", "linux-4.15"][..], &settings].concat());
    assert_eq!(sheet.code, 0, "{sheet:?}");
    assert_eq!(sheet.stdout.matches("16777216").count(), 2, "{sheet:?}");
    assert!(!sheet.stderr.contains("--defaults linux-4.15"), "nothing differs any more: {sheet:?}");
    // With this machine's settings a note names each that differs.
    let machine_value = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_rmem").unwrap();
    let own = test_dir.run(&["lab", "shell", "lab13.mn", "-c", "h1 cat /proc/sys/net/ipv4/tcp_rmem"]);
    assert_eq!(own.code, 0, "{own:?}");
    let differs = machine_value.split_whitespace().ne("10240 87380 16777216".split(' '));
    assert_eq!(own.stderr.contains("net.ipv4.tcp_rmem = "), differs, "{own:?}");
    assert_eq!(own.stderr.contains("--defaults linux-4.15"), own.stderr.contains("not those of"), "{own:?}");
    let ran = test_dir.run(&["lab", "up", "lab8.mn", "--defaults", "linux-9"]);
    assert!(ran.code == 2 && ran.stderr.contains("linux-4.15"), "{ran:?}");
}
