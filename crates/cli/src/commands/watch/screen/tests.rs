//! Draws the live view on a test backend.

use std::time::Duration;

use ratatui::{
    Terminal,
    backend::TestBackend,
    crossterm::event::{KeyCode, KeyEvent},
};
use schema::Cause;
use watch::{
    ConnectionCounters, Process, SocketAddresses, SocketCookie, SocketSample, TcpInfo, TrackedConnection,
};

use super::{
    draw,
    state::{Mode, Order, Shown, State},
};

fn shown(number: u64, rate: f64, verdict: Option<Cause>) -> Shown {
    let mut bytes = [0u8; 280];
    let cwnd = 10 * number as u32;
    let fields =
        [(80, cwnd), (76, 0x7fff_ffff), (68, 20_000), (16, 1448), (24, 7), (100, 3), (156, 9), (140, 9)];
    for (at, value) in fields {
        bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }
    let info = TcpInfo::from_bytes(&bytes);
    let mut counters = ConnectionCounters::new(false);
    counters.add_sample(0, &info);
    counters.add_sample(1_500_000_000, &info);
    let sample = SocketSample {
        cookie: SocketCookie(number),
        addresses: SocketAddresses {
            local: format!("10.0.0.{number}:40000").parse().unwrap(),
            peer: "10.0.9.9:5201".parse().unwrap(),
        },
        state: watch::SocketState::ESTABLISHED,
        uid: 0,
        inode: 1,
        rqueue_bytes: 0,
        wqueue_bytes: 10_136,
        tos: Some(0),
        congestion: Some("cubic".into()),
        congestion_info: None,
        memory: None,
        info,
    };
    let connection = TrackedConnection {
        namespace: if number == 2 { "h1".into() } else { String::new() },
        process: Some(Process { pid: 70 + number as u32, name: "iperf3".into() }),
        sample,
        sampled_ns: 1_500_000_000,
        first_seen_ns: 0,
        closed_ns: None,
        rates_bps: Some((rate, 0.0)),
        counters,
        clocks: None,
        limits: None,
    };
    let mut shown = Shown::of(&connection, None);
    shown.verdict = verdict;
    if let Some(cause) = verdict {
        *shown.limited.share_mut(cause) = 0.9;
        *shown.limited.share_mut(Cause::SlowStart) = 0.1;
    }
    shown.rate = vec![0, 1, 2, 3, 4, 5, 6, 7];
    shown.cwnd = vec![10, 20, 40, 80, 40, 44, 48];
    shown.round_trip = vec![20_000; 4];
    shown
}

fn state() -> State {
    let mut state = State::new("port 5201", Duration::from_millis(100));
    state.sampled_by = "eBPF";
    state.show(vec![
        shown(1, 5e6, Some(Cause::Loss)),
        shown(2, 9.4e9, Some(Cause::ReceiveWindow)),
        shown(3, 0.0, None),
    ]);
    state
}

fn drawn(state: &State, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw::draw(frame, state)).unwrap();
    terminal.backend().to_string()
}

fn press(state: &mut State, codes: &[KeyCode]) -> bool {
    codes.iter().any(|code| state.key(KeyEvent::from(*code)))
}

fn typed(text: &str) -> Vec<KeyCode> {
    text.chars().map(KeyCode::Char).collect()
}

#[test]
fn the_table_ranks_by_rate() {
    insta::assert_snapshot!(drawn(&state(), 150, 8));
}

#[test]
fn a_narrow_terminal_drops_whole_columns_and_never_a_port() {
    for (width, headers) in [
        (110, "PROCESS RATE CWND RTT RESENT LIMITED BY"),
        (80, "RATE RTT RESENT LIMITED BY"),
        (50, "RATE"),
        (20, ""),
    ] {
        let screen = drawn(&state(), width, 8);
        let lines: Vec<&str> = screen.lines().collect();
        let head = lines[1].trim_matches(['"', ' ']);
        let shown = head.split_whitespace().skip(1).collect::<Vec<_>>().join(" ");
        assert_eq!(shown, headers, "{width}: {screen}");
        assert!(lines[2].contains(".9.9:5201"), "{width}: {screen}");
    }
}

#[test]
fn details_of_one_connection() {
    let mut state = state();
    press(&mut state, &[KeyCode::Enter]);
    insta::assert_snapshot!(drawn(&state, 130, 40));
    press(&mut state, &[KeyCode::Esc]);
    assert_eq!(state.mode, Mode::Table);
}

#[test]
fn details_are_broken_into_lines_on_a_narrow_terminal() {
    let mut state = state();
    press(&mut state, &[KeyCode::Enter]);
    let screen = drawn(&state, 50, 40);
    for end in ["retransmitted", "watched for 1.500 s", "q quit"] {
        assert!(screen.contains(end), "{end} in {screen}");
    }
}

#[test]
fn help_is_drawn_over_the_table() {
    let mut state = state();
    press(&mut state, &typed("?"));
    insta::assert_snapshot!(drawn(&state, 90, 18));
}

#[test]
fn every_terminal_size_can_be_drawn() {
    let mut state = state();
    for mode in
        [Mode::Table, Mode::Detail(SocketCookie(2)), Mode::Help, Mode::Search("x".into(), Some("y".into()))]
    {
        state.mode = mode;
        for (width, height) in [(1, 1), (2, 30), (200, 2), (20, 5), (80, 24)] {
            drawn(&state, width, height);
        }
    }
}

#[test]
fn keys_move_sort_filter_and_pause() {
    let mut state = state();
    let cookies = |state: &State| state.rows.iter().map(|r| r.connection.sample.cookie.0).collect::<Vec<_>>();
    assert_eq!(cookies(&state), [2, 1, 3]);
    press(&mut state, &[KeyCode::Down, KeyCode::Down, KeyCode::Down]);
    assert_eq!(state.selected, 2);
    // The selected connection stays selected when the ranks change.
    state.show(vec![shown(1, 1.0, None), shown(2, 2.0, None), shown(3, 3.0, None)]);
    assert_eq!((cookies(&state), state.selected), (vec![3, 2, 1], 0));
    press(&mut state, &typed("ss"));
    assert_eq!((state.order, cookies(&state)), (Order::Cwnd, vec![3, 2, 1]));
    press(&mut state, &typed(" "));
    assert!(state.paused);
    press(&mut state, &typed("/namespace h1"));
    press(&mut state, &[KeyCode::Enter]);
    assert_eq!(cookies(&state), [2]);
    press(&mut state, &typed("/ !"));
    press(&mut state, &[KeyCode::Enter]);
    assert!(matches!(&state.mode, Mode::Search(_, Some(wrong)) if !wrong.is_empty()), "{:?}", state.mode);
    press(&mut state, &[KeyCode::Esc]);
    assert!(!press(&mut state, &typed("j")) && press(&mut state, &typed("q")));
}

#[test]
fn a_sparkline_scales_to_the_largest_value() {
    assert_eq!(draw::sparkline(&[0, 1, 7], 10), "▁▂█");
    assert_eq!(draw::sparkline(&[9, 0, 0], 2), "▁▁");
    assert_eq!(draw::sparkline(&[u64::MAX, 0], 9), "█▁");
}
