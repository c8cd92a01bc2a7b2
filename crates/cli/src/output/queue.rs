//! Output of long-running commands: a bounded queue and a writer thread, so that a stalled reader (a pipe
//! that no process reads, a terminal after Ctrl-S, a full disk) never blocks a measurement. Texts that do not
//! fit are dropped and counted.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, ErrorKind, Write},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// Interval at which `finish` checks whether the program is to stop.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Texts to be written to one or more files, in order.
#[derive(Debug)]
pub struct OutputQueue {
    limit_bytes: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    texts: VecDeque<(usize, String)>,
    bytes: usize,
    is_writing: bool,
    dropped_lines: u64,
    /// The last error of a file, and whether its reader has closed its end.
    failed: Option<ErrorKind>,
    closed: Vec<usize>,
}

impl OutputQueue {
    /// Starts a queue of at most `limit_bytes` (one text may exceed it) and its thread, which writes to
    /// `files`.
    pub fn start(files: Vec<File>, limit_bytes: usize) -> io::Result<Arc<Self>> {
        let queue = OutputQueue { limit_bytes, state: Mutex::default(), changed: Condvar::new() };
        let queue = Arc::new(queue);
        let writer = Arc::clone(&queue);
        std::thread::Builder::new().name("output".into()).spawn(move || writer.write_all(&files))?;
        Ok(queue)
    }

    /// Queues a text for file number `file`, or drops it if the queue is full.
    ///
    /// # Errors
    /// If the file's reader has closed its end.
    pub fn push(&self, file: usize, text: String) -> io::Result<()> {
        let mut state = self.lock();
        if state.closed.contains(&file) {
            return Err(ErrorKind::BrokenPipe.into());
        }
        if state.bytes >= self.limit_bytes {
            state.dropped_lines += count_lines(&text);
            return Ok(());
        }
        state.bytes += text.len();
        state.texts.push_back((file, text));
        self.changed.notify_all();
        Ok(())
    }

    /// True if the next text would be dropped.
    pub fn is_full(&self) -> bool {
        self.lock().bytes >= self.limit_bytes
    }

    /// Lines dropped since the last call.
    pub fn take_dropped_lines(&self) -> u64 {
        std::mem::take(&mut self.lock().dropped_lines)
    }

    /// Waits until all is written, for at most `timeout` after `stop` is set (without `stop`: from now on).
    /// Counts the remainder as dropped, and returns the error of writing, if any.
    pub fn finish(&self, stop: Option<&AtomicBool>, timeout: Duration) -> Option<ErrorKind> {
        let mut deadline = stop.is_none().then(|| Instant::now() + timeout);
        let mut state = self.lock();
        while !state.texts.is_empty() || state.is_writing {
            if deadline.is_none() && stop.is_some_and(|stop| stop.load(Ordering::Acquire)) {
                deadline = Some(Instant::now() + timeout);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                let left: u64 = state.texts.drain(..).map(|(_, text)| count_lines(&text)).sum();
                state.dropped_lines += left + u64::from(state.is_writing);
                break;
            }
            let waited = self.changed.wait_timeout(state, CHECK_INTERVAL);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.failed
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_all(&self, files: &[File]) {
        loop {
            let mut state = self.lock();
            while state.texts.is_empty() {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            let Some((file, text)) = state.texts.pop_front() else { continue };
            if state.closed.contains(&file) {
                state.bytes -= text.len();
                continue;
            }
            state.is_writing = true;
            drop(state);
            let written = (&files[file]).write_all(text.as_bytes());
            let mut state = self.lock();
            state.is_writing = false;
            state.bytes -= text.len();
            if let Err(error) = written {
                match error.kind() {
                    ErrorKind::BrokenPipe => state.closed.push(file),
                    // A full disk may have space again later.
                    _ => state.dropped_lines += count_lines(&text),
                }
                state.failed = Some(error.kind());
            }
            self.changed.notify_all();
        }
    }
}

fn count_lines(text: &str) -> u64 {
    text.lines().count() as u64
}

#[cfg(test)]
mod tests {
    use std::{io::Read, os::fd::OwnedFd};

    use super::*;

    fn pipe() -> (io::PipeReader, File) {
        let (reader, writer) = io::pipe().unwrap();
        (reader, OwnedFd::from(writer).into())
    }

    #[test]
    fn stalled_readers_do_not_block_and_dropped_lines_are_counted() {
        let (mut reader, writer) = pipe();
        let queue = OutputQueue::start(vec![writer], 10_000).unwrap();
        // A pipe holds 64 KiB.
        for number in 0..10_000 {
            queue.push(0, format!("line number {number:07}\n")).unwrap();
        }
        assert_eq!(queue.finish(None, Duration::from_millis(50)), None);
        let dropped = queue.take_dropped_lines();
        let mut text = vec![0; 1 << 20];
        let len = reader.read(&mut text).unwrap();
        let lines = count_lines(std::str::from_utf8(&text[..len]).unwrap());
        // At least the queue's content was kept, whether the writer thread ran or not.
        assert!(lines >= 500 && dropped > 1000, "{lines} lines, {dropped} dropped");
        assert!((10_000 - 1..=10_000 + 1).contains(&(lines + dropped)), "{lines} lines, {dropped} dropped");
    }

    #[test]
    fn all_output_is_written_in_order_to_a_slow_reader() {
        let (mut reader, writer) = pipe();
        let queue = OutputQueue::start(vec![writer], 1 << 20).unwrap();
        let texts: Vec<String> = (0..20_000).map(|number| format!("{number}\n")).collect();
        texts.iter().for_each(|text| queue.push(0, text.clone()).unwrap());
        let reading = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            let mut text = vec![0; texts.concat().len()];
            reader.read_exact(&mut text).unwrap();
            assert!(text == texts.concat().into_bytes());
        });
        assert_eq!(queue.finish(Some(&AtomicBool::new(false)), Duration::ZERO), None);
        assert_eq!(queue.take_dropped_lines(), 0);
        reading.join().unwrap();
    }

    #[test]
    fn a_closed_pipe_fails_the_next_write() {
        let (reader, writer) = pipe();
        drop(reader);
        let queue = OutputQueue::start(vec![writer], 1 << 20).unwrap();
        queue.push(0, "first\n".into()).unwrap();
        assert_eq!(queue.finish(None, Duration::from_secs(10)), Some(ErrorKind::BrokenPipe));
        assert_eq!(queue.push(0, "second\n".into()).unwrap_err().kind(), ErrorKind::BrokenPipe);
    }
}
