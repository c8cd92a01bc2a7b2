//! The lab sheets: University of South Carolina, "Network Tools and Protocols", Lab 8 and Lab 13 (2019).
//! The published figures are those of `scenarios/lab8.toml` and `scenarios/lab13.toml`.

/// The network of both sheets as it is before the first command.
pub const NETWORK: &str = r#"duration = "10s"
hosts.h1.address = "10.0.0.1/8"
hosts.h2.address = "10.0.0.2/8"
switches.names = ["s1", "s2"]
[[links]]
ends = ["h1", "s1"]
both = { mtu = 1500 }
[[links]]
ends = ["s1", "s2"]
both = { mtu = 1500 }
[[links]]
ends = ["s2", "h2"]
both = { mtu = 1500 }
"#;

/// A lab sheet.
pub struct Sheet {
    pub name: &'static str,
    pub title: &'static str,
    pub steps: &'static [Step],
}

/// A step: the commands to type, and the check of the result.
pub struct Step {
    pub title: &'static str,
    pub why: &'static str,
    pub commands: &'static [&'static str],
    pub check: Check,
    /// Shown once the check has passed.
    pub learnt: &'static str,
}

/// How a step's result is checked.
pub enum Check {
    /// h1 reaches h2 with this minimum round-trip time, in milliseconds.
    Rtt { ms: f64 },
    /// The port's direction of its link has all these parameters.
    Port { port: &'static str, parameters: &'static [&'static str] },
    /// The largest buffer that both hosts allow for receiving and sending, bytes.
    Buffers { max: u64 },
    /// Packets of this size in IP bytes pass from h1 to h2.
    PacketSize { bytes: u64 },
    /// iperf3 from h1 to h2, for comparison with the sheet's figure.
    Throughput { published: &'static str, gbps: f64, options: &'static [&'static str] },
}

/// The sheet of this name.
pub fn find(name: &str) -> Option<&'static Sheet> {
    SHEETS.iter().find(|sheet| sheet.name == name)
}

pub const SHEETS: [Sheet; 2] = [
    Sheet { name: "lab8", title: "Lab 8: bandwidth-delay product and TCP buffer size", steps: &LAB8 },
    Sheet { name: "lab13", title: "Lab 13: impact of MSS on throughput", steps: &LAB13 },
];

const LAB8: [Step; 6] = [
    Step {
        title: "Delay",
        why: "h1 - s1 - s2 - h2 is up without any delay. Port s1-eth2 sends from s1 to s2: let it delay \
              each packet by 20 ms.",
        commands: &["sudo tc qdisc add dev s1-eth2 root handle 1: netem delay 20ms", "h1 ping -c 4 h2"],
        check: Check::Rtt { ms: 20.0 },
        learnt: "The very first ping takes about 40 ms: before it, ARP crosses the delayed direction too. The \
                 others take 20 ms, since the way back has no delay.",
    },
    Step {
        title: "Rate",
        why: "Limit the same port to 10 Gb/s, with a queue of 25,000,000 bytes.",
        commands: &[
            "sudo tc qdisc add dev s1-eth2 parent 1: handle 2: tbf rate 10gbit burst 5000000 limit 25000000",
            "tc -s qdisc show dev s1-eth2",
        ],
        check: Check::Port {
            port: "s1-eth2",
            parameters: &["rate = \"10 Gb/s\"", "delay = \"20 ms\"", "queue = \"25 MB\""],
        },
        learnt: "Compute the bandwidth-delay product of 10 Gb/s x 20 ms in bytes; `longfat bdp 10gbit 20ms`, \
                 in another terminal, has the answer.",
    },
    Step {
        title: "Buffers of the sheet's start",
        why: "Allow at most 16 MiB for the receive and send buffers of both hosts. A host's settings are \
              its own.",
        commands: &[
            "h1 sysctl -w net.ipv4.tcp_rmem='10240 87380 16777216' net.ipv4.tcp_wmem='10240 87380 \
            16777216'",
            "h2 sysctl -w net.ipv4.tcp_rmem='10240 87380 16777216' net.ipv4.tcp_wmem='10240 87380 \
            16777216'",
        ],
        check: Check::Buffers { max: 16_777_216 },
        learnt: "16 MiB are less than the bandwidth-delay product of 25,000,000 bytes, so the window will \
                 limit the transfer.",
    },
    Step {
        title: "Throughput with small buffers",
        why: "Measure TCP's throughput. The sheet finds about 3 Gb/s.",
        commands: &["iperf h1 h2 -t 10"],
        check: Check::Throughput { published: "L8-default", gbps: 3.0, options: &[] },
        learnt: "Half of the 16 MiB buffer is the window in the kernels of 2019: 8 MiB / 20 ms = 3.4 Gb/s. \
                 From Linux 6.6 on the window is more of the buffer (scaling_ratio, learnt from the \
                 packets), so the same settings give 4 to 5 Gb/s.",
    },
    Step {
        title: "Buffers of twice the bandwidth-delay product",
        why: "2 x 25 MiB = 52,428,800 bytes: half of it is a window of one bandwidth-delay product. \
              `longfat bdp 10gbit 20ms` explains the figures.",
        commands: &[
            "h1 sysctl -w net.ipv4.tcp_rmem='10240 87380 52428800' net.ipv4.tcp_wmem='10240 87380 \
            52428800'",
            "h2 sysctl -w net.ipv4.tcp_rmem='10240 87380 52428800' net.ipv4.tcp_wmem='10240 87380 \
            52428800'",
        ],
        check: Check::Buffers { max: 52_428_800 },
        learnt: "From Linux 6.6 on less than twice the product is enough, but more does no harm here.",
    },
    Step {
        title: "Throughput with large buffers",
        why: "Measure again. The sheet finds about 10 Gb/s.",
        commands: &["iperf h1 h2 -t 10"],
        check: Check::Throughput { published: "L8-tuned", gbps: 10.0, options: &[] },
        learnt: "At most 9.56 Gb/s are payload: tbf counts 14 bytes of Ethernet header for each packet of \
                 1500 bytes.",
    },
];

const LAB13: [Step; 5] = [
    Step {
        title: "Loss",
        why: "h1 - s1 - s2 - h2 is up. Let port s1-eth2 lose 1 % of packets.",
        commands: &["sudo tc qdisc add dev s1-eth2 root handle 1: netem loss 1%"],
        check: Check::Port { port: "s1-eth2", parameters: &["loss = "] },
        learnt: "netem drops 1 % of super-packets: a host with segmentation offload gives it up to 64 KiB \
                 at a time. At MTU 1500 that is one loss in some 4400 segments, not one in 100.",
    },
    Step {
        title: "Rate",
        why: "Limit the same port to 10 Gb/s, with a queue of 15,000,000 bytes.",
        commands: &[
            "sudo tc qdisc add dev s1-eth2 parent 1: handle 2: tbf rate 10gbit burst 5000000 limit 15000000",
        ],
        check: Check::Port {
            port: "s1-eth2",
            parameters: &["rate = \"10 Gb/s\"", "queue = \"15 MB\"", "loss = "],
        },
        learnt: "tc qdisc show dev s1-eth2 lists both qdiscs.",
    },
    Step {
        title: "Throughput at MTU 1500",
        why: "Measure TCP's throughput with segments of 1448 bytes. The sheet finds about 7.99 Gb/s.",
        commands: &["iperf h1 h2 -t 10"],
        check: Check::Throughput { published: "L13-1500", gbps: 7.99, options: &[] },
        learnt: "After each loss TCP recovers by about one segment per round trip: small segments recover \
                 slowly.",
    },
    Step {
        title: "Jumbo frames",
        why: "Raise the MTU of both hosts and of all four ports of the switches to 9000.",
        commands: &[
            "h1 ip link set dev h1-eth0 mtu 9000",
            "h2 ip link set dev h2-eth0 mtu 9000",
            "ifconfig s1-eth1 mtu 9000",
            "ifconfig s1-eth2 mtu 9000",
            "ifconfig s2-eth1 mtu 9000",
            "ifconfig s2-eth2 mtu 9000",
            "h1 ping -M do -s 8972 -c 2 h2",
        ],
        check: Check::PacketSize { bytes: 9000 },
        learnt: "8972 bytes of ping, 8 of ICMP and 20 of IP are 9000. One port at 1500 is enough to drop \
                 them.",
    },
    Step {
        title: "Throughput at MTU 9000",
        why: "Measure again. The sheet finds about 10 Gb/s.",
        commands: &["iperf h1 h2 -t 10 -M 9000"],
        check: Check::Throughput { published: "L13-9000", gbps: 10.0, options: &["-M", "9000"] },
        learnt: "Segments six times larger recover six times faster. A real path loses segments one by \
                 one: `longfat run lab13` compares both kinds of loss (variants as-in-lab \
                 and real-path).",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_network_is_a_valid_scenario_and_the_sheets_have_names() {
        scenario::ScenarioFile::parse("lab8.toml", NETWORK).unwrap().resolve(None, &[]).unwrap();
        assert!(find("lab8").is_some() && find("lab13").is_some() && find("lab9").is_none());
    }
}
