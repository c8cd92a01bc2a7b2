//! The pictures of `longfat probe udpmon`.

use probe::{GridCell, GridResult, GridTrain, ReplySize, RequestResponseResult, UdpmonResult};
use view::{Chart, ChartCurve, ChartPoint, ChartValue, number::seconds};

/// Maximum number of points of a curve over packets: about one per pixel.
const MAX_POINTS: usize = 900;

/// All pictures with their file names.
pub fn all(result: &UdpmonResult, trains: &[GridTrain], host: &str) -> Vec<(&'static str, String)> {
    let grid = &result.grid;
    let throughput = over_spacing(
        grid,
        &format!("Throughput on the path to {host}"),
        "Received, of IP",
        "bit/s",
        &|cell| cell.received_bps,
    );
    let loss = over_spacing(grid, &format!("Loss on the path to {host}"), "Lost (%)", "", &|cell| {
        Some(cell.missing_percent())
    });
    vec![
        ("throughput.svg", view::chart(&throughput)),
        ("loss.svg", view::chart(&loss)),
        ("bottleneck.svg", view::chart(&bottleneck(grid, host))),
        ("jitter.svg", view::chart(&jitter(grid, trains, host))),
        ("interarrival.svg", view::chart(&interarrival(grid, trains, host))),
        ("latency.svg", view::chart(&latency(&result.latency, host))),
    ]
}

fn number_value(number: f64, text: String) -> ChartValue {
    ChartValue { text, number: Some(number) }
}

fn point(value: usize, height: f64) -> ChartPoint {
    ChartPoint { value, height, bar: None }
}

fn curve(label: String, points: Vec<ChartPoint>) -> ChartCurve {
    ChartCurve { label, points, mark: None }
}

fn spacing_text(us: f64) -> String {
    if us == 0.0 { "0".into() } else { seconds(us / 1e6) }
}

/// A curve for each packet size.
fn over_spacing(
    grid: &GridResult,
    title: &str,
    y_label: &str,
    unit: &str,
    height: &dyn Fn(&GridCell) -> Option<f64>,
) -> Chart {
    let curve_of_size = |size: &u32| {
        let cells = grid.cells.iter().filter(|cell| cell.packet_bytes == *size).enumerate();
        curve(
            format!("{size} bytes"),
            cells.filter_map(|(value, cell)| Some(point(value, height(cell)?))).collect(),
        )
    };
    Chart {
        title: title.into(),
        x_label: "Time between two packets".into(),
        values: grid.spacings_us.iter().map(|us| number_value(*us, spacing_text(*us))).collect(),
        y_label: y_label.into(),
        unit: unit.into(),
        bars: String::new(),
        curves: grid.sizes_bytes.iter().map(curve_of_size).collect(),
    }
}

/// The spacing of received packets over their size, and the line.
fn bottleneck(grid: &GridResult, host: &str) -> Chart {
    let mut sizes = vec![0];
    sizes.extend(grid.bottleneck.iter().map(|found| found.packet_bytes));
    let points = grid.bottleneck.iter().enumerate().map(|(index, found)| {
        let (low, high) = found.error_bar_us();
        ChartPoint { value: index + 1, height: found.spacing_us / 1e6, bar: Some((low / 1e6, high / 1e6)) }
    });
    let mut curves = vec![curve("received, from trains faster than the bottleneck".into(), points.collect())];
    if let (Some(per_byte), Some(per_packet)) = (grid.per_byte_ns, grid.per_packet_us) {
        let line = sizes
            .iter()
            .enumerate()
            .filter_map(|(value, size)| Some(point(value, grid.bottleneck_time_s(*size)?)));
        let label = format!("{:.2} ns per byte + {:.2} us per packet", per_byte.value, per_packet.value);
        curves.push(curve(label, line.collect()));
    }
    Chart {
        title: format!("The bottleneck's time for a packet on the path to {host}"),
        x_label: "Packet size (bytes of IP)".into(),
        values: sizes.iter().map(|size| number_value(f64::from(*size), size.to_string())).collect(),
        y_label: "Time between two packets".into(),
        unit: "s".into(),
        bars: "Bars: two standard errors".into(),
        curves,
    }
}

