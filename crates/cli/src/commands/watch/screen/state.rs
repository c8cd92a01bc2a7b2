//! The state of the live view, and the effect of keys on it. Independent of a terminal.

use std::time::Duration;

use measurement::watched::{Curve, Trail, Trails};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use schema::{Cause, Limited};
use watch::{Filter, SocketCookie, TrackedConnection, Watcher};

/// Maximum number of points of a curve.
const CURVE_POINTS: usize = 80;
/// Rows per page key.
const PAGE_ROWS: usize = 20;

/// The sort order of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Rate,
    RoundTrip,
    Cwnd,
    Retransmitted,
    Process,
}

impl Order {
    pub const ALL: [Order; 5] =
        [Order::Rate, Order::RoundTrip, Order::Cwnd, Order::Retransmitted, Order::Process];

    pub fn name(self) -> &'static str {
        match self {
            Order::Rate => "rate",
            Order::RoundTrip => "rtt",
            Order::Cwnd => "cwnd",
            Order::Retransmitted => "retrans",
            Order::Process => "process",
        }
    }
}

/// A connection as it is drawn.
#[derive(Debug, Clone)]
pub struct Shown {
    pub connection: TrackedConnection,
    pub sends: bool,
    pub verdict: Option<Cause>,
    pub limited: Limited,
    pub cwnd: Vec<u64>,
    pub round_trip: Vec<u64>,
    pub rate: Vec<u64>,
}

impl Shown {
    pub fn of(connection: &TrackedConnection, trail: Option<&Trail>) -> Self {
        let curve = |which| trail.map_or(Vec::new(), |trail| trail.curve(which, CURVE_POINTS));
        Shown {
            connection: connection.clone(),
            sends: trail.is_none_or(Trail::sends),
            verdict: None,
            limited: Limited::default(),
            cwnd: curve(Curve::Cwnd),
            round_trip: curve(Curve::RoundTrip),
            rate: curve(Curve::Rate),
        }
    }

    /// The rate in the direction that carries more, bit/s.
    pub fn rate_bps(&self) -> f64 {
        self.connection.max_rate_bps()
    }

    fn process(&self) -> &str {
        self.connection.process.as_ref().map_or("", |process| &process.name)
    }
}

/// The overlay that is drawn over the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    Table,
    Detail(SocketCookie),
    Help,
    /// The filter being typed, and its error.
    Search(String, Option<String>),
}

/// The state of the live view.
#[derive(Debug)]
pub struct State {
    pub filter: String,
    pub interval: Duration,
    pub order: Order,
    pub paused: bool,
    pub closed_too: bool,
    pub mode: Mode,
    pub rows: Vec<Shown>,
    pub selected: usize,
    pub sampled_by: &'static str,
    /// A filter within the watched connections.
    narrower: Option<Filter>,
    pub narrower_text: String,
}

impl State {
    pub fn new(filter: &str, interval: Duration) -> Self {
        State {
            filter: filter.into(),
            interval,
            order: Order::Rate,
            paused: false,
            closed_too: false,
            mode: Mode::Table,
            rows: Vec::new(),
            selected: 0,
            sampled_by: "",
            narrower: None,
            narrower_text: String::new(),
        }
    }

    /// Updates the rows, unless paused.
    pub fn update(&mut self, watcher: &Watcher, trails: &Trails) {
        self.sampled_by = if watcher.uses_bpf() { "eBPF" } else { "sock_diag" };
        if !self.paused {
            let shown =
                watcher.connections().map(|c| Shown::of(c, trails.get(c.sample.cookie))).collect::<Vec<_>>();
            self.show(shown);
            // Only visible rows get a verdict: for thousands it would cost more than sampling.
            let from = self.selected.saturating_sub(PAGE_ROWS * 4);
            for row in self.rows.iter_mut().skip(from).take(PAGE_ROWS * 8) {
                if let Some(trail) = trails.get(row.connection.sample.cookie) {
                    row.verdict = trail.verdict();
                    row.limited = trail.limited();
                }
            }
        }
    }

