//! The sending end: the control dialogue, the block to send next, and the delay between blocks.
//!
//! Differences from the published server:
//! 1. The delay between blocks has fractions of a microsecond. The published server rounds the delay down to
//!    whole microseconds: it sends blocks of 1466 B at 1066 Mb/s when the target is 980 Mb/s.
//! 2. Requests for a list of files (`!#DIR??`) and for several files (`*`) are refused.

use units::{Instant, Time};

use crate::{
    pacing::Pacing,
    tsunami::{
        control::Inbox,
        error::SessionError,
        wire::{self, BlockKind, Header, Parameters, Reply, Request},
    },
};

/// Blocks without feedback after which the connection is checked (published server).
const BLOCKS_WITHOUT_FEEDBACK: u32 = 2048;
/// Time between two slow-downs without feedback (published server).
const FEEDBACK_INTERVAL: Time = Time::from_millis(500);
/// The transfer ends after this time without feedback (published server).
const FEEDBACK_TIMEOUT: Time = Time::from_secs(15);
/// The longest delay between blocks (published server).
const MAX_DELAY: Time = Time::from_millis(10);
/// The error rate that represents missing feedback.
const NO_FEEDBACK: u32 = 100_000;

/// A block to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// The datagram's header.
    pub header: Header,
    /// The position of the block in the file, bytes.
    pub offset: u64,
    /// Bytes of the block, which is padded at the file's end.
    pub bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Revision,
    Proof,
    Name,
    /// The application decides.
    Offer,
    Parameters {
        file_bytes: u64,
        epoch: u32,
    },
    Port,
    Sending,
    Failed(SessionError),
}

/// Counts of a transfer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServerStatistics {
    /// Blocks sent.
    pub sent_blocks: u64,
    /// Blocks retransmitted on request.
    pub retransmitted_blocks: u64,
    /// Requests for blocks.
    pub requested_blocks: u64,
    /// Restarts.
    pub restarts: u64,
    /// The last error rate that the client reported, in 1/1000 %.
    pub error_rate: u32,
}

/// One session of a server: transfers, one after the other.
#[derive(Debug)]
pub struct Server {
    state: State,
    secret: Vec<u8>,
    challenge: [u8; wire::CHALLENGE_BYTES],
    inbox: Inbox,
    control: Vec<u8>,
    name: String,
    parameters: Parameters,
    reply: Reply,
    port: u16,
    /// The last block sent.
    block: u32,
    retransmissions: std::collections::VecDeque<u32>,
    target_delay_ns: f64,
    delay_ns: f64,
    pacing: Pacing,
    last_feedback: Instant,
    last_slow_down: Instant,
    blocks_since_feedback: u32,
    completed: u64,
    statistics: ServerStatistics,
}

/// Maximum number of waiting requests; the client repeats dropped ones.
const MAX_WAITING: usize = 1 << 16;

impl Server {
    /// A session with a client that has `secret`; `challenge` are random bytes.
    pub fn new(secret: &[u8], challenge: [u8; wire::CHALLENGE_BYTES]) -> Self {
        Server {
            state: State::Revision,
            secret: secret.to_vec(),
            challenge,
            inbox: Inbox::default(),
            control: wire::REVISION.to_be_bytes().to_vec(),
            name: String::new(),
            parameters: Parameters::default(),
            reply: Reply { file_bytes: 0, block_bytes: 1, blocks: 0, epoch: 0 },
            port: 0,
            block: 0,
            retransmissions: std::collections::VecDeque::new(),
            target_delay_ns: 0.0,
            delay_ns: 0.0,
            pacing: Pacing::new(Instant::ZERO),
            last_feedback: Instant::ZERO,
            last_slow_down: Instant::ZERO,
            blocks_since_feedback: 0,
            completed: 0,
            statistics: ServerStatistics::default(),
        }
    }

