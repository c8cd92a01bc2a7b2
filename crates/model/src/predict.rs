//! The model engine: predicts one flow by closed forms from its path, its buffers and the kernel.
//!
//! Each possible limit allows a certain goodput. The lowest is the steady goodput, and its cause is the
//! verdict. The goodput over the whole duration includes slow start, but not the handshake.
//!
//! Not considered: other flows on the path, and behaviour of the congestion control beyond its law.

mod limits;
#[cfg(test)]
mod tests;
mod windows;

use schema::Cause;
use units::{BitRate, Bytes, KernelVersion, Time};

use self::{
    limits::{application_limits, host_limit, local_queue_limit, loss_limit, path_limit},
    windows::window_limits,
};
use crate::{
    Aimd, HostCost, HostRole, IpVersion, PacketStream, SlowStart, SocketBuffer, Transport, goodput_bps, mss,
    receive_buffer_window, send_buffer_window, window_share,
};

/// The law of a congestion control, if it has a closed form.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ControlLaw {
    /// Additive increase, multiplicative decrease: Reno, and Grid DT with its A and its back-off.
    Aimd(Aimd),
    /// CUBIC.
    Cubic,
    /// BBR: neither losses nor queues limit it.
    Bbr,
    /// Another congestion control.
    Unknown,
}

/// The transmit queue of a host whose TCP fills it: Linux without TCP small queues (before 3.6).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeviceQueue {
    /// Its length, packets.
    pub packets: u32,
    /// Rate at which it drains: that of the host's link.
    pub rate: BitRate,
    /// A full queue reduces the congestion window.
    pub is_congestion: bool,
}

/// The properties of a flow and its path.
#[derive(Debug, Clone, PartialEq)]
pub struct PathInputs {
    /// Rate of the slowest link; `None` if no link has a rate.
    pub rate: Option<BitRate>,
    /// Bytes per packet that this link counts in addition to IP.
    pub overhead: u32,
    /// Capacity of its queue, bytes; `None` if it never drops.
    pub queue: Option<Bytes>,
    /// The sender's own device, if its transmit queue can overflow.
    pub device: Option<DeviceQueue>,
    /// Two-way propagation delay.
    pub rtt: Time,
    /// MTU of the path, bytes of IP.
    pub mtu: u32,
    /// Requested segment size (TCP_MAXSEG).
    pub mss: Option<u32>,
    /// IP version.
    pub ip: IpVersion,
    /// Probability that a segment is lost.
    pub loss: f64,
    /// The sender's kernel.
    pub kernel: KernelVersion,
    /// The receiver's kernel, which decides how much of the receive buffer is window.
    pub receiver_kernel: KernelVersion,
    /// Name of the congestion control, for sentences.
    pub cc: String,
    /// Its law.
    pub law: ControlLaw,
    /// The receiver's buffer.
    pub receive_buffer: SocketBuffer,
    /// Whether both ends scale windows (RFC 7323); without it no window is larger than 65,535 bytes.
    pub window_scaling: bool,
    /// The sender's buffer.
    pub send_buffer: SocketBuffer,
    /// Rate at which the receiving application reads.
    pub read_rate: Option<BitRate>,
    /// Rate at which the sending application writes.
    pub write_rate: Option<BitRate>,
    /// Maximum pacing rate.
    pub pacing: Option<BitRate>,
    /// Bytes to send; `None` sends until the end.
    pub size: Option<Bytes>,
    /// Longest duration of the flow.
    pub duration: Time,
    /// The hosts with processing costs.
    pub hosts: Vec<BusyHost>,
}

/// A host of a flow with processing costs.
#[derive(Debug, Clone, PartialEq)]
pub struct BusyHost {
    /// Its name.
    pub name: String,
    /// Its role.
    pub role: HostRole,
    /// Its processing costs of packets.
    pub cost: HostCost,
    /// The flow's packets.
    pub stream: PacketStream,
}

/// The goodput that one cause allows.
#[derive(Debug, Clone, PartialEq)]
pub struct GoodputLimit {
    /// The cause.
    pub cause: Cause,
    /// Goodput that it allows, bit/s.
    pub bps: f64,
    /// The reason, in one sentence.
    pub sentence: String,
}

