//! Line editing at the prompt, with a history that is kept between sessions.

use std::{fs, os::unix::fs::DirBuilderExt, path::PathBuf};

use anyhow::Context;
use lab::standing::Status;
use rustyline::{
    CompletionType, Config, Helper,
    completion::{Completer, FilenameCompleter, Pair},
    error::ReadlineError,
    highlight::Highlighter,
    hint::Hinter,
    history::FileHistory,
    validate::Validator,
};

use super::completion::{Suggestions, Words};

/// Maximum number of lines kept in the history.
const MAX_HISTORY_LINES: usize = 1000;

/// A line of input, or the key that ended it.
#[derive(Debug)]
pub enum Line {
    /// A line.
    Text(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or the terminal was closed.
    End,
}

/// A line editor.
pub struct Editor {
    editor: rustyline::Editor<LabHelper, FileHistory>,
    /// `None` if no history can be kept.
    history: Option<PathBuf>,
}

impl Editor {
    /// An editor that completes the names of this lab.
    pub fn open(status: &Status) -> anyhow::Result<Self> {
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .max_history_size(MAX_HISTORY_LINES)
            .and_then(|config| config.history_ignore_dups(true))
            .context("cannot use this terminal")?
            .build();
        let mut editor = rustyline::Editor::with_config(config).context("cannot use this terminal")?;
        editor.set_helper(Some(LabHelper { words: Words::of(status), files: FilenameCompleter::new() }));
        let history = history_file();
        if let Some(file) = &history {
            // The file does not exist before the first session.
            let _ = editor.load_history(file);
        }
        Ok(Editor { editor, history })
    }

    /// Reads a line and adds it to the history.
    pub fn read(&mut self, prompt: &str) -> anyhow::Result<Line> {
        match self.editor.readline(prompt) {
            Ok(line) => {
                let _ = self.editor.add_history_entry(&line);
                // A full disk must not stop the lab; the history of this session remains.
                if let Some(file) = &self.history {
                    let _ = self.editor.append_history(file);
                }
                Ok(Line::Text(line))
            }
            Err(ReadlineError::Interrupted) => Ok(Line::Interrupted),
            Err(ReadlineError::Eof) => Ok(Line::End),
            Err(e) => Err(e).context("cannot read from this terminal"),
        }
    }
}

/// `$XDG_STATE_HOME/longfat/lab-history` (XDG Base Directory Specification), if its directory can be created.
fn history_file() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    let directory = state.join("longfat");
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory).ok()?;
    Some(directory.join("lab-history"))
}

struct LabHelper {
    words: Words,
    files: FilenameCompleter,
}

impl Completer for LabHelper {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        position: usize,
        context: &rustyline::Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        match self.words.suggest(&line[..position]) {
            Suggestions::Words { start, words } if !words.is_empty() => {
                let pair = |word: String| Pair { replacement: format!("{word} "), display: word };
                Ok((start, words.into_iter().map(pair).collect()))
            }
            Suggestions::Words { .. } => Ok((position, Vec::new())),
            Suggestions::Files => self.files.complete(line, position, context),
        }
    }
}

impl Hinter for LabHelper {
    type Hint = String;
}
impl Highlighter for LabHelper {}
impl Validator for LabHelper {}
impl Helper for LabHelper {}
