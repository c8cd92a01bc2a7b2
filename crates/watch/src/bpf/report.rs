//! The eBPF map that holds the samples (`struct report`), mapped into this process.
#![allow(unsafe_code)]

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
    ptr::{self, NonNull},
};

use super::contract::REPORT_BYTES;

/// The mapping of a `struct report`.
#[derive(Debug)]
pub(crate) struct MappedReport {
    start: NonNull<libc::c_void>,
}

impl MappedReport {
    /// Maps the only value of `map`.
    ///
    /// # Errors
    /// If mmap(2) fails.
    pub(crate) fn open(map: BorrowedFd<'_>) -> io::Result<MappedReport> {
        // SAFETY: a new mapping at an address that the kernel chooses overlaps no other memory.
        let start = unsafe {
            libc::mmap(ptr::null_mut(), REPORT_BYTES, libc::PROT_READ, libc::MAP_SHARED, map.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(start).map(|start| MappedReport { start }).ok_or_else(|| io::Error::other("mapped at 0"))
    }

    /// The data that the latest run of `sample_slots` or `sample_pattern` wrote.
    pub(crate) fn bytes(&self) -> &[u8; REPORT_BYTES] {
        // SAFETY: the mapping has this length and lives as long as `self`, and any bytes are valid. Only
        // `BpfTracer` runs the programs that write there, and it holds no reference into the mapping
        // meanwhile.
        unsafe { self.start.cast().as_ref() }
    }
}

impl Drop for MappedReport {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and no reference into it remains.
        unsafe { libc::munmap(self.start.as_ptr(), REPORT_BYTES) };
    }
}
