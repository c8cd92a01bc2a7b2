//! What limited a transfer, named for the user.

use std::fmt;

use schema::{Cause, FlowSample, FlowSummary, Limited};
use serde::Serialize;
use verdict::{FileWait, FlowContext, busiest_load, main_file_wait};

use super::context::SENDER_LOADS;

/// The busiest thread explains a limit of the hosts' processors if it was busy for at least this share of the
/// time.
const MIN_BUSY_SHARE: f64 = 0.5;

/// What limited a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TransferLimit {
    /// The sender waited for its files.
    SenderDisk,
    /// The receiver waited until its files were written.
    ReceiverDisk,
    /// The sender waited for replies about many files.
    Replies,
    /// A thread of the sender was busy all the time.
    SenderProcessor,
    /// A thread of the receiver was busy all the time.
    ReceiverProcessor,
    /// The processors of one end or both.
    Processors,
    /// The path was full.
    PathRate,
    /// Losses, and the rate control's reaction to them.
    Losses,
    /// Congestion marks.
    EcnMarks,
    /// The sending host's own device dropped packets.
    SenderDevice,
    /// The receiver's buffer.
    ReceiveWindow,
    /// The sender's socket buffer.
    SendBuffer,
    /// `--rate`.
    RequestedRate,
    /// The transport's rate control had not yet reached the rate of the path.
    RateControl,
}

impl fmt::Display for TransferLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TransferLimit::SenderDisk => "the sender's disk",
            TransferLimit::ReceiverDisk => "the receiver's disk",
            TransferLimit::Replies => "the receiver's replies about many files",
            TransferLimit::SenderProcessor => "the sender's processor",
            TransferLimit::ReceiverProcessor => "the receiver's processor",
            TransferLimit::Processors => "the hosts' processors",
            TransferLimit::PathRate => "the path's rate",
            TransferLimit::Losses => "losses",
            TransferLimit::EcnMarks => "congestion marks (ECN)",
            TransferLimit::SenderDevice => "drops at the sender's own device",
            TransferLimit::ReceiveWindow => "the receiver's window",
            TransferLimit::SendBuffer => "the sender's socket buffer",
            TransferLimit::RequestedRate => "the requested rate (--rate)",
            TransferLimit::RateControl => "the start of the transport's rate control",
        })
    }
}

/// What limited most of the streams.
pub(super) fn limit(
    flows: &[FlowSummary],
    contexts: &[FlowContext],
    rows: &[FlowSample],
) -> Option<TransferLimit> {
    let verdicts: Vec<Limited> = flows
        .iter()
        .map(|flow| {
            let mut limited = Limited::default();
            if let Some(cause) = flow.verdict {
                *limited.share_mut(cause) = 1.0;
            }
            limited
        })
        .collect();
    let cause = Limited::mean(&verdicts).largest()?;
    let index = flows.iter().position(|flow| flow.verdict == Some(cause))?;
    let context = &contexts[index];
    Some(match cause {
        Cause::Application => match main_file_wait(rows, context) {
            Some(FileWait::Writing) => TransferLimit::ReceiverDisk,
            Some(FileWait::Replies) => TransferLimit::Replies,
            Some(FileWait::Reading) | None => TransferLimit::SenderDisk,
        },
        Cause::HostCpu => busiest_processor(context, rows),
        Cause::PathRate => TransferLimit::PathRate,
        Cause::Loss => TransferLimit::Losses,
        Cause::EcnMarks => TransferLimit::EcnMarks,
        Cause::LocalQueue => TransferLimit::SenderDevice,
        Cause::ReceiveWindow => TransferLimit::ReceiveWindow,
        Cause::SendBuffer => TransferLimit::SendBuffer,
        Cause::Pacing => TransferLimit::RequestedRate,
        Cause::SlowStart => TransferLimit::RateControl,
    })
}

fn busiest_processor(context: &FlowContext, rows: &[FlowSample]) -> TransferLimit {
    let span = rows.first().zip(rows.last());
    let busiest = span.and_then(|(first, last)| busiest_load(context, first.time_us, last.time_us));
    match busiest.filter(|(_, share)| *share >= MIN_BUSY_SHARE) {
        Some((load, _)) => {
            let index = context.host_loads.iter().position(|one| std::ptr::eq(one, load));
            match index.is_some_and(|index| index < SENDER_LOADS) {
                true => TransferLimit::SenderProcessor,
                false => TransferLimit::ReceiverProcessor,
            }
        }
        None => TransferLimit::Processors,
    }
}

