//! Larger socket buffers: how large, and the commands.

use model::{MAX_WINDOW, round_up_mib};
use schema::{Cause, Fix, FlowSample, FlowSummary};
use units::{Bytes, Time};

use super::exact;
use crate::{Buffer, FlowContext, second_limit::MIN_OTHER_WINDOW_SHARE};

/// The first two values of the setting where the host's own are unknown: Linux's defaults (`tcp_init`,
/// net/ipv4/tcp.c).
const DEFAULT_RMEM: [u64; 2] = [4096, 131_072];
const DEFAULT_WMEM: [u64; 2] = [4096, 16_384];

/// The largest socket buffer, and the largest value of its setting, bytes: the kernel stores both as `int`.
const MAX_BUFFER: u64 = i32::MAX as u64;

/// The end of a flow that has a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Receiver,
    Sender,
}

/// How a buffer is made larger.
enum Larger {
    /// A host's setting and its reason.
    Setting { host: String, setting: String, reason: String },
    /// Advice, because no command makes the buffer larger.
    Advice(String),
}

/// The commands that make the limiting buffers larger, and advice about buffers that no command changes.
/// Where the buffers of both hosts limit the flow, both hosts have the same command.
pub(super) fn larger(
    rows: &[&FlowSample],
    context: &FlowContext,
    summary: &FlowSummary,
) -> (Vec<Fix>, Vec<String>) {
    let named = [summary.verdict, summary.verdict_also];
    let limits =
        |cause| summary.limited_steady.share(cause) >= MIN_OTHER_WINDOW_SHARE || named.contains(&Some(cause));
    let ends = [(Cause::ReceiveWindow, End::Receiver), (Cause::SendBuffer, End::Sender)];
    let larger_buffer =
        |(cause, end): (Cause, End)| limits(cause).then(|| end.larger(rows, context, summary)).flatten();
    let (mut fixes, mut settings, mut advice) = (Vec::<Fix>::new(), Vec::new(), Vec::new());
    for larger in ends.into_iter().filter_map(larger_buffer) {
        match larger {
            Larger::Setting { host, setting, reason } => {
                settings.push(setting);
                fixes.push(Fix { host, command: String::new(), reason });
            }
            Larger::Advice(text) => advice.push(text),
        }
    }
    let command = format!("sysctl -w {}", settings.join(" "));
    fixes.iter_mut().for_each(|fix| fix.command.clone_from(&command));
    (fixes, advice)
}

impl End {
    fn buffer(self, context: &FlowContext) -> &Buffer {
        match self {
            End::Receiver => &context.receive_buffer,
            End::Sender => &context.send_buffer,
        }
    }

    fn host(self, context: &FlowContext) -> &str {
        match self {
            End::Receiver => &context.to,
            End::Sender => &context.from,
        }
    }

