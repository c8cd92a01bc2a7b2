//! Clocks and sleeping (clock_gettime(2), clock_nanosleep(2)).
#![allow(unsafe_code)]

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
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

/// The largest estimated error of CLOCK_REALTIME (`maxerror` of adjtimex(2)). The kernel reports 16 s while nothing synchronizes the clock.
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

/// Reports steps of CLOCK_REALTIME (timerfd_create(2), TFD_TIMER_CANCEL_ON_SET), without polling.
#[derive(Debug)]
pub struct ClockSteps(OwnedFd);

impl ClockSteps {
    /// Reports the steps from now on.
    ///
    /// # Errors
    /// If the kernel has no such timers.
    pub fn new() -> io::Result<ClockSteps> {
        // SAFETY: the call has no pointers.
        let fd =
            unsafe { libc::timerfd_create(libc::CLOCK_REALTIME, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) };
        // SAFETY: the call succeeded, so the descriptor is new and has no other owner.
        let steps = ClockSteps(unsafe { OwnedFd::from_raw_fd(crate::check(fd)?) });
        steps.arm()?;
        Ok(steps)
    }

    /// A timer that never expires by itself.
    fn arm(&self) -> io::Result<()> {
        let never = libc::timespec { tv_sec: libc::time_t::MAX, tv_nsec: 0 };
        let timer =
            libc::itimerspec { it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 }, it_value: never };
        let flags = libc::TFD_TIMER_ABSTIME | libc::TFD_TIMER_CANCEL_ON_SET;
        // SAFETY: `timer` is a valid itimerspec; the old value is not requested.
        crate::check(unsafe {
            libc::timerfd_settime(self.0.as_raw_fd(), flags, &raw const timer, std::ptr::null_mut())
        })?;
        Ok(())
    }

    /// Whether the clock was stepped since the last call. The descriptor is readable if it was.
    ///
    /// # Errors
    /// If the timer cannot be set again.
    pub fn take(&self) -> io::Result<bool> {
        let mut expirations = 0_u64;
        // SAFETY: `expirations` has the 8 bytes that the kernel writes.
        let read = unsafe { libc::read(self.0.as_raw_fd(), (&raw mut expirations).cast(), size_of::<u64>()) };
        match crate::check_len(read) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            // ECANCELED: the clock was stepped.
            _ => self.arm().map(|()| true),
        }
    }
}

impl AsRawFd for ClockSteps {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
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
    // SAFETY: `now` is a valid timespec to write to; the clocks read here exist on every Linux, so the call cannot fail.
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
    fn the_clocks_error_is_known() {
        let error = clock_error().unwrap();
        assert!(Duration::ZERO < error && error <= Duration::from_secs(16), "{error:?}");
        assert!(boottime().as_nanos() as u64 >= monotonic_ns() / 2);
    }

    #[test]
    fn a_clock_that_runs_is_not_stepped() {
        let steps = ClockSteps::new().unwrap();
        assert!(!steps.take().unwrap());
        std::thread::sleep(Duration::from_millis(5));
        assert!(!steps.take().unwrap());
    }

    #[test]
    fn sleeps_end_at_their_time() {
        let until = monotonic_ns() + 2_000_000;
        sleep_until(until);
        assert!(monotonic_ns() >= until);
        assert!(realtime_ns() > 1_700_000_000_000_000_000);
    }
}
