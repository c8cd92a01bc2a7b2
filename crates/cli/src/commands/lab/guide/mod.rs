//! `longfat lab guide`: a lab sheet step by step, with a check of each result.

mod checks;
mod sheets;

use std::{
    io::{BufRead, IsTerminal},
    path::PathBuf,
};

use anyhow::Context;
use clap::Args;
use lab::StandingLab;

use super::{
    shell::{Editor, Line, Next, Shell, end_on_signals},
    standing::{self, UpArgs, free_name},
};
use crate::{commands::bdp, exit::Exit, output};
use checks::{Verdict, check};
use sheets::{Check, NETWORK, SHEETS, Sheet, Step};

/// Options of `lab guide`.
#[derive(Debug, Args)]
pub struct GuideArgs {
    /// The sheet: lab8 (buffers and the bandwidth-delay product) or lab13 (segment size and loss)
    sheet: String,
    /// Execute and check all steps without waiting for a user
    #[arg(long)]
    auto: bool,
    /// Length of the guide's own throughput measurements, in seconds
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
}

const COMMANDS: &str = "next checks the step; do executes its commands; again shows it; skip; help; exit; or type any command of `lab shell`";

/// Runs the command: brings the sheet's network up, and down at the end.
pub fn run(args: &GuideArgs) -> anyhow::Result<()> {
    let sheet = sheets::find(&args.sheet).ok_or_else(|| {
        let names: Vec<&str> = SHEETS.iter().map(|sheet| sheet.name).collect();
        Exit::BadInput(format!("no sheet {}; there are {}", args.sheet, names.join(", ")))
    })?;
    let lab = bring_up(sheet)?;
    let at_prompt = !args.auto && std::io::stdin().is_terminal();
    end_on_signals(&lab, true, at_prompt)?;
    let result = Guide::new(sheet, &lab, args.seconds).and_then(|mut guide| match args.auto {
        true => guide.run_all(),
        false => guide.run_interactively(at_prompt),
    });
    standing::end(&lab)?;
    result
}

/// Brings the network up, under the sheet's name, or a similar one if a lab of that name is up.
fn bring_up(sheet: &Sheet) -> anyhow::Result<StandingLab> {
    let directory = std::env::temp_dir().join(format!("longfat-guide-{}", std::process::id()));
    std::fs::create_dir(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let file: PathBuf = directory.join(format!("{}.toml", sheet.name));
    let started = output::file(&file, NETWORK).and_then(|()| {
        let mut args = UpArgs::of(&file);
        args.name = Some(free_name(sheet.name, &standing::names()?));
        standing::start(&args)
    });
    // The lab has already read the file.
    let _ = std::fs::remove_dir_all(&directory);
    standing::find(Some(&started?))
}

struct Guide<'a> {
    sheet: &'a Sheet,
    lab: &'a StandingLab,
    shell: Shell,
    seconds: u32,
    /// Number of steps whose figure is inconclusive, because this machine was too slow or too busy.
    inconclusive: usize,
}

impl<'a> Guide<'a> {
    fn new(sheet: &'a Sheet, lab: &'a StandingLab, seconds: u32) -> anyhow::Result<Self> {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        output::prose(&format!("{} ({} steps), on Linux {}", sheet.title, sheet.steps.len(), kernel.trim()))?;
        output::prose(&format!(
            "Its network is up as lab {0} until the guide ends. From another terminal:\n    \
             longfat lab exec --lab {0} h1 -- ping h2\n    longfat watch --lab {0} --host h1",
            lab.name
        ))?;
        Ok(Guide { sheet, lab, shell: Shell::new(lab.clone())?, seconds, inconclusive: 0 })
    }

    fn run_all(&mut self) -> anyhow::Result<()> {
        let mut failed = Vec::new();
        for (i, step) in self.sheet.steps.iter().enumerate() {
            self.show(i)?;
            // The check itself measures the throughput.
            if !matches!(step.check, Check::Throughput { .. }) {
                self.execute(step)?;
            }
            if !self.passes(step)? {
                failed.push(step.title);
            }
        }
        match (failed.is_empty(), self.inconclusive) {
            (true, 0) => output::text(&format!("All {} steps are done.", self.sheet.steps.len())),
            (true, n) => output::prose(&format!(
                "All {} steps are done; {n} inconclusive, because this machine was too slow or too busy.",
                self.sheet.steps.len()
            )),
            (false, _) => Err(Exit::Failed(format!("not done: {}", failed.join(", "))).into()),
        }
    }