    fn sysctl(self) -> &'static str {
        match self {
            End::Receiver => "net.ipv4.tcp_rmem",
            End::Sender => "net.ipv4.tcp_wmem",
        }
    }

    /// The origin of a requested size, in words: in a scenario the flow's key, in a test the option.
    fn request(self, context: &FlowContext) -> &'static str {
        match (context.unknown_path, self) {
            (true, _) => "-w",
            (false, End::Receiver) => "the flow's receive_buffer",
            (false, End::Sender) => "the flow's send_buffer",
        }
    }

    /// The largest size of the buffer in the samples; from the window where they have none, because kernels
    /// before 6.6 advertise half of the buffer.
    fn sampled(self, rows: &[&FlowSample]) -> Option<u64> {
        let largest = |value: fn(&FlowSample) -> Option<i64>| rows.iter().filter_map(|row| value(row)).max();
        let bytes = match self {
            End::Receiver => largest(|row| row.rcvbuf_bytes)
                .or_else(|| largest(|row| row.snd_wnd_bytes).map(|window| window.saturating_mul(2))),
            End::Sender => largest(|row| row.sndbuf_bytes),
        };
        bytes.and_then(|bytes| u64::try_from(bytes).ok()).filter(|bytes| *bytes > 0)
    }

    /// The setting for a buffer of twice the bandwidth-delay product. That suffices for kernels that
    /// advertise only half of a buffer as window, and for the data that arrives while one lost segment is
    /// retransmitted. Where the path's rate is unknown, twice the present value.
    fn larger(self, rows: &[&FlowSample], context: &FlowContext, summary: &FlowSummary) -> Option<Larger> {
        let (now, first) = match self.buffer(context) {
            Buffer::Tuned([min, first, largest]) => (*largest, [*min, *first]),
            Buffer::Unknown if self == End::Receiver => (self.sampled(rows)?, DEFAULT_RMEM),
            Buffer::Unknown => (self.sampled(rows)?, DEFAULT_WMEM),
            Buffer::Fixed(requested) => return Some(self.without_request(*requested, context, summary)),
            Buffer::FlowControl(window) => {
                let size = twice_bdp(context, summary).unwrap_or(window.saturating_mul(2));
                let advice = format!("set {} to {}", self.request(context), exact(size));
                return Some(Larger::Advice(advice));
            }
        };
        let twice_bdp = twice_bdp(context, summary);
        if now >= MAX_BUFFER {
            let (host, sysctl) = (self.host(context), self.sysctl());
            let advice = format!("on {host}, {sysctl} has its largest value: {}", in_parallel(twice_bdp));
            return Some(Larger::Advice(advice));
        }
        let (needed, reason) = needed(now, twice_bdp, summary);
        Some(Larger::Setting {
            host: self.host(context).into(),
            setting: format!("{}=\"{} {} {needed}\"", self.sysctl(), first[0], first[1]),
            reason,
        })
    }

    /// The advice about a buffer whose size the application requested.
    fn without_request(self, requested: u64, context: &FlowContext, summary: &FlowSummary) -> Larger {
        let request = self.request(context);
        let size = match twice_bdp(context, summary) {
            // The kernel doubles a requested size.
            Some(twice) => {
                let (needed, reason) = needed(requested.saturating_mul(2), Some(twice), summary);
                format!("{} ({reason})", exact(needed / 2))
            }
            None => {
                format!("{}, twice the present size", exact(requested.saturating_mul(2).min(MAX_BUFFER / 2)))
            }
        };
        Larger::Advice(format!("remove {request} so that the kernel tunes the buffer, or set it to {size}"))
    }
}

/// Twice the bandwidth-delay product; `None` if the path's rate is unknown.
fn twice_bdp(context: &FlowContext, summary: &FlowSummary) -> Option<u64> {
    let rate = context.path.iter().map(|link| link.rate_bps).reduce(f64::min)?;
    Some(round_up_mib(2.0 * rate / 8.0 * summary.min_rtt_us? * 1e-6).0)
}

/// The advice for a path whose bandwidth-delay product is beyond the window of one connection.
fn in_parallel(twice_bdp: Option<u64>) -> String {
    let connections = match twice_bdp.map(|twice| (twice / 2).div_ceil(MAX_WINDOW.0)) {
        Some(count) if count > 1 => format!("{count} connections"),
        _ => "several connections".into(),
    };
    format!(
        "the window of one connection has at most {} (RFC 7323), so use {connections} in parallel",
        exact(MAX_WINDOW.0)
    )
}

/// A sufficient buffer size, at most [`MAX_BUFFER`], and the reason for it.
fn needed(now: u64, twice_bdp: Option<u64>, summary: &FlowSummary) -> (u64, String) {
    let (needed, reason) = unlimited(now, twice_bdp, summary);
    if needed <= MAX_BUFFER {
        return (needed, reason);
    }
    (MAX_BUFFER, format!("{} is the largest possible buffer; {}", exact(MAX_BUFFER), in_parallel(twice_bdp)))
}

