//! A buffer for the kernel's copies.

use std::ops::{Deref, DerefMut};

/// Buffers begin at a multiple of this, bytes.
const ALIGNMENT: usize = 64;

/// A buffer for data that the kernel copies from pages: files and sockets.
///
/// Large allocations begin 16 bytes after the beginning of a page (malloc's header after mmap). Copies from
/// the beginning of a page to there take many times as long on some processors (AMD Zen 3: `rep movsb` to an
/// address whose distance from the source, modulo 4096, is 1 to 16), so this buffer begins at a multiple of
/// 64 bytes.
#[derive(Debug, Clone, Default)]
pub struct AlignedBuffer {
    memory: Vec<u8>,
    begin: usize,
}

impl AlignedBuffer {
    /// An empty buffer with space for `bytes` bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        let mut memory: Vec<u8> = Vec::with_capacity(bytes + ALIGNMENT);
        // At most the alignment, except where the position cannot be computed.
        let begin = memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        memory.resize(begin, 0);
        AlignedBuffer { memory, begin }
    }

    /// A buffer of `bytes` zeros.
    pub fn zeroed(bytes: usize) -> Self {
        let mut buffer = AlignedBuffer::with_capacity(bytes);
        buffer.resize(bytes);
        buffer
    }

    /// Sets the length; new bytes are zeros. A buffer that grows beyond its capacity loses its alignment.
    pub fn resize(&mut self, length: usize) {
        self.memory.resize(self.begin + length, 0);
    }

    /// Appends bytes.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.memory.extend_from_slice(bytes);
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.begin..]
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.begin..]
    }
}

impl From<Vec<u8>> for AlignedBuffer {
    fn from(memory: Vec<u8>) -> Self {
        AlignedBuffer { memory, begin: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned() {
        for bytes in [0, 1, 4096, 1 << 20] {
            let mut buffer = AlignedBuffer::zeroed(bytes);
            assert_eq!((buffer.as_ptr() as usize % ALIGNMENT, buffer.len()), (0, bytes));
            buffer.resize(0);
            buffer.extend_from_slice(&[1, 2, 3]);
            buffer[2] = 4;
            assert_eq!(&buffer[..], [1, 2, 4]);
        }
        assert_eq!(&AlignedBuffer::from(vec![7; 2])[..], [7, 7]);
    }
}
