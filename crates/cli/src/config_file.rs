//! Configuration files: the user's and the project's. Options and environment variables override both.
//!
//! The user's file is `longfat/config.toml` in `$XDG_CONFIG_HOME` (default `~/.config`). The project's is the
//! nearest `longfat.toml` in the working directory or above; its settings override the user's.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fmt, fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
};

use experiment::EngineChoices;
use record::{RunStore, RunsLocation};
use run_store::S3Store;
use serde::{Deserialize, Serialize};
use view::{
    Theme,
    number::{RateUnit, SizeUnit},
};

use crate::exit::Exit;

/// The environment variable that names the directory of records.
pub const RUNS_VARIABLE: &str = "LONGFAT_RUNS";
/// Name of a project's file.
const PROJECT_FILE: &str = "longfat.toml";
/// The directory of records without any setting.
const DEFAULT_RUNS: &str = "runs";
/// The engine of `run` without any setting.
const DEFAULT_ENGINE: &str = "lab";

/// The contents of a file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    /// Directory of records, relative to the file's directory; or an object store.
    runs: Option<PathBuf>,
    /// Engines of `longfat run`, as after `--engine`.
    engine: Option<String>,
    /// Colours of reports and of the page: auto, light or dark.
    theme: Option<String>,
    /// Units of figures in texts.
    #[serde(default)]
    units: UnitSettings,
    /// Files with the shared secrets of servers, by host as in `longfat test HOST`; relative to the file's
    /// directory.
    #[serde(default)]
    tokens: BTreeMap<String, PathBuf>,
}

/// The table `[units]` of a file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct UnitSettings {
    /// Rates: bits or bytes per second.
    rates: Option<String>,
    /// Sizes: decimal (MB) or binary (MiB).
    sizes: Option<String>,
}

/// A configuration file, which need not exist.
#[derive(Debug, Clone, Serialize)]
pub struct ConfigFile {
    /// Its path.
    pub path: PathBuf,
    /// Whether it exists and this user may read it.
    pub is_read: bool,
    #[serde(skip)]
    settings: Settings,
}

/// One setting with its origin.
#[derive(Debug)]
pub struct Setting {
    /// Its key in the files.
    pub name: String,
    /// Its value; `None` if it has none.
    pub value: Option<String>,
    /// The file, option or variable that it comes from, or `default`.
    pub source: String,
}

/// The name of a location of records: a directory, or the address of an object store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunsName(PathBuf);

impl fmt::Display for RunsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

impl RunsName {
    /// The location. An object store is not contacted yet.
    ///
    /// # Errors
    /// The address or the settings of an object store are wrong.
    pub fn open(&self) -> anyhow::Result<RunsLocation> {
        if !run_store::is_address(&self.0) {
            return Ok(self.0.clone().into());
        }
        let store = S3Store::open(&self.to_string()).map_err(|error| Exit::BadInput(error.to_string()))?;
        Ok(RunsLocation::from(Arc::new(store) as Arc<dyn RunStore>))
    }
}

/// The settings of all files.
#[derive(Debug)]
pub struct Config {
    /// Later files override earlier ones.
    files: Vec<ConfigFile>,
}

impl Config {
    /// Reads the configuration files of this user and of the working directory.
    ///
    /// # Errors
    /// A file that cannot be read, unknown keys and wrong values, with their position.
    pub fn read() -> anyhow::Result<Self> {
        let working = env::current_dir().unwrap_or_default();
        let project = working.ancestors().map(|dir| dir.join(PROJECT_FILE)).find(|path| path.is_file());
        let paths = [user_file(), project];
        Ok(Config { files: paths.into_iter().flatten().map(read_file).collect::<anyhow::Result<_>>()? })
    }

    /// The location of records; `given` is the value of the command line or the environment.
    pub fn runs(&self, given: Option<&Path>) -> RunsName {
        let own = || self.last(|settings| settings.runs.clone()).map(|(value, _)| value);
        RunsName(given.map(Path::to_owned).or_else(own).unwrap_or_else(|| DEFAULT_RUNS.into()))
    }

    /// The engines of `longfat run` without `--engine`.
    ///
    /// # Errors
    /// Does not occur in practice, because the files were checked when they were read.
    pub fn engines(&self) -> anyhow::Result<EngineChoices> {
        let engine = self.last(|settings| settings.engine.clone()).map(|(value, _)| value);
        engines(engine.as_deref().unwrap_or(DEFAULT_ENGINE)).map_err(|why| Exit::BadInput(why).into())
    }

    /// The colours of reports and of the page.
    pub fn theme(&self) -> Theme {
        // The files were checked when they were read.
        self.last(|settings| settings.theme.as_deref()?.parse().ok()).map_or(Theme::Auto, |(theme, _)| theme)
    }

