//! Draws the live view.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Modifier, Style, Stylize},
    text::{Line, Span},
    widgets::{Block, Cell, Clear, Paragraph, Row, Table, TableState},
};
use view::{number, words};

use super::{
    detail,
    state::{Mode, Shown, State},
};

/// Characters of a sparkline, from empty to full.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Width of a sparkline in the table.
const SPARKLINE_WIDTH: usize = 10;

const HELP: &str = "\
up, down, j, k     select a connection (PgUp, PgDn, Home, End)
Enter              details of the selected connection; Esc returns
s, <, >            sort by the next or previous column
/                  narrow by a filter: port 5201, process iperf3 and not cc bbr
c                  show closed connections too
space              pause, and resume
?, h               this help
q                  quit

Rates are payload. cwnd and rtt are the sender's; verdict is what
limited the flow in the last seconds.";

/// Draws the screen.
pub fn draw(frame: &mut Frame<'_>, state: &State) {
    let [top, middle, bottom] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(3), Constraint::Length(1)])
            .areas(frame.area());
    frame.render_widget(title(state), top);
    match state.detailed() {
        Some(shown) => detail::draw(frame, middle, shown),
        None => table(frame, middle, state),
    }
    frame.render_widget(footer(state), bottom);
    if state.mode == Mode::Help {
        help(frame, middle);
    }
}

fn title(state: &State) -> Line<'static> {
    let filter = if state.filter.is_empty() { "all connections" } else { &state.filter };
    let mut text = format!(
        "longfat watch: {filter}  {} shown  every {} by {}  sorted by {}",
        state.rows.len(),
        number::seconds(state.interval.as_secs_f64()),
        state.looks_by,
        state.order.name()
    );
    if !state.narrower_text.is_empty() {
        text.push_str(&format!("  / {}", state.narrower_text));
    }
    if state.paused {
        text.push_str("  PAUSED");
    }
    Line::from(text).bold()
}

fn footer(state: &State) -> Line<'static> {
    match &state.mode {
        Mode::Search(text, None) => Line::from(format!("/{text}_")),
        Mode::Search(text, Some(wrong)) => {
            Line::from(vec![Span::raw(format!("/{text}_  ")), Span::raw(wrong.clone()).red()])
        }
        Mode::Detail(_) => Line::from("Esc back  space pause  q quit"),
        _ => Line::from("Enter detail  / filter  s sort  c closed  space pause  ? help  q quit"),
    }
}

fn table(frame: &mut Frame<'_>, area: Rect, state: &State) {
    if state.rows.is_empty() {
        frame.render_widget(Paragraph::new("no connection matches"), area);
        return;
    }
    let header = ["CONNECTION", "PROCESS", "RATE", "", "CWND", "", "RTT", "", "RETR", "VERDICT"];
    let widths = [
        Constraint::Min(30),
        Constraint::Length(14),
        Constraint::Length(10),
        Constraint::Length(SPARKLINE_WIDTH as u16),
        Constraint::Length(6),
        Constraint::Length(SPARKLINE_WIDTH as u16),
        Constraint::Length(8),
        Constraint::Length(SPARKLINE_WIDTH as u16),
        Constraint::Length(6),
        Constraint::Length(14),
    ];
    let rows: Vec<Row<'_>> = state.rows.iter().map(row).collect();
    let table = Table::new(rows, widths)
        .header(Row::new(header).style(Style::new().add_modifier(Modifier::REVERSED)))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut selected = TableState::default().with_selected(Some(state.selected));
    frame.render_stateful_widget(table, area, &mut selected);
}

fn row(shown: &Shown) -> Row<'static> {
    let connection = &shown.connection;
    let info = &connection.sample.info;
    let ends = connection.sample.addresses;
    let place =
        if connection.namespace.is_empty() { String::new() } else { format!("[{}] ", connection.namespace) };
    let way = if shown.sends { '>' } else { '<' };
    let process = connection.process.as_ref().map_or(String::new(), |p| format!("{}/{}", p.name, p.pid));
    let verdict = match (connection.closed_ns.is_some(), shown.verdict) {
        (true, _) => "closed".to_string(),
        (false, Some(cause)) => words::cause(cause).to_string(),
        (false, None) => String::new(),
    };
    let rtt = info.rtt_us().filter(|rtt| *rtt > 0);
    Row::new([
        Cell::from(format!("{place}{} {way} {}", ends.local, ends.peer)),
        Cell::from(process),
        Cell::from(number::rate(shown.rate_bps())),
        Cell::from(sparkline(&shown.rate, SPARKLINE_WIDTH)),
        Cell::from(info.snd_cwnd().map_or(String::new(), |cwnd| cwnd.to_string())),
        Cell::from(sparkline(&shown.cwnd, SPARKLINE_WIDTH)),
        Cell::from(rtt.map_or(String::new(), |rtt| number::micros(rtt.into()))),
        Cell::from(sparkline(&shown.round_trip, SPARKLINE_WIDTH)),
        Cell::from(info.total_retrans().map_or(String::new(), |count| count.to_string())),
        Cell::from(verdict),
    ])
}

/// The last `width` values as bars from zero to the largest of them.
pub fn sparkline(values: &[u64], width: usize) -> String {
    let values = &values[values.len().saturating_sub(width)..];
    let most = values.iter().copied().max().unwrap_or(0).max(1);
    let bar = |value: &u64| BARS[(u128::from(*value) * 7).div_ceil(u128::from(most)) as usize];
    values.iter().map(bar).collect()
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let width = (HELP.lines().map(str::len).max().unwrap_or(0) as u16 + 4).min(area.width);
    let height = (HELP.lines().count() as u16 + 2).min(area.height);
    let place =
        Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(HELP).block(Block::bordered().title(" keys ")), place);
}
