//! Congestion controls of a scenario's flows: names, parameters and the mistakes in them.

use std::collections::BTreeMap;

use scenario::{Cc, CcMistake, CcValue, FlowKind, FlowSpec, Host, QuicSpec, Scenario};
use schema::{FlowSummary, Setting};
use tcp::{
    LINUX_CONGESTION_CONTROLS,
    parameters::{Parameter, ParameterError, ParameterValue, ParameterValues, encode},
};

use crate::{EngineChoice, Sysctls, flow_context::setting};

/// This sysctl names the default congestion control.
pub const CC_SYSCTL: &str = "net.ipv4.tcp_congestion_control";
/// Source of congestion controls that are part of this program.
pub const FROM_LONGFAT: &str = "longfat";

/// The congestion control that the kernel's module tcp_dctcp uses for connections without ECN.
const DCTCP_RENO: &str = "dctcp-reno";

/// The default congestion control of a host.
pub fn default_cc(sysctls: Sysctls<'_>, host: Option<&Host>) -> String {
    setting(sysctls, host, CC_SYSCTL).map_or_else(|| "cubic".into(), |name| name.trim().into())
}

/// The mistake in the bare name of a flow's congestion control, if neither Linux nor the program knows it, or
/// if the simulator lacks it. `built_in` are the program's algorithms.
pub fn name_mistake(
    flow: &FlowSpec,
    name: &str,
    engine: &EngineChoice,
    built_in: &[&str],
) -> Option<CcMistake> {
    // Its congestion control runs in this program, whatever the engine.
    if matches!(flow.kind, FlowKind::Quic(_)) {
        let cc = Cc::Named(name.to_owned());
        return (!built_in.contains(&name)).then(|| missing_algorithm(flow, &cc, built_in));
    }
    // A guest kernel can have algorithms that this machine's kernel lacks.
    let is_of_linux = name == DCTCP_RENO || LINUX_CONGESTION_CONTROLS.contains(&name);
    if built_in.contains(&name) {
        return None;
    }
    let (message, known) = match engine {
        EngineChoice::Sim if is_of_linux => {
            (format!("the simulator has no congestion control \"{name}\""), Vec::new())
        }
        EngineChoice::Sim => (format!("unknown congestion control \"{name}\""), Vec::new()),
        // Each host reports which algorithms its kernel has.
        EngineChoice::Hosts => return None,
        EngineChoice::Lab | EngineChoice::Model | EngineChoice::Kernel(_) if is_of_linux => return None,
        EngineChoice::Lab | EngineChoice::Model | EngineChoice::Kernel(_) => (
            format!("unknown congestion control \"{name}\""),
            [&LINUX_CONGESTION_CONTROLS[..], &[DCTCP_RENO]].concat(),
        ),
    };
    let known: Vec<&str> = [built_in, &known].concat();
    let help = match scenario::nearest(name, &known) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => "`longfat cc list` shows those of this kernel and of longfat".to_owned(),
    };
    Some(CcMistake { flow: flow.name.clone(), parameter: None, message, help })
}

/// The mistake of a flow whose congestion control is not part of this program, which has those in `built_in`.
pub fn missing_algorithm(flow: &FlowSpec, cc: &Cc, built_in: &[&str]) -> CcMistake {
    CcMistake {
        flow: flow.name.clone(),
        parameter: None,
        message: format!("longfat has no congestion control \"{}\"", cc.name()),
        help: format!("it has {}", built_in.join(", ")),
    }
}

/// The mistakes in the parameters of a flow's congestion control; `known` are those of the algorithm.
pub fn parameter_mistakes(flow: &FlowSpec, cc: &Cc, algorithm: &str, known: &[Parameter]) -> Vec<CcMistake> {
    let mistake = |(name, value): (&String, &CcValue)| {
        let (message, help) = parameter_mistake(algorithm, known, name, *value)?;
        Some(CcMistake { flow: flow.name.clone(), parameter: Some(name.clone()), message, help })
    };
    cc.set().iter().filter_map(mistake).collect()
}

/// The error of one parameter, and its correction.
fn parameter_mistake(
    algorithm: &str,
    known: &[Parameter],
    name: &str,
    value: CcValue,
) -> Option<(String, String)> {
    let one = ParameterValues::from([(name.to_owned(), as_value(value))]);
    match encode(algorithm, known, &one).err()? {
        ParameterError::Unknown { algorithm, name, known } => {
            Some((format!("{algorithm} has no parameter \"{name}\""), format!("it has {known}")))
        }
        error => {
            let doc = known.iter().find(|p| p.name == name).map_or("", |p| p.doc.as_str());
            let default = known.iter().find(|p| p.name == name).map(Parameter::default);
            let default = default.map(|d| format!("its default is {d}")).unwrap_or_default();
            Some((error.to_string(), format!("{default}. {doc}").trim_end().to_owned()))
        }
    }
}

/// Adds the congestion control of a QUIC flow to its summary: one of this program, or a user's file.
pub fn describe_quic(quic: &QuicSpec, summary: &mut FlowSummary) {
    let cc = quic.cc();
    summary.cc_from = Some(match &cc {
        Cc::File { path, .. } => path.clone(),
        _ => FROM_LONGFAT.into(),
    });
    summary.cc_set = settings(&cc);
    summary.cc = Some(cc.name().into());
}

/// The parameters in the form of the summary.
pub fn settings(cc: &Cc) -> BTreeMap<String, Setting> {
    let setting = |value: &CcValue| match *value {
        CcValue::Integer(number) => Setting::Integer(number),
        CcValue::Decimal(number) => Setting::Decimal(number),
        CcValue::Boolean(yes) => Setting::Boolean(yes),
    };
    cc.set().iter().map(|(name, value)| (name.clone(), setting(value))).collect()
}

/// The flows that name a congestion control.
pub fn flows_with_cc(scenario: &Scenario) -> impl Iterator<Item = (&FlowSpec, &Cc)> {
    scenario.flows.iter().filter_map(|flow| match &flow.kind {
        FlowKind::Tcp(tcp) => Some((flow, tcp.cc.as_ref()?)),
        FlowKind::Quic(quic) => Some((flow, quic.cc.as_ref()?)),
        _ => None,
    })
}

/// The parameters in the form that algorithms take.
pub fn values(cc: &Cc) -> ParameterValues {
    cc.set().iter().map(|(name, value)| (name.clone(), as_value(*value))).collect()
}

fn as_value(value: CcValue) -> ParameterValue {
    match value {
        CcValue::Integer(number) => ParameterValue::Integer(number),
        CcValue::Decimal(number) => ParameterValue::Decimal(number),
        CcValue::Boolean(yes) => ParameterValue::Bool(yes),
    }
}
