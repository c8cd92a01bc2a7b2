//! Captures: packets of a host or of a link's direction, in files that Wireshark and tcpdump read.
//!
//! The emulator's thread encodes the blocks of a file ([`::capture::pcapng_writer`]) and passes them to a
//! writer thread; it never waits for the disk. Packets that exceed the limit of pending bytes are counted as
//! missed, in the file (epb_dropcount) and in [`CaptureEnd`]. Only whole blocks are passed to the kernel. If
//! the process is killed during such a write, the file ends inside a block: readers report that and show all
//! packets before it.
//!
//! Timestamps are of the run's clock, which is compared with UTC once: steps of the machine's clock have no
//! effect. A host's packets are timestamped when the emulator read them and when they were due at the host; a
//! link's packets when they leave the link. The segments of a super-packet are spread evenly over its
//! duration.
//!
//! Known limit: segments are written in the order in which their super-packets completed, so in a file with
//! both directions of a link, timestamps can decrease by a super-packet's duration (`reordercap` sorts them).
//!
//! All captures of a lab are here; `file.rs` has one capture with its file and writer thread.

mod file;

use std::{
    io::Write,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
};

use net::{PipeId, TrainTimes};
use units::Bytes;

use self::file::{Capture, create};
use crate::{Error, clock::RunTime, error::Attempted, sys};
pub(crate) use ::capture::pcapng_writer::PacketDirection;

/// Default limit of bytes that wait for the disk: half a second at 1 Gb/s.
const MAX_PENDING_BYTES: Bytes = Bytes(64 << 20);
/// How often both clocks are read to compare them.
const CLOCK_READINGS: usize = 5;

/// A point at which packets are captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CapturePoint {
    /// A host's interface, by its station number; both directions.
    Host(u32),
    /// One direction of a link, at its far end.
    Pipe(PipeId),
}

/// A point and its interface name in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tap {
    pub(crate) point: CapturePoint,
    /// Such as `h1-eth0`.
    pub(crate) name: String,
    /// Text for the reader of the file.
    pub(crate) description: String,
}

/// Options of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CaptureOptions {
    /// Maximum number of bytes stored of each packet.
    pub(crate) snaplen: Option<u32>,
    /// Maximum number of bytes that wait for the disk.
    pub(crate) max_pending: Bytes,
}

impl Default for CaptureOptions {
    fn default() -> Self {
        CaptureOptions { snaplen: None, max_pending: MAX_PENDING_BYTES }
    }
}

/// Identifier of a started capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CaptureId(u64);

/// How a capture ended.
#[derive(Debug)]
pub(crate) struct CaptureEnd {
    /// Its name.
    pub(crate) name: String,
    /// Packets in the file; if writing failed, some of them are missing.
    pub(crate) packets: u64,
    /// Packets that are not in the file.
    pub(crate) missed: u64,
    /// Why the file is incomplete.
    pub(crate) failed: Option<Error>,
}

impl CaptureEnd {
    /// A note for the run's quality, if the capture is not complete.
    pub(crate) fn note(&self) -> Option<String> {
        let (name, missed, all) = (&self.name, self.missed, self.missed + self.packets);
        match &self.failed {
            Some(error) => Some(format!("the capture of {name} is not complete: {error}")),
            None if missed == 0 => None,
            None => {
                Some(format!("the capture of {name} missed {missed} of {all} packets: the disk was too slow"))
            }
        }
    }
}

/// All captures of a lab. Clones share them, for use on any thread.
#[derive(Debug, Clone)]
pub(crate) struct Captures(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// UTC minus CLOCK_MONOTONIC, ns.
    utc_offset_ns: u64,
    /// The run's time, whose start is known when the driver runs.
    time: RunTime,
    /// Whether there is any capture. Without one the emulator reads only this.
    is_active: AtomicBool,
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    started: u64,
    active: Vec<Capture>,
}

impl Captures {
    /// Creates an empty set of captures for the run with the clock `time`.
    pub(crate) fn new(time: RunTime) -> Self {
        Captures(Arc::new(Inner {
            utc_offset_ns: utc_offset_ns(),
            time,
            is_active: AtomicBool::new(false),
            list: Mutex::default(),
        }))
    }

    /// Starts to capture the packets at `taps` to the file `path`. An existing file is overwritten.
    pub(crate) fn start(
        &self,
        name: &str,
        taps: &[Tap],
        path: &Path,
        options: &CaptureOptions,
    ) -> Result<CaptureId, Error> {
        let what = format!("write {}", path.display());
        let file = create(path).attempted(|| what.clone())?;
        self.begin(name, taps, Box::new(file), what, options)
    }

    fn begin(
        &self,
        name: &str,
        taps: &[Tap],
        out: Box<dyn Write + Send>,
        what: String,
        options: &CaptureOptions,
    ) -> Result<CaptureId, Error> {
        let mut capture = Capture::new(name, taps, out, what, options)?;
        let mut list = self.list();
        list.started += 1;
        capture.id = CaptureId(list.started);
        list.active.push(capture);
        self.0.is_active.store(true, Ordering::Release);
        Ok(CaptureId(list.started))
    }