/// [`needed`] as if buffers could have any size.
fn unlimited(now: u64, twice_bdp: Option<u64>, summary: &FlowSummary) -> (u64, String) {
    match twice_bdp {
        Some(twice) if twice > now => {
            let rtt = Time::from_micros(summary.min_rtt_us.unwrap_or(0.0) as u64);
            (twice, format!("{} is twice the bandwidth-delay product at {rtt}", exact(twice)))
        }
        Some(_) => {
            let needed = now.saturating_mul(3) / 2;
            let reason = format!(
                "{} is 1.5 times the present value, which is already twice the bandwidth-delay product",
                exact(needed)
            );
            (needed, reason)
        }
        None => {
            let Bytes(needed) = round_up_mib(2.0 * now as f64);
            let reason = format!(
                "{} is twice the present maximum, because the rate of the path is unknown; longfat diagnose measures it",
                exact(needed)
            );
            (needed, reason)
        }
    }
}

#[cfg(test)]
mod tests {
    use schema::Limited;

    use super::*;

    /// The context of a test between two hosts: its own buffer, and the samples.
    fn of_test(receive: Buffer, send: Buffer) -> (Vec<Fix>, Vec<String>) {
        let context = FlowContext {
            from: "here".into(),
            to: "far".into(),
            unknown_path: true,
            receive_buffer: receive,
            send_buffer: send,
            ..FlowContext::default()
        };
        let summary = FlowSummary {
            verdict: Some(Cause::ReceiveWindow),
            verdict_also: Some(Cause::SendBuffer),
            limited_steady: Limited { receive_window: 0.7, send_buffer: 0.3, ..Limited::default() },
            min_rtt_us: Some(20_000.0),
            ..FlowSummary::default()
        };
        let row = FlowSample { snd_wnd_bytes: Some(3_145_728), ..FlowSample::default() };
        larger(&[&row], &context, &summary)
    }

    #[test]
    fn both_hosts_get_one_command_with_values() {
        let (fixes, advice) = of_test(Buffer::Unknown, Buffer::Tuned([4096, 65_536, 4_194_304]));
        let command =
            "sysctl -w net.ipv4.tcp_rmem=\"4096 131072 12582912\" net.ipv4.tcp_wmem=\"4096 65536 8388608\"";
        let found: Vec<(&str, &str)> = fixes.iter().map(|f| (f.host.as_str(), f.command.as_str())).collect();
        assert_eq!(found, [("far", command), ("here", command)]);
        assert!(fixes[1].reason.contains("8,388,608 bytes is twice the present maximum"), "{fixes:?}");
        assert!(advice.is_empty());
    }

    #[test]
    fn a_requested_buffer_is_changed_by_a_value_and_not_by_a_command() {
        let fixed = Buffer::Fixed(1_000_000);
        let (fixes, advice) = of_test(fixed.clone(), fixed);
        assert!(fixes.is_empty());
        assert!(advice[0].starts_with("remove -w ") && advice[0].contains("2,000,000 bytes"), "{advice:?}");
    }

    #[test]
    fn no_buffer_is_larger_than_the_kernel_allows() {
        let summary = FlowSummary { min_rtt_us: Some(100_000.0), ..FlowSummary::default() };
        // 100 Gb/s x 100 ms.
        let (bytes, reason) = needed(6_291_456, Some(2_500_853_760), &summary);
        assert_eq!(bytes, 2_147_483_647);
        assert!(reason.contains("1,073,725,440 bytes") && reason.contains("2 connections"), "{reason}");

        let largest = || Buffer::Tuned([4096, 131_072, MAX_BUFFER]);
        let (fixes, advice) = of_test(largest(), largest());
        assert!(fixes.is_empty());
        assert!(advice[0].starts_with("on far, net.ipv4.tcp_rmem has its largest value"), "{advice:?}");
        assert!(advice[1].contains("several connections in parallel"), "{advice:?}");
    }
}