/// Histograms of jitter at the widest spacing, a curve for each size.
fn jitter(grid: &GridResult, trains: &[GridTrain], host: &str) -> Chart {
    let jitter = grid.widest_jitter(trains);
    let values = jitter.bins.shares().map(|(us, _)| number_value(us, format!("{us:.1}"))).collect();
    let curves = grid.sizes_bytes.iter().zip(&jitter.by_size).map(|(size, histogram)| {
        let points = histogram.shares().enumerate().map(|(value, (_, share))| point(value, share * 100.0));
        curve(format!("{size} bytes"), points.collect())
    });
    Chart {
        title: format!(
            "One-way jitter on the path to {host}, packets every {}",
            spacing_text(jitter.spacing_us)
        ),
        x_label: format!(
            "Change of the delay from packet to packet (us), in bins of {} us",
            jitter.bins.bin_us
        ),
        values,
        y_label: "Packets (%)".into(),
        unit: String::new(),
        bars: String::new(),
        curves: curves.collect(),
    }
}

/// Times between arrivals by packet number, in the first train of the largest size at each spacing.
fn interarrival(grid: &GridResult, trains: &[GridTrain], host: &str) -> Chart {
    let largest = grid.sizes_bytes.len().saturating_sub(1);
    let step = grid.packets.div_ceil(MAX_POINTS).max(1);
    let numbers: Vec<usize> = (0..grid.packets).step_by(step).collect();
    let curves = grid.spacings_us.iter().enumerate().filter_map(|(spacing, us)| {
        let train =
            trains.iter().find(|train| (train.spacing, train.size, train.round) == (spacing, largest, 0))?;
        let points = numbers
            .iter()
            .enumerate()
            .filter_map(|(value, number)| Some(point(value, train.interarrival_s(*number)?)));
        Some(curve(format!("every {}", spacing_text(*us)), points.collect()))
    });
    Chart {
        title: format!(
            "Times between arrivals on the path to {host}, packets of {} bytes",
            grid.sizes_bytes.get(largest).copied().unwrap_or(0)
        ),
        x_label: "Packet of the train".into(),
        y_label: "Time since the packet before".into(),
        unit: "s".into(),
        bars: String::new(),
        curves: curves.collect(),
        values: numbers.iter().map(|number| number_value(*number as f64, number.to_string())).collect(),
    }
}

/// Latency over the size of requests, for both kinds of replies, with their lines; above the lowest line's
/// height at size 0, because the propagation delay would hide the slopes.
fn latency(result: &RequestResponseResult, host: &str) -> Chart {
    let mut sizes: Vec<u32> =
        std::iter::once(0).chain(result.points.iter().map(|p| p.packet_bytes)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let base_us = result.base_us();
    let height = |us: f64| (us - base_us) / 1e6;
    let kinds = [
        (ReplySize::Request, "replies of the same size", result.round_trip),
        (ReplySize::Smallest, "small replies", result.forward),
    ];
    let mut curves = Vec::new();
    for (replies, name, fit) in kinds {
        let points = result.points.iter().filter(|found| found.replies == replies).filter_map(|found| {
            let value = sizes.iter().position(|size| *size == found.packet_bytes)?;
            let (low, high) = found.error_bar_us();
            Some(ChartPoint { value, height: height(found.min_us), bar: Some((height(low), height(high))) })
        });
        curves.push(curve(name.into(), points.collect()));
        if let Some(fit) = fit {
            let line =
                sizes.iter().enumerate().map(|(value, size)| point(value, height(fit.latency_us(*size))));
            let label = format!(
                "{} + {:.2} ns per byte",
                seconds(fit.intercept_us.value.max(0.0) / 1e6),
                fit.per_byte_ns.value
            );
            curves.push(curve(label, line.collect()));
        }
    }
    Chart {
        title: format!("Request-response latency on the path to {host}"),
        x_label: "Size of the request (bytes of IP)".into(),
        values: sizes.iter().map(|size| number_value(f64::from(*size), size.to_string())).collect(),
        y_label: format!("Fastest round trip above {}", seconds(base_us / 1e6)),
        unit: "s".into(),
        bars: "Bars: two standard errors".into(),
        curves,
    }
}
