//! The path MTU of a probe session.
//!
//! Routers' ICMP messages are verified by trying, and a size without a reply counts as too large (RFC 8899),
//! so black holes are found. Only the forward path counts: the server reports which packets arrived.

use std::sync::atomic::AtomicBool;

use probe::{MtuOutcome, MtuResult, MtuSearch, Train};
use traffic::{Attempted, ancillary, path_mtu::forbid_fragments};
use units::Time;

use super::{Error, client::Session};

/// The first size, which should pass everywhere: RFC 1122 section 3.3.3, RFC 8200 section 5.
const BASE: (u32, u32) = (576, 1280);
/// Number of packets of each size, so that random losses seldom matter, and their spacing, ns.
const PACKETS: u64 = 2;
const GAP_NS: u64 = 1_000_000;

impl Session {
    /// Finds the path MTU, at most `max` bytes of IP.
    pub(super) fn discover_mtu(&mut self, max: u32, stop: &AtomicBool) -> Result<MtuResult, Error> {
        let v4 = self.peer().is_ipv4();
        forbid_fragments(&self.socket, v4)?;
        let what = || "enable reports of ICMP errors".to_string();
        ancillary::set_error_reports(&self.socket, v4, true).attempted(what)?;
        let mut search = MtuSearch::between(if v4 { BASE.0 } else { BASE.1 }, max);
        while let Some(bytes) = search.next_size() {
            let train = Train { bytes, offsets_ns: (0..PACKETS).map(|number| number * GAP_NS).collect() };
            let number = self.trains;
            let sent = self.send(&train, Time::ZERO, stop)?;
            let arrived = self.report(number, sent, bytes, stop)?.received().next().is_some();
            let too_big = self.smallest_reported_mtu()?;
            search.add_outcome(match (arrived, too_big) {
                (true, _) => MtuOutcome::Replied,
                (false, Some(smallest)) => MtuOutcome::TooBig(smallest),
                (false, None) => MtuOutcome::NoReply,
            });
        }
        ancillary::set_error_reports(&self.socket, v4, false).attempted(what)?;
        Ok(search.result())
    }

    /// The smallest MTU that routers have reported since the last call.
    fn smallest_reported_mtu(&self) -> Result<Option<u32>, Error> {
        let mut smallest: Option<u32> = None;
        let mut buffer = [0; 64];
        loop {
            match ancillary::receive_with_ancillary(
                &self.socket,
                &mut buffer,
                libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT,
            ) {
                Ok(report) => {
                    let too_big = report.error.filter(|error| error.errno as i32 == libc::EMSGSIZE);
                    smallest = too_big
                        .map(|error| smallest.map_or(error.info, |smallest| smallest.min(error.info)))
                        .or(smallest);
                }
                Err(e) if ancillary::is_transient(&e) => return Ok(smallest),
                Err(e) => return Err(e).attempted(|| "read the ICMP errors of a packet".into())?,
            }
        }
    }
}
