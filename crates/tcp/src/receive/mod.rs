//! The receiver of an endpoint: data in order for the application, ACKs, the window, the receive buffer.
//!
//! The time is an argument, ns since the start of the run. State that the kernel's `tcp_sock` has is stored
//! in [`TcpSock`] only. A segment is processed by [`Receiver::accept`]; then the sender may send data; then
//! [`Receiver::ack_check`] decides about the ACK. An outgoing segment gets its acknowledgement from
//! [`Receiver::ack_fields`]; call [`Receiver::ack_sent`] after sending it. A super-packet counts as one
//! packet from GRO, with one ACK at most.
//!
//! Source: `tcp_rcv_established`, `tcp_validate_incoming` (net/ipv4/tcp_input.c), `tcp_recvmsg`
//! (net/ipv4/tcp.c); the other files name their sources.
//!
//! Differences from the kernel:
//!
//! 1. No PAWS, urgent data, header prediction or backlog.
//! 2. The congestion control is notified of a CE mark after the queue has been processed, not before.
//! 3. Reads of the application take no time; no segment arrives while the socket is locked.

mod autotune;
mod data;
mod delayed_ack;
mod ecn;
mod memory;
mod reorder;
mod sack;
mod settings;
mod window;
mod window_share;

#[cfg(test)]
mod tests;

use crate::{
    CaEvent, Config, SackBlocks, Segment, TcpSock,
    segment::{after, before},
};
use autotune::ReadRate;
use delayed_ack::{Compression, DelayTimer};
use memory::{Layout, ReceiveQueue};
use reorder::ReorderQueue;
use sack::SackList;
use settings::Settings;
pub use window::InitialWindow;
use window_share::WindowShare;

/// Converts a time, ns, to the unit of the timestamp option (`Segment::tsval`), ms.
pub fn timestamp_ms(now: u64) -> u32 {
    (now / 1_000_000) as u32
}

/// The action required for an ACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AckAction {
    /// No ACK is due.
    #[default]
    None,
    /// Send an ACK now.
    Now,
    /// A timer delays the ACK.
    Delayed,
}

/// The acknowledgement in an outgoing segment.
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

/// Outcome of the processing of a segment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Accepted {
    /// Bytes that become readable.
    pub in_order: u32,
    /// The peer's stream ends with this segment.
    pub fin: bool,
    /// The segment was outside the window and must not be processed further.
    pub refused: bool,
    /// The segment was dropped because the receive buffer was full.
    pub dropped: bool,
    /// Event for the congestion control, if it needs ECN, with the current `sk`.
    pub event: Option<CaEvent>,
    /// A compressed ACK that must be sent before anything else.
    pub earlier: Option<Box<AckFields>>,
    /// The action for the ACK; [`Receiver::accept`] sets it only for a refused segment.
    pub ack: AckAction,
}

/// Options negotiated in the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NegotiatedOptions {
    /// Window scale of the advertised window.
    pub window_scale: u8,
    /// Selective acknowledgements.
    pub sack: bool,
    /// Timestamps.
    pub timestamps: bool,
    /// The peer's timestamp, ms.
    pub ts_recent: u32,
}

/// The receiver of a connection.
#[derive(Debug, Clone)]
pub struct Receiver {
    settings: Settings,
    layout: Layout,
    window_scale: u8,
    sack: bool,
    timestamps: bool,
    share: WindowShare,
    /// `rcv_nxt` when the window was announced last.
    rcv_wup: u32,
    /// The header field of that window, cached until one of its inputs changes: a pure sender announces the
    /// same window with each packet.
    announced: Option<u16>,
    /// The timestamp to echo, ms.
    ts_recent: u32,
    last_tsecr: u32,
    read_rate: ReadRate,
    queue: ReceiveQueue,
    reorder: ReorderQueue,
    sacks: SackList,
    /// Memory of both queues, bytes (`sk_rmem_alloc`).
    rmem_alloc: u32,
    compression: Compression,
    delayed: Option<DelayTimer>,
    /// When an ACK was last sent for a refused segment, ns.
    refused: Option<u64>,
    /// The peer's FIN was received.
    fin: bool,
    /// The application has read the end of the stream.
    fin_read: bool,
    /// Segments that arrived out of order (`rcv_ooopack`), and with a congestion mark (`received_ce`).
    out_of_order_segs: u32,
    marked_segs: u32,
}

