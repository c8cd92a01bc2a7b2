//! A TCP connection, from its handshake or from the beginning of the capture.

use std::{collections::VecDeque, net::SocketAddr, time::Duration};

use schema::{Event, EventKind};

use crate::{
    recent_packets::RecentPackets,
    segment::Segment,
    sender::{AckInfo, AdvertisedWindow, FlowSender, Rows},
};

/// Maximum payload of a single frame, bytes: a packet with more is certainly a super-packet (jumbo frames
/// have at most 9216 bytes).
const MAX_FRAME_PAYLOAD: u32 = 9216;
/// Maximum number of segments in a super-packet that are counted by identifications: 64 kB with an MSS of 536
/// (RFC 9293).
const MAX_SEGMENTS: u16 = 123;
/// Maximum number of timestamps of one endpoint that wait for their echo.
const MAX_PENDING_TIMESTAMPS: usize = 256;

/// A connection with its two directions.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The sender of the first packet, then its peer.
    pub(crate) endpoints: [CapturedEndpoint; 2],
    /// Whether it was closed or reset.
    is_closed: bool,
}

/// An endpoint and the direction in which it sends.
#[derive(Debug)]
pub(crate) struct CapturedEndpoint {
    pub(crate) address: SocketAddr,
    pub(crate) sender: FlowSender,
    /// Whether the capture contains a packet from this endpoint.
    has_sent: bool,
    recent: RecentPackets,
    /// Its latest SYN, if any.
    syn: Option<SynInfo>,
    has_fin: bool,
    /// Its latest super-packet.
    super_packet: Option<SuperPacket>,
    /// The largest payload of a segment, counted by identifications.
    counted_mss: Option<u32>,
    /// Its newest timestamps that have not been echoed, and the time when each first passed.
    pending_timestamps: VecDeque<(u32, u64)>,
}

#[derive(Debug, Clone, Copy)]
struct SynInfo {
    time_ns: u64,
    seq: u32,
    window_scale: WindowScale,
    mss: Option<u16>,
    /// Number of retransmissions.
    retries: u32,
}

/// The window scale option of a SYN (RFC 7323 section 2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WindowScale {
    /// The SYN has no such option: windows of neither endpoint are scaled.
    Absent,
    /// Number of bits.
    Shift(u8),
    /// The packet was truncated within its options.
    Unknown,
}

#[derive(Debug, Clone, Copy)]
struct SuperPacket {
    id: u16,
    payload: u32,
    /// The sequence number that follows this one.
    end: u32,
}

impl Connection {
    /// A connection that begins with the segment `first`; the `number`th between these ports, counted from 1.
    pub(crate) fn new(first: &Segment, number: u32, every: Duration) -> Self {
        let suffix = if number > 1 { format!("#{number}") } else { String::new() };
        let endpoint = |from: SocketAddr, to: SocketAddr| CapturedEndpoint {
            address: from,
            sender: FlowSender::new(format!("{from}-{to}{suffix}"), every),
            has_sent: false,
            recent: RecentPackets::default(),
            syn: None,
            has_fin: false,
            super_packet: None,
            counted_mss: None,
            pending_timestamps: VecDeque::new(),
        };
        let endpoints = [endpoint(first.from, first.to), endpoint(first.to, first.from)];
        Connection { endpoints, is_closed: false }
    }

    /// Whether this segment begins a new connection between the same ports.
    pub(crate) fn is_succeeded_by(&self, segment: &Segment) -> bool {
        let endpoint = self.endpoint(segment.from);
        let is_another_syn = match endpoint.syn {
            Some(syn) => syn.seq != segment.seq,
            // The capture began in the middle of the present connection.
            None => endpoint.has_sent,
        };
        match (segment.flags.syn(), segment.flags.ack()) {
            (true, false) => self.is_closed || is_another_syn,
            // The capture has one direction only. Before any data, it may be a retransmitted SYN-ACK with
            // another SYN cookie.
            (true, true) => is_another_syn && endpoint.sender.has_data(),
            (false, _) => false,
        }
    }

