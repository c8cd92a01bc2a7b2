//! The grid of packet size and spacing, and the bottleneck's time per byte.
//!
//! In a train that is sent faster than the bottleneck can forward it, packets arrive at intervals of the
//! bottleneck's time for one packet: the time per byte times the packet's size on the wire, plus a fixed time
//! per packet. The weighted least-squares line through these spacings over the packet size has the
//! time per byte as its slope. Its height at size 0 is the time per packet; divided by the time per byte it
//! is the overhead that the wire adds to each packet.
//!
//! Small packets may be limited by a host's time per packet instead of the link. Their spacings lie above the
//! line of the larger ones. The smallest sizes are excluded until the remaining ones lie on a line.

use serde::Serialize;
use units::Time;

use super::{
    cell::{
        PacketSpacing, delay_variation_us, idle_share, interarrivals_us, jitter_us, lower_quartile,
        received_spacing, reordered, sent_spacing_ns,
    },
    histogram::Histogram,
    plan::UdpmonPlan,
};
use crate::{
    line_fit::{LineFit, LinePoint},
    result::{Interval, ProbeLimits, Validity},
    statistics::{median, quantile},
    train::{Fleet, Method, ReceivedPacket, Step, Train, TrainObservation},
};

/// A train keeps the bottleneck busy if it was sent with less than this share of the spacing with which it
/// arrived.
const SATURATED: f64 = 0.9;
/// The first halves of trains do not count if, for most sizes, the spacing in the second half is longer than
/// that of the whole train by more than this: a token bucket has let the first halves pass.
const UNEVEN: f64 = 0.05;
/// Minimum error of a spacing, relative: the error that pauses and batches of hosts leave in the lower
/// quartile.
const MIN_RELATIVE_ERROR: f64 = 0.002;
/// Minimum number of sizes of the line.
const MIN_SIZES: usize = 3;
/// Spacings are on a line if their reduced chi square is at most this.
const MAX_CHI_SQUARE: f64 = 4.0;
/// The result is inconclusive if the interval of the time per byte is wider than this, relative.
const MAX_ERROR: f64 = 0.1;
/// A train does not keep the bottleneck busy if it waits for the sender for more than this share of the time.
const MAX_IDLE: f64 = 0.005;
/// Other traffic is detected by a comparison of trains sent with less than the first share of the spacing
/// with which they arrive, and trains sent with more than the second share.
const FAST_AND_SLOW: (f64, f64) = (0.3, 0.5);
/// Minimum relative excess of the spacing of slow trains that shows other traffic at the bottleneck.
const CROSS_TRAFFIC: f64 = 0.03;
/// Pause before each train, in which queues become empty.
const GAP: Time = Time::from_millis(10);

/// A train of the grid, and its observation.
#[derive(Debug, Clone, PartialEq)]
pub struct GridTrain {
    /// Index of its spacing in [`GridResult::spacings_us`].
    pub spacing: usize,
    /// Index of its size in [`GridResult::sizes_bytes`].
    pub size: usize,
    /// Its round, from 0.
    pub round: usize,
    /// When its packets left and arrived.
    pub observation: TrainObservation,
}

impl GridTrain {
    /// One-way jitter: the delay of each packet minus that of the packet with the previous number (RFC 3393),
    /// microseconds.
    pub fn jitter_us(&self) -> Vec<f64> {
        jitter_us(&self.observation)
    }
}

/// The statistics of one size and spacing, over all rounds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GridCell {
    /// Packet size, bytes of IP.
    pub packet_bytes: u32,
    /// Requested time between two packets, microseconds.
    pub spacing_us: f64,
    /// Number of trains.
    pub trains: usize,
    /// Packets sent.
    pub sent: usize,
    /// Packets received.
    pub received: usize,
    /// Packets lost on the path.
    pub lost: usize,
    /// Packets dropped by one of the two hosts.
    pub host_drops: u64,
    /// Packets that arrived after a later one (RFC 4737).
    pub reordered: usize,
    /// Throughput sent, bit/s of IP: median of the trains. `None` if each train left at once.
    pub sent_bps: Option<f64>,
    /// Throughput received, bit/s of IP: median of the trains.
    pub received_bps: Option<f64>,
    /// Measured time between two departures, microseconds: median of the trains.
    pub sent_spacing_us: f64,
    /// Measured time between two arrivals, microseconds: median of the trains.
    pub received_spacing_us: Option<f64>,
    /// Whether the trains were faster than the bottleneck.
    pub is_saturated: bool,
    /// One-way delay above the minimum of the train: median, 95th and 99th percentile, maximum, microseconds.
    pub delay_variation_us: Option<[f64; 4]>,
    /// One-way jitter: change of the delay from packet to packet (RFC 3393).
    pub jitter: Histogram,
    /// Times between the arrivals of packets with consecutive numbers.
    pub interarrival: Histogram,
}

