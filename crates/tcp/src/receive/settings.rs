//! Settings of the receiver from the configuration, and the differences between kernels.

use super::window_share::WindowShare;
use crate::{Config, behaviour::Behaviour};

/// The receiver's part of [`Config`].
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub behaviour: Behaviour,
    pub hz: u32,
    pub dsack: bool,
    pub moderate: bool,
    /// SO_RCVBUF was set: no autotuning.
    pub locked: bool,
    pub initial_rcvbuf: u32,
    /// `tcp_rmem[2]`, bytes.
    pub max_rcvbuf: i32,
    pub app_win: u8,
    pub rcvbuf_low_rtt_us: u32,
    /// `MAX_TCP_HEADER`, bytes.
    pub max_tcp_header: u32,
    pub comp_sack_delay_ns: u64,
    pub comp_sack_rtt_percent: u32,
    pub comp_sack_slack_ns: u64,
    pub comp_sack_nr: u8,
    /// Up to 6.5: `tcp_adv_win_scale`.
    pub adv_win_scale: Option<i8>,
    /// Since 6.10: half of the buffer is window until packets arrive; in 6.6 to 6.9 65/256.
    pub half_at_first: bool,
    /// Since 6.6: a dropped segment closes the window.
    pub zero_without_memory: bool,
    /// Since 6.16: no sample of the round-trip time while there is data to read, nor samples of 0 ms.
    pub careful_rtt: bool,
    /// Since 6.16: out-of-order data makes the buffer grow, unread data does not.
    pub grows_by_reordering: bool,
    /// Since 6.17: a segment that reaches beyond the window is dropped.
    pub whole_in_window: bool,
    /// Since 6.19: the growth of the buffer is doubled before it is divided, and thus rounded (ecfea98b7d0d).
    pub doubles_before_division: bool,
}

impl Settings {
    pub fn new(config: &Config) -> Settings {
        let since = |minor| config.profile.at_least(6, minor);
        let requested = config.rcvbuf.map(|bytes| bytes.min(config.rmem_max).saturating_mul(2).max(2304));
        Settings {
            behaviour: Behaviour::of(config),
            hz: config.hz.max(25),
            dsack: config.dsack,
            moderate: config.moderate_rcvbuf,
            locked: requested.is_some(),
            initial_rcvbuf: requested.unwrap_or(config.rmem[1]).min(i32::MAX as u32),
            max_rcvbuf: config.rmem[2].min(i32::MAX as u32) as i32,
            app_win: config.app_win,
            rcvbuf_low_rtt_us: config.rcvbuf_low_rtt_us,
            max_tcp_header: config.max_tcp_header(),
            comp_sack_delay_ns: config.comp_sack_delay_ns,
            comp_sack_rtt_percent: config.comp_sack_rtt_percent,
            comp_sack_slack_ns: config.comp_sack_slack_ns,
            comp_sack_nr: config.comp_sack_nr,
            adv_win_scale: (!since(6)).then_some(config.adv_win_scale),
            half_at_first: since(10),
            zero_without_memory: since(6),
            careful_rtt: since(16),
            grows_by_reordering: since(16),
            whole_in_window: since(17),
            doubles_before_division: since(19),
        }
    }

    /// The share of the buffer that is window before the first packet arrives.
    pub fn initial_share(&self) -> WindowShare {
        match self.adv_win_scale {
            Some(scale) => WindowShare::Fixed(scale),
            None if self.half_at_first => WindowShare::Learnt(128),
            None => WindowShare::Learnt(65),
        }
    }
}
