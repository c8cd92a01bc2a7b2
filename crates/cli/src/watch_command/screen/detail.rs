//! Draws one connection with all that is known of it.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    widgets::{Block, Paragraph, Sparkline},
};
use schema::Cause;
use view::{number, words};
use watch::{Extremes, Phase, web100};

use super::state::Shown;

/// Lines of text above the instruments.
const FACTS: u16 = 9;
/// Height of a curve with its border.
const CURVE: u16 = 6;
/// Columns that an instrument takes.
const INSTRUMENT: usize = 36;

/// Draws it.
pub fn draw(frame: &mut Frame<'_>, area: Rect, shown: &Shown) {
    let [facts, curves, instruments] =
        Layout::vertical([Constraint::Length(FACTS), Constraint::Length(CURVE), Constraint::Min(0)])
            .areas(area);
    frame.render_widget(Paragraph::new(text(shown).join("\n")), facts);
    let places: [Rect; 3] = Layout::horizontal([Constraint::Ratio(1, 3); 3]).areas(curves);
    let most = |values: &[u64]| values.iter().copied().max().unwrap_or(0);
    let titled = [
        (format!(" rate, to {} ", number::rate(most(&shown.rate) as f64)), &shown.rate),
        (format!(" cwnd, to {} ", most(&shown.cwnd)), &shown.cwnd),
        (format!(" rtt, to {} ", number::micros(most(&shown.round_trip) as f64)), &shown.round_trip),
    ];
    for (place, (title, values)) in places.into_iter().zip(titled) {
        let width = usize::from(place.width.saturating_sub(2));
        let last = &values[values.len().saturating_sub(width)..];
        frame.render_widget(Sparkline::default().data(last).block(Block::bordered().title(title)), place);
    }
    frame.render_widget(Paragraph::new(table(shown, instruments).join("\n")), instruments);
}

fn text(shown: &Shown) -> Vec<String> {
    let connection = &shown.connection;
    let (info, tally) = (&connection.look.info, &connection.tally);
    let owner =
        connection.process.as_ref().map_or("owner unknown".into(), |p| format!("{} (pid {})", p.name, p.pid));
    let (sent, received) = connection.rates_bps.unwrap_or((0.0, 0.0));
    let bps = |rate: Option<u64>| {
        rate.filter(|rate| *rate < u64::MAX)
            .map_or("unlimited".into(), |rate| number::rate(rate as f64 * 8.0))
    };
    let range =
        |extremes: Extremes| extremes.range.map_or("-".into(), |(least, most)| format!("{least} to {most}"));
    let phase = tally.phase().map_or("nothing sent", |phase| match phase {
        Phase::SlowStart => "slow start",
        Phase::Avoidance => "congestion avoidance",
        Phase::Recovery => "recovery",
    });
    let us = |us: u64| number::seconds(us as f64 * 1e-6);
    let shares: Vec<String> = Cause::ALL
        .into_iter()
        .map(|cause| (cause, shown.limited.share(cause)))
        .filter(|(_, share)| *share > 0.0)
        .map(|(cause, share)| format!("{} {}", words::cause(cause), number::share(share)))
        .collect();
    vec![
        format!("{}  {}  {owner}", connection.look.ends, connection.look.state),
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
            tally.slow_starts,
            us(tally.phase_us[0]),
            tally.avoidances,
            us(tally.phase_us[1]),
            us(tally.phase_us[2])
        ),
        format!(
            "loss events: {} recoveries, {} timeouts' repairs, {} reductions without loss; {} segments sent again",
            tally.recoveries,
            tally.losses,
            tally.reductions,
            info.total_retrans().unwrap_or(0)
        ),
        format!(
            "cwnd in slow start {}, in avoidance {}; ssthresh {}; in flight {}",
            range(tally.slow_start_cwnd),
            range(tally.avoidance_cwnd),
            range(tally.ssthresh),
            range(tally.in_flight)
        ),
        format!(
            "congestion control {}  since {} seen",
            connection.look.congestion.as_deref().unwrap_or("unknown"),
            us(connection.looked_ns.saturating_sub(connection.first_ns) / 1000)
        ),
    ]
}

/// Instruments of web100 in as many columns as there is room for; blanks are left out.
fn table(shown: &Shown, area: Rect) -> Vec<String> {
    let values: Vec<String> = web100::INSTRUMENTS
        .iter()
        .filter_map(|instrument| {
            let value = instrument.value(&shown.connection)?;
            Some(format!("{:<21}{value:>12} {}", instrument.name, instrument.unit))
        })
        .collect();
    let columns = (usize::from(area.width) / (INSTRUMENT + 4)).max(1);
    let height = values.len().div_ceil(columns).max(1);
    let width = INSTRUMENT + 4;
    (0..height)
        .map(|line| {
            values.iter().skip(line).step_by(height).map(|value| format!("{value:<width$}")).collect()
        })
        .collect()
}
