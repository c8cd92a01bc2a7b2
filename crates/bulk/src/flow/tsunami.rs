//! The ends of a Tsunami flow. The receiver is the client: it requests the data on the control connection.

use units::Instant;

use super::{End, Plan, ReceiverCounts, SenderCounts, plan::UDP_HEADER};
use crate::tsunami::{
    Client, Server,
    wire::{CHALLENGE_BYTES, HEADER_BYTES, Parameters},
};

/// Shared by both ends, which belong to one program.
const SECRET: &[u8] = b"longfat";
/// The name under which the receiver requests the data.
const NAME: &str = "memory";
/// Number of blocks of a flow without a size: the maximum.
const MAX_BLOCKS: u32 = u32::MAX - 1;

/// The sending end: the server.
pub(super) struct TsunamiSender {
    server: Server,
    bytes: u64,
    block_bytes: u32,
}

impl TsunamiSender {
    pub(super) fn new(plan: &Plan, parameters: &Parameters) -> Self {
        let mut challenge = [0; CHALLENGE_BYTES];
        challenge[..8].copy_from_slice(&plan.seed.to_be_bytes());
        let block_bytes = parameters.block_bytes;
        TsunamiSender {
            server: Server::new(SECRET, challenge),
            bytes: plan.bytes.unwrap_or(u64::from(MAX_BLOCKS) * u64::from(block_bytes)),
            block_bytes,
        }
    }

    pub(super) fn counts(&self) -> SenderCounts {
        SenderCounts::of_tsunami(&self.server, self.block_bytes)
    }
}

impl End for TsunamiSender {
    fn handle_datagram(&mut self, _now: Instant, _bytes: &[u8]) {}
    fn handle_control(&mut self, now: Instant, bytes: &[u8]) {
        self.server.handle_control(now, bytes);
        if self.server.requested().is_some() && self.server.completed() == 0 {
            self.server.offer(now, self.bytes, 0);
        }
    }
    fn next_timeout(&self) -> Instant {
        self.server.next_timeout()
    }
    fn handle_timeout(&mut self, _now: Instant) {}
    fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        let Some(block) = self.server.poll_transmit(now) else { return false };
        out.extend_from_slice(&block.header.encode());
        out.resize(out.len() + block.bytes, 0);
        true
    }
    fn take_control(&mut self) -> Vec<u8> {
        self.server.take_control()
    }
    fn failure(&self) -> Option<String> {
        self.server.error().map(|error| error.to_string())
    }
}

/// The receiving end: the client.
pub(super) struct TsunamiReceiver(Client);

impl TsunamiReceiver {
    pub(super) fn new(parameters: &Parameters, port: u16) -> Self {
        TsunamiReceiver(Client::new(SECRET, NAME, *parameters, port, 0))
    }

    pub(super) fn counts(&self) -> ReceiverCounts {
        ReceiverCounts {
            is_complete: self.0.is_complete(),
            received_bytes: self.0.file_bytes().map_or(0, |_| self.0.received_bytes()),
            duplicate_packets: self.0.statistics().duplicate_blocks,
            rtt: None,
            min_rtt: None,
            playout: None,
        }
    }
}

impl End for TsunamiReceiver {
    fn handle_datagram(&mut self, now: Instant, bytes: &[u8]) {
        self.0.handle_datagram(now, bytes);
    }
    fn handle_control(&mut self, now: Instant, bytes: &[u8]) {
        self.0.handle_control(now, bytes);
    }
    fn next_timeout(&self) -> Instant {
        Instant::NEVER
    }
    fn handle_timeout(&mut self, _now: Instant) {}
    fn poll_transmit(&mut self, _now: Instant, _out: &mut Vec<u8>) -> bool {
        false
    }
    fn take_control(&mut self) -> Vec<u8> {
        self.0.take_control()
    }
    fn failure(&self) -> Option<String> {
        self.0.error().map(|error| error.to_string())
    }
}

/// Bytes of a block that fills packets of `mtu` bytes.
pub fn full_block_bytes(mtu: u32, ip_header: u32) -> u32 {
    mtu.saturating_sub(ip_header + UDP_HEADER + HEADER_BYTES as u32).max(1)
}
