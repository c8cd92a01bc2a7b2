//! One bulk flow over one bottleneck, packet by packet: what golden tests measure algorithms on.
//!
//! A FIFO of a constant rate between two fixed delays; a packet that finds the queue full is lost, one that finds more
//! than a threshold in it is marked. The sender keeps the socket as Linux does (round-trip times, delivery rate samples
//! of draft-cheng-iccrg-delivery-rate-estimation, states, pacing), but takes a packet for lost when the next one's ACK
//! arrives, sends new data in its place, and reduces the window at once.

// Each test file uses a part.
#![allow(dead_code)]

use cc::native::{Controller, Library};
use cc::{Source, Value, Values};
use std::collections::VecDeque;
use tcp::{AckSample, CaEvent, CaState, CongestionControl, Operation, RateSample, TcpSock};

/// Nanoseconds of a microsecond.
const NS_PER_US: u64 = 1_000;

/// The built-in algorithm with these parameters.
pub fn controller(name: &str, values: &[(&str, Value)]) -> Controller {
    let source = Source::built_in(name).unwrap_or_else(|| panic!("{name} is not built in"));
    let values: Values = values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    let library = Library::open(&source, &values).unwrap_or_else(|e| panic!("loading {name}: {e}"));
    let mut controller = library.controller(None).unwrap_or_else(|e| panic!("{name}: {e}"));
    controller.set_seed(1);
    controller
}

/// The path.
#[derive(Debug, Clone, Copy)]
pub struct Path {
    /// Packets per second.
    pub rate_pps: u64,
    /// Both directions together, without queueing, us.
    pub rtt_us: u64,
    /// Most packets waiting; one more is lost.
    pub queue_packets: u64,
    /// Packets that find more than this waiting are marked.
    pub mark_above: Option<u64>,
}

impl Path {
    /// Bandwidth times delay, packets.
    pub fn bdp(&self) -> f64 {
        self.rate_pps as f64 * self.rtt_us as f64 / 1e6
    }
}

/// A packet on its way.
#[derive(Debug, Clone, Copy)]
struct Packet {
    /// When its ACK arrives, ns.
    acked_ns: u64,
    sent_us: u64,
    first_tx_us: u64,
    delivered: u32,
    delivered_us: u64,
    app_limited: bool,
    lost: bool,
    marked: bool,
}

/// The flow.
pub struct Flow {
    /// The algorithm.
    pub cc: Controller,
    /// The socket.
    pub sk: TcpSock,
    /// The path; a test may change it.
    pub path: Path,
    now_ns: u64,
    packets: VecDeque<Packet>,
    /// When the bottleneck has sent all it has, ns.
    busy_until_ns: u64,
    may_send_ns: u64,
    losses: i32,
}

impl Flow {
    /// A connection whose handshake has just taken one round trip.
    pub fn new(cc: Controller, path: Path) -> Flow {
        Flow::established(cc, path, TcpSock::default())
    }

    /// The same, with ECN negotiated.
    pub fn with_ecn(cc: Controller, path: Path) -> Flow {
        // TCP_ECN_OK.
        Flow::established(cc, path, TcpSock { ecn_flags: 1, ..TcpSock::default() })
    }

    fn established(cc: Controller, path: Path, sk: TcpSock) -> Flow {
        let now_ns = 1_000_000_000;
        let packets = VecDeque::new();
        let mut flow = Flow { cc, sk, path, now_ns, packets, busy_until_ns: 0, may_send_ns: 0, losses: 0 };
        flow.tick();
        flow.rtt(path.rtt_us as u32);
        flow.cc.init(&mut flow.sk);
        flow.send();
        flow
    }

    /// Packets waiting at the bottleneck now, that being sent included.
    pub fn queued(&self) -> f64 {
        self.busy_until_ns.saturating_sub(self.now_ns) as f64 * self.path.rate_pps as f64 / 1e9
    }

    /// Seconds since the beginning.
    pub fn seconds(&self) -> f64 {
        self.now_ns as f64 / 1e9 - 1.0
    }

    /// Runs until then, and calls after each ACK.
    pub fn run_until(&mut self, seconds: f64, mut watch: impl FnMut(&Flow)) {
        while self.seconds() < seconds {
            self.step();
            watch(self);
        }
    }

