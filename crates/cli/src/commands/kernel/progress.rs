//! Progress of a kernel build: a progress line on a terminal, occasional lines elsewhere.

use std::{
    io::IsTerminal,
    time::{Duration, Instant},
};

use guest::{BuildProgress, BuildStage};
use indicatif::ProgressBar;
use units::group_digits;

use crate::{output, progress::set_style};

/// Interval of lines without a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(60);

/// The progress line.
pub struct ProgressLine {
    bar: Option<ProgressBar>,
    stage: Option<BuildStage>,
    last_line: Instant,
}

impl ProgressLine {
    /// An empty progress line.
    pub fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(ProgressBar::no_length);
        ProgressLine { bar, stage: None, last_line: Instant::now() }
    }

    /// Shows the progress of the build.
    pub fn show(&mut self, progress: &BuildProgress) {
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

    /// Removes the line.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn template(progress: &BuildProgress) -> &'static str {
    match progress.total {
        0 => "{msg}",
        _ => "{bar:20} {msg}",
    }
}

fn text(progress: &BuildProgress) -> String {
    let BuildProgress { stage, done, total } = *progress;
    match stage {
        BuildStage::PackageLists => "reading package lists".into(),
        BuildStage::Download if total == 0 => "downloading the source package".into(),
        BuildStage::Download => {
            format!("downloading the source package: {} of {} MB", done / 1_000_000, total / 1_000_000)
        }
        BuildStage::Unpack => "unpacking the source".into(),
        BuildStage::Configure => "configuring".into(),
        BuildStage::Compile => {
            format!("compiling: {} of about {} files", group_digits(done), group_digits(total))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_named_with_their_units() {
        let text = |stage, done, total| text(&BuildProgress { stage, done, total });
        assert_eq!(
            text(BuildStage::Download, 12_345_678, 139_331_676),
            "downloading the source package: 12 of 139 MB"
        );
        assert_eq!(text(BuildStage::Compile, 812, 1280), "compiling: 812 of about 1,280 files");
    }
}
