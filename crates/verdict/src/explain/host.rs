//! Hosts that do not keep up, in words.

use schema::{Cause, FlowSample};

use super::{Explanation, Facts};
use crate::{FlowContext, HostLoad, LoadKind};

/// The remedy for a full bus, which each byte crosses once.
const FASTER_BUS: &str = "a faster bus: a card in a wider or faster slot";
/// The remedy for a busy thread of a file transfer.
const FASTER_THREAD: &str = "end other programs on that host, or use a faster processor; transfers of several files at the same time use \
                             several processors";
/// The remedy for a busy host of unknown cause.
pub(super) const LESS_WORK: &str = "end other programs on the busier host; fewer packets for the same bytes (an MTU of 9000, TSO and GRO: \
                         longfat tune checks them); several streams, which use several processors";
/// The remedy for a high cost per byte.
const FEWER_PACKETS: &str = "larger frames (mtu), super-packets (tso, gro) or moderated interrupts \
                             (rx_delay, tx_delay): fewer packets and interrupts for the same bytes";

pub(super) fn host_cpu(facts: &Facts, rows: &[&FlowSample], context: &FlowContext) -> Explanation {
    let limited = || rows.iter().filter(|row| row.limited_by == Some(Cause::HostCpu));
    if let Some((load, share)) = busiest_host(rows, context) {
        let evidence =
            format!("{} the {} was busy {:.0} % of the time", facts.share, load.name, share * 100.0);
        let remedy = match load.kind {
            LoadKind::Processor => FEWER_PACKETS,
            LoadKind::Bus => FASTER_BUS,
            LoadKind::Thread => FASTER_THREAD,
        };
        return Explanation {
            evidence: vec![evidence],
            remedy: Some(remedy.into()),
            ..Explanation::default()
        };
    }
    let window = |row: &FlowSample| row.snd_wnd_bytes.unwrap_or(i64::MAX);
    let unread = limited().filter(|row| row.rcv_queue_bytes.unwrap_or(0) > window(row) / 2).count();
    let starved = limited().filter(|row| row.notsent_bytes == Some(0)).count();
    let waiting = limited().count().saturating_sub(unread + starved);
    let why = if unread > starved.max(waiting) {
        format!("the reader on {} left data unread although it never pauses", context.to)
    } else if starved > waiting {
        format!("the sender on {} had nothing left to send although its writer never pauses", context.from)
    } else {
        "data waited although no window, buffer or pacing limited it".into()
    };
    let mut evidence = vec![format!("{} {why}: the hosts did not keep up", facts.share)];
    evidence.extend(context.host_use.iter().cloned());
    Explanation { evidence, remedy: Some(LESS_WORK.into()), ..Explanation::default() }
}

/// The processor or bus that was busy for the largest share of the samples' time, and that share.
pub(super) fn busiest_host<'a>(
    rows: &[&FlowSample],
    context: &'a FlowContext,
) -> Option<(&'a HostLoad, f64)> {
    busiest_load(context, rows.first()?.time_us, rows.last()?.time_us)
}

/// The load that was busy for the largest share of the time between two instants, and that share.
pub fn busiest_load(context: &FlowContext, from: i64, to: i64) -> Option<(&HostLoad, f64)> {
    let shares = context.host_loads.iter();
    let shares = shares.filter_map(|load| Some((load, load.series().rate(from, to)? * 1e-6)));
    shares.max_by(|a, b| a.1.total_cmp(&b.1))
}
