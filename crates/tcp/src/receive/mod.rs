//! The receiving half of an endpoint: data in order for the application, ACKs, the window, the receive buffer.
//!
//! Pure: time is an argument (ns since the run's start). Everything that `tcp_sock` has is kept in [`TcpSock`] only. One
//! segment goes through [`Receiver::accept`]; then the sending half may send data; then [`Receiver::ack_check`] says what
//! becomes of the ACK. A segment that leaves takes its fields from [`Receiver::ack_fields`] and calls
//! [`Receiver::ack_sent`]. A super-packet counts as what GRO hands over: one packet, one ACK at most.
//!
//! Source: `tcp_rcv_established`, `tcp_validate_incoming`, `tcp_data_queue`, `tcp_fin`, `tcp_prune_queue`
//! (net/ipv4/tcp_input.c), `tcp_recvmsg` (net/ipv4/tcp.c); the other files name theirs.
//!
//! Departures:
//!
//! 1. No PAWS, urgent data, header prediction or backlog.
//! 2. A mark is told to the congestion control after the queue has been gone through, not before.
//! 3. The application reads at once what it reads; nothing is processed while it holds the socket.

mod autotune;
mod delayed_ack;
mod ecn;
mod memory;
mod reorder;
mod sack;
mod window;

#[cfg(test)]
mod tests;

use crate::{
    CaEvent, Config, Flags, SackBlocks, Segment, TcpSock,
    segment::{after, before},
};
use autotune::Measure;
use delayed_ack::{Compression, MAX_QUICK_ACKS, NOMEM, NOW, SCHED};
pub use memory::PacketMemory;
use memory::{Packet, ReceiveQueue};
use reorder::{Inserted, Piece, ReorderQueue};
use sack::SackList;
pub use window::InitialWindow;
use window::Share;

/// `RCV_SHUTDOWN`: the peer has ended its stream.
const RCV_SHUTDOWN: u8 = 1;
/// States (`include/net/tcp_states.h`) in which a FIN is acknowledged at once, and in which the session goes on one way.
const FIN_WAIT: [u8; 2] = [4, 5];
const ESTABLISHED: u8 = 1;
/// `tcp_invalid_ratelimit`: segments without data that are out of the window are answered this often, ns.
const REFUSAL_INTERVAL: u64 = 500_000_000;
/// `TCP_SACK_BLOCKS_EXPECTED`: the peer is thought to have got so many blocks of an ACK that was held back.
const BLOCKS_EXPECTED: usize = 2;

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
    pub earlier: Option<AckFields>,
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

/// What matters of [`Config`].
#[derive(Debug, Clone)]
struct Settings {
    hz: u32,
    dsack: bool,
    moderate: bool,
    /// SO_RCVBUF was set: no autotuning.
    locked: bool,
    initial_rcvbuf: u32,
    /// `tcp_rmem[2]`, bytes.
    most_rcvbuf: i32,
    app_win: u8,
    comp_sack_delay_ns: u64,
    comp_sack_slack_ns: u64,
    comp_sack_nr: u8,
    /// Up to 6.5: `tcp_adv_win_scale`.
    adv_win_scale: Option<i8>,
    /// 6.10: half of the buffer is window until packets come, not 65 / 256.
    half_at_first: bool,
    /// 6.6: a dropped segment closes the window.
    zero_without_memory: bool,
    /// 6.16: no round-trip time while there is data to read, nor one of 0 ms.
    careful_rtt: bool,
    /// 6.16: data out of order makes the buffer grow, data not read does not.
    grows_by_reordering: bool,
    /// 6.17: a segment that reaches beyond the window is refused.
    whole_in_window: bool,
}

impl Settings {
    fn new(config: &Config) -> Settings {
        let since = |minor| config.profile.at_least(6, minor);
        let asked = config.rcvbuf.map(|bytes| bytes.min(config.rmem_max).saturating_mul(2).max(2304));
        Settings {
            hz: config.hz.max(25),
            dsack: config.dsack,
            moderate: config.moderate_rcvbuf,
            locked: asked.is_some(),
            initial_rcvbuf: asked.unwrap_or(config.rmem[1]).min(i32::MAX as u32),
            most_rcvbuf: config.rmem[2].min(i32::MAX as u32) as i32,
            app_win: config.app_win,
            comp_sack_delay_ns: config.comp_sack_delay_ns,
            comp_sack_slack_ns: config.comp_sack_slack_ns,
            comp_sack_nr: config.comp_sack_nr,
            adv_win_scale: (!since(6)).then_some(config.adv_win_scale),
            half_at_first: since(10),
            zero_without_memory: since(6),
            careful_rtt: since(16),
            grows_by_reordering: since(16),
            whole_in_window: since(17),
        }
    }