impl Receiver {
    /// Creates a receiver before its handshake, and sets the receive buffer.
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
            read_rate: ReadRate::default(),
            queue: ReceiveQueue::default(),
            reorder: ReorderQueue::default(),
            sacks: SackList::default(),
            rmem_alloc: 0,
            compression: Compression::default(),
            delayed: None,
            refused: None,
            fin: false,
            fin_read: false,
            out_of_order_segs: 0,
            marked_segs: 0,
        }
    }

    /// Completes the handshake. The caller has set in `sk`: `rcv_nxt` after the peer's SYN, `advmss` without
    /// timestamps, `mss_cache`, and from [`InitialWindow`] `rcv_wnd` (also as `rcv_ssthresh`) and
    /// `window_clamp`.
    pub fn establish(&mut self, sk: &mut TcpSock, now: u64, negotiated: NegotiatedOptions) {
        (self.window_scale, self.sack) = (negotiated.window_scale, negotiated.sack);
        (self.timestamps, self.ts_recent) = (negotiated.timestamps, negotiated.ts_recent);
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

    /// Processes a segment without SYN or RST, after the sender has processed its ACK: [`Self::accept`] and
    /// [`Self::ack_check`].
    pub fn on_segment(&mut self, sk: &mut TcpSock, now: u64, segment: &Segment) -> Accepted {
        let mut accepted = self.accept(sk, now, segment);
        if !accepted.refused {
            accepted.ack = self.ack_check(sk, now);
        }
        accepted
    }

    /// First step: window, timestamps, queues. Counts `segs_in`, `data_segs_in` and `bytes_received`.
    pub fn accept(&mut self, sk: &mut TcpSock, now: u64, segment: &Segment) -> Accepted {
        let mut accepted = Accepted::default();
        if self.expects(sk, segment) {
            self.note_timestamp(segment);
            self.measure_rtt_by_timestamp(sk, now, segment);
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

    /// Stores the peer's timestamp, which the next segments echo (`tcp_store_ts_recent`). Call it before the
    /// sender processes the ACK: retransmissions that this ACK triggers echo it.
    #[inline(always)]
    pub(crate) fn note_timestamp(&mut self, segment: &Segment) {
        if self.timestamps && !after(segment.seq, self.rcv_wup) && !before(segment.tsval, self.ts_recent) {
            self.ts_recent = segment.tsval;
        }
    }

    /// [`Self::accept`] for a segment inside the window, without its timestamps. The outcome is large, so it
    /// is written in place; `accepted` must be the default.
    #[inline(always)]
    pub(crate) fn take_expected(
        &mut self,
        sk: &mut TcpSock,
        now: u64,
        segment: &Segment,
        accepted: &mut Accepted,
    ) {
        count_segment(sk, segment);
        if segment.is_data() {
            self.announced = None;
            self.accept_cwr(sk, segment);
            self.queue_data(sk, now, segment, accepted);
        }
    }

    /// The acknowledgement for a segment that is about to leave. Stores the announced window.
    #[inline(always)]
    pub fn ack_fields(&mut self, sk: &mut TcpSock) -> AckFields {
        let window = self.select_window(sk);
        let max_blocks = if self.timestamps { 3 } else { 4 };
        let sack = if self.sack { self.sacks.take(max_blocks) } else { None };
        AckFields { ack: sk.rcv_nxt, window, sack, tsecr: self.ts_recent, ece: ecn::echoes(sk) }
    }

    /// An ACK for an older `rcv_nxt`, which DCTCP requests when marks begin or end (`__tcp_send_ack`). Do not
    /// call [`Self::ack_sent`] for it.
    pub fn older_ack_fields(&mut self, sk: &mut TcpSock, rcv_nxt: u32, ece: bool) -> AckFields {
        AckFields { ack: rcv_nxt, ece, ..self.ack_fields(sk) }
    }

    /// Bytes that can be read.
    #[inline]
    pub fn readable(&self, sk: &TcpSock) -> u64 {
        let ahead = sk.rcv_nxt.wrapping_sub(sk.copied_seq);
        u64::from(ahead - u32::from(self.fin && !self.fin_read))
    }

    /// Whether the peer's complete stream was received.
    pub fn fin_received(&self) -> bool {
        self.fin
    }

    /// The application reads at most `max_bytes` (`tcp_recvmsg`). Returns the number of bytes read and the
    /// action for the ACK.
    #[inline]
    pub fn read(&mut self, sk: &mut TcpSock, now: u64, max_bytes: u64) -> (u64, AckAction) {
        self.announced = None;
        let mut copied = 0;
        while copied < max_bytes {
            let bytes = self.queue.read(max_bytes - copied);
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

    /// Autotuning's estimate of the bytes that the application reads per round trip (`rcvq_space.space`).
    pub fn rcv_space(&self) -> u32 {
        self.read_rate.space
    }

    /// The advertised window, bytes: that of the kernel's state, limited to the largest value of the header's
    /// field.
    pub fn advertised_window(&self, sk: &TcpSock) -> u32 {
        sk.rcv_wnd.min(u32::from(u16::MAX) << self.window_scale)
    }

    /// Segments that arrived out of order.
    pub fn out_of_order_segs(&self) -> u32 {
        self.out_of_order_segs
    }

    /// Segments that arrived with a congestion mark.
    pub fn marked_segs(&self) -> u32 {
        self.marked_segs
    }

    /// Whether out-of-order data waits for missing data.
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
