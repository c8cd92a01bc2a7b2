//! Latency under load: small datagrams to the server's port beside a test's data, answered by it ([`Echo`]). Some go before the
//! data, for comparison.
//!
//! The time between question and answer is counted from the call that sends to the kernel's stamp of the arrival, without the
//! time for which the server held it. So a queue in the sender's own host counts, and a busy processor at either end does not.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use socket2::Socket;

use crate::{
    error::Attempted,
    iperf3::{
        Error, control,
        wire::{Cookie, ECHO_BYTES, Echo},
    },
    report::{Latency, LatencyProbe, Protocol},
    sys,
};

/// Probes before the data.
const BEFORE: u32 = 10;
/// Between those.
const BEFORE_INTERVAL: Duration = Duration::from_millis(10);
/// Between probes beside the data: 20 a second, 14 kbit/s with all headers.
const INTERVAL: Duration = Duration::from_millis(50);
/// One that is not answered within this time is lost.
const PATIENCE: Duration = Duration::from_secs(1);
/// A request to stop is seen within this time.
const NAP: Duration = Duration::from_millis(20);

/// A test's probes, on a thread of their own.
#[derive(Debug)]
pub(crate) struct Probing {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<Probe>>>,
}

/// One probe.
#[derive(Debug)]
struct Probe {
    at: Instant,
    /// By the wall clock, as the kernel stamps arrivals.
    sent: Duration,
    rtt: Option<Duration>,
}

impl Probing {
    /// Sends the probes that come before the data, and begins with the others. `None` where nobody answers: an iperf3 does not.
    pub(crate) fn begin(
        to: SocketAddr,
        from: Option<SocketAddr>,
        device: Option<&str>,
        cookie: Cookie,
    ) -> Result<Option<Self>, Error> {
        let socket = control::new_socket(to, from, device, Protocol::Udp)?;
        sys::stamp_arrivals(&socket).attempted(|| "cannot have arrivals of latency probes stamped".into())?;
        socket.connect(&to.into()).attempted(|| format!("cannot send latency probes to {to}"))?;
        let mut probes = Probes { socket, cookie, all: Vec::new() };
        for _ in 0..BEFORE {
            probes.send();
            probes.receive_until(Instant::now() + BEFORE_INTERVAL);
        }
        probes.receive_all();
        if probes.all.iter().all(|probe| probe.rtt.is_none()) {
            return Ok(None);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let thread = std::thread::Builder::new()
            .name("latency".into())
            .spawn(move || probes.run(&seen))
            .attempted(|| "cannot make the thread of the latency probes".into())?;
        Ok(Some(Probing { stop, thread: Some(thread) }))
    }

    /// No more are sent; what is on its way is still waited for.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// What came of all, with times since `begin`, when the data began.
    pub(crate) fn end(mut self, begin: Instant) -> Latency {
        self.stop();
        let probes = self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        let seconds = |at: Instant| match at.checked_duration_since(begin) {
            Some(after) => after.as_secs_f64(),
            None => -(begin - at).as_secs_f64(),
        };
        let probe = |probe: Probe| LatencyProbe { at_s: seconds(probe.at), rtt: probe.rtt };
        Latency(probes.into_iter().map(probe).collect())
    }
}

impl Drop for Probing {
    /// A test that fails leaves no thread behind for longer than one that waits for answers.
    fn drop(&mut self) {
        self.stop();
    }
}

struct Probes {
    socket: Socket,
    cookie: Cookie,
    /// By number.
    all: Vec<Probe>,
}

impl Probes {
    fn run(mut self, stop: &AtomicBool) -> Vec<Probe> {
        while !stop.load(Ordering::Acquire) {
            self.send();
            let due = Instant::now() + INTERVAL;
            while Instant::now() < due && !stop.load(Ordering::Acquire) {
                self.receive_until(due.min(Instant::now() + NAP));
            }
        }
        self.receive_all();
        self.all
    }

    fn send(&mut self) {
        let number = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        let question = Echo { cookie: self.cookie, number, held: Duration::ZERO };
        self.all.push(Probe { at: Instant::now(), sent: sys::wall_clock(), rtt: None });
        // What is not sent is not answered either, and counts as lost.
        let _ = self.socket.send(&question.to_bytes());
    }

    /// Takes answers until all have come or the last question's time is over.
    fn receive_all(&mut self) {
        let Some(last) = self.all.last().map(|probe| probe.at) else { return };
        while self.all.iter().rev().take_while(|p| last - p.at < PATIENCE).any(|p| p.rtt.is_none())
            && last.elapsed() < PATIENCE
        {
            self.receive_until((Instant::now() + NAP).min(last + PATIENCE));
        }
    }

    fn receive_until(&mut self, deadline: Instant) {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if !matches!(sys::wait_readable(&self.socket, left), Ok(true)) {
                return;
            }
            let mut bytes = [0; ECHO_BYTES + 1];
            // An error is that of an earlier question: nobody listens there.
            if let Ok((len, stamp)) = sys::receive_stamped(&self.socket, &mut bytes)
                && let Some(answer) = Echo::from_bytes(&bytes[..len])
            {
                self.answered(&answer, stamp.unwrap_or_else(sys::wall_clock));
            }
        }
    }

    fn answered(&mut self, answer: &Echo, at: Duration) {
        let Some(probe) = self.all.get_mut(answer.number as usize) else { return };
        let there = at.saturating_sub(probe.sent);
        if answer.cookie == self.cookie && probe.rtt.is_none() && there <= PATIENCE {
            probe.rtt = Some(there.saturating_sub(answer.held));
        }
    }
}
