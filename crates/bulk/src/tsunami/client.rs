//! The receiving end: the control dialogue, which blocks are missing, and the reported error rate.
//!
//! Differences from the published client:
//! 1. Missing blocks that were requested when the last block arrived are requested again after a round trip,
//!    not with each copy of the last block.
//! 2. The round trip is measured in the dialogue; the published client assumes 0.5 s.
//! 3. There is no lossy mode.
//! 4. This client also reports 3.5 s after its last report; the published client reports only with every 50th
//!    datagram.

use units::{Instant, Time};

use crate::{
    ranges::Ranges,
    tsunami::{
        SessionError,
        control::Inbox,
        wire::{self, BlockKind, Header, Parameters, Reply, Request},
    },
};

/// The client checks whether a report is due each time this number of datagrams has arrived (published
/// client).
const FEEDBACK_DATAGRAMS: u64 = 50;
/// Time between two reports (published client).
const FEEDBACK_INTERVAL: Time = Time::from_millis(350);
/// At low rates a report is due after this time, because a server gives up after 15 s without one.
const MAX_FEEDBACK_INTERVAL: Time = Time::from_millis(3500);
/// Maximum number of ranges of received blocks. A server that restarts at gaps causes a few thousand; a
/// hostile one could fill the memory.
const MAX_RANGES: usize = 1 << 18;
/// From this number of missing blocks on, the client requests a restart instead of the blocks (published
/// client).
const RESTART_BLOCKS: u64 = 2048;
/// Weight of the old error rate (published client: 25 %).
const HISTORY: f64 = 0.25;
/// Error rate for a share of 1 of missing blocks, and for a full write buffer (published client).
const ERROR_SCALE: f64 = 50_000.0;
/// Shortest time after which requests are repeated at the end of a file.
const MIN_REPEAT: Time = Time::from_millis(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Revision,
    Challenge,
    Accepted,
    Answer,
    Reply,
    Receiving,
    Complete,
    Failed(SessionError),
}

/// Counts of a transfer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientStatistics {
    /// Datagrams received.
    pub received_blocks: u64,
    /// Blocks received again.
    pub duplicate_blocks: u64,
    /// Requests for blocks.
    pub requested_blocks: u64,
    /// Requests to restart.
    pub restarts: u64,
}

/// A block that arrived for the first time.
#[derive(Debug, PartialEq, Eq)]
pub struct Received<'a> {
    /// The position of its bytes in the file.
    pub offset: u64,
    /// Its bytes, without padding.
    pub bytes: &'a [u8],
}

/// One transfer of a client.
#[derive(Debug)]
pub struct Client {
    state: State,
    secret: Vec<u8>,
    name: String,
    parameters: Parameters,
    port: u16,
    resume: u64,
    inbox: Inbox,
    control: Vec<u8>,
    reply: Reply,
    requested_at: Instant,
    round_trip: Time,
    received: Ranges,
    missing: Ranges,
    /// The block after the last original one.
    next: u32,
    /// Blocks after the first number, up to the second, were sent before a restart and may still arrive.
    restart: Option<(u32, u32)>,
    last_report: Instant,
    last_repeat: Instant,
    blocks_at_report: u64,
    requested_since_report: u64,
    error_rate: f64,
    backlog: f64,
    statistics: ClientStatistics,
}

impl Client {
    /// Requests a file, to be sent to UDP port `port`. The file's first `resume` bytes are already there.
    pub fn new(secret: &[u8], name: &str, parameters: Parameters, port: u16, resume: u64) -> Self {
        Client {
            state: State::Revision,
            secret: secret.to_vec(),
            name: name.replace('\n', " "),
            parameters,
            port,
            resume,
            inbox: Inbox::default(),
            control: wire::REVISION.to_be_bytes().to_vec(),
            reply: Reply { file_bytes: 0, block_bytes: 1, blocks: 0, epoch: 0 },
            requested_at: Instant::ZERO,
            round_trip: Time::ZERO,
            received: Ranges::default(),
            missing: Ranges::default(),
            next: 1,
            restart: None,
            last_report: Instant::ZERO,
            last_repeat: Instant::ZERO,
            blocks_at_report: 0,
            requested_since_report: 0,
            error_rate: 0.0,
            backlog: 0.0,
            statistics: ClientStatistics::default(),
        }
    }