    /// Ranks connections; the selected one stays selected.
    pub fn show(&mut self, mut rows: Vec<Shown>) {
        let selected = self.rows.get(self.selected).map(|row| row.connection.sample.cookie);
        rows.retain(|row| {
            let connection = &row.connection;
            let is_selected = self.narrower.as_ref().is_none_or(|filter| {
                filter.matches(&connection.sample, connection.process.as_ref(), &connection.namespace)
            });
            is_selected && (self.closed_too || connection.closed_ns.is_none())
        });
        let of = |row: &Shown| {
            let info = &row.connection.sample.info;
            match self.order {
                Order::Rate => row.rate_bps(),
                Order::RoundTrip => info.rtt_us().unwrap_or(0).into(),
                Order::Cwnd => info.snd_cwnd().unwrap_or(0).into(),
                Order::Retransmitted => info.total_retrans().unwrap_or(0).into(),
                Order::Process => 0.0,
            }
        };
        rows.sort_by(|a, b| {
            let by_name = if self.order == Order::Process {
                a.process().cmp(b.process())
            } else {
                std::cmp::Ordering::Equal
            };
            by_name
                .then(of(b).total_cmp(&of(a)))
                .then(a.connection.sample.cookie.cmp(&b.connection.sample.cookie))
        });
        self.rows = rows;
        let again = self.rows.iter().position(|row| Some(row.connection.sample.cookie) == selected);
        self.selected = again.unwrap_or(self.selected).min(self.rows.len().saturating_sub(1));
    }

    /// The connection shown in detail, with its last sample.
    pub fn detailed(&self) -> Option<&Shown> {
        let Mode::Detail(cookie) = self.mode else { return None };
        self.rows.iter().find(|row| row.connection.sample.cookie == cookie)
    }

    /// Processes a key. Returns whether the user quits.
    pub fn key(&mut self, key: KeyEvent) -> bool {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return true;
        }
        match &mut self.mode {
            Mode::Search(..) => self.search_key(key.code),
            Mode::Help => self.mode = Mode::Table,
            Mode::Detail(_) => match key.code {
                KeyCode::Char('q') | KeyCode::F(10) => return true,
                KeyCode::Char(' ') => self.paused = !self.paused,
                KeyCode::Esc | KeyCode::Enter | KeyCode::Backspace | KeyCode::Left => self.mode = Mode::Table,
                _ => {}
            },
            Mode::Table => return self.table_key(key.code),
        }
        false
    }

    fn table_key(&mut self, code: KeyCode) -> bool {
        let last = self.rows.len().saturating_sub(1);
        match code {
            KeyCode::Char('q') | KeyCode::F(10) => return true,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.mode = Mode::Help,
            KeyCode::Char('/') | KeyCode::F(3 | 4) => {
                self.mode = Mode::Search(self.narrower_text.clone(), None)
            }
            KeyCode::Char('s' | '>') | KeyCode::F(6) => self.sort_by(1),
            KeyCode::Char('<') => self.sort_by(Order::ALL.len() - 1),
            KeyCode::Char('c') => self.closed_too = !self.closed_too,
            KeyCode::Char(' ') => self.paused = !self.paused,
            KeyCode::Up | KeyCode::Char('k') => self.selected = self.selected.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.selected = (self.selected + 1).min(last),
            KeyCode::PageUp => self.selected = self.selected.saturating_sub(PAGE_ROWS),
            KeyCode::PageDown => self.selected = (self.selected + PAGE_ROWS).min(last),
            KeyCode::Home | KeyCode::Char('g') => self.selected = 0,
            KeyCode::End | KeyCode::Char('G') => self.selected = last,
            KeyCode::Enter => {
                if let Some(row) = self.rows.get(self.selected) {
                    self.mode = Mode::Detail(row.connection.sample.cookie);
                }
            }
            _ => {}
        }
        false
    }

    fn sort_by(&mut self, step: usize) {
        let at = Order::ALL.iter().position(|order| *order == self.order).unwrap_or(0);
        self.order = Order::ALL[(at + step) % Order::ALL.len()];
        let rows = std::mem::take(&mut self.rows);
        self.show(rows);
        self.selected = 0;
    }

    fn search_key(&mut self, code: KeyCode) {
        let Mode::Search(text, wrong) = &mut self.mode else { return };
        match code {
            KeyCode::Char(c) => text.push(c),
            KeyCode::Backspace => drop(text.pop()),
            KeyCode::Esc => self.mode = Mode::Table,
            KeyCode::Enter => match Filter::parse(text) {
                Ok(filter) => {
                    self.narrower_text = std::mem::take(text);
                    self.narrower = Some(filter);
                    self.mode = Mode::Table;
                    let rows = std::mem::take(&mut self.rows);
                    self.show(rows);
                }
                Err(error) => *wrong = Some(error.message),
            },
            _ => {}
        }
    }
}
