//! Whether a run's measurements are reliable, and why not.

use std::time::Duration;

use schema::{Quality, Reliability};

use crate::{
    Backend, Privilege,
    clock::TimeMode,
    cpu_times::CpuUse,
    driver::DriverReport,
    stalls::{LATE_NS, Stalls},
};

/// Minimum idle share of the processors; below it they may have limited throughput.
const MIN_IDLE_SHARE: f64 = 0.02;
/// Maximum share of the run for which the emulator may stall in a reliable measurement.
const MAX_STALLED_SHARE: f64 = 0.01;
/// Maximum share of time that the hypervisor may take without a warning.
const MAX_STOLEN_SHARE: f64 = 0.05;

/// Minimum lateness in virtual time that causes a warning, ns: 1 us is visible in records.
const VISIBLE_LATENESS_NS: u64 = 1_000;
/// Lateness in virtual time above which the emulator has a defect, ns. Reading a stock kernel's clock takes
/// 256 ns.
const MAX_VIRTUAL_LATENESS_NS: u64 = 50_000;

/// The conditions of a run.
#[derive(Debug)]
pub(crate) struct RunConditions {
    pub(crate) privilege: Privilege,
    pub(crate) backend: Backend,
    /// Whether no other lab was running when this one started.
    pub(crate) alone: bool,
    pub(crate) outside_drops: u64,
    /// Super-packets dropped at transmit queues that the scenario sets.
    pub(crate) tx_queue_drops: u64,
    /// The scenario sets a transmit queue, but ports have none.
    pub(crate) no_tx_queue: bool,
    /// Duration of the run.
    pub(crate) wall: Duration,
    /// The smallest idle share and the largest stolen share of any second; other programs' share.
    pub(crate) cpu: CpuUse,
    /// Some flow has programs that send and receive data. Echoes are handled by the kernel, however busy the
    /// processors are.
    pub(crate) has_bulk: bool,
    /// Periods in which samples are missing.
    pub(crate) sampler: Stalls,
    /// Results that stalls can have changed, see [`crate::stall_effects`].
    pub(crate) stall_effects: Vec<String>,
    pub(crate) time: TimeMode,
}

/// Judges a run.
pub(crate) fn judge(report: &DriverReport, conditions: &RunConditions) -> Quality {
    if conditions.time == TimeMode::Virtual {
        return judge_virtual(report, conditions);
    }
    let percentile = |p: f64| report.lateness.value_at_quantile(p) as f64 / 1000.0;
    let stalls = &report.stalls;
    let disturbances = disturbances(report, conditions);
    let others = other_faults(conditions);
    let reliability = match (disturbances.is_empty(), others.is_empty()) {
        (true, true) => Reliability::Reliable,
        (false, _) => Reliability::Disturbed,
        (true, false) => Reliability::Invalid,
    };
    let faults: Vec<String> = disturbances.into_iter().chain(others).collect();
    let notes = faults.iter().cloned().chain(warnings(report, conditions)).collect();
    Quality {
        reliability,
        emulator_late_p50_us: Some(percentile(0.5)),
        emulator_late_p99_us: Some(percentile(0.99)),
        emulator_late_max_us: Some(report.lateness.max().max(stalls.longest) as f64 / 1000.0),
        stalls: Some(stalls.count),
        stalled_max_us: Some(stalls.longest as f64 / 1000.0),
        stalled_total_us: Some(stalls.total as f64 / 1000.0),
        cpu_idle_min: Some((conditions.cpu.idle * 1000.0).round() / 1000.0),
        other_programs_cpu: Some((conditions.cpu.others * 1000.0).round() / 1000.0),
        outside_drops: conditions.outside_drops,
        faults,
        notes,
    }
}

/// Judges a run in virtual time, which no processor, timer or other program can disturb.
fn judge_virtual(report: &DriverReport, conditions: &RunConditions) -> Quality {
    let late = report.lag_max.max(report.lateness.max());
    let fault = (late > MAX_VIRTUAL_LATENESS_NS).then(|| {
        format!("the emulator was up to {:.1} us late in virtual time; please report this", late as f64 / 1e3)
    });
    let warning = (VISIBLE_LATENESS_NS..=MAX_VIRTUAL_LATENESS_NS).contains(&late).then(|| {
        let late_us = late as f64 / 1e3;
        match report.reading_takes_time {
            true => format!(
                "packets were up to {late_us:.1} us late, because reading this kernel's clock takes virtual time; in kernels \
                 from `longfat kernel build` it does not"
            ),
            false => format!(
                "packets were up to {late_us:.1} us late, because a system call that fails takes 1 us of virtual time"
            ),
        }
    });
    let faults: Vec<String> = fault.into_iter().chain(other_faults(conditions)).collect();
    let notes = faults.iter().cloned().chain(warning).chain(tx_queue_drops(conditions)).collect();
    Quality {
        reliability: if faults.is_empty() { Reliability::Reliable } else { Reliability::Invalid },
        outside_drops: conditions.outside_drops,
        faults,
        notes,
        ..Quality::default()
    }
}

