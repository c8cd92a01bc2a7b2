//! Reads the state of a stream as a row of the record.

use std::os::fd::AsFd;

use schema::FlowSample;

use crate::{
    observer::flow_name,
    stream::Stream,
    stream_sampler::{LastSample, Sample, Sampled},
    udp_stream::UdpStream,
};

impl Sampled for Stream {
    fn sample(&self, time_us: i64, last: Option<&LastSample>) -> Option<Sample> {
        let mut row = FlowSample { time_us, flow: flow_name(self.id), ..FlowSample::default() };
        let socket = self.socket.as_fd();
        if let Some(udp) = &self.udp {
            datagrams(self, udp, &mut row);
            let arrived = self.bytes() as i64;
            return Some(Sample { row, arrived, is_under_way: false, out_of_order: 0 });
        }
        if self.sends {
            let info = watch::read_sender(socket, &mut row).ok()?;
            // The SYN counts as an acknowledged byte.
            let arrived = (row.bytes_acked? - 1).max(0);
            let is_under_way = info.unacked() != Some(0) || info.notsent_bytes() != Some(0);
            return Some(Sample { row, arrived, is_under_way, out_of_order: 0 });
        }
        let info = watch::read_receiver(socket, &mut row).ok()?;
        let out_of_order = info.rcv_ooopack().unwrap_or(0);
        let is_under_way = last.is_some_and(|last| last.out_of_order != out_of_order);
        Some(Sample { row, arrived: self.bytes() as i64, is_under_way, out_of_order })
    }
}

/// A UDP stream's counts.
fn datagrams(stream: &Stream, udp: &UdpStream, row: &mut FlowSample) {
    let count = |n: u64| i64::try_from(n).ok();
    if stream.sends {
        row.datagrams_sent = count(udp.datagrams(true).packets);
        return;
    }
    let micros = |ns: i64| ns / 1000;
    let mut statistics = udp.statistics().lock();
    let counts = &mut statistics.counts;
    row.owd_us = counts.take_mean_owd_ns().map(micros);
    row.datagrams_received = count(counts.received);
    row.datagrams_lost = count(counts.lost());
    row.datagrams_reordered = count(counts.reordered);
    row.datagrams_duplicated = count(counts.duplicated);
    row.min_owd_us = counts.owd_ns.map(|(min, _)| micros(min));
    row.max_owd_us = counts.owd_ns.map(|(_, max)| micros(max));
    row.jitter_us = Some((counts.jitter_ns * 1e-3).round() as i64);
    row.bytes_received = count(counts.bytes);
}