    /// Takes the bytes to be sent on the control connection.
    pub fn take_control(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.control)
    }

    /// Processes bytes of the control connection.
    pub fn handle_control(&mut self, now: Instant, bytes: &[u8]) {
        if matches!(self.state, State::Complete | State::Failed(_)) {
            return;
        }
        self.inbox.push(bytes);
        loop {
            match self.try_step(now) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    self.state = State::Failed(error);
                    return;
                }
            }
        }
    }

    /// Size of the file, when the server has replied.
    pub fn file_bytes(&self) -> Option<u64> {
        matches!(self.state, State::Receiving | State::Complete).then_some(self.reply.file_bytes)
    }

    /// Bytes that have arrived, including those that were there before.
    pub fn received_bytes(&self) -> u64 {
        (self.received.len() * u64::from(self.reply.block_bytes)).min(self.reply.file_bytes)
    }

    /// The file's first bytes, up to the first missing block.
    pub fn contiguous_bytes(&self) -> u64 {
        let blocks =
            self.received.range_at_or_after(1).filter(|(first, _)| *first == 1).map_or(0, |(_, last)| last);
        (blocks * u64::from(self.reply.block_bytes)).min(self.reply.file_bytes)
    }

    /// Whether all blocks have arrived; the client then requests the server to stop.
    pub fn is_complete(&self) -> bool {
        self.state == State::Complete
    }

    /// Why the transfer failed, if it did.
    pub fn error(&self) -> Option<SessionError> {
        match self.state {
            State::Failed(error) => Some(error),
            _ => None,
        }
    }

    /// Counts so far.
    pub fn statistics(&self) -> ClientStatistics {
        self.statistics
    }

    /// The share of the write buffer that is full (0 to 1): a slow disk slows the server down.
    pub fn set_backlog(&mut self, share: f64) {
        self.backlog = share.clamp(0.0, 1.0);
    }

    fn try_step(&mut self, now: Instant) -> Result<bool, SessionError> {
        match self.state {
            State::Revision => {
                if !self.inbox.take_revision()? {
                    return Ok(false);
                }
                self.state = State::Challenge;
            }
            State::Challenge => {
                let Some(challenge) = self.inbox.take() else { return Ok(false) };
                self.control.extend_from_slice(&wire::proof(&challenge, &self.secret));
                self.state = State::Accepted;
            }
            State::Accepted => {
                let Some([result]) = self.inbox.take() else { return Ok(false) };
                if result != 0 {
                    return Err(SessionError::Secret);
                }
                self.control.extend_from_slice(self.name.as_bytes());
                self.control.push(b'\n');
                self.requested_at = now;
                self.state = State::Answer;
            }
            State::Answer => {
                let Some([result]) = self.inbox.take() else { return Ok(false) };
                if result != 0 {
                    return Err(SessionError::Refused(result));
                }
                self.round_trip = now.saturating_since(self.requested_at);
                self.control.extend_from_slice(&self.parameters.encode());
                self.state = State::Reply;
            }
            State::Reply => {
                let Some(bytes) = self.inbox.take::<{ wire::REPLY_BYTES }>() else { return Ok(false) };
                let reply =
                    Reply::decode(&bytes).filter(|reply| reply.block_bytes == self.parameters.block_bytes);
                self.reply = reply.ok_or(SessionError::Invalid("reply"))?;
                self.control.extend_from_slice(&self.port.to_be_bytes());
                self.last_report = now;
                self.last_repeat = now;
                self.state = State::Receiving;
                self.resume();
                self.finish();
            }
            // A server sends no messages while it sends blocks.
            State::Receiving if !self.inbox.is_empty() => return Err(SessionError::Invalid("message")),
            State::Receiving | State::Complete | State::Failed(_) => return Ok(false),
        }
        Ok(true)
    }

    /// Skips the blocks that are already there.
    fn resume(&mut self) {
        let whole = self.resume.min(self.reply.file_bytes) / u64::from(self.reply.block_bytes);
        if whole > 0 && self.resume < self.reply.file_bytes {
            self.received.insert(1, whole);
            self.next = whole as u32 + 1;
            // The server continues after the block of the request.
            self.control.extend_from_slice(&Request::Restart(whole as u32).encode());
        } else if whole > 0 {
            self.received.insert(1, u64::from(self.reply.blocks));
        }
    }

    /// Processes a datagram; returns a block that is new.
    pub fn handle_datagram<'a>(&mut self, now: Instant, datagram: &'a [u8]) -> Option<Received<'a>> {
        if self.state != State::Receiving {
            return None;
        }
        let (header, bytes) = Header::decode(datagram)?;
        let is_possible =
            (1..=self.reply.blocks).contains(&header.block) && bytes.len() == self.reply.block_bytes as usize;
        if !is_possible {
            return None;
        }
        self.statistics.received_blocks += 1;
        let number = u64::from(header.block);
        let is_new = !self.received.contains(number);
        if is_new {
            self.received.insert(number, number);
            self.missing.remove(number, number);
            if self.received.range_count() > MAX_RANGES {
                self.state = State::Failed(SessionError::Invalid("order of blocks"));
                return None;
            }
        } else {
            self.statistics.duplicate_blocks += 1;
        }
        if is_new || header.kind == BlockKind::Last || self.restart.is_some() {
            self.find_missing(now, header);
        }
        self.finish();
        if self.state == State::Receiving && self.is_report_due(now) {
            self.request_missing(now);
            self.report(now);
        }
        let offset = (number - 1) * u64::from(self.reply.block_bytes);
        let length = (self.reply.file_bytes - offset).min(bytes.len() as u64) as usize;
        is_new.then_some(Received { offset, bytes: &bytes[..length] })
    }

    fn is_report_due(&self, now: Instant) -> bool {
        let since = now.saturating_since(self.last_report);
        let is_turn = self.statistics.received_blocks.is_multiple_of(FEEDBACK_DATAGRAMS);
        (is_turn && since > FEEDBACK_INTERVAL) || since > MAX_FEEDBACK_INTERVAL
    }

    /// Records the blocks that an arrival shows to be missing.
    fn find_missing(&mut self, now: Instant, header: Header) {
        if let Some((last, wire_clear)) = self.restart {
            if header.kind != BlockKind::Last && header.block > last && header.block <= wire_clear {
                // Sent before the restart.
                return;
            }
            if header.block >= last {
                self.restart = None;
            }
        }
        if header.block > self.next {
            self.add_missing(self.next, header.block - 1);
        }
        if header.kind == BlockKind::Original {
            self.next = header.block.saturating_add(1);
        }
        let is_repeat_due =
            now.saturating_since(self.last_repeat) >= (self.round_trip * 5 / 4).max(MIN_REPEAT);
        if header.kind == BlockKind::Last && is_repeat_due {
            self.add_missing(1, header.block);
            self.request_missing(now);
        }
    }

    /// Adds the blocks of a range that have not arrived.
    fn add_missing(&mut self, first: u32, last: u32) {
        let mut at = u64::from(first);
        let last = u64::from(last);
        while at <= last {
            match self.received.range_at_or_after(at) {
                Some((begin, end)) => {
                    if begin > at {
                        self.missing.insert(at, last.min(begin - 1));
                    }
                    at = end + 1;
                }
                None => {
                    self.missing.insert(at, last);
                    return;
                }
            }
        }
    }

    /// Requests the missing blocks, or a restart if there are many.
    fn request_missing(&mut self, now: Instant) {
        self.last_repeat = now;
        if self.missing.len() >= RESTART_BLOCKS {
            let first = self.missing.first().unwrap_or(1);
            let last = self.missing.last().unwrap_or(first) as u32;
            // One block earlier, because the server continues after it; there is none before the first block.
            let block = (first - 1).max(1) as u32;
            self.control.extend_from_slice(&Request::Restart(block).encode());
            let round_trip_bits = f64::from(self.parameters.target_bps) * self.round_trip.as_secs_f64();
            let on_wire = (round_trip_bits / 8.0 / f64::from(self.reply.block_bytes)) as u32;
            self.restart = Some((last, last.saturating_add(on_wire).min(self.reply.blocks)));
            self.statistics.restarts += 1;
            self.requested_since_report += RESTART_BLOCKS;
            self.next = first as u32;
            self.missing = Ranges::default();
            return;
        }
        for (first, last) in self.missing.iter() {
            for block in first..=last {
                self.control.extend_from_slice(&Request::Retransmit(block as u32).encode());
            }
        }
        self.requested_since_report += self.missing.len();
        self.statistics.requested_blocks += self.missing.len();
    }

    /// Reports the error rate.
    fn report(&mut self, now: Instant) {
        let blocks = self.statistics.received_blocks - self.blocks_at_report;
        let requested = self.requested_since_report as f64;
        let share = requested / (1.0 + requested + blocks as f64);
        self.error_rate = HISTORY * self.error_rate + (1.0 - HISTORY) * ERROR_SCALE * (share + self.backlog);
        self.control.extend_from_slice(&Request::ErrorRate(self.error_rate as u32).encode());
        self.blocks_at_report = self.statistics.received_blocks;
        self.requested_since_report = 0;
        self.last_report = now;
    }

    /// Stops the server when everything has arrived.
    fn finish(&mut self) {
        if self.received.len() == u64::from(self.reply.blocks) {
            self.control.extend_from_slice(&Request::Stop.encode());
            self.state = State::Complete;
        }
    }
}
