//! Limits of the hosts at the ends: processors, windows and buffers, and packets that they may not send.

use model::{Buffer, receive_buffer_window, send_buffer_bps};
use schema::Cause;
use tune::HostFacts;
use units::{Bytes, KernelVersion, group_digits};

use super::{Allows, Limits, plain, plain_time, rate};
use crate::{
    limit::Kind,
    observed::{Mtu, is_busy},
};

/// The largest window without scaling, bytes (RFC 9293).
const UNSCALED: f64 = 65_535.0;
/// A buffer explains a goodput that is not smaller than what it allows over this: what is written at once comes on top of a small one.
const EXPLAINS: f64 = 1.1;
/// A window that came so near that was held by it.
const UNSCALED_FILLED: f64 = 0.9;

impl Limits<'_> {
    pub(super) fn mtu(&mut self) {
        let Mtu { device, passes: Some(passes) } = self.seen.mtu else { return };
        if passes >= device {
            return;
        }
        let evidence = vec![
            format!(
                "packets of {device} bytes, which the device sends, never came back, and no router said why"
            ),
            format!("packets of {passes} bytes did"),
        ];
        let change = format!(
            "find who drops them and let it say so (ICMP \"fragmentation needed\"); until then, on both hosts: \
             sysctl -w net.ipv4.tcp_mtu_probing=1, or an MTU of {passes} for the route"
        );
        self.add(Kind::MtuBlackHole, None, Allows::WhatWasGot, evidence, Some(change));
    }

    /// Whether a host without time is what bound the test.
    fn receiver_was_busy(&self) -> bool {
        is_busy(self.seen.receiver_busy) && !self.seen.is_whole()
    }

    pub(super) fn busy(&mut self) {
        let seen = self.seen;
        let percent = |busy: Option<f64>| busy.unwrap_or(0.0) * 100.0;
        if self.receiver_was_busy() {
            let evidence = vec![
                format!(
                    "the program on {} that read the data ran, or waited for a processor, {:.0} % of the time",
                    seen.to,
                    percent(seen.receiver_busy)
                ),
                format!("what it left unread kept the window shut: the test got {}", rate(self.got)),
            ];
            let change = format!(
                "give the reader on {} a processor to itself (taskset; away from the interrupts'), or a faster one; larger packets \
                 and several streams on several processors take less of each",
                seen.to
            );
            self.add(Kind::ReceiverCpu, Some(&seen.to), Allows::WhatWasGot, evidence, Some(change));
        }
        if is_busy(seen.sender_busy) && matches!(seen.verdict(), Some(Cause::Application | Cause::HostCpu)) {
            let evidence = vec![format!(
                "the program on {} that wrote the data ran, or waited for a processor, {:.0} % of the time",
                seen.from,
                percent(seen.sender_busy)
            )];
            let change = format!(
                "give the writer on {} a processor to itself; zero-copy (test -Z) takes less of it",
                seen.from
            );
            self.add(Kind::SenderCpu, Some(&seen.from), Allows::WhatWasGot, evidence, Some(change));
        }
    }

    pub(super) fn windows(&mut self) {
        let seen = self.seen;
        let unscaled = self.switched_off("net.ipv4.tcp_window_scaling");
        let most = seen.flow.as_ref().and_then(|flow| flow.max_rcv_wnd_bytes).unwrap_or(u64::MAX);
        // A buffer may be smaller still.
        let is_filled = most as f64 >= UNSCALED_FILLED * UNSCALED;
        if let Some(host) = unscaled {
            let bound = is_filled && self.is_bound_by(Cause::ReceiveWindow);
            let law = UNSCALED * 8.0 / seen.rtt.as_secs_f64().max(1e-9);
            let evidence = vec![format!(
                "{host} has net.ipv4.tcp_window_scaling = 0, so no window is larger than 65,535 bytes: {} in a round trip of {}",
                rate(law),
                seen.rtt
            )];
            let change = format!("on {host}: sysctl -w net.ipv4.tcp_window_scaling=1");
            let allows = if bound { Allows::WhatWasGot } else { Allows::Computed(law) };
            self.add(Kind::WindowScaling, Some(host), allows, evidence, Some(change));
        }
        self.receive_buffer(unscaled.is_some() && is_filled);
        self.send_buffer();
    }

    /// Whether a window or a buffer held the test down: whoever has what the path gives is not held down.
    fn is_bound_by(&self, cause: Cause) -> bool {
        self.seen.verdict() == Some(cause) && !self.seen.is_whole() && !self.receiver_was_busy()
    }

    /// Whether the losses of a test do not matter, because what a window or a buffer allows is what it got.
    fn explains(&self, law_bps: f64) -> bool {
        self.seen.verdict() == Some(Cause::Loss) && !self.seen.is_whole() && law_bps <= EXPLAINS * self.got
    }

    fn window_seen(&self) -> Option<String> {
        let most = self.seen.flow.as_ref()?.max_rcv_wnd_bytes?;
        Some(format!(
            "the largest window that {} offered in the test was {} bytes",
            self.seen.to,
            group_digits(most)
        ))
    }

    fn receive_buffer(&mut self, unscaled: bool) {
        let seen = self.seen;
        let bound = self.is_bound_by(Cause::ReceiveWindow) && !unscaled;
        let most = seen
            .receiver
            .as_ref()
            .and_then(|facts| facts.triple("net.ipv4.tcp_rmem"))
            .map(|[_, _, most]| most);
        if !bound && most.is_none() {
            return;
        }
        let mut evidence = Vec::new();
        if let Some(most) = most {
            evidence.push(format!(
                "{} lets a receive buffer grow to {} bytes (net.ipv4.tcp_rmem)",
                seen.to,
                group_digits(most)
            ));
        }
        if bound {
            evidence.extend(self.window_seen());
            evidence.extend(seen.flow.iter().flat_map(|flow| flow.evidence.first().cloned()));
        }
        let share = seen.flow.as_ref().and_then(|flow| flow.window_share);
        let law = most.map(|most| {
            let buffer = Buffer::Tuned { largest: Bytes(most) };
            let kernel =
                seen.receiver.as_ref().and_then(HostFacts::version).unwrap_or(KernelVersion::new(6, 6));
            let mss = seen.flow.as_ref().and_then(|flow| flow.mss_bytes).unwrap_or(1448) as u32;
            let window = match share {
                Some(share) => most as f64 * share,
                None => receive_buffer_window(buffer, kernel, mss, seen.rtt),
            };
            window * 8.0 / seen.rtt.as_secs_f64().max(1e-9)
        });
        let change = self.buffer_change(&seen.to, "net.ipv4.tcp_rmem", seen.receiver.as_ref());
        let allows = match (bound, law) {
            (true, _) => Allows::WhatWasGot,
            (false, Some(law)) => Allows::Computed(law),
            (false, None) => return,
        };
        self.add(Kind::ReceiveBuffer, Some(&seen.to), allows, evidence, change);
    }

    fn send_buffer(&mut self) {
        let seen = self.seen;
        let bound = self.is_bound_by(Cause::SendBuffer);
        let Some(most) =
            seen.sender.as_ref().and_then(|facts| facts.triple("net.ipv4.tcp_wmem")).map(|[_, _, most]| most)
        else {
            return;
        };
        let mut evidence = vec![format!(
            "{} lets a send buffer grow to {} bytes (net.ipv4.tcp_wmem), and what is sent stays in it until it is acknowledged",
            seen.from,
            group_digits(most)
        )];
        if bound {
            evidence.extend(seen.flow.iter().flat_map(|flow| flow.evidence.first().cloned()));
        }
        let law = send_buffer_bps(Buffer::Tuned { largest: Bytes(most) }, None, seen.rtt);
        let bound = bound || self.explains(law) || self.are_buffers_bursts(most as f64);
        let change = self.buffer_change(&seen.from, "net.ipv4.tcp_wmem", seen.sender.as_ref());
        let allows = if bound { Allows::WhatWasGot } else { Allows::Computed(law) };
        self.add(Kind::SendBuffer, Some(&seen.from), allows, evidence, change);
    }

    /// The sysctl with room for twice the bandwidth-delay product.
    fn buffer_change(&self, host: &str, name: &str, facts: Option<&HostFacts>) -> Option<String> {
        let capacity = self.seen.capacity.as_ref()?;
        let needed = model::buffer_advice(self.seen.bdp()?).usual;
        let (least, first, most) = match facts?.triple(name)? {
            [least, first, most] => (least, first, most),
        };
        if most >= needed.0 {
            return None;
        }
        Some(format!(
            "on {host}: longfat tune --rate {} --rtt {} --apply (it sets {name} = {least} {first} {})",
            plain(capacity.goodput_bps),
            plain_time(self.seen.rtt),
            needed.0
        ))
    }
}
