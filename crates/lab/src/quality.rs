//! Whether a run can be trusted, and why not.

use std::time::Duration;

use schema::Quality;

use crate::{Backend, Privilege, driver::DriverReport, machine::CpuUse};

/// Lateness (99th percentile) beyond which round-trip times and queues are not those of the scenario.
const LATE_NS: u64 = 1_000_000;
/// Idle processor time below which computing may have been the limit.
const IDLE_SHARE: f64 = 0.02;
/// Share of the run for which the emulator stood still that spoils it.
const STALLED_SHARE: f64 = 0.01;
/// Share of time taken by the hypervisor that is worth a remark.
const STOLEN_SHARE: f64 = 0.05;

/// What a run was made under.
#[derive(Debug)]
pub(crate) struct Conditions {
    pub(crate) privilege: Privilege,
    pub(crate) backend: Backend,
    /// No other lab ran when this one began.
    pub(crate) alone: bool,
    pub(crate) outside_drops: u64,
    /// Super-packets dropped at transmit queues that the scenario asks for.
    pub(crate) tx_queue_drops: u64,
    /// The scenario asks for a transmit queue where ports have none.
    pub(crate) no_tx_queue: bool,
    /// How long the run took.
    pub(crate) wall: Duration,
    /// The smallest idle share and the largest stolen share of any second.
    pub(crate) cpu: CpuUse,
}

/// The quality of a run: faults first, then remarks.
pub(crate) fn judge(report: &DriverReport, conditions: &Conditions) -> Quality {
    let percentile = |p: f64| report.lateness.value_at_quantile(p) as f64 / 1000.0;
    let mut faults = Vec::new();
    let p99 = report.lateness.value_at_quantile(0.99);
    if p99 > LATE_NS {
        faults.push(format!(
            "the emulator was late: 1 % of packets came {:.1} ms or more after their time; \
             close other programs, or lower the rate",
            p99 as f64 / 1e6
        ));
    }
    let stalled = report.stalls.total as f64 / conditions.wall.as_nanos().max(1) as f64;
    if stalled > STALLED_SHARE {
        faults.push(format!(
            "the emulator stood still for {:.1} % of the time, up to {:.0} ms at a time",
            stalled * 100.0,
            report.stalls.longest as f64 / 1e6
        ));
    }
    if conditions.outside_drops > 0 {
        faults.push(format!(
            "{} packets were dropped by the hosts' devices, outside the emulated network",
            conditions.outside_drops
        ));
    }
    if conditions.no_tx_queue {
        faults.push(
            "packet ports have no transmit queue such as the scenario asks for; use TAP devices".into(),
        );
    }
    if conditions.cpu.idle < IDLE_SHARE {
        faults.push(format!(
            "the processors were busy: only {:.1} % idle in one second, so computing may have been the limit",
            conditions.cpu.idle * 100.0
        ));
    }
    let ok = faults.is_empty();
    let mut notes = faults;
    notes.extend(remarks(report, conditions));
    Quality {
        ok,
        emulator_late_p50_us: Some(percentile(0.5)),
        emulator_late_p99_us: Some(percentile(0.99)),
        emulator_late_max_us: Some(report.lateness.max() as f64 / 1000.0),
        cpu_idle_min: Some((conditions.cpu.idle * 1000.0).round() / 1000.0),
        outside_drops: conditions.outside_drops,
        notes,
    }
}

fn remarks(report: &DriverReport, conditions: &Conditions) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some(error) = &report.not_real_time {
        remarks.push(format!(
            "the emulator had no real-time priority ({error}); other programs can delay packets"
        ));
    }
    if conditions.privilege == Privilege::UserNamespace {
        remarks.push(
            "run without root: socket buffers that a flow asks for are capped by the machine's net.core limits".into(),
        );
    }
    if conditions.backend == Backend::Packet {
        remarks.push(
            "no TAP devices here: hosts are connected by veth and packet sockets, which cost more time"
                .into(),
        );
    }
    if conditions.tx_queue_drops > 0 {
        remarks.push(format!(
            "{} packets (of up to 64 KiB, see nic.gso) were dropped at the hosts' transmit queues, which the scenario asks for",
            conditions.tx_queue_drops
        ));
    }
    if report.stalls.longest > 0 {
        remarks.push(format!(
            "the emulator stood still for up to {:.0} ms, {:.0} ms in all",
            report.stalls.longest as f64 / 1e6,
            report.stalls.total as f64 / 1e6
        ));
    }
    if !conditions.alone {
        remarks.push("another lab ran when this one began; both share the processors".into());
    }
    if conditions.cpu.stolen > STOLEN_SHARE {
        remarks.push(format!(
            "the hypervisor took up to {:.0} % of the processors for other machines",
            conditions.cpu.stolen * 100.0
        ));
    }
    remarks
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;

    use super::*;
    use crate::clock::Stalls;

    fn report(late_ns: u64) -> DriverReport {
        let mut lateness = Histogram::new_with_bounds(1, 10_000_000_000, 3).unwrap();
        lateness.record_n(10_000, 95).unwrap();
        lateness.record_n(late_ns, 5).unwrap();
        DriverReport { lateness, refused: 0, stalls: Stalls::default(), not_real_time: None }
    }

    fn conditions() -> Conditions {
        Conditions {
            privilege: Privilege::Root,
            backend: Backend::Tap,
            alone: true,
            outside_drops: 0,
            tx_queue_drops: 0,
            no_tx_queue: false,
            wall: Duration::from_secs(5),
            cpu: CpuUse { idle: 0.4, stolen: 0.0 },
        }
    }

    #[test]
    fn a_good_run_is_trusted_without_a_word() {
        let quality = judge(&report(20_000), &conditions());
        assert!(quality.ok && quality.notes.is_empty(), "{quality:?}");
        assert!((quality.emulator_late_p50_us.unwrap() - 10.0).abs() < 0.1);
    }

    #[test]
    fn each_fault_alone_is_enough() {
        assert!(!judge(&report(5_000_000), &conditions()).ok);
        assert!(!judge(&report(0), &Conditions { outside_drops: 1, ..conditions() }).ok);
        let busy = Conditions { cpu: CpuUse { idle: 0.01, stolen: 0.0 }, ..conditions() };
        assert!(!judge(&report(0), &busy).ok);
    }

    #[test]
    fn a_transmit_queue_that_is_asked_for_may_drop_and_must_be_there() {
        let dropped = judge(&report(0), &Conditions { tx_queue_drops: 8, ..conditions() });
        assert!(dropped.ok && dropped.outside_drops == 0, "{dropped:?}");
        assert!(dropped.notes[0].starts_with("8 packets"), "{dropped:?}");
        assert!(!judge(&report(0), &Conditions { no_tx_queue: true, ..conditions() }).ok);
    }

    #[test]
    fn standing_still_is_a_remark_until_it_is_a_fault() {
        let stalled = |total| DriverReport { stalls: Stalls { total, longest: 30_000_000 }, ..report(0) };
        let short = judge(&stalled(30_000_000), &conditions());
        assert!(short.ok && short.notes[0].contains("30 ms"), "{short:?}");
        assert!(!judge(&stalled(250_000_000), &conditions()).ok);
    }

    #[test]
    fn remarks_do_not_spoil_a_run() {
        let quality =
            judge(&report(0), &Conditions { alone: false, backend: Backend::Packet, ..conditions() });
        assert!(quality.ok);
        assert_eq!(quality.notes.len(), 2);
    }
}
