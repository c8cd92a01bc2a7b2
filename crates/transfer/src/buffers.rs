//! Buffers of a file's pieces, which are used again: the kernel must map and clear the memory of new ones.

use std::{
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, PoisonError},
};

/// More unused buffers than this are freed.
const MAX_UNUSED: usize = 64;

/// Unused buffers. The last one that was used is the next one to be taken, because it may still be in the processor's cache.
#[derive(Debug, Clone, Default)]
pub(crate) struct Buffers(Arc<Mutex<Vec<Vec<u8>>>>);

/// A buffer, which can be used again after it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    buffers: Buffers,
}

impl Buffers {
    /// A buffer of `length` arbitrary bytes.
    pub(crate) fn take(&self, length: usize) -> Buffer {
        let unused = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut bytes = unused.unwrap_or_default();
        bytes.resize(length, 0);
        Buffer { bytes, buffers: self.clone() }
    }
}

impl Deref for Buffer {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.bytes
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Self {
        Buffer { bytes, buffers: Buffers::default() }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut unused = self.buffers.0.lock().unwrap_or_else(PoisonError::into_inner);
        if unused.len() < MAX_UNUSED {
            unused.push(std::mem::take(&mut self.bytes));
        }
    }
}
