//! Buffers of a file's pieces.

use std::sync::{Arc, Mutex, PoisonError};

use os::AlignedBuffer;

/// More unused buffers than this are freed.
const MAX_UNUSED: usize = 64;
/// Space of a new buffer: most pieces have less. A buffer that grows loses its alignment.
const MIN_CAPACITY: usize = 272 << 10;

/// Unused buffers, which are used again: the kernel must map and clear the memory of new ones.
#[derive(Debug, Clone, Default)]
pub(crate) struct Buffers(Arc<Mutex<Vec<AlignedBuffer>>>);

impl Buffers {
    /// A buffer of `length` arbitrary bytes.
    pub(crate) fn take(&self, length: usize) -> AlignedBuffer {
        let unused = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut buffer = unused.unwrap_or_else(|| AlignedBuffer::with_capacity(length.max(MIN_CAPACITY)));
        buffer.resize(length);
        buffer
    }

    /// Keeps a buffer that is no longer needed for a later use.
    pub(crate) fn put_back(&self, buffer: AlignedBuffer) {
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
    fn buffers_are_used_again() {
        let buffers = Buffers::default();
        let buffer = buffers.take(10);
        let address = buffer.as_ptr();
        buffers.put_back(buffer);
        let buffer = buffers.take(MIN_CAPACITY);
        assert_eq!((buffer.as_ptr(), buffer.len()), (address, MIN_CAPACITY));
    }
}
