//! Buffers of a file's pieces, which are used again: the kernel must map and clear the memory of new ones.

use std::sync::{Arc, Mutex, PoisonError};

/// More unused buffers than this are freed.
const MAX_UNUSED: usize = 64;

/// Unused buffers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Buffers(Arc<Mutex<Vec<Vec<u8>>>>);

impl Buffers {
    /// A buffer of `length` arbitrary bytes.
    pub(crate) fn take(&self, length: usize) -> Vec<u8> {
        let unused = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut buffer = unused.unwrap_or_default();
        buffer.resize(length, 0);
        buffer
    }

    /// Keeps a buffer that is no longer needed for a later use.
    pub(crate) fn put_back(&self, buffer: Vec<u8>) {
        let mut unused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if unused.len() < MAX_UNUSED {
            unused.push(buffer);
        }
    }
}
