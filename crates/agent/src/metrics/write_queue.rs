//! The requests of remote write that wait: in the order of their values, each sent until the receiver has
//! accepted or refused it.
//!
//! The state machine of a push by remote write. It sends nothing itself: the caller sends
//! [`WriteQueue::first`] at [`WriteQueue::attempt_at`], and passes the reply to [`WriteQueue::handle`]. Only
//! one request is under way, so the receiver gets the values of each series in the order of time.

use std::{
    collections::VecDeque,
    io,
    time::{Duration, Instant},
};

use super::{MetricsSnapshot, push_outcome::PushOutcome, remote_write};
use crate::{http_client::PostResponse, texts::utc};

/// Maximum size of all requests that wait, bytes after compression. The values of a mesh of 6 points have
/// about 50 kB before compression.
const MAX_QUEUED_BYTES: usize = 8 << 20;
/// The time until the first repetition of a request; it doubles with each.
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
/// The longest time between two repetitions, unless the receiver asks for a longer one.
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// The longest `Retry-After` that is honoured: a mistake of a receiver must not stop the push for days.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);
/// Too Many Requests (RFC 6585 section 4).
const TOO_MANY_REQUESTS: u16 = 429;

/// The values that were queued last.
#[derive(Debug)]
struct QueuedValues {
    snapshot: MetricsSnapshot,
    /// Their time, ms since 1970.
    time_ms: i64,
}

/// Requests that wait, and when the first of them is sent.
#[derive(Debug)]
pub(super) struct WriteQueue {
    requests: VecDeque<Vec<u8>>,
    /// The size of all requests.
    bytes: usize,
    /// Number of requests that were removed because the queue was full.
    discarded: u64,
    last: Option<QueuedValues>,
    /// When the first request is sent; `None` if there is none.
    attempt_at: Option<Instant>,
    backoff: Duration,
}

impl WriteQueue {
    pub fn new() -> WriteQueue {
        WriteQueue {
            requests: VecDeque::new(),
            bytes: 0,
            discarded: 0,
            last: None,
            attempt_at: None,
            backoff: FIRST_BACKOFF,
        }
    }

    /// Adds the values of this time, ms since 1970. If the queue is full, the oldest requests are removed.
    ///
    /// # Errors
    /// If later values were queued before: receivers refuse values that are not in the order of time.
    pub fn add(&mut self, snapshot: MetricsSnapshot, time_ms: i64, now: Instant) -> Result<(), String> {
        if let Some(last) = &self.last
            && time_ms <= last.time_ms
        {
            let last = utc(last.time_ms.saturating_mul(1000));
            return Err(format!("the clock was set back; there are values up to {last} already"));
        }
        let requests = {
            let previous = self.last.as_ref().map(|last| last.snapshot.metrics()).unwrap_or_default();
            remote_write::requests(&snapshot.metrics(), &previous, &snapshot.status.name, time_ms)
                .map_err(|error| error.to_string())?
        };
        self.bytes += requests.iter().map(Vec::len).sum::<usize>();
        self.requests.extend(requests);
        while self.bytes > MAX_QUEUED_BYTES {
            self.remove_first();
            self.discarded += 1;
        }
        if self.attempt_at.is_none() && !self.requests.is_empty() {
            self.attempt_at = Some(now);
        }
        self.last = Some(QueuedValues { snapshot, time_ms });
        Ok(())
    }

    /// When the first request is sent.
    pub fn attempt_at(&self) -> Option<Instant> {
        self.attempt_at
    }

    /// The first request.
    pub fn first(&self) -> Option<&[u8]> {
        self.requests.front().map(Vec::as_slice)
    }

    /// The receiver has replied to the first request, or there was no reply.
    pub fn handle(&mut self, reply: io::Result<PostResponse>, now: Instant) -> PushOutcome {
        let (text, delay) = match reply {
            Ok(reply) if reply.is_success() => {
                self.remove_attempted(now);
                return PushOutcome::Accepted;
            }
            Ok(reply) if reply.status != TOO_MANY_REQUESTS && !(500..600).contains(&reply.status) => {
                self.remove_attempted(now);
                return PushOutcome::Refused(reply.to_string());
            }
            Ok(reply) => (reply.to_string(), reply.retry_after),
            Err(error) => (error.to_string(), None),
        };
        let delay = delay.unwrap_or_default().min(MAX_RETRY_AFTER).max(self.backoff);
        self.attempt_at = Some(now + delay);
        self.backoff = (self.backoff * 2).min(MAX_BACKOFF);
        PushOutcome::Failed(text)
    }

    /// The number of requests that were removed because the queue was full, since the last call.
    pub fn take_discarded(&mut self) -> u64 {
        std::mem::take(&mut self.discarded)
    }

    fn remove_attempted(&mut self, now: Instant) {
        self.remove_first();
        self.backoff = FIRST_BACKOFF;
        self.attempt_at = (!self.requests.is_empty()).then_some(now);
    }

    fn remove_first(&mut self) {
        let removed = self.requests.pop_front().map_or(0, |request| request.len());
        self.bytes -= removed;
    }
}

#[cfg(test)]
mod tests {
    use testing::remote_write::decode_write_request;

    use super::*;

    const NOW_MS: i64 = 1_800_000_000_000;

