//! What a published figure can be a figure of.

use crate::types::Kind;

/// A figure of a flow, as the run summary has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// Application bytes received over the flow's time, as a rate.
    Goodput,
    /// The same without the first part, until throughput settled.
    SteadyGoodput,
    /// Smallest round-trip time.
    MinRtt,
    /// Mean round-trip time.
    MeanRtt,
    /// Median round-trip time.
    MedianRtt,
    /// Largest round-trip time.
    MaxRtt,
    /// The first echo's round-trip time.
    FirstRtt,
}

impl Metric {
    /// All metrics.
    pub const ALL: [Metric; 7] = [
        Metric::Goodput,
        Metric::SteadyGoodput,
        Metric::MinRtt,
        Metric::MeanRtt,
        Metric::MedianRtt,
        Metric::MaxRtt,
        Metric::FirstRtt,
    ];

    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Goodput => "goodput",
            Metric::SteadyGoodput => "steady_goodput",
            Metric::MinRtt => "min_rtt",
            Metric::MeanRtt => "mean_rtt",
            Metric::MedianRtt => "median_rtt",
            Metric::MaxRtt => "max_rtt",
            Metric::FirstRtt => "first_rtt",
        }
    }

    /// The metric called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|m| m.name() == name)
    }

    /// The unit of its values: `bit/s` or `s`.
    pub fn unit(self) -> &'static str {
        if self.is_rate() { "bit/s" } else { "s" }
    }

    /// True of rates, false of times.
    pub(crate) fn is_rate(self) -> bool {
        matches!(self, Metric::Goodput | Metric::SteadyGoodput)
    }

    /// True where flows of `kind` have this metric.
    pub fn applies_to(self, kind: &Kind) -> bool {
        match kind {
            Kind::Tcp(_) | Kind::Xcp(_) => self != Metric::FirstRtt,
            Kind::Udp(_) => self.is_rate(),
            Kind::Ping(_) => !self.is_rate(),
        }
    }
}
