//! The source of the data that a TCP stream sends, and the sink of received data: random bytes that are
//! discarded, or a file (`-F`), as on a data-transfer node.

use std::{
    fs::File,
    io::{self, Read, Seek, Write},
    path::Path,
};

use os::AlignedBuffer;
use socket2::Socket;
use traffic::{Attempted, Error, sys};

use crate::report::TestSpec;

/// Maximum size of a read. Large, so that the application is not the limit, and within a processor's cache.
pub(super) const READ_BYTES: usize = 256 << 10;

/// The source of sent data: random bytes, which no device on the path can compress, digits on request, or a
/// file.
pub(super) enum Source {
    Memory(Vec<u8>),
    /// Memory that is sent without copying (`-Z`).
    Pages(sys::Pages),
    /// A file, sent once from its beginning to its end.
    File {
        file: File,
        block: Vec<u8>,
    },
    /// A file that is sent without copying.
    FilePages(File),
}

impl Source {
    /// A source of blocks of up to `len` bytes.
    pub(super) fn new(len: usize, spec: &TestSpec) -> Result<Source, Error> {
        if let Some(path) = &spec.file {
            let file = File::open(path).attempted(|| format!("open {} to send it", path.display()))?;
            return Ok(if spec.zerocopy {
                Source::FilePages(file)
            } else {
                Source::File { file, block: vec![0; len] }
            });
        }
        let memory = || {
            let mut bytes = vec![0; len];
            fill(&mut bytes, spec.repeating_payload)?;
            Ok(if spec.zerocopy { Source::Pages(sys::Pages::of(&bytes)?) } else { Source::Memory(bytes) })
        };
        memory().attempted(|| "allocate data to send".into())
    }

    /// Prepares the next block, and returns its length, at most `max` bytes; 0 at a file's end.
    pub(super) fn next(&mut self, max: usize) -> Result<usize, Error> {
        match self {
            Source::Memory(_) | Source::Pages(_) => Ok(max),
            Source::File { file, block } => {
                let mut len = 0;
                while len < max {
                    match file.read(&mut block[len..max]) {
                        Ok(0) => break,
                        Ok(n) => len += n,
                        Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                        Err(e) => return Err(e).attempted(|| "read the file that is sent".into()),
                    }
                }
                Ok(len)
            }
            Source::FilePages(file) => {
                let remaining = remaining(file).attempted(|| "read the file that is sent".into())?;
                Ok(max.min(usize::try_from(remaining).unwrap_or(usize::MAX)))
            }
        }
    }

    /// Sends `len` bytes of the prepared block from byte `from` on, or some of them.
    pub(super) fn send(&self, mut socket: &Socket, from: usize, len: usize) -> io::Result<usize> {
        match self {
            Source::Memory(noise) => socket.write(&noise[from..from + len]),
            Source::Pages(pages) => pages.send(socket, len),
            Source::File { block, .. } => socket.write(&block[from..from + len]),
            Source::FilePages(file) => sys::send_file(file, socket, len),
        }
    }

    /// Whether the data ends: true for files.
    pub(super) fn is_finite(&self) -> bool {
        matches!(self, Source::File { .. } | Source::FilePages(_))
    }
}

/// Bytes from the position of `file` to its end.
fn remaining(file: &mut File) -> io::Result<u64> {
    Ok(file.metadata()?.len().saturating_sub(file.stream_position()?))
}

/// Fills in random bytes, or `0123456789` repeated (fill_with_repeating_pattern of iperf_util.c).
pub(crate) fn fill(bytes: &mut [u8], repeating: bool) -> io::Result<()> {
    if !repeating {
        return os::fill_random(bytes);
    }
    bytes.iter_mut().zip((b'0'..=b'9').cycle()).for_each(|(byte, digit)| *byte = digit);
    Ok(())
}

/// The sink of received data.
pub(super) enum Sink {
    Memory(AlignedBuffer),
    /// Discarded by the kernel without copying (`--skip-rx-copy`).
    Nowhere,
    File {
        file: File,
        block: AlignedBuffer,
    },
}

impl Sink {
    /// Creates the file, or truncates it.
    pub(super) fn new(spec: &TestSpec) -> Result<Sink, Error> {
        Ok(match &spec.file {
            Some(path) => Sink::File { file: create(path)?, block: AlignedBuffer::zeroed(READ_BYTES) },
            None if spec.skip_rx_copy => Sink::Nowhere,
            None => Sink::Memory(AlignedBuffer::zeroed(READ_BYTES)),
        })
    }

    /// Receives up to `max` bytes; 0 at the stream's end.
    pub(super) fn receive(&mut self, mut socket: &Socket, max: usize) -> io::Result<usize> {
        match self {
            Sink::Memory(block) | Sink::File { block, .. } => socket.read(&mut block[..max]),
            Sink::Nowhere => sys::discard(socket, max),
        }
    }

    /// Stores the last `len` received bytes.
    pub(super) fn keep(&mut self, len: usize) -> Result<(), Error> {
        let Sink::File { file, block } = self else { return Ok(()) };
        file.write_all(&block[..len]).attempted(|| "write received data to the file".into())
    }
}

fn create(path: &Path) -> Result<File, Error> {
    File::create(path).attempted(|| format!("create {} for received data", path.display()))
}
