//! Predictions for small scenarios.

use scenario::ScenarioFile;

use super::*;

/// A host `a`, a host `b` with these keys, a link between them and these flows.
fn scenario(hosts: [&str; 2], link: &str, flows: &str) -> Scenario {
    let [a, b] = hosts;
    let text = format!(
        "duration = \"20s\"\n[hosts.a]\naddress = \"10.0.0.1/24\"\n{a}\n[hosts.b]\naddress = \"10.0.0.2/24\"\n{b}\n\
         [[links]]\nname = \"path\"\nends = [\"a\", \"b\"]\n{link}\n{flows}"
    );
    let file = ScenarioFile::parse("x.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    file.resolve(None, &[]).unwrap_or_else(|error| panic!("{error}"))
}

/// A flow `f` from a to b with these keys.
fn flow(keys: &str) -> String {
    format!("[[flows]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\n{keys}\n")
}

fn predicted(scenario: &Scenario) -> FlowSummary {
    predict_flows(&|_| None, scenario, KernelVersion::new(6, 18)).swap_remove(0)
}

#[test]
fn the_receive_window_is_that_of_the_receivers_kernel() {
    let link = "both = { rate = \"10gbit\", delay = \"10ms\" }";
    let window = |hosts, keys| predicted(&scenario(hosts, link, &flow(keys))).max_rcv_wnd_bytes.unwrap();
    let fixed = "cc = \"cubic\"\nreceive_buffer = \"1MiB\"";
    let [old, new] = ["kernel = \"6.1\"", "kernel = \"6.18\""];
    assert_eq!(window([old, old], fixed), 1 << 20);
    assert_eq!(window([new, old], fixed), 1 << 20);
    assert!(window([old, new], fixed) > 6 << 18, "{}", window([old, new], fixed));
    // tcp_rmem: 6 MiB, and 32 MiB since 6.16.
    assert_eq!(window([new, old], "cc = \"cubic\""), 3 << 20);
    assert!(window([old, new], "cc = \"cubic\"") > 20 << 20);
}

/// Minimum buffers of the kernel, after it has doubled them: 4608 and 2304 bytes.
#[test]
fn small_buffers_have_the_sizes_of_the_kernel() {
    let link = "both = { rate = \"100mbit\", delay = \"10ms\" }";
    let goodput = |keys: &str| {
        predicted(&scenario(["", ""], link, &flow(&format!("cc = \"reno\"\n{keys}")))).goodput_bps.unwrap()
    };
    assert_eq!(goodput("send_buffer = \"1B\""), goodput("send_buffer = \"2304B\""));
    assert_eq!(goodput("receive_buffer = \"1B\""), goodput("receive_buffer = \"1152B\""));
    assert!(goodput("send_buffer = \"1B\"") < goodput("send_buffer = \"4608B\""));
    assert!(goodput("receive_buffer = \"1B\"") < goodput("receive_buffer = \"2304B\""));
}

#[test]
fn notes_name_the_effects_of_small_sizes() {
    let notes = |host: &str, queue: &str, keys: &str| {
        let link = format!("both = {{ rate = \"10mbit\", delay = \"10ms\", queue = \"{queue}\" }}");
        let scenario = scenario([host, host], &link, &flow(&format!("cc = \"reno\"\n{keys}")));
        small_sizes::notes(&|_| None, &scenario, &scenario.flows[0], KernelVersion::new(6, 18))
    };
    assert_eq!(notes("mtu = 88", "3p", "send_buffer = \"32KiB\"\nreceive_buffer = \"4KiB\""), [""; 0]);
    for (host, queue, keys, what) in [
        ("mtu = 80", "100p", "", "at least 88 B, exceed the path's MTU of 80 B"),
        ("", "1p", "", "holds 1 packets"),
        ("", "2p", "", "holds 2 packets"),
        ("", "100p", "send_buffer = \"1B\"", "a packet of up to 64 KiB"),
        ("", "100p", "receive_buffer = \"1B\"", "less than two segments"),
    ] {
        let found = notes(host, queue, keys);
        assert!(found.len() == 1 && found[0].contains(what), "{what}: {found:?}");
    }
}

#[test]
fn corrupted_segments_are_lost() {
    let path = |keys: &str| format!("forward = {{ rate = \"100mbit\", delay = \"20ms\", {keys} }}");
    let goodput = |keys: &str, flow_keys: &str| {
        predicted(&scenario(["", ""], &path(keys), &flow(flow_keys))).goodput_bps.unwrap()
    };
    let reno = "cc = \"reno\"";
    assert_eq!(goodput("corrupt = 0.01", reno), goodput("loss = 0.01", reno));
    assert!(goodput("corrupt = 0.01", reno) < 0.2 * goodput("queue = \"1MB\"", reno));
    let udp = "kind = \"udp\"\nrate = \"10mbit\"";
    let both = goodput("corrupt = 0.1, loss = 0.2", udp);
    assert!((both / 7.2e6 - 1.0).abs() < 1e-9, "{both}");
}

#[test]
fn nothing_arrives_over_a_link_that_passes_no_packet() {
    let kinds = [
        "cc = \"reno\"",
        "cc = \"bbr\"",
        "cc = \"cubic\"\nsize = \"1MB\"",
        "kind = \"udp\"\nrate = \"1mbit\"",
    ];
    for dead in ["down = true", "loss = 1.0", "corrupt = 1.0"] {
        for direction in ["forward", "backward"] {
            let link =
                format!("both = {{ rate = \"10mbit\", delay = \"10ms\" }}\n{direction} = {{ {dead} }}");
            for kind in kinds {
                let flow = predicted(&scenario(["", ""], &link, &flow(kind)));
                let figures = (flow.goodput_bps, flow.steady_goodput_bps, flow.bytes);
                assert_eq!(figures, (Some(0.0), Some(0.0), Some(0)), "{kind}: {link}");
                assert_eq!((flow.min_rtt_us, flow.min_owd_us), (None, None), "{kind}: {link}");
            }
            let ping = predicted(&scenario(["", ""], &link, &flow("kind = \"ping\"\ncount = 3")));
            let figures = (ping.min_rtt_us, ping.mean_rtt_us, ping.first_rtt_us, ping.max_rtt_us);
            assert_eq!(figures, (None, None, None, None), "{link}");
            assert_eq!((ping.pings_sent, ping.pings_lost), (Some(3), Some(3)), "{link}");
        }
    }
    // Datagrams between hosts that know their addresses need no replies.
    let one_way = scenario(["", ""], "backward = { down = true }", &flow(kinds[3]));
    let one_way = Scenario { fixed_neighbours: true, ..one_way };
    assert_eq!(predicted(&one_way).goodput_bps, Some(1e6));
    // A link that comes up later.
    let later =
        "forward = { rate = \"1mbit\", loss = 1.0 }\nchanges = [{ at = \"1s\", forward = { loss = 0.0 } }]";
    let ping = predicted(&scenario(["", ""], later, &flow("kind = \"ping\"")));
    assert!(ping.min_rtt_us.is_some());
    // A link that is down for the whole time of a flow, or for a part of it.
    let bytes = |keys: &str| {
        let link = "forward = { rate = \"1mbit\" }\nchanges = [{ at = \"2s\", forward = { down = true } }, \
                    { at = \"8s\", forward = { down = false } }]";
        predicted(&scenario(["", ""], link, &flow(&format!("cc = \"reno\"\n{keys}")))).bytes
    };
    assert_eq!(bytes("start = \"2s\"\nstop = \"8s\""), Some(0));
    assert_ne!(bytes("start = \"1s\"\nstop = \"8s\""), Some(0));
    assert_ne!(bytes("start = \"2s\"\nstop = \"9s\""), Some(0));
}

/// 95.6 Mb/s of payload need 2.2 Mb/s of ACKs for two segments each, and less with super-packets.
#[test]
fn a_link_that_is_too_slow_for_acks_is_named() {
    let note_at = |delay: &str, receiver: &str, rate: &str| {
        let link = format!(
            "forward = {{ rate = \"100mbit\" }}\nbackward = {{ rate = \"{rate}\", delay = \"{delay}\" }}"
        );
        let scenario = scenario(["", receiver], &link, &flow("cc = \"reno\""));
        let flows = [predicted(&scenario)];
        slow_ack_link(&scenario, &scenario.flows[0], &flows, KernelVersion::new(6, 18))
    };
    let note = |receiver: &str, rate: &str| note_at("10ms", receiver, rate);
    assert!(note("gro = 1", "2mbit").unwrap().contains("link path is too slow for the ACKs of flow f"));
    assert_eq!(note("gro = 1", "3mbit"), None);
    assert!(note("", "500kbit").is_some());
    assert_eq!(note("", "1mbit"), None);
    // At 1 ms super-packets have 30 segments instead of 8.
    assert_eq!(note_at("1ms", "", "300kbit"), None);
    assert!(note("", "300kbit").is_some() && note_at("1ms", "", "100kbit").is_some());
}

/// 1 Mb/s with 14 bytes of Ethernet header: 8 us a byte.
const SLOW: &str = "both = { rate = \"1mbit\", delay = \"10ms\", overhead = 14 }";

#[test]
fn round_trips_of_echoes_include_the_transmission_of_both_packets() {
    let ping = predicted(&scenario(["", ""], SLOW, &flow("kind = \"ping\"\npayload = \"1000B\"\ncount = 4")));
    let echo = 2.0 * (10_000.0 + 8.0 * (1000.0 + 28.0 + 14.0)) + HOST_TIME_S * 1e6;
    let resolution = 2.0 * (10_000.0 + 8.0 * (28.0 + 14.0)) + HOST_TIME_S * 1e6;
    let expect =
        |figure: Option<f64>, us: f64| assert!((figure.unwrap() - us).abs() < 1e-3, "{figure:?} {us}");
    expect(ping.min_rtt_us, echo);
    expect(ping.first_rtt_us, echo + resolution);
    expect(ping.mean_rtt_us, echo + resolution / 4.0);
    expect(ping.mdev_rtt_us, resolution * 3.0_f64.sqrt() / 4.0);
}

#[test]
fn one_way_delays_of_datagrams_include_their_transmission() {
    let delay = |keys: &str| {
        predicted(&scenario(["", ""], SLOW, &flow(&format!("kind = \"udp\"\nrate = \"100kbit\"\n{keys}"))))
            .min_owd_us
            .unwrap()
    };
    let expect = |us: f64, expected: f64| assert!((us - expected).abs() < 1e-3, "{us} {expected}");
    expect(delay("packet = \"1000B\""), 10_000.0 + 8.0 * (1028.0 + 14.0));
    // Three fragments of 1480, 1480 and 1048 bytes.
    expect(delay("packet = \"4000B\""), 10_000.0 + 8.0 * (4008.0 + 3.0 * 34.0));
}

#[test]
fn datagrams_have_the_size_that_the_mtu_of_their_sender_allows() {
    let link = "both = { rate = \"10mbit\", delay = \"1ms\", overhead = 14 }";
    let udp = flow("kind = \"udp\"\nrate = \"20mbit\"");
    for (hosts, mtu) in [(["mtu = 9000", ""], 9000.0), (["", "mtu = 9000"], 1500.0)] {
        let goodput = predicted(&scenario(hosts, link, &udp)).goodput_bps.unwrap();
        let expected = 10e6 * (mtu - 28.0) / (mtu + 14.0);
        assert!((goodput / expected - 1.0).abs() < 1e-9, "{goodput} {expected}");
    }
}

#[test]
fn reno_flows_share_a_link_without_delay() {
    let named = |name: &str| flow("cc = \"reno\"").replace("\"f\"", &format!("\"{name}\""));
    for queue in ["", ", queue = \"1MB\""] {
        let link = format!("forward = {{ rate = \"100mbit\", overhead = 0{queue} }}");
        let scenario = scenario(["", ""], &link, &(named("f") + &named("g")));
        for result in predict_flows(&|_| None, &scenario, KernelVersion::new(6, 18)) {
            let half = 50e6 * 1448.0 / 1500.0;
            for goodput in [result.goodput_bps, result.steady_goodput_bps] {
                assert!((goodput.unwrap() / half - 1.0).abs() < 1e-9, "{queue}: {result:?}");
            }
        }
    }
}

/// 101 Mb/s with 100 bytes per packet in addition to IP carry less than 100 Mb/s without.
#[test]
fn the_slowest_link_is_the_one_that_passes_the_fewest_packets() {
    let text = "duration = \"20s\"\n[hosts.a]\naddress = \"10.0.0.1/24\"\n[hosts.b]\naddress = \"10.0.0.2/24\"\n\
         [switches]\nnames = [\"s\"]\n[[links]]\nends = [\"a\", \"s\"]\nforward = { rate = \"100mbit\", overhead = 0 }\n\
         [[links]]\nends = [\"s\", \"b\"]\nforward = { rate = \"101mbit\", overhead = 100, delay = \"1ms\", queue = \"1MB\" }\n";
    for (mss, payload) in [("", 1448.0), ("mss = 536", 524.0)] {
        let flow = flow(&format!("cc = \"reno\"\n{mss}"));
        let file = ScenarioFile::parse("x.toml", &format!("{text}{flow}")).unwrap();
        let scenario = file.resolve(None, &[]).unwrap();
        let expected = 101e6 * payload / (payload + 52.0 + 100.0);
        let wire = predicted(&scenario).wire_limit_bps.unwrap();
        assert!((wire / expected - 1.0).abs() < 1e-9, "{wire} {expected}");
        let path = FlowPath::of(&scenario, &scenario.flows[0]).unwrap();
        assert_eq!(path.queue_bytes(), Some(1_000_000));
    }
}

#[test]
fn packets_of_a_datagram_overlap_on_several_links() {
    let text = "duration = \"20s\"\n[hosts.a]\naddress = \"10.0.0.1/24\"\n[hosts.b]\naddress = \"10.0.0.2/24\"\n\
         [switches]\nnames = [\"s\"]\n[[links]]\nends = [\"a\", \"s\"]\nforward = { rate = \"2mbit\", overhead = 0 }\n\
         [[links]]\nends = [\"s\", \"b\"]\nforward = { rate = \"1mbit\", overhead = 0 }\n";
    let flow = flow("kind = \"udp\"\nrate = \"100kbit\"\npacket = \"4000B\"");
    let file = ScenarioFile::parse("x.toml", &format!("{text}{flow}")).unwrap();
    let delay = predicted(&file.resolve(None, &[]).unwrap()).min_owd_us.unwrap();
    // The slow link sends without a pause once the first packet of 1500 bytes has crossed the fast one.
    let expected = 4.0 * 1500.0 + 8.0 * (4008.0 + 3.0 * 20.0);
    assert!((delay - expected).abs() < 1e-3, "{delay} {expected}");
}
