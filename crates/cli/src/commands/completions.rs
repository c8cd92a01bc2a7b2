//! `longfat completions`: scripts that call this program for completions, and their installation.

use std::{
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
    engine::CompletionCandidate,
    env::{EnvCompleter, Shells},
};
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

/// The runs for the completion of a RUN argument: ids, `last`, and `scenario/last`.
pub fn run_candidates() -> Vec<CompletionCandidate> {
    // A shell shows no errors: without a list there is nothing to complete.
    let args: Vec<OsString> = env::args_os().collect();
    let runs = Config::read().map(|config| config.runs(given_runs(&args).as_deref())).unwrap_or_default();
    let mut names = record::names(&runs).unwrap_or_default();
    names.sort_by(|a, b| b.1.cmp(&a.1));
    let ids =
        names.into_iter().map(|(scenario, id)| CompletionCandidate::new(id).help(Some(scenario.into())));
    ids.chain([CompletionCandidate::new("last").help(Some("the newest complete run".into()))]).collect()
}

/// The directory of records on the command line that is being completed, or in the environment.
fn given_runs(args: &[OsString]) -> Option<PathBuf> {
    let after = args.iter().position(|arg| arg == "--runs").and_then(|index| args.get(index + 1));
    let joined = args.iter().find_map(|arg| arg.to_str()?.strip_prefix("--runs=")).map(OsStr::new);
    let given = after.map(OsString::as_os_str).or(joined).map(PathBuf::from);
    given.or_else(|| env::var_os("LONGFAT_RUNS").map(PathBuf::from))
}
