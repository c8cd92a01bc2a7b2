//! The sending host's own device in words.

use schema::{Fix, FlowSample, FlowSummary};
use units::{BitRate, Time, group_digits, three_digits};

use super::{Explanation, Facts};
use crate::{FlowContext, SendingDevice};

/// Queueing disciplines whose length is the device's `txqueuelen`.
const BY_DEVICE_LENGTH: [&str; 4] = ["pfifo_fast", "pfifo", "bfifo", "noqueue"];
/// A paced connection leaves this share of its link free, so that the queue empties.
const PACED_SHARE: f64 = 0.97;

/// Quantile of the rates between two samples that counts as the device's own rate.
const PEAK_QUANTILE: f64 = 0.99;

pub(super) fn local_queue(
    facts: &Facts,
    rows: &[&FlowSample],
    context: &FlowContext,
    summary: &FlowSummary,
) -> Explanation {
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
        Some(name) => longer_queue(name, rows, context, summary),
        None => (in_scenario(context), None),
    };
    Explanation { evidence, remedy: Some(remedy), fixes: fix.into_iter().collect() }
}

/// The remedy of a host that a scenario describes.
fn in_scenario(context: &FlowContext) -> String {
    let (from, flow) = (&context.from, &context.name);
    let SendingDevice { queue_packets: Some(now), round_trip_packets: Some(needed), .. } = context.device
    else {
        return longest(from);
    };
    if needed <= u64::from(now) {
        return longest(from);
    }
    let queue = format!(
        "on {from}: a transmit queue of one bandwidth-delay product (--set hosts.{from}.nic.tx_queue={needed}; on a real host: \
         ip link set dev DEVICE txqueuelen {needed})"
    );
    // Only simulated stacks can ignore the drop.
    match context.wire_limit_bps.filter(|_| !context.is_simulated) {
        Some(limit) => {
            let rate = BitRate(three_digits(limit * PACED_SHARE));
            let value = format!("{}mbit", (limit * PACED_SHARE / 1e6).floor().max(1.0));
            format!("{queue}, or pacing at {rate}, which needs no queue (--set flows.{flow}.pacing={value})")
        }
        None => format!(
            "{queue}, or no congestion signal from it (--set hosts.{from}.local_congestion=false; WAD_IFQ=1 with web100)"
        ),
    }
}

fn longest(from: &str) -> String {
    format!(
        "on {from}: use fq, which delays packets instead of dropping them (tc qdisc replace dev DEVICE root fq), or a longer \
         transmit queue"
    )
}