    /// Mean of a quantity over time until then.
    pub fn mean_until(&mut self, seconds: f64, of: impl Fn(&Flow) -> f64) -> f64 {
        let (begin, mut last, mut sum) = (self.seconds(), self.seconds(), 0.0);
        self.run_until(seconds, |flow| {
            sum += of(flow) * (flow.seconds() - last);
            last = flow.seconds();
        });
        sum / (last - begin)
    }

    /// The next thing that happens: a packet may be sent, or an ACK arrives.
    fn step(&mut self) {
        let ack_ns = self.packets.front().map(|p| p.acked_ns);
        let paced_ns = (self.sk.packets_out < self.sk.snd_cwnd).then_some(self.may_send_ns);
        match (ack_ns, paced_ns) {
            (Some(ack), Some(send)) if send < ack => self.now_ns = self.now_ns.max(send),
            (Some(ack), _) => {
                self.now_ns = ack;
                self.ack();
            }
            (None, Some(send)) => self.now_ns = self.now_ns.max(send),
            (None, None) => panic!("nothing is in flight and the window of {} is full", self.sk.snd_cwnd),
        }
        self.tick();
        self.send();
    }

    fn tick(&mut self) {
        self.sk.tcp_clock_cache = self.now_ns;
        self.sk.tcp_mstamp = self.now_ns / NS_PER_US;
    }

    /// RFC 6298's smoothing, and the smallest so far.
    fn rtt(&mut self, rtt_us: u32) {
        let srtt = self.sk.srtt_us;
        self.sk.srtt_us = if srtt == 0 { rtt_us << 3 } else { srtt - (srtt >> 3) + rtt_us };
        self.sk.rtt_min.s[0].v = self.sk.rtt_min.s[0].v.min(rtt_us);
    }

    fn send(&mut self) {
        let paced = self.sk.sk_pacing_status != 0;
        while self.sk.packets_out < self.sk.snd_cwnd && (!paced || self.may_send_ns <= self.now_ns) {
            self.send_one();
            if paced {
                let gap_ns = u64::from(self.sk.mss_cache) * 1_000_000_000 / self.sk.sk_pacing_rate.max(1);
                self.may_send_ns = self.now_ns.max(self.may_send_ns) + gap_ns;
                self.sk.tcp_wstamp_ns = self.may_send_ns;
            }
        }
        self.validate_window();
    }

    fn send_one(&mut self) {
        let now_us = self.sk.tcp_mstamp;
        if self.sk.packets_out == 0 {
            self.sk.first_tx_mstamp = now_us;
            self.sk.delivered_mstamp = now_us;
        }
        let service_ns = 1_000_000_000 / self.path.rate_pps;
        let waiting = self.busy_until_ns.saturating_sub(self.now_ns) / service_ns;
        let lost = waiting > self.path.queue_packets;
        if !lost {
            self.busy_until_ns = self.busy_until_ns.max(self.now_ns) + service_ns;
        }
        self.packets.push_back(Packet {
            // A lost packet is found out with the next one's ACK.
            acked_ns: self.busy_until_ns + self.path.rtt_us * NS_PER_US,
            sent_us: now_us,
            first_tx_us: self.sk.first_tx_mstamp,
            delivered: self.sk.delivered,
            delivered_us: self.sk.delivered_mstamp,
            app_limited: self.sk.app_limited != 0,
            lost,
            marked: self.path.mark_above.is_some_and(|threshold| waiting > threshold),
        });
        self.sk.packets_out += 1;
        self.sk.snd_nxt = self.sk.snd_nxt.wrapping_add(self.sk.mss_cache);
    }

    /// `tcp_cwnd_validate`.
    fn validate_window(&mut self) {
        let sk = &mut self.sk;
        let limited = sk.packets_out >= sk.snd_cwnd;
        let new_window = sk.snd_una.wrapping_sub(sk.cwnd_usage_seq) as i32 >= 0;
        if new_window || limited || (!sk.is_cwnd_limited() && sk.packets_out > sk.max_packets_out) {
            sk.set_is_cwnd_limited(limited);
            sk.max_packets_out = sk.packets_out;
            sk.cwnd_usage_seq = sk.snd_nxt;
        }
    }

