//! Bytes of the control connection that are not yet complete messages.

use super::{error::SessionError, wire};

/// A buffer of received bytes.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    read: usize,
}

impl Inbox {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.read > 4096 {
            self.bytes.drain(..self.read);
            self.read = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Whether all bytes have been taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.read == self.bytes.len()
    }

    /// Takes the next `N` bytes, if all have arrived.
    pub(crate) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let taken = self.bytes.get(self.read..self.read + N)?.try_into().ok()?;
        self.read += N;
        Some(taken)
    }

    /// Takes the peer's revision; false if it has not arrived.
    pub(crate) fn take_revision(&mut self) -> Result<bool, SessionError> {
        match self.take().map(u32::from_be_bytes) {
            None => Ok(false),
            Some(wire::REVISION) => Ok(true),
            Some(other) => Err(SessionError::Revision(other)),
        }
    }

    /// Takes a line, without its end; `Err` if it is longer than `limit`.
    pub(crate) fn take_line(&mut self, limit: usize) -> Result<Option<Vec<u8>>, ()> {
        let unread = &self.bytes[self.read..];
        match unread.iter().position(|byte| *byte == b'\n') {
            Some(end) if end <= limit => {
                let line = unread[..end].to_vec();
                self.read += end + 1;
                Ok(Some(line))
            }
            None if unread.len() <= limit => Ok(None),
            _ => Err(()),
        }
    }
}
