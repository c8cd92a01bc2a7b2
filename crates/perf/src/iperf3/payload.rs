//! What a TCP stream sends, and where what it receives goes: noise and nowhere, or a file (`-F`), as a data-transfer node reads
//! and writes it.

use std::{
    fs::File,
    io::{self, Read, Seek, Write},
    path::Path,
};

use socket2::Socket;

use crate::{Error, error::Attempted, report::TestSpec, sys};

/// One read at most. Large, so that the application is not the limit, and within a processor's cache.
pub(super) const READ_BYTES: usize = 256 << 10;

/// What is sent: noise, so that nothing on the way can compress it, or digits for who wants just that.
pub(super) enum Source {
    Memory(Vec<u8>),
    /// Sent from where it is (`-Z`).
    Pages(sys::Pages),
    /// Once, from its beginning to its end.
    File {
        file: File,
        block: Vec<u8>,
    },
    /// The same, sent from where it is.
    FilePages(File),
}

impl Source {
    /// For blocks of up to `len` bytes.
    pub(super) fn new(len: usize, spec: &TestSpec) -> Result<Source, Error> {
        if let Some(path) = &spec.file {
            let file = File::open(path).attempted(|| format!("cannot open {} to send it", path.display()))?;
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
        memory().attempted(|| "cannot make data to send".into())
    }

    /// Makes the next block ready: how long it is, at most `most` bytes; 0 at a file's end.
    pub(super) fn next(&mut self, most: usize) -> Result<usize, Error> {
        match self {
            Source::Memory(_) | Source::Pages(_) => Ok(most),
            Source::File { file, block } => {
                let mut len = 0;
                while len < most {
                    match file.read(&mut block[len..most]) {
                        Ok(0) => break,
                        Ok(n) => len += n,
                        Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                        Err(e) => return Err(e).attempted(|| "cannot read the file that is sent".into()),
                    }
                }
                Ok(len)
            }
            Source::FilePages(file) => {
                let left = left(file).attempted(|| "cannot read the file that is sent".into())?;
                Ok(most.min(usize::try_from(left).unwrap_or(usize::MAX)))
            }
        }
    }

    /// Sends `len` bytes of the block that is ready from byte `from` on, or some of them.
    pub(super) fn send(&self, mut socket: &Socket, from: usize, len: usize) -> io::Result<usize> {
        match self {
            Source::Memory(noise) => socket.write(&noise[from..from + len]),
            Source::Pages(pages) => pages.send(socket, len),
            Source::File { block, .. } => socket.write(&block[from..from + len]),
            Source::FilePages(file) => sys::send_file(file, socket, len),
        }
    }

    /// It ends by itself.
    pub(super) fn is_finite(&self) -> bool {
        matches!(self, Source::File { .. } | Source::FilePages(_))
    }
}

/// Bytes from where `file` stands to its end.
fn left(file: &mut File) -> io::Result<u64> {
    Ok(file.metadata()?.len().saturating_sub(file.stream_position()?))
}

/// Fills in noise, or `0123456789` over and over (fill_with_repeating_pattern of iperf_util.c).
pub(crate) fn fill(bytes: &mut [u8], repeating: bool) -> io::Result<()> {
    if !repeating {
        return sys::random(bytes);
    }
    bytes.iter_mut().zip((b'0'..=b'9').cycle()).for_each(|(byte, digit)| *byte = digit);
    Ok(())
}

/// Where what is received goes.
pub(super) enum Sink {
    Memory(Vec<u8>),
    /// Dropped by the kernel, not copied (`--skip-rx-copy`).
    Nowhere,
    File {
        file: File,
        block: Vec<u8>,
    },
}

impl Sink {
    /// A file is made anew.
    pub(super) fn new(spec: &TestSpec) -> Result<Sink, Error> {
        Ok(match &spec.file {
            Some(path) => Sink::File { file: create(path)?, block: vec![0; READ_BYTES] },
            None if spec.skip_rx_copy => Sink::Nowhere,
            None => Sink::Memory(vec![0; READ_BYTES]),
        })
    }

    /// Takes up to `most` bytes; 0 at the stream's end.
    pub(super) fn receive(&mut self, mut socket: &Socket, most: usize) -> io::Result<usize> {
        match self {
            Sink::Memory(block) | Sink::File { block, .. } => socket.read(&mut block[..most]),
            Sink::Nowhere => sys::discard(socket, most),
        }
    }

    /// Puts the `len` bytes that were received last where they go.
    pub(super) fn keep(&mut self, len: usize) -> Result<(), Error> {
        let Sink::File { file, block } = self else { return Ok(()) };
        file.write_all(&block[..len]).attempted(|| "cannot write what is received into the file".into())
    }
}

fn create(path: &Path) -> Result<File, Error> {
    File::create(path).attempted(|| format!("cannot make {} for what is received", path.display()))
}