    fn run_interactively(&mut self, at_prompt: bool) -> anyhow::Result<()> {
        let mut editor = at_prompt.then(|| self.shell.status().and_then(|s| Editor::open(&s))).transpose()?;
        // The editor locks standard input itself if it cannot edit lines (TERM=dumb).
        let mut lines = editor.is_none().then(|| std::io::stdin().lock().lines());
        output::prose(&wrap(COMMANDS))?;
        for (i, step) in self.sheet.steps.iter().enumerate() {
            self.show(i)?;
            loop {
                let line = match &mut editor {
                    Some(editor) => match editor.read(&format!("{} {}> ", self.lab.name, i + 1))? {
                        Line::Text(line) => line,
                        Line::Interrupted => continue,
                        Line::End => return Ok(()),
                    },
                    None => match lines.as_mut().and_then(Iterator::next) {
                        Some(line) => line.context("cannot read commands")?,
                        None => return Err(Exit::Failed(format!("ended at step {}", i + 1)).into()),
                    },
                };
                match line.trim() {
                    "next" | "check" if self.passes(step)? => break,
                    "next" | "check" => {}
                    "again" => self.show(i)?,
                    "do" => self.execute(step)?,
                    "skip" => break,
                    "help" | "?" => {
                        output::prose(&wrap(COMMANDS))?;
                        self.shell.execute_and_report("help");
                    }
                    // Pasted text can have several lines.
                    text if text.lines().any(|line| self.shell.execute_and_report(line) == Next::Exit) => {
                        return Ok(());
                    }
                    _ => {}
                }
            }
        }
        match self.inconclusive {
            0 => output::text("This was the last step."),
            n => output::prose(&format!(
                "This was the last step. {n} inconclusive, because this machine was too slow or too busy. Its simulation does not \
                 depend on that:\n    longfat run {} --engine model,sim",
                self.sheet.name
            )),
        }
    }

    fn show(&self, index: usize) -> anyhow::Result<()> {
        let step = &self.sheet.steps[index];
        let mut text = format!("\n== Step {} of {}: {}\n", index + 1, self.sheet.steps.len(), step.title);
        text += &wrap(step.why);
        text += "\nType:";
        step.commands.iter().for_each(|command| text += &format!("\n    {command}"));
        output::text(&text)
    }

    /// Executes the step's commands as if they were typed.
    fn execute(&mut self, step: &Step) -> anyhow::Result<()> {
        for command in step.commands {
            output::text(&format!("{}> {command}", self.lab.name))?;
            self.shell.execute_and_report(command);
        }
        Ok(())
    }

    /// Checks the step and prints the result.
    fn passes(&mut self, step: &Step) -> anyhow::Result<bool> {
        let (result, passes) = match check(self.lab, &step.check, self.seconds)? {
            Verdict::Done(found) => (format!("ok: {found}"), true),
            Verdict::Inconclusive(found) => {
                self.inconclusive += 1;
                (format!("inconclusive: {found}"), true)
            }
            Verdict::NotYet(missing) => (format!("not yet: {missing}"), false),
        };
        output::text(&wrap(&result))?;
        if passes {
            output::text(&wrap(step.learnt))?;
        }
        Ok(passes)
    }
}

/// Text in lines of at most 80 columns, or as wide as the terminal.
fn wrap(text: &str) -> String {
    bdp::wrap(text, output::line_length(80)).join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lab_of_a_guide_has_the_name_of_its_sheet() {
        let name =
            |taken: &[&str]| free_name("lab8", &taken.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(name(&["lab13"]), "lab8");
        assert_eq!(name(&["lab8", "lab8-3"]), "lab8-2");
        assert_eq!(name(&["lab8", "lab8-2"]), "lab8-3");
    }

    #[test]
    fn text_is_wrapped_but_commands_are_not() {
        let text = wrap(&"word ".repeat(40));
        assert!(text.lines().count() == 3 && text.lines().all(|line| line.len() <= 80));
    }
}
