//! The processing costs of a host's packets: processor time, interrupts, the bus; and calibrated presets.
//!
//! A preset is a round calibration, not a measurement of one machine. Its figures reproduce those of the
//! sources below, and `model::HostCost` gives the rates that follow from them.

use std::ops::RangeInclusive;

use units::{BitRate, Picoseconds, Time};

/// The processing costs of a packet at a host. The default is zero.
///
/// One processor handles all packets of the host, sent and received, in order. A packet costs `per_packet`
/// (a super-packet is one packet), `per_frame` for each of its segments, and `per_byte` for each IP byte.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostCost {
    /// Processor time of a packet; a super-packet is one.
    pub per_packet: Picoseconds,
    /// Processor time of each frame on the wire, in addition.
    pub per_frame: Picoseconds,
    /// Processor time of each byte of IP, in addition.
    pub per_byte: Picoseconds,
    /// Processor time of an interrupt.
    pub per_interrupt: Picoseconds,
    /// Moderation of the interrupts that announce received packets.
    pub rx: Moderation,
    /// Moderation of the interrupts that report sent packets.
    pub tx: Moderation,
    /// The bus between memory and card, which all packets cross in turn; `None` never limits.
    pub bus: Option<BitRate>,
    /// Received packets that may wait for the processor; `None` means no limit for TCP.
    pub rx_queue: Option<u32>,
}

/// Interrupt moderation (coalescing) of a network card: one interrupt for several packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moderation {
    /// Time from the first packet to the interrupt (`rx-usecs` of ethtool, `RxIntDelay` of e1000).
    pub delay: Time,
    /// Frames that cause the interrupt earlier (`rx-frames`); `None` means no limit.
    pub frames: Option<u32>,
}

/// A preset's name and its costs.
#[derive(Debug, Clone, Copy)]
pub struct CostPreset {
    /// The name in scenario files.
    pub name: &'static str,
    /// Its costs.
    pub cost: fn() -> HostCost,
}

/// The presets, the oldest first.
///
/// - `server-2003`: one processor of 1.4 GHz, a 64-bit bus at 66 MHz (4.2 Gb/s), an interrupt for each
///   packet (`TxIntDelay=0`), as Hirabaru's PowerEdge 1650, "not enough power". Calibrated so that 1500-byte
///   frames stay below 941 Mb/s of TCP with an interrupt each, reach it with moderated interrupts (the
///   source's tuned host), and 9000-byte frames fill a gigabit (Ravot: larger frames save processor cycles
///   per byte). These three cost 2.2, 1.4 and 0.8 cycles per bit, which is near the rule of one hertz per bit
///   a second that Foong and others, "TCP Performance Re-visited" (ISPASS 2003), examine for Linux 2.4.
/// - `server-10g`: a core of a common server with 10 Gb/s cards. With super-packets it carries 24 Gb/s of
///   1500-byte frames, without them less than 3 Gb/s: why such hosts need offloads or large frames.
/// - `server-100g`: a fast core, calibrated to the 42 Gb/s of one flow on one core with all optimizations
///   (TSO, GRO, 9000-byte frames, aRFS) that Cai and others, "Understanding Host Network Stack Overheads"
///   (SIGCOMM 2021), measure. There copying data dominates, so most of the cost is per byte.
pub const COST_PRESETS: &[CostPreset] = &[
    CostPreset {
        name: "server-2003",
        cost: || HostCost {
            per_packet: nanos(4000),
            per_byte: nanos(3),
            per_interrupt: nanos(5000),
            bus: Some(BitRate(4_200_000_000)),
            ..HostCost::default()
        },
    },
    CostPreset {
        name: "server-10g",
        cost: || HostCost {
            per_packet: nanos(2500),
            per_frame: nanos(50),
            per_byte: Picoseconds(200),
            per_interrupt: nanos(1500),
            rx: Moderation { delay: Time::from_nanos(50_000), frames: None },
            tx: Moderation { delay: Time::from_nanos(50_000), frames: None },
            // PCI Express 2.0 with 8 lanes.
            bus: Some(BitRate(32_000_000_000)),
            ..HostCost::default()
        },
    },
    CostPreset {
        name: "server-100g",
        cost: || HostCost {
            per_packet: nanos(1000),
            per_frame: nanos(50),
            per_byte: Picoseconds(140),
            per_interrupt: nanos(1000),
            rx: Moderation { delay: Time::from_nanos(20_000), frames: None },
            tx: Moderation { delay: Time::from_nanos(20_000), frames: None },
            // PCI Express 3.0 with 16 lanes.
            bus: Some(BitRate(126_000_000_000)),
            ..HostCost::default()
        },
    },
];

/// Longest interrupt delay: cards count it in 16 bits of about a microsecond.
pub(crate) const MAX_MODERATION: Time = Time::from_nanos(65_535 * 1_024);
/// Frames before an interrupt.
pub(crate) const MODERATION_FRAMES: RangeInclusive<u64> = 1..=65_535;
/// Longest cost of one packet, byte or interrupt: catches a wrong unit.
pub(crate) const MAX_COST: Picoseconds = Picoseconds(1_000_000_000_000);

const fn nanos(ns: u64) -> Picoseconds {
    Picoseconds(ns * 1000)
}
