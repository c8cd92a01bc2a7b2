//! Draws the details of one connection.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    widgets::{Block, Paragraph, Sparkline},
};
use schema::Cause;
use view::{number, table::wrapped, words};
use watch::{MinMax, SenderPhase, web100};

use super::state::Shown;

/// Height of a curve with its border, lines.
const CURVE_HEIGHT: u16 = 6;
/// Width of an instrument, characters.
const INSTRUMENT_WIDTH: usize = 36;

/// Draws the details.
pub fn draw(frame: &mut Frame<'_>, area: Rect, shown: &Shown) {
    let text = in_lines(&text(shown), usize::from(area.width));
    let [facts, curves, instruments] = Layout::vertical([
        Constraint::Length(text.len() as u16 + 1),
        Constraint::Length(CURVE_HEIGHT),
        Constraint::Min(0),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(text.join("\n")), facts);
    let areas: [Rect; 3] = Layout::horizontal([Constraint::Ratio(1, 3); 3]).areas(curves);
    let max_of = |values: &[u64]| values.iter().copied().max().unwrap_or(0);
    let titled = [
        (format!(" rate, to {} ", number::rate(max_of(&shown.rate) as f64)), &shown.rate),
        (format!(" cwnd, to {} ", max_of(&shown.cwnd)), &shown.cwnd),
        (format!(" rtt, to {} ", number::micros(max_of(&shown.round_trip) as f64)), &shown.round_trip),
    ];
    for (area, (title, values)) in areas.into_iter().zip(titled) {
        let width = usize::from(area.width.saturating_sub(2));
        let last = &values[values.len().saturating_sub(width)..];
        frame.render_widget(Sparkline::default().data(last).block(Block::bordered().title(title)), area);
    }
    frame.render_widget(Paragraph::new(table(shown, instruments).join("\n")), instruments);
}

/// The facts in lines that fit the screen.
fn in_lines(facts: &[String], width: usize) -> Vec<String> {
    facts
        .iter()
        .flat_map(|fact| wrapped(fact, width).lines().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

fn text(shown: &Shown) -> Vec<String> {
    let connection = &shown.connection;
    let (info, counters) = (&connection.sample.info, &connection.counters);
    let owner =
        connection.process.as_ref().map_or("owner unknown".into(), |p| format!("{} (pid {})", p.name, p.pid));
    let (sent, received) = connection.rates_bps.unwrap_or((0.0, 0.0));
    let bps = |rate: Option<u64>| {
        rate.filter(|rate| *rate < u64::MAX)
            .map_or("unlimited".into(), |rate| number::rate(rate as f64 * 8.0))
    };
    let range = |minmax: MinMax| minmax.range.map_or("-".into(), |(min, max)| format!("{min} to {max}"));
    let phase = counters.phase().map_or("nothing sent", |phase| match phase {
        SenderPhase::SlowStart => "slow start",
        SenderPhase::CongestionAvoidance => "congestion avoidance",
        SenderPhase::Recovery => "recovery",
    });
    let us = |us: u64| number::seconds(us as f64 * 1e-6);
    let shares: Vec<String> = Cause::ALL
        .into_iter()
        .map(|cause| (cause, shown.limited.share(cause)))
        .filter(|(_, share)| *share > 0.0)
        .map(|(cause, share)| format!("{} {}", words::cause(cause), number::share(share)))
        .collect();
    vec![
        format!("{}  {}  {owner}", connection.sample.addresses, connection.sample.state),
        format!(
            "out {}  in {}  delivery rate {}  pacing rate {}",
            number::rate(sent),
            number::rate(received),
            bps(info.delivery_rate()),
            bps(info.pacing_rate())
        ),
        format!("limited by: {}", if shares.is_empty() { "-".into() } else { shares.join(", ") }),
        format!(
            "{phase}; slow start {} times, {}; avoidance {} times, {}; recovery {}",
            counters.slow_starts,
            us(counters.phase_us[0]),
            counters.avoidances,
            us(counters.phase_us[1]),
            us(counters.phase_us[2])
        ),
        format!(
            "loss events: {} recoveries, {} timeouts, {} reductions without loss; {} segments retransmitted",
            counters.recoveries,
            counters.losses,
            counters.reductions,
            info.total_retrans().unwrap_or(0)
        ),
        format!(
            "cwnd in slow start {}, in avoidance {}; ssthresh {}; in flight {}",
            range(counters.slow_start_cwnd),
            range(counters.avoidance_cwnd),
            range(counters.ssthresh),
            range(counters.in_flight)
        ),
        format!(
            "congestion control {}  watched for {}",
            connection.sample.congestion.as_deref().unwrap_or("unknown"),
            us(connection.watched_us())
        ),
    ]
}

/// The web100 instruments in as many columns as fit; instruments without a value are omitted.
fn table(shown: &Shown, area: Rect) -> Vec<String> {
    let values: Vec<String> = web100::INSTRUMENTS
        .iter()
        .filter_map(|instrument| {
            let value = instrument.value(&shown.connection)?;
            Some(format!("{:<21}{value:>12} {}", instrument.name, instrument.unit))
        })
        .collect();
    let columns = (usize::from(area.width) / (INSTRUMENT_WIDTH + 4)).max(1);
    let height = values.len().div_ceil(columns).max(1);
    let width = INSTRUMENT_WIDTH + 4;
    (0..height)
        .map(|line| {
            values.iter().skip(line).step_by(height).map(|value| format!("{value:<width$}")).collect()
        })
        .collect()
}