/// The spacing with which packets of a size leave the bottleneck.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SpacingPoint {
    /// Packet size, bytes of IP.
    pub packet_bytes: u32,
    /// Time between two packets, microseconds.
    pub spacing_us: f64,
    /// Its standard error, microseconds.
    pub error_us: f64,
    /// Number of trains that kept the bottleneck busy.
    pub trains: usize,
    /// Whether the line is fitted to this size.
    pub is_used: bool,
}

/// The result of the grid.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GridResult {
    /// Packet sizes, bytes of IP.
    pub sizes_bytes: Vec<u32>,
    /// Requested times between two packets, microseconds.
    pub spacings_us: Vec<f64>,
    /// Packets of a train.
    pub packets: usize,
    /// Trains of each size and spacing.
    pub rounds: usize,
    /// All cells, in the order of the spacings, and of the sizes within a spacing.
    pub cells: Vec<GridCell>,
    /// The spacing with which packets leave the bottleneck, by size.
    pub bottleneck: Vec<SpacingPoint>,
    /// The bottleneck's time per byte, ns.
    pub per_byte_ns: Option<Interval>,
    /// The bottleneck's time per packet in addition to that of the bytes of IP, microseconds.
    pub per_packet_us: Option<Interval>,
    /// The rate that corresponds to the time per byte, bit/s: that of the wire, overhead included.
    pub rate_bps: Option<Interval>,
    /// The time per packet in bytes: the overhead of the wire, if the bottleneck is a link.
    pub overhead_bytes: Option<f64>,
    /// Whether the result is reliable.
    pub validity: Validity,
}

/// Sends the grid. The first row is sent back to back; automatic spacings follow from it.
#[derive(Debug, Clone)]
pub struct UdpmonGrid {
    plan: UdpmonPlan,
    limits: ProbeLimits,
    /// Spacings, ns; known after the first row.
    spacings_ns: Option<Vec<u64>>,
    trains: Vec<GridTrain>,
    /// Number of trains whose observations have been added.
    done: usize,
}

impl UdpmonGrid {
    /// Measures `plan` with these limits.
    pub fn new(plan: UdpmonPlan, limits: ProbeLimits) -> Self {
        let spacings_ns = plan.spacings.as_ref().map(|_| plan.spacings_ns(0.0));
        UdpmonGrid { plan, limits, spacings_ns, trains: Vec::new(), done: 0 }
    }

    /// All trains so far.
    pub fn trains(&self) -> &[GridTrain] {
        &self.trains
    }

    /// The spacing, size and round of a train: rounds follow one another, so that a change of the path is
    /// not mistaken for an effect of the size or spacing.
    fn position(&self, number: usize) -> (usize, usize, usize) {
        let (sizes, spacings) = (self.plan.sizes.len(), self.plan.spacing_count());
        (number / sizes % spacings, number % sizes, number / (sizes * spacings))
    }

    fn resolution_ns(&self) -> f64 {
        self.limits.resolution_ns
    }

    /// The time for the largest packet, ns, from the trains so far.
    fn largest_ns(&self) -> Option<f64> {
        let packets: Vec<ReceivedPacket> = self.trains.last()?.observation.received().collect();
        // The second half is used, because a token bucket may have let the first half pass.
        let half = received_spacing(&packets[packets.len() / 2..], self.resolution_ns());
        half.or(received_spacing(&packets, self.resolution_ns())).map(|spacing| spacing.ns)
    }