    fn add(queue: &mut WriteQueue, second: i64, now: Instant) -> Result<(), String> {
        queue.add(MetricsSnapshot::complete(), NOW_MS + second * 1000, now)
    }

    fn reply(status: u16, retry_after_s: Option<u64>) -> io::Result<PostResponse> {
        let retry_after = retry_after_s.map(Duration::from_secs);
        Ok(PostResponse { status, retry_after, reason: String::new() })
    }

    /// The time of the first request's values, s after the first ones.
    fn first_second(queue: &WriteQueue) -> Option<i64> {
        let message = snap::raw::Decoder::new().decompress_vec(queue.first()?).unwrap();
        let times = decode_write_request(&message).into_iter().map(|series| series.samples[0].1);
        let times: std::collections::BTreeSet<i64> = times.collect();
        assert_eq!(times.len(), 1);
        times.first().map(|time| (time - NOW_MS) / 1000)
    }

    /// The time until the next attempt, s.
    fn wait_s(queue: &WriteQueue, now: Instant) -> Option<u64> {
        queue.attempt_at().map(|at| at.duration_since(now).as_secs())
    }

    fn failed(text: &str) -> PushOutcome {
        PushOutcome::Failed(text.into())
    }

    #[test]
    fn requests_are_repeated_in_their_order_until_accepted_or_refused() {
        let now = Instant::now();
        let mut queue = WriteQueue::new();
        assert_eq!((wait_s(&queue, now), first_second(&queue)), (None, None));
        add(&mut queue, 0, now).unwrap();
        assert_eq!((wait_s(&queue, now), first_second(&queue)), (Some(0), Some(0)));
        assert_eq!(queue.handle(reply(503, None), now), failed("HTTP status 503"));
        assert_eq!((wait_s(&queue, now), first_second(&queue)), (Some(1), Some(0)));
        // New values do not shorten the wait, and are sent after the old ones.
        add(&mut queue, 60, now).unwrap();
        assert_eq!((wait_s(&queue, now), first_second(&queue)), (Some(1), Some(0)));
        assert_eq!(queue.handle(reply(204, None), now), PushOutcome::Accepted);
        assert_eq!((wait_s(&queue, now), first_second(&queue)), (Some(0), Some(60)));
        // Not repeated.
        for (second, status) in [(120, 400), (180, 302)] {
            let text = format!("HTTP status {status}");
            assert_eq!(queue.handle(reply(status, Some(9)), now), PushOutcome::Refused(text));
            assert_eq!((wait_s(&queue, now), first_second(&queue)), (None, None));
            assert_eq!(queue.bytes, 0);
            add(&mut queue, second, now).unwrap();
        }
    }

    #[test]
    fn repetitions_back_off_as_far_as_the_receiver_asks() {
        let now = Instant::now();
        let mut queue = WriteQueue::new();
        add(&mut queue, 0, now).unwrap();
        for expected in [1, 2, 4, 8, 16, 32, 60, 60] {
            queue.handle(Err(io::ErrorKind::ConnectionRefused.into()), now);
            assert_eq!(wait_s(&queue, now), Some(expected));
        }
        for (status, retry_after_s, expected) in
            [(429, 90, 90), (503, 5, 60), (429, 0, 60), (500, 1_000_000, 3600)]
        {
            let outcome = queue.handle(reply(status, Some(retry_after_s)), now);
            assert_eq!(outcome, failed(&format!("HTTP status {status}")));
            assert_eq!(wait_s(&queue, now), Some(expected));
        }
        queue.handle(reply(200, None), now);
        add(&mut queue, 60, now).unwrap();
        queue.handle(reply(429, None), now);
        assert_eq!(wait_s(&queue, now), Some(1), "a request that was accepted ends the backoff");
    }

    #[test]
    fn values_before_queued_ones_are_not_queued() {
        let now = Instant::now();
        let mut queue = WriteQueue::new();
        add(&mut queue, 60, now).unwrap();
        for second in [60, 0] {
            let error = add(&mut queue, second, now).unwrap_err();
            assert_eq!(error, "the clock was set back; there are values up to 2027-01-15T08:01:00Z already");
        }
        assert_eq!(queue.requests.len(), 1);
        add(&mut queue, 61, now).unwrap();
        assert_eq!(queue.requests.len(), 2);
    }

    #[test]
    fn a_full_queue_loses_its_oldest_requests() {
        let now = Instant::now();
        let mut queue = WriteQueue::new();
        add(&mut queue, 0, now).unwrap();
        queue.handle(reply(503, Some(100)), now);
        let size = queue.bytes;
        // As if the queue were almost full.
        queue.requests.push_front(vec![0; MAX_QUEUED_BYTES - 2 * size]);
        queue.bytes += MAX_QUEUED_BYTES - 2 * size;
        let mut second = 0;
        while queue.take_discarded() == 0 {
            second += 60;
            add(&mut queue, second, now).unwrap();
        }
        assert_eq!((first_second(&queue), wait_s(&queue, now)), (Some(0), Some(100)));
        assert_eq!(queue.requests.len() as i64, second / 60 + 1, "one was removed");
        assert_eq!(queue.bytes, queue.requests.iter().map(Vec::len).sum::<usize>());
    }
}
