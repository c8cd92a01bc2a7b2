//! The live view: connections ranked, with what limits each; one in detail; keys as in top and htop.

mod detail;
mod draw;
mod state;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, time::Duration};

use anyhow::Context;
use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event, KeyEventKind},
};
use watch::{Cookie, Watcher};

use self::state::State;
use super::trail::Trail;

/// The terminal, until it is closed or dropped.
pub struct Screen {
    terminal: DefaultTerminal,
    state: State,
    open: bool,
}

impl Screen {
    /// Takes the terminal.
    pub fn open(filter: &str, interval: Duration) -> anyhow::Result<Self> {
        let terminal = ratatui::try_init().context("cannot draw on this terminal; --lines does without")?;
        Ok(Screen { terminal, state: State::new(filter, interval), open: true })
    }

    /// Reads keys and draws; whether the user wants to leave.
    pub fn step(&mut self, watcher: &Watcher, trails: &BTreeMap<Cookie, Trail>) -> anyhow::Result<bool> {
        while event::poll(Duration::ZERO).context("cannot read keys")? {
            if let Event::Key(key) = event::read().context("cannot read keys")?
                && key.kind != KeyEventKind::Release
                && self.state.key(key)
            {
                return Ok(true);
            }
        }
        self.state.see(watcher, trails);
        let state = &self.state;
        self.terminal.draw(|frame| draw::draw(frame, state)).context("cannot draw on this terminal")?;
        Ok(false)
    }

    /// Gives the terminal back.
    pub fn close(mut self) {
        self.restore();
    }

    fn restore(&mut self) {
        if std::mem::take(&mut self.open) {
            ratatui::restore();
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.restore();
    }
}
