//! Captures: packets of a host or of a link's direction, as files that Wireshark and tcpdump read.
//!
//! The emulator's thread makes the blocks of a file ([`crate::pcapng`]) and hands them to a thread that writes; it
//! never waits for the disk. What does not fit into the bytes that may wait is counted as missed, in the file
//! (epb_dropcount) and in the capture's end. Only whole blocks are handed to the kernel. Where the process is killed
//! in the middle of such a write, the file ends inside a block: readers say so and show all packets before it.
//!
//! Stamps are of the run's own clock, set once to UTC: steps of the machine's clock do not show. A host's packets
//! are stamped when the emulator read them and when they were due at the host; a link's when they come out of it.
//! The segments of a super-packet are spread evenly over the time in which it came.
//!
//! Known limits: segments stand in the file in the order in which their super-packets were done, so where a file
//! has both directions of a link, stamps can go back by a super-packet's length (`reordercap` sorts them).

use std::{
    fs::File,
    io::{self, Write},
    os::unix::fs::{FileTypeExt, OpenOptionsExt},
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread::JoinHandle,
};

use net::{PipeId, Train};
use units::{Bytes, Time};

pub(crate) use crate::pcapng::Way;
use crate::{
    Error,
    error::Attempted,
    pcapng::{self, Interface},
    sys,
};

/// Bytes that may wait for the disk unless asked otherwise: half a second at 1 Gb/s.
const WAITING_BYTES: Bytes = Bytes(64 << 20);
/// So much is written in one call where so much waits.
const WRITE_BYTES: usize = 256 << 10;

/// A place where packets are seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// A host's interface, by the number that the network knows it by; both ways.
    Host(u32),
    /// One direction of a link, at its far end.
    Pipe(PipeId),
}

/// A target and what it is called in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tap {
    pub(crate) target: Target,
    /// Such as `h1-eth0`.
    pub(crate) name: String,
    /// For people.
    pub(crate) description: String,
}

/// How to capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CaptureOptions {
    /// Most bytes kept of each packet.
    pub(crate) snaplen: Option<u32>,
    /// Most bytes that wait for the disk.
    pub(crate) waiting: Bytes,
}

impl Default for CaptureOptions {
    fn default() -> Self {
        CaptureOptions { snaplen: None, waiting: WAITING_BYTES }
    }
}

/// A capture that was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CaptureId(u64);

/// How a capture ended.
#[derive(Debug)]
pub(crate) struct CaptureEnd {
    /// What it was called.
    pub(crate) name: String,
    /// Packets in the file; where writing failed, some of them are not.
    pub(crate) packets: u64,
    /// Packets that are not in the file.
    pub(crate) missed: u64,
    /// Why it could not be written to its end.
    pub(crate) failed: Option<Error>,
}

impl CaptureEnd {
    /// What is to be said of it, if it is not complete.
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

/// All captures of a lab. Clones are handles of the same ones, for any thread.
#[derive(Debug, Clone)]
pub(crate) struct Captures(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// UTC at the run's start, nanoseconds since 1970.
    epoch_ns: u64,
    /// Whether there is any capture: all that the emulator looks at where there is none.
    on: AtomicBool,
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    started: u64,
    active: Vec<Capture>,
}

impl Captures {
    /// No capture yet; `start` is CLOCK_MONOTONIC at the run's start, which may lie a little back.
    pub(crate) fn new(start: Time) -> Self {
        let since = sys::monotonic().0.saturating_sub(start.0);
        Self::with_epoch(sys::wall_clock().0.saturating_sub(since))
    }

    fn with_epoch(epoch_ns: u64) -> Self {
        Captures(Arc::new(Inner { epoch_ns, on: AtomicBool::new(false), list: Mutex::default() }))
    }

    /// Starts to write what `taps` see to `path`. An existing file is overwritten.
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
        self.0.on.store(true, Ordering::Release);
        Ok(CaptureId(list.started))
    }

    /// Ends a capture and waits until its file is complete. `None` where there is no such capture (any more).
    pub(crate) fn stop(&self, id: CaptureId) -> Option<CaptureEnd> {
        let mut list = self.list();
        let index = list.active.iter().position(|capture| capture.id == id)?;
        let capture = list.active.remove(index);
        self.0.on.store(!list.active.is_empty(), Ordering::Release);
        // The disk may take its time; the emulator must not wait for it.
        drop(list);
        Some(capture.end())
    }

    /// Ends all captures, in the order in which they were started.
    pub(crate) fn stop_all(&self) -> Vec<CaptureEnd> {
        let ids: Vec<CaptureId> = self.list().active.iter().map(|capture| capture.id).collect();
        ids.into_iter().filter_map(|id| self.stop(id)).collect()
    }

