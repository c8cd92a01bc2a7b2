//! The user's choice among the rate controls.

use units::BitRate;

use super::{Daimd, FixedRate, RateControl, Sabul};

/// How a user chooses the rate of a transfer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RateChoice {
    /// TCP: the kernel's congestion control; UDT: its own; Tsunami: 650 Mb/s.
    Automatic,
    /// UDT's own control, which does not slow down for losses up to this share (0 to 1).
    Tolerant(f64),
    /// UDT with the control of SABUL.
    Sabul,
    /// TCP: at most this rate; UDT: this rate, independent of losses; Tsunami: this target.
    Fixed(BitRate),
}

impl RateChoice {
    /// UDT's control for this choice. `mss`: bytes of the largest packet with IP and UDP headers.
    pub fn control(self, seed: u64, mss: u32) -> Box<dyn RateControl> {
        match self {
            RateChoice::Automatic => Box::new(Daimd::new(seed)),
            RateChoice::Tolerant(share) => Box::new(Daimd::tolerant(seed, share)),
            RateChoice::Sabul => Box::<Sabul>::default(),
            RateChoice::Fixed(rate) => Box::new(FixedRate::new(rate, mss)),
        }
    }
}
