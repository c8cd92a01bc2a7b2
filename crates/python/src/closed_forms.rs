//! The closed forms of `longfat bdp`.

use std::fmt::Display;

use model::{
    IpVersion,
    report::{ReportInputs, report},
};
use pyo3::prelude::*;
use units::{Time, parse_share};

use crate::errors::bad_input;

/// All figures of a path, each with its key, value, name, text, sentence and group.
#[pyfunction]
#[allow(
    clippy::too_many_arguments,
    clippy::type_complexity,
    reason = "keyword arguments and a tuple in Python"
)]
pub(crate) fn bdp(
    py: Python<'_>,
    rate: &str,
    rtt: &str,
    mtu: u32,
    mss: Option<u32>,
    ipv6: bool,
    overhead: u32,
    loss: Option<&str>,
    window: Option<&str>,
    buffer: Option<&str>,
    queue: Option<&str>,
    kernel: Option<&str>,
) -> PyResult<Vec<(&'static str, f64, &'static str, String, String, String)>> {
    let bad = |name: &str, error: &dyn Display| bad_input(py, format!("{name}: {error}"));
    let this_kernel = lab::host_info().kernel;
    let inputs = ReportInputs {
        rate: rate.parse().map_err(|e| bad("rate", &e))?,
        rtt: rtt.parse().map_err(|e| bad("rtt", &e))?,
        mtu,
        mss,
        ip: if ipv6 { IpVersion::V6 } else { IpVersion::V4 },
        overhead,
        loss: loss.map(parse_share).transpose().map_err(|e| bad("loss", &e))?,
        window: window.map(str::parse).transpose().map_err(|e| bad("window", &e))?,
        buffer: buffer.map(str::parse).transpose().map_err(|e| bad("buffer", &e))?,
        queue: queue.map(str::parse).transpose().map_err(|e| bad("queue", &e))?,
        kernel: kernel.unwrap_or(&this_kernel).parse().map_err(|e| bad("kernel", &e))?,
    };
    if inputs.rate.0 == 0 || inputs.rtt == Time::ZERO {
        return Err(bad_input(py, "the rate and the round-trip time must be above zero"));
    }
    if !(68..=65_535).contains(&mtu) || mss.is_some_and(|mss| !(1..=65_535).contains(&mss)) {
        return Err(bad_input(py, "mtu is between 68 and 65535 bytes, mss between 1 and 65535"));
    }
    let groups = report(&inputs);
    let figures = groups.into_iter().flat_map(|group| {
        let title = group.title;
        group.figures.into_iter().map(move |f| (f.key, f.value, f.name, f.text, f.sentence, title.clone()))
    });
    Ok(figures.collect())
}