    fn endpoint(&self, address: SocketAddr) -> &CapturedEndpoint {
        &self.endpoints[usize::from(self.endpoints[0].address != address)]
    }

    /// Adds a segment. Returns whether it is a copy of an earlier packet, which is skipped.
    pub(crate) fn add(&mut self, now_ns: u64, segment: &Segment, rows: &mut Rows) -> bool {
        let from = usize::from(self.endpoints[0].address != segment.from);
        let [one, two] = &mut self.endpoints;
        let (endpoint, peer) = if from == 0 { (one, two) } else { (two, one) };
        endpoint.has_sent = true;
        if endpoint.is_copy(now_ns, peer, segment) {
            return true;
        }
        if segment.sack_blocks > 0 {
            peer.recent.on_loss_report();
        }
        if segment.flags.syn() {
            endpoint.on_syn(now_ns, segment, rows);
        }
        if segment.flags.ack() {
            Self::measure_handshake(now_ns, endpoint, peer, segment);
            let info = AckInfo {
                window: endpoint.advertised_window(peer, segment),
                sack_blocks: segment.sack_blocks,
                reports_marks: segment.flags.ece() && !segment.flags.syn(),
            };
            if peer.sender.has_data() || !segment.flags.syn() {
                peer.sender.on_ack(now_ns, segment.ack, info, rows);
            }
        }
        let mut since_ack_ns = None;
        if let Some((value, echo)) = segment.timestamps {
            endpoint.add_timestamp(now_ns, value);
            if segment.payload > 0 {
                since_ack_ns = peer.take_echoed(echo).map(|time_ns| now_ns.saturating_sub(time_ns));
            }
        }
        if segment.payload > 0 {
            let seq = segment.first_data_seq();
            endpoint.sender.measure_sender_side_rtt(now_ns, since_ack_ns);
            endpoint.sender.on_data(now_ns, seq, segment.payload, rows);
        }
        endpoint.has_fin |= segment.flags.fin();
        if segment.flags.rst() || (segment.flags.fin() && peer.has_fin) {
            self.is_closed = true;
        }
        false
    }

    /// The time from a SYN to its ACK is the round-trip time between the capture point and the endpoint that
    /// sends the ACK. It is missing from the round-trip times of that endpoint's data.
    fn measure_handshake(
        now_ns: u64,
        endpoint: &mut CapturedEndpoint,
        peer: &CapturedEndpoint,
        segment: &Segment,
    ) {
        let Some(syn) = peer.syn.filter(|syn| syn.retries == 0) else { return };
        if segment.ack == syn.seq.wrapping_add(1) {
            endpoint.sender.sender_side_rtt.add_handshake(now_ns.saturating_sub(syn.time_ns));
        }
    }
}

impl CapturedEndpoint {
    /// Whether a segment that this endpoint sends is a copy of an earlier packet.
    fn is_copy(&mut self, now_ns: u64, peer: &CapturedEndpoint, segment: &Segment) -> bool {
        if segment.payload > 0 {
            self.update_mss(peer, segment);
        }
        let end = segment.first_data_seq().wrapping_add(segment.payload);
        let is_sent = segment.payload == 0 || self.sender.has_sent(end);
        self.recent.add(now_ns, segment, self.sender.mss, is_sent)
    }

    fn on_syn(&mut self, now_ns: u64, segment: &Segment, rows: &mut Rows) {
        self.sender.set_first_seq(segment.seq.wrapping_add(1));
        if let Some(syn) = &mut self.syn {
            syn.retries += 1;
            (syn.time_ns, syn.seq) = (now_ns, segment.seq);
            rows.events.push(Event {
                time_us: i64::try_from(now_ns / 1000).unwrap_or(i64::MAX),
                subject: self.sender.name.clone(),
                kind: EventKind::HandshakeRetry,
                value: syn.retries.into(),
            });
            return;
        }
        let window_scale = match segment.window_scale {
            Some(shift) => WindowScale::Shift(shift),
            None if segment.has_all_options => WindowScale::Absent,
            None => WindowScale::Unknown,
        };
        let (seq, mss) = (segment.seq, segment.mss);
        self.syn = Some(SynInfo { time_ns: now_ns, seq, window_scale, mss, retries: 0 });
    }