    /// Takes the bytes to be sent on the control connection.
    pub fn take_control(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.control)
    }

    /// Processes bytes of the control connection.
    pub fn handle_control(&mut self, now: Instant, bytes: &[u8]) {
        self.inbox.push(bytes);
        while self.step(now) {}
    }

    /// The file that the client requests, until [`Server::offer`] or [`Server::refuse`].
    pub fn requested(&self) -> Option<&str> {
        (self.state == State::Offer).then_some(self.name.as_str())
    }

    /// Agrees to send the requested file. `epoch`: seconds since 1970.
    pub fn offer(&mut self, now: Instant, file_bytes: u64, epoch: u32) {
        if self.state == State::Offer {
            self.control.push(0);
            self.state = State::Parameters { file_bytes, epoch };
            while self.step(now) {}
        }
    }

    /// Refuses the requested file; the client may request another.
    pub fn refuse(&mut self, now: Instant) {
        if self.state == State::Offer {
            self.control.push(8);
            self.state = State::Name;
            while self.step(now) {}
        }
    }

    /// The client's UDP port, while blocks are sent.
    pub fn udp_port(&self) -> Option<u16> {
        (self.state == State::Sending).then_some(self.port)
    }

    /// Number of transfers that clients have completed.
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// Why the session failed, if it did.
    pub fn error(&self) -> Option<SessionError> {
        match self.state {
            State::Failed(error) => Some(error),
            _ => None,
        }
    }

    /// Counts of the current or last transfer.
    pub fn statistics(&self) -> ServerStatistics {
        self.statistics
    }

    /// Bytes of a block, as the client requests.
    pub fn block_bytes(&self) -> u32 {
        self.parameters.block_bytes
    }

    /// Processes one message; false if it is incomplete.
    fn step(&mut self, now: Instant) -> bool {
        match self.try_step(now) {
            Ok(is_complete) => is_complete,
            Err(error) => {
                self.state = State::Failed(error);
                false
            }
        }
    }

    fn try_step(&mut self, now: Instant) -> Result<bool, SessionError> {
        match self.state {
            State::Revision => {
                if !self.inbox.take_revision()? {
                    return Ok(false);
                }
                self.control.extend_from_slice(&self.challenge);
                self.state = State::Proof;
            }
            State::Proof => {
                let Some(proof) = self.inbox.take::<{ wire::PROOF_BYTES }>() else { return Ok(false) };
                let expected = wire::proof(&self.challenge, &self.secret);
                // Constant-time comparison.
                let difference = proof.iter().zip(expected).fold(0, |all, (a, b)| all | (a ^ b));
                if difference != 0 {
                    self.control.push(1);
                    return Err(SessionError::Secret);
                }
                self.control.push(0);
                self.state = State::Name;
            }
            State::Name => {
                let line =
                    self.inbox.take_line(wire::MAX_NAME_BYTES).map_err(|()| SessionError::Invalid("name"))?;
                let Some(line) = line else { return Ok(false) };
                self.name = String::from_utf8(line).map_err(|_| SessionError::Invalid("name"))?;
                self.state = State::Offer;
                if self.name == "*" || self.name == "!#DIR??" {
                    self.refuse(now);
                }
            }
            State::Parameters { file_bytes, epoch } => {
                let Some(bytes) = self.inbox.take::<{ wire::PARAMETER_BYTES }>() else { return Ok(false) };
                self.parameters = Parameters::decode(&bytes).ok_or(SessionError::Invalid("parameter"))?;
                let block_bytes = self.parameters.block_bytes;
                let blocks =
                    wire::blocks_of(file_bytes, block_bytes).ok_or(SessionError::Invalid("block size"))?;
                self.reply = Reply { file_bytes, block_bytes, blocks, epoch };
                self.control.extend_from_slice(&self.reply.encode());
                self.state = State::Port;
            }
            State::Port => {
                let Some(port) = self.inbox.take() else { return Ok(false) };
                self.port = u16::from_be_bytes(port);
                self.begin(now);
            }
            State::Sending => {
                let Some(bytes) = self.inbox.take::<{ wire::REQUEST_BYTES }>() else { return Ok(false) };
                let request = Request::decode(&bytes).ok_or(SessionError::Invalid("request"))?;
                self.handle_request(now, request);
            }
            State::Offer | State::Failed(_) => return Ok(false),
        }
        Ok(true)
    }

    fn begin(&mut self, now: Instant) {
        let bits = f64::from(self.parameters.block_bytes) * 8.0;
        self.target_delay_ns = bits * 1e9 / f64::from(self.parameters.target_bps);
        self.delay_ns = 3.0 * self.target_delay_ns;
        self.block = 0;
        self.retransmissions.clear();
        self.pacing = Pacing::new(now);
        self.last_feedback = now;
        self.last_slow_down = now;
        self.blocks_since_feedback = 0;
        self.statistics = ServerStatistics::default();
        self.state = State::Sending;
    }

    fn handle_request(&mut self, now: Instant, request: Request) {
        self.last_feedback = now;
        self.last_slow_down = now;
        self.blocks_since_feedback = 0;
        match request {
            Request::Retransmit(block) => {
                self.statistics.requested_blocks += 1;
                if (1..=self.reply.blocks).contains(&block) && self.retransmissions.len() < MAX_WAITING {
                    self.retransmissions.push_back(block);
                }
            }
            Request::Restart(block) => {
                if (1..=self.reply.blocks).contains(&block) {
                    // As the published server, continues with the block after this one.
                    self.block = block;
                    self.retransmissions.clear();
                    self.statistics.restarts += 1;
                }
            }
            Request::Stop => {
                self.completed += 1;
                self.state = State::Name;
            }
            Request::ErrorRate(rate) => {
                self.statistics.error_rate = rate;
                self.adapt(rate);
            }
        }
    }

    /// Lengthens the delay between blocks if the error rate is above the threshold, else shortens it.
    fn adapt(&mut self, error_rate: u32) {
        let ratio = |(numerator, denominator): (u16, u16)| f64::from(numerator) / f64::from(denominator);
        let threshold = self.parameters.error_threshold;
        if error_rate > threshold {
            let excess = 1.0 + f64::from(error_rate.min(NO_FEEDBACK) - threshold);
            let share = excess / f64::from(NO_FEEDBACK - threshold);
            self.delay_ns *= 1.0 + (ratio(self.parameters.slower) - 1.0) * share;
        } else {
            self.delay_ns *= ratio(self.parameters.faster);
        }
        self.delay_ns = self.delay_ns.min(MAX_DELAY.as_nanos_f64()).max(self.target_delay_ns);
    }

    /// When [`Server::poll_transmit`] is due.
    pub fn next_timeout(&self) -> Instant {
        if self.state == State::Sending { self.pacing.due() } else { Instant::NEVER }
    }

    /// The next block to be sent, if one is due.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Block> {
        if self.state != State::Sending || now < self.pacing.due() {
            return None;
        }
        self.check_feedback(now);
        if self.state != State::Sending {
            return None;
        }
        let (block, kind) = match self.retransmissions.pop_front() {
            Some(block) => {
                self.statistics.retransmitted_blocks += 1;
                (block, BlockKind::Retransmission)
            }
            None => {
                // An empty file has no block; the reply states that.
                self.block = (self.block + 1).min(self.reply.blocks);
                let is_last = self.block == self.reply.blocks;
                (self.block, if is_last { BlockKind::Last } else { BlockKind::Original })
            }
        };
        // The last block is repeated until the client stops, ten times slower.
        let delay = if kind == BlockKind::Last { 10.0 * self.delay_ns } else { self.delay_ns };
        self.pacing.sent(now, Time::from_nanos_f64(delay));
        if block == 0 {
            return None;
        }
        self.statistics.sent_blocks += 1;
        let bytes = self.parameters.block_bytes;
        let offset = u64::from(block - 1) * u64::from(bytes);
        Some(Block { header: Header { block, kind }, offset, bytes: bytes as usize })
    }

    fn check_feedback(&mut self, now: Instant) {
        self.blocks_since_feedback += 1;
        if now.saturating_since(self.last_feedback) >= FEEDBACK_TIMEOUT {
            self.state = State::Failed(SessionError::NoFeedback);
        } else if self.blocks_since_feedback > BLOCKS_WITHOUT_FEEDBACK
            && now.saturating_since(self.last_slow_down) >= FEEDBACK_INTERVAL
        {
            self.blocks_since_feedback = 0;
            self.last_slow_down = now;
            self.adapt(NO_FEEDBACK);
        }
    }

    /// The current rate of blocks, bit/s of file data.
    pub fn rate_bps(&self) -> f64 {
        if self.delay_ns > 0.0 { f64::from(self.parameters.block_bytes) * 8e9 / self.delay_ns } else { 0.0 }
    }
}