    fn initial_share(&self) -> Share {
        match self.adv_win_scale {
            Some(scale) => Share::Fixed(scale),
            None if self.half_at_first => Share::Learnt(128),
            None => Share::Learnt(65),
        }
    }
}

/// The receiving half of a connection.
#[derive(Debug, Clone)]
pub struct Receiver {
    settings: Settings,
    memory: PacketMemory,
    window_scale: u8,
    sack: bool,
    timestamps: bool,
    share: Share,
    /// `rcv_nxt` when the window was announced last.
    rcv_wup: u32,
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
    /// The tick before the one at which the delayed ACK goes.
    delayed: Option<u64>,
    /// When a segment was last refused with an ACK, ns.
    refused: Option<u64>,
    /// The sequence number after FIN has been reached, and the application has been told.
    fin: bool,
    fin_read: bool,
}

impl Receiver {
    /// A receiver before its handshake; sets the receive buffer.
    pub fn new(config: &Config, memory: PacketMemory, sk: &mut TcpSock) -> Receiver {
        let settings = Settings::new(config);
        sk.sk_rcvbuf = settings.initial_rcvbuf as i32;
        Receiver {
            share: settings.initial_share(),
            settings,
            memory,
            window_scale: 0,
            sack: false,
            timestamps: false,
            rcv_wup: 0,
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
        sk.copied_seq = sk.rcv_nxt;
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
        sk.segs_in += segment.segs();
        if segment.len > 0 {
            sk.data_segs_in += segment.segs();
        }
        let mut accepted = Accepted::default();
        if !self.in_window(sk, segment) {
            accepted.refused = true;
            accepted.ack = self.refuse(sk, now, segment);
            return accepted;
        }
        if self.timestamps {
            if !after(segment.seq, self.rcv_wup) && !before(segment.tsval, self.ts_recent) {
                self.ts_recent = segment.tsval;
            }
            (sk.rx_opt.rcv_tsval, sk.rx_opt.rcv_tsecr) = (segment.tsval, segment.tsecr);
        }
        self.measure_rtt_by_timestamp(sk, now, segment);
        if segment.is_data() {
            self.accept_cwr(sk, segment);
            self.queue_data(sk, now, segment, &mut accepted);
        }
        accepted
    }

    /// `tcp_sequence`.
    fn in_window(&self, sk: &TcpSock, segment: &Segment) -> bool {
        if before(segment.end_seq(), self.rcv_wup) {
            return false;
        }
        let right = sk.rcv_nxt.wrapping_add(self.receive_window(sk));
        if self.settings.whole_in_window && after(segment.end_seq(), right) && !self.queue.is_empty() {
            return false;
        }
        !after(segment.seq, right)
    }

    /// `tcp_send_dupack`, as often as `tcp_oow_rate_limited` lets it.
    fn refuse(&mut self, sk: &mut TcpSock, now: u64, segment: &Segment) -> AckAction {
        if !segment.is_data() {
            if self.refused.is_some_and(|last| now < last + REFUSAL_INTERVAL) {
                return AckAction::None;
            }
            self.refused = Some(now);
        } else if before(segment.seq, sk.rcv_nxt) {
            self.enter_quick_mode(sk, MAX_QUICK_ACKS);
            let end = if after(segment.end_seq(), sk.rcv_nxt) { sk.rcv_nxt } else { segment.end_seq() };
            self.report_duplicate(segment.seq, end);
        }
        AckAction::Now
    }

    /// `tcp_data_queue`.
    fn queue_data(&mut self, sk: &mut TcpSock, now: u64, segment: &Segment, accepted: &mut Accepted) {
        self.sacks.clear_duplicate();
        let (seq, end) = (segment.seq, segment.end_seq());
        if self.fin && !before(seq, sk.rcv_nxt) {
            return;
        }
        let window = self.receive_window(sk);
        if !after(end, sk.rcv_nxt) {
            self.report_duplicate(seq, end);
            return self.drop_at_once(sk);
        }
        if seq != sk.rcv_nxt && !before(seq, sk.rcv_nxt.wrapping_add(window)) {
            return self.drop_at_once(sk);
        }
        if after(seq, sk.rcv_nxt) {
            return self.queue_out_of_order(sk, segment, accepted);
        }
        if before(seq, sk.rcv_nxt) {
            self.report_duplicate(seq, sk.rcv_nxt);
        }
        if window == 0 {
            return self.drop_at_once(sk);
        }
        self.queue_in_order(sk, now, segment, accepted);
    }

    /// What `tcp_data_queue` does with a segment that brings nothing: its ACK may not wait.
    fn drop_at_once(&self, sk: &mut TcpSock) {
        self.enter_quick_mode(sk, MAX_QUICK_ACKS);
        sk.icsk_ack_pending |= SCHED;
    }

    fn queue_in_order(&mut self, sk: &mut TcpSock, now: u64, segment: &Segment, accepted: &mut Accepted) {
        let packet = self.memory.packet(segment.len);
        if !self.make_room(sk, segment) {
            sk.icsk_ack_pending |= NOMEM | NOW | SCHED;
            if !self.queue.is_empty() {
                accepted.dropped = true;
                return;
            }
        }
        let fin = segment.flags.has(Flags::FIN);
        self.append(sk, Piece { start: segment.seq, end: segment.end_seq(), fin, packet }, accepted);
        if segment.len > 0 {
            accepted.event = self.data_received(sk, now, segment, &packet);
        }
        if !fin && !self.reorder.is_empty() {
            self.take_from_reorder(sk, accepted);
            if self.reorder.is_empty() {
                sk.icsk_ack_pending |= NOW;
            }
        }
        if accepted.fin {
            self.finish(sk);
        } else if self.reorder.is_empty() {
            self.sacks.clear();
        } else {
            self.sacks.remove_before(sk.rcv_nxt);
        }
    }

    /// A piece that does not begin after `rcv_nxt` and ends after it becomes readable.
    fn append(&mut self, sk: &mut TcpSock, mut piece: Piece, accepted: &mut Accepted) {
        let new = piece.end.wrapping_sub(sk.rcv_nxt);
        sk.rcv_nxt = piece.end;
        sk.bytes_received += u64::from(new);
        let data = new - u32::from(piece.fin);
        accepted.in_order += data;
        accepted.fin |= piece.fin;
        piece.packet.len = data;
        if data > 0 {
            self.rmem_alloc += self.queue.push(piece.packet);
        }
    }

    /// `tcp_event_data_recv`.
    fn data_received(
        &mut self,
        sk: &mut TcpSock,
        now: u64,
        segment: &Segment,
        packet: &Packet,
    ) -> Option<CaEvent> {
        sk.icsk_ack_pending |= SCHED;
        self.measure_rcv_mss(sk, segment, packet);
        self.measure_rtt_by_window(sk, now);
        self.adapt_delay(sk, now);
        let event = self.check_mark(sk, segment);
        if packet.len >= 128 {
            self.grow_window(sk, packet, true);
        }
        event
    }

    /// `tcp_ofo_queue`: what follows on `rcv_nxt`.
    fn take_from_reorder(&mut self, sk: &mut TcpSock, accepted: &mut Accepted) {
        let mut high = sk.rcv_nxt;
        while let Some(piece) = self.reorder.take_ready(sk.rcv_nxt) {
            self.rmem_alloc -= piece.packet.truesize;
            if before(piece.start, high) {
                let end = if before(piece.end, high) { piece.end } else { high };
                if self.sack && self.settings.dsack {
                    self.sacks.extend_duplicate(piece.start, end);
                }
                high = if after(piece.end, high) { piece.end } else { high };
            }
            if after(piece.end, sk.rcv_nxt) {
                self.append(sk, piece, accepted);
            }
            if accepted.fin {
                break;
            }
        }
    }

    /// `tcp_data_queue_ofo`.
    fn queue_out_of_order(&mut self, sk: &mut TcpSock, segment: &Segment, accepted: &mut Accepted) {
        accepted.event = self.check_mark(sk, segment);
        if !self.make_room(sk, segment) {
            accepted.dropped = true;
            return;
        }
        let packet = self.memory.packet(segment.len);
        self.measure_rcv_mss(sk, segment, &packet);
        sk.icsk_ack_pending |= SCHED;
        let (start, end) = (segment.seq, segment.end_seq());
        let first = self.reorder.is_empty();
        let piece = Piece { start, end, fin: segment.flags.has(Flags::FIN), packet };
        let (inserted, memory) = self.reorder.insert(piece, &mut self.sacks);
        if !(self.sack && self.settings.dsack) {
            self.sacks.clear_duplicate();
        }
        if self.sack {
            // Memory is charged only after the window has grown, except to a packet that is part of another already.
            if inserted == Inserted::Coalesced {
                self.charge(memory);
                self.grow_window(sk, &packet, true);
            }
            if first {
                self.sacks.clear();
                self.sacks.add(start, end);
            } else {
                self.report_block(sk, start, end, accepted);
            }
            if inserted == Inserted::Queued {
                self.grow_window(sk, &packet, false);
            }
        }
        if !(self.sack && inserted == Inserted::Coalesced) {
            self.charge(memory);
        }
        if self.settings.grows_by_reordering {
            self.grow_buffer(sk, self.measure.space);
        }
    }

    /// `tcp_sack_new_ofo_skb`: the data is reported first. An ACK that was held back goes out where its blocks would
    /// otherwise be pushed out of the list.
    fn report_block(&mut self, sk: &mut TcpSock, start: u32, end: u32, accepted: &mut Accepted) {
        let place = self.sacks.extend(start, end);
        if place.unwrap_or(self.sacks.len()) >= BLOCKS_EXPECTED && self.compression.held > 0 {
            accepted.earlier = Some(self.ack_fields(sk));
            self.ack_sent(sk);
            sk.icsk_ack_pending |= SCHED;
        }
        match place {
            Some(place) => self.sacks.promote(place),
            None => self.sacks.add(start, end),
        }
    }

    /// `tcp_dsack_set`.
    fn report_duplicate(&mut self, start: u32, end: u32) {
        if self.sack && self.settings.dsack {
            self.sacks.set_duplicate(start, end);
        }
    }

    /// `tcp_fin`.
    fn finish(&mut self, sk: &mut TcpSock) {
        self.fin = true;
        sk.icsk_ack_pending |= SCHED;
        sk.sk_shutdown |= RCV_SHUTDOWN;
        if sk.skc_state == ESTABLISHED {
            delayed_ack::enter_pingpong(sk);
        } else if FIN_WAIT.contains(&sk.skc_state) {
            sk.icsk_ack_pending |= NOW;
        }
        self.rmem_alloc -= self.reorder.clear();
        self.sacks.clear();
    }

    fn charge(&mut self, bytes: i64) {
        self.rmem_alloc = (i64::from(self.rmem_alloc) + bytes) as u32;
    }

    /// `tcp_try_rmem_schedule` and `tcp_prune_queue`: whether the socket may be charged another packet.
    fn make_room(&mut self, sk: &mut TcpSock, segment: &Segment) -> bool {
        let fits =
            |receiver: &Receiver, sk: &TcpSock| i64::from(receiver.rmem_alloc) <= i64::from(sk.sk_rcvbuf);
        if fits(self, sk) {
            return true;
        }
        self.clamp_window(sk);
        if fits(self, sk) {
            return true;
        }
        self.rmem_alloc -= self.reorder.collapse() + self.queue.collapse();
        if fits(self, sk) {
            return true;
        }
        let excess = i64::from(self.rmem_alloc) - i64::from(sk.sk_rcvbuf);
        let step = i64::from(sk.sk_rcvbuf >> 3);
        let freed = self.reorder.prune(segment.seq, |freed| i64::from(freed) >= excess.max(step));
        if freed > 0 {
            self.rmem_alloc -= freed;
            self.sacks.clear();
        }
        fits(self, sk)
    }

    /// What a segment that is about to leave says; also remembers the window that it announces.
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
    pub fn readable(&self, sk: &TcpSock) -> u64 {
        let ahead = sk.rcv_nxt.wrapping_sub(sk.copied_seq);
        u64::from(ahead - u32::from(self.fin && !self.fin_read))
    }

    /// The peer's stream has ended, all of it having been received.
    pub fn fin_received(&self) -> bool {
        self.fin
    }

    /// The application reads at most so many bytes (`tcp_recvmsg`). Gives how many there were, and whether an ACK is due.
    pub fn read(&mut self, sk: &mut TcpSock, now: u64, most: u64) -> (u64, AckAction) {
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

/// `tcp_initialize_rcv_mss`.
fn initial_rcv_mss(sk: &TcpSock) -> u16 {
    let hint = u32::from(sk.advmss).min(sk.mss_cache).min(sk.rcv_wnd / 2);
    hint.clamp(88, 536) as u16
}