/// The remedy of a real host: a queue of one bandwidth-delay product, [`model::transmit_queue_packets`].
fn longer_queue(
    device: &str,
    rows: &[&FlowSample],
    context: &FlowContext,
    summary: &FlowSummary,
) -> (String, Option<Fix>) {
    let from = &context.from;
    let pacing = "or pace the connection below the rate of this device (--fq-rate of longfat test, SO_MAX_PACING_RATE)";
    let now = context.device.queue_packets.unwrap_or(0);
    let qdisc = context.device.qdisc.as_deref();
    let by_length = qdisc.is_none_or(|qdisc| BY_DEVICE_LENGTH.contains(&qdisc));
    let needed = QueueNeed::of(rows, summary).filter(|need| need.packets > u64::from(now));
    match (by_length, needed) {
        (true, Some(QueueNeed { packets, rate_bps, rtt })) => {
            let command = format!("ip link set dev {device} txqueuelen {packets}");
            let rate = BitRate(three_digits(rate_bps));
            let reason = format!(
                "now {now}; {packets} full-sized packets are one bandwidth-delay product, {rate} x {rtt}; a super-packet (GSO) \
                 counts as one packet, so the queue can hold more; {pacing}"
            );
            let remedy = format!("on {from}: {command} ({reason})");
            (remedy, Some(Fix { host: from.clone(), command, reason }))
        }
        (true, None) => (
            format!(
                "on {from}: raise txqueuelen of {device}: ip link set dev {device} txqueuelen {}, {pacing}",
                u64::from(now) * 2
            ),
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

/// The transmit queue that a flow needs on a path that is not described.
struct QueueNeed {
    packets: u64,
    rate_bps: f64,
    rtt: Time,
}

impl QueueNeed {
    /// While its queue overflows, a device sends at its full rate, so that ACKs return at that rate for a
    /// short time: the highest rates between two samples show it.
    fn of(rows: &[&FlowSample], summary: &FlowSummary) -> Option<Self> {
        let acked = |pair: &[&FlowSample]| {
            let bytes = pair[1].bytes_acked? - pair[0].bytes_acked?;
            let us = pair[1].time_us - pair[0].time_us;
            (us > 0 && bytes >= 0).then(|| bytes as f64 * 8e6 / us as f64)
        };
        let mut rates: Vec<f64> = rows.windows(2).filter_map(acked).collect();
        rates.sort_by(f64::total_cmp);
        // Not the very highest: delayed ACKs arrive in bursts.
        let rate_bps =
            *rates.get((rates.len() as f64 * PEAK_QUANTILE) as usize).filter(|rate| **rate > 0.0)?;
        let rtt = Time::from_micros(summary.min_rtt_us? as u64);
        let mss = u32::try_from(summary.mss_bytes?).ok().filter(|mss| *mss > 0)?;
        let packets = model::transmit_queue_packets(BitRate(rate_bps as u64), rtt, mss);
        Some(QueueNeed { packets, rate_bps, rtt })
    }
}

#[cfg(test)]
mod tests {
    use schema::{Cause, FlowSample};

    use super::*;
    use crate::StartOfFlow;
    use crate::explain::explain;

    fn remedy(device: SendingDevice, is_simulated: bool) -> (String, Vec<Fix>, String) {
        let context = FlowContext {
            name: "bulk".into(),
            from: "h1".into(),
            wire_limit_bps: Some(956e6),
            device,
            is_simulated,
            ..FlowContext::default()
        };
        let mut summary = FlowSummary {
            verdict: Some(Cause::LocalQueue),
            min_rtt_us: Some(100_000.0),
            mss_bytes: Some(1448),
            retransmitted_segs: Some(1035),
            ..FlowSummary::default()
        };
        // Mostly 10 Mb/s, and 100 Mb/s in bursts.
        let mut acked = 0;
        let row = |i: i64| {
            acked += if i % 10 == 0 { 125_000 } else { 12_500 };
            FlowSample { time_us: i * 10_000, bytes_acked: Some(acked), ..FlowSample::default() }
        };
        let rows: Vec<FlowSample> = (0..200).map(row).collect();
        explain(&rows.iter().collect::<Vec<_>>(), &StartOfFlow::default(), &context, &mut summary);
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
        assert_eq!(fixes[0].command, "ip link set dev eth0 txqueuelen 864");
        assert!(text.contains(&fixes[0].command) && text.contains("--fq-rate"), "{text}");
        assert!(text.contains("one bandwidth-delay product, 100 Mb/s x 100 ms"), "{text}");
        assert!(
            evidence.contains("dropped about 921 segments")
                && evidence.contains("eth0 of h1 holds 100 packets")
        );
        // This queueing discipline ignores the length of the device's queue.
        let (text, fixes, _) =
            remedy(SendingDevice { qdisc: Some("fq_codel".into()), ..device.clone() }, false);
        assert!(text.contains("the limit of fq_codel on eth0") && fixes.is_empty(), "{text}");
        let (text, fixes, _) = remedy(SendingDevice { queue_packets: Some(30_000), ..device }, false);
        assert!(text.contains("txqueuelen 60000") && fixes.is_empty(), "{text}");
    }

    #[test]
    fn a_scenarios_host_gets_keys_that_its_engine_applies() {
        let device = SendingDevice {
            queue_packets: Some(100),
            round_trip_packets: Some(9660),
            ..SendingDevice::default()
        };
        let (lab, _, _) = remedy(device.clone(), false);
        assert!(
            lab.contains("hosts.h1.nic.tx_queue=9660") && lab.contains("flows.bulk.pacing=927mbit"),
            "{lab}"
        );
        let (simulated, _, _) = remedy(device, true);
        assert!(simulated.contains("local_congestion=false"), "{simulated}");
    }
}
