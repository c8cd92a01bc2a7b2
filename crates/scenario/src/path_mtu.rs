//! The path MTU of a flow: the MTU that routers report to the sender, or a link that drops larger packets
//! without a report (a black hole, RFC 2923).

use crate::types::{FlowKind, FlowSpec, Scenario};

/// The smallest path MTU that hosts accept over IPv6 (RFC 8200 section 5).
const MIN_MTU_V6: u32 = 1280;
/// Bytes of a TCP header without options.
const TCP_HEADER: u32 = 20;
/// Bytes of a UDP or ICMP header.
const SMALL_HEADER: u32 = 8;
/// Bytes of the header of a real-time stream's packets.
const STREAM_HEADER: u32 = 8;
/// Bytes of the header of Tsunami's datagrams.
const TSUNAMI_HEADER: u32 = 6;

/// The path MTU, from the links' state at the run's start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathMtu {
    /// IP bytes of the largest packets after path MTU discovery.
    pub mtu: u32,
    /// A link that drops packets of this size without a report.
    pub black_hole: Option<BlackHole>,
}

/// A link that drops large packets without a report to their sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlackHole {
    /// The link's name.
    pub link: String,
    /// Its MTU, bytes of IP.
    pub mtu: u32,
    /// The switch or host that drops them.
    pub at: String,
}

impl BlackHole {
    /// How packets of `bytes` are treated, in one sentence.
    pub fn sentence(&self, bytes: u32) -> String {
        let BlackHole { link, mtu, at } = self;
        format!(
            "packets of {bytes} bytes do not fit link {link} (MTU {mtu}): {at} drops them and reports nothing (an MTU black hole)"
        )
    }
}

impl Scenario {
    /// The path MTU for a flow's largest packets; `None` without a path.
    pub fn path_mtu(&self, flow: &FlowSpec) -> Option<PathMtu> {
        let (own, _) = self.flow_addresses(flow)?;
        let ip_header = if own.is_ipv4() { 20 } else { 40 };
        let (from, to) = (self.host(&flow.from)?, self.host(&flow.to)?);
        let bytes = |payload: units::Bytes| u32::try_from(payload.0).unwrap_or(u32::MAX);
        let mtu = match &flow.kind {
            // Both ends announce an MSS for their own interfaces.
            FlowKind::Tcp(tcp) => {
                let max = from.mtu.min(to.mtu);
                tcp.mss.map_or(max, |mss| max.min(mss.saturating_add(ip_header + TCP_HEADER)))
            }
            FlowKind::Xcp(_) | FlowKind::Udt(_) | FlowKind::Quic(_) => from.mtu.min(to.mtu),
            FlowKind::Stream(stream) => {
                let max = from.mtu.min(to.mtu);
                stream.packet.map_or(max, |packet| {
                    max.min(bytes(packet).saturating_add(ip_header + SMALL_HEADER + STREAM_HEADER))
                })
            }
            FlowKind::Tsunami(tsunami) => {
                let max = from.mtu.min(to.mtu);
                tsunami.block.map_or(max, |block| {
                    max.min(bytes(block).saturating_add(ip_header + SMALL_HEADER + TSUNAMI_HEADER))
                })
            }
            FlowKind::Udp(udp) => udp.packet.map_or(from.mtu, |packet| {
                from.mtu.min(bytes(packet).saturating_add(ip_header + SMALL_HEADER))
            }),
            FlowKind::Ping(ping) => {
                from.mtu.min(bytes(ping.payload).saturating_add(ip_header + SMALL_HEADER))
            }
        };
        self.path_mtu_from(flow, mtu)
    }

    /// The path MTU for packets of a flow with `bytes` IP bytes; `None` without a path.
    pub fn path_mtu_from(&self, flow: &FlowSpec, bytes: u32) -> Option<PathMtu> {
        let (own, _) = self.flow_addresses(flow)?;
        let mut mtu = bytes;
        for hop in self.path(&flow.from, &flow.to)? {
            let link = &self.links[hop.link];
            let Some(limit) = link.pipe(hop.direction).mtu.filter(|limit| *limit < mtu) else { continue };
            let at = link.sender(hop.direction);
            let reports = self.routers.iter().any(|router| router.name == at);
            if !reports || own.is_ipv6() && limit < MIN_MTU_V6 {
                let black_hole = BlackHole { link: link.name.clone(), mtu: limit, at: at.to_owned() };
                return Some(PathMtu { mtu, black_hole: Some(black_hole) });
            }
            mtu = limit;
        }
        Some(PathMtu { mtu, black_hole: None })
    }
}
