//! The receiving half of an endpoint: data in order for the application, ACKs, the window, the receive buffer.
//!
//! Pure: time is an argument (ns since the run's start). Everything that `tcp_sock` has is kept in [`TcpSock`] only. One
//! segment goes through [`Receiver::accept`]; then the sending half may send data; then [`Receiver::ack_check`] says what
//! becomes of the ACK. A segment that leaves takes its fields from [`Receiver::ack_fields`] and calls
//! [`Receiver::ack_sent`]. A super-packet counts as what GRO hands over: one packet, one ACK at most.
//!
//! Source: `tcp_rcv_established`, `tcp_validate_incoming` (net/ipv4/tcp_input.c), `tcp_recvmsg` (net/ipv4/tcp.c); the
//! other files name theirs.
//!
//! Departures:
//!
//! 1. No PAWS, urgent data, header prediction or backlog.
//! 2. A mark is told to the congestion control after the queue has been gone through, not before.
//! 3. The application reads at once what it reads; nothing is processed while it holds the socket.

mod autotune;
mod data;
mod delayed_ack;
mod ecn;
mod memory;
mod reorder;
mod sack;
mod settings;
mod window;

#[cfg(test)]
mod tests;

use crate::{
    CaEvent, Config, SackBlocks, Segment, TcpSock,
    segment::{after, before},
};
use autotune::Measure;
use delayed_ack::{Compression, DelayTimer};
pub use memory::PacketMemory;
use memory::{Layout, ReceiveQueue};
use reorder::ReorderQueue;
use sack::SackList;
use settings::Settings;
pub use window::InitialWindow;
use window::Share;

/// The time as a timestamp option carries it, ms: what `Segment::tsval` is to be.
pub fn timestamp_ms(now: u64) -> u32 {
    (now / 1_000_000) as u32
}

/// What is to be done about an ACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AckAction {
    /// Nothing is due.
    #[default]
    None,
    /// An ACK is to be sent now.
    Now,
    /// A timer runs.
    Delayed,
}

/// What an outgoing segment says about what was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckFields {
    /// The acknowledgement number.
    pub ack: u32,
    /// The window as in the header.
    pub window: u16,
    /// SACK blocks.
    pub sack: Option<SackBlocks>,
    /// The timestamp to echo, ms.
    pub tsecr: u32,
    /// Whether to set ECE.
    pub ece: bool,
}

/// What became of a segment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Accepted {
    /// Bytes that the application can read and could not before.
    pub in_order: u32,
    /// The peer's stream has ended with this.
    pub fin: bool,
    /// It was outside the window and is not to be looked at further.
    pub refused: bool,
    /// It was dropped for want of memory.
    pub dropped: bool,
    /// What the congestion control is to be told, if it needs ECN, with `sk` as it is now.
    pub event: Option<CaEvent>,
    /// An ACK that goes out before anything else: it was held back until this segment.
    pub earlier: Option<Box<AckFields>>,
    /// What becomes of the ACK; of [`Receiver::accept`] only an answer to a refused segment.
    pub ack: AckAction,
}

/// What was agreed on in the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Agreed {
    /// Shift of the own window.
    pub window_scale: u8,
    /// Selective acknowledgements.
    pub sack: bool,
    /// Timestamps.
    pub timestamps: bool,
    /// The peer's timestamp, ms.
    pub ts_recent: u32,
}

/// The receiving half of a connection.
#[derive(Debug, Clone)]
pub struct Receiver {
    settings: Settings,
    layout: Layout,
    window_scale: u8,
    sack: bool,
    timestamps: bool,
    share: Share,
    /// `rcv_nxt` when the window was announced last.
    rcv_wup: u32,
    /// The header's field of that window, until anything happens that it depends on: who only sends announces the same again
    /// with each packet.
    announced: Option<u16>,
    /// The timestamp to echo, ms.
    ts_recent: u32,
    last_tsecr: u32,
    measure: Measure,
    queue: ReceiveQueue,
    reorder: ReorderQueue,
    sacks: SackList,
    /// Memory of both queues, bytes (`sk_rmem_alloc`).
    rmem_alloc: u32,
    compression: Compression,
    delayed: Option<DelayTimer>,
    /// When a segment was last refused with an ACK, ns.
    refused: Option<u64>,
    /// The sequence number after FIN has been reached, and the application has been told.
    fin: bool,
    fin_read: bool,
}

impl Receiver {
    /// A receiver before its handshake; sets the receive buffer.
    pub fn new(config: &Config, sk: &mut TcpSock) -> Receiver {
        let settings = Settings::new(config);
        sk.sk_rcvbuf = settings.initial_rcvbuf as i32;
        Receiver {
            share: settings.initial_share(),
            settings,
            layout: Layout::new(config),
            window_scale: 0,
            sack: false,
            timestamps: false,
            rcv_wup: 0,
            announced: None,
            ts_recent: 0,
            last_tsecr: 0,
            measure: Measure::default(),
            queue: ReceiveQueue::default(),
            reorder: ReorderQueue::default(),
            sacks: SackList::default(),
            rmem_alloc: 0,
            compression: Compression::default(),
            delayed: None,
            refused: None,
            fin: false,
            fin_read: false,
        }
    }

