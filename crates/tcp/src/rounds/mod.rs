//! A driver for congestion controls: one sender, one drop-tail link, one receiver, round by round.
//!
//! For golden tests of algorithms, and to try a file without a simulator. [`Rounds`] keeps the members of
//! [`TcpSock`] as Linux does and calls the controller in the kernel's order; `sender.rs` and `path.rs` say
//! where they depart from it. Deterministic: the same path, seed and verbs give the same rows.
//!
//! ```
//! # use tcp::{CaEvent, CaState, CongestionControl, Operation, AckSample, RateSample, TcpSock};
//! # struct Reno;
//! # impl CongestionControl for Reno {
//! #     fn name(&self) -> &str { "reno" }
//! #     fn flags(&self) -> u32 { 0 }
//! #     fn has(&self, _: Operation) -> bool { false }
//! #     fn init(&mut self, _: &mut TcpSock) {}
//! #     fn release(&mut self, _: &mut TcpSock) {}
//! #     fn ssthresh(&mut self, sk: &mut TcpSock) -> u32 { (sk.snd_cwnd / 2).max(2) }
//! #     fn cong_avoid(&mut self, sk: &mut TcpSock, _: u32, acked: u32) {
//! #         if sk.in_slow_start() { sk.snd_cwnd += acked } else {
//! #             sk.snd_cwnd_cnt += acked;
//! #             if sk.snd_cwnd_cnt >= sk.snd_cwnd { sk.snd_cwnd_cnt -= sk.snd_cwnd; sk.snd_cwnd += 1 }
//! #         }
//! #     }
//! #     fn set_state(&mut self, _: &mut TcpSock, _: CaState) {}
//! #     fn cwnd_event(&mut self, _: &mut TcpSock, _: CaEvent) {}
//! #     fn in_ack_event(&mut self, _: &mut TcpSock, _: u32) {}
//! #     fn pkts_acked(&mut self, _: &mut TcpSock, _: &AckSample) {}
//! #     fn min_tso_segs(&mut self, _: &mut TcpSock) -> u32 { 0 }
//! #     fn cong_control(&mut self, _: &mut TcpSock, _: u32, _: i32, _: &RateSample) {}
//! #     fn undo_cwnd(&mut self, sk: &mut TcpSock) -> u32 { sk.prior_cwnd }
//! #     fn sndbuf_expand(&mut self, _: &mut TcpSock) -> u32 { 0 }
//! # }
//! use tcp::rounds::{Path, Rounds};
//!
//! let mut rounds = Rounds::new(Path { rate_bps: 1_000_000_000, ..Path::default() }, Reno);
//! rounds.sk_mut().snd_ssthresh = 80;
//! let grown = rounds.run(10);          // slow start to 80, then one packet a round trip
//! assert_eq!(grown.last().unwrap().cwnd, 87);
//! rounds.lose_next(1);
//! let row = rounds.run(3).pop().unwrap();
//! assert_eq!((row.ssthresh, row.lost), (44, 1));
//! ```

mod measure;
mod path;
mod sender;

pub use path::Path;

use crate::{CaState, CongestionControl, TcpSock};
use path::Wire;
use sender::Sender;

/// The driver's clock starts here, for 0 means "never" to many algorithms.
const START_NS: u64 = 1_000_000_000;

/// One round: from the ACK of one packet to the ACK of the first packet that was sent after it.
#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    /// Its number, from 1.
    pub number: u64,
    /// When it ended, us since the start.
    pub time_us: u64,
    /// Congestion window at its end, packets.
    pub cwnd: u32,
    /// Slow-start threshold at its end, packets.
    pub ssthresh: u32,
    /// Last round-trip time measured, us; -1 before the first.
    pub rtt_us: i64,
    /// Smoothed round-trip time, us.
    pub srtt_us: u32,
    /// Packets delivered in it.
    pub delivered: u32,
    /// Of them, with a mark.
    pub delivered_ce: u32,
    /// Packets deemed lost, since the start.
    pub lost: u64,
    /// Packets in the link's queue at its end.
    pub queue_packets: u64,
    /// Packets in flight at its end.
    pub in_flight: u32,
    /// Pacing rate at its end, bytes/s; `u64::MAX`: none.
    pub pacing_rate: u64,
    /// The state at its end.
    pub state: CaState,
}

