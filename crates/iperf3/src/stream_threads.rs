//! The streams of a running test and their threads. After the end of a test, for whatever reason, none
//! of its threads and sockets remain.

use std::{
    io::PipeReader,
    os::fd::{AsFd, BorrowedFd},
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use schema::FlowSample;
use traffic::{Attempted, Error, sys};

use crate::{
    report::{Cpu, TestSpec},
    shared_state::SharedState,
    stream::{Stream, StreamSnapshot},
    stream_sampler::StreamSampler,
};

/// Stack size of a thread: its buffers are on the heap.
const STACK_BYTES: usize = 256 << 10;

/// A test's streams, each with a dedicated thread.
#[derive(Debug)]
pub(crate) struct StreamThreads {
    pub(crate) shared: Arc<SharedState>,
    streams: Arc<[Stream]>,
    threads: Vec<JoinHandle<ThreadUsage>>,
    wake: PipeReader,
    /// The processor time that the threads used, once they have ended.
    used: (Duration, Duration),
    /// The longest time that a thread ran or waited for a processor; `None` if the kernel does not count it.
    busiest: Option<Duration>,
}

/// The processor time of a stream's thread.
#[derive(Debug, Clone, Copy, Default)]
struct ThreadUsage {
    user: Duration,
    system: Duration,
    /// Time in which it was runnable and no processor was free.
    waited: Option<Duration>,
}

impl StreamThreads {
    /// Creates the threads, which wait for [`StreamThreads::begin`]. Thread `i` is pinned to processor `pin[i
    /// % pin.len()]`. Streams are sampled for the record each `sample`.
    pub(crate) fn prepare(
        mut streams: Vec<Stream>,
        spec: &Arc<TestSpec>,
        pin: &[usize],
        sample: Option<Duration>,
    ) -> Result<Self, Error> {
        for stream in &mut streams {
            stream.sampler = StreamSampler::new(sample, stream.udp.is_some());
        }
        let what = || "create the threads of a test".to_string();
        let (shared, wake) = SharedState::new().attempted(what)?;
        let mut running = StreamThreads {
            shared: Arc::new(shared),
            streams: streams.into(),
            threads: Vec::new(),
            wake,
            used: Default::default(),
            busiest: None,
        };
        for index in 0..running.streams.len() {
            let (streams, shared, spec) = (running.streams.clone(), running.shared.clone(), spec.clone());
            let cpu = (!pin.is_empty()).then(|| pin[index % pin.len()]);
            let body = move || {
                if shared.wait_for_begin() {
                    let pinned = cpu
                        .map_or(Ok(()), |cpu| os::set_allowed_cpus(&[cpu]))
                        .attempted(|| format!("run a stream on processor {}", cpu.unwrap_or_default()));
                    if let Err(error) = pinned.and_then(|()| streams[index].run(&spec, &shared)) {
                        shared.fail(error);
                    }
                    streams[index].sampler.on_thread_end();
                    shared.wake();
                }
                let (user, system) = os::thread_usage();
                ThreadUsage { user, system, waited: sys::thread_wait() }
            };
            let thread = std::thread::Builder::new().name("stream".into()).stack_size(STACK_BYTES);
            running.threads.push(thread.spawn(body).attempted(what)?);
        }
        Ok(running)
    }

    /// Starts the data.
    pub(crate) fn begin(&self) -> Instant {
        self.shared.begin()
    }

    pub(crate) fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// A descriptor that becomes readable when a thread has an event for the control thread.
    pub(crate) fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Clears the wake-ups of the threads.
    pub(crate) fn clear_wake_ups(&mut self) -> Result<(), Error> {
        use std::io::Read;
        // One read takes all wake-ups: there are at most a few bytes for each thread. It does not block,
        // because the pipe is readable.
        self.wake.read(&mut [0; 4096]).map(drop).attempted(|| "read from the threads of a test".into())
    }

    /// Takes a snapshot of all streams.
    pub(crate) fn snapshots(&self) -> Vec<StreamSnapshot> {
        self.streams.iter().map(Stream::snapshot).collect()
    }

    /// When the control thread has to sample a stream for the record, time since the data began.
    pub(crate) fn next_sample(&self) -> Option<Duration> {
        self.streams.iter().filter_map(|stream| stream.sampler.next_due_us()).min().map(Duration::from_micros)
    }

    /// Samples the overdue streams; `all`: also those that seem idle.
    pub(crate) fn sample_overdue(&self, all: bool) {
        self.streams.iter().for_each(|stream| stream.sampler.sample_if_overdue(stream, &self.shared, all));
    }

    /// The new rows in order of time, each returned once; without `all` only rows before which no other can
    /// be added.
    pub(crate) fn take_rows(&self, all: bool) -> Vec<FlowSample> {
        let complete = self.streams.iter().map(|stream| stream.sampler.due_us()).min();
        let until_us = complete.filter(|_| !all).unwrap_or(u64::MAX);
        let mut rows = Vec::new();
        self.streams.iter().for_each(|stream| stream.sampler.take_rows(until_us, &mut rows));
        rows.sort_by_key(|row| row.time_us);
        rows
    }

    /// Payload of all streams together.
    pub(crate) fn bytes(&self) -> u64 {
        self.streams.iter().map(Stream::bytes).sum()
    }

    /// Stops senders after their current block.
    pub(crate) fn end_sending(&self) {
        self.shared.end_sending();
        for stream in self.streams.iter().filter(|stream| stream.sends && stream.udp.is_some()) {
            stream.end();
        }
    }

    /// Whether all data has been sent and acknowledged.
    pub(crate) fn has_delivered_all(&self) -> bool {
        self.shared.has_sent_all()
            && self.threads.iter().zip(&*self.streams).all(|(t, s)| !s.sends || t.is_finished())
            && self.streams.iter().all(Stream::is_acknowledged)
    }

    /// Whether all threads have ended, and all sent data is acknowledged.
    pub(crate) fn have_all_ended(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished) && self.streams.iter().all(Stream::is_acknowledged)
    }

    /// Ends the streams whose senders have sent everything, so that their receivers read the end.
    pub(crate) fn finish_ended_senders(&self) {
        let ended = self.threads.iter().zip(&*self.streams).filter(|(t, s)| s.sends && t.is_finished());
        ended.for_each(|(_, stream)| stream.end());
    }

    /// Whether every receiver has the number of bytes that `sent` returns for its stream's number, or has
    /// reached the end.
    pub(crate) fn has_received(&self, sent: impl Fn(u32) -> u64) -> bool {
        let has = |(thread, stream): (&JoinHandle<ThreadUsage>, &Stream)| {
            stream.sends || thread.is_finished() || stream.bytes() >= sent(stream.id)
        };
        self.threads.iter().zip(&*self.streams).all(has)
    }

    /// Ends all threads. Receivers read what has arrived; sent data is still delivered.
    pub(crate) fn end(&mut self) {
        self.shared.end();
        self.streams.iter().for_each(Stream::end);
        for thread in self.threads.drain(..) {
            // The processor time of a thread that panicked is unknown.
            let used = thread.join().unwrap_or_default();
            self.used.0 += used.user;
            self.used.1 += used.system;
            self.busiest = self.busiest.max(used.waited.map(|waited| used.user + used.system + waited));
        }
    }

    /// Processor time over `wall`; `own` is that of the control thread.
    pub(crate) fn cpu(&self, own: (Duration, Duration), wall: Duration) -> Cpu {
        let wall = wall.as_secs_f64().max(1e-6);
        let user = (self.used.0 + own.0).as_secs_f64() / wall * 100.0;
        let system = (self.used.1 + own.1).as_secs_f64() / wall * 100.0;
        Cpu { total: user + system, user, system }
    }

    /// The fraction of `wall` in which the busiest thread ran or waited for a processor, once the threads
    /// have ended.
    pub(crate) fn busy(&self, wall: Duration) -> Option<f64> {
        Some((self.busiest?.as_secs_f64() / wall.as_secs_f64().max(1e-6)).min(1.0))
    }
}

impl Drop for StreamThreads {
    fn drop(&mut self) {
        self.shared.end();
        self.streams.iter().for_each(Stream::discard_undelivered);
        self.end();
    }
}
