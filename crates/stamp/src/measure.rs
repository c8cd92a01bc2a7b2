//! Measures delays with the protocol that the options name.

use std::sync::atomic::AtomicBool;

use probe::DelayResult;
use traffic::Error;

use crate::{
    owamp,
    sender::{MeasuredPackets, Protocol, SenderOptions, exchange},
    test_socket, twamp,
};

/// Measures; ends early when `stop` is set. `on_reply` is called with the number of replies so far.
///
/// # Errors
/// If a socket fails, the server refuses the test, or the packets are larger than the path's MTU.
pub fn measure(
    options: &SenderOptions,
    stop: &AtomicBool,
    on_reply: &mut dyn FnMut(usize),
) -> Result<DelayResult, Error> {
    Ok(measure_packets(options, stop, on_reply)?.result)
}

/// Measures like [`measure`], and returns the times of each packet.
///
/// # Errors
/// As for [`measure`].
pub fn measure_packets(
    options: &SenderOptions,
    stop: &AtomicBool,
    on_reply: &mut dyn FnMut(usize),
) -> Result<MeasuredPackets, Error> {
    match options.protocol {
        Protocol::Owamp => owamp::measure_packets(options, stop, on_reply),
        Protocol::Twamp => twamp::measure_packets(options, stop, on_reply),
        Protocol::Stamp => {
            let socket = test_socket::open(test_socket::unspecified(options.to.ip()))?;
            exchange(&socket, options, stop, on_reply)
        }
    }
}