/// A connection whose controller is being driven.
#[derive(Debug)]
pub struct Rounds<C> {
    sender: Sender<C>,
    wire: Wire,
    now_ns: u64,
    /// Earliest next transmission, if paced.
    paced_ns: u64,
    number: u64,
}

impl<C: CongestionControl> Rounds<C> {
    /// An established connection with an endless backlog.
    pub fn new(path: Path, cc: C) -> Rounds<C> {
        let mut sk = TcpSock { mss_cache: path.mss_bytes, ..TcpSock::default() };
        // TCP_ECN_OK
        sk.ecn_flags = u8::from(path.ecn);
        Rounds::with_socket(path, cc, sk)
    }

    /// As [`new`](Self::new), with a socket of the caller's, to which `init` is applied.
    pub fn with_socket(path: Path, cc: C, sk: TcpSock) -> Rounds<C> {
        let sender = Sender::new(sk, cc, START_NS);
        Rounds { sender, wire: Wire::new(path), now_ns: START_NS, paced_ns: 0, number: 0 }
    }

    /// The socket.
    pub fn sk(&self) -> &TcpSock {
        &self.sender.sk
    }

    /// The socket, to be set up: window, threshold, private area.
    pub fn sk_mut(&mut self) -> &mut TcpSock {
        &mut self.sender.sk
    }

    /// The controller.
    pub fn controller(&mut self) -> &mut C {
        &mut self.sender.cc
    }

    /// Microseconds since the start.
    pub fn time_us(&self) -> u64 {
        (self.now_ns - START_NS) / 1000
    }

    /// Number of the next new packet.
    pub fn next_packet(&self) -> u64 {
        self.sender.nxt
    }

    /// The next `count` new packets will be lost.
    pub fn lose_next(&mut self, count: u64) {
        self.wire.lose_next = count;
    }

    /// The new packet of that number, from 0, will be lost.
    pub fn lose_packet(&mut self, packet: u64) {
        self.wire.lose_packet(packet);
    }

    /// The next `count` packets will be marked (with ECN).
    pub fn mark_next(&mut self, count: u64) {
        self.wire.mark_next = count;
    }

    /// Everything on its way is lost, and the retransmission timer ends at once.
    pub fn timeout(&mut self) {
        self.wire.cut();
        let wire = &self.wire;
        self.sender.timeout(|packet| wire.has_arrived(packet));
    }

    /// The next ACK in or after a reduction shows that it was for nothing.
    pub fn undo(&mut self) {
        self.sender.want_undo();
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.wire.path
    }

    /// Changes the path: rate, round-trip time, queue, losses, marks.
    pub fn path_mut(&mut self) -> &mut Path {
        &mut self.wire.path
    }

    /// The application has only so many packets more (endless: none).
    pub fn set_backlog(&mut self, packets: Option<u64>) {
        self.sender.backlog = packets;
    }

    /// Time passes in which nothing is sent; what is on its way arrives.
    pub fn idle(&mut self, us: u64) {
        let backlog = self.sender.backlog.replace(0);
        let until = self.now_ns + us * 1000;
        while self.wire.next_ack_ns().is_some_and(|at| at <= until) {
            self.step();
        }
        self.now_ns = until;
        self.sender.set_time(until);
        self.sender.backlog = backlog;
    }

    /// Runs so many rounds and gives a row for each; fewer if the backlog ends.
    pub fn run(&mut self, rounds: u64) -> Vec<Round> {
        (0..rounds).map_while(|_| self.round()).collect()
    }

