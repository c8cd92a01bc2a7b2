//! Two endpoints, a path of 100 Mb/s and 20 ms round-trip time, and one lost segment: prints the events of
//! the sender.
//!
//! `cargo run -p longfat-tcp --example retransmission`

#[path = "../tests/pair/reno.rs"]
mod reno;

use std::collections::VecDeque;

use reno::Reno;
use tcp::{Config, Endpoint, EndpointEvent, Segment, TcpState};

/// One-way delay, ns.
const DELAY_NS: u64 = 10_000_000;

/// Transmission time of a byte at 100 Mb/s, ns.
const BYTE_NS: u64 = 80;

/// Ethernet, IPv4 and TCP headers with timestamps, bytes.
const HEADERS: u64 = 66;

/// Bytes that the application writes.
const BYTES: u64 = 50_000;

fn main() {
    // Without segmentation offload, so that each segment is a packet.
    let config = Config { gso_max_segs: 1, ..Config::default() };
    let mut sender = Endpoint::connect(config.clone(), Box::new(Reno), 0);
    let mut receiver = Endpoint::listen(config, Box::new(Reno));
    sender.keep_events(true);

    // Segments in flight, each with its arrival time, ns.
    let (mut to_receiver, mut to_sender) = (VecDeque::<(u64, Segment)>::new(), VecDeque::new());
    let (mut now, mut left, mut read, mut data_segments) = (0, BYTES, 0, 0);
    let mut link_free_at = 0;
    while read < BYTES {
        if sender.state() == TcpState::Established {
            left -= sender.write(now, left);
        }
        while let Some(segment) = sender.transmit(now) {
            data_segments += u32::from(segment.len > 0);
            if segment.len > 0 && data_segments == 3 {
                println!("{:>8.3} ms: the path loses segment {}", now as f64 / 1e6, segment.seq);
                continue;
            }
            link_free_at = now.max(link_free_at) + (HEADERS + u64::from(segment.len)) * BYTE_NS;
            to_receiver.push_back((link_free_at + DELAY_NS, segment));
        }
        while let Some(segment) = receiver.transmit(now) {
            to_sender.push_back((now + DELAY_NS, segment));
        }
        while let Some(event) = sender.next_event() {
            print_event(&event);
        }

        let arrivals = [to_receiver.front(), to_sender.front()].map(|first| first.map(|(at, _)| *at));
        let timers = [sender.next_timer(), receiver.next_timer()];
        let next = arrivals.into_iter().chain(timers).flatten().min();
        now = next.expect("a connection with unread data always has a next event").max(now);
        if let Some((_, segment)) = to_receiver.pop_front_if(|(at, _)| *at <= now) {
            receiver.on_segment(now, segment);
            read += receiver.read(now, u64::MAX);
        } else if let Some((_, segment)) = to_sender.pop_front_if(|(at, _)| *at <= now) {
            sender.on_segment(now, segment);
        } else {
            sender.on_timer(now);
            receiver.on_timer(now);
        }
    }
    let info = sender.info(now);
    println!("{:>8.3} ms: {read} bytes received", now as f64 / 1e6);
    println!("retransmitted: {} of {} segments", info.total_retrans_segs, info.data_segs_out_segs);
    assert_eq!((info.total_retrans_segs, info.total_rto), (1, 0), "one loss, one retransmission, no timeout");
}

fn print_event(event: &EndpointEvent) {
    let (at, text) = match *event {
        EndpointEvent::Established { at } => (at, "the connection is established".into()),
        EndpointEvent::Lost { at, seq, .. } => (at, format!("segment {seq} is marked lost")),
        EndpointEvent::Retransmit { at, seq, .. } => (at, format!("segment {seq} is retransmitted")),
        EndpointEvent::CaState { at, old, state, cwnd, ssthresh } => {
            (at, format!("{old:?} -> {state:?}, cwnd {cwnd}, ssthresh {ssthresh}"))
        }
        _ => return,
    };
    println!("{:>8.3} ms: {text}", at as f64 / 1e6);
}