    /// Ends a capture and waits until its file is complete. `None` if there is no such capture, or if it has
    /// ended.
    pub(crate) fn stop(&self, id: CaptureId) -> Option<CaptureEnd> {
        let mut list = self.list();
        let index = list.active.iter().position(|capture| capture.id == id)?;
        let capture = list.active.remove(index);
        self.0.is_active.store(!list.active.is_empty(), Ordering::Release);
        // Unlock first: the disk may be slow, and the emulator must not wait for it.
        drop(list);
        Some(capture.end())
    }

    /// Ends all captures, in the order in which they were started.
    pub(crate) fn stop_all(&self) -> Vec<CaptureEnd> {
        let ids: Vec<CaptureId> = self.list().active.iter().map(|capture| capture.id).collect();
        ids.into_iter().filter_map(|id| self.stop(id)).collect()
    }

    /// Whether any capture is active. This is the whole cost for a run without captures.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.0.is_active.load(Ordering::Relaxed)
    }

    /// Whether packets of `point` are captured.
    #[inline]
    pub(crate) fn is_captured(&self, point: CapturePoint) -> bool {
        self.is_active() && self.list().active.iter().any(|capture| capture.interface(point).is_some())
    }

    /// Captures a packet of `count` segments at `point`; `train` has the times of its first and last segment
    /// since the run's start. `segments` calls its argument with the Ethernet bytes of each segment, in
    /// order.
    pub(crate) fn take(
        &self,
        point: CapturePoint,
        direction: PacketDirection,
        train: TrainTimes,
        count: u32,
        segments: impl Fn(&mut dyn FnMut(&[u8])),
    ) {
        for capture in &mut self.list().active {
            if let Some(interface) = capture.interface(point) {
                capture.take(interface, direction, &|i| self.timestamp(train, i, count), &segments);
            }
        }
    }

    /// Timestamp of segment `index` of `count`, ns since 1970.
    fn timestamp(&self, train: TrainTimes, index: u64, count: u32) -> u64 {
        let span = u128::from(train.last.saturating_since(train.first).as_nanos());
        let gaps = u128::from(count.saturating_sub(1).max(1));
        let into = span * u128::from(index).min(gaps) / gaps;
        let at = if count > 1 { train.first.as_nanos() + into as u64 } else { train.last.as_nanos() };
        self.0.utc_offset_ns + self.0.time.start().as_nanos() + at
    }

    /// Locks the list; it stays valid if a thread panicked while holding the lock.
    fn list(&self) -> MutexGuard<'_, List> {
        self.0.list.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// UTC (nanoseconds since 1970) minus CLOCK_MONOTONIC. The clocks cannot be read at once, so the readings
