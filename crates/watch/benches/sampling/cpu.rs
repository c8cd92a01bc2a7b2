//! Processor time of the calling thread.
#![allow(unsafe_code)]

/// User and system time of this thread so far, s.
pub fn thread_seconds() -> f64 {
    // SAFETY: an all-zero rusage is valid; RUSAGE_THREAD and a pointer to one cannot fail.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}
