//! The sending host's own device in words.

use schema::{Fix, FlowSummary};
use units::{BitRate, group_digits, three_digits};

use super::{Explanation, Facts};
use crate::{FlowContext, SendingDevice};

/// Queueing disciplines whose length is the device's `txqueuelen`.
const BY_DEVICE_LENGTH: [&str; 4] = ["pfifo_fast", "pfifo", "bfifo", "noqueue"];
/// A paced connection leaves this share of its link free, so that the queue empties.
const PACED_SHARE: f64 = 0.97;

pub(super) fn local_queue(facts: &Facts, context: &FlowContext, summary: &FlowSummary) -> Explanation {
    let (from, device) = (&context.from, &context.device);
    let name = device.name.as_ref().map_or(format!("{from}'s device"), |name| format!("{name} of {from}"));
    let queue = device.queue_packets.map(|packets| {
        format!("the transmit queue of {name} holds {} packets", group_digits(packets.into()))
    });
    let mut evidence = match device.dropped_segs {
        0 => vec![
            format!(
                "{} the congestion window was full, and {from} itself had reduced it: there was no loss on the path and no mark",
                facts.share
            ),
            "the kernel reduces the window when the host's own device or queueing discipline drops a packet (tcp_enter_cwr)"
                .into(),
        ],
        dropped => vec![
            format!("{} the congestion window was full, and losses had reduced it", facts.share),
            format!(
                "the device of {from} or its queueing discipline dropped about {} segments during the flow; {} were retransmitted",
                group_digits(dropped),
                group_digits(summary.retransmitted_segs.unwrap_or(0))
            ),
        ],
    };
    evidence.extend(queue);
    let (remedy, fix) = match &device.name {
        Some(name) => longer_queue(name, context, summary),
        None => (in_scenario(context), None),
    };
    Explanation { evidence, remedy: Some(remedy), fixes: fix.into_iter().collect() }
}

/// The remedy of a host that a scenario describes.
fn in_scenario(context: &FlowContext) -> String {
    let from = &context.from;
    let SendingDevice { queue_packets: Some(now), round_trip_packets: Some(round_trip), .. } = context.device
    else {
        return longest(from);
    };
    if round_trip <= u64::from(now) {
        return longest(from);
    }
    let queue = format!(
        "on {from}: a transmit queue of one bandwidth-delay product (tx_queue = {round_trip}; ip link set DEVICE txqueuelen \
         {round_trip})"
    );
    // Only simulated stacks can ignore the drop.
    match context.wire_limit_bps.filter(|_| !context.virtual_time) {
        Some(limit) => {
            let rate = BitRate(three_digits(limit * PACED_SHARE));
            let key = format!("{}mbit", (limit * PACED_SHARE / 1e6).floor().max(1.0));
            format!("{queue}, or pacing at {rate}, which needs no queue (the flow's pacing = \"{key}\")")
        }
        None => format!(
            "{queue}, or no congestion signal from it (local_congestion = false; WAD_IFQ=1 with web100)"
        ),
    }
}

fn longest(from: &str) -> String {
    format!(
        "on {from}: lengthen the transmit queue (ip link set DEVICE txqueuelen N), or use fq, which delays packets instead of dropping them"
    )
}

/// The remedy of a real host: a queue of twice the largest window of the flow, which the queue kept small.
fn longer_queue(device: &str, context: &FlowContext, summary: &FlowSummary) -> (String, Option<Fix>) {
    let from = &context.from;
    let pacing = "or pace the connection below the rate of this device (--fq-rate of longfat test, SO_MAX_PACING_RATE)";
    let now = context.device.queue_packets.unwrap_or(0);
    let window = summary
        .max_cwnd_bytes
        .zip(summary.mss_bytes.filter(|mss| *mss > 0))
        .map(|(cwnd, mss)| 2 * cwnd / mss);
    let qdisc = context.device.qdisc.as_deref();
    let by_length = qdisc.is_none_or(|qdisc| BY_DEVICE_LENGTH.contains(&qdisc));
    match (by_length, window.filter(|packets| *packets > u64::from(now))) {
        (true, Some(packets)) => {
            let command = format!("ip link set dev {device} txqueuelen {packets}");
            let reason =
                format!("now {now}; {packets} packets are twice the connection's largest window; {pacing}");
            let remedy = format!("on {from}: {command} ({reason})");
            (remedy, Some(Fix { host: from.clone(), command, reason }))
        }
        (true, None) => (
            format!("on {from}: raise txqueuelen of {device} above {}, {pacing}", group_digits(now.into())),
            None,
        ),
        (false, _) => {
            let qdisc = qdisc.unwrap_or_default();
            (
                format!(
                    "on {from}: raise the limit of {qdisc} on {device} (tc -s qdisc show dev {device}), {pacing}"
                ),
                None,
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use schema::{Cause, FlowSample};

    use super::*;
    use crate::explain::explain;

    fn remedy(device: SendingDevice, virtual_time: bool) -> (String, Vec<Fix>, String) {
        let context = FlowContext {
            from: "h1".into(),
            wire_limit_bps: Some(956e6),
            device,
            virtual_time,
            ..FlowContext::default()
        };
        let mut summary = FlowSummary {
            verdict: Some(Cause::LocalQueue),
            max_cwnd_bytes: Some(14_480_000),
            mss_bytes: Some(1448),
            retransmitted_segs: Some(1035),
            ..FlowSummary::default()
        };
        explain(&[&FlowSample::default()], &context, &mut summary);
        (summary.remedy.unwrap(), summary.fixes, summary.evidence.join("\n"))
    }

    #[test]
    fn a_real_hosts_device_gets_a_command() {
        let device = SendingDevice {
            name: Some("eth0".into()),
            qdisc: Some("pfifo_fast".into()),
            dropped_segs: 921,
            queue_packets: Some(100),
            ..SendingDevice::default()
        };
        let (text, fixes, evidence) = remedy(device.clone(), false);
        assert_eq!(fixes[0].command, "ip link set dev eth0 txqueuelen 20000");
        assert!(text.contains(&fixes[0].command) && text.contains("--fq-rate"), "{text}");
        assert!(
            evidence.contains("dropped about 921 segments")
                && evidence.contains("eth0 of h1 holds 100 packets")
        );
        // The length of the device's queue means nothing to this one.
        let (text, fixes, _) =
            remedy(SendingDevice { qdisc: Some("fq_codel".into()), ..device.clone() }, false);
        assert!(text.contains("the limit of fq_codel on eth0") && fixes.is_empty(), "{text}");
        let (text, fixes, _) = remedy(SendingDevice { queue_packets: Some(30_000), ..device }, false);
        assert!(text.contains("raise txqueuelen of eth0 above 30,000") && fixes.is_empty(), "{text}");
    }

    #[test]
    fn a_scenarios_host_gets_keys_that_its_engine_applies() {
        let device = SendingDevice {
            queue_packets: Some(100),
            round_trip_packets: Some(9660),
            ..SendingDevice::default()
        };
        let (lab, _, _) = remedy(device.clone(), false);
        assert!(lab.contains("tx_queue = 9660") && lab.contains("pacing = \"927mbit\""), "{lab}");
        let (simulated, _, _) = remedy(device, true);
        assert!(simulated.contains("local_congestion = false"), "{simulated}");
    }
}
