//! A scenario file with overridden values.

use std::path::PathBuf;

use experiment::{Error, Experiment, built_in, scenario_file};
use pyo3::prelude::*;
use scenario::SimplePath;
use units::{KernelVersion, parse_share};

use crate::errors::{bad_input, of_experiment};

/// A checked scenario file and the values that replace its own.
#[pyclass(frozen, module = "longfat._native")]
pub(crate) struct Scenario {
    pub(crate) experiment: Experiment,
    text: String,
}

#[pymethods]
impl Scenario {
    /// Reads a file, or the built-in scenario of this name.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let read = || {
            let text = match scenario_file::is_mn(&path) {
                true => scenario_file::read_mn(&path)?.toml,
                false => scenario_file::read_text(&path)?,
            };
            Ok::<_, Error>((Experiment::new(scenario_file::parse(&path, &text)?, &path), text))
        };
        let (experiment, text) = read().map_err(|error| of_experiment(py, &error))?;
        Ok(Scenario { experiment, text })
    }

    /// Parses a text; files that it names are relative to `path`'s directory.
    #[staticmethod]
    fn parse(py: Python<'_>, path: PathBuf, text: String) -> PyResult<Self> {
        let file = scenario_file::parse(&path, &text).map_err(|error| of_experiment(py, &error))?;
        Ok(Scenario { experiment: Experiment::new(file, &path), text })
    }

    /// The text of a scenario file with two hosts and one link.
    #[staticmethod]
    #[pyo3(signature = (rate, rtt, queue=None, loss=None, cc=Vec::new(), flows=1, duration=None, mtu=1500))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments in Python")]
    fn path_text(
        py: Python<'_>,
        rate: &str,
        rtt: &str,
        queue: Option<&str>,
        loss: Option<&str>,
        cc: Vec<String>,
        flows: u32,
        duration: Option<&str>,
        mtu: u32,
    ) -> PyResult<(String, String)> {
        let bad = |error: &dyn std::fmt::Display| bad_input(py, error.to_string());
        let default = SimplePath::default();
        let path = SimplePath {
            rate: rate.parse().map_err(|e| bad(&e))?,
            rtt: rtt.parse().map_err(|e| bad(&e))?,
            queue: queue.map(str::parse).transpose().map_err(|e| bad(&e))?,
            loss: loss.map(parse_share).transpose().map_err(|e| bad(&e))?.unwrap_or(0.0),
            ccs: if cc.is_empty() { default.ccs } else { cc },
            flows,
            duration: duration.map(str::parse).transpose().map_err(|e| bad(&e))?,
            mtu,
        };
        Ok((path.name(), path.to_toml()))
    }

    /// A copy in which these paths have these values.
    fn with_sets(&self, py: Python<'_>, sets: Vec<(String, String)>) -> PyResult<Self> {
        let mut experiment = self.experiment.clone();
        // A later value replaces an earlier one of the same path.
        experiment.sets.retain(|(path, _)| !sets.iter().any(|(set, _)| set == path));
        experiment.sets.extend(sets);
        let Experiment { file, path, sets, .. } = &experiment;
        let variants: Vec<Option<&str>> = file.variants().map(Some).collect();
        for variant in if variants.is_empty() { vec![None] } else { variants } {
            let checked = scenario_file::resolve(file, path, variant, sets);
            checked.map_err(|error| of_experiment(py, &error))?;
        }
        Ok(Scenario { experiment, text: self.text.clone() })
    }

    /// A copy whose hosts have this kernel in the simulator.
    fn with_kernel(&self, py: Python<'_>, kernel: Option<&str>) -> PyResult<Self> {
        let kernel = kernel.map(str::parse::<KernelVersion>).transpose();
        let kernel = kernel.map_err(|error| bad_input(py, error.to_string()))?;
        Ok(Scenario { experiment: Experiment { kernel, ..self.experiment.clone() }, text: self.text.clone() })
    }

    /// The scenario with its defaults and overridden values filled in, as a file.
    fn resolved(&self, py: Python<'_>, variant: Option<&str>) -> PyResult<String> {
        let Experiment { file, path, sets, .. } = &self.experiment;
        let scenario = scenario_file::resolve(file, path, variant, sets);
        Ok(scenario.map_err(|error| of_experiment(py, &error))?.to_toml())
    }

    #[getter]
    fn name(&self) -> &str {
        self.experiment.file.name()
    }

    #[getter]
    fn title(&self) -> String {
        self.experiment.file.title_with(&self.experiment.sets)
    }

    #[getter]
    fn text(&self) -> &str {
        &self.text
    }

    #[getter]
    fn path(&self) -> PathBuf {
        self.experiment.path.clone()
    }

    #[getter]
    fn sets(&self) -> Vec<(String, String)> {
        self.experiment.sets.clone()
    }

    #[getter]
    fn kernel(&self) -> Option<String> {
        self.experiment.kernel.map(|kernel| kernel.to_string())
    }

    /// Number of points of the file's own sweep; 1 without one.
    #[getter]
    fn points(&self) -> usize {
        self.experiment.file.points().len()
    }

    #[getter]
    fn variants(&self) -> Vec<&str> {
        self.experiment.file.variants().collect()
    }
}

/// Names and titles of the scenarios that the package contains.
#[pyfunction]
pub(crate) fn built_in_scenarios(py: Python<'_>) -> PyResult<Vec<(&'static str, String)>> {
    let title = |one: &built_in::BuiltIn| {
        let file = one.parse().map_err(|error| of_experiment(py, &error.into()))?;
        Ok((one.name, file.title().to_owned()))
    };
    built_in::BUILT_IN.iter().map(title).collect()
}
