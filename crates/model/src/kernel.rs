//! Differences between Linux versions.

use units::{Bytes, KernelVersion};

/// The first kernel that derives the receive window's share of the buffer from received packets
/// (`scaling_ratio`).
pub const SCALING_RATIO_SINCE: KernelVersion = KernelVersion::new(6, 6);

/// A kernel's default limits of socket buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferDefaults {
    /// `net.ipv4.tcp_rmem`, third value: the limit of the receive buffer's autotuning.
    pub tcp_rmem_max: Bytes,
    /// `net.ipv4.tcp_wmem`, third value: the limit of the send buffer's autotuning.
    pub tcp_wmem_max: Bytes,
}

/// The default buffer limits of a machine with some gigabytes of memory.
///
/// Source: `tcp_init` (net/ipv4/tcp.c); 32 MiB read on 6.18, 6 MiB on 6.1. The change came in 6.16.
pub fn buffer_defaults(kernel: KernelVersion) -> BufferDefaults {
    let receive = if kernel >= KernelVersion::new(6, 16) { 32 << 20 } else { 6 << 20 };
    BufferDefaults { tcp_rmem_max: Bytes(receive), tcp_wmem_max: Bytes(4 << 20) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_kernels_have_larger_default_limits() {
        assert_eq!(buffer_defaults(KernelVersion::new(6, 1)).tcp_rmem_max, Bytes(6_291_456));
        assert_eq!(buffer_defaults(KernelVersion::new(6, 18)).tcp_rmem_max, Bytes(33_554_432));
    }
}