    /// Whether anything is captured at all. This is what a run without captures pays.
    #[inline]
    pub(crate) fn on(&self) -> bool {
        self.0.on.load(Ordering::Relaxed)
    }

    /// Whether a capture wants the packets of `target`.
    #[inline]
    pub(crate) fn wants(&self, target: Target) -> bool {
        self.on() && self.list().active.iter().any(|capture| capture.interface(target).is_some())
    }

    /// Takes in a packet of `count` segments seen at `target`; `train` is when its first and last segment came, since
    /// the run's start. `segments` calls what it is given once with the Ethernet bytes of each, in order.
    pub(crate) fn take(
        &self,
        target: Target,
        way: Way,
        train: Train,
        count: u32,
        segments: impl Fn(&mut dyn FnMut(&[u8])),
    ) {
        for capture in &mut self.list().active {
            if let Some(interface) = capture.interface(target) {
                capture.take(interface, way, &|i| self.stamp(train, i, count), &segments);
            }
        }
    }

    /// When segment `index` of `count` came, in nanoseconds since 1970.
    fn stamp(&self, train: Train, index: u64, count: u32) -> u64 {
        let span = u128::from(train.last.0.saturating_sub(train.first.0));
        let gaps = u128::from(count.saturating_sub(1).max(1));
        let into = span * u128::from(index).min(gaps) / gaps;
        let at = if count > 1 { train.first.0 + into as u64 } else { train.last.0 };
        self.0.epoch_ns + at
    }

