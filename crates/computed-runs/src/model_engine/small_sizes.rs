//! Notes on packets, queues and buffers that are so small that the closed forms ignore their effects.

use model::Transport;
use scenario::{FlowKind, FlowSpec, Scenario};
use units::{Bytes, KernelVersion};

use super::{FIRST_KERNEL_WITH_OFFLOADS, cc_of, inputs};
use crate::{Sysctls, flow_context::FlowPath};

/// With a queue of at most this number of packets, the bursts of a window overflow it.
const SMALL_QUEUE_PACKETS: u64 = 2;
/// The kernel appends a write to the last unsent packet up to this size, whatever the send buffer
/// (`tcp_sendmsg_locked`, net/ipv4/tcp.c), bytes.
const SUPER_PACKET_BYTES: f64 = 65_536.0;
/// With a receive window below this number of segments, segments are sent singly and partly filled.
const SMALL_WINDOW_SEGS: f64 = 2.0;

/// The notes on a flow; only TCP flows have some.
pub(super) fn notes(
    sysctls: Sysctls<'_>,
    scenario: &Scenario,
    flow: &FlowSpec,
    kernel: KernelVersion,
) -> Vec<String> {
    let FlowKind::Tcp(tcp) = &flow.kind else { return Vec::new() };
    let Some(path) = FlowPath::of(scenario, flow) else { return Vec::new() };
    let inputs = inputs(sysctls, scenario, flow, tcp, &path, kernel, &cc_of(sysctls, scenario, flow, tcp));
    let name = &flow.name;
    let mut notes = Vec::new();
    let segment = model::mss(path.mtu, path.ip, tcp.mss);
    let packet = segment + path.ip.header_bytes() + Transport::Tcp.header_bytes();
    if packet > path.mtu {
        notes.push(format!(
            "the model ignores that packets of flow {name}, which have at least {packet} B, exceed the path's MTU of {} B",
            path.mtu
        ));
    }
    let slots = inputs.queue.map(|queue| queue.0 / u64::from(path.mtu + inputs.overhead).max(1));
    if let Some(slots) = slots.filter(|slots| *slots <= SMALL_QUEUE_PACKETS) {
        notes.push(format!(
            "the model ignores that bursts of flow {name} overflow the queue of its slowest link, which holds {slots} packets: goodput is lower"
        ));
    }
    let send = inputs.send_buffer.charged();
    if inputs.kernel >= FIRST_KERNEL_WITH_OFFLOADS && send < SUPER_PACKET_BYTES {
        notes.push(format!(
            "the model ignores that the kernel fills a packet of up to 64 KiB, although the send buffer of flow {name} has {}: goodput is higher",
            Bytes(send as u64)
        ));
    }
    let window =
        model::receive_buffer_window(inputs.receive_buffer, inputs.receiver_kernel, segment, inputs.rtt);
    if window < SMALL_WINDOW_SEGS * f64::from(segment) {
        notes.push(format!(
            "the model ignores that the receive window of flow {name}, {}, is less than two segments: goodput is lower",
            Bytes(window as u64)
        ));
    }
    notes
}
