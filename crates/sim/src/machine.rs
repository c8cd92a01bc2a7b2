//! What all hosts of a simulation share: the kernel whose behaviour they have, and what they inherit from their machine.

use scenario::Host;
use tcp::{PacketMemory, Profile};
use units::Time;

/// Where super-packets are split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Segmentation {
    /// Nowhere: they cross the network whole and reach the receiver's TCP whole, as in the lab.
    #[default]
    Whole,
    /// By the sender's host on their way out: the network and the receiver see single segments, as without offloads.
    Host,
}

/// Settings that a scenario leaves to the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Major and minor version of the Linux that hosts have which name none: 2.4, or from 5.0 on.
    pub kernel: (u8, u8),
    /// Timer ticks a second.
    pub hz: u32,
    /// `net.ipv4.tcp_rmem`, bytes.
    pub rmem: [u32; 3],
    /// `net.ipv4.tcp_wmem`, bytes.
    pub wmem: [u32; 3],
    /// `net.core.rmem_max`, bytes.
    pub rmem_max: u32,
    /// `net.core.wmem_max`, bytes.
    pub wmem_max: u32,
    /// Where super-packets are split.
    pub segmentation: Segmentation,
    /// Where hosts' devices put what they receive (not with Linux 2.4).
    pub packet_memory: PacketMemory,
    /// A host's TCP looks at a segment so much later at most than it came (uniformly distributed). Without it flows fall in step
    /// with their own queues, and which packet is dropped repeats for ever: phase effects, which real hosts break (Floyd
    /// and Jacobson, On Traffic Phase Effects in Packet-Switched Gateways, 1992).
    pub handling: Time,
}

impl Machine {
    /// Major and minor version of the Linux that a host has.
    pub fn kernel_of(&self, host: &Host) -> (u8, u8) {
        host.kernel.unwrap_or(self.kernel)
    }

    /// Timer ticks a second of a host: 100 in Linux 2.4.
    pub fn hz_of(&self, host: &Host) -> u32 {
        match Profile::of_kernel(self.kernel_of(host).0, self.kernel_of(host).1) {
            Some(Profile::Linux24) => tcp::Config::linux24().hz,
            _ => self.hz,
        }
    }
}

impl Default for Machine {
    /// Linux 6.18 at 250 ticks a second with the buffers of a machine of 8 GB and more.
    fn default() -> Self {
        let tcp = tcp::Config::default();
        Machine {
            kernel: (6, 18),
            hz: tcp.hz,
            rmem: tcp.rmem,
            wmem: tcp.wmem,
            rmem_max: tcp.rmem_max,
            wmem_max: tcp.wmem_max,
            segmentation: Segmentation::Whole,
            packet_memory: PacketMemory::Tap,
            handling: Time(2_000),
        }
    }
}
