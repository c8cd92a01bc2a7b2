//! The goodput that the send buffer and the receive window allow.

use schema::Cause;
use units::{Bytes, KernelVersion, three_digits};

use super::{GoodputLimit, PathInputs};
use crate::{
    mss, send_buffer_bps, send_buffer_window,
    window_cycle::{Windows, windows_bps},
};

/// Two windows are both limits if the larger, or the rate that it allows, is at most this share larger. Which
/// of them is filled for longer then depends on effects that the closed forms ignore, the kernel's version
/// and the run's length.
const MAX_DIFFERENCE_OF_BINDING_WINDOWS: f64 = 0.15;

/// Windows that fill this share of the path's rate do not limit it: the cycle of the windows is followed for
/// a finite time.
const FULL_PATH: f64 = 0.99;

/// The first kernel whose super-packets have the size that the pacing rate requires (`tcp_tso_autosize`).
const TSO_AUTOSIZING_SINCE: KernelVersion = KernelVersion::new(3, 12);

/// The limits by both windows.
pub(super) struct WindowLimits {
    pub(super) limits: [GoodputLimit; 2],
    /// Whether both limits are nearly equal.
    pub(super) both_bind: bool,
}

pub(super) fn window_limits(
    inputs: &PathInputs,
    wire_limit_bps: Option<f64>,
    receive_window: f64,
    share: f64,
) -> Option<WindowLimits> {
    let rtt = inputs.rtt.as_secs_f64();
    if rtt <= 0.0 {
        return None;
    }
    let mut receive = GoodputLimit {
        cause: Cause::ReceiveWindow,
        bps: receive_window * 8.0 / rtt,
        sentence: format!(
            "the kernel advertises {:.0} % of the receive buffer as window: {} a round trip",
            share * 100.0,
            Bytes(three_digits(receive_window))
        ),
    };
    let send_window = send_buffer_window(inputs.send_buffer);
    let (send_bps, in_flight) = match sent_in_bursts(inputs, wire_limit_bps, f64::INFINITY) {
        Some(Cycle::Limits(bps)) => (bps, bps / 8.0 * rtt),
        Some(Cycle::FillsPath(wire)) => {
            (send_buffer_bps(inputs.send_buffer, inputs.rate, inputs.rtt).max(wire), send_window)
        }
        None => (send_buffer_bps(inputs.send_buffer, inputs.rate, inputs.rtt), send_window),
    };
    let mut send = GoodputLimit {
        cause: Cause::SendBuffer,
        bps: send_bps,
        sentence: format!(
            "the writer is woken when a third of the send buffer is free: {} in flight on average, sent in bursts",
            Bytes(three_digits(in_flight))
        ),
    };
    let nearly_equal = |a: f64, b: f64| a.max(b) <= (1.0 + MAX_DIFFERENCE_OF_BINDING_WINDOWS) * a.min(b);
    let both_bind = nearly_equal(receive_window, send_window) || nearly_equal(receive.bps, send.bps);
    // Bursts of the writer queue also where the receive window is the smaller one.
    if let Some(Cycle::Limits(both)) = sent_in_bursts(inputs, wire_limit_bps, receive_window) {
        let lower = if receive.bps <= send.bps { &mut receive } else { &mut send };
        lower.bps = lower.bps.min(both);
    }
    Some(WindowLimits { limits: [receive, send], both_bind })
}

/// Goodput of the cycle of both windows, bit/s.
enum Cycle {
    /// The windows limit the goodput.
    Limits(f64),
    /// The windows fill the path, whose rate limits the goodput.
    FillsPath(f64),
}

/// The cycle of the send buffer and this receive window; `None` for kernels whose super-packets do not have
/// the size that the pacing rate requires.
fn sent_in_bursts(inputs: &PathInputs, wire_limit_bps: Option<f64>, receive_window: f64) -> Option<Cycle> {
    if inputs.kernel < TSO_AUTOSIZING_SINCE {
        return None;
    }
    let bps = windows_bps(&Windows {
        send_buffer: inputs.send_buffer.charged(),
        receive_window,
        rate: wire_limit_bps.map_or(f64::INFINITY, |bps| bps / 8.0),
        rtt: inputs.rtt,
        mss: mss(inputs.mtu, inputs.ip, inputs.mss),
    })?;
    Some(match wire_limit_bps {
        Some(wire) if bps >= FULL_PATH * wire => Cycle::FillsPath(wire),
        _ => Cycle::Limits(bps),
    })
}
