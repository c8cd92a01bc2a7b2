//! The options `-4` and `-6`.

use clap::Args;
use iperf3::IpVersion;

/// The options `-4` and `-6`.
#[derive(Debug, Clone, Copy, Args)]
pub struct IpVersionArgs {
    /// Use IPv4 only
    #[arg(short = '4', long, conflicts_with = "version6")]
    version4: bool,
    /// Use IPv6 only
    #[arg(short = '6', long)]
    version6: bool,
}

impl IpVersionArgs {
    /// The IP version that they require.
    pub fn required(self) -> Option<IpVersion> {
        match (self.version4, self.version6) {
            (true, _) => Some(IpVersion::V4),
            (_, true) => Some(IpVersion::V6),
            _ => None,
        }
    }
}
