//! Simulations in steps: at each sample of a flow the caller sets the flow's congestion window and pacing
//! rate, in place of a congestion control.

use std::{
    cell::Cell,
    rc::Rc,
    sync::atomic::{AtomicBool, Ordering},
};

use schema::{Event, FlowSample, LinkSample};
use sim::{Controllers, Side};
use tcp::{CongestionControl, Operation, RateSample, TcpSock};
use units::Time;

use crate::{EngineChoice, Error, Experiment, Job, Result, engines::Sim};

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// The values that the caller sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowControl {
    /// Congestion window; at least 1.
    pub cwnd_segs: u32,
    /// Pacing rate of payload; `None`: no pacing.
    pub pacing_bps: Option<u64>,
}

/// Simulates a run in which the caller controls the TCP flow called `flow`. `on_sample` receives each sample
/// of the flow and returns the values that apply until the next one; `None` ends the run. `stop` ends it
/// between two samples of the flow too, which are far apart if it starts late.
///
/// # Errors
/// There is no TCP flow of this name, the engine is not the simulator, or the simulation fails.
pub fn run_stepped(
    job: &Job<'_>,
    flow: &str,
    initial: FlowControl,
    stop: &AtomicBool,
    on_sample: &mut dyn FnMut(&FlowSample) -> Option<FlowControl>,
) -> Result<()> {
    let tcp = job.scenario.flows.iter().filter(|one| matches!(one.kind, scenario::FlowKind::Tcp(_)));
    if !tcp.clone().any(|one| one.name == flow) {
        let names: Vec<&str> = tcp.map(|one| one.name.as_str()).collect();
        return Err(Error::BadInput(format!(
            "there is no TCP flow {flow:?}; there are {}",
            names.join(", ")
        )));
    }
    if job.engine != EngineChoice::Sim {
        return Err(Error::BadInput("only the simulator runs in steps".into()));
    }
    let Experiment { path, host, kernel, .. } = job.experiment;
    let sim = Sim { path, host, kernel: *kernel, traced: &[] };
    let control = Rc::new(Cell::new(initial));
    let mut observer = StepObserver { flow, control: control.clone(), stop, on_sample, last_us: None };
    let external = |native: &mut dyn Controllers| {
        let mut controllers = External { flow, control, native };
        sim.simulate(&job.scenario, &mut controllers, &mut observer)
    };
    sim.with_native(&job.scenario, external)
}

/// The caller's control for one sender, the scenario's congestion controls for all other ends.
struct External<'a> {
    flow: &'a str,
    control: Rc<Cell<FlowControl>>,
    native: &'a mut dyn Controllers,
}

impl Controllers for External<'_> {
    fn controller(
        &mut self,
        flow: &scenario::FlowSpec,
        side: Side,
    ) -> std::result::Result<Box<dyn CongestionControl>, AnyError> {
        match flow.name == self.flow && side == Side::Sender {
            true => Ok(Box::new(CallersControl(self.control.clone()))),
            false => self.native.controller(flow, side),
        }
    }
}

/// A congestion control that applies the values of the caller at each ACK.
struct CallersControl(Rc<Cell<FlowControl>>);

impl CallersControl {
    fn apply(&self, sk: &mut TcpSock) {
        let FlowControl { cwnd_segs, pacing_bps } = self.0.get();
        sk.snd_cwnd = cwnd_segs.max(1).min(sk.snd_cwnd_clamp);
        sk.sk_pacing_status = u32::from(pacing_bps.is_some());
        sk.sk_pacing_rate = pacing_bps.map_or(u64::MAX, |bps| (bps / 8).max(1));
    }
}

impl CongestionControl for CallersControl {
    fn name(&self) -> &str {
        "external"
    }

    fn has(&self, operation: Operation) -> bool {
        matches!(
            operation,
            Operation::Init | Operation::CongControl | Operation::Ssthresh | Operation::UndoCwnd
        )
    }

    fn init(&mut self, sk: &mut TcpSock) {
        self.apply(sk);
    }

    fn ssthresh(&mut self, sk: &mut TcpSock) -> u32 {
        sk.snd_ssthresh
    }

    fn cong_avoid(&mut self, _: &mut TcpSock, _: u32, _: u32) {}

    fn cong_control(&mut self, sk: &mut TcpSock, _: u32, _: i32, _: &RateSample) {
        self.apply(sk);
    }

    fn undo_cwnd(&mut self, sk: &mut TcpSock) -> u32 {
        sk.snd_cwnd
    }
}

