//! The benchmark's simulations: one cubic flow over one queue.

/// A simulation.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    pub name: &'static str,
    rate: &'static str,
    /// One-way delay; ACKs return without delay.
    delay: &'static str,
    mtu: u32,
    queue: &'static str,
    /// Whether the sender uses super-packets.
    gso: Gso,
    /// Largest size of the socket buffers, bytes.
    buffer: u64,
    ms: u32,
}

/// The packets that the sender passes to its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gso {
    SuperPackets,
    SingleSegments,
}

use Gso::{SingleSegments, SuperPackets};

/// Rate, delay, MTU, queue, buffers.
type Path = (&'static str, &'static str, u32, &'static str, u64);

const fn case(name: &'static str, path: Path, gso: Gso, ms: u32) -> Case {
    let (rate, delay, mtu, queue, buffer) = path;
    Case { name, rate, delay, mtu, queue, gso, buffer, ms }
}

/// Without losses: the buffers limit the window to the BDP or little more.
const JUMBO: Path = ("1gbit", "117ms", 9012, "100MB", 40_000_000);
/// MSS 1460; slow start ends with the loss of half a window.
const OVERSHOOT: Path = ("1gbit", "100ms", 1512, "4000p", AMPLE_BUFFER);
/// Paths with BDPs of 1,600 and of 200,000 packets, without and with loss.
const SHORT: Path = ("1gbit", "19.2ms", 1512, "100MB", 6_400_000);
const LONG: Path = ("10gbit", "240ms", 1512, "1GB", 800_000_000);
const SHORT_LOSSY: Path = ("1gbit", "19.2ms", 1512, "800p", AMPLE_BUFFER);
const LONG_LOSSY: Path = ("10gbit", "240ms", 1512, "100000p", AMPLE_BUFFER);

/// Buffers large enough not to limit the flow.
const AMPLE_BUFFER: u64 = 1_000_000_000;

pub const ALL: [Case; 9] = [
    case("loss-free", JUMBO, SuperPackets, 300_000),
    case("loss-free-single", JUMBO, SingleSegments, 100_000),
    case("recovery", OVERSHOOT, SuperPackets, 8_000),
    case("recovery-single", OVERSHOOT, SingleSegments, 8_000),
    case("window-1600", SHORT, SingleSegments, 20_000),
    case("window-200000", LONG, SingleSegments, 20_000),
    case("window-200000-super", LONG, SuperPackets, 20_000),
    case("recovery-1600", SHORT_LOSSY, SingleSegments, 20_000),
    case("recovery-200000", LONG_LOSSY, SingleSegments, 20_000),
];

impl Case {
    /// The case with this name.
    pub fn named(name: &str) -> Option<Case> {
        ALL.into_iter().find(|case| case.name == name)
    }

    /// Duration, ms of virtual time.
    pub fn ms(&self) -> u32 {
        self.ms
    }

    /// This case with other buffers.
    pub fn with_buffer(self, buffer: u64) -> Case {
        Case { buffer, ..self }
    }

    /// This case with another duration.
    pub fn lasting(self, ms: u32) -> Case {
        Case { ms, ..self }
    }

    /// The scenario's text, with this sample interval.
    pub fn text(&self, sample_ms: u32) -> String {
        let &Case { rate, delay, mtu, queue, gso, buffer, ms, .. } = self;
        let gso = if gso == SuperPackets { "65535B".to_owned() } else { format!("{mtu}B") };
        let first = buffer.min(131_072);
        format!(
            r#"
duration = "{ms}ms"
sample = "{sample_ms}ms"
[hosts."*"]
mtu = {mtu}
nic = {{ gso = "{gso}" }}
sysctl = {{ "net.ipv4.tcp_rmem" = "4096 {first} {buffer}", "net.ipv4.tcp_wmem" = "4096 16384 {buffer}" }}
[hosts.h1]
address = "10.0.0.1/24"
[hosts.h2]
address = "10.0.0.2/24"
[switches]
names = ["s1"]
[[links]]
ends = ["h1", "s1"]
[[links]]
ends = ["s1", "h2"]
forward = {{ rate = "{rate}", delay = "{delay}", queue = "{queue}" }}
[[flows]]
name = "f"
from = "h1"
to = "h2"
cc = "cubic"
"#
        )
    }
}