/// Faults caused by a busy or stalled machine; a repetition may succeed.
fn disturbances(report: &DriverReport, conditions: &RunConditions) -> Vec<String> {
    let mut faults = Vec::new();
    let p99 = report.lateness.value_at_quantile(0.99);
    if p99 > LATE_NS {
        faults.push(format!(
            "the emulator was late: 1 % of packets arrived {:.1} ms or more behind schedule \
             (close other programs, or lower the rate)",
            p99 as f64 / 1e6
        ));
    }
    let stalled = report.stalls.total as f64 / conditions.wall.as_nanos().max(1) as f64;
    if stalled > MAX_STALLED_SHARE {
        faults.push(format!(
            "the emulator stalled {}, {:.1} % of the run",
            report.stalls.extent(),
            stalled * 100.0
        ));
    }
    faults.extend(conditions.stall_effects.iter().cloned());
    if conditions.has_bulk && conditions.cpu.idle < MIN_IDLE_SHARE {
        faults.push(format!(
            "the processors were busy: only {:.1} % idle in one second, so they may have limited throughput",
            conditions.cpu.idle * 100.0
        ));
    }
    faults
}

/// Faults that do not depend on how busy the machine is.
fn other_faults(conditions: &RunConditions) -> Vec<String> {
    let mut faults = Vec::new();
    if conditions.outside_drops > 0 {
        faults.push(format!(
            "{} packets were dropped by the hosts' devices, outside the emulated network",
            conditions.outside_drops
        ));
    }
    if conditions.no_tx_queue {
        faults.push(
            "the scenario sets nic.tx_queue, but packet ports have no transmit queue; use TAP devices".into(),
        );
    }
    faults
}

fn warnings(report: &DriverReport, conditions: &RunConditions) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(error) = &report.not_real_time {
        warnings.push(format!(
            "the emulator had no real-time priority ({error}); other programs can delay packets"
        ));
    }
    if conditions.privilege == Privilege::UserNamespace {
        warnings.push(
            "run without root: net.core.rmem_max and wmem_max cap the socket buffers that flows set".into(),
        );
    }
    if conditions.backend == Backend::Packet {
        warnings.push(
            "no TAP devices: hosts are connected by veth pairs and packet sockets, which cost more processor time"
                .into(),
        );
    }
    warnings.extend(tx_queue_drops(conditions));
    if report.stalls.count > 0 {
        warnings.push(format!("the emulator stalled {}; this machine was busy", report.stalls.extent()));
    }
    if conditions.sampler.count > 0 {
        warnings.push(format!("the sampler stalled {}; this machine was busy", conditions.sampler.extent()));
    }
    if !conditions.alone {
        warnings.push("another lab was running when this one started; both share the processors".into());
    }
    if conditions.cpu.stolen > MAX_STOLEN_SHARE {
        warnings.push(format!(
            "the hypervisor took up to {:.0} % of processor time for other virtual machines",
            conditions.cpu.stolen * 100.0
        ));
    }
    if conditions.cpu.others > schema::BUSY_SHARE {
        warnings.push(format!(
            "this machine was busy: other programs used {:.0} % of its processors",
            conditions.cpu.others * 100.0
        ));
    }
    warnings
}