    fn cell(&self, spacing: usize, size: usize, spacing_us: f64) -> GridCell {
        let trains: Vec<&TrainObservation> = self
            .trains
            .iter()
            .filter(|train| (train.spacing, train.size) == (spacing, size))
            .map(|train| &train.observation)
            .collect();
        let bytes = self.plan.sizes[size];
        let all = |values: &dyn Fn(&TrainObservation) -> Vec<f64>| -> Vec<f64> {
            trains.iter().flat_map(|train| values(train)).collect()
        };
        let medians = |value: &dyn Fn(&TrainObservation) -> Option<f64>| {
            median(&trains.iter().filter_map(|train| value(train)).collect::<Vec<f64>>())
        };
        let arrivals_ns = |train: &TrainObservation| mean_interval_ns(train);
        let received_ns = medians(&|train| self.spacing(train).map(|spacing| spacing.ns));
        let sent_ns = medians(&|train| Some(sent_spacing_ns(train))).unwrap_or(0.0);
        let bps = |ns: f64| (ns > 0.0).then(|| f64::from(bytes) * 8e9 / ns);
        let (sent, missing) = trains
            .iter()
            .fold((0, 0), |(sent, missing), train| (sent + train.sent(), missing + train.lost()));
        let host_drops: u64 = trains.iter().map(|train| train.host_drops).sum();
        let variation = all(&delay_variation_us);
        GridCell {
            packet_bytes: bytes,
            spacing_us,
            trains: trains.len(),
            sent,
            received: sent - missing,
            lost: missing.saturating_sub(usize::try_from(host_drops).unwrap_or(usize::MAX)),
            host_drops,
            reordered: trains.iter().map(|train| reordered(train)).sum(),
            sent_bps: bps(sent_ns),
            received_bps: medians(&arrivals_ns).and_then(bps),
            sent_spacing_us: sent_ns / 1e3,
            received_spacing_us: received_ns.map(|ns| ns / 1e3),
            is_saturated: received_ns.is_some_and(|ns| sent_ns < SATURATED * ns),
            delay_variation_us: [0.5, 0.95, 0.99, 1.0]
                .map(|share| quantile(&variation, share))
                .into_iter()
                .collect::<Option<Vec<f64>>>()
                .and_then(|all| all.try_into().ok()),
            jitter: Histogram::of(&all(&jitter_us)),
            interarrival: Histogram::of(&all(&interarrivals_us)),
        }
    }

    /// The spacing with which a train arrived.
    fn spacing(&self, train: &TrainObservation) -> Option<PacketSpacing> {
        received_spacing(&train.received().collect::<Vec<_>>(), self.resolution_ns())
    }

    /// The trains of a size that kept the bottleneck busy: they were sent faster than they arrived, and
    /// without pauses in which the bottleneck would have become idle.
    fn busy_trains(&self, size: usize) -> BusyTrains {
        let mut all: Vec<(BusyTrain, Vec<ReceivedPacket>)> = Vec::new();
        for train in self.trains.iter().filter(|train| train.size == size) {
            let packets: Vec<ReceivedPacket> = train.observation.received().collect();
            let Some(whole) = received_spacing(&packets, self.resolution_ns()) else { continue };
            // The second half is compared, because a token bucket may have let the beginning pass.
            let half = received_spacing(&packets[packets.len() / 2..], self.resolution_ns()).unwrap_or(whole);
            let sent_ns = sent_spacing_ns(&train.observation);
            if sent_ns < SATURATED * half.ns {
                all.push((BusyTrain { whole, half, sent_share: sent_ns / half.ns }, packets));
            }
        }
        let wholes: Vec<f64> = all.iter().map(|(train, _)| train.whole.ns).collect();
        let (spacing_ns, _) = lower_quartile(&wholes).unwrap_or_default();
        let is_uninterrupted = |packets: &[ReceivedPacket]| idle_share(packets, spacing_ns) <= MAX_IDLE;
        all.into_iter().filter(|(_, packets)| is_uninterrupted(packets)).map(|(train, _)| train).collect()
    }

    /// The spacings with which packets leave the bottleneck, by size, from at least two trains of each; and
    /// the cause of disturbances.
    fn bottleneck(&self) -> (Vec<SpacingPoint>, Disturbance) {
        let all: Vec<BusyTrains> = (0..self.plan.sizes.len()).map(|size| self.busy_trains(size)).collect();
        let (early, late): (Vec<&BusyTrains>, Vec<&BusyTrains>) =
            all.iter().filter(|trains| !trains.is_empty()).partition(|trains| begin_faster(trains));
        let has_bucket = early.len() > late.len();
        let points = all.iter().zip(&self.plan.sizes).filter_map(|(trains, bytes)| {
            let counted: Vec<PacketSpacing> =
                trains.iter().map(|train| if has_bucket { train.half } else { train.whole }).collect();
            spacing_point(*bytes, &counted)
        });
        let disturbance = match has_bucket {
            true => Disturbance::TokenBucket,
            // Behind a token bucket, too, slow trains arrive with other spacings than fast ones.
            false if is_shared(&all) => Disturbance::OtherTraffic,
            false => Disturbance::None,
        };
        (points.collect(), disturbance)
    }
}

/// Causes of disturbed spacings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Disturbance {
    None,
    /// A token bucket lets the beginnings of trains pass, so they are not used.
    TokenBucket,
    /// Other traffic shares the bottleneck.
    OtherTraffic,
}

