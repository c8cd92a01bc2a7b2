//! The live view: connections ranked with their limits, or one in detail; keys as in top and htop.

mod detail;
mod draw;
mod state;
#[cfg(test)]
mod tests;

use std::time::Duration;

use anyhow::Context;
use measurement::watched::Trails;
use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event, KeyEventKind},
};
use watch::Watcher;

use self::state::State;

/// The terminal in raw mode. `close` and `drop` restore it.
pub struct Screen {
    terminal: DefaultTerminal,
    state: State,
    open: bool,
}

impl Screen {
    /// Sets the terminal up.
    pub fn open(filter: &str, interval: Duration) -> anyhow::Result<Self> {
        let terminal = ratatui::try_init().context("cannot draw on this terminal; use --lines")?;
        Ok(Screen { terminal, state: State::new(filter, interval), open: true })
    }

    /// Reads keys and draws. Returns whether the user quits.
    pub fn step(&mut self, watcher: &Watcher, trails: &Trails) -> anyhow::Result<bool> {
        while event::poll(Duration::ZERO).context("cannot read keys")? {
            if let Event::Key(key) = event::read().context("cannot read keys")?
                && key.kind != KeyEventKind::Release
                && self.state.key(key)
            {
                return Ok(true);
            }
        }
        self.state.update(watcher, trails);
        let state = &self.state;
        self.terminal.draw(|frame| draw::draw(frame, state)).context("cannot draw on this terminal")?;
        Ok(false)
    }

    /// Restores the terminal.
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