/// The prediction of the closed forms.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// Goodput from the end of the handshake to the end of the flow, slow start included, bit/s.
    pub goodput_bps: f64,
    /// Goodput after slow start, bit/s.
    pub steady_goodput_bps: f64,
    /// End of slow start, seconds since the flow's start.
    pub settled_s: f64,
    /// Bytes delivered in the duration.
    pub bytes: f64,
    /// Payload bytes in flight after slow start.
    pub window_bytes: f64,
    /// The receiver's window, bytes.
    pub receive_window_bytes: f64,
    /// Share of the receive buffer that is offered as window.
    pub window_share: f64,
    /// Goodput that the slowest link allows.
    pub wire_limit_bps: Option<f64>,
    /// Payload bytes of a segment.
    pub mss_bytes: u32,
    /// All limits, the lowest first.
    pub limits: Vec<GoodputLimit>,
    /// The cause of the lowest limit; slow start if the flow ends during it; the hosts' processors without
    /// any limit.
    pub verdict: Cause,
    /// The other window, if the verdict is one of the two windows and the other allows hardly more.
    pub verdict_also: Option<Cause>,
}

/// Predicts one flow alone on its path.
pub fn predict(inputs: &PathInputs) -> Prediction {
    let segment = mss(inputs.mtu, inputs.ip, inputs.mss);
    let headers = inputs.ip.header_bytes() + Transport::Tcp.header_bytes();
    let wire_limit_bps = inputs.rate.map(|rate| goodput_bps(rate, segment, headers, inputs.overhead));
    let share = window_share(inputs.receiver_kernel, segment, inputs.rtt);
    let max_window = if inputs.window_scaling { f64::INFINITY } else { f64::from(u16::MAX) };
    let receive_window =
        receive_buffer_window(inputs.receive_buffer, inputs.receiver_kernel, segment, inputs.rtt)
            .min(max_window);
    let send_window = send_buffer_window(inputs.send_buffer);

    // The first of equal limits is the verdict.
    let mut limits = Vec::new();
    limits.extend(loss_limit(inputs, segment));
    limits.extend(path_limit(inputs, wire_limit_bps, receive_window.min(send_window), segment));
    let windows = window_limits(inputs, wire_limit_bps, receive_window, share);
    let both_bind = windows.as_ref().is_some_and(|windows| windows.both_bind);
    limits.extend(windows.into_iter().flat_map(|windows| windows.limits));
    limits.extend(local_queue_limit(inputs, wire_limit_bps, receive_window.min(send_window), segment));
    limits.extend(application_limits(inputs));
    limits.extend(inputs.hosts.iter().filter_map(host_limit));
    limits.sort_by(|a, b| a.bps.total_cmp(&b.bps));

    let steady = limits.first().map_or(f64::INFINITY, |limit| limit.bps);
    let window_bytes = steady / 8.0 * inputs.rtt.as_secs_f64();
    let start = SlowStart::new(window_bytes, segment, inputs.rtt);
    let duration = inputs.duration.as_secs_f64();
    let (elapsed, bytes) = match inputs.size {
        Some(size) => match start.time_for_bytes(size.as_f64(), steady / 8.0) {
            Some(needed) if needed <= duration => (needed, size.as_f64()),
            _ => (duration, start.delivered_bytes(duration, steady / 8.0).min(size.as_f64())),
        },
        None => (duration, start.delivered_bytes(duration, steady / 8.0)),
    };
    // As in the other engines, goodput is a rate since the connection was established.
    let connected = elapsed - inputs.rtt.as_secs_f64();
    let verdict = match limits.first() {
        None => Cause::HostCpu,
        Some(_) if elapsed <= start.settled_s() => Cause::SlowStart,
        Some(limit) => limit.cause,
    };
    let verdict_also = match limits.as_slice() {
        [first, second, ..] if first.cause == verdict && is_window(first) && is_window(second) => {
            both_bind.then_some(second.cause)
        }
        _ => None,
    };
    Prediction {
        verdict,
        verdict_also,
        goodput_bps: if connected > 0.0 { bytes * 8.0 / connected } else { 0.0 },
        steady_goodput_bps: steady,
        settled_s: start.settled_s(),
        bytes,
        window_bytes,
        receive_window_bytes: receive_window,
        window_share: share,
        wire_limit_bps,
        mss_bytes: segment,
        limits,
    }
}

fn is_window(limit: &GoodputLimit) -> bool {
    matches!(limit.cause, Cause::ReceiveWindow | Cause::SendBuffer)
}