    /// Records a timestamp that this endpoint sends.
    fn add_timestamp(&mut self, now_ns: u64, value: u32) {
        if self.pending_timestamps.back().is_some_and(|(newest, _)| value.wrapping_sub(*newest) as i32 <= 0) {
            return;
        }
        if self.pending_timestamps.len() == MAX_PENDING_TIMESTAMPS {
            self.pending_timestamps.pop_front();
        }
        self.pending_timestamps.push_back((value, now_ns));
    }

    /// Returns when the echoed timestamp first passed, and forgets it and all older ones; `None` if it was
    /// echoed before.
    fn take_echoed(&mut self, echo: u32) -> Option<u64> {
        let index = self.pending_timestamps.iter().position(|(value, _)| *value == echo)?;
        self.pending_timestamps.drain(..=index).next_back().map(|(_, time_ns)| time_ns)
    }

    /// The window that a segment of this endpoint advertises. In a SYN it is not scaled (RFC 7323 section
    /// 2.2).
    fn advertised_window(&self, peer: &CapturedEndpoint, segment: &Segment) -> AdvertisedWindow {
        let window = u32::from(segment.window);
        if segment.flags.rst() {
            return AdvertisedWindow::None;
        }
        if segment.flags.syn() || window == 0 {
            return AdvertisedWindow::Bytes(window);
        }
        let scale = |endpoint: &CapturedEndpoint| endpoint.syn.map(|syn| syn.window_scale);
        match (scale(self), scale(peer)) {
            (Some(WindowScale::Absent), _) | (_, Some(WindowScale::Absent)) => {
                AdvertisedWindow::Bytes(window)
            }
            (Some(WindowScale::Shift(shift)), Some(WindowScale::Shift(_))) => {
                AdvertisedWindow::Bytes(window << shift)
            }
            _ => AdvertisedWindow::Open { field: segment.window },
        }
    }

    /// Updates the maximum payload of a segment. It is limited by the MSS options of both SYNs, because
    /// captures on a host contain super-packets of several segments. The options of a segment are part of the
    /// announced MSS (RFC 6691 section 2).
    fn update_mss(&mut self, peer: &CapturedEndpoint, segment: &Segment) {
        let announced = [self.syn, peer.syn].into_iter().flatten().filter_map(|syn| syn.mss).min();
        self.count_segments(segment);
        self.sender.mss = match (announced, self.counted_mss) {
            (Some(mss), _) => {
                let limit = u32::from(mss.saturating_sub(segment.options_bytes)).max(1);
                self.sender.mss.max(segment.payload.min(limit))
            }
            (None, Some(mss)) => mss,
            (None, None) => self.sender.mss.max(segment.payload),
        };
    }

    /// Counts the segments of a super-packet by the identification of the packet that follows it: each
    /// segment has one. Pure ACKs in between also use identifications, so the largest segment size found is
    /// kept.
    fn count_segments(&mut self, segment: &Segment) {
        let Some(id) = segment.id else { return };
        let begin = segment.first_data_seq();
        if let Some(before) = self.super_packet.take().filter(|before| before.end == begin) {
            let segments = id.wrapping_sub(before.id);
            if (2..=MAX_SEGMENTS).contains(&segments) {
                self.counted_mss = self.counted_mss.max(Some(before.payload.div_ceil(segments.into())));
            }
        }
        let (payload, end) = (segment.payload, begin.wrapping_add(segment.payload));
        self.super_packet = (payload > MAX_FRAME_PAYLOAD).then_some(SuperPacket { id, payload, end });
    }
}
