//! The model as an engine: closed forms for each flow, told the scenario and the kernel's version alone.

use std::str::FromStr;

use model::{Buffer, PathInputs, Prediction, buffer_defaults, predict};
use scenario::{Cc, Figure, Flow, Kind, Published, Scenario, ScenarioFile, Tcp};
use schema::{Cause, FlowSummary, HostInfo, Limited, RunSummary};
use units::{Bytes, KernelRequirement, KernelVersion};

use crate::{
    cc_law::law,
    closed_form::closed_form,
    congestion::settings,
    flow_context::{FlowPath, buffers},
    published::metric as metric_of,
    sim_engine::default_cc,
};

/// The kernel where none is known.
const NEW_KERNEL: KernelVersion = KernelVersion { major: 6, minor: 18, patch: 0 };
/// Time that a small packet needs through the hosts themselves, beside the path.
const HOST_TIME_S: f64 = 0.0001;

/// Completes `summary` with the model's figures.
pub fn run(scenario: &Scenario, mut summary: RunSummary, host: &HostInfo) -> RunSummary {
    // A kernel whose version cannot be read is taken for a new one.
    let kernel = KernelVersion::from_str(&host.kernel).unwrap_or(NEW_KERNEL);
    summary.flows = flows(scenario, kernel);
    let goodputs: Vec<f64> = summary.flows.iter().filter_map(|f| f.goodput_bps).collect();
    summary.fairness_jain = model::jain_index(&goodputs);
    if goodputs.len() > 1 {
        summary.quality.notes.push("the model takes each flow as alone on its path".into());
    }
    summary
}

/// What the model knows of a published figure without a run: a closed form, or the figure for a kernel that it holds for.
pub fn without_run(file: &ScenarioFile, published: &Published) -> Option<f64> {
    let meant = published.holds_for_kernel.as_deref().and_then(|k| KernelRequirement::from_str(k).ok()?.example());
    let scenario = file.resolve(published.variant.as_deref(), &[]).ok()?;
    if published.figure.is_closed_form() {
        return closed_form(&scenario, published, meant.unwrap_or(NEW_KERNEL));
    }
    let Figure::Flow { flow, metric } = &published.figure else { return None };
    let flows = flows(&scenario, meant?);
    metric_of(flows.iter().find(|f| f.name == *flow)?, *metric)
}

fn flows(scenario: &Scenario, kernel: KernelVersion) -> Vec<FlowSummary> {
    scenario.flows.iter().filter_map(|flow| predict_flow(scenario, flow, kernel)).collect()
}

fn predict_flow(scenario: &Scenario, flow: &Flow, kernel: KernelVersion) -> Option<FlowSummary> {
    let path = FlowPath::of(scenario, flow)?;
    let summary = FlowSummary {
        name: flow.name.clone(),
        from: flow.from.clone(),
        to: flow.to.clone(),
        kind: flow.kind.name().into(),
        ..FlowSummary::default()
    };
    Some(match &flow.kind {
        Kind::Tcp(tcp) => {
            let default = || Cc::Named(default_cc(scenario.host(&flow.from)));
            let cc = tcp.cc.clone().unwrap_or_else(default);
            let inputs = inputs(scenario, flow, tcp, &path, kernel, &cc);
            let summary = FlowSummary { cc: Some(cc.name().into()), cc_set: settings(&cc), ..summary };
            tcp_summary(summary, &inputs, &predict(&inputs))
        }
        Kind::Ping(_) => {
            let rtt_us = (path.rtt.as_secs_f64() + HOST_TIME_S) * 1e6;
            // The first echo waits for an address resolution of one round trip.
            let first = 2.0 * rtt_us;
            FlowSummary {
                min_rtt_us: Some(rtt_us),
                median_rtt_us: Some(rtt_us),
                max_rtt_us: Some(first),
                first_rtt_us: Some(first),
                ..summary
            }
        }
    })
}

fn inputs(
    scenario: &Scenario,
    flow: &Flow,
    tcp: &Tcp,
    path: &FlowPath<'_>,
    kernel: KernelVersion,
    cc: &Cc,
) -> PathInputs {
    let (send, receive) = buffers(scenario, flow, tcp);
    let defaults = buffer_defaults(kernel);
    let buffer = |known: verdict::Buffer, default: Bytes| match known {
        verdict::Buffer::Tuned([_, _, largest]) => Buffer::Tuned { largest: Bytes(largest) },
        verdict::Buffer::Fixed(asked) => Buffer::Fixed { asked: Bytes(asked) },
        verdict::Buffer::Unknown => Buffer::Tuned { largest: default },
    };
    let end = flow.stop.unwrap_or(scenario.duration).min(scenario.duration);
    let slowest = path.slowest();
    PathInputs {
        rate: slowest.map(|(_, rate)| rate),
        overhead: slowest.map_or(0, |(direction, _)| direction.overhead),
        queue: path.queue_bytes().map(Bytes),
        rtt: path.rtt,
        mtu: path.mtu,
        mss: tcp.mss,
        ip: path.ip,
        loss: path.loss(),
        kernel,
        cc: cc.name().into(),
        law: law(cc, path.rtt, path.mtu),
        receive_buffer: buffer(receive, defaults.tcp_rmem_max),
        send_buffer: buffer(send, defaults.tcp_wmem_max),
        read_rate: tcp.read_rate,
        write_rate: tcp.write_rate,
        pacing: tcp.pacing,
        size: tcp.size,
        duration: units::Time(end.0.saturating_sub(flow.start.0)),
    }
}

fn tcp_summary(summary: FlowSummary, inputs: &PathInputs, prediction: &Prediction) -> FlowSummary {
    let cause = prediction.verdict;
    let duration = inputs.duration.as_secs_f64();
    let ramp = if duration > 0.0 { (prediction.settled_s / duration).min(1.0) } else { 0.0 };
    let mut limited = Limited::default();
    *limited.share_mut(Cause::SlowStart) += ramp;
    *limited.share_mut(cause) += 1.0 - ramp;
    let mut steady = Limited::default();
    *steady.share_mut(cause) = 1.0;
    let finite = |bps: f64| bps.is_finite().then_some(bps);
    let rtt_us = inputs.rtt.as_micros_f64();
    FlowSummary {
        goodput_bps: finite(prediction.goodput_bps),
        steady_goodput_bps: finite(prediction.steady_goodput_bps),
        steady_from_s: finite(prediction.settled_s),
        bytes: prediction.bytes.is_finite().then_some(prediction.bytes as u64),
        min_rtt_us: Some(rtt_us),
        mss_bytes: Some(u64::from(prediction.mss_bytes)),
        max_rcv_wnd_bytes: Some(prediction.receive_window_bytes as u64),
        binding_window_bytes: prediction.window_bytes.is_finite().then_some(prediction.window_bytes as u64),
        window_share: Some((prediction.window_share * 1e4).round() / 1e4),
        wire_limit_bps: prediction.wire_limit_bps,
        limited,
        limited_steady: steady,
        verdict: Some(cause),
        evidence: prediction.limits.iter().map(|l| l.sentence.clone()).collect(),
        ..summary
    }
}
