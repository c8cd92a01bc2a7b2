//! The user's cache of kernels: a directory for each, named by release or by the user.
//!
//! Kernels are added, replaced and removed by renaming their directories, so other processes see complete
//! kernels only.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use crate::{
    Error, Image, Result,
    error::Attempted,
    package, sys,
    work::{self, WorkDirectory},
};

/// Maximum length of a name.
const MAX_NAME_BYTES: usize = 64;
/// Prefix of the logs of failed builds.
const FAILED_PREFIX: &str = "failed-";

/// The directory of kernels.
#[derive(Debug, Clone)]
pub struct Cache(PathBuf);

impl Cache {
    /// `$LONGFAT_KERNELS`, else `$XDG_CACHE_HOME/longfat/kernels`, else `~/.cache/longfat/kernels`.
    ///
    /// # Errors
    /// If none of these variables is set.
    pub fn of_this_user() -> Result<Cache> {
        let variable = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let own = variable("LONGFAT_KERNELS");
        // The XDG Base Directory Specification requires that relative paths are ignored.
        let xdg = || variable("XDG_CACHE_HOME").filter(|path| path.is_absolute());
        let home = || variable("HOME").map(|home| home.join(".cache"));
        let directory = own.or_else(|| xdg().or_else(home).map(|cache| cache.join("longfat/kernels")));
        let directory = directory.ok_or(Error::NoDirectory)?;
        let absolute =
            std::path::absolute(&directory).attempted(|| format!("find {}", directory.display()))?;
        Ok(Cache(absolute))
    }

    /// A cache in the given directory.
    pub fn at(directory: impl Into<PathBuf>) -> Cache {
        Cache(directory.into())
    }

    /// Its directory, which need not exist.
    pub fn directory(&self) -> &Path {
        &self.0
    }

    /// All kernels, the oldest version first.
    ///
    /// # Errors
    /// If the directory or a kernel's record cannot be read.
    pub fn images(&self) -> Result<Vec<Image>> {
        let entries = match fs::read_dir(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            read => read.attempted(|| format!("list {}", self.0.display()))?,
        };
        let is_visible =
            |path: &PathBuf| path.file_name().is_some_and(|name| !name.to_string_lossy().starts_with('.'));
        let directories = entries.flatten().map(|entry| entry.path()).filter(is_visible);
        let mut images: Vec<Image> =
            directories.filter_map(|path| Image::read(&path).transpose()).collect::<Result<_>>()?;
        images.sort_by(|a, b| (a.version, &a.name).cmp(&(b.version, &b.name)));
        Ok(images)
    }

    /// Finds a kernel by name (`my-cubic`, `6.1.192`) or version (`6.1`: the newest 6.1.x); without a request
    /// the newest of all.
    ///
    /// Kernels of the distribution take precedence over those that the user named or changed, which match a
    /// version only if no distribution kernel has it.
    ///
    /// # Errors
    /// If there is none; the error names the command that builds one.
    pub fn find(&self, request: Option<&str>) -> Result<Image> {
        let images = self.images()?;
        let found = match request {
            None => newest(images.iter()),
            Some(name) => {
                images.iter().find(|image| image.name == name).or_else(|| of_version(&images, name))
            }
        };
        found.cloned().ok_or_else(|| Error::NoKernel {
            requested: request.map(Into::into),
            directory: self.0.display().to_string(),
            available: images.iter().map(|image| image.name.clone()).collect(),
        })
    }

    /// Removes the kernel that [`Cache::find`] finds.
    ///
    /// # Errors
    /// If there is none, or it cannot be removed.
    pub fn remove(&self, request: &str) -> Result<Image> {
        let image = self.find(Some(request))?;
        self.remove_directory(&image.name)?;
        let _ = fs::remove_file(self.failure_log(&image.name));
        Ok(image)
    }