    fn ack(&mut self) {
        self.tick();
        let prior_in_flight = self.sk.packets_out;
        let Some(packet) = self.packets.pop_front() else { return };
        self.sk.packets_out -= 1;
        self.sk.snd_una = self.sk.snd_una.wrapping_add(self.sk.mss_cache);
        if packet.lost {
            self.sk.lost += 1;
            self.losses += 1;
            return;
        }
        let rtt_us = (self.sk.tcp_mstamp - packet.sent_us) as u32;
        let sample = self.rate_sample(&packet, rtt_us, prior_in_flight);
        self.rtt(rtt_us);
        let in_flight = self.sk.packets_out;
        self.cc.in_ack_event(&mut self.sk, if packet.marked { 4 } else { 0 });
        let ack_sample = AckSample { pkts_acked: 1, rtt_us: rtt_us as i32, in_flight };
        self.cc.pkts_acked(&mut self.sk, &ack_sample);
        self.state(sample.losses > 0, packet.marked);
        self.control(&sample);
    }

    /// `tcp_rate_gen`.
    fn rate_sample(&mut self, packet: &Packet, rtt_us: u32, prior_in_flight: u32) -> RateSample {
        let now_us = self.sk.tcp_mstamp;
        self.sk.delivered += 1;
        self.sk.delivered_ce += u32::from(packet.marked);
        self.sk.delivered_mstamp = now_us;
        self.sk.first_tx_mstamp = packet.sent_us;
        if self.sk.app_limited != 0 && self.sk.delivered.wrapping_sub(self.sk.app_limited) as i32 > 0 {
            self.sk.app_limited = 0;
        }
        let snd_interval_us = (packet.sent_us - packet.first_tx_us) as u32;
        let rcv_interval_us = (now_us - packet.delivered_us) as u32;
        let interval = i64::from(snd_interval_us.max(rcv_interval_us));
        let too_short = interval < i64::from(self.sk.rtt_min.s[0].v);
        RateSample {
            prior_mstamp: packet.delivered_us,
            prior_delivered: packet.delivered,
            delivered: (self.sk.delivered - packet.delivered) as i32,
            interval_us: if too_short { -1 } else { interval },
            snd_interval_us,
            rcv_interval_us,
            rtt_us: i64::from(rtt_us),
            losses: std::mem::take(&mut self.losses),
            acked_sacked: 1,
            prior_in_flight,
            last_end_seq: self.sk.snd_una,
            is_app_limited: packet.app_limited,
            ..RateSample::default()
        }
    }

    /// Enters and leaves recovery and CWR.
    fn state(&mut self, lost: bool, marked: bool) {
        let state = self.sk.ca_state();
        let over = self.sk.snd_una.wrapping_sub(self.sk.high_seq) as i32 >= 0;
        if matches!(state, CaState::Cwr | CaState::Recovery) && over {
            self.end_reduction();
        } else if lost && state < CaState::Recovery {
            self.reduce(CaState::Recovery);
        } else if marked && state == CaState::Open {
            self.reduce(CaState::Cwr);
        }
    }

    fn reduce(&mut self, to: CaState) {
        if self.sk.ca_state() == CaState::Open {
            self.sk.prior_cwnd = self.sk.snd_cwnd;
            self.sk.prior_ssthresh = self.sk.snd_ssthresh;
            self.sk.snd_ssthresh = self.cc.ssthresh(&mut self.sk);
        }
        self.sk.high_seq = self.sk.snd_nxt;
        self.cc.set_state(&mut self.sk, to);
        self.sk.set_ca_state(to);
        if !self.cc.has(Operation::CongControl) {
            self.sk.snd_cwnd = self.sk.snd_ssthresh.min(self.sk.snd_cwnd).max(1);
        }
    }

    fn end_reduction(&mut self) {
        self.cc.cwnd_event(&mut self.sk, CaEvent::CompleteCwr);
        self.cc.set_state(&mut self.sk, CaState::Open);
        self.sk.set_ca_state(CaState::Open);
    }

    fn control(&mut self, sample: &RateSample) {
        let ack = self.sk.snd_una;
        if self.cc.has(Operation::CongControl) {
            self.cc.cong_control(&mut self.sk, ack, 0, sample);
        } else if self.sk.ca_state() == CaState::Open {
            self.cc.cong_avoid(&mut self.sk, ack, 1);
        }
        assert!(self.sk.snd_cwnd >= 1, "the window is 0");
    }
}
