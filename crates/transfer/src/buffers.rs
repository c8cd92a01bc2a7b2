//! Buffers of a file's pieces.

use std::{
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, PoisonError},
};

/// More unused buffers than this are freed.
const MAX_UNUSED: usize = 64;
/// Buffers begin at a multiple of this, bytes. Large allocations begin 16 bytes after the beginning of a page, and the kernel's copies from
/// a page to such a buffer take four times as long on some processors (AMD EPYC, `rep movsb`).
const ALIGNMENT: usize = 64;
/// Space of a new buffer: most pieces have less. A buffer that grows loses its alignment.
const MIN_CAPACITY: usize = 272 << 10;

/// Bytes at an address that the kernel copies to at full speed.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    memory: Vec<u8>,
    begin: usize,
}

impl Buffer {
    /// An empty buffer with space for `bytes` bytes.
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        let mut memory: Vec<u8> = Vec::with_capacity(bytes + ALIGNMENT);
        // At most the alignment, except where the position cannot be computed.
        let begin = memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        memory.resize(begin, 0);
        Buffer { memory, begin }
    }

    /// Sets the length; new bytes are zeros.
    pub(crate) fn resize(&mut self, length: usize) {
        self.memory.resize(self.begin + length, 0);
    }

    /// Appends bytes.
    pub(crate) fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.memory.extend_from_slice(bytes);
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.begin..]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.begin..]
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(memory: Vec<u8>) -> Self {
        Buffer { memory, begin: 0 }
    }
}

/// Unused buffers, which are used again: the kernel must map and clear the memory of new ones.
#[derive(Debug, Clone, Default)]
pub(crate) struct Buffers(Arc<Mutex<Vec<Buffer>>>);

impl Buffers {
    /// A buffer of `length` arbitrary bytes.
    pub(crate) fn take(&self, length: usize) -> Buffer {
        let unused = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut buffer = unused.unwrap_or_else(|| Buffer::with_capacity(length.max(MIN_CAPACITY)));
        buffer.resize(length);
        buffer
    }

    /// Keeps a buffer that is no longer needed for a later use.
    pub(crate) fn put_back(&self, buffer: Buffer) {
        let mut unused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if unused.len() < MAX_UNUSED {
            unused.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_used_again() {
        let buffers = Buffers::default();
        let mut buffer = buffers.take(0);
        buffer.extend_from_slice(&[1, 2, 3]);
        assert_eq!(&buffer[..], [1, 2, 3]);
        assert_eq!(buffer.as_ptr() as usize % ALIGNMENT, 0);
        let address = buffer.as_ptr();
        buffers.put_back(buffer);
        let mut buffer = buffers.take(270_000);
        assert_eq!((buffer.as_ptr(), buffer.len()), (address, 270_000));
        buffer[269_999] = 1;
        assert_eq!(&Buffer::from(vec![7; 2])[..], [7, 7]);
    }
}
