//! Requests of a session: trains whose packets the server replies to.
//!
//! The departure of a request is this process's time just before it passes the request to the kernel; the
//! arrival of the reply is the kernel's timestamp. Both times must be from one clock, so timestamps of a
//! network card are not used here.

use std::{
    io::ErrorKind,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use os::realtime_ns;
use probe::{RequestResponse, RequestResponseResult};
use traffic::{
    Attempted, ancillary,
    udp::{MAX_MESSAGES, MessageBuffers, WaitMode, enable_arrival_metadata},
};
use units::Time;

use super::{
    Error,
    client::{Session, interrupted},
    wire::{asking_for_replies, read_reply, train_and_index},
};

/// A reply that does not arrive within this time after the server's report of the requests is lost.
const REPLY_TIMEOUT: Duration = Duration::from_millis(250);
/// Bytes of each reply that are read.
const READ_BYTES: usize = 64;

impl Session {
    /// Sends the requests and evaluates the replies, or ends when `stop` is set; `doing` is called with a
    /// description of each step.
    ///
    /// # Errors
    /// If a socket fails, the server closes the connection, or requests would exceed the limit of the load.
    pub fn request_response(
        &mut self,
        requests: &mut RequestResponse,
        stop: &AtomicBool,
        doing: &mut dyn FnMut(&str),
    ) -> Result<RequestResponseResult, Error> {
        let what = || "enable timestamps of replies".to_string();
        enable_arrival_metadata(&self.socket).attempted(what)?;
        let mut buffers = MessageBuffers::new(MAX_MESSAGES, READ_BYTES);
        while let Some(next) = requests.next_train() {
            doing(&requests.progress());
            let number = self.trains;
            let in_packets = asking_for_replies(number, next.replies);
            let sent = self.send_numbered(&next.train, in_packets, Time::ZERO, stop)?;
            let sent_ns = sent.sent_ns.clone();
            self.report(number, sent, next.train.bytes, stop)?;
            requests.add_round_trips(&self.round_trips(number, &sent_ns, &mut buffers, stop)?);
        }
        Ok(requests.result())
    }

    /// The round trips of the requests of train `number`, ns, without the time for which the server held
    /// them.
    fn round_trips(
        &self,
        number: u32,
        sent_ns: &[i64],
        buffers: &mut MessageBuffers,
        stop: &AtomicBool,
    ) -> Result<Vec<Option<f64>>, Error> {
        let begin = Instant::now();
        let mut round_trips = vec![None; sent_ns.len()];
        while begin.elapsed() < REPLY_TIMEOUT && round_trips.iter().any(Option::is_none) {
            if stop.load(Ordering::Acquire) {
                return Err(interrupted());
            }
            let count = match buffers.receive(&self.socket, WaitMode::ForFirst) {
                Ok(count) => count,
                Err(e) if e.kind() == ErrorKind::Interrupted || ancillary::is_transient(&e) => continue,
                Err(e) if e.raw_os_error() == Some(libc::EMSGSIZE) => continue,
                Err(e) => return Err(e).attempted(|| "receive the replies of a probe".into())?,
            };
            for message in (0..count).map(|index| buffers.message(index)) {
                let Some((header, held_ns)) = read_reply(message.bytes) else { continue };
                let (train, index) = train_and_index(header.number);
                let arrived_ns = message.stamp_ns.unwrap_or_else(realtime_ns);
                let Some(sent_ns) = sent_ns.get(index as usize).filter(|_| train == number) else { continue };
                let Some(round_trip) = round_trips.get_mut(index as usize) else { continue };
                // Of duplicates, the first counts.
                *round_trip = round_trip.or(round_trip_ns(*sent_ns, arrived_ns, held_ns));
            }
        }
        Ok(round_trips)
    }
}

/// A round trip without the server's time; `None` for times that contradict each other.
fn round_trip_ns(sent_ns: i64, arrived_ns: i64, held_ns: u64) -> Option<f64> {
    let total = u64::try_from(arrived_ns.checked_sub(sent_ns)?).ok()?;
    total.checked_sub(held_ns).map(|ns| ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_time_is_subtracted_and_checked() {
        assert_eq!(round_trip_ns(1_000, 5_000, 1_500), Some(2_500.0));
        assert_eq!(round_trip_ns(1_000, 5_000, 4_001), None);
        assert_eq!(round_trip_ns(5_000, 1_000, 0), None);
        assert_eq!(round_trip_ns(i64::MIN, i64::MAX, 0), None);
    }
}
