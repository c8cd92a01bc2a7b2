//! Looks at a test's sockets for the record: rows of the record's own kind.

use std::os::fd::AsFd;

use schema::FlowSample;

use crate::iperf3::{observer::flow_name, stream::Stream, udp_stream::UdpStream};

/// What was seen last of each stream: when, and which bytes had arrived.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    last: Vec<Option<(i64, i64)>>,
}

impl Sampler {
    /// A row for each stream whose kernel tells about it, at `time_us` since the data began.
    pub(crate) fn sample(&mut self, streams: &[Stream], time_us: i64) -> Vec<FlowSample> {
        self.last.resize(streams.len(), None);
        streams.iter().zip(&mut self.last).filter_map(|(stream, last)| one(stream, last, time_us)).collect()
    }
}

fn one(stream: &Stream, last: &mut Option<(i64, i64)>, time_us: i64) -> Option<FlowSample> {
    let mut row = FlowSample { time_us, flow: flow_name(stream.id), ..FlowSample::default() };
    let socket = stream.socket.as_fd();
    if let Some(udp) = &stream.udp {
        return Some(datagrams(stream, udp, last, row));
    }
    let arrived = match stream.sends {
        // A SYN counts as a byte that is acknowledged.
        true => watch::read_sender(socket, &mut row).ok().and(row.bytes_acked).map(|n| (n - 1).max(0)),
        false => watch::read_receiver(socket, &mut row).ok().map(|()| stream.bytes() as i64),
    }?;
    row.goodput_bps = goodput(last, time_us, arrived);
    Some(row)
}

/// A UDP stream's row.
fn datagrams(
    stream: &Stream,
    udp: &UdpStream,
    last: &mut Option<(i64, i64)>,
    mut row: FlowSample,
) -> FlowSample {
    let count = |n: u64| i64::try_from(n).ok();
    if stream.sends {
        row.datagrams_sent = count(udp.datagrams(true).packets);
    } else {
        let micros = |ns: i64| ns / 1000;
        let mut statistics = udp.tally().lock();
        let counts = &mut statistics.counts;
        row.owd_us = counts.take_mean_owd_ns().map(micros);
        row.datagrams_received = count(counts.received);
        row.datagrams_lost = count(counts.lost());
        row.datagrams_reordered = count(counts.reordered);
        row.datagrams_duplicated = count(counts.duplicated);
        row.min_owd_us = counts.owd_ns.map(|(least, _)| micros(least));
        row.max_owd_us = counts.owd_ns.map(|(_, most)| micros(most));
        row.jitter_us = Some((counts.jitter_ns * 1e-3).round() as i64);
        row.bytes_received = count(counts.bytes);
    }
    row.goodput_bps = goodput(last, row.time_us, stream.bytes() as i64);
    row
}

/// Payload since the last look as a rate.
fn goodput(last: &mut Option<(i64, i64)>, time_us: i64, arrived: i64) -> Option<i64> {
    let (before_us, before) = last.replace((time_us, arrived))?;
    let span_s = (time_us - before_us) as f64 * 1e-6;
    (span_s > 0.0).then(|| ((arrived - before).max(0) as f64 * 8.0 / span_s) as i64)
}
