//! Latency under load: small datagrams ([`LatencyEcho`]) to the server's port during a test, to which
//! the server replies. Some are sent before the data, for comparison.
//!
//! The time between request and reply is counted from the call that sends to the kernel's stamp of the
//! arrival, without the time for which the server held the request. The result therefore includes
//! queues in the sender's own host, but not delays of busy processors at either end.

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
use traffic::{Attempted, sys};

use crate::{
    Error, control,
    report::{Latency, LatencyProbe, Protocol},
    wire::{Cookie, LATENCY_ECHO_BYTES, LatencyEcho},
};

/// Number of probes before the data.
const PROBES_BEFORE: u32 = 10;
/// The interval of those probes.
const BEFORE_INTERVAL: Duration = Duration::from_millis(10);
/// The interval of probes during the data phase: 20 a second, 14 kbit/s with all headers.
const INTERVAL: Duration = Duration::from_millis(50);
/// A probe without a reply in this time is lost.
const REPLY_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum time until a stop takes effect.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// A test's probes, on a dedicated thread.
#[derive(Debug)]
pub(crate) struct LatencyProber {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<SentProbe>>>,
}

/// One probe.
#[derive(Debug)]
struct SentProbe {
    at: Instant,
    /// By the wall clock, which the kernel's timestamps of arrivals also use.
    sent: Duration,
    rtt: Option<Duration>,
}

impl LatencyProber {
    /// Sends the probes before the data, and starts the thread for the others. `None` if there is no reply:
    /// iperf3 does not reply.
    pub(crate) fn begin(
        to: SocketAddr,
        from: Option<SocketAddr>,
        device: Option<&str>,
        cookie: Cookie,
    ) -> Result<Option<Self>, Error> {
        let socket = control::new_socket(to, from, device, Protocol::Udp)?;
        sys::enable_arrival_stamps(&socket).attempted(|| "enable timestamps of latency probes".into())?;
        socket.connect(&to.into()).attempted(|| format!("send latency probes to {to}"))?;
        let mut probes = ProbeSocket { socket, cookie, all: Vec::new() };
        for _ in 0..PROBES_BEFORE {
            probes.send();
            probes.receive_until(Instant::now() + BEFORE_INTERVAL);
        }
        probes.receive_all();
        if probes.all.iter().all(|probe| probe.rtt.is_none()) {
            return Ok(None);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let thread_stop = stop.clone();
        let thread = std::thread::Builder::new()
            .name("latency".into())
            .spawn(move || probes.run(&thread_stop))
            .attempted(|| "create the thread of the latency probes".into())?;
        Ok(Some(LatencyProber { stop, thread: Some(thread) }))
    }

    /// Stops sending; the thread still waits for replies.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// The results of all probes, with times since `begin`, when the data began.
    pub(crate) fn end(mut self, begin: Instant) -> Latency {
        self.stop();
        let probes = self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        let seconds = |at: Instant| match at.checked_duration_since(begin) {
            Some(after) => after.as_secs_f64(),
            None => -(begin - at).as_secs_f64(),
        };
        let probe = |probe: SentProbe| LatencyProbe { at_s: seconds(probe.at), rtt: probe.rtt };
        Latency(probes.into_iter().map(probe).collect())
    }
}

impl Drop for LatencyProber {
    /// After a failed test the thread also ends, at the latest when it has waited for the replies.
    fn drop(&mut self) {
        self.stop();
    }
}

struct ProbeSocket {
    socket: Socket,
    cookie: Cookie,
    /// By number.
    all: Vec<SentProbe>,
}

impl ProbeSocket {
    fn run(mut self, stop: &AtomicBool) -> Vec<SentProbe> {
        while !stop.load(Ordering::Acquire) {
            self.send();
            let due = Instant::now() + INTERVAL;
            while Instant::now() < due && !stop.load(Ordering::Acquire) {
                self.receive_until(due.min(Instant::now() + STOP_CHECK_INTERVAL));
            }
        }
        self.receive_all();
        self.all
    }

    fn send(&mut self) {
        let number = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        let request = LatencyEcho { cookie: self.cookie, number, held: Duration::ZERO };
        self.all.push(SentProbe { at: Instant::now(), sent: os::realtime(), rtt: None });
        // A probe that cannot be sent gets no reply, and counts as lost.
        let _ = self.socket.send(&request.to_bytes());
    }

    /// Receives replies until all have arrived or the last probe has timed out.
    fn receive_all(&mut self) {
        let Some(last) = self.all.last().map(|probe| probe.at) else { return };
        while self.all.iter().rev().take_while(|p| last - p.at < REPLY_TIMEOUT).any(|p| p.rtt.is_none())
            && last.elapsed() < REPLY_TIMEOUT
        {
            self.receive_until((Instant::now() + STOP_CHECK_INTERVAL).min(last + REPLY_TIMEOUT));
        }
    }

    fn receive_until(&mut self, deadline: Instant) {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if !matches!(os::wait_readable(&self.socket, left), Ok(true)) {
                return;
            }
            let mut bytes = [0; LATENCY_ECHO_BYTES + 1];
            // An error concerns an earlier probe: the port is closed.
            if let Ok((len, stamp)) = sys::receive_stamped(&self.socket, &mut bytes)
                && let Some(reply) = LatencyEcho::from_bytes(&bytes[..len])
            {
                self.handle_reply(&reply, stamp.unwrap_or_else(os::realtime));
            }
        }
    }

    fn handle_reply(&mut self, reply: &LatencyEcho, at: Duration) {
        let Some(probe) = self.all.get_mut(reply.number as usize) else { return };
        let elapsed = at.saturating_sub(probe.sent);
        if reply.cookie == self.cookie && probe.rtt.is_none() && elapsed <= REPLY_TIMEOUT {
            probe.rtt = Some(elapsed.saturating_sub(reply.held));
        }
    }
}