    /// A thread that panicked with the lock held leaves the list usable.
    fn list(&self) -> MutexGuard<'_, List> {
        self.0.list.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// Makes the file at `path`, never waiting for anybody. A named pipe is refused: its reader could hold the lab up.
fn create(path: &Path) -> io::Result<File> {
    if std::fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo()) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a named pipe, not a file"));
    }
    File::options().write(true).create(true).truncate(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// A capture under way. Dropping it completes its file.
#[derive(Debug)]
struct Capture {
    id: CaptureId,
    name: String,
    targets: Vec<Target>,
    snaplen: u32,
    most_waiting: u64,
    waiting: Arc<AtomicU64>,
    packets: u64,
    missed: u64,
    /// Of these, those since the last packet that was taken, for each interface.
    missed_before: Vec<u64>,
    blocks: Option<Sender<Vec<u8>>>,
    writer: Option<JoinHandle<io::Result<()>>>,
    /// What the writer attempts, for its error.
    what: String,
}

impl Capture {
    fn new(
        name: &str,
        taps: &[Tap],
        out: Box<dyn Write + Send>,
        what: String,
        options: &CaptureOptions,
    ) -> Result<Self, Error> {
        let snaplen = options.snaplen.unwrap_or(0);
        let mut begin = Vec::new();
        pcapng::section_header(&mut begin);
        for tap in taps {
            let interface = Interface { name: &tap.name, description: &tap.description, snaplen };
            pcapng::interface(&mut begin, &interface);
        }
        let waiting = Arc::new(AtomicU64::new(begin.len() as u64));
        let (blocks, taken) = channel();
        // The thread below holds the other end until it ends.
        let _ = blocks.send(begin);
        let counter = Arc::clone(&waiting);
        let writer = std::thread::Builder::new()
            .name("capture".into())
            .spawn(move || write_out(out, &taken, &counter))
            .attempted(|| "start a thread that writes a capture".into())?;
        Ok(Capture {
            id: CaptureId(0),
            name: name.into(),
            targets: taps.iter().map(|tap| tap.target).collect(),
            snaplen,
            most_waiting: options.waiting.0,
            waiting,
            packets: 0,
            missed: 0,
            missed_before: vec![0; taps.len()],
            blocks: Some(blocks),
            writer: Some(writer),
            what,
        })
    }

    /// The number of `target` among the file's interfaces.
    fn interface(&self, target: Target) -> Option<usize> {
        self.targets.iter().position(|t| *t == target)
    }

    fn take(
        &mut self,
        interface: usize,
        way: Way,
        stamp: &impl Fn(u64) -> u64,
        segments: &impl Fn(&mut dyn FnMut(&[u8])),
    ) {
        let room = self.most_waiting.saturating_sub(self.waiting.load(Ordering::Relaxed));
        let (mut blocks, mut taken, mut index) = (Vec::new(), 0, 0);
        segments(&mut |frame| {
            let packet = pcapng::Captured {
                interface: interface as u32,
                stamp_ns: stamp(index),
                way,
                frame,
                snaplen: self.snaplen,
                missed: self.missed_before[interface],
            };
            index += 1;
            let before = blocks.len();
            pcapng::packet(&mut blocks, &packet);
            if blocks.len() as u64 <= room {
                self.missed_before[interface] = 0;
                taken += 1;
            } else {
                blocks.truncate(before);
                self.missed_before[interface] += 1;
                self.missed += 1;
            }
        });
        if taken == 0 {
            return;
        }
        self.waiting.fetch_add(blocks.len() as u64, Ordering::Relaxed);
        match self.blocks.as_ref().map(|sender| sender.send(blocks)) {
            Some(Ok(())) => self.packets += taken,
            // The writer has failed; its error is told at the end.
            _ => self.missed += taken,
        }
    }

    fn end(mut self) -> CaptureEnd {
        let failed = self.close().err();
        CaptureEnd {
            name: std::mem::take(&mut self.name),
            packets: self.packets,
            missed: self.missed,
            failed,
        }
    }

    /// Has the writer write what waits, and waits for it.
    fn close(&mut self) -> Result<(), Error> {
        self.blocks = None;
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let written = writer.join().unwrap_or_else(|_| Err(io::Error::other("the writer panicked")));
        written.attempted(|| self.what.clone())
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // Who wants to know how it went asks `end`.
        let _ = self.close();
    }
}

/// Writes blocks as they come, whole ones only, until nobody can send any more.
fn write_out(
    mut out: Box<dyn Write + Send>,
    blocks: &Receiver<Vec<u8>>,
    waiting: &AtomicU64,
) -> io::Result<()> {
    while let Ok(mut bytes) = blocks.recv() {
        while bytes.len() < WRITE_BYTES
            && let Ok(more) = blocks.try_recv()
        {
            bytes.extend_from_slice(&more);
        }
        out.write_all(&bytes)?;
        waiting.fetch_sub(bytes.len() as u64, Ordering::Relaxed);
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use std::{process::Command, sync::mpsc};

    use super::*;
    use crate::pcapng::tests::read;

    const EPOCH: u64 = 1_790_000_000_000_000_000;

    fn taps(targets: &[Target]) -> Vec<Tap> {
        let tap = |(i, target): (usize, &Target)| Tap {
            target: *target,
            name: format!("tap{i}"),
            description: "for a test".into(),
        };
        targets.iter().enumerate().map(tap).collect()
    }

    fn host(n: u32) -> Target {
        Target::Host(n)
    }

    /// An ARP request of 42 bytes; `n` is part of the sender's address.
    fn frame(n: u8) -> Vec<u8> {
        let mut bytes = vec![0xff; 6];
        bytes.extend([2, 0, 0, 0, 0, n, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        bytes.extend([2, 0, 0, 0, 0, n, 10, 0, 0, n, 0, 0, 0, 0, 0, 0, 10, 0, 0, 99]);
        bytes
    }

    fn take(captures: &Captures, target: Target, way: Way, train: Train, frames: &[Vec<u8>]) {
        captures.take(target, way, train, frames.len() as u32, |each| frames.iter().for_each(|f| each(f)));
    }

    #[test]
    fn a_file_has_what_its_taps_saw_with_utc_stamps() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("h1.pcapng");
        let captures = Captures::with_epoch(EPOCH);
        assert!(!captures.wants(host(0)));
        let pipe = Target::Pipe(PipeId { link: 3, direction: net::Direction::Backward });
        let id = captures.start("h1", &taps(&[host(0), pipe]), &path, &CaptureOptions::default()).unwrap();
        assert!(captures.wants(host(0)) && captures.wants(pipe) && !captures.wants(host(1)));
        take(&captures, host(0), Way::Out, Train::at(Time(5)), &[frame(1)]);
        take(&captures, host(1), Way::Out, Train::at(Time(6)), &[frame(2)]);
        let train = Train { first: Time(1000), last: Time(4000) };
        take(&captures, pipe, Way::Past, train, &[frame(3), frame(4), frame(5), frame(6)]);
        let end = captures.stop(id).unwrap();
        assert_eq!((end.packets, end.missed, end.note()), (5, 0, None));
        assert!(!captures.on() && captures.stop(id).is_none());

        let (names, packets) = read(&std::fs::read(&path).unwrap());
        assert_eq!(names, ["tap0", "tap1"]);
        let stamps: Vec<u64> = packets.iter().map(|p| p.stamp_ns - EPOCH).collect();
        assert_eq!(stamps, [5, 1000, 2000, 3000, 4000], "a train's segments are spread evenly");
        assert_eq!((packets[0].flags, packets[0].interface, &packets[0].bytes), (Some(2), 0, &frame(1)));
        assert_eq!((packets[4].flags, packets[4].interface, &packets[4].bytes), (None, 1, &frame(6)));
    }

    #[test]
    fn tshark_reads_the_file() {
        if Command::new("tshark").arg("--version").output().is_err() {
            testing::skip(testing::Missing::Tool, "there is no tshark here");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("h1.pcapng");
        let captures = Captures::with_epoch(EPOCH);
        let options = CaptureOptions { snaplen: Some(30), ..CaptureOptions::default() };
        captures.start("h1", &taps(&[host(0)]), &path, &options).unwrap();
        take(&captures, host(0), Way::Out, Train::at(Time(1)), &[frame(1)]);
        take(&captures, host(0), Way::In, Train::at(Time(1_000_000_007)), &[frame(2)]);
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
        let nanos = ["000000001", "000000007"];
        let direction = ["0x00000002", "0x00000001"];
        for (i, line) in lines.iter().enumerate() {
            assert!(line[0].trim_end_matches('Z').ends_with(nanos[i]), "{line:?}");
            let number = |text: &str| u32::from_str_radix(text.trim_start_matches("0x"), 16);
            assert_eq!(line[1], "tap0");
            assert_eq!(number(&line[2]), number(direction[i]), "{line:?}");
            assert_eq!(line[3..], ["42", "30"]);
        }
    }

    /// Writes nothing until told to go on.
    struct Stuck(mpsc::Receiver<()>, Arc<Mutex<Vec<u8>>>);

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Once its sender is gone it writes freely.
            let _ = self.0.recv();
            self.1.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_the_disk_cannot_take_is_counted_and_told() {
        let (go_on, wait) = channel();
        let written = Arc::new(Mutex::new(Vec::new()));
        let captures = Captures::with_epoch(EPOCH);
        let options = CaptureOptions { waiting: Bytes(1000), ..CaptureOptions::default() };
        let out = Box::new(Stuck(wait, Arc::clone(&written)));
        let id = captures.begin("h1", &taps(&[host(0)]), out, "write".into(), &options).unwrap();
        for n in 0..20 {
            take(&captures, host(0), Way::In, Train::at(Time(n)), &[frame(1)]);
        }
        // Nothing waits for the disk here: this is reached although nothing can be written.
        drop(go_on);
        let capture = captures.list();
        let counter = Arc::clone(&capture.active[0].waiting);
        drop(capture);
        while counter.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
        take(&captures, host(0), Way::In, Train::at(Time(99)), &[frame(9)]);
        let end = captures.stop(id).unwrap();
        assert!(end.missed > 0 && end.packets + end.missed == 21, "{end:?}");
        let said = format!("the capture of h1 missed {} of 21 packets: the disk was too slow", end.missed);
        assert_eq!(end.note(), Some(said));
        let (_, packets) = read(&written.lock().unwrap());
        assert_eq!(packets.len() as u64, end.packets);
        let last = packets.last().unwrap();
        assert_eq!((last.missed, &last.bytes), (Some(end.missed), &frame(9)), "the file says where");
    }

    #[test]
    fn a_full_disk_ends_the_capture_and_not_the_run() {
        let captures = Captures::with_epoch(EPOCH);
        let path = Path::new("/dev/full");
        if !path.exists() {
            testing::skip(testing::Missing::Feature, "there is no /dev/full here");
            return;
        }
        let id = captures.start("h1", &taps(&[host(0)]), path, &CaptureOptions::default()).unwrap();
        for n in 0..1000 {
            take(&captures, host(0), Way::In, Train::at(Time(n)), &[frame(1)]);
        }
        let note = captures.stop(id).unwrap().note().unwrap();
        assert!(note.starts_with("the capture of h1 is not complete: cannot write /dev/full: "), "{note}");
    }

    #[test]
    fn a_place_that_cannot_be_written_is_told_at_once() {
        let captures = Captures::with_epoch(EPOCH);
        let path = Path::new("/nonexistent/x.pcapng");
        let error = captures.start("x", &taps(&[host(0)]), path, &CaptureOptions::default()).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/x.pcapng"), "{error}");
        assert!(!captures.on());
    }

    #[test]
    fn dropping_everything_completes_the_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("h1.pcapng");
        let captures = Captures::with_epoch(EPOCH);
        captures.start("h1", &taps(&[host(0)]), &path, &CaptureOptions::default()).unwrap();
        let frames: Vec<Vec<u8>> = (0..40).map(frame).collect();
        for n in 0..500 {
            take(&captures, host(0), Way::In, Train::at(Time(n)), &frames);
        }
        drop(captures);
        assert_eq!(read(&std::fs::read(&path).unwrap()).1.len(), 20_000);
    }
}
