//! The congestion state of a sender.

/// Congestion state of the sender (`enum tcp_ca_state`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum CaState {
    /// No sign of loss.
    Open = 0,
    /// Duplicate ACKs or SACKs, too few for a loss.
    Disorder = 1,
    /// The window is being reduced after an ECN mark or a local drop.
    Cwr = 2,
    /// Fast retransmission.
    Recovery = 3,
    /// After a retransmission timeout.
    Loss = 4,
}

impl From<u8> for CaState {
    /// Converts the kernel's value; values above 4 become `Loss`.
    fn from(value: u8) -> CaState {
        match value {
            0 => CaState::Open,
            1 => CaState::Disorder,
            2 => CaState::Cwr,
            3 => CaState::Recovery,
            _ => CaState::Loss,
        }
    }
}
