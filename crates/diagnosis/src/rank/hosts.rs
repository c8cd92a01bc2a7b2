//! Limits of the hosts at the ends: CPUs, windows and buffers, and the MTU.

use model::{SocketBuffer, receive_buffer_window, send_buffer_bps};
use schema::Cause;
use tune::HostFacts;
use units::{Bytes, KernelVersion, group_digits};

use super::{Allows, Limits, plain, plain_time, rate};
use crate::{
    limit::Kind,
    observed::{Mtu, is_busy},
};

/// The largest window without scaling, bytes (RFC 9293).
const MAX_UNSCALED_WINDOW: f64 = 65_535.0;
/// A buffer explains a goodput up to this multiple of what it allows: a single write may exceed a small
/// buffer.
const MAX_BUFFER_EXCESS: f64 = 1.1;
/// Minimum share of the unscaled window that a window limited by it reaches.
const MIN_UNSCALED_SHARE: f64 = 0.9;

impl Limits<'_> {
    pub(super) fn mtu(&mut self) {
        let Mtu { device, passes: Some(passes) } = self.seen.mtu else { return };
        if passes >= device {
            return;
        }
        let evidence = vec![
            format!(
                "echo requests of {device} bytes, the MTU of the device, had no reply, and no router sent an ICMP error"
            ),
            format!("echo requests of {passes} bytes had replies"),
        ];
        let change = format!(
            "on both hosts: sysctl -w net.ipv4.tcp_mtu_probing=1 (or set an MTU of {passes} for the route; the cause is a device that \
             drops larger packets and sends no ICMP error \"fragmentation needed\")"
        );
        self.add(Kind::MtuBlackHole, None, Allows::TestGoodput, evidence, Some(change));
    }

    /// Whether the receiver's CPU limited the test.
    fn receiver_was_busy(&self) -> bool {
        is_busy(self.seen.receiver_busy) && !self.seen.reached_full_rate()
    }

    pub(super) fn busy(&mut self) {
        let seen = self.seen;
        let percent = |busy: Option<f64>| busy.unwrap_or(0.0) * 100.0;
        if self.receiver_was_busy() {
            let evidence = vec![
                format!(
                    "the receiving thread on {} ran, or waited for a CPU, {:.0} % of the time",
                    seen.to,
                    percent(seen.receiver_busy)
                ),
                format!(
                    "unread data kept the receive window closed: the goodput was {}",
                    rate(self.test_bps)
                ),
            ];
            let change = format!(
                "give the receiving thread on {} a dedicated CPU (taskset; not the one of the interrupts) or a faster one; larger packets, \
                 and several streams on several CPUs, need less of each",
                seen.to
            );
            self.add(Kind::ReceiverCpu, Some(&seen.to), Allows::TestGoodput, evidence, Some(change));
        }
        if is_busy(seen.sender_busy) && matches!(seen.verdict(), Some(Cause::Application | Cause::HostCpu)) {
            let evidence = vec![format!(
                "the sending thread on {} ran, or waited for a CPU, {:.0} % of the time",
                seen.from,
                percent(seen.sender_busy)
            )];
            let change = format!(
                "give the sending thread on {} a dedicated CPU; zero-copy (test -Z) needs less CPU",
                seen.from
            );
            self.add(Kind::SenderCpu, Some(&seen.from), Allows::TestGoodput, evidence, Some(change));
        }
    }

    pub(super) fn windows(&mut self) {
        let seen = self.seen;
        let unscaled = self.host_with_disabled("net.ipv4.tcp_window_scaling");
        let max_window = seen.flow.as_ref().and_then(|flow| flow.max_rcv_wnd_bytes).unwrap_or(u64::MAX);
        // The buffer may be even smaller.
        let is_filled = max_window as f64 >= MIN_UNSCALED_SHARE * MAX_UNSCALED_WINDOW;
        if let Some(host) = unscaled {
            let bound = is_filled && self.is_bound_by(Cause::ReceiveWindow);
            let law = MAX_UNSCALED_WINDOW * 8.0 / seen.rtt.as_secs_f64().max(1e-9);
            let evidence = vec![format!(
                "net.ipv4.tcp_window_scaling is 0 on {host}, so windows are limited to 65,535 bytes: {} with a round-trip time of {}",
                rate(law),
                seen.rtt
            )];
            let change = format!("on {host}: sysctl -w net.ipv4.tcp_window_scaling=1");
            let allows = if bound { Allows::TestGoodput } else { Allows::Computed(law) };
            self.add(Kind::WindowScaling, Some(host), allows, evidence, Some(change));
        }
        self.receive_buffer(unscaled.is_some() && is_filled);
        self.send_buffer();
    }

    /// Whether a window or a buffer limited the test, and not the path's capacity.
    fn is_bound_by(&self, cause: Cause) -> bool {
        self.seen.verdict() == Some(cause) && !self.seen.reached_full_rate() && !self.receiver_was_busy()
    }

    /// Whether the losses of a test do not matter, because its goodput is what a window or a buffer allows.
    fn explains(&self, law_bps: f64) -> bool {
        self.seen.verdict() == Some(Cause::Loss)
            && !self.seen.reached_full_rate()
            && law_bps <= MAX_BUFFER_EXCESS * self.test_bps
    }

    fn window_seen(&self) -> Option<String> {
        let max_window = self.seen.flow.as_ref()?.max_rcv_wnd_bytes?;
        Some(format!(
            "the largest receive window that {} advertised was {} bytes",
            self.seen.to,
            group_digits(max_window)
        ))
    }

    fn receive_buffer(&mut self, unscaled: bool) {
        let seen = self.seen;
        let bound = self.is_bound_by(Cause::ReceiveWindow) && !unscaled;
        let max_rmem = seen
            .receiver
            .as_ref()
            .and_then(|facts| facts.triple("net.ipv4.tcp_rmem"))
            .map(|[_, _, max_rmem]| max_rmem);
        if !bound && max_rmem.is_none() {
            return;
        }
        let mut evidence = Vec::new();
        if let Some(max_rmem) = max_rmem {
            evidence.push(format!(
                "net.ipv4.tcp_rmem on {} limits receive buffers to {} bytes",
                seen.to,
                group_digits(max_rmem)
            ));
        }
        if bound {
            evidence.extend(self.window_seen());
            evidence.extend(seen.flow.iter().flat_map(|flow| flow.evidence.first().cloned()));
        }
        let share = seen.flow.as_ref().and_then(|flow| flow.window_share);
        let law = max_rmem.map(|max_rmem| {
            let buffer = SocketBuffer::Tuned { largest: Bytes(max_rmem) };
            let kernel =
                seen.receiver.as_ref().and_then(HostFacts::version).unwrap_or(KernelVersion::new(6, 6));
            let mss = seen.flow.as_ref().and_then(|flow| flow.mss_bytes).unwrap_or(1448) as u32;
            let window = match share {
                Some(share) => max_rmem as f64 * share,
                None => receive_buffer_window(buffer, kernel, mss, seen.rtt),
            };
            window * 8.0 / seen.rtt.as_secs_f64().max(1e-9)
        });
        let change = self.buffer_change(&seen.to, "net.ipv4.tcp_rmem", seen.receiver.as_ref());
        let allows = match (bound, law) {
            (true, _) => Allows::TestGoodput,
            (false, Some(law)) => Allows::Computed(law),
            (false, None) => return,
        };
        self.add(Kind::ReceiveBuffer, Some(&seen.to), allows, evidence, change);
    }

    fn send_buffer(&mut self) {
        let seen = self.seen;
        let bound = self.is_bound_by(Cause::SendBuffer);
        let Some(max_wmem) = seen
            .sender
            .as_ref()
            .and_then(|facts| facts.triple("net.ipv4.tcp_wmem"))
            .map(|[_, _, max_wmem]| max_wmem)
        else {
            return;
        };
        let mut evidence = vec![format!(
            "net.ipv4.tcp_wmem on {} limits send buffers to {} bytes, and sent data stays in the buffer until it is acknowledged",
            seen.from,
            group_digits(max_wmem)
        )];
        if bound {
            evidence.extend(seen.flow.iter().flat_map(|flow| flow.evidence.first().cloned()));
        }
        let law = send_buffer_bps(SocketBuffer::Tuned { largest: Bytes(max_wmem) }, None, seen.rtt);
        let bound = bound || self.explains(law) || self.are_losses_of_buffer_bursts(max_wmem as f64);
        let change = self.buffer_change(&seen.from, "net.ipv4.tcp_wmem", seen.sender.as_ref());
        let allows = if bound { Allows::TestGoodput } else { Allows::Computed(law) };
        self.add(Kind::SendBuffer, Some(&seen.from), allows, evidence, change);
    }

    /// The command that sets the sysctl to twice the bandwidth-delay product. A host that does not report its
    /// settings may have no longfat, and gets the kernel's defaults for the other two values.
    fn buffer_change(&self, host: &str, name: &str, facts: Option<&HostFacts>) -> Option<String> {
        let carried = self.seen.capacity_bps()?;
        let needed = model::buffer_advice(self.seen.bdp()?).default;
        let Some(facts) = facts else {
            // An iperf3 server does not report its settings.
            return Some(format!(
                "on {host}: sysctl -w {name}=\"4096 131072 {}\" (twice the bandwidth-delay product; a server that sets its own buffers, \
                 as iperf3 with -w, needs larger ones there)",
                needed.0
            ));
        };
        let [min, initial, max] = facts.triple(name)?;
        if max >= needed.0 {
            return None;
        }
        let command =
            format!("longfat tune --rate {} --rtt {} --apply", plain(carried), plain_time(self.seen.rtt));
        Some(format!("on {host}: {command} (it sets {name} = {min} {initial} {})", needed.0))
    }
}