    /// Runs until so many microseconds after the start, and gives a row for each round that ended.
    pub fn run_until(&mut self, time_us: u64) -> Vec<Round> {
        std::iter::from_fn(|| if self.time_us() < time_us { self.round() } else { None }).collect()
    }

    /// Runs to the end of the next round. `None` if nothing is left to send.
    pub fn round(&mut self) -> Option<Round> {
        let (delivered, delivered_ce) = (self.sk().delivered, self.sk().delivered_ce);
        self.send();
        let target = self.sender.nxt;
        while self.sender.una < target {
            if !self.step() {
                return None;
            }
        }
        if self.sk().delivered == delivered {
            return None;
        }
        self.number += 1;
        self.sender.cc.sndbuf_expand(&mut self.sender.sk);
        let sk = &self.sender.sk;
        Some(Round {
            number: self.number,
            time_us: self.time_us(),
            cwnd: sk.snd_cwnd,
            ssthresh: sk.snd_ssthresh,
            rtt_us: self.sender.last_rtt_us,
            srtt_us: sk.srtt_us >> 3,
            delivered: sk.delivered.wrapping_sub(delivered),
            delivered_ce: sk.delivered_ce.wrapping_sub(delivered_ce),
            lost: self.sender.lost,
            queue_packets: self.wire.queue_packets(self.now_ns),
            in_flight: sk.packets_in_flight(),
            pacing_rate: sk.sk_pacing_rate,
            state: sk.ca_state(),
        })
    }

    /// Packets in the link's queue now, the part of the one being sent that is left included.
    pub fn queue_packets(&self) -> f64 {
        self.wire.queued(self.now_ns)
    }

    /// The next thing that happens, for those to whom a round is too coarse: an ACK comes, or a paced packet may go.
    /// False if nothing will.
    pub fn step(&mut self) -> bool {
        if self.sender.una == self.sender.nxt {
            self.send();
        }
        let paced =
            (self.paced_ns > self.now_ns && self.sender.next_to_send().is_some()).then_some(self.paced_ns);
        let acked = self.wire.next_ack_ns();
        let Some(at) = paced.into_iter().chain(acked).min() else { return self.lost_tail() };
        self.now_ns = self.now_ns.max(at);
        self.sender.set_time(self.now_ns);
        if acked == Some(at)
            && let Some(ack) = self.wire.take_ack()
        {
            self.sender.acked(&ack);
        }
        self.send();
        true
    }

    /// Nothing is on its way. If packets are still out their end was lost: a timeout finds it, after the RTO.
    fn lost_tail(&mut self) -> bool {
        if self.sender.una == self.sender.nxt {
            return false;
        }
        self.now_ns += u64::from(self.sk().icsk_rto.max(1)) * 4_000_000;
        self.sender.set_time(self.now_ns);
        self.timeout();
        self.send();
        true
    }

    /// Sends what window and pacing allow now.
    fn send(&mut self) {
        let mut sent_any = false;
        while self.may_send_by_pacing()
            && let Some((packet, again)) = self.sender.next_to_send()
        {
            self.sender.sent(packet, again);
            self.wire.send(self.now_ns, packet, again);
            self.pace();
            sent_any = true;
        }
        self.sender.sending_stops(sent_any);
    }

    fn may_send_by_pacing(&self) -> bool {
        self.sk().sk_pacing_status == 0 || self.paced_ns <= self.now_ns
    }

    fn pace(&mut self) {
        let (status, rate) = (self.sk().sk_pacing_status, self.sk().sk_pacing_rate);
        if status != 0 && rate != u64::MAX && rate > 0 {
            let gap = u128::from(self.sk().mss_cache) * 1_000_000_000 / u128::from(rate);
            self.paced_ns = self.paced_ns.max(self.now_ns) + u64::try_from(gap).unwrap_or(u64::MAX / 2);
            self.sender.sk.tcp_wstamp_ns = self.paced_ns;
        }
    }
}
