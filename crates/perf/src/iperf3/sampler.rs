//! Looks at a test's sockets for the record: rows of the record's own kind.

use std::os::fd::AsFd;

use schema::FlowSample;

use crate::iperf3::{observer::flow_name, stream::Stream};

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
    let arrived = match stream.sends {
        // A SYN counts as a byte that is acknowledged.
        true => watch::read_sender(socket, &mut row).ok().and(row.bytes_acked).map(|n| (n - 1).max(0)),
        false => watch::read_receiver(socket, &mut row).ok().map(|()| stream.bytes() as i64),
    }?;
    if let Some((before_us, before)) = *last
        && time_us > before_us
    {
        let span_s = (time_us - before_us) as f64 * 1e-6;
        row.goodput_bps = Some(((arrived - before).max(0) as f64 * 8.0 / span_s) as i64);
    }
    *last = Some((time_us, arrived));
    Some(row)
}
