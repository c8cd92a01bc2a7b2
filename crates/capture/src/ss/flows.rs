//! Splits samples of sockets into rows of flows.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use schema::FlowSample;

/// A flow in a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SsFlow {
    /// `10.0.0.1:40000-10.0.0.2:5201`, the sender first.
    pub name: String,
    /// The sender's address, as ss prints it.
    pub from: String,
    /// The receiver's address, as ss prints it.
    pub to: String,
    /// Name of the sender's congestion control, if the log has it.
    pub cc: Option<String>,
}

/// A socket in a log.
#[derive(Debug, Default)]
pub(super) struct Socket {
    /// Local address, as ss prints it.
    pub(super) local: String,
    /// Peer address, as ss prints it.
    pub(super) peer: String,
    pub(super) cc: Option<String>,
}

impl Socket {
    /// The flow that it sends.
    fn sent_flow(&self) -> SsFlow {
        flow(&self.local, &self.peer)
    }

    /// The flow that it receives.
    fn received_flow(&self) -> SsFlow {
        flow(&self.peer, &self.local)
    }
}

fn flow(from: &str, to: &str) -> SsFlow {
    SsFlow { name: format!("{from}-{to}"), from: from.into(), to: to.into(), cc: None }
}

/// A sample of a socket.
#[derive(Debug)]
pub(super) struct SocketSample {
    /// The socket's index.
    pub(super) socket: usize,
    /// The number of the sample of all sockets to which it belongs.
    pub(super) number: usize,
    pub(super) send_queue_bytes: Option<i64>,
    /// The columns of both directions; the flow's name is not set.
    pub(super) row: FlowSample,
}

/// The directions in which a socket's data passes in the log.
#[derive(Debug, Default, Clone)]
struct Activity {
    first_acked: Option<i64>,
    first_received: Option<i64>,
    sends: bool,
    receives: bool,
}

impl Activity {
    fn update(&mut self, row: &FlowSample) {
        let has_grown = |first: &mut Option<i64>, now: Option<i64>| {
            now.is_some_and(|now| now > *first.get_or_insert(now))
        };
        let is_positive = |value: Option<i64>| value.is_some_and(|value| value > 0);
        self.sends |= has_grown(&mut self.first_acked, row.bytes_acked)
            || is_positive(row.unacked_segs)
            || is_positive(row.notsent_bytes);
        self.receives |= has_grown(&mut self.first_received, row.bytes_received);
    }
}

/// Splits the samples of sockets into rows of flows. Returns the flows in the order of their first rows, and
/// the rows in the order of time, which begins with the first sample.
pub(super) fn split_into_flows(
    mut samples: Vec<SocketSample>,
    sockets: &[Socket],
) -> (Vec<SsFlow>, Vec<FlowSample>) {
    add_omitted_zeros(&mut samples);
    let first_us = samples.iter().map(|sample| sample.row.time_us).min().unwrap_or(0);
    let mut activities = vec![Activity::default(); sockets.len()];
    for sample in &mut samples {
        sample.row.time_us -= first_us;
        activities[sample.socket].update(&sample.row);
    }
    let known = flows(sockets, &activities);
    let mut rows: BTreeMap<(i64, usize, &str), FlowSample> = BTreeMap::new();
    let mut received_rows = Vec::new();
    for SocketSample { socket, number, mut row, .. } in samples {
        let time_us = row.time_us;
        let mut received = FlowSample { time_us, ..FlowSample::default() };
        move_receiver_columns(&mut row, &mut received);
        if let Some(flow) = known.get(&sockets[socket].received_flow().name) {
            received.flow.clone_from(&flow.name);
            received_rows.push(((time_us, number, flow.name.as_str()), received));
        }
        if let Some(flow) = known.get(&sockets[socket].sent_flow().name) {
            row.flow.clone_from(&flow.name);
            rows.insert((time_us, number, flow.name.as_str()), row);
        }
    }
    for (key, mut received) in received_rows {
        match rows.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(received);
            }
            Entry::Occupied(mut sent) => move_receiver_columns(&mut received, sent.get_mut()),
        }
    }
    let mut rows: Vec<FlowSample> = rows.into_values().collect();
    set_goodputs(&mut rows);
    let mut listed = BTreeSet::new();
    let first_rows = rows.iter().filter(|row| listed.insert(row.flow.as_str()));
    let flows = first_rows.filter_map(|row| known.get(&row.flow)).cloned().collect();
    (flows, rows)
}

