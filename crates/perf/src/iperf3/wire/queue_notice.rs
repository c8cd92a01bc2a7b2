//! A server's notice to a client that asked for it (`longfat_queue`): it waits for its turn. iperf3 has no such message, so no
//! other client gets it.

/// The first byte: no state of iperf3's.
pub const QUEUE_NOTICE: i8 = 100;
/// Bytes after the first.
pub const QUEUE_NOTICE_BYTES: usize = 8;

/// How long a client has to wait for its turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueNotice {
    /// Clients that have their turn first, those whose test runs included; 0: the next turn is this client's.
    pub ahead: u32,
    /// The expected wait, seconds; 0: not known.
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

    /// The notice of what follows the first byte.
    pub fn from_bytes([a, b, c, d, e, f, g, h]: [u8; QUEUE_NOTICE_BYTES]) -> Self {
        QueueNotice { ahead: u32::from_be_bytes([a, b, c, d]), wait_s: u32::from_be_bytes([e, f, g, h]) }
    }

    /// As people are told.
    pub fn text(self) -> String {
        match self {
            QueueNotice { ahead: 0, .. } => "waiting for the server's other test to end".into(),
            QueueNotice { ahead, wait_s: 0 } => format!("waiting for our turn: {ahead} tests come first"),
            QueueNotice { ahead, wait_s } => {
                format!("waiting for our turn: {ahead} tests come first, which takes about {wait_s} s")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iperf3::wire::State;

    #[test]
    fn a_notice_comes_back_and_is_no_state() {
        let notice = QueueNotice { ahead: 12, wait_s: 345 };
        let bytes = notice.to_bytes();
        assert_eq!(QueueNotice::from_bytes(bytes[1..].try_into().unwrap()), notice);
        assert_eq!(State::from_code(QUEUE_NOTICE), None);
        assert!(notice.text().contains("12 tests") && notice.text().contains("345 s"));
    }
}
