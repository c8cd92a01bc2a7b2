//! What a published figure of a flow, of a link or of a run as a whole can be.

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
    /// Mean over time of the congestion window.
    MeanCwnd,
    /// Largest congestion window.
    MaxCwnd,
    /// Largest window that the receiver advertised.
    ReceiveWindow,
    /// Segments retransmitted over segments sent.
    RetransmittedShare,
    /// From the first loss until the window was again what it had been.
    Recovery,
    /// Datagrams lost over datagrams sent.
    LossShare,
    /// Interarrival jitter (RFC 3550) at the end.
    Jitter,
    /// Mean one-way delay.
    MeanOwd,
}

impl Metric {
    /// All metrics.
    pub const ALL: [Metric; 15] = [
        Metric::Goodput,
        Metric::SteadyGoodput,
        Metric::MinRtt,
        Metric::MeanRtt,
        Metric::MedianRtt,
        Metric::MaxRtt,
        Metric::FirstRtt,
        Metric::MeanCwnd,
        Metric::MaxCwnd,
        Metric::ReceiveWindow,
        Metric::RetransmittedShare,
        Metric::Recovery,
        Metric::LossShare,
        Metric::Jitter,
        Metric::MeanOwd,
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
            Metric::MeanCwnd => "mean_cwnd",
            Metric::MaxCwnd => "max_cwnd",
            Metric::ReceiveWindow => "receive_window",
            Metric::RetransmittedShare => "retransmitted_share",
            Metric::Recovery => "recovery",
            Metric::LossShare => "loss_share",
            Metric::Jitter => "jitter",
            Metric::MeanOwd => "mean_owd",
        }
    }

    /// The metric called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|m| m.name() == name)
    }

    /// The unit of its values: `bit/s`, `s`, `B` or `1`.
    pub fn unit(self) -> &'static str {
        match self {
            Metric::Goodput | Metric::SteadyGoodput => "bit/s",
            Metric::MeanCwnd | Metric::MaxCwnd | Metric::ReceiveWindow => "B",
            Metric::RetransmittedShare | Metric::LossShare => "1",
            _ => "s",
        }
    }

    /// True of round-trip times that flows of every kind have.
    fn is_rtt(self) -> bool {
        matches!(self, Metric::MinRtt | Metric::MeanRtt | Metric::MedianRtt | Metric::MaxRtt)
    }

    /// True of what only datagrams have.
    fn is_of_datagrams(self) -> bool {
        matches!(self, Metric::LossShare | Metric::Jitter | Metric::MeanOwd)
    }

    /// True where flows of `kind` have this metric.
    pub fn applies_to(self, kind: &Kind) -> bool {
        match kind {
            Kind::Tcp(_) | Kind::Xcp(_) => self != Metric::FirstRtt && !self.is_of_datagrams(),
            Kind::Udp(_) => matches!(self, Metric::Goodput | Metric::SteadyGoodput) || self.is_of_datagrams(),
            Kind::Ping(_) => self.is_rtt() || self == Metric::FirstRtt,
        }
    }
}

/// A figure of one direction of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkMetric {
    /// Bits sent over what the rate allows.
    Utilization,
    /// Time average of the bytes in the queue.
    MeanQueue,
    /// Most bytes ever in the queue.
    MaxQueue,
}

impl LinkMetric {
    /// All of them.
    pub const ALL: [LinkMetric; 3] = [LinkMetric::Utilization, LinkMetric::MeanQueue, LinkMetric::MaxQueue];

    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            LinkMetric::Utilization => "utilization",
            LinkMetric::MeanQueue => "mean_queue",
            LinkMetric::MaxQueue => "max_queue",
        }
    }

    /// `B` or `1`.
    pub fn unit(self) -> &'static str {
        match self {
            LinkMetric::Utilization => "1",
            LinkMetric::MeanQueue | LinkMetric::MaxQueue => "B",
        }
    }
}

/// A figure of a run as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunMetric {
    /// The flows' goodputs together.
    Goodput,
    /// Jain's index of the flows' goodputs.
    Jain,
}

impl RunMetric {
    /// All of them.
    pub const ALL: [RunMetric; 2] = [RunMetric::Goodput, RunMetric::Jain];

    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            RunMetric::Goodput => "goodput",
            RunMetric::Jain => "jain",
        }
    }

    /// `bit/s` or `1`.
    pub fn unit(self) -> &'static str {
        match self {
            RunMetric::Goodput => "bit/s",
            RunMetric::Jain => "1",
        }
    }
}
