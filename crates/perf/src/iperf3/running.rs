//! The streams of a running test and their threads. However a test ends, no thread and no socket of it is left.

use std::{
    io::PipeReader,
    os::fd::{AsFd, BorrowedFd},
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use schema::FlowSample;

use crate::{
    Error,
    error::Attempted,
    iperf3::{
        looking::Looking,
        shared::Shared,
        stream::{Look, Stream},
    },
    report::{Cpu, TestSpec},
    sys,
};

/// A thread's stack: its buffers are on the heap.
const STACK_BYTES: usize = 256 << 10;

/// A test's streams, each with a thread of its own.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) shared: Arc<Shared>,
    streams: Arc<[Stream]>,
    threads: Vec<JoinHandle<Used>>,
    wake: PipeReader,
    /// The processor time that the threads used, once they have ended.
    used: (Duration, Duration),
    /// The longest that one of them ran or waited for a processor; `None` where the kernel does not tell.
    busiest: Option<Duration>,
}

/// What a stream's thread used.
#[derive(Debug, Clone, Copy, Default)]
struct Used {
    user: Duration,
    system: Duration,
    /// In which it could have run and no processor was free.
    waited: Option<Duration>,
}

impl Running {
    /// Makes the threads, which wait for [`Running::begin`]. Thread `i` is pinned to processor `pin[i % pin.len()]`. Streams are
    /// looked at for the record each `sample`.
    pub(crate) fn prepare(
        mut streams: Vec<Stream>,
        spec: &Arc<TestSpec>,
        pin: &[usize],
        sample: Option<Duration>,
    ) -> Result<Self, Error> {
        for stream in &mut streams {
            stream.looking = Looking::new(sample, stream.udp.is_some());
        }
        let what = || "cannot make the threads of a test".to_string();
        let (shared, wake) = Shared::new().attempted(what)?;
        let mut running = Running {
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
                    let pinned = cpu.map_or(Ok(()), sys::pin_thread).attempted(|| {
                        format!("cannot run a stream on processor {}", cpu.unwrap_or_default())
                    });
                    if let Err(error) = pinned.and_then(|()| streams[index].run(&spec, &shared)) {
                        shared.fail(error);
                    }
                    streams[index].looking.is_left();
                    shared.wake();
                }
                let (user, system) = sys::thread_time();
                Used { user, system, waited: sys::thread_wait() }
            };
            let thread = std::thread::Builder::new().name("stream".into()).stack_size(STACK_BYTES);
            running.threads.push(thread.spawn(body).attempted(what)?);
        }
        Ok(running)
    }

    /// Lets the data begin.
    pub(crate) fn begin(&self) -> Instant {
        self.shared.begin()
    }

    pub(crate) fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// What becomes readable when a thread has something to tell.
    pub(crate) fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Takes what the threads wrote to wake us.
    pub(crate) fn take_wakes(&mut self) -> Result<(), Error> {
        use std::io::Read;
        // One read takes them all: there is at most a few bytes for each thread. It does not block, for there is something.
        self.wake.read(&mut [0; 4096]).map(drop).attempted(|| "cannot read from the threads of a test".into())
    }

    /// Looks at all streams.
    pub(crate) fn look(&self) -> Vec<Look> {
        self.streams.iter().map(Stream::look).collect()
    }

    /// When a stream is to be looked at for the record by whoever conducts the test, time since the data began.
    pub(crate) fn next_look(&self) -> Option<Duration> {
        self.streams.iter().filter_map(|stream| stream.looking.wanted_us()).min().map(Duration::from_micros)
    }

    /// Does so; `all`: at all that nobody looked at in time.
    pub(crate) fn look_for_record(&self, all: bool) {
        self.streams.iter().for_each(|stream| stream.looking.help(stream, &self.shared, all));
    }

    /// The rows of these looks in order of time, each once; without `all` those to which no older one can be added.
    pub(crate) fn take_rows(&self, all: bool) -> Vec<FlowSample> {
        let complete = self.streams.iter().map(|stream| stream.looking.due_us()).min();
        let until_us = complete.filter(|_| !all).unwrap_or(u64::MAX);
        let mut rows = Vec::new();
        self.streams.iter().for_each(|stream| stream.looking.take_rows(until_us, &mut rows));
        rows.sort_by_key(|row| row.time_us);
        rows
    }

    /// Payload of all streams together.
    pub(crate) fn bytes(&self) -> u64 {
        self.streams.iter().map(Stream::bytes).sum()
    }

    /// Senders stop after what they are at.
    pub(crate) fn end_sending(&self) {
        self.shared.end_sending();
        for stream in self.streams.iter().filter(|stream| stream.sends && stream.udp.is_some()) {
            stream.end();
        }
    }

    /// All that was to be sent was, and is acknowledged.
    pub(crate) fn has_delivered_all(&self) -> bool {
        self.shared.has_sent_all()
            && self.threads.iter().zip(&*self.streams).all(|(t, s)| !s.sends || t.is_finished())
            && self.streams.iter().all(Stream::is_acknowledged)
    }

    /// Every receiver has what `sent` says of its stream's number, or its end.
    pub(crate) fn has_received(&self, sent: impl Fn(u32) -> u64) -> bool {
        let has = |(thread, stream): (&JoinHandle<Used>, &Stream)| {
            stream.sends || thread.is_finished() || stream.bytes() >= sent(stream.id)
        };
        self.threads.iter().zip(&*self.streams).all(has)
    }

    /// Ends all threads. Receivers take what has come; what was sent still goes.
    pub(crate) fn end(&mut self) {
        self.shared.end();
        self.streams.iter().for_each(Stream::end);
        for thread in self.threads.drain(..) {
            // A thread that panicked has no processor time to tell.
            let used = thread.join().unwrap_or_default();
            self.used.0 += used.user;
            self.used.1 += used.system;
            self.busiest = self.busiest.max(used.waited.map(|waited| used.user + used.system + waited));
        }
    }

    /// Processor time over `wall`, with that of the thread that conducted the test: `own` is what it has used.
    pub(crate) fn cpu(&self, own: (Duration, Duration), wall: Duration) -> Cpu {
        let wall = wall.as_secs_f64().max(1e-6);
        let user = (self.used.0 + own.0).as_secs_f64() / wall * 100.0;
        let system = (self.used.1 + own.1).as_secs_f64() / wall * 100.0;
        Cpu { total: user + system, user, system }
    }

    /// How much of `wall` the busiest thread ran or waited for a processor, once they have ended.
    pub(crate) fn busy(&self, wall: Duration) -> Option<f64> {
        Some((self.busiest?.as_secs_f64() / wall.as_secs_f64().max(1e-6)).min(1.0))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.end();
        self.streams.iter().for_each(Stream::forget);
        self.end();
    }
}
