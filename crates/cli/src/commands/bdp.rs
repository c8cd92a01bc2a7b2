//! `longfat bdp`: the closed forms for a path.

use anyhow::Context;
use clap::Args;
use model::{
    IpVersion,
    report::{ReportFigure, ReportInputs, report},
};
use serde_json::{Map, Value, json};
use units::{BitRate, Bytes, KernelVersion, Time, parse_share};

use crate::{exit::Exit, output};

/// Sentences are wrapped at this column.
const WIDTH: usize = 100;

/// The path.
#[derive(Debug, Args)]
pub struct BdpArgs {
    /// Rate of the slowest link: 10gbit, 10Gb/s, 622Mb/s
    rate: BitRate,
    /// Round-trip time: 50ms, 150us
    rtt: Time,
    /// MTU, bytes including the IP header
    #[arg(long, default_value_t = 1500, value_parser = clap::value_parser!(u32).range(68..=65535))]
    mtu: u32,
    /// Payload bytes of a segment [default: the MTU less IP and TCP headers with timestamps]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=65535))]
    mss: Option<u32>,
    /// Use IPv6 instead of IPv4
    #[arg(long)]
    ipv6: bool,
    /// Link-layer bytes per packet: 38 for Ethernet with preamble and inter-frame gap, 14 as tbf counts
    #[arg(long, default_value_t = 38, value_parser = clap::value_parser!(u32).range(0..=1000))]
    overhead: u32,
    /// Random loss per segment: 0.01%, or 0.0001
    #[arg(long, value_name = "P", value_parser = parse_share)]
    loss: Option<f64>,
    /// Window (advertised window, or bytes in flight): 1MiB
    #[arg(long, value_name = "BYTES")]
    window: Option<Bytes>,
    /// A socket buffer, as the kernel accounts it (third value of tcp_rmem or tcp_wmem): 16MiB
    #[arg(long, value_name = "BYTES")]
    buffer: Option<Bytes>,
    /// The queue of the slowest link: 25MB
    #[arg(long, value_name = "BYTES")]
    queue: Option<Bytes>,
    /// Linux version of the hosts, as in 6.1 [default: this machine's]
    #[arg(long, value_name = "VERSION")]
    kernel: Option<KernelVersion>,
}

/// Prints the figures.
pub fn run(args: &BdpArgs, json: bool) -> anyhow::Result<()> {
    let inputs = inputs(args)?;
    let groups = report(&inputs);
    if json {
        let figures: Vec<&ReportFigure> = groups.iter().flat_map(|g| &g.figures).collect();
        return output::json(&document(&inputs, &figures));
    }
    let width = output::line_length(WIDTH);
    let mut lines = vec![format!("{} with a round-trip time of {}", inputs.rate, inputs.rtt)];
    for group in groups {
        lines.push(format!("\n{}", group.title));
        for figure in group.figures {
            lines.push(format!("  {:<36}  {}", figure.name, figure.text));
            lines.extend(wrap(&figure.sentence, width - 6).iter().map(|line| format!("      {line}")));
        }
    }
    output::prose(&lines.join("\n"))
}

fn inputs(args: &BdpArgs) -> anyhow::Result<ReportInputs> {
    if args.rate.0 == 0 || args.rtt == Time::ZERO {
        return Err(Exit::BadInput("the rate and the round-trip time must be above zero".into()).into());
    }
    let kernel = match args.kernel {
        Some(kernel) => kernel,
        None => {
            let release = lab::host_info().kernel;
            release
                .parse()
                .with_context(|| format!("cannot parse this kernel's version {release:?}; give --kernel"))?
        }
    };
    Ok(ReportInputs {
        rate: args.rate,
        rtt: args.rtt,
        mtu: args.mtu,
        mss: args.mss,
        ip: if args.ipv6 { IpVersion::V6 } else { IpVersion::V4 },
        overhead: args.overhead,
        loss: args.loss,
        window: args.window,
        buffer: args.buffer,
        queue: args.queue,
        kernel,
    })
}

/// The figures by key (with unit), and under `sentences` the explanations by the same keys.
fn document(inputs: &ReportInputs, figures: &[&ReportFigure]) -> Value {
    let mut document = Map::new();
    document.insert("rate_bps".into(), json!(inputs.rate.0));
    document.insert("rtt_us".into(), json!(inputs.rtt.as_micros_f64()));
    document.insert("mtu_bytes".into(), json!(inputs.mtu));
    document.insert("overhead_bytes".into(), json!(inputs.overhead));
    let mut sentences = Map::new();
    for figure in figures {
        document.insert(figure.key.into(), number(figure.value));
        sentences.insert(figure.key.into(), json!(figure.sentence));
    }
    if let Some(window) = inputs.window {
        let exact = model::window_utilization(window, inputs.rate, inputs.rtt);
        document.insert("utilization_exact".into(), json!(exact));
    }
    document.insert("sentences".into(), Value::Object(sentences));
    Value::Object(document)
}

/// Whole numbers without a fraction; infinity and NaN as null.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 { json!(value as i64) } else { json!(value) }
}

/// Wraps a text into lines of at most `width` characters.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let length = |text: &str| text.chars().count();
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line =
            lines.last_mut().filter(|line| line.is_empty() || length(line) + 1 + length(word) <= width);
        match line {
            Some(line) => {
                if !line.is_empty() {
                    line.push(' ');
                }
                line.push_str(word);
            }
            None => lines.push(word.into()),
        }
    }
    lines
}