    /// Removes all kernels, and the logs of failed builds.
    ///
    /// # Errors
    /// If one cannot be removed.
    pub fn remove_all(&self) -> Result<Vec<Image>> {
        let images = self.images()?;
        for image in &images {
            self.remove_directory(&image.name)?;
        }
        for entry in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(FAILED_PREFIX) {
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(images)
    }

    /// Removes the work directories of killed builds, and returns their number.
    ///
    /// # Errors
    /// If one cannot be removed.
    pub fn remove_leftovers(&self) -> Result<usize> {
        work::remove_leftovers(&self.0)
    }

    /// Adds a kernel by moving its directory here; replaces a kernel with the same name.
    pub(crate) fn put(&self, directory: &Path, name: &str) -> Result<Image> {
        let target = self.0.join(name);
        let put = match fs::rename(directory, &target) {
            // The previous kernel is then in the work directory and is removed with it.
            Err(_) if target.exists() => sys::exchange(directory, &target).or_else(|_| {
                // Not every file system supports RENAME_EXCHANGE.
                fs::rename(&target, directory.with_extension("old"))?;
                fs::rename(directory, &target)
            }),
            renamed => renamed,
        };
        put.attempted(|| format!("move the kernel to {}", target.display()))?;
        let _ = fs::remove_file(self.failure_log(name));
        Image::read(&target)?.ok_or_else(|| Error::NoKernel {
            requested: Some(name.into()),
            directory: self.0.display().to_string(),
            available: Vec::new(),
        })
    }

    /// The log of the last failed build of a kernel with this name.
    pub(crate) fn failure_log(&self, name: &str) -> PathBuf {
        self.0.join(format!("{FAILED_PREFIX}{name}.log"))
    }

    fn remove_directory(&self, name: &str) -> Result<()> {
        let work = WorkDirectory::create(&self.0)?;
        let path = self.0.join(name);
        fs::rename(&path, work.join("removed")).attempted(|| format!("remove {}", path.display()))
    }
}

/// The newest kernel of the distribution, else the newest of all.
fn newest<'a>(images: impl Iterator<Item = &'a Image>) -> Option<&'a Image> {
    images.max_by_key(|image| (image.is_of_distribution(), image.version))
}

fn of_version<'a>(images: &'a [Image], request: &str) -> Option<&'a Image> {
    let requested = package::version_request(request)?;
    newest(images.iter().filter(|image| requested.matches(image.version)))
}

/// Checks a name that the user gave to a kernel.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let wrong = |why| Err(Error::Name { name: name.into(), why });
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        return wrong("names have 1 to 64 characters");
    }
    if name.starts_with(|c: char| !c.is_ascii_alphabetic()) {
        return wrong(
            "names begin with a letter; version numbers are reserved for the distribution's kernels",
        );
    }
    if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._+-".contains(&b)) {
        return wrong("names have letters, digits, and . _ + - only");
    }
    if name.starts_with(FAILED_PREFIX) || name == "latest" {
        return wrong("this name is reserved");
    }
    Ok(())
}

