//! The facts about a transfer that its samples do not have: buffers, the requested rate, threads, and waits
//! for files.

use iperf3::flow_name;
use schema::FlowSample;
use transfer::{ActivitySample, Session, Transport};
use verdict::{Buffer, FileWaits, FlowContext, Generator, HostLoad, LoadKind};

use super::{TransferRecorder, last};
use crate::test::{sending_device, tuned_buffer};

/// The option that requests a rate.
const RATE_OPTION: &str = "--rate";

impl TransferRecorder {
    pub(super) fn context(
        &self,
        session: &Session,
        name: &str,
        rows: &[FlowSample],
        activity: [&[ActivitySample]; 2],
        dropped_segs: u64,
    ) -> FlowContext {
        let is_tcp = session.transport == Transport::Tcp;
        let this_host = session.local.ip().to_canonical().to_string();
        let (from, to) =
            if session.is_sender { (this_host, self.peer.clone()) } else { (self.peer.clone(), this_host) };
        let buffer = |is_here: bool, sysctl| match is_tcp && is_here {
            true => tuned_buffer(sysctl),
            false => Buffer::Unknown,
        };
        let queue = tune::read_transmit_queue(session.local.ip()).filter(|_| session.is_sender);
        FlowContext {
            name: name.into(),
            send_buffer: buffer(session.is_sender, "net.ipv4.tcp_wmem"),
            receive_buffer: buffer(!session.is_sender, "net.ipv4.tcp_rmem"),
            is_rate_controlled: matches!(
                session.transport,
                Transport::Udt | Transport::Sabul | Transport::Tsunami
            ),
            unknown_path: true,
            is_one_host: session.local.ip().to_canonical() == session.peer.ip().to_canonical(),
            pacing_bps: requested_payload_bps(session, rows),
            pacing_option: RATE_OPTION.into(),
            generator: Some(Generator {
                // Waits for files are measured directly.
                uses_file: false,
                size_bytes: last(rows, name).and_then(|row| u64::try_from(row.bytes_acked?).ok()),
                ..Generator::default()
            }),
            device: sending_device(queue, dropped_segs),
            host_loads: host_loads(&from, &to, activity),
            file_waits: Some(file_waits(activity)),
            from,
            to,
            ..FlowContext::default()
        }
    }
}

/// The requested rate of a connection, bit/s of what its rows count.
fn requested_payload_bps(session: &Session, rows: &[FlowSample]) -> Option<f64> {
    let rate = session.rate?.as_f64();
    match session.transport {
        Transport::Tcp => Some(rate / f64::from(session.streams.max(1))),
        Transport::Tsunami | Transport::Quic => Some(rate),
        // The rate includes the headers of UDT, UDP and IP.
        Transport::Udt | Transport::Sabul => {
            let payload = rows.iter().filter_map(|row| row.snd_mss_bytes).max()?;
            Some(rate * payload as f64 / f64::from(session.mss.max(1)))
        }
    }
}

/// The threads of the sender, then those of the receiver.
fn host_loads(from: &str, to: &str, [sender, receiver]: [&[ActivitySample]; 2]) -> Vec<HostLoad> {
    type Busy = fn(&ActivitySample) -> Option<i64>;
    let load = |activity: &[ActivitySample], name: String, busy: Busy| HostLoad {
        name,
        kind: LoadKind::Thread,
        busy_us: activity.iter().filter_map(|sample| Some((sample.time_us, busy(sample)? as f64))).collect(),
    };
    vec![
        load(sender, format!("thread that sends on {from}"), |sample| sample.transport_busy_us),
        load(sender, format!("thread that reads and hashes files on {from}"), |sample| sample.file_busy_us),
        load(sender, format!("thread that hashes files on {from}"), |sample| sample.hash_busy_us),
        load(receiver, format!("thread that receives on {to}"), |sample| sample.transport_busy_us),
        load(receiver, format!("thread that writes and hashes files on {to}"), |sample| sample.file_busy_us),
        load(receiver, format!("thread that hashes files on {to}"), |sample| sample.hash_busy_us),
    ]
}

/// Number of the sender's loads in [`host_loads`].
pub(super) const SENDER_LOADS: usize = 3;

fn file_waits([sender, receiver]: [&[ActivitySample]; 2]) -> FileWaits {
    let series = |activity: &[ActivitySample], waited: fn(&ActivitySample) -> i64| {
        activity.iter().map(|sample| (sample.time_us, waited(sample) as f64)).collect()
    };
    FileWaits {
        reading_us: series(sender, |sample| sample.file_wait_us),
        writing_us: series(receiver, |sample| sample.file_wait_us),
        replies_us: series(sender, |sample| sample.reply_wait_us),
    }
}

/// The waiting time of each end and the load of its busiest thread, in words.
pub(super) fn describe_waits(
    [sender, receiver]: [&[ActivitySample]; 2],
    context: &FlowContext,
) -> Vec<String> {
    let end = |what: &str, host: &str, waited: &str, activity: &[ActivitySample]| {
        let last = activity.last().filter(|last| last.time_us > 0)?;
        let percent = |us: i64| us as f64 / last.time_us as f64 * 100.0;
        let busy = [last.transport_busy_us, last.file_busy_us, last.hash_busy_us].into_iter().flatten().max();
        let busy = busy.map_or(String::new(), |us| {
            format!(", and its busiest thread ran, or waited for a CPU, {:.0} %", percent(us))
        });
        let waits = percent(last.file_wait_us);
        Some(format!(
            "the {what} on {host} waited {waits:.0} % of the time until its files were {waited}{busy}"
        ))
    };
    // All streams of a session share the same files.
    if context.name != flow_name(1) {
        return Vec::new();
    }
    let sentences =
        [end("sender", &context.from, "read", sender), end("receiver", &context.to, "written", receiver)];
    sentences.into_iter().flatten().collect()
}