    /// The units of rates and sizes in texts.
    pub fn units(&self) -> (RateUnit, SizeUnit) {
        let rates = self.last(|settings| settings.units.rates.as_deref()?.parse().ok());
        let sizes = self.last(|settings| settings.units.sizes.as_deref()?.parse().ok());
        (rates.map(|(unit, _)| unit).unwrap_or_default(), sizes.map(|(unit, _)| unit).unwrap_or_default())
    }

    /// The file with the token of a server.
    pub fn token_of(&self, host: &str) -> Option<PathBuf> {
        self.last(|settings| settings.tokens.get(host).cloned()).map(|(value, _)| value)
    }

    /// The files, in the order in which they apply.
    pub fn files(&self) -> &[ConfigFile] {
        &self.files
    }

    /// All settings and where they come from; `runs` is that of the command line or the environment.
    pub fn settings(&self, runs: Option<&Path>) -> Vec<Setting> {
        let shown = |path: &PathBuf| path.display().to_string();
        let setting = |name: String, found: Option<(String, &ConfigFile)>, default: Option<&str>| match found
        {
            Some((value, file)) => {
                Setting { name, value: Some(value), source: file.path.display().to_string() }
            }
            None => Setting { name, value: default.map(Into::into), source: "default".into() },
        };
        let own_runs = setting("runs".into(), self.last(|s| s.runs.as_ref().map(shown)), Some(DEFAULT_RUNS));
        let source = match env::var_os("LONGFAT_RUNS") {
            Some(value) if runs.is_some_and(|runs| runs.as_os_str() == value) => "LONGFAT_RUNS",
            _ => "--runs",
        };
        let given = runs.map(|runs| Setting {
            name: "runs".into(),
            value: Some(runs.display().to_string()),
            source: source.into(),
        });
        let engine = setting("engine".into(), self.last(|s| s.engine.clone()), Some(DEFAULT_ENGINE));
        let theme = setting("theme".into(), self.last(|s| s.theme.clone()), Some("auto"));
        let rates = setting("units.rates".into(), self.last(|s| s.units.rates.clone()), Some("bits"));
        let sizes = setting("units.sizes".into(), self.last(|s| s.units.sizes.clone()), Some("decimal"));
        let mut settings = vec![given.unwrap_or(own_runs), engine, theme, rates, sizes];
        let hosts: BTreeSet<&String> =
            self.files.iter().flat_map(|file| file.settings.tokens.keys()).collect();
        for host in hosts {
            let found = self.last(|s| s.tokens.get(host).map(shown));
            settings.push(setting(format!("tokens.{host}"), found, None));
        }
        settings
    }

    /// The value of the last file that has one, and that file.
    fn last<T>(&self, value: impl Fn(&Settings) -> Option<T>) -> Option<(T, &ConfigFile)> {
        self.files.iter().rev().find_map(|file| Some((value(&file.settings)?, file)))
    }
}

/// The path of the user's file; `None` without a home directory.
fn user_file() -> Option<PathBuf> {
    let set = env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || Some(PathBuf::from(env::var_os("HOME").filter(|home| !home.is_empty())?).join(".config"));
    Some(set.or_else(home)?.join("longfat/config.toml"))
}

fn read_file(path: PathBuf) -> anyhow::Result<ConfigFile> {
    let bad = |why: &str| Exit::BadInput(format!("{}: {why}", path.display()));
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        // Permission is denied if HOME belongs to another user, as after `sudo -u`.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied
            ) =>
        {
            return Ok(ConfigFile { path, is_read: false, settings: Settings::default() });
        }
        Err(error) => return Err(bad(&error.to_string()).into()),
    };
    // The message has the line, the column and the text around the mistake.
    let mut settings: Settings = toml::from_str(&text).map_err(|error| bad(error.to_string().trim_end()))?;
    if let Some(engine) = &settings.engine {
        engines(engine).map_err(|why| bad(&format!("engine: {why}")))?;
    }
    let check =
        |name: &str, checked: Result<(), String>| checked.map_err(|why| bad(&format!("{name}: {why}")));
    check("theme", parsed::<Theme>(settings.theme.as_deref()))?;
    check("units.rates", parsed::<RateUnit>(settings.units.rates.as_deref()))?;
    check("units.sizes", parsed::<SizeUnit>(settings.units.sizes.as_deref()))?;
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let own_directory = settings.runs.iter_mut().filter(|runs| !run_store::is_address(runs));
    for own in own_directory.chain(settings.tokens.values_mut()) {
        *own = folder.join(&*own);
    }
    Ok(ConfigFile { path, is_read: true, settings })
}

/// Whether a setting, if there is one, has a valid value.
fn parsed<T: FromStr<Err = String>>(text: Option<&str>) -> Result<(), String> {
    text.map_or(Ok(()), |text| text.parse::<T>().map(drop))
}

/// Engines separated by commas.
fn engines(text: &str) -> Result<EngineChoices, String> {
    let choices: Vec<EngineChoices> =
        text.split(',').map(EngineChoices::from_str).collect::<Result<_, _>>()?;
    Ok(choices.into_iter().collect())
}
