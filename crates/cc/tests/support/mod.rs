//! Shared by golden tests of rate and delay based algorithms: a flow of `tcp::test_kit` that is observed at
//! each step.

// Each test file uses a part.
#![allow(dead_code, reason = "each test file uses its part")]

use cc::native::{Controller, Library};
use cc::{ParameterValue, ParameterValues, Source};
use std::ops::{Deref, DerefMut};
use tcp::test_kit::{Path, Rounds};
use tcp::{CaEvent, CongestionControl};

/// Payload of a packet, bytes.
pub const MSS: u32 = 1448;

/// The built-in algorithm with these parameters.
pub fn controller(name: &str, values: &[(&str, ParameterValue)]) -> Controller {
    let source = Source::built_in(name).unwrap_or_else(|| panic!("{name} is not built in"));
    let values: ParameterValues = values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    let library = Library::open(&source, &values).unwrap_or_else(|e| panic!("loading {name}: {e}"));
    let mut controller = library.controller(None).unwrap_or_else(|e| panic!("{name}: {e}"));
    controller.set_seed(1);
    controller
}

/// A path with this rate, packets per second, on which every packet is acknowledged.
pub const fn path(rate_pps: u64, rtt_us: u64, queue_packets: u64) -> Path {
    Path {
        rate_bps: rate_pps * MSS as u64 * 8,
        rtt_us,
        queue_packets,
        mss_bytes: MSS,
        ack_every: 1,
        mark_from_packets: None,
        loss: 0.0,
        mark: 0.0,
        ecn: false,
        seed: 1,
    }
}

/// A bulk flow over a path.
pub struct Flow {
    rounds: Rounds<Controller>,
}

impl Deref for Flow {
    type Target = Rounds<Controller>;

    fn deref(&self) -> &Rounds<Controller> {
        &self.rounds
    }
}

impl DerefMut for Flow {
    fn deref_mut(&mut self) -> &mut Rounds<Controller> {
        &mut self.rounds
    }
}

impl Flow {
    /// A connection whose handshake has measured the round-trip time.
    pub fn new(cc: Controller, path: Path) -> Flow {
        let mut sk = tcp::TcpSock { mss_cache: path.mss_bytes, ..Default::default() };
        sk.ecn_flags = u8::from(path.ecn);
        sk.srtt_us = (path.rtt_us as u32) << 3;
        sk.rtt_min.s[0].v = path.rtt_us as u32;
        Flow { rounds: Rounds::with_socket(path, cc, sk) }
    }

    /// Seconds since the start.
    pub fn seconds(&self) -> f64 {
        self.time_us() as f64 / 1e6
    }

    /// Runs until `seconds`, and calls `watch` after each step.
    pub fn run_until(&mut self, seconds: f64, mut watch: impl FnMut(&Flow)) {
        while self.seconds() < seconds {
            assert!(self.step(), "no further event after {} s", self.seconds());
            watch(self);
        }
    }

    /// Mean of a quantity over time until `seconds`.
    pub fn mean_until(&mut self, seconds: f64, of: impl Fn(&Flow) -> f64) -> f64 {
        let (begin, mut last, mut sum) = (self.seconds(), self.seconds(), 0.0);
        self.run_until(seconds, |flow| {
            sum += of(flow) * (flow.seconds() - last);
            last = flow.seconds();
        });
        sum / (last - begin)
    }

    /// Packets in the link's queue.
    pub fn queued(&self) -> f64 {
        self.queue_packets()
    }

    /// Packets per second that the path carries.
    pub fn rate_pps(&self) -> f64 {
        self.path().rate_bps as f64 / f64::from(MSS) / 8.0
    }

    /// Runs for `seconds`. Returns the delivered share of the path's rate, and the lost share of sent
    /// packets.
    pub fn delivery(&mut self, seconds: f64) -> (f64, f64) {
        let (delivered, lost, begin) = (self.sk().delivered, self.sk().lost, self.seconds());
        self.run_until(begin + seconds, |_| ());
        let (delivered, lost) =
            (f64::from(self.sk().delivered - delivered), f64::from(self.sk().lost - lost));
        (delivered / seconds / self.rate_pps(), lost / (delivered + lost))
    }

    /// The window when sending resumes after a pause of `minutes` that begins now. The flow itself does not
    /// pause.
    pub fn window_after_pause(&mut self, minutes: u64) -> u32 {
        let mut sk = self.sk().clone();
        sk.tcp_mstamp += minutes * 60_000_000;
        sk.tcp_clock_cache += minutes * 60_000_000_000;
        self.controller().cwnd_event(&mut sk, CaEvent::TxStart);
        sk.snd_cwnd
    }
}
