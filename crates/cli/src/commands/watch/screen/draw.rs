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

Rates are payload. CWND and RTT are the sender's; LIMITED BY is what
limited the flow in the last seconds. A narrow terminal shows fewer
columns.";

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
        state.sampled_by,
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
        Mode::Detail(_) => Line::from("q quit  Esc back  space pause"),
        _ => Line::from("q quit  ? help  Enter detail  / filter  s sort  c closed  space pause"),
    }
}

/// A column other than the connection's.
struct Column {
    header: &'static str,
    width: u16,
    cell: fn(&Shown) -> String,
}

impl Column {
    const fn new(header: &'static str, width: u16, cell: fn(&Shown) -> String) -> Self {
        Column { header, width, cell }
    }
}

/// The columns in their order on the screen.
const COLUMNS: [Column; 9] = [
    Column::new("PROCESS", 14, process),
    Column::new("RATE", 10, |shown| number::rate(shown.rate_bps())),
    Column::new("", SPARKLINE_WIDTH as u16, |shown| sparkline(&shown.rate, SPARKLINE_WIDTH)),
    Column::new("CWND", 6, |shown| known(shown.connection.sample.info.snd_cwnd())),
    Column::new("", SPARKLINE_WIDTH as u16, |shown| sparkline(&shown.cwnd, SPARKLINE_WIDTH)),
    Column::new("RTT", 8, rtt),
    Column::new("", SPARKLINE_WIDTH as u16, |shown| sparkline(&shown.round_trip, SPARKLINE_WIDTH)),
    Column::new("RESENT", 6, |shown| known(shown.connection.sample.info.total_retrans())),
    Column::new("LIMITED BY", 14, limit),
];
/// Indices of columns in the order in which a narrow terminal drops them.
const DROPPED_FIRST: [usize; 9] = [6, 4, 2, 0, 3, 7, 5, 8, 1];

fn table(frame: &mut Frame<'_>, area: Rect, state: &State) {
    if state.rows.is_empty() {
        frame.render_widget(Paragraph::new("no connection matches"), area);
        return;
    }
    let longest = state.rows.iter().map(|row| connection(row).chars().count()).max().unwrap_or(0) as u16;
    let columns = fitting_columns(area.width, longest);
    let others: u16 = columns.iter().map(|column| column.width + 1).sum();
    let width = area.width.saturating_sub(others);
    let widths =
        [Constraint::Min(width)].into_iter().chain(columns.iter().map(|c| Constraint::Length(c.width)));
    let header = ["CONNECTION"].into_iter().chain(columns.iter().map(|column| column.header));
    let rows = state.rows.iter().map(|shown| {
        let first = narrowed(&connection(shown), usize::from(width));
        let others = columns.iter().map(|column| (column.cell)(shown));
        [first].into_iter().chain(others).map(Cell::from).collect::<Row<'_>>()
    });
    let table = Table::new(rows, widths)
        .header(Row::new(header).style(Style::new().add_modifier(Modifier::REVERSED)))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut selected = TableState::default().with_selected(Some(state.selected));
    frame.render_stateful_widget(table, area, &mut selected);
}

/// The columns that fit into a terminal of this width next to the longest connection.
fn fitting_columns(width: u16, longest: u16) -> Vec<&'static Column> {
    let mut kept = [true; COLUMNS.len()];
    let mut dropped = DROPPED_FIRST.iter();
    loop {
        let columns: Vec<_> =
            COLUMNS.iter().zip(kept).filter_map(|(column, is_kept)| is_kept.then_some(column)).collect();
        let needed = columns.iter().map(|column| column.width + 1).sum::<u16>() + longest;
        match dropped.next() {
            Some(index) if needed > width => kept[*index] = false,
            _ => return columns,
        }
    }
}

/// The connection's ends in at most `width` characters: the start of the text is cut off if necessary, so
/// that the peer's port remains visible.
fn narrowed(text: &str, width: usize) -> String {
    let len = text.chars().count();
    if len <= width {
        return text.to_owned();
    }
    let start = len + 1 - width.max(1);
    format!("…{}", text.chars().skip(start).collect::<String>())
}

fn connection(shown: &Shown) -> String {
    let connection = &shown.connection;
    let ends = connection.sample.addresses;
    let namespace =
        if connection.namespace.is_empty() { String::new() } else { format!("[{}] ", connection.namespace) };
    let arrow = if shown.sends { '>' } else { '<' };
    format!("{namespace}{} {arrow} {}", ends.local, ends.peer)
}

fn process(shown: &Shown) -> String {
    shown.connection.process.as_ref().map_or(String::new(), |p| format!("{}/{}", p.name, p.pid))
}

fn rtt(shown: &Shown) -> String {
    let rtt = shown.connection.sample.info.rtt_us().filter(|rtt| *rtt > 0);
    rtt.map_or(String::new(), |rtt| number::micros(rtt.into()))
}

fn limit(shown: &Shown) -> String {
    match (shown.connection.closed_ns.is_some(), shown.verdict) {
        (true, _) => "closed".into(),
        (false, Some(cause)) => words::cause(cause).into(),
        (false, None) => String::new(),
    }
}

fn known(value: Option<impl ToString>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

/// The last `width` values as bars from zero to the largest of them.
pub fn sparkline(values: &[u64], width: usize) -> String {
    let values = &values[values.len().saturating_sub(width)..];
    let max = values.iter().copied().max().unwrap_or(0).max(1);
    let bar = |value: &u64| BARS[(u128::from(*value) * 7).div_ceil(u128::from(max)) as usize];
    values.iter().map(bar).collect()
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let width = (HELP.lines().map(str::len).max().unwrap_or(0) as u16 + 4).min(area.width);
    let height = (HELP.lines().count() as u16 + 2).min(area.height);
    let area =
        Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(HELP).block(Block::bordered().title(" keys ")), area);
}