#[cfg(test)]
mod tests {
    use schema::FlowKind;
    use transfer::{Session, Transport};
    use units::BitRate;

    use super::*;
    use crate::file_transfer::tests::{activity, judged, sender_rows, session};

    #[test]
    fn the_disk_or_processor_of_either_end_is_named_at_both_ends() {
        let tcp = session(true, Transport::Tcp, 1);
        let quiet = || activity(0.0, 0.0, 0.1);
        let found = |ends| judged(&tcp, &sender_rows(1, |_| {}), ends);
        let (limit, run) = found([activity(0.9, 0.0, 0.3), quiet()]);
        assert_eq!(limit, TransferLimit::SenderDisk);
        let flow = &run.flows[0];
        assert_eq!((flow.verdict, flow.to.as_str()), (Some(Cause::Application), "far"));
        assert!(flow.evidence[0].contains("until its file was read from the disk of 192.0.2.1"), "{flow:?}");
        assert!(flow.evidence.iter().any(|text| text.contains("waited 90 % of the time")), "{flow:?}");
        assert_eq!(found([activity(0.0, 0.0, 0.1), activity(0.8, 0.0, 0.3)]).0, TransferLimit::ReceiverDisk);
        // A wait for a reply is a limit only if no data is in flight.
        let waiting = [activity(0.0, 0.9, 0.1), quiet()];
        assert_ne!(found(waiting.clone()).0, TransferLimit::Replies);
        let without_data = sender_rows(1, |row| row.unacked_segs = Some(0));
        assert_eq!(judged(&tcp, &without_data, waiting).0, TransferLimit::Replies);
        assert_eq!(found([activity(0.9, 0.0, 0.99), quiet()]).0, TransferLimit::SenderProcessor);
        let (limit, run) = found([quiet(), activity(0.9, 0.0, 0.99)]);
        assert_eq!(limit, TransferLimit::ReceiverProcessor);
        assert!(
            run.flows[0].evidence[0].contains("writes and hashes files on far"),
            "{:?}",
            run.flows[0].evidence
        );
    }

    #[test]
    fn limits_of_the_transport_are_named_as_in_a_test() {
        let quiet = || [activity(0.0, 0.0, 0.1), activity(0.0, 0.0, 0.1)];
        let tcp = session(true, Transport::Tcp, 1);
        let window = |row: &mut FlowSample| row.snd_wnd_bytes = Some(100 * 1448);
        assert_eq!(judged(&tcp, &sender_rows(1, window), quiet()).0, TransferLimit::ReceiveWindow);
        let lost = |row: &mut FlowSample| {
            row.snd_cwnd_segs = Some(100);
            row.total_retrans_segs = Some(row.time_us / 100_000);
        };
        assert_eq!(judged(&tcp, &sender_rows(1, lost), quiet()).0, TransferLimit::Losses);
        // UDT at 100 Mb/s with its headers has 96.5 Mb/s of payload.
        let udt = Session { rate: Some(BitRate(100_000_000)), ..session(true, Transport::Udt, 1) };
        let paced = |row: &mut FlowSample| row.pacing_rate_bps = Some(96_500_000);
        let (limit, run) = judged(&udt, &sender_rows(1, paced), quiet());
        assert_eq!((limit, &run.flows[0].kind), (TransferLimit::RequestedRate, &FlowKind::Udt));
        let slow = |row: &mut FlowSample| {
            row.pacing_rate_bps = Some(20_000_000);
            row.total_retrans_segs = Some(row.time_us / 100_000);
        };
        let (limit, run) = judged(&udt, &sender_rows(1, slow), quiet());
        assert_eq!(limit, TransferLimit::Losses);
        assert!(
            run.flows[0].remedy.as_ref().unwrap().contains("--tolerate-loss"),
            "{:?}",
            run.flows[0].remedy
        );
    }
}
