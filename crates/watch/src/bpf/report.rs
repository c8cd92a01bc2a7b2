//! The map into which eBPF writes what it saw, mapped into this process.
#![allow(unsafe_code)]

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
    ptr::{self, NonNull},
};

use super::contract::REPORT_BYTES;

/// The mapping of a `struct report`.
#[derive(Debug)]
pub(crate) struct Report {
    start: NonNull<libc::c_void>,
}

impl Report {
    /// Maps the only value of `map`.
    pub(crate) fn of_map(map: BorrowedFd<'_>) -> io::Result<Report> {
        // SAFETY: a new mapping at a place that the kernel chooses touches nothing else.
        let start = unsafe {
            libc::mmap(ptr::null_mut(), REPORT_BYTES, libc::PROT_READ, libc::MAP_SHARED, map.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(start).map(|start| Report { start }).ok_or_else(|| io::Error::other("mapped at 0"))
    }

    /// What the latest run of `look` or `survey` wrote.
    pub(crate) fn bytes(&self) -> &[u8; REPORT_BYTES] {
        // SAFETY: the mapping is so long and lives as long as this, and any bytes are valid. Only `Kernel` runs what writes
        // there, and it refers to none of it meanwhile.
        unsafe { self.start.cast().as_ref() }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nobody refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr(), REPORT_BYTES) };
    }
}
