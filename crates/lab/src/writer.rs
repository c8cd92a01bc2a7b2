//! A second thread that writes large frames to their hosts while the driver is behind.
//!
//! Beyond some 20 Gb/s copying each frame twice takes more than one processor. Then the driver passes due
//! frames to this thread and continues reading. It runs on the processors of the hosts' programs, and sleeps
//! unless it is needed. Frames for one host keep their order: while the writer has frames of a host, it gets
//! all further frames of that host.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use units::Instant;

use crate::{clock::RunTime, frame::Frame, port::Port, processors::move_to, sys};

/// Lateness from which on the driver uses the writer, ns: more than a pause causes.
const MIN_LATENESS_NS: u64 = 60_000;
/// Minimum size of a frame for the writer, bytes: smaller ones are copied faster than passed on.
const MIN_FRAME_BYTES: usize = 16 << 10;
/// Maximum number of frames passed on and not yet written. At this number the driver waits for the writer.
const MAX_QUEUED_FRAMES: usize = 256;
/// Real-time priority of the writer, below the driver's.
const PRIORITY: i32 = 15;

/// A frame to be written to a host's port, due at `at`.
struct WriteJob {
    station: u32,
    at: Instant,
    frame: Frame,
}

/// A frame after writing.
pub(crate) struct Written {
    pub(crate) station: u32,
    /// When it was due.
    pub(crate) at: Instant,
    /// Its buffer can be reused.
    pub(crate) frame: Frame,
    /// How late it was written, ns.
    pub(crate) late: u64,
    /// The host accepted it.
    pub(crate) accepted: bool,
}

/// The driver's side.
pub(crate) struct Writer {
    jobs: SyncSender<WriteJob>,
    written: Receiver<Written>,
    /// Number of frames that the writer has, by station.
    pending: Vec<u32>,
}

impl Writer {
    /// Returns the driver's side, and the function of the thread, which runs until this side is dropped.
    pub(crate) fn new<'a>(
        ports: &'a [Port],
        time: RunTime,
        cpus: &'a [usize],
    ) -> (Self, impl FnOnce() + Send + use<'a>) {
        let (jobs, inbox) = sync_channel::<WriteJob>(MAX_QUEUED_FRAMES);
        let (outbox, written) = channel();
        let work = move || {
            move_to(Some(cpus));
            // If the kernel refuses, it refuses the driver's as well, which reports it.
            let _ = sys::set_real_time(PRIORITY);
            run(&inbox, &outbox, ports, &time);
        };
        (Writer { jobs, written, pending: vec![0; ports.len()] }, work)
    }

    /// Takes a frame for `station` that is `late` nanoseconds late, or returns it if the driver should write
    /// it.
    pub(crate) fn take(&mut self, station: u32, at: Instant, late: u64, frame: Frame) -> Result<(), Frame> {
        let pending = &mut self.pending[station as usize];
        if *pending == 0 && (late < MIN_LATENESS_NS || frame.bytes().len() < MIN_FRAME_BYTES) {
            return Err(frame);
        }
        *pending += 1;
        self.jobs.send(WriteJob { station, at, frame }).map_err(|e| e.0.frame)
    }

    /// The next frame that the writer has written.
    pub(crate) fn written(&mut self) -> Option<Written> {
        let written = self.written.try_recv().ok()?;
        self.pending[written.station as usize] -= 1;
        Some(written)
    }

    /// Ends the thread after it has written its frames; returns those not yet collected.
    pub(crate) fn finish(self) -> impl Iterator<Item = Written> {
        drop(self.jobs);
        self.written.into_iter()
    }
}

fn run(jobs: &Receiver<WriteJob>, written: &Sender<Written>, ports: &[Port], time: &RunTime) {
    while let Ok(WriteJob { station, at, frame }) = jobs.recv() {
        let late = time.now().saturating_since(at).as_nanos();
        let accepted = ports[station as usize].write(frame.bytes());
        // The driver may have ended.
        let _ = written.send(Written { station, at, frame, late, accepted });
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        os::{fd::OwnedFd, unix::net::UnixDatagram},
    };

    use super::*;
    use crate::clock::TimeMode;

    /// A frame of `len` bytes with its number in the last.
    fn frame(number: u8, len: usize) -> Frame {
        let mut bytes = vec![0; len];
        bytes[len - 1] = number;
        Frame::new(bytes, len).unwrap_or_else(|_| panic!("{len} bytes are a frame"))
    }

    #[test]
    fn late_large_frames_are_passed_to_the_writer_in_order() {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        let ports = [Port::onto(File::from(OwnedFd::from(ours)))];
        let cpus = os::allowed_cpus().unwrap();
        let (mut writer, work) = Writer::new(&ports, RunTime::begin(TimeMode::Real), &cpus);
        assert!(
            writer.take(0, Instant::ZERO, MIN_LATENESS_NS - 1, frame(0, MIN_FRAME_BYTES)).is_err(),
            "in time"
        );
        assert!(writer.take(0, Instant::ZERO, MIN_LATENESS_NS, frame(0, 100)).is_err(), "small");
        assert!(writer.take(0, Instant::ZERO, MIN_LATENESS_NS, frame(1, MIN_FRAME_BYTES)).is_ok());
        assert!(
            writer.take(0, Instant::ZERO, 0, frame(2, 100)).is_ok(),
            "in time and small, but behind another"
        );
        std::thread::scope(|scope| {
            scope.spawn(work);
            for number in [1, 2] {
                let mut bytes = vec![0; MIN_FRAME_BYTES];
                let len = theirs.recv(&mut bytes).unwrap();
                assert_eq!(bytes[len - 1], number);
            }
            let mut written = Vec::new();
            while written.len() < 2 {
                written.extend(writer.written());
            }
            assert!(written.iter().all(|w| w.accepted && w.late > 0));
            assert!(writer.take(0, Instant::ZERO, 0, frame(3, 100)).is_err(), "no other frame is pending");
            assert!(writer.take(0, Instant::ZERO, MIN_LATENESS_NS, frame(4, MIN_FRAME_BYTES)).is_ok());
            let remaining: Vec<Frame> = writer.finish().map(|written| written.frame).collect();
            assert_eq!(remaining[0].bytes().last(), Some(&4), "pending frames are written before it ends");
        });
    }
}
