//! One capture: its file, and the thread that writes it.

use std::{
    fs::File,
    io::{self, Write},
    os::unix::fs::{FileTypeExt, OpenOptionsExt},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread::JoinHandle,
};

use super::{CaptureEnd, CaptureId, CaptureOptions, CapturePoint, PacketDirection, Tap};
use crate::{Error, error::Attempted};
use ::capture::pcapng_writer::{self as pcapng, Interface};

/// Pending blocks are combined up to this size for one write.
const WRITE_BYTES: usize = 256 << 10;

/// Creates the file at `path` without blocking. A named pipe is refused: its reader could block the lab.
pub(super) fn create(path: &Path) -> io::Result<File> {
    if std::fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo()) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a named pipe, not a regular file"));
    }
    File::options().write(true).create(true).truncate(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// An active capture. Dropping it completes its file.
#[derive(Debug)]
pub(super) struct Capture {
    pub(super) id: CaptureId,
    name: String,
    points: Vec<CapturePoint>,
    snaplen: u32,
    max_pending: u64,
    pending: Arc<AtomicU64>,
    packets: u64,
    missed: u64,
    /// Packets missed since the last captured one, for each interface.
    missed_before: Vec<u64>,
    blocks: Option<Sender<Vec<u8>>>,
    writer: Option<JoinHandle<io::Result<()>>>,
    /// The operation of the writer, for its error.
    what: String,
}

impl Capture {
    pub(super) fn new(
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
        let pending = Arc::new(AtomicU64::new(begin.len() as u64));
        let (blocks, queued) = channel();
        // Cannot fail: this function still has the receiver.
        let _ = blocks.send(begin);
        let counter = Arc::clone(&pending);
        let writer = std::thread::Builder::new()
            .name("capture".into())
            .spawn(move || write_blocks(out, &queued, &counter))
            .attempted(|| "start the writer thread of a capture".into())?;
        Ok(Capture {
            id: CaptureId(0),
            name: name.into(),
            points: taps.iter().map(|tap| tap.point).collect(),
            snaplen,
            max_pending: options.max_pending.0,
            pending,
            packets: 0,
            missed: 0,
            missed_before: vec![0; taps.len()],
            blocks: Some(blocks),
            writer: Some(writer),
            what,
        })
    }

    /// The index of `point` among the file's interfaces.
    pub(super) fn interface(&self, point: CapturePoint) -> Option<usize> {
        self.points.iter().position(|t| *t == point)
    }

    pub(super) fn take(
        &mut self,
        interface: usize,
        direction: PacketDirection,
        timestamp: &impl Fn(u64) -> u64,
        segments: &impl Fn(&mut dyn FnMut(&[u8])),
    ) {
        let space = self.max_pending.saturating_sub(self.pending.load(Ordering::Relaxed));
        let (mut blocks, mut taken, mut index) = (Vec::new(), 0, 0);
        segments(&mut |frame| {
            let packet = pcapng::CapturedPacket {
                interface: interface as u32,
                timestamp_ns: timestamp(index),
                direction,
                frame,
                snaplen: self.snaplen,
                missed: self.missed_before[interface],
            };
            index += 1;
            let before = blocks.len();
            pcapng::packet(&mut blocks, &packet);
            if blocks.len() as u64 <= space {
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
        self.pending.fetch_add(blocks.len() as u64, Ordering::Relaxed);
        match self.blocks.as_ref().map(|sender| sender.send(blocks)) {
            Some(Ok(())) => self.packets += taken,
            // The writer has failed; its error is reported at the end.
            _ => self.missed += taken,
        }
    }

    pub(super) fn end(mut self) -> CaptureEnd {
        let failed = self.close().err();
        CaptureEnd {
            name: std::mem::take(&mut self.name),
            packets: self.packets,
            missed: self.missed,
            failed,
        }
    }

    /// Waits until the writer has written all pending blocks.
    fn close(&mut self) -> Result<(), Error> {
        self.blocks = None;
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let written = writer.join().unwrap_or_else(|_| Err(io::Error::other("the writer panicked")));
        written.attempted(|| self.what.clone())
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // Errors are reported by `end` only.
        let _ = self.close();
    }
}

/// Writes whole blocks as they arrive, until the sender is dropped.
fn write_blocks(
    mut out: Box<dyn Write + Send>,
    blocks: &Receiver<Vec<u8>>,
    pending: &AtomicU64,
) -> io::Result<()> {
    while let Ok(mut bytes) = blocks.recv() {
        while bytes.len() < WRITE_BYTES
            && let Ok(more) = blocks.try_recv()
        {
            bytes.extend_from_slice(&more);
        }
        out.write_all(&bytes)?;
        pending.fetch_sub(bytes.len() as u64, Ordering::Relaxed);
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, mpsc};

    use net::TrainTimes;
    use units::{Bytes, Instant};

    use super::*;
    use crate::capture::{
        Captures,
        tests::{captures, frame, host, take, taps},
    };
    use ::capture::pcapng_writer::inspect::read;

    /// Packets arrive at host 0, `nanos` after the start.
    fn take_at(captures: &Captures, nanos: u64, frames: &[Vec<u8>]) {
        take(captures, host(0), PacketDirection::In, TrainTimes::at(Instant::from_nanos(nanos)), frames);
    }

    /// A writer that blocks until its channel is closed.
    struct Stuck(mpsc::Receiver<()>, Arc<Mutex<Vec<u8>>>);

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Once the sender is dropped, writes no longer block.
            let _ = self.0.recv();
            self.1.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn packets_missed_because_of_a_slow_disk_are_counted_and_reported() {
        let (go_on, wait) = channel();
        let written = Arc::new(Mutex::new(Vec::new()));
        let (captures, _) = captures();
        let options = CaptureOptions { max_pending: Bytes(1000), ..CaptureOptions::default() };
        let out = Box::new(Stuck(wait, Arc::clone(&written)));
        let id = captures.begin("h1", &taps(&[host(0)]), out, "write".into(), &options).unwrap();
        for n in 0..20 {
            take_at(&captures, n, &[frame(1)]);
        }
        // `take` does not wait for the disk: this line is reached although writes block.
        drop(go_on);
        let capture = captures.list();
        let counter = Arc::clone(&capture.active[0].pending);
        drop(capture);
        while counter.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
        take_at(&captures, 99, &[frame(9)]);
        let end = captures.stop(id).unwrap();
        assert!(end.missed > 0 && end.packets + end.missed == 21, "{end:?}");
        let note = format!("the capture of h1 missed {} of 21 packets: the disk was too slow", end.missed);
        assert_eq!(end.note(), Some(note));
        let (_, packets) = read(&written.lock().unwrap());
        assert_eq!(packets.len() as u64, end.packets);
        let last = packets.last().unwrap();
        assert_eq!((last.missed, &last.bytes), (Some(end.missed), &frame(9)), "the file shows where");
    }

    #[test]
    fn a_full_disk_ends_the_capture_but_not_the_run() {
        let (captures, _) = captures();
        let path = Path::new("/dev/full");
        if !path.exists() {
            testing::skip(testing::Missing::Feature, "there is no /dev/full here");
            return;
        }
        let id = captures.start("h1", &taps(&[host(0)]), path, &CaptureOptions::default()).unwrap();
        for n in 0..1000 {
            take_at(&captures, n, &[frame(1)]);
        }
        let note = captures.stop(id).unwrap().note().unwrap();
        assert!(note.starts_with("the capture of h1 is not complete: cannot write /dev/full: "), "{note}");
    }

    #[test]
    fn a_path_that_cannot_be_written_fails_at_the_start() {
        let (captures, _) = captures();
        let path = Path::new("/nonexistent/x.pcapng");
        let error = captures.start("x", &taps(&[host(0)]), path, &CaptureOptions::default()).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/x.pcapng"), "{error}");
        assert!(!captures.is_active());
    }

    #[test]
    fn dropping_the_captures_completes_their_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("h1.pcapng");
        let (captures, _) = captures();
        captures.start("h1", &taps(&[host(0)]), &path, &CaptureOptions::default()).unwrap();
        let frames: Vec<Vec<u8>> = (0..40).map(frame).collect();
        for n in 0..500 {
            take_at(&captures, n, &frames);
        }
        drop(captures);
        assert_eq!(read(&std::fs::read(&path).unwrap()).1.len(), 20_000);
    }
}
