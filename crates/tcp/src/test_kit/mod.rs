//! Test kit for congestion controls: one model sender, one drop-tail link, one receiver, round by round.
//!
//! It is for golden tests of algorithms, and to try a C file without a simulator; connections are simulated
//! by [`Endpoint`](crate::Endpoint). [`Rounds`] maintains the members of [`TcpSock`] as Linux does and calls
//! the controller in the kernel's order. The flags and steps are those of the endpoint's sender; `sender.rs`
//! and `path.rs` list their differences from the kernel. Deterministic: the same path, seed and calls give
//! the same rows.
//!
//! ```
//! # use tcp::{CongestionControl, Operation, TcpSock};
//! # struct Reno;
//! # impl CongestionControl for Reno {
//! #     fn name(&self) -> &str { "reno" }
//! #     fn has(&self, _: Operation) -> bool { false }
//! #     fn ssthresh(&mut self, sk: &mut TcpSock) -> u32 { (sk.snd_cwnd / 2).max(2) }
//! #     fn cong_avoid(&mut self, sk: &mut TcpSock, _: u32, acked: u32) {
//! #         if sk.in_slow_start() { sk.snd_cwnd += acked } else {
//! #             sk.snd_cwnd_cnt += acked;
//! #             if sk.snd_cwnd_cnt >= sk.snd_cwnd { sk.snd_cwnd_cnt -= sk.snd_cwnd; sk.snd_cwnd += 1 }
//! #         }
//! #     }
//! #     fn undo_cwnd(&mut self, sk: &mut TcpSock) -> u32 { sk.prior_cwnd }
//! # }
//! use tcp::test_kit::{Path, Rounds};
//!
//! let mut rounds = Rounds::new(Path { rate_bps: 1_000_000_000, ..Path::default() }, Reno);
//! rounds.sk_mut().snd_ssthresh = 80;
//! let grown = rounds.run(10);          // slow start to 80, then one packet per round trip
//! assert_eq!(grown.last().unwrap().cwnd, 87);
//! rounds.lose_next(1);
//! let row = rounds.run(3).pop().unwrap();
//! assert_eq!((row.ssthresh, row.lost), (44, 1));
//! ```

mod measure;
mod path;
mod sender;

pub use path::Path;

use crate::{CaState, CongestionControl, TcpSock, sock::ecn_flags};
use path::PathState;
use sender::ModelSender;

/// The clock starts at this value, ns: algorithms take a time of 0 as "never".
const START_NS: u64 = 1_000_000_000;

/// One round: from the ACK of one packet to the ACK of the first packet that was sent after it.
#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    /// Number of the round, from 1.
    pub number: u64,
    /// End of the round, us since the start.
    pub time_us: u64,
    /// Congestion window at the end of the round, packets.
    pub cwnd: u32,
    /// Slow-start threshold at the end of the round, packets.
    pub ssthresh: u32,
    /// Last measured round-trip time, us; -1 before the first.
    pub rtt_us: i64,
    /// Smoothed round-trip time, us.
    pub srtt_us: u32,
    /// Packets delivered in the round.
    pub delivered: u32,
    /// Packets delivered in the round with a CE mark.
    pub delivered_ce: u32,
    /// Packets marked lost since the start.
    pub lost: u64,
    /// Packets in the link's queue at the end of the round.
    pub queue_packets: u64,
    /// Packets in flight at the end of the round.
    pub in_flight: u32,
    /// Pacing rate at the end of the round, bytes/s; `u64::MAX`: none.
    pub pacing_rate: u64,
    /// Congestion state at the end of the round.
    pub state: CaState,
}

/// A connection that drives a controller.
#[derive(Debug)]
pub struct Rounds<C> {
    sender: ModelSender<C>,
    path: PathState,
    now_ns: u64,
    /// Earliest next transmission, if paced.
    paced_ns: u64,
    number: u64,
}

impl<C: CongestionControl> Rounds<C> {
    /// An established connection with an endless backlog.
    pub fn new(path: Path, cc: C) -> Rounds<C> {
        let mut sk = TcpSock { mss_cache: path.mss_bytes, ..TcpSock::default() };
        sk.ecn_flags = if path.ecn { ecn_flags::OK } else { 0 };
        Rounds::with_socket(path, cc, sk)
    }

