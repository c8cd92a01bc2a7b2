//! The metrics of a flow, of a link and of a run.

use crate::types::FlowKind;

/// A metric of a flow in the run summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// Application bytes received per time over the whole flow.
    Goodput,
    /// Application bytes received per time after throughput has settled.
    SteadyGoodput,
    /// Time from the run's start until throughput has settled.
    SteadyFrom,
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
    /// Standard deviation of the echoes' round-trip times.
    MdevRtt,
    /// Mean over time of the congestion window.
    MeanCwnd,
    /// Largest congestion window.
    MaxCwnd,
    /// Largest window that the receiver advertised.
    ReceiveWindow,
    /// Segments retransmitted over segments sent.
    RetransmittedShare,
    /// Payload bytes sent, retransmissions included, over payload bytes delivered.
    Overhead,
    /// Time from the first loss until the window has its previous size again.
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
    pub const ALL: [Metric; 18] = [
        Metric::Goodput,
        Metric::SteadyGoodput,
        Metric::SteadyFrom,
        Metric::MinRtt,
        Metric::MeanRtt,
        Metric::MedianRtt,
        Metric::MaxRtt,
        Metric::FirstRtt,
        Metric::MdevRtt,
        Metric::MeanCwnd,
        Metric::MaxCwnd,
        Metric::ReceiveWindow,
        Metric::RetransmittedShare,
        Metric::Overhead,
        Metric::Recovery,
        Metric::LossShare,
        Metric::Jitter,
        Metric::MeanOwd,
    ];

    /// Its name in scenario files.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Goodput => "goodput",
            Metric::SteadyGoodput => "steady_goodput",
            Metric::SteadyFrom => "steady_from",
            Metric::MinRtt => "min_rtt",
            Metric::MeanRtt => "mean_rtt",
            Metric::MedianRtt => "median_rtt",
            Metric::MaxRtt => "max_rtt",
            Metric::FirstRtt => "first_rtt",
            Metric::MdevRtt => "mdev_rtt",
            Metric::MeanCwnd => "mean_cwnd",
            Metric::MaxCwnd => "max_cwnd",
            Metric::ReceiveWindow => "receive_window",
            Metric::RetransmittedShare => "retransmitted_share",
            Metric::Overhead => "overhead",
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
            Metric::RetransmittedShare | Metric::Overhead | Metric::LossShare => "1",
            _ => "s",
        }
    }

    /// True for round-trip times of all packets.
    fn is_rtt(self) -> bool {
        matches!(self, Metric::MinRtt | Metric::MeanRtt | Metric::MedianRtt | Metric::MaxRtt)
    }

    /// True for metrics that only ping flows have.
    fn is_ping_only(self) -> bool {
        matches!(self, Metric::FirstRtt | Metric::MdevRtt)
    }

    /// True for metrics that only UDP flows have.
    fn is_udp_only(self) -> bool {
        matches!(self, Metric::LossShare | Metric::Jitter | Metric::MeanOwd)
    }

    /// True if flows of `kind` have this metric.
    pub fn applies_to(self, kind: &FlowKind) -> bool {
        match kind {
            FlowKind::Tcp(_) | FlowKind::Xcp(_) | FlowKind::Udt(_) | FlowKind::Quic(_) => {
                !self.is_ping_only() && !self.is_udp_only()
            }
            FlowKind::Udp(_) => matches!(self, Metric::Goodput | Metric::SteadyGoodput) || self.is_udp_only(),
            // It has no window, and measures no round-trip times.
            FlowKind::Tsunami(_) => {
                use Metric::{Goodput, Overhead, RetransmittedShare, SteadyFrom, SteadyGoodput};
                matches!(self, Goodput | SteadyGoodput | SteadyFrom | RetransmittedShare | Overhead)
            }
            FlowKind::Stream(_) => {
                matches!(self, Metric::Goodput | Metric::SteadyGoodput | Metric::LossShare | Metric::Overhead)
            }
            FlowKind::Ping(_) => self.is_rtt() || self.is_ping_only(),
        }
    }
}

/// A metric of one direction of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkMetric {
    /// Bits sent over the link's capacity.
    Utilization,
    /// Time average of the bytes in the queue.
    MeanQueue,
    /// Largest number of bytes in the queue.
    MaxQueue,
}

impl LinkMetric {
    /// All metrics.
    pub const ALL: [LinkMetric; 3] = [LinkMetric::Utilization, LinkMetric::MeanQueue, LinkMetric::MaxQueue];

    /// Its name in scenario files.
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

/// A metric of a run as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunMetric {
    /// Sum of the flows' goodputs.
    Goodput,
    /// Jain's fairness index of the flows' goodputs.
    Jain,
    /// Jain's index of goodputs divided by the flow's MSS: 1 if all flows send packets at the same rate.
    JainMtu,
    /// Jain's index of goodputs multiplied by the flow's smallest round-trip time: 1 if all flows have the
    /// same window.
    JainRtt,
    /// Jain's index of goodputs multiplied by the flow's smallest round-trip time and divided by its MSS: 1
    /// if all flows have the same window in segments.
    JainMtuRtt,
    /// Time from the run's start until the throughput of each flow has settled.
    SteadyFrom,
    /// Duration of the longest transfer.
    Transfer,
    /// Difference between the longest and the shortest of these times: from the end of the first flow to that
    /// of the last, if all start together.
    ShutDown,
}

impl RunMetric {
    /// All metrics.
    pub const ALL: [RunMetric; 8] = [
        RunMetric::Goodput,
        RunMetric::Jain,
        RunMetric::JainMtu,
        RunMetric::JainRtt,
        RunMetric::JainMtuRtt,
        RunMetric::SteadyFrom,
        RunMetric::Transfer,
        RunMetric::ShutDown,
    ];

    /// Its name in scenario files.
    pub fn name(self) -> &'static str {
        match self {
            RunMetric::Goodput => "goodput",
            RunMetric::Jain => "jain",
            RunMetric::JainMtu => "jain_mtu",
            RunMetric::JainRtt => "jain_rtt",
            RunMetric::JainMtuRtt => "jain_mtu_rtt",
            RunMetric::SteadyFrom => "steady_from",
            RunMetric::Transfer => "transfer",
            RunMetric::ShutDown => "shut_down",
        }
    }

    /// `bit/s`, `s` or `1`.
    pub fn unit(self) -> &'static str {
        match self {
            RunMetric::Goodput => "bit/s",
            RunMetric::Jain | RunMetric::JainMtu | RunMetric::JainRtt | RunMetric::JainMtuRtt => "1",
            RunMetric::SteadyFrom | RunMetric::Transfer | RunMetric::ShutDown => "s",
        }
    }
}