/// A train that kept the bottleneck busy.
#[derive(Debug, Clone, Copy)]
struct BusyTrain {
    /// The spacing of its arrivals.
    whole: PacketSpacing,
    /// The spacing of the second half of the packets.
    half: PacketSpacing,
    /// The spacing of the departures, as a share of that of the arrivals.
    sent_share: f64,
}

/// The busy trains of one packet size.
type BusyTrains = Vec<BusyTrain>;

/// Whether the beginnings of trains arrive faster than the remainders.
fn begin_faster(trains: &[BusyTrain]) -> bool {
    let quartile = |spacing: &dyn Fn(&BusyTrain) -> PacketSpacing| {
        lower_quartile(&trains.iter().map(|train| spacing(train).ns).collect::<Vec<_>>())
    };
    match (quartile(&|train| train.whole), quartile(&|train| train.half)) {
        (Some((whole, _)), Some((half, _))) => half > whole * (1.0 + UNEVEN),
        _ => false,
    }
}

/// Whether other traffic shares the bottleneck. A train of spacing g then leaves it with the spacing
/// (s + X g) / C, for other traffic of rate X, so that slower trains arrive with longer spacings.
fn is_shared(sizes: &[BusyTrains]) -> bool {
    let (mut fast, mut slow) = (Vec::new(), Vec::new());
    for trains in sizes {
        let wholes: Vec<f64> = trains.iter().map(|train| train.whole.ns).collect();
        let Some((usual_ns, _)) = lower_quartile(&wholes) else { continue };
        for train in trains {
            let relative = train.whole.ns / usual_ns;
            match train.sent_share {
                share if share < FAST_AND_SLOW.0 => fast.push(relative),
                share if share >= FAST_AND_SLOW.1 => slow.push(relative),
                _ => {}
            }
        }
    }
    matches!((median(&fast), median(&slow)), (Some(fast), Some(slow)) if slow - fast > CROSS_TRAFFIC)
}

/// The spacing of a size, from at least two trains.
fn spacing_point(bytes: u32, trains: &[PacketSpacing]) -> Option<SpacingPoint> {
    if trains.len() < 2 {
        return None;
    }
    let (ns, scatter_ns) = lower_quartile(&trains.iter().map(|one| one.ns).collect::<Vec<_>>())?;
    // Timestamps of different trains have independent errors.
    let resolution_ns =
        median(&trains.iter().map(|one| one.error_ns).collect::<Vec<_>>())? / (trains.len() as f64).sqrt();
    let error_ns = scatter_ns.max(resolution_ns).max(MIN_RELATIVE_ERROR * ns);
    (ns > 0.0).then_some(SpacingPoint {
        packet_bytes: bytes,
        spacing_us: ns / 1e3,
        error_us: error_ns / 1e3,
        trains: trains.len(),
        is_used: false,
    })
}

/// The mean time between all arrivals of a train, ns, which losses lengthen.
fn mean_interval_ns(train: &TrainObservation) -> Option<f64> {
    let arrivals = || train.arrived_ns.iter().flatten();
    let span = arrivals().max()?.saturating_sub(*arrivals().min()?);
    let intervals = arrivals().count() - 1;
    (intervals > 0).then(|| span as f64 / intervals as f64)
}

/// Fits the line, excluding the smallest sizes until the remaining ones lie on it. Marks the points that it
/// uses.
fn fit(points: &mut [SpacingPoint]) -> Option<LineFit> {
    let line = |points: &[SpacingPoint]| {
        let all: Vec<LinePoint> = points
            .iter()
            .map(|p| LinePoint { x: f64::from(p.packet_bytes), y: p.spacing_us, error: p.error_us })
            .collect();
        LineFit::of(&all)
    };
    let is_straight = |fit: &LineFit| fit.reduced_chi_square <= MAX_CHI_SQUARE;
    let max_excluded = points.len().checked_sub(MIN_SIZES)?;
    let straight =
        (0..=max_excluded).find_map(|from| Some((from, line(&points[from..]).filter(is_straight)?)));
    let (from, found) = match straight {
        Some(found) => found,
        None => (0, line(points)?),
    };
    points[from..].iter_mut().for_each(|point| point.is_used = true);
    Some(found)
}

impl Method for UdpmonGrid {
    type Output = GridResult;

    fn next_step(&mut self) -> Step {
        if self.done >= self.plan.trains() {
            return Step::Done;
        }
        let (spacing, size, _) = self.position(self.done);
        let gap_ns = match &self.spacings_ns {
            Some(spacings) => spacings[spacing],
            // The first row, back to back.
            None => 0,
        };
        let train = Train::spaced(self.plan.sizes[size], self.plan.packets, gap_ns);
        Step::Send(Fleet { trains: vec![train], gap: GAP })
    }

