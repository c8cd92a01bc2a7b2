//! A full window of the peer or a full send buffer in words.

use schema::{FixCommand, FlowSample, FlowSummary};
use units::{BitRate, Bytes, three_digits};

use super::{Explanation, Facts, buffers, exact};
use crate::{Buffer, FlowContext};

pub(super) fn receive_window(
    facts: &Facts,
    rows: &[&FlowSample],
    context: &FlowContext,
    summary: &FlowSummary,
) -> Explanation {
    let mut evidence = vec![format!(
        "{} the data in flight ({}) filled the window that {} advertises ({})",
        facts.share, facts.in_flight, context.to, facts.window
    )];
    if let Buffer::FlowControl(_) = context.receive_buffer {
        evidence.push(buffer_limit(&context.receive_buffer, "", ""));
    } else if let Some(share) = summary.window_share {
        evidence.push(format!(
            "the kernel of {} advertises {:.0} % of its receive buffer as window; {}",
            context.to,
            share * 100.0,
            buffer_limit(&context.receive_buffer, "net.ipv4.tcp_rmem", "SO_RCVBUF")
        ));
    }
    evidence.extend(window_law(summary));
    evidence.extend(facts.kernel_counters.clone());
    with_larger_buffers(evidence, rows, context, summary)
}

pub(super) fn send_buffer(
    facts: &Facts,
    rows: &[&FlowSample],
    context: &FlowContext,
    summary: &FlowSummary,
) -> Explanation {
    let mut evidence = vec![
        format!(
            "{} all written data was sent and only {} was in flight, less than the peer's window ({}) and the \
             congestion window, while the send buffer held {} of {}",
            facts.share, facts.in_flight, facts.window, facts.queued, facts.send_buffer
        ),
        format!(
            "the kernel wakes the writer only once the buffer has drained to two thirds, so the data in flight can \
             fall to that; {}",
            buffer_limit(&context.send_buffer, "net.ipv4.tcp_wmem", "SO_SNDBUF")
        ),
    ];
    evidence.extend(window_law(summary));
    evidence.extend(facts.kernel_counters.clone());
    with_larger_buffers(evidence, rows, context, summary)
}

/// The limit of a buffer's size.
fn buffer_limit(buffer: &Buffer, sysctl: &str, option: &str) -> String {
    match buffer {
        Buffer::Unknown => "its limit is unknown".into(),
        Buffer::Tuned([_, _, largest]) => format!("{sysctl} limits the buffer to {}", exact(*largest)),
        Buffer::FlowControl(bytes) => format!("the receiver's flow-control window has {}", exact(*bytes)),
        Buffer::Fixed(bytes) => {
            format!("the application requested {} with {option}, and the kernel doubles that", exact(*bytes))
        }
    }
}

/// The evidence, and the settings of all buffers that limit the flow for a relevant share of its time. Where
/// two alternate, both must be raised: after one is raised, the other still limits.
fn with_larger_buffers(
    evidence: Vec<String>,
    rows: &[&FlowSample],
    context: &FlowContext,
    summary: &FlowSummary,
) -> Explanation {
    let (fixes, advice) = buffers::larger(rows, context, summary);
    let commands = FixCommand::of(&fixes);
    let commands = commands.iter().map(|fix| format!("on {}: {} ({})", fix.hosts, fix.command, fix.reasons));
    let words: Vec<String> = commands.chain(advice).collect();
    Explanation { evidence, remedy: (!words.is_empty()).then(|| words.join("; and ")), fixes }
}

/// The window law as a check: goodput = bytes in flight / round-trip time.
fn window_law(summary: &FlowSummary) -> Option<String> {
    let (window, rtt, got) =
        (summary.binding_window_bytes?, summary.mean_rtt_us?, summary.steady_goodput_bps?);
    let law = window as f64 * 8.0 / (rtt * 1e-6);
    Some(format!(
        "check: {} in flight per round trip of {:.2} ms gives {}, and the flow got {}",
        Bytes(three_digits(window as f64)),
        rtt / 1000.0,
        BitRate(three_digits(law)),
        BitRate(three_digits(got))
    ))
}

#[cfg(test)]
mod tests {
    use schema::Limited;

    use super::*;
    use crate::StartOfFlow;
    use crate::explain::{explain, tests::lab8};

    #[test]
    fn a_tuned_buffer_gets_its_exact_setting() {
        let (context, mut summary) = lab8(Buffer::Tuned([10_240, 87_380, 16_777_216]));
        let row = FlowSample {
            unacked_segs: Some(9184),
            snd_mss_bytes: Some(1448),
            snd_wnd_bytes: Some(13_297_152),
            ..FlowSample::default()
        };
        explain(&[&row], &StartOfFlow::default(), &context, &mut summary);
        assert_eq!(
            summary.evidence[0],
            "in 97 % of the samples after 0.4 s the data in flight (13.3 MB) filled the window that h2 advertises (13.3 MB)"
        );
        assert!(summary.evidence[1].contains("79 %") && summary.evidence[1].contains("16,777,216 bytes"));
        let remedy = summary.remedy.unwrap();
        assert!(
            remedy.starts_with(
                "on h2: sysctl -w net.ipv4.tcp_rmem=\"10240 87380 50331648\" (50,331,648 bytes is twice"
            ),
            "{remedy}"
        );
    }

    #[test]
    fn buffers_that_alternate_are_both_named() {
        let (mut context, mut summary) = lab8(Buffer::Tuned([10_240, 87_380, 16_777_216]));
        context.send_buffer = Buffer::Tuned([10_240, 87_380, 16_777_216]);
        summary.limited_steady = Limited { receive_window: 0.6, send_buffer: 0.4, ..Limited::default() };
        explain(&[], &StartOfFlow::default(), &context, &mut summary);
        let remedy = summary.remedy.unwrap();
        let command =
            "sysctl -w net.ipv4.tcp_rmem=\"10240 87380 50331648\" net.ipv4.tcp_wmem=\"10240 87380 50331648\"";
        assert!(
            remedy.starts_with(&format!("on h2 and h1: {command} (50,331,648 bytes is twice")),
            "{remedy}"
        );
        let commands: Vec<_> =
            summary.fixes.iter().map(|fix| (fix.host.as_str(), fix.command.as_str())).collect();
        assert_eq!(commands, [("h2", command), ("h1", command)]);
    }

    #[test]
    fn only_the_application_can_change_a_fixed_buffer() {
        let (context, mut summary) = lab8(Buffer::Fixed(1_000_000));
        explain(&[], &StartOfFlow::default(), &context, &mut summary);
        let remedy = summary.remedy.unwrap();
        assert!(remedy.contains("receive_buffer") && remedy.contains("25,165,824 bytes"), "{remedy}");
    }
}
