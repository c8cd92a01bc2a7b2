//! IPv4 or IPv6.

/// A version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IpVersion {
    /// 32-bit addresses.
    V4,
    /// 128-bit addresses.
    V6,
}
