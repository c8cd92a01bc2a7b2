//! `longfat completions`: scripts that call this program for completions, and their installation.

use std::{
    collections::BTreeSet,
    env,
    ffi::{OsStr, OsString},
    fs,
    os::unix::process::parent_id,
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::{Args, Command, ValueEnum};
use clap_complete::{
    CompleteEnv,
    engine::{CompletionCandidate, PathCompleter, ValueCompleter},
    env::{EnvCompleter, Shells},
};
use experiment::built_in::BUILT_IN;
use serde_json::json;

use crate::{config_file::Config, exit::Exit, output};

/// Environment variable that the scripts set when they request completions.
const VARIABLE: &str = "LONGFAT_COMPLETE";

/// Options of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell whose script is printed; or `install`: write the script to your own directory
    #[arg(value_name = "SHELL")]
    target: Target,
    /// With `install`: the shell [default: the running one]
    #[arg(value_name = "SHELL")]
    shell: Option<ShellName>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Target {
    Bash,
    Elvish,
    Fish,
    Powershell,
    Zsh,
    Install,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ShellName {
    Bash,
    Fish,
    Zsh,
}

/// Prints completions and exits, if a shell's script requests them.
pub fn complete_if_requested(command: fn() -> Command) {
    CompleteEnv::with_factory(command).var(VARIABLE).complete();
}

/// Prints or installs a script.
pub fn run(args: &CompletionsArgs, command: &Command, json: bool) -> anyhow::Result<()> {
    let name = match args.target {
        Target::Install => return install(args.shell, command, json),
        Target::Bash => "bash",
        Target::Elvish => "elvish",
        Target::Fish => "fish",
        Target::Powershell => "powershell",
        Target::Zsh => "zsh",
    };
    if args.shell.is_some() {
        let message = "a second shell is only allowed after `install`";
        return Err(Exit::BadInput(message.into()).into());
    }
    let script = script(name, command)?;
    if json { output::json(&json!({ "document": script })) } else { output::text(&script) }
}

/// The script of a shell.
fn script(shell: &str, command: &Command) -> anyhow::Result<String> {
    let shells = Shells::builtins();
    let completer: &dyn EnvCompleter =
        shells.completer(shell).with_context(|| format!("there are no completions for {shell}"))?;
    let name = command.get_name();
    let mut script = Vec::new();
    completer.write_registration(VARIABLE, name, name, name, &mut script)?;
    Ok(String::from_utf8_lossy(&script).into_owned())
}

/// Writes the script to the directory of this user from which the shell loads completions.
fn install(shell: Option<ShellName>, command: &Command, json: bool) -> anyhow::Result<()> {
    let shell = shell.or_else(running_shell).ok_or_else(|| {
        Exit::BadInput("cannot detect the running shell; name it: longfat completions install bash".into())
    })?;
    let home = env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let home = home.ok_or_else(|| Exit::BadInput("cannot install completions: HOME is not set".into()))?;
    let base = |variable: &str, default: &str| {
        let set = env::var_os(variable).filter(|value| Path::new(value).is_absolute());
        set.map_or_else(|| home.join(default), PathBuf::from)
    };
    let (name, path, next) = match shell {
        ShellName::Bash => {
            let path = base("XDG_DATA_HOME", ".local/share").join("bash-completion/completions/longfat");
            ("bash", path, "Open a new shell (it needs the package bash-completion).".to_owned())
        }
        ShellName::Fish => {
            let path = base("XDG_CONFIG_HOME", ".config").join("fish/completions/longfat.fish");
            ("fish", path, "Open a new shell.".to_owned())
        }
        ShellName::Zsh => {
            let directory = base("XDG_DATA_HOME", ".local/share").join("zsh/site-functions");
            let next = format!(
                "If ~/.zshrc does not have it yet, add before compinit: fpath=({} $fpath)",
                directory.display()
            );
            ("zsh", directory.join("_longfat"), next)
        }
    };
    let script = script(name, command)?;
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    output::file(&path, script)?;
    match json {
        true => output::json(&json!({ "shell": name, "written": path })),
        false => output::text(&format!("Completions for {name} written to {}.\n{next}", path.display())),
    }
}

/// The shell that started this program, else the user's login shell.
fn running_shell() -> Option<ShellName> {
    let parent = fs::read_to_string(format!("/proc/{}/comm", parent_id())).unwrap_or_default();
    let login = env::var("SHELL").unwrap_or_default();
    let by_name = |path: &str| {
        let name = Path::new(path.trim()).file_name()?.to_str()?.trim_start_matches('-');
        ShellName::from_str(name, false).ok()
    };
    by_name(&parent).or_else(|| by_name(&login))
}

/// Completes a RUN argument: ids and `last`; after a scenario's name and a slash its runs, as `scenario/id`.
pub fn complete_run(typed: &OsStr) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    // A shell shows no errors, so without a list there are no completions.
    let mut names = known_runs();
    names.sort_by(|a, b| b.1.cmp(&a.1));
    let runs = names.into_iter().map(|(scenario, id)| match typed.contains('/') {
        true => CompletionCandidate::new(format!("{scenario}/{id}")),
        false => CompletionCandidate::new(id).help(Some(scenario.into())),
    });
    let last = CompletionCandidate::new("last").help(Some("the newest complete run".into()));
    runs.chain([last]).filter(|candidate| begins(candidate, &typed)).collect()
}

/// Completes like [`complete_run`], and offers `scenario/` for all runs of a scenario.
pub fn complete_runs(typed: &OsStr) -> Vec<CompletionCandidate> {
    let text = typed.to_string_lossy();
    let all = scenarios_on_record().into_iter().map(|name| {
        CompletionCandidate::new(format!("{name}/")).help(Some("all runs of this scenario".into()))
    });
    let all = all.filter(|candidate| begins(candidate, &text));
    complete_run(typed).into_iter().chain(all).collect()
}

/// Completes the name of a scenario that has records.
pub fn scenario_candidates() -> Vec<CompletionCandidate> {
    scenarios_on_record().into_iter().map(CompletionCandidate::new).collect()
}

/// Completes a scenario file: the names of built-in scenarios, and scenario files of the working directory.
pub fn complete_scenario(typed: &OsStr) -> Vec<CompletionCandidate> {
    let text = typed.to_string_lossy();
    let is_scenario =
        |path: &Path| path.extension().is_some_and(|extension| extension == "toml" || extension == "mn");
    let files = PathCompleter::any().filter(is_scenario).complete(typed);
    let built_in = BUILT_IN.iter().map(|one| {
        let title = one.parse().map(|file| file.title().to_owned()).unwrap_or_default();
        CompletionCandidate::new(one.name).help(Some(title.into()))
    });
    files.into_iter().chain(built_in.filter(|candidate| begins(candidate, &text))).collect()
}

fn begins(candidate: &CompletionCandidate, typed: &str) -> bool {
    candidate.get_value().to_string_lossy().starts_with(typed)
}

/// The scenarios that have records, each once.
fn scenarios_on_record() -> BTreeSet<String> {
    known_runs().into_iter().map(|(scenario, _)| scenario).collect()
}

/// The scenario and the id of each record that the command can read; of an object store those in its cache.
fn known_runs() -> Vec<(String, String)> {
    let args: Vec<OsString> = env::args_os().collect();
    let Ok(config) = Config::read() else { return Vec::new() };
    let location = config.runs(given_runs(&args).as_deref()).open();
    location.and_then(|runs| Ok(runs.names()?)).unwrap_or_default()
}

/// The directory of records on the command line that is being completed, or in the environment.
fn given_runs(args: &[OsString]) -> Option<PathBuf> {
    let after = args.iter().position(|arg| arg == "--runs").and_then(|index| args.get(index + 1));
    let joined = args.iter().find_map(|arg| arg.to_str()?.strip_prefix("--runs=")).map(OsStr::new);
    let given = after.map(OsString::as_os_str).or(joined).map(PathBuf::from);
    given.or_else(|| env::var_os("LONGFAT_RUNS").map(PathBuf::from))
}
