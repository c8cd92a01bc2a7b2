//! A TCP connection, from its handshake or from where the capture begins.

use std::{collections::VecDeque, net::SocketAddr, time::Duration};

use schema::{Event, EventKind};

use crate::{
    segment::Segment,
    sender::{AckSays, Rows, Sender},
};

/// Time stamps that may wait to come back.
const STAMPS_MOST: usize = 256;

/// One connection with its two directions.
#[derive(Debug)]
pub(crate) struct Connection {
    /// Of whom the first packet came, and the other.
    pub(crate) ends: [End; 2],
    /// It was closed or reset.
    is_over: bool,
}

/// One end and what it sends.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) address: SocketAddr,
    pub(crate) sender: Sender,
    /// What its SYN said.
    syn: Option<Syn>,
    has_fin: bool,
    /// Its newest time stamps that have not come back yet, and when each first passed.
    stamps: VecDeque<(u32, u64)>,
}

#[derive(Debug, Clone, Copy)]
struct Syn {
    at_ns: u64,
    seq: u32,
    window_scale: Option<u8>,
    mss: Option<u16>,
    /// How often it was sent again.
    retries: u32,
}

impl Connection {
    /// The `number`th between these ports, from 1.
    pub(crate) fn new(first: &Segment, number: u32, every: Duration) -> Self {
        let again = if number > 1 { format!("#{number}") } else { String::new() };
        let end = |from: SocketAddr, to: SocketAddr| End {
            address: from,
            sender: Sender::new(format!("{from}-{to}{again}"), every),
            syn: None,
            has_fin: false,
            stamps: VecDeque::new(),
        };
        let ends = [end(first.from, first.to), end(first.to, first.from)];
        Connection { ends, is_over: false }
    }

    /// A new connection between the same ports begins with this segment.
    pub(crate) fn is_succeeded_by(&self, segment: &Segment) -> bool {
        let before = self.end(segment.from).syn;
        segment.flags.syn()
            && !segment.flags.ack()
            && (self.is_over || before.is_some_and(|syn| syn.seq != segment.seq))
    }

    fn end(&self, address: SocketAddr) -> &End {
        &self.ends[usize::from(self.ends[0].address != address)]
    }

    pub(crate) fn add(&mut self, now_ns: u64, segment: &Segment, rows: &mut Rows) {
        let from = usize::from(self.ends[0].address != segment.from);
        if segment.flags.syn() {
            self.begin(now_ns, from, segment, rows);
        }
        let [one, two] = &mut self.ends;
        let (end, other) = if from == 0 { (one, two) } else { (two, one) };
        if segment.flags.ack() {
            Self::measure_handshake(now_ns, end, other, segment);
            let says = AckSays { window: end.window(other, segment), sack_blocks: segment.sack_blocks };
            if other.sender.has_data() || !segment.flags.syn() {
                other.sender.hears(now_ns, segment.ack, says, rows);
            }
        }
        let mut since_ack_ns = None;
        if let Some((value, echo)) = segment.stamps {
            end.stamp(now_ns, value);
            if segment.payload > 0 {
                since_ack_ns = other.echoed(echo).map(|at_ns| now_ns.saturating_sub(at_ns));
            }
        }
        if segment.payload > 0 {
            let seq = segment.seq.wrapping_add(u32::from(segment.flags.syn()));
            end.learn_mss(other, segment.payload);
            end.sender.measure_distance(now_ns, since_ack_ns);
            end.sender.sends(now_ns, seq, segment.payload, rows);
        }
        end.has_fin |= segment.flags.fin();
        if segment.flags.rst() || (segment.flags.fin() && other.has_fin) {
            self.is_over = true;
        }
    }

    fn begin(&mut self, now_ns: u64, from: usize, segment: &Segment, rows: &mut Rows) {
        let end = &mut self.ends[from];
        end.sender.begin_at(segment.seq.wrapping_add(1));
        if let Some(syn) = &mut end.syn {
            syn.retries += 1;
            (syn.at_ns, syn.seq) = (now_ns, segment.seq);
            rows.events.push(Event {
                time_us: i64::try_from(now_ns / 1000).unwrap_or(i64::MAX),
                subject: end.sender.name.clone(),
                kind: EventKind::HandshakeRetry,
                value: syn.retries.into(),
            });
            return;
        }
        let (seq, window_scale, mss) = (segment.seq, segment.window_scale, segment.mss);
        end.syn = Some(Syn { at_ns: now_ns, seq, window_scale, mss, retries: 0 });
    }

    /// The ACK of a SYN: how far it is from here to the end that sends it, and back. That is what the other direction's
    /// round-trip times lack.
    fn measure_handshake(now_ns: u64, end: &mut End, other: &mut End, segment: &Segment) {
        let Some(syn) = other.syn.filter(|syn| syn.retries == 0) else { return };
        if segment.ack == syn.seq.wrapping_add(1) {
            end.sender.distance.add_handshake(now_ns.saturating_sub(syn.at_ns));
        }
    }
}

impl End {
    /// A time stamp of it passes.
    fn stamp(&mut self, now_ns: u64, value: u32) {
        if self.stamps.back().is_some_and(|(newest, _)| value.wrapping_sub(*newest) as i32 <= 0) {
            return;
        }
        if self.stamps.len() == STAMPS_MOST {
            self.stamps.pop_front();
        }
        self.stamps.push_back((value, now_ns));
    }

    /// When the time stamp first passed that comes back for the first time now.
    fn echoed(&mut self, echo: u32) -> Option<u64> {
        let place = self.stamps.iter().position(|(value, _)| *value == echo)?;
        self.stamps.drain(..=place).next_back().map(|(_, at_ns)| at_ns)
    }

    /// The window that a segment of this end tells (RFC 7323 section 2.2): a SYN's is as it stands.
    fn window(&self, other: &End, segment: &Segment) -> Option<u32> {
        if segment.flags.rst() {
            return None;
        }
        let window = u32::from(segment.window);
        if segment.flags.syn() {
            return Some(window);
        }
        match (self.syn?.window_scale, other.syn?.window_scale) {
            (Some(shift), Some(_)) => Some(window << shift),
            _ => Some(window),
        }
    }

    /// The largest payload of one segment: what was seen, within what both SYNs allow, for captures at the host have several
    /// segments in one.
    fn learn_mss(&mut self, other: &End, payload: u32) {
        let told = [self.syn, other.syn].into_iter().flatten().filter_map(|syn| syn.mss).min();
        let most = told.map_or(payload, |mss| payload.min(mss.into()));
        self.sender.mss = self.sender.mss.max(most);
    }
}