/// Derives a kernel's name from the path of its source.
pub(crate) fn name_of(path: &Path) -> String {
    let last = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "._+-".contains(c) { c } else { '-' };
    let name: String = last.chars().map(allowed).take(MAX_NAME_BYTES - 6).collect();
    match check_name(&name) {
        Ok(()) => name,
        Err(_) if name.is_empty() => "linux".into(),
        Err(_) => format!("linux-{}", name.trim_start_matches(['.', '-', '_', '+'])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Origin, image};

    /// A cache with an image for each of these names and releases; where both are equal it is a distribution
    /// kernel.
    fn cache(images: &[(&str, &str)]) -> (tempfile::TempDir, Cache) {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path().join("kernels"));
        for (name, release) in images {
            put(&cache, name, release, b"a kernel");
        }
        (dir, cache)
    }

    fn put(cache: &Cache, name: &str, release: &str, bytes: &[u8]) -> Image {
        let work = WorkDirectory::create(cache.directory()).unwrap();
        let directory = work.create_directory("image").unwrap();
        let path = directory.join(image::BINARY);
        fs::write(&path, bytes).unwrap();
        let origin = match name == release {
            true => Origin::Package {
                package: format!("linux-source-{release}"),
                version: format!("{release}-1"),
                suite: None,
            },
            false => Origin::Tree { directory: "/usr/src/linux".into(), commit: None },
        };
        let image = Image {
            name: name.into(),
            release: release.into(),
            version: release.parse().unwrap(),
            sha256: image::sha256_of(&path).unwrap(),
            path,
            origin,
            size_bytes: bytes.len() as u64,
            built_unix_s: 1,
            configuration: None,
            lacks: Vec::new(),
        };
        image.write(&directory).unwrap();
        cache.put(&directory, name).unwrap()
    }

    #[test]
    fn kernels_are_found_by_version_and_name() {
        let (_dir, cache) = cache(&[
            ("6.1.99", "6.1.99"),
            ("6.1.192", "6.1.192"),
            ("6.12.117", "6.12.117"),
            ("mine", "6.12.200"),
            ("new", "7.9.1"),
        ]);
        let found = |request| cache.find(request).map(|image| image.name).map_err(|e| e.to_string());
        assert_eq!(found(Some("6.1")), Ok("6.1.192".into()));
        assert_eq!(found(Some("6.1.99")), Ok("6.1.99".into()));
        assert_eq!(found(Some("6.12")), Ok("6.12.117".into()), "not the newer one that the user named");
        assert_eq!(found(Some("mine")), Ok("mine".into()));
        assert_eq!(found(Some("7.9")), Ok("new".into()), "no distribution kernel has this version");
        assert_eq!(found(None), Ok("6.12.117".into()));
        for none in ["6.2", "6.1.1", "6", "min", "", "../mine", "<6.6"] {
            let error = found(Some(none)).unwrap_err();
            assert!(error.contains("longfat kernel build"), "{error}");
        }
        let names: Vec<String> = cache.images().unwrap().into_iter().map(|image| image.name).collect();
        assert_eq!(names, ["6.1.99", "6.1.192", "6.12.117", "mine", "new"]);
    }

    #[test]
    fn the_error_of_an_empty_cache_names_the_build_command() {
        let (_dir, cache) = cache(&[]);
        assert!(cache.images().unwrap().is_empty());
        assert!(cache.find(None).unwrap_err().to_string().ends_with("longfat kernel build 6.1"));
        assert_eq!(cache.remove_leftovers().unwrap(), 0);
        assert!(!cache.directory().exists(), "reading does not create it");
    }

    #[test]
    fn kernels_are_replaced_and_removed_with_all_their_files() {
        let (_dir, cache) = cache(&[("6.1.192", "6.1.192"), ("mine", "6.1.192")]);
        put(&cache, "6.1.192", "6.1.192", b"another kernel");
        let image = cache.find(Some("6.1")).unwrap();
        assert_eq!(fs::read(&image.path).unwrap(), b"another kernel");
        image.verify().unwrap();
        fs::write(&image.path, b"rot").unwrap();
        assert!(image.verify().unwrap_err().to_string().contains("longfat kernel remove 6.1.192"));
        assert_eq!(cache.remove("6.1").unwrap().name, "6.1.192");
        assert_eq!(cache.find(Some("6.1")).unwrap().name, "mine");
        fs::write(cache.failure_log("x"), "log").unwrap();
        assert_eq!(cache.remove_all().unwrap().len(), 1);
        let left: Vec<_> =
            fs::read_dir(cache.directory()).unwrap().flatten().map(|e| e.file_name()).collect();
        assert_eq!(left, [".lock"], "only the lock remains");
    }

    #[test]
    fn an_unreadable_record_is_named() {
        let (_dir, cache) = cache(&[("6.1.192", "6.1.192")]);
        let record = cache.directory().join("6.1.192").join(image::RECORD);
        fs::write(&record, "{").unwrap();
        let error = cache.images().unwrap_err().to_string();
        assert!(error.contains(&record.display().to_string()), "{error}");
    }

    #[test]
    fn names_are_checked_and_derived_from_paths() {
        for good in ["mine", "linux-6.12.5", "net-next_2+x"] {
            check_name(good).unwrap();
        }
        let long = "x".repeat(65);
        for bad in ["", "6.1", "6.1.192-mine", ".x", "-x", "a/b", "a b", "failed-x", "latest", &long] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
        assert_eq!(name_of(Path::new("/src/net-next")), "net-next");
        assert_eq!(name_of(Path::new("/src/6.1")), "linux-6.1");
        assert_eq!(name_of(Path::new("/src/my tree")), "my-tree");
        assert_eq!(name_of(Path::new("/")), "linux");
        for path in ["/x/..", "/x/latest", "/x/---", "/x/ä", "/x/.hidden"] {
            check_name(&name_of(Path::new(path))).unwrap();
        }
    }
}
