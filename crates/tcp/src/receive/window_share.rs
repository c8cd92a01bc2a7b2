//! The share of the receive buffer that is window.

/// `TCP_RMEM_TO_WIN_SCALE`: window shares count in 256ths.
pub(super) const SHARE_SHIFT: u32 = 8;

/// The share of the receive buffer that is window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WindowShare {
    /// `tcp_adv_win_scale`, before 6.6: all except 2^-n of the buffer, or 2^n of it if negative.
    Fixed(i8),
    /// `scaling_ratio`, from 6.6 on: 256ths, measured on received packets.
    Learnt(u8),
}

impl WindowShare {
    /// `tcp_win_from_space`, bytes.
    #[inline]
    pub fn window(self, space: i64) -> i64 {
        match self {
            WindowShare::Fixed(scale) if scale <= 0 => space >> -scale,
            WindowShare::Fixed(scale) => space - (space >> scale),
            WindowShare::Learnt(ratio) => (space * i64::from(ratio)) >> SHARE_SHIFT,
        }
    }
}