    /// Like [`new`](Self::new), with the caller's socket, which is passed to `init`.
    pub fn with_socket(path: Path, cc: C, sk: TcpSock) -> Rounds<C> {
        let sender = ModelSender::new(sk, cc, START_NS);
        Rounds { sender, path: PathState::new(path), now_ns: START_NS, paced_ns: 0, number: 0 }
    }

    /// The socket.
    pub fn sk(&self) -> &TcpSock {
        &self.sender.sk
    }

    /// The socket, for changes: window, threshold, private area.
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

    /// Loses the next `count` new packets.
    pub fn lose_next(&mut self, count: u64) {
        self.path.lose_next = count;
    }

    /// Loses the new packet of this number, from 0.
    pub fn lose_packet(&mut self, packet: u64) {
        self.path.lose_packet(packet);
    }

    /// Marks the next `count` packets (with ECN).
    pub fn mark_next(&mut self, count: u64) {
        self.path.mark_next = count;
    }

    /// Loses everything in flight and lets the retransmission timer expire at once.
    pub fn timeout(&mut self) {
        self.path.cut();
        let path = &self.path;
        self.sender.timeout(|packet| path.has_arrived(packet));
    }

    /// Lets the next ACK in or after a reduction show that the reduction was unnecessary.
    pub fn undo(&mut self) {
        self.sender.request_undo();
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path.path
    }

    /// Changes the path: rate, round-trip time, queue, losses, marks.
    pub fn path_mut(&mut self) -> &mut Path {
        &mut self.path.path
    }

    /// Sets the number of packets that the application still has; `None`: unlimited.
    pub fn set_backlog(&mut self, packets: Option<u64>) {
        self.sender.backlog = packets;
    }

    /// Lets time pass without new transmissions; packets and ACKs in flight arrive.
    pub fn idle(&mut self, us: u64) {
        let backlog = self.sender.backlog.replace(0);
        let until = self.now_ns + us * 1000;
        while self.path.next_ack_ns().is_some_and(|at| at <= until) {
            self.step();
        }
        self.now_ns = until;
        self.sender.set_time(until);
        self.sender.backlog = backlog;
    }

    /// Runs this number of rounds and returns a row for each; fewer if the backlog ends.
    pub fn run(&mut self, rounds: u64) -> Vec<Round> {
        (0..rounds).map_while(|_| self.round()).collect()
    }

    /// Runs until `time_us` after the start, and returns a row for each completed round.
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
            queue_packets: self.path.queue_packets(self.now_ns),
            in_flight: sk.packets_in_flight(),
            pacing_rate: sk.sk_pacing_rate,
            state: sk.ca_state(),
        })
    }

    /// Packets in the link's queue now, with the unsent fraction of the packet being sent.
    pub fn queue_packets(&self) -> f64 {
        self.path.queued(self.now_ns)
    }

    /// Runs to the next event (finer than a round): the arrival of an ACK, or the time of a paced packet.
    /// False if there is none.
    pub fn step(&mut self) -> bool {
        if self.sender.una == self.sender.nxt {
            self.send();
        }
        let paced =
            (self.paced_ns > self.now_ns && self.sender.next_to_send().is_some()).then_some(self.paced_ns);
        let acked = self.path.next_ack_ns();
        let Some(at) = paced.into_iter().chain(acked).min() else { return self.lost_tail() };
        self.now_ns = self.now_ns.max(at);
        self.sender.set_time(self.now_ns);
        if acked == Some(at)
            && let Some(ack) = self.path.take_ack()
        {
            self.sender.acked(&ack);
        }
        self.send();
        true
    }

    /// Called when nothing is in flight. If packets are unacknowledged, the tail was lost, and a timeout
    /// follows after the RTO.
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

    /// Sends the packets that window and pacing allow now.
    fn send(&mut self) {
        let mut sent_any = false;
        while self.may_send_by_pacing()
            && let Some((packet, is_retransmission)) = self.sender.next_to_send()
        {
            self.sender.sent(packet, is_retransmission);
            self.path.send(self.now_ns, packet, is_retransmission);
            self.pace();
            sent_any = true;
        }
        self.sender.end_sending(sent_any);
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
