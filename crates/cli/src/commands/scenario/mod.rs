//! `longfat scenario`: lists, shows, checks and writes scenario files.

pub mod args;
mod import;
mod text;

use std::path::PathBuf;

use experiment::{
    Error, FileSummary, built_in,
    scenario_file::{parse, read_text},
    validate,
};
use serde_json::{Value, json};

use self::args::{NewArgs, ScenarioCommand, ShowArgs, ValidateArgs};
use crate::{
    exit::{self, Exit},
    open::print_note,
    output,
};

/// Runs the command.
pub fn run(command: &ScenarioCommand, json: bool) -> anyhow::Result<()> {
    match command {
        ScenarioCommand::List => list(json),
        ScenarioCommand::Show(args) => show(args, json),
        ScenarioCommand::Validate(args) => check(args, json),
        ScenarioCommand::New(args) => new(args, json),
        ScenarioCommand::Import(args) => import::run(args, json),
    }
}

fn list(json: bool) -> anyhow::Result<()> {
    let titled = built_in::BUILT_IN.iter().map(|one| Ok((one, one.parse()?.title().to_owned())));
    let titled = titled.collect::<Result<Vec<_>, scenario::Error>>().map_err(Error::from)?;
    if !json {
        return output::prose(&text::list(&titled));
    }
    let of = |(one, title): &(&built_in::BuiltIn, String)| json!({ "name": one.name, "collection": one.collection.name(), "title": title });
    let scenarios: Vec<Value> = titled.iter().map(of).collect();
    output::json(&json!({ "schema": "longfat.scenarios/1", "scenarios": scenarios }))
}

fn show(args: &ShowArgs, json: bool) -> anyhow::Result<()> {
    let toml = read_text(&args.file)?;
    if json { output::json(&json!({ "file": args.file, "toml": toml })) } else { output::text(&toml) }
}

fn check(args: &ValidateArgs, json: bool) -> anyhow::Result<()> {
    let files = args.files.iter();
    let checked: Vec<_> = files.map(|path| (path, validate(path, |note| print_note(path, note)))).collect();
    let invalid = checked.iter().filter(|(_, result)| result.is_err()).count();
    if json {
        let of = |result: &Result<FileSummary, Vec<Error>>| match result {
            Ok(summary) => json!({ "ok": true, "summary": summary, "mistakes": [] }),
            Err(errors) => json!({ "ok": false, "summary": null, "mistakes": mistakes(errors) }),
        };
        let files = checked.iter().map(|(path, result)| {
            let mut file = of(result);
            file["file"] = json!(path);
            file
        });
        let files: Vec<Value> = files.collect();
        output::json(&json!({ "schema": "longfat.validate/1", "files": files }))?;
        // The document contains the mistakes.
        return if invalid == 0 { Ok(()) } else { Err(Exit::Child(exit::BAD_INPUT.into()).into()) };
    }
    for (path, result) in checked {
        match result {
            Ok(summary) => output::prose(&text::valid(path, &summary))?,
            Err(errors) => errors.into_iter().for_each(|error| {
                exit::report(&error.into(), false);
            }),
        }
    }
    match invalid {
        0 => Ok(()),
        _ => Err(Exit::BadInput(text::invalid(invalid, args.files.len())).into()),
    }
}

/// The mistakes, one line each.
fn mistakes(errors: &[Error]) -> Vec<String> {
    let lines = |error: &Error| match error {
        Error::Scenario(mistakes) => mistakes.mistakes().iter().map(scenario::Mistake::line).collect(),
        other => vec![experiment::error::chain(other)],
    };
    errors.iter().flat_map(lines).collect()
}

fn new(args: &NewArgs, json: bool) -> anyhow::Result<()> {
    let output = args.file.as_ref().or(args.output.as_ref());
    let toml = match &args.template {
        Some(template) => match built_in::find(template) {
            Some(one) => one.text.to_owned(),
            None => {
                let near = built_in::names_near(&template.to_string_lossy());
                let near = near[..near.len().min(3)].join(", ");
                return Err(Exit::BadInput(format!(
                    "there is no built-in scenario {}; nearest names: {near}; `longfat scenario list` has all",
                    template.display()
                ))
                .into());
            }
        },
        None => {
            let path = args.path.path();
            let toml = path.to_toml();
            // Figures outside the range of their keys are reported here, not when the file is run.
            parse(output.map_or(format!("{}.toml", path.name()).as_ref(), PathBuf::as_path), &toml)?;
            toml
        }
    };
    let Some(output) = output else {
        return if json { output::json(&json!({ "toml": toml })) } else { output::text(&toml) };
    };
    if output.exists() && !args.force {
        let why = format!("{} exists; replace it with --force, or choose another name", output.display());
        return Err(Exit::BadInput(why).into());
    }
    output::file(output, &toml)?;
    if json {
        return output::json(&json!({ "written": output }));
    }
    output::text(&format!("wrote {0}; run it with: longfat run {0} --engine sim", output.display()))
}
