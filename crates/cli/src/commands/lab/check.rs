//! `longfat lab check`: what this machine supports, and how to enable what is missing.

use lab::{Check, CheckState};

use crate::{exit::Exit, output};

/// Runs the command; exit code 4 if labs cannot run.
pub fn run(json: bool) -> anyhow::Result<()> {
    let check = lab::check().map_err(experiment::Error::from)?;
    if json {
        output::json(&check)?;
    } else {
        output::prose(&text(&check))?;
    }
    if check.can_run { Ok(()) } else { Err(Exit::Missing("labs cannot run on this machine".into()).into()) }
}

fn text(check: &Check) -> String {
    let width = check.items.iter().map(|item| item.name.len()).max().unwrap_or(0);
    let mut lines: Vec<String> = Vec::new();
    for item in &check.items {
        let state = match item.state {
            CheckState::Ok => "ok",
            CheckState::Limited => "limited",
            CheckState::Missing => "missing",
        };
        lines.push(format!("{state:<7}  {:<width$}  {}", item.name, item.found));
        if let Some(remedy) = &item.remedy {
            lines.push(format!("{:<7}  {:<width$}  -> {remedy}", "", ""));
        }
    }
    lines.push(if check.can_run { "Labs can run here." } else { "Labs cannot run here." }.into());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use lab::CheckItem;

    use super::*;

    #[test]
    fn each_item_has_a_line_and_a_remedy() {
        let item = |name, state, remedy: Option<&str>| CheckItem {
            name,
            state,
            found: "found".into(),
            remedy: remedy.map(Into::into),
        };
        let items = vec![
            item("kernel", CheckState::Ok, None),
            item("tap ports", CheckState::Limited, Some("do this")),
        ];
        let check = Check { schema: "longfat.check/1", can_run: true, items, turnaround: None };
        let expected = "ok       kernel     found\n\
                        limited  tap ports  found\n                    -> do this\n\
                        Labs can run here.";
        assert_eq!(text(&check), expected);
    }
}
