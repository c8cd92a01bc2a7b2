//! The knee by the window law: goodput = window / RTT, so the plateau needs a window of plateau x RTT, with
//! the round-trip time of the loaded path (a standing queue makes it longer than a ping's). It is computed as
//! bytes in flight over the rate of arrivals (Little's law), because clocks of old kernels tick every 10 ms.
//! The buffer that this window needs: the kernel doubles the requested size, of which only a share becomes
//! window.

use schema::{FlowSummary, RunSummary, WindowLaw};

use crate::{Knee, SEND_BUFFER_SHARE_IN_FLIGHT};

/// The kernel doubles the requested size (net/core/sock.c, sock_setsockopt).
const DOUBLING: f64 = 2.0;

/// The runs of each value of a field.
pub(crate) type Line<'a> = Vec<(f64, Vec<&'a RunSummary>)>;

/// The law for a sweep over `field`; `None` unless `field` is a socket buffer of a flow and `metric` the
/// goodput of the same flow.
pub(crate) fn window_law(field: &str, metric: &str, knee: &Knee, line: &Line<'_>) -> Option<WindowLaw> {
    let flow = ["goodput", "steady_goodput"]
        .iter()
        .find_map(|name| metric.strip_prefix("flows.")?.strip_suffix(name)?.strip_suffix('.'))?;
    let buffer = field.strip_prefix("flows.")?.strip_prefix(flow)?.strip_prefix('.')?;
    let loaded_rtt_us = at_knee(flow, knee.at, line, loaded_rtt_us)?;
    let share = match buffer {
        "send_buffer" => SEND_BUFFER_SHARE_IN_FLIGHT,
        "receive_buffer" => at_knee(flow, knee.at, line, |flow| flow.window_share)?,
        _ => return None,
    };
    let window_bytes = knee.plateau * loaded_rtt_us * 1e-6 / 8.0;
    Some(WindowLaw {
        real_bytes: DOUBLING * knee.at,
        loaded_rtt_us,
        window_bytes,
        at: window_bytes / (DOUBLING * share),
    })
}

/// Bytes in flight over bytes per second; `None` if either is unknown.
fn loaded_rtt_us(flow: &FlowSummary) -> Option<f64> {
    let rtt_us = flow.binding_window_bytes? as f64 * 8e6 / flow.steady_or_overall_goodput_bps()?;
    rtt_us.is_finite().then_some(rtt_us)
}

/// A value of the flow at the knee, interpolated between the points on both sides.
fn at_knee(
    flow: &str,
    knee: f64,
    line: &Line<'_>,
    figure: impl Fn(&FlowSummary) -> Option<f64>,
) -> Option<f64> {
    let mean = |runs: &[&RunSummary]| {
        let flows = runs.iter().filter_map(|run| run.flows.iter().find(|f| f.name == flow));
        let figures: Vec<f64> = flows.filter_map(&figure).collect();
        (!figures.is_empty()).then(|| figures.iter().sum::<f64>() / figures.len() as f64)
    };
    let known: Vec<(f64, f64)> = line.iter().filter_map(|(at, runs)| Some((*at, mean(runs)?))).collect();
    let after = known.iter().position(|(at, _)| *at >= knee)?;
    let (x1, y1) = known[after];
    let Some((x0, y0)) = after.checked_sub(1).map(|before| known[before]) else { return Some(y1) };
    Some(y0 + (y1 - y0) * (knee - x0) / (x1 - x0))
}