    /// The handshake is over. `sk` has `rcv_nxt` after the peer's SYN, `advmss` less timestamps, `mss_cache`, and of
    /// [`InitialWindow`] `rcv_wnd` (also as `rcv_ssthresh`) and `window_clamp`.
    pub fn establish(&mut self, sk: &mut TcpSock, now: u64, agreed: Agreed) {
        (self.window_scale, self.sack) = (agreed.window_scale, agreed.sack);
        (self.timestamps, self.ts_recent) = (agreed.timestamps, agreed.ts_recent);
        if sk.icsk_delack_max == 0 {
            sk.icsk_delack_max = self.settings.hz / 5;
        }
        self.rcv_wup = sk.rcv_nxt;
        self.announced = None;
        sk.copied_seq = sk.rcv_nxt;
        self.note_arrival(sk, now);
        sk.icsk_ack_rcv_mss = initial_rcv_mss(sk);
        self.init_buffer_space(sk, now);
    }

    /// A segment arrives that is no SYN or RST, after its ACK was looked at. Both steps at once; see [`Self::accept`].
    pub fn on_segment(&mut self, sk: &mut TcpSock, now: u64, segment: &Segment) -> Accepted {
        let mut accepted = self.accept(sk, now, segment);
        if !accepted.refused {
            accepted.ack = self.ack_check(sk, now);
        }
        accepted
    }

    /// The first step: window, timestamps, queues. Counts `segs_in`, `data_segs_in` and `bytes_received`.
    pub fn accept(&mut self, sk: &mut TcpSock, now: u64, segment: &Segment) -> Accepted {
        let mut accepted = Accepted::default();
        if self.expects(sk, segment) {
            self.take_expected(sk, now, segment, &mut accepted);
        } else {
            count_segment(sk, segment);
            (accepted.refused, accepted.ack) = (true, self.refuse(sk, now, segment));
        }
        accepted
    }

    /// Whether a segment lies inside the window, at least in part (`tcp_sequence`).
    #[inline]
    pub fn expects(&self, sk: &TcpSock, segment: &Segment) -> bool {
        self.in_window(sk, segment)
    }

    /// [`Self::accept`] of a segment that was found to be inside the window; what became of it is written where there is
    /// nothing yet, for it is large.
    #[inline(always)]
    pub(crate) fn take_expected(
        &mut self,
        sk: &mut TcpSock,
        now: u64,
        segment: &Segment,
        accepted: &mut Accepted,
    ) {
        count_segment(sk, segment);
        if self.timestamps {
            if !after(segment.seq, self.rcv_wup) && !before(segment.tsval, self.ts_recent) {
                self.ts_recent = segment.tsval;
            }
            (sk.rx_opt.rcv_tsval, sk.rx_opt.rcv_tsecr) = (segment.tsval, segment.tsecr);
        }
        self.measure_rtt_by_timestamp(sk, now, segment);
        if segment.is_data() {
            self.announced = None;
            self.accept_cwr(sk, segment);
            self.queue_data(sk, now, segment, accepted);
        }
    }

    /// What a segment that is about to leave says; also remembers the window that it announces.
    #[inline(always)]
    pub fn ack_fields(&mut self, sk: &mut TcpSock) -> AckFields {
        let window = self.select_window(sk);
        let room = if self.timestamps { 3 } else { 4 };
        let sack = if self.sack { self.sacks.take(room) } else { None };
        AckFields { ack: sk.rcv_nxt, window, sack, tsecr: self.ts_recent, ece: ecn::echoes(sk) }
    }

    /// An ACK for an older `rcv_nxt`, as DCTCP asks for when marks begin or end (`__tcp_send_ack`). No
    /// [`Self::ack_sent`] belongs to it.
    pub fn older_ack_fields(&mut self, sk: &mut TcpSock, rcv_nxt: u32, ece: bool) -> AckFields {
        AckFields { ack: rcv_nxt, ece, ..self.ack_fields(sk) }
    }

    /// Bytes that can be read.
    #[inline]
    pub fn readable(&self, sk: &TcpSock) -> u64 {
        let ahead = sk.rcv_nxt.wrapping_sub(sk.copied_seq);
        u64::from(ahead - u32::from(self.fin && !self.fin_read))
    }

    /// The peer's stream has ended, all of it having been received.
    pub fn fin_received(&self) -> bool {
        self.fin
    }

    /// The application reads at most so many bytes (`tcp_recvmsg`). Gives how many there were, and whether an ACK is due.
    #[inline]
    pub fn read(&mut self, sk: &mut TcpSock, now: u64, most: u64) -> (u64, AckAction) {
        self.announced = None;
        let mut copied = 0;
        while copied < most {
            let bytes = self.queue.read(most - copied);
            if bytes == 0 {
                break;
            }
            copied += u64::from(bytes);
            sk.copied_seq = sk.copied_seq.wrapping_add(bytes);
            self.adjust_space(sk, now);
            self.rmem_alloc -= self.queue.free();
        }
        if self.fin && !self.fin_read && self.queue.is_empty() {
            self.fin_read = true;
            sk.copied_seq = sk.copied_seq.wrapping_add(1);
        }
        (copied, self.ack_after_read(sk, copied))
    }

    /// Memory charged to the receive buffer, bytes (`sk_rmem_alloc`).
    pub fn rmem_alloc(&self) -> u32 {
        self.rmem_alloc
    }

    /// What autotuning found the application to read in a round trip, bytes (`rcvq_space.space`).
    pub fn rcv_space(&self) -> u32 {
        self.measure.space
    }

    /// Whether data waits for data before it.
    pub fn has_holes(&self) -> bool {
        !self.reorder.is_empty()
    }
}

fn count_segment(sk: &mut TcpSock, segment: &Segment) {
    sk.segs_in += segment.segs();
    if segment.len > 0 {
        sk.data_segs_in += segment.segs();
    }
}

/// `tcp_initialize_rcv_mss`.
fn initial_rcv_mss(sk: &TcpSock) -> u16 {
    let hint = u32::from(sk.advmss).min(sk.mss_cache).min(sk.rcv_wnd / 2);
    hint.clamp(88, 536) as u16
}
