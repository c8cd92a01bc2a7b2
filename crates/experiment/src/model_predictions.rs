//! The model's predictions of published figures.

use std::str::FromStr;

use computed_runs::model_engine::{FALLBACK_KERNEL, ignored_effect, predict_flows};
use scenario::{Across, FlowKind, MetricPath, Published, ScenarioFile};
use units::KernelRequirement;

use crate::{
    closed_form::closed_form, machine::machine_setting, published::Predictions,
    run_figure::metric as metric_of,
};

/// The model's predictions of the published figures in a scenario file.
pub(crate) struct ModelPredictions<'a> {
    /// The scenario file with the published figures.
    pub file: &'a ScenarioFile,
}

impl Predictions for ModelPredictions<'_> {
    fn model(&self, published: &Published) -> Option<f64> {
        let published_kernel = published
            .holds_for_kernel
            .as_deref()
            .and_then(|k| KernelRequirement::from_str(k).ok()?.example());
        let value = |variant: Option<&str>| {
            let scenario = self.file.resolve(variant, &[]).ok()?;
            if published.figure.is_closed_form() {
                return closed_form(&scenario, published, published_kernel.unwrap_or(FALLBACK_KERNEL));
            }
            let MetricPath::Flow { flow, metric } = &published.figure else { return None };
            let flows = predict_flows(&machine_setting, &scenario, published_kernel?);
            metric_of(flows.iter().find(|f| f.name == *flow)?, *metric)
        };
        match &published.across {
            Across::One => value(published.variant.as_deref()),
            Across::Against(other) => Some(value(published.variant.as_deref())? / value(Some(other))?),
            Across::Level(_) | Across::Knee { .. } => None,
        }
    }

    fn model_ignores(&self, published: &Published) -> Option<String> {
        published.variants().into_iter().find_map(|variant| {
            let scenario = self.file.resolve(variant, &[]).ok()?;
            ignored_effect(&machine_setting, &scenario, published, FALLBACK_KERNEL)
        })
    }

    fn buffer_bytes(&self, variant: &str, flow: &str, is_send_buffer: bool) -> Option<f64> {
        let scenario = self.file.resolve(Some(variant), &[]).ok()?;
        let flow = scenario.flows.iter().find(|one| one.name == flow)?;
        let FlowKind::Tcp(tcp) = &flow.kind else { return None };
        let size = if is_send_buffer { tcp.send_buffer } else { tcp.receive_buffer };
        size.map(|size| size.as_f64())
    }
}
