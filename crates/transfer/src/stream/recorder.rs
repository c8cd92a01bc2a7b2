//! Sends VDIF frames to a VLBI recorder, which neither starts the stream nor reports the received packets.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
};

use bulk::{flow::Sender, stream::Parameters};
use traffic::{
    Attempted,
    bulk_end::{Sockets, drive},
    udp::now_since,
};
use units::{BitRate, Instant, Time};

use super::{Direction, StreamOptions, client::socket_to, message::plan, session::StreamSample};
use crate::Error;

/// A recorder, and the stream to send.
#[derive(Debug, Clone, Copy)]
pub struct RecorderOptions {
    /// Its address and UDP port.
    pub recorder: SocketAddr,
    /// Rate of payload.
    pub rate: BitRate,
    /// The stream's length.
    pub duration: Time,
    /// Payload of a packet, bytes; `None`: as many as the path carries.
    pub payload_bytes: Option<u32>,
}

/// Sends frames for the whole duration, or until `stop`. Returns the stream's parameters and the counts of
/// this end.
///
/// # Errors
/// If the rate has no whole number of frames in a second, or the socket fails.
pub fn send_to_recorder(
    options: &RecorderOptions,
    stop: &AtomicBool,
    mut observe: impl FnMut(&StreamSample),
) -> Result<(Parameters, StreamSample), Error> {
    let (udp, mtu) = socket_to(options.recorder)?;
    let stream = StreamOptions {
        direction: Direction::ToServer,
        rate: options.rate,
        duration: options.duration,
        deadline: Time::from_millis(1),
        repairs: false,
        payload_bytes: options.payload_bytes,
        vdif: true,
    };
    let parameters = stream.parameters(mtu, options.recorder.is_ipv6())?;
    let begin = std::time::Instant::now();
    let mut sender = Sender::new(&plan(parameters), Instant::ZERO);
    sender.begin_stream(Instant::ZERO);
    let mut sample = StreamSample::default();
    let sent = drive(sender, Sockets { udp, control: None }, begin, |sender, _| {
        sample.sender = sender.counts();
        sample.time = now_since(begin);
        observe(&sample);
        sample.sender.is_complete || stop.load(Ordering::Acquire)
    });
    sent.attempted(|| format!("send to {}", options.recorder))?;
    if stop.load(Ordering::Acquire) { Err(Error::Interrupted) } else { Ok((parameters, sample)) }
}