/// with the shortest interval between them count.
fn utc_offset_ns() -> u64 {
    let read = |_| {
        let before = sys::monotonic().as_nanos();
        let utc = os::realtime_ns() as u64;
        let after = sys::monotonic().as_nanos();
        (after - before, utc.saturating_sub(before.midpoint(after)))
    };
    (0..CLOCK_READINGS).map(read).min().map_or(0, |(_, offset)| offset)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use units::Instant;

    use super::*;
    use crate::clock::{Clock, TimeMode};
    use ::capture::pcapng_writer::inspect::read;

    /// Captures of a run that starts now, and UTC at its start.
    pub(super) fn captures() -> (Captures, u64) {
        let captures = Captures::new(RunTime::begin(TimeMode::Real));
        let start_ns = captures.0.utc_offset_ns + captures.0.time.start().as_nanos();
        (captures, start_ns)
    }

    pub(super) fn taps(points: &[CapturePoint]) -> Vec<Tap> {
        let tap = |(i, point): (usize, &CapturePoint)| Tap {
            point: *point,
            name: format!("tap{i}"),
            description: "for a test".into(),
        };
        points.iter().enumerate().map(tap).collect()
    }

    pub(super) fn host(n: u32) -> CapturePoint {
        CapturePoint::Host(n)
    }

    /// An ARP request of 42 bytes; `n` is part of the sender's address.
    pub(super) fn frame(n: u8) -> Vec<u8> {
        let mut bytes = vec![0xff; 6];
        bytes.extend([2, 0, 0, 0, 0, n, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        bytes.extend([2, 0, 0, 0, 0, n, 10, 0, 0, n, 0, 0, 0, 0, 0, 0, 10, 0, 0, 99]);
        bytes
    }

    pub(super) fn take(
        captures: &Captures,
        point: CapturePoint,
        direction: PacketDirection,
        train: TrainTimes,
        frames: &[Vec<u8>],
    ) {
        captures
            .take(point, direction, train, frames.len() as u32, |each| frames.iter().for_each(|f| each(f)));
    }

    #[test]
    fn a_file_has_the_packets_of_its_taps_with_utc_timestamps() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("h1.pcapng");
        let (captures, start_ns) = captures();
        assert!(!captures.is_captured(host(0)));
        let pipe = CapturePoint::Pipe(PipeId { link: 3, direction: net::Direction::Backward });
        let id = captures.start("h1", &taps(&[host(0), pipe]), &path, &CaptureOptions::default()).unwrap();
        assert!(
            captures.is_captured(host(0)) && captures.is_captured(pipe) && !captures.is_captured(host(1))
        );
        take(&captures, host(0), PacketDirection::Out, TrainTimes::at(Instant::from_nanos(5)), &[frame(1)]);
        take(&captures, host(1), PacketDirection::Out, TrainTimes::at(Instant::from_nanos(6)), &[frame(2)]);
        let train = TrainTimes { first: Instant::from_nanos(1000), last: Instant::from_nanos(4000) };
        take(&captures, pipe, PacketDirection::Unspecified, train, &[frame(3), frame(4), frame(5), frame(6)]);
        let end = captures.stop(id).unwrap();
        assert_eq!((end.packets, end.missed, end.note()), (5, 0, None));
        assert!(!captures.is_active() && captures.stop(id).is_none());

        let (names, packets) = read(&std::fs::read(&path).unwrap());
        assert_eq!(names, ["tap0", "tap1"]);
        let timestamps: Vec<u64> = packets.iter().map(|p| p.timestamp_ns - start_ns).collect();
        assert_eq!(timestamps, [5, 1000, 2000, 3000, 4000], "a train's segments are spread evenly");
        assert_eq!((packets[0].flags, packets[0].interface, &packets[0].bytes), (Some(2), 0, &frame(1)));
        assert_eq!((packets[4].flags, packets[4].interface, &packets[4].bytes), (None, 1, &frame(6)));
    }

    /// The run's time restarts when the driver's thread runs, long after the captures were prepared on a busy
    /// machine, or, in virtual time, at the second whole second.
    #[test]
    fn timestamps_are_utc_counted_from_the_start_of_the_driver() {
        const TOLERANCE_NS: u64 = 50_000_000;
        for mode in [TimeMode::Real, TimeMode::Virtual] {
            let time = RunTime::begin(mode);
            let captures = Captures::new(time.clone());
            std::thread::sleep(std::time::Duration::from_millis(200));
            Clock::new(time.clone(), &[]).start();
            let utc = utc_offset_ns() + time.start().as_nanos();
            let first = captures.timestamp(TrainTimes::at(Instant::ZERO), 0, 1);
            assert!(first.abs_diff(utc) < TOLERANCE_NS, "{mode:?}: {} ns", first as i64 - utc as i64);
        }
    }

    #[test]
    fn tshark_reads_the_file() {
        if Command::new("tshark").arg("--version").output().is_err() {
            testing::skip(testing::Missing::Tool, "there is no tshark here");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("h1.pcapng");
        let (captures, start_ns) = captures();
        let options = CaptureOptions { snaplen: Some(30), ..CaptureOptions::default() };
        captures.start("h1", &taps(&[host(0)]), &path, &options).unwrap();
        take(&captures, host(0), PacketDirection::Out, TrainTimes::at(Instant::from_nanos(1)), &[frame(1)]);
        take(
            &captures,
            host(0),
            PacketDirection::In,
            TrainTimes::at(Instant::from_nanos(1_000_000_007)),
            &[frame(2)],
        );
        assert_eq!(captures.stop_all().len(), 1);
        let fields = [
            "frame.time_epoch",
            "frame.interface_name",
            "frame.packet_flags_direction",
            "frame.len",
            "frame.cap_len",
        ];
        let fields = fields.iter().flat_map(|f| ["-e", f]);
        let ran = Command::new("tshark")
            .arg("-r")
            .arg(&path)
            .args(["-T", "fields"])
            .args(fields)
            .env("TZ", "UTC")
            .output()
            .unwrap();
        let lines: Vec<Vec<String>> = String::from_utf8_lossy(&ran.stdout)
            .lines()
            .map(|l| l.split_whitespace().map(Into::into).collect())
            .collect();
        assert_eq!(lines.len(), 2, "{ran:?}");
        // Newer versions print times as in ISO 8601, older ones as seconds.
        let nanos = [1, 1_000_000_007].map(|at| format!("{:09}", (start_ns + at) % 1_000_000_000));
        let direction = ["0x00000002", "0x00000001"];
        for (i, line) in lines.iter().enumerate() {
            assert!(line[0].trim_end_matches('Z').ends_with(&nanos[i]), "{line:?}");
            let number = |text: &str| u32::from_str_radix(text.trim_start_matches("0x"), 16);
            assert_eq!(line[1], "tap0");
            assert_eq!(number(&line[2]), number(direction[i]), "{line:?}");
            assert_eq!(line[3..], ["42", "30"]);
        }
    }
}
