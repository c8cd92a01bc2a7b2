//! The sender of an endpoint: one file for each part of the kernel's sender.
//!
//! - `ack` processes ACKs, `tag` marks the packets that SACK blocks cover, `clean` removes acknowledged
//!   packets;
//! - `rack` detects losses; `recovery` and `undo` implement the congestion states, `reduce` proportional rate
//!   reduction, `classic` the code that Linux 2.4 has instead of these;
//! - `rtt` and `rate` take samples;
//! - `output` sends new data, `retransmit` retransmits, `path_mtu` sets the size of segments, `send` sends
//!   one packet;
//! - `timers` and `timeout` handle timers, `buffer` handles the send buffer, and `chrono` measures how long
//!   each limit applied (`tcp_chrono_start`).
//!
//! Steps that need the state of [`Sender`] are its methods and take the [`Connection`] as argument. All other
//! steps are methods of `Connection`.
//!
//! Source: net/ipv4/{tcp_input,tcp_output,tcp_timer,tcp_recovery,tcp_rate}.c of Linux 6.
//!
//! Differences from the kernel, in addition to those that the files list:
//!
//! 1. A packet leaves the host at the instant at which TCP sends it, unless the endpoint's owner reports a
//!    device queue (`device`).
//! 2. There is no support for urgent data, fast open, cookies or PLB.
//! 3. TCP's own timer does the pacing of fq. High-resolution timers expire exactly on time.
//! 4. A retransmission is never joined with its neighbours, and SACK blocks on data packets do not lower the
//!    MSS.

mod ack;
mod buffer;
mod chrono;
mod classic;
mod classic_write;
mod clean;
mod device;
mod lost;
mod output;
mod path_mtu;
mod queue;
mod rack;
mod rate;
mod recovery;
mod reduce;
mod retransmit;
mod rtt;
mod sacked;
mod send;
mod skb;
mod tag;
mod timeout;
mod timers;
mod undo;
mod unsent;

use crate::{Config, behaviour::Recovery, connection::Connection, flag::AckFlags, segment::before};
use chrono::Chrono;
use queue::SendQueue;
use sacked::Sacked;
use skb::{Marks, Skb};

/// `TCP_RTO_MAX`, s.
const RTO_MAX_S: u32 = 120;

/// The state of the sender outside [`TcpSock`](crate::TcpSock), which is the part that congestion controls
/// see.
pub(crate) struct Sender {
    queue: SendQueue,
    sacked: Sacked,
    /// `snd_una` extended to 64 bits, which never wraps; its low 32 bits are `snd_una`.
    una: u64,
    /// End of the highest selectively acknowledged packet.
    highest_sack: u32,
    /// F-RTO checks whether the timeout was spurious.
    frto: bool,
    /// The peer discarded data that it had selectively acknowledged.
    is_sack_reneg: bool,
    /// The tail loss probe was a retransmission.
    tlp_retrans: bool,
    /// Packets merged into their neighbour because both are selectively acknowledged: they share its memory.
    joined: u32,
    /// End of the last small packet sent (`snd_sml`).
    small: u32,
    /// End of the last written packet that was marked with PSH (`pushed_seq`).
    pushed: u32,
    /// The application waits for space in the send buffer (`SOCK_NOSPACE`).
    nospace: bool,
    fin_written: bool,
    /// Expiry of the timer of `icsk_pending` on the endpoint's clock, ns.
    timer_ns: Option<u64>,
    pacing_timer_ns: Option<u64>,
    chrono: Chrono,
    scoreboard: classic::Scoreboard,
    device: device::Device,
    mtu_search: path_mtu::MtuSearch,
}

impl Sender {
    pub(crate) fn new(config: &Config) -> Sender {
        Sender {
            queue: SendQueue::new(),
            sacked: Sacked::default(),
            una: (1 << 40) + u64::from(config.initial_seq),
            highest_sack: 0,
            frto: false,
            is_sack_reneg: false,
            tlp_retrans: false,
            joined: 0,
            small: config.initial_seq,
            pushed: config.initial_seq.wrapping_add(1),
            nospace: false,
            fin_written: false,
            timer_ns: None,
            pacing_timer_ns: None,
            chrono: Chrono::default(),
            scoreboard: classic::Scoreboard::default(),
            device: device::Device::default(),
            mtu_search: path_mtu::MtuSearch::default(),
        }
    }

    /// Extends a sequence number to 64 bits, which never wrap.
    #[inline]
    fn extended(&self, conn: &Connection, seq: u32) -> u64 {
        self.una.wrapping_add_signed(i64::from(seq.wrapping_sub(conn.sk.snd_una) as i32))
    }

    /// Checks that the counters of the socket agree with the send queue; for tests.
    pub(crate) fn verify(&self, conn: &Connection) -> Result<(), String> {
        let (mut out, mut sacked, mut lost, mut retransmitted) = (0, 0, 0, 0);
        let (mut joined, mut was_sacked) = (0, false);
        let mut expected = conn.sk.snd_una;
        for index in 0..self.queue.count() {
            let Some(id) = self.queue.at(index) else { break };
            let skb = self.queue.get(id);
            if skb.seq != expected && !(index == 0 && before(skb.seq, expected)) {
                return Err(format!("a hole at {expected}: the next packet begins at {}", skb.seq));
            }
            expected = skb.end_seq;
            let is_sacked = skb.marks.any(Marks::SACKED);
            joined += u32::from(was_sacked && is_sacked);
            was_sacked = is_sacked;
            out += skb.segs();
            sacked += if skb.marks.any(Marks::SACKED) { skb.segs() } else { 0 };
            lost += if skb.marks.any(Marks::LOST) { skb.segs() } else { 0 };
            retransmitted += if skb.marks.any(Marks::RETRANS) { skb.segs() } else { 0 };
        }
        let sk = &conn.sk;
        let sacked = if conn.sack { sacked } else { sk.sacked_out };
        let (counted, actual) = (
            [sk.packets_out, sk.sacked_out, sk.lost_out, sk.retrans_out],
            [out, sacked, lost, retransmitted],
        );
        if counted != actual || self.queue.count() > 0 && expected != sk.snd_nxt {
            return Err(format!(
                "out, sacked, lost, retransmitted: the socket has {counted:?}, the queue {actual:?}"
            ));
        }
        if joined != self.joined && conn.behaviour.recovery == Recovery::Rack {
            return Err(format!("{} packets counted as joined, {joined} in the queue", self.joined));
        }
        let waits = sk.packets_out > 0 || !self.queue.unsent.is_empty();
        let latest = sk.tcp_clock_cache + 136_000_000_000;
        if waits && self.timer_ns.or(self.pacing_timer_ns).is_none_or(|at| at > latest) {
            return Err(format!("no timer runs: {:?}, pending {}", self.timer_ns, sk.icsk_pending));
        }
        Ok(())
    }
}
