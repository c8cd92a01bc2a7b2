//! A second thread that writes large frames to their hosts while the driver is behind.
//!
//! Beyond some 20 Gb/s copying each frame twice is more than one processor does. Then the driver hands what is due to this
//! thread and goes on reading. It runs where the hosts' programs do; it sleeps unless it is needed. Frames for one host
//! keep their order: while the writer has some of a host, it gets all of that host's.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use units::Time;

use crate::{clock::RunTime, frame::Frame, port::Port, processors::move_to, sys};

/// So late the driver lets the writer help, ns: later than a nap makes it.
const BEHIND: u64 = 60_000;
/// Shorter frames are copied faster than handed over, bytes.
const LARGE: usize = 16 << 10;
/// Most frames handed over and not yet written: the driver waits for the writer then.
const QUEUE: usize = 256;
/// Its real-time priority: below the driver's.
const PRIORITY: i32 = 15;

/// A frame on its way to a host's port, due at `at`.
struct Job {
    station: u32,
    at: Time,
    frame: Frame,
}

/// What became of a frame.
pub(crate) struct Written {
    pub(crate) station: u32,
    /// When it was due.
    pub(crate) at: Time,
    /// To be used again.
    pub(crate) frame: Frame,
    /// How long after its time it was written, ns.
    pub(crate) late: u64,
    /// The host took it.
    pub(crate) taken: bool,
}

/// The driver's side.
pub(crate) struct Writer {
    jobs: SyncSender<Job>,
    written: Receiver<Written>,
    /// Frames that the writer has, by station.
    pending: Vec<u32>,
}

impl Writer {
    /// The driver's side, and the thread's work: to be run until this side is dropped.
    pub(crate) fn new<'a>(
        ports: &'a [Port],
        time: RunTime,
        cpus: &'a [usize],
    ) -> (Self, impl FnOnce() + Send + use<'a>) {
        let (jobs, inbox) = sync_channel::<Job>(QUEUE);
        let (outbox, written) = channel();
        let work = move || {
            move_to(Some(cpus));
            // Where it is refused the driver's is as well, and says so.
            let _ = sys::set_real_time(PRIORITY);
            run(&inbox, &outbox, ports, &time);
        };
        (Writer { jobs, written, pending: vec![0; ports.len()] }, work)
    }

    /// Takes a frame for `station` that is `late` nanoseconds late, or gives it back where the driver is to write it.
    pub(crate) fn take(&mut self, station: u32, at: Time, late: u64, frame: Frame) -> Result<(), Frame> {
        let pending = &mut self.pending[station as usize];
        if *pending == 0 && (late < BEHIND || frame.bytes().len() < LARGE) {
            return Err(frame);
        }
        *pending += 1;
        self.jobs.send(Job { station, at, frame }).map_err(|e| e.0.frame)
    }

    /// What was written since.
    pub(crate) fn written(&mut self) -> Option<Written> {
        let written = self.written.try_recv().ok()?;
        self.pending[written.station as usize] -= 1;
        Some(written)
    }

    /// Ends the thread when it has written what it has; the rest of what was written.
    pub(crate) fn finish(self) -> impl Iterator<Item = Written> {
        drop(self.jobs);
        self.written.into_iter()
    }
}

fn run(jobs: &Receiver<Job>, written: &Sender<Written>, ports: &[Port], time: &RunTime) {
    while let Ok(Job { station, at, frame }) = jobs.recv() {
        let late = time.now().0.saturating_sub(at.0);
        let taken = ports[station as usize].write(frame.bytes());
        // The driver may have ended.
        let _ = written.send(Written { station, at, frame, late, taken });
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        os::{fd::OwnedFd, unix::net::UnixDatagram},
    };

    use super::*;
    use crate::{clock::TimeMode, sys};

    /// A frame of `len` bytes that says its number.
    fn frame(number: u8, len: usize) -> Frame {
        let mut bytes = vec![0; len];
        bytes[len - 1] = number;
        Frame::new(bytes, len).unwrap_or_else(|_| panic!("{len} bytes are a frame"))
    }

    #[test]
    fn what_is_due_is_taken_by_need_and_keeps_its_order() {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        let ports = [Port::onto(File::from(OwnedFd::from(ours)))];
        let cpus = sys::allowed_cpus().unwrap();
        let (mut writer, work) = Writer::new(&ports, RunTime::begin(TimeMode::Real), &cpus);
        assert!(writer.take(0, Time(0), BEHIND - 1, frame(0, LARGE)).is_err(), "in time");
        assert!(writer.take(0, Time(0), BEHIND, frame(0, 100)).is_err(), "small");
        assert!(writer.take(0, Time(0), BEHIND, frame(1, LARGE)).is_ok());
        assert!(writer.take(0, Time(0), 0, frame(2, 100)).is_ok(), "in time and small, but behind another");
        std::thread::scope(|scope| {
            scope.spawn(work);
            for number in [1, 2] {
                let mut bytes = vec![0; LARGE];
                let len = theirs.recv(&mut bytes).unwrap();
                assert_eq!(bytes[len - 1], number);
            }
            let mut written = Vec::new();
            while written.len() < 2 {
                written.extend(writer.written());
            }
            assert!(written.iter().all(|w| w.taken && w.late > 0));
            assert!(writer.take(0, Time(0), 0, frame(3, 100)).is_err(), "nothing is before it any more");
            assert!(writer.take(0, Time(0), BEHIND, frame(4, LARGE)).is_ok());
            let rest: Vec<Frame> = writer.finish().map(|written| written.frame).collect();
            assert_eq!(rest[0].bytes().last(), Some(&4), "what it still had is written first");
        });
    }
}