    fn add_observations(&mut self, observations: &[TrainObservation]) {
        for observation in observations {
            let (spacing, size, round) = self.position(self.done);
            self.trains.push(GridTrain { spacing, size, round, observation: observation.clone() });
            self.done += 1;
        }
        if self.spacings_ns.is_none() && self.done >= self.plan.sizes.len() {
            match self.largest_ns() {
                Some(largest_ns) => self.spacings_ns = Some(self.plan.spacings_ns(largest_ns)),
                // No packet arrives, so the remaining trains would show nothing.
                None => self.done = self.plan.trains(),
            }
        }
    }

    fn result(&self) -> GridResult {
        let spacings_ns = self.spacings_ns.clone().unwrap_or_else(|| vec![0]);
        let spacings_us: Vec<f64> = spacings_ns.iter().map(|ns| *ns as f64 / 1e3).collect();
        let sizes = self.plan.sizes.len();
        let cells: Vec<GridCell> = spacings_us
            .iter()
            .enumerate()
            .flat_map(|(spacing, us)| (0..sizes).map(move |size| (spacing, size, *us)))
            .map(|(spacing, size, us)| self.cell(spacing, size, us))
            .filter(|cell| cell.trains > 0)
            .collect();
        let (mut bottleneck, disturbance) = self.bottleneck();
        let line = fit(&mut bottleneck);
        let mut warnings = Vec::new();
        match &line {
            None if cells.iter().all(|cell| cell.received == 0) => {
                warnings.push("no packet arrived".to_string());
            }
            None => warnings.push(format!(
                "packets of only {} sizes were sent faster than they arrived, in two trains each; \
                 {MIN_SIZES} are required",
                bottleneck.len()
            )),
            Some(line) => {
                if line.slope.value <= 0.0 {
                    warnings.push(
                        "larger packets take no more time: the time per packet limits, at a host or the path"
                            .into(),
                    );
                } else if (line.slope.high - line.slope.low) / 2.0 > MAX_ERROR * line.slope.value {
                    warnings.push(
                        "the time per byte is uncertain by more than a tenth: use more --packets".into(),
                    );
                }
                if line.reduced_chi_square > MAX_CHI_SQUARE {
                    warnings.push("the spacings do not lie on a line over the size".into());
                }
            }
        }
        if disturbance == Disturbance::OtherTraffic {
            warnings.push("other traffic shares the bottleneck, which lengthens the spacings".into());
        }
        let host_drops: u64 = cells.iter().map(|cell| cell.host_drops).sum();
        let received: usize = cells.iter().map(|cell| cell.received).sum();
        if host_drops as f64 > 0.01 * received as f64 && host_drops > 0 {
            warnings.push(format!("the hosts dropped {host_drops} packets"));
        }
        let per_byte_ns = line.map(|line| line.slope.scaled(1e3)).filter(|slope| slope.value > 0.0);
        let used = bottleneck.iter().filter(|point| point.is_used).count();
        GridResult {
            sizes_bytes: self.plan.sizes.clone(),
            spacings_us,
            packets: self.plan.packets,
            rounds: self.plan.rounds,
            per_packet_us: line.map(|line| line.intercept),
            rate_bps: per_byte_ns.filter(|slope| slope.low > 0.0).map(|slope| Interval {
                low: 8e9 / slope.high,
                value: 8e9 / slope.value,
                high: 8e9 / slope.low,
            }),
            overhead_bytes: line
                .filter(|line| line.slope.value > 0.0)
                .map(|line| line.intercept.value / line.slope.value),
            per_byte_ns,
            validity: Validity::new(warnings, || {
                let bucket = if disturbance == Disturbance::TokenBucket {
                    "; the beginnings of trains passed a token bucket and do not count"
                } else {
                    ""
                };
                format!("the spacings of {used} sizes lie on a line{bucket}")
            }),
            cells,
            bottleneck,
        }
    }

    fn progress(&self) -> String {
        if self.done >= self.plan.trains() {
            return "the grid is complete".into();
        }
        let (spacing, size, round) = self.position(self.done);
        let spacing = match self.spacings_ns.as_ref().map_or(0, |spacings| spacings[spacing]) {
            0 => "back to back".to_string(),
            ns => format!("one every {} us", ns as f64 / 1e3),
        };
        format!(
            "round {} of {}: packets of {} bytes, {spacing}",
            round + 1,
            self.plan.rounds,
            self.plan.sizes[size]
        )
    }
}
