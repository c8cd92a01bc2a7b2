//! Measures a simulation's processor time per packet, without loss and in recovery.

use std::error::Error;

use schema::{Event, FlowSample, LinkSample};
use sim::{HostDefaults, Observer, Outcome, Segmentation};
use units::Time;

use crate::{cases::Case, machine::cpu_s, support};

/// `TCP_CA_Recovery`.
const RECOVERY: i64 = 3;

/// Packets and their processor time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cost {
    pub packets: f64,
    pub cpu_s: f64,
}

impl Cost {
    /// Millions of packets per second of processor time.
    pub fn millions(&self) -> f64 {
        self.packets * 1e-6 / self.cpu_s
    }

    /// Nanoseconds per packet.
    pub fn ns(&self) -> f64 {
        self.cpu_s * 1e9 / self.packets
    }
}

/// Accumulates costs at each sample.
#[derive(Debug, Default)]
pub struct Meter {
    pub all: Cost,
    /// While the flow is not in recovery, from the middle of the run.
    pub open: Cost,
    pub recovery: Cost,
    /// Largest number of segments in flight.
    pub window: i64,
    /// When the first recovery began and ended, ms.
    pub recovery_ms: Option<(u64, u64)>,
    from: Time,
    cpu_s: f64,
    packets: i64,
}

impl Observer for Meter {
    fn rows(
        &mut self,
        _: &[FlowSample],
        _: &[LinkSample],
        _: &[Event],
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(())
    }

    fn progress(&mut self, elapsed: Time, latest: &[FlowSample]) -> bool {
        let Some(row) = latest.first() else { return true };
        let (cpu, packets) = (cpu_s(), row.data_segs_out_segs.unwrap_or(0));
        let cost = Cost { packets: (packets - self.packets) as f64, cpu_s: cpu - self.cpu_s };
        let is_recovery = row.ca_state == Some(RECOVERY);
        if is_recovery {
            let ms = elapsed.as_millis();
            let from = self.recovery_ms.map_or(ms, |(from, _)| from);
            self.recovery_ms = Some((from, ms));
        }
        let phase = if is_recovery {
            Some(&mut self.recovery)
        } else {
            Some(&mut self.open).filter(|_| elapsed >= self.from)
        };
        for total in phase.into_iter().chain([&mut self.all]) {
            total.packets += cost.packets;
            total.cpu_s += cost.cpu_s;
        }
        self.window = self.window.max(row.unacked_segs.unwrap_or(0));
        (self.cpu_s, self.packets) = (cpu_s(), packets);
        true
    }
}

/// Runs a case. Costs without loss are counted from its middle.
pub fn run(case: &Case, sample_ms: u32) -> (Outcome, Meter) {
    let scenario = support::scenario(&case.text(sample_ms));
    let defaults = HostDefaults { segmentation: Segmentation::Whole, ..HostDefaults::default() };
    let mut controllers = support::Native::default();
    let from = Time::from_nanos(u64::from(case.ms()) * 500_000);
    let mut meter = Meter { from, cpu_s: cpu_s(), ..Meter::default() };
    let outcome = sim::run(&scenario, &defaults, &mut controllers, &mut meter).expect(case.name);
    (outcome, meter)
}
