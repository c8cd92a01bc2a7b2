//! A kernel in the cache: its file and its record.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use units::KernelVersion;

use crate::{Error, Result, error::Attempted};

/// The kernel's file in its directory.
pub(crate) const BINARY: &str = "linux";
/// Its record.
pub(crate) const RECORD: &str = "image.json";
/// The configuration it was built with.
pub(crate) const CONFIGURATION: &str = "config";
/// The output of all programs of the build.
pub(crate) const LOG: &str = "build.log";

/// A User-Mode Linux kernel in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The name of its directory in the cache: the release, or the name that the user gave.
    pub name: String,
    /// As `uname -r` prints it.
    pub release: String,
    /// The numbers of the release.
    pub version: KernelVersion,
    /// The file to run.
    pub path: PathBuf,
    /// Origin of the source, or of the file.
    pub origin: Origin,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: String,
    /// Size of the file.
    pub size_bytes: u64,
    /// When it was added to the cache, in seconds since 1970.
    pub built_unix_s: u64,
    /// SHA-256 of the list of options that longfat built it with; `None` for a kernel added as a file.
    pub configuration: Option<String>,
    /// Lines of that list that this version does not support.
    pub lacks: Vec<String>,
}

/// The origin of a kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Origin {
    /// A source package of the distribution.
    Package {
        /// Its name, such as linux-source-6.1.
        package: String,
        /// Its version, such as 6.1.192-2.
        version: String,
        /// The suite from whose lists it was chosen, if one was requested.
        #[serde(default)]
        suite: Option<String>,
    },
    /// A kernel tree.
    Tree {
        /// The directory.
        directory: PathBuf,
        /// Its commit, from `git describe --always --dirty`.
        #[serde(default)]
        commit: Option<String>,
    },
    /// A compiled kernel.
    File {
        /// The file that was copied.
        file: PathBuf,
    },
}

impl Origin {
    /// A short text, for tables.
    pub fn text(&self) -> String {
        match self {
            Origin::Package { package, version, suite: None } => format!("{package} {version}"),
            Origin::Package { package, version, suite: Some(suite) } => {
                format!("{package} {version} ({suite})")
            }
            Origin::Tree { directory, commit: None } => directory.display().to_string(),
            Origin::Tree { directory, commit: Some(commit) } => {
                format!("{} at {commit}", directory.display())
            }
            Origin::File { file } => format!("file {}", file.display()),
        }
    }
}

/// [`RECORD`]. The kernel's name is that of the directory.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    release: String,
    origin: Origin,
    sha256: String,
    size_bytes: u64,
    built_unix_s: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    configuration: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    lacks: Vec<String>,
}

impl Image {
    /// Reads the record of the kernel in `directory`; `None` if there is none.
    pub(crate) fn read(directory: &Path) -> Result<Option<Image>> {
        let path = directory.join(RECORD);
        let text = match fs::read_to_string(&path) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            read => read.attempted(|| format!("read {}", path.display()))?,
        };
        let invalid = |why: String| Error::Os {
            what: format!("read {} (remove its directory)", path.display()),
            source: io::Error::new(io::ErrorKind::InvalidData, why),
        };
        let record: Record = serde_json::from_str(&text).map_err(|e| invalid(e.to_string()))?;
        let version =
            record.release.parse().map_err(|e: units::KernelVersionError| invalid(e.to_string()))?;
        let name = directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(Some(Image {
            name,
            version,
            path: directory.join(BINARY),
            release: record.release,
            origin: record.origin,
            sha256: record.sha256,
            size_bytes: record.size_bytes,
            built_unix_s: record.built_unix_s,
            configuration: record.configuration,
            lacks: record.lacks,
        }))
    }

    /// Writes the record of the kernel to its directory.
    pub(crate) fn write(&self, directory: &Path) -> Result<()> {
        let record = Record {
            release: self.release.clone(),
            origin: self.origin.clone(),
            sha256: self.sha256.clone(),
            size_bytes: self.size_bytes,
            built_unix_s: self.built_unix_s,
            configuration: self.configuration.clone(),
            lacks: self.lacks.clone(),
        };
        let path = directory.join(RECORD);
        let text = serde_json::to_string_pretty(&record).map_err(io::Error::from);
        text.and_then(|text| fs::write(&path, text + "\n")).attempted(|| format!("write {}", path.display()))
    }

    /// Whether it is a distribution's kernel named by its release, not one that the user named or changed.
    pub fn is_of_distribution(&self) -> bool {
        self.name == self.release && matches!(self.origin, Origin::Package { .. })
    }

    /// Compares the file with its checksum.
    ///
    /// # Errors
    /// If the file is damaged or cannot be read.
    pub fn verify(&self) -> Result<()> {
        if sha256_of(&self.path)? == self.sha256 {
            return Ok(());
        }
        Err(Error::Damaged { name: self.name.clone(), path: self.path.clone() })
    }
}

/// SHA-256 of a file, in hexadecimal.
pub(crate) fn sha256_of(path: &Path) -> Result<String> {
    let mut hash = Sha256::new();
    let mut file = File::open(path).attempted(|| format!("open {}", path.display()))?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer).attempted(|| format!("read {}", path.display()))? {
            0 => return Ok(HEXLOWER.encode(&hash.finalize())),
            count => hash.update(&buffer[..count]),
        }
    }
}

/// SHA-256 of a text, in hexadecimal.
pub(crate) fn sha256_of_text(text: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(text.as_bytes()))
}
