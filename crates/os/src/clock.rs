//! Clocks and sleeping (clock_gettime(2), clock_nanosleep(2)).
#![allow(unsafe_code)]

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    time::Duration,
};

/// CLOCK_MONOTONIC, ns: the clock of bpf_ktime_get_ns() and of the kernel's timers.
pub fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC).as_nanos() as u64
}

/// CLOCK_BOOTTIME: never stepped, and counts while the machine is suspended.
pub fn boottime() -> Duration {
    read(libc::CLOCK_BOOTTIME)
}

/// The largest estimated error of CLOCK_REALTIME (`maxerror` of adjtimex(2)). The kernel reports 16 s while
/// nothing synchronizes the clock.
///
/// # Errors
/// If the kernel does not report it.
pub fn clock_error() -> std::io::Result<Duration> {
    // SAFETY: all fields are integers, for which zero is valid; zero in `modes` changes nothing.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: `state` is a valid timex to write to.
    crate::check(unsafe { libc::adjtimex(&raw mut state) })?;
    Ok(Duration::from_micros(u64::try_from(state.maxerror).unwrap_or(0)))
}

/// A descriptor that becomes readable when CLOCK_REALTIME is stepped; reading it then fails with ECANCELED,
/// once for each step. It does not block (timerfd_create(2), TFD_TIMER_CANCEL_ON_SET).
///
/// # Errors
/// If the kernel has no such timers.
pub fn clock_steps() -> io::Result<OwnedFd> {
    // SAFETY: the call has no pointers.
    let fd = unsafe { libc::timerfd_create(libc::CLOCK_REALTIME, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) };
    // SAFETY: the call succeeded, so the descriptor is new and has no other owner.
    let timer = unsafe { OwnedFd::from_raw_fd(crate::check(fd)?) };
    // It never expires by itself.
    let [zero, never] = [0, libc::time_t::MAX].map(|tv_sec| libc::timespec { tv_sec, tv_nsec: 0 });
    let time = libc::itimerspec { it_interval: zero, it_value: never };
    let flags = libc::TFD_TIMER_ABSTIME | libc::TFD_TIMER_CANCEL_ON_SET;
    // SAFETY: `time` is a valid itimerspec; the old value is not requested.
    crate::check(unsafe {
        libc::timerfd_settime(timer.as_raw_fd(), flags, &raw const time, std::ptr::null_mut())
    })?;
    Ok(timer)
}

/// CLOCK_REALTIME since 1970, UTC: the clock of the kernel's packet timestamps.
pub fn realtime() -> Duration {
    read(libc::CLOCK_REALTIME)
}

/// [`realtime`], ns.
pub fn realtime_ns() -> i64 {
    realtime().as_nanos() as i64
}

pub(crate) fn read(clock: libc::clockid_t) -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid timespec to write to; the clocks read here exist on every Linux, so the call
    // cannot fail.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Sleeps until CLOCK_MONOTONIC reaches `at_ns`, or until a signal arrives.
pub fn sleep_until(at_ns: u64) {
    let at = libc::timespec { tv_sec: (at_ns / 1_000_000_000) as _, tv_nsec: (at_ns % 1_000_000_000) as _ };
    // SAFETY: the time lives across the call; a null pointer skips the remaining time.
    unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const at, std::ptr::null_mut())
    };
}

/// Reduces this thread's timer slack from 50 us to 1 ns, so that sleeps end on time (PR_SET_TIMERSLACK).
pub fn reduce_timer_slack() {
    // SAFETY: plain arguments. If it fails, sleeps are only less exact.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_reports_the_clocks_error() {
        let error = clock_error().unwrap();
        assert!(Duration::ZERO < error && error <= Duration::from_secs(16), "{error:?}");
        assert!(boottime().as_nanos() as u64 >= monotonic_ns() / 2);
    }

    #[test]
    fn a_running_clock_is_not_reported_as_stepped() {
        let mut steps = std::fs::File::from(clock_steps().unwrap());
        for _ in 0..2 {
            let error = io::Read::read(&mut steps, &mut [0; 8]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        }
    }

    #[test]
    fn sleeps_end_at_the_requested_time() {
        let until = monotonic_ns() + 2_000_000;
        sleep_until(until);
        assert!(monotonic_ns() >= until);
        assert!(realtime_ns() > 1_700_000_000_000_000_000);
    }
}
