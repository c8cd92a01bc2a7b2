//! How a kernel's build is going: one line that is redrawn on a terminal, a line now and then elsewhere.

use std::{
    io::IsTerminal,
    time::{Duration, Instant},
};

use guest::{Progress, Stage};
use indicatif::ProgressBar;
use units::group_digits;

use crate::{output, progress::set_style};

/// How often a line is written where there is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(60);

/// The line.
pub struct ProgressLine {
    bar: Option<ProgressBar>,
    stage: Option<Stage>,
    last_line: Instant,
}

impl ProgressLine {
    /// A line that shows nothing yet.
    pub fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(ProgressBar::no_length);
        ProgressLine { bar, stage: None, last_line: Instant::now() }
    }

    /// Shows how far the build is.
    pub fn show(&mut self, progress: &Progress) {
        let is_new = self.stage.replace(progress.stage) != Some(progress.stage);
        let text = text(progress);
        if let Some(bar) = &self.bar {
            if is_new {
                set_style(bar, template(progress));
                bar.set_position(0);
            }
            bar.set_length(progress.total);
            bar.set_position(progress.done);
            bar.set_message(text);
        } else if is_new || (progress.total > 0 && self.last_line.elapsed() >= LINE_INTERVAL) {
            self.last_line = Instant::now();
            output::note(&text);
        }
    }

    /// Takes the line away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn template(progress: &Progress) -> &'static str {
    match progress.total {
        0 => "{msg}",
        _ => "{bar:20} {msg}",
    }
}

fn text(progress: &Progress) -> String {
    let Progress { stage, done, total } = *progress;
    match stage {
        Stage::PackageLists => "reading package lists".into(),
        Stage::Download if total == 0 => "getting the source package".into(),
        Stage::Download => {
            format!("getting the source package: {} of {} MB", done / 1_000_000, total / 1_000_000)
        }
        Stage::Unpack => "unpacking the source".into(),
        Stage::Configure => "configuring".into(),
        Stage::Compile => {
            format!("compiling: {} of about {} files", group_digits(done), group_digits(total))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_named_with_their_units() {
        let text = |stage, done, total| text(&Progress { stage, done, total });
        assert_eq!(
            text(Stage::Download, 12_345_678, 139_331_676),
            "getting the source package: 12 of 139 MB"
        );
        assert_eq!(text(Stage::Compile, 812, 1280), "compiling: 812 of about 1,280 files");
    }
}
