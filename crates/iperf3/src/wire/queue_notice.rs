//! A server's notice to a client that requested it (`longfat_queue`): the client waits in the queue. iperf3
//! has no such message, so the server sends it to no other client.

/// The first byte, which is not a state of iperf3.
pub const QUEUE_NOTICE: i8 = 100;
/// Bytes after the first.
pub const QUEUE_NOTICE_BYTES: usize = 8;

/// Time that a client has to wait in the queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueNotice {
    /// Clients ahead of it, including those whose test runs; 0: this client is next.
    pub ahead: u32,
    /// The expected wait, seconds; 0: unknown.
    pub wait_s: u32,
}

impl QueueNotice {
    /// The message, its first byte included.
    pub fn to_bytes(self) -> [u8; 1 + QUEUE_NOTICE_BYTES] {
        let mut bytes = [QUEUE_NOTICE as u8; 1 + QUEUE_NOTICE_BYTES];
        bytes[1..5].copy_from_slice(&self.ahead.to_be_bytes());
        bytes[5..].copy_from_slice(&self.wait_s.to_be_bytes());
        bytes
    }

    /// The notice from the bytes after the first.
    pub fn from_bytes([a, b, c, d, e, f, g, h]: [u8; QUEUE_NOTICE_BYTES]) -> Self {
        QueueNotice { ahead: u32::from_be_bytes([a, b, c, d]), wait_s: u32::from_be_bytes([e, f, g, h]) }
    }

    /// A message for the user.
    pub fn text(self) -> String {
        let QueueNotice { ahead, wait_s } = self;
        let tests = if ahead == 1 { "test" } else { "tests" };
        match (ahead, wait_s) {
            (0, _) => "waiting for another test of the server to end".into(),
            (_, 0) => format!("waiting in the server's queue: {ahead} {tests} ahead"),
            _ => format!("waiting in the server's queue: {ahead} {tests} ahead, about {wait_s} s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::State;

    #[test]
    fn a_notice_round_trips_and_is_distinct_from_all_states() {
        let notice = QueueNotice { ahead: 12, wait_s: 345 };
        let bytes = notice.to_bytes();
        assert_eq!(QueueNotice::from_bytes(bytes[1..].try_into().unwrap()), notice);
        assert_eq!(State::from_code(QUEUE_NOTICE), None);
        assert!(notice.text().contains("12 tests") && notice.text().contains("345 s"));
    }
}