/// The flows of these sockets, by name: the directions in which data passes, and an idle socket's own.
fn flows(sockets: &[Socket], activities: &[Activity]) -> BTreeMap<String, SsFlow> {
    let mut flows: BTreeMap<String, SsFlow> = BTreeMap::new();
    for (socket, activity) in sockets.iter().zip(activities) {
        let sent = activity.sends.then(|| socket.sent_flow());
        let received = activity.receives.then(|| socket.received_flow());
        flows.extend(sent.into_iter().chain(received).map(|flow| (flow.name.clone(), flow)));
    }
    let is_idle = |socket: &&Socket| {
        ![socket.sent_flow(), socket.received_flow()].iter().any(|flow| flows.contains_key(&flow.name))
    };
    let idle: Vec<SsFlow> = sockets.iter().filter(is_idle).map(Socket::sent_flow).collect();
    flows.extend(idle.into_iter().map(|flow| (flow.name.clone(), flow)));
    for socket in sockets {
        if let Some(flow) = flows.get_mut(&socket.sent_flow().name) {
            flow.cc.clone_from(&socket.cc);
        }
    }
    flows
}

/// A column of a row.
type Column = for<'a> fn(&'a mut FlowSample) -> &'a mut Option<i64>;

/// The columns of a flow's receiver.
const RECEIVER_COLUMNS: [Column; 9] = [
    |row| &mut row.bytes_received,
    |row| &mut row.rcv_wnd_bytes,
    |row| &mut row.rcv_rtt_us,
    |row| &mut row.rcv_ooopack_segs,
    |row| &mut row.rcv_space_bytes,
    |row| &mut row.rcv_ssthresh_bytes,
    |row| &mut row.rcv_queue_bytes,
    |row| &mut row.rcvbuf_bytes,
    |row| &mut row.rmem_alloc_bytes,
];

fn move_receiver_columns(from: &mut FlowSample, to: &mut FlowSample) {
    for column in RECEIVER_COLUMNS {
        *column(to) = column(from).take();
    }
}

/// The columns that ss omits if they are 0 (`tcp_stats_print` in misc/ss.c).
const OMITTED_ZEROS: [Column; 20] = [
    |row| &mut row.bytes_sent,
    |row| &mut row.bytes_retrans,
    |row| &mut row.bytes_acked,
    |row| &mut row.bytes_received,
    |row| &mut row.segs_out,
    |row| &mut row.data_segs_out_segs,
    |row| &mut row.delivered_segs,
    |row| &mut row.delivered_ce_segs,
    |row| &mut row.delivery_rate_app_limited,
    |row| &mut row.busy_time_us,
    |row| &mut row.rwnd_limited_us,
    |row| &mut row.sndbuf_limited_us,
    |row| &mut row.unacked_segs,
    |row| &mut row.sacked_segs,
    |row| &mut row.lost_segs,
    |row| &mut row.retrans_segs,
    |row| &mut row.total_retrans_segs,
    |row| &mut row.notsent_bytes,
    |row| &mut row.snd_wnd_bytes,
    |row| &mut row.rcv_wnd_bytes,
];

/// Adds the zeros that ss omits, in the columns that it prints elsewhere in the log: an old ss prints fewer.
fn add_omitted_zeros(samples: &mut [SocketSample]) {
    for SocketSample { row, .. } in &mut *samples {
        // These are parts of the busy time; ss prints them only together with it.
        if row.busy_time_us.is_some() {
            row.rwnd_limited_us.get_or_insert(0);
            row.sndbuf_limited_us.get_or_insert(0);
        }
    }
    for column in OMITTED_ZEROS {
        if samples.iter_mut().any(|sample| column(&mut sample.row).is_some()) {
            for sample in &mut *samples {
                column(&mut sample.row).get_or_insert(0);
            }
        }
    }
    for SocketSample { row, send_queue_bytes, .. } in samples {
        // The send queue holds the outstanding bytes and the bytes not sent yet.
        row.notsent_bytes = row.notsent_bytes.or_else(|| {
            let outstanding = row.unacked_segs?.checked_mul(row.snd_mss_bytes?)?;
            Some((*send_queue_bytes)?.saturating_sub(outstanding).max(0))
        });
    }
}

/// Sets each row's goodput, from the bytes received since the flow's previous sample, or acknowledged if the
/// receiver is not in the log.
fn set_goodputs(rows: &mut [FlowSample]) {
    let mut previous: BTreeMap<(String, bool), (i64, i64)> = BTreeMap::new();
    for row in rows {
        let is_received = row.bytes_received.is_some();
        let Some(bytes) = row.bytes_received.or(row.bytes_acked) else { continue };
        let before = previous.insert((row.flow.clone(), is_received), (row.time_us, bytes));
        // A smaller count belongs to a new connection between the same addresses.
        if let Some((time_us, before)) =
            before.filter(|(time_us, before)| row.time_us > *time_us && bytes >= *before)
        {
            let seconds = (row.time_us - time_us) as f64 * 1e-6;
            row.goodput_bps = Some((bytes.saturating_sub(before) as f64 * 8.0 / seconds) as i64);
        }
    }
}