/// Passes each sample of the flow to the caller.
struct StepObserver<'a> {
    flow: &'a str,
    control: Rc<Cell<FlowControl>>,
    stop: &'a AtomicBool,
    on_sample: &'a mut dyn FnMut(&FlowSample) -> Option<FlowControl>,
    /// The time of the last sample that the caller has received.
    last_us: Option<i64>,
}

impl sim::Observer for StepObserver<'_> {
    fn rows(&mut self, _: &[FlowSample], _: &[LinkSample], _: &[Event]) -> std::result::Result<(), AnyError> {
        Ok(())
    }

    fn progress(&mut self, _: Time, latest: &[FlowSample]) -> bool {
        if self.stop.load(Ordering::Relaxed) {
            return false;
        }
        let new = latest.iter().find(|row| row.flow == self.flow && Some(row.time_us) > self.last_us);
        let Some(sample) = new else { return true };
        self.last_us = Some(sample.time_us);
        let next = (self.on_sample)(sample);
        next.into_iter().for_each(|control| self.control.set(control));
        next.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Selection, run_all};
    use scenario::SimplePath;

    fn experiment() -> Experiment {
        let path = SimplePath { duration: Some(Time::from_secs(4)), ..SimplePath::default() };
        Experiment::on_simple_path(&path).unwrap()
    }

    /// Steady goodput with this control throughout, and the number of samples.
    fn goodput(control: FlowControl) -> (f64, usize) {
        let experiment = experiment();
        let jobs = experiment.jobs(&Selection::with_engine(EngineChoice::Sim)).unwrap();
        let name = jobs[0].scenario.flows[0].name.clone();
        let mut goodputs = Vec::new();
        run_stepped(&jobs[0], &name, control, &AtomicBool::new(false), &mut |sample| {
            goodputs.push(sample.goodput_bps.unwrap_or(0) as f64);
            Some(control)
        })
        .unwrap();
        let steady = &goodputs[goodputs.len() / 2..];
        (steady.iter().sum::<f64>() / steady.len() as f64, goodputs.len())
    }

    #[test]
    fn the_goodput_is_one_window_per_round_trip() {
        // 1 Gb/s and 20 ms hold 1726 segments of 1448 bytes; 100 segments give 57.9 Mb/s.
        let (bps, samples) = goodput(FlowControl { cwnd_segs: 100, pacing_bps: None });
        assert!((bps / 57.9e6 - 1.0).abs() < 0.03, "{bps}");
        // Of 4 s in samples of 10 ms; the first ones precede the connection.
        assert!((380..=400).contains(&samples), "{samples}");
        let (twice, _) = goodput(FlowControl { cwnd_segs: 200, pacing_bps: None });
        assert!((twice / bps - 2.0).abs() < 0.03, "{twice}");
    }

    #[test]
    fn a_pacing_rate_limits_a_large_window() {
        let (bps, _) = goodput(FlowControl { cwnd_segs: 1000, pacing_bps: Some(100_000_000) });
        assert!((0.95e8..1.01e8).contains(&bps), "{bps}");
    }

    #[test]
    fn a_stop_ends_a_run_before_the_first_sample_of_the_flow() {
        // The simulation of all of it would take minutes.
        let sets = [("duration", "1000000s"), ("flows.bulk.start", "900000s")];
        let sets = sets.map(|(field, value)| (field.to_owned(), value.to_owned())).to_vec();
        let experiment = Experiment { sets, ..experiment() };
        let jobs = experiment.jobs(&Selection::with_engine(EngineChoice::Sim)).unwrap();
        let control = FlowControl { cwnd_segs: 10, pacing_bps: None };
        let mut samples = 0;
        run_stepped(&jobs[0], "bulk", control, &AtomicBool::new(true), &mut |_| {
            samples += 1;
            Some(control)
        })
        .unwrap();
        assert_eq!(samples, 0);
    }

    #[test]
    fn the_caller_ends_the_run_and_wrong_flows_are_named() {
        let experiment = experiment();
        let jobs = experiment.jobs(&Selection::with_engine(EngineChoice::Sim)).unwrap();
        let control = FlowControl { cwnd_segs: 10, pacing_bps: None };
        let name = jobs[0].scenario.flows[0].name.clone();
        let mut count = 0;
        run_stepped(&jobs[0], &name, control, &AtomicBool::new(false), &mut |_| {
            count += 1;
            (count < 3).then_some(control)
        })
        .unwrap();
        assert_eq!(count, 3);
        let error =
            run_stepped(&jobs[0], "none", control, &AtomicBool::new(false), &mut |_| None).unwrap_err();
        assert!(error.to_string().contains(&name), "{error}");
        assert!(run_all(&jobs, &crate::RunOptions::default()).is_ok(), "the job is unchanged");
    }
}
