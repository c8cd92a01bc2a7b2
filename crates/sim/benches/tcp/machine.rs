//! What the machine says: this thread's processor time, and the bytes that the program has asked for.

#![allow(unsafe_code, reason = "an allocator that counts, and the thread's clock")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

/// Processor time of this thread, seconds.
pub fn cpu_s() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists, and `time` may be written to.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) } != 0;
    assert!(!failed, "clock_gettime");
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, counting.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most bytes at once while `work` was done, beyond those before it.
pub fn peak_bytes<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let done = work();
    (done, PEAK.load(Relaxed) - before)
}

fn count(bytes: usize) {
    let live = LIVE.fetch_add(bytes, Relaxed) + bytes;
    PEAK.fetch_max(live, Relaxed);
}

// SAFETY: everything is done by the system's allocator; counting touches no memory of the caller's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as the caller's.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller's.
        unsafe { System.dealloc(place, layout) }
    }
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // A block that grows counts once: large ones are moved by their pages (mremap), not copied.
        LIVE.fetch_sub(layout.size(), Relaxed);
        count(bytes);
        // SAFETY: as the caller's.
        unsafe { System.realloc(place, layout, bytes) }
    }
}
