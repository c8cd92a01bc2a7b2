//! The model as an engine.

use computed_runs::model_engine;
use schema::HostInfo;
use units::KernelVersion;

use super::{Engine, Task};
use crate::{Outcome, Result, machine::machine_setting};

/// The model.
pub(crate) struct Model<'a> {
    /// This machine. Its kernel is the kernel of hosts without the key `kernel`.
    pub host: &'a HostInfo,
    /// The kernel of these hosts instead of the machine's.
    pub kernel: Option<KernelVersion>,
}

impl Engine for Model<'_> {
    fn run(&self, task: Task<'_>) -> Result<Outcome> {
        let kernel = self.kernel.map_or_else(|| self.host.kernel.clone(), |kernel| kernel.to_string());
        Ok(model_engine::run(&machine_setting, task.scenario, task.initial, &kernel).into())
    }
}

#[cfg(test)]
mod tests {
    use crate::{EngineChoice, Experiment, RunOptions, Selection, run_all};

    /// Runs lab 8 in the model; hosts without the key `kernel` have this kernel. Returns the receive window,
    /// and the `kernel` and the `sysctl_defaults` of the run.
    fn window(
        kernel: &str,
        keys: &[(&str, &str)],
        variants: &[&str],
    ) -> (u64, Option<String>, Option<String>) {
        let experiment =
            keys.iter().fold(Experiment::from_file("lab8").unwrap(), |one, (key, value)| one.set(key, value));
        let experiment = Experiment { kernel: Some(kernel.parse().unwrap()), ..experiment };
        let variants = variants.iter().map(|name| (*name).to_owned()).collect();
        let jobs =
            experiment.jobs(&Selection { variants, ..Selection::with_engine(EngineChoice::Model) }).unwrap();
        let run = run_all(&jobs, &RunOptions::default()).unwrap().swap_remove(0).summary;
        (run.flows[0].max_rcv_wnd_bytes.unwrap(), run.kernel, run.sysctl_defaults)
    }

    #[test]
    fn hosts_without_the_key_kernel_have_the_requested_kernel() {
        // Up to Linux 6.5, half of a buffer that the scenario states is window.
        let (old, kernel, defaults) = window("6.1", &[], &["default"]);
        assert_eq!((old, kernel.as_deref()), (8 << 20, Some("6.1")));
        assert_eq!(defaults.as_deref(), Some("Linux 6.1's defaults"));
        let (new, ..) = window("6.18", &[], &["default"]);
        assert!(new > 12 << 20, "{new}");
        let (own, kernel, _) = window("6.18", &[("hosts.*.kernel", "\"6.1\"")], &["default"]);
        assert_eq!((own, kernel.as_deref()), (old, Some("6.1")));
    }
}