fn tx_queue_drops(conditions: &RunConditions) -> Option<String> {
    (conditions.tx_queue_drops > 0).then(|| {
        format!(
            "{} packets (of up to 64 KiB, see nic.gso) were dropped at the hosts' transmit queues, which the scenario sets",
            conditions.tx_queue_drops
        )
    })
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;

    use super::*;

    fn report(late_ns: u64) -> DriverReport {
        let mut lateness = Histogram::new_with_bounds(1, 10_000_000_000, 3).unwrap();
        lateness.record_n(10_000, 95).unwrap();
        lateness.record_n(late_ns, 5).unwrap();
        DriverReport {
            lateness,
            refused: 0,
            lag_max: 0,
            reading_takes_time: false,
            stalls: Stalls::default(),
            not_real_time: None,
        }
    }

    fn conditions() -> RunConditions {
        RunConditions {
            privilege: Privilege::Root,
            backend: Backend::Tap,
            alone: true,
            outside_drops: 0,
            tx_queue_drops: 0,
            no_tx_queue: false,
            wall: Duration::from_secs(5),
            cpu: CpuUse { idle: 0.4, stolen: 0.0, others: 0.02 },
            has_bulk: true,
            sampler: Stalls::default(),
            stall_effects: Vec::new(),
            time: TimeMode::Real,
        }
    }

    #[test]
    fn a_quiet_run_is_reliable_without_warnings() {
        let quality = judge(&report(20_000), &conditions());
        assert!(quality.is_reliable() && quality.notes.is_empty(), "{quality:?}");
        assert!((quality.emulator_late_p50_us.unwrap() - 10.0).abs() < 0.1);
    }

    #[test]
    fn each_fault_alone_is_enough() {
        assert!(!judge(&report(5_000_000), &conditions()).is_reliable());
        assert!(!judge(&report(0), &RunConditions { outside_drops: 1, ..conditions() }).is_reliable());
        let cpu = CpuUse { idle: 0.01, stolen: 0.0, others: 0.6 };
        let busy = judge(&report(0), &RunConditions { cpu, ..conditions() });
        assert!(!busy.is_reliable() && busy.warnings()[0].contains("60 %"), "{busy:?}");
        assert_eq!(busy.other_programs_cpu, Some(0.6));
        let echoes = judge(&report(0), &RunConditions { cpu, has_bulk: false, ..conditions() });
        assert!(echoes.is_reliable(), "the kernel handles echoes: {echoes:?}");
    }

    #[test]
    fn a_transmit_queue_of_the_scenario_may_drop_but_must_exist() {
        let dropped = judge(&report(0), &RunConditions { tx_queue_drops: 8, ..conditions() });
        assert!(dropped.is_reliable() && dropped.outside_drops == 0, "{dropped:?}");
        assert!(dropped.notes[0].starts_with("8 packets"), "{dropped:?}");
        assert!(!judge(&report(0), &RunConditions { no_tx_queue: true, ..conditions() }).is_reliable());
    }

    #[test]
    fn short_stalls_are_a_warning_and_long_ones_a_fault() {
        let stalled = |lengths_ms: &[u64]| {
            let mut stalls = Stalls::default();
            lengths_ms.iter().for_each(|ms| stalls.add(units::Instant::from_secs(1), ms * 1_000_000));
            DriverReport { stalls, ..report(0) }
        };
        let short = judge(&stalled(&[2, 20]), &conditions());
        assert!(short.is_reliable() && !short.is_disturbed() && short.faults.is_empty(), "{short:?}");
        assert_eq!(
            short.warnings(),
            ["the emulator stalled for up to 20 ms (22 ms in total); this machine was busy"]
        );
        let long = judge(&stalled(&[250]), &conditions());
        assert!(!long.is_reliable() && long.is_disturbed() && long.reasons().len() == 1, "{long:?}");
        assert_eq!(long.warnings().len(), 1, "faults are not warnings: {long:?}");
    }

    #[test]
    fn the_maximum_lateness_is_never_less_than_the_longest_stall() {
        let mut stalls = Stalls::default();
        stalls.add(units::Instant::ZERO, 20_000_000);
        let quality = judge(&DriverReport { stalls, ..report(10_000) }, &conditions());
        assert_eq!((quality.emulator_late_max_us, quality.stalled_max_us), (Some(20_000.0), Some(20_000.0)));
        assert_eq!(quality.stalls, Some(1));
    }

    #[test]
    fn effects_of_stalls_make_a_run_unreliable() {
        let changed = RunConditions { stall_effects: vec!["395 drops".into()], ..conditions() };
        let quality = judge(&report(0), &changed);
        assert!(
            !quality.is_reliable() && quality.is_disturbed() && quality.faults == ["395 drops"],
            "{quality:?}"
        );
        // A repetition on the same machine would not help.
        let dropped = judge(&report(0), &RunConditions { no_tx_queue: true, ..conditions() });
        assert!(!dropped.is_reliable() && !dropped.is_disturbed(), "{dropped:?}");
    }

    #[test]
    fn warnings_do_not_make_a_run_unreliable() {
        let quality =
            judge(&report(0), &RunConditions { alone: false, backend: Backend::Packet, ..conditions() });
        assert!(quality.is_reliable());
        assert_eq!(quality.notes.len(), 2);
    }
}
