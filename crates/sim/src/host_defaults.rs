//! Settings of simulated hosts that the scenario does not state.

use net::{Node, Station};
use scenario::{Host, Scenario};
use tcp::{PacketMemory, Profile};
use units::Time;

use crate::neighbours::WaitingLimit;

/// The place at which super-packets (GSO) are segmented.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Segmentation {
    /// Nowhere: they cross the network whole and reach the receiver's TCP whole, as in the lab.
    #[default]
    Whole,
    /// By the sending host before its device: network and receiver process single segments, as without
    /// offloads.
    Host,
}

/// The kernel that hosts simulate and the settings that a real host has from its machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostDefaults {
    /// Major and minor version of Linux on hosts for which the scenario states no version: 2.4, or 5.0 and
    /// later.
    pub kernel: (u8, u8),
    /// Timer ticks a second (`CONFIG_HZ`).
    pub hz: u32,
    /// `net.ipv4.tcp_rmem`, bytes.
    pub rmem: [u32; 3],
    /// `net.ipv4.tcp_wmem`, bytes.
    pub wmem: [u32; 3],
    /// `net.core.rmem_max`, bytes.
    pub rmem_max: u32,
    /// `net.core.wmem_max`, bytes.
    pub wmem_max: u32,
    /// The place at which super-packets are segmented, unless the host states `segmentation = "software"`.
    pub segmentation: Segmentation,
    /// How devices allocate the memory of received packets, which the receive buffer is charged for. Not for
    /// Linux 2.4.
    pub packet_memory: PacketMemory,
    /// Longest time from a segment's arrival until the host's TCP processes it, unless the host has a
    /// `receive_jitter`; times are uniformly distributed from 0. Without it flows synchronize with their own
    /// queues, and the same packets are dropped in every cycle: phase effects, which real hosts break up
    /// (Floyd and Jacobson, On Traffic Phase Effects in Packet-Switched Gateways, 1992).
    pub receive_jitter: Time,
}

impl HostDefaults {
    /// Major and minor version of Linux on a host.
    pub fn kernel_of(&self, host: &Host) -> (u8, u8) {
        host.kernel.unwrap_or(self.kernel)
    }

    /// The quantity that limits the packets of a host that wait for an address.
    pub(crate) fn waiting_limit(&self, host: &Host) -> WaitingLimit {
        if self.kernel_of(host) < (2, 6) { WaitingLimit::Packets } else { WaitingLimit::Memory }
    }

    /// Longest random delay until a host's TCP processes a received segment.
    pub(crate) fn receive_jitter_of(&self, host: &Host) -> Time {
        host.receive_jitter.unwrap_or(self.receive_jitter)
    }

    /// Maximum number of segments that a host's device merges (GRO). Linux 2.4 merges none.
    pub(crate) fn max_gro_segs(&self, host: &Host) -> u32 {
        match self.kernel_of(host) < (2, 6) {
            true => 1,
            false => host.nic.gro.unwrap_or(u32::MAX).max(1),
        }
    }

    /// For each station whether its host segments super-packets before its device; empty if no host does.
    pub(crate) fn segmenting_stations(&self, scenario: &Scenario, stations: &[Station]) -> Vec<bool> {
        let segments = |host: &Host| self.segmentation == Segmentation::Host || host.nic.software_gso;
        let segmenting = stations.iter().map(|station| match station.node {
            Node::Host(host) => segments(&scenario.hosts[host as usize]),
            _ => false,
        });
        let segmenting: Vec<bool> = segmenting.collect();
        if segmenting.contains(&true) { segmenting } else { Vec::new() }
    }

    /// Timer ticks a second of a host: always 100 in Linux 2.4.
    pub fn hz_of(&self, host: &Host) -> u32 {
        match Profile::of_kernel(self.kernel_of(host).0, self.kernel_of(host).1) {
            Some(Profile::Linux24) => tcp::Config::linux24().hz,
            _ => host.hz.unwrap_or(self.hz),
        }
    }
}

impl Default for HostDefaults {
    /// Linux 6.18 at 250 ticks a second, with the default buffers of a machine with 8 GB of memory or more.
    fn default() -> Self {
        let tcp = tcp::Config::default();
        HostDefaults {
            kernel: (6, 18),
            hz: tcp.hz,
            rmem: tcp.rmem,
            wmem: tcp.wmem,
            rmem_max: tcp.rmem_max,
            wmem_max: tcp.wmem_max,
            segmentation: Segmentation::Whole,
            packet_memory: PacketMemory::Tap,
            receive_jitter: Time::from_nanos(2_000),
        }
    }
}
