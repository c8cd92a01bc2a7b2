//! The place of records in an object store.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use record::{Error as RecordError, RunStore};

use crate::address::Address;
use crate::cache::{self, SUMMARY};
use crate::client::Client;
use crate::directories::Directories;
use crate::outbox::Outbox;
use crate::settings::Settings;
use crate::{Error, upload};

/// Maximum age of a list before it is requested again: a page requests several lists at once.
const MAX_LIST_AGE: Duration = Duration::from_secs(1);
/// The object that is written to check that the store can be written.
const TRIAL: &str = ".longfat/trial";

/// Records in a bucket of an S3-compatible object store.
#[derive(Debug)]
pub struct S3Store {
    settings: Settings,
    /// Started by the first request: many commands have a location of records and do not use it.
    client: Mutex<Option<Arc<Client>>>,
    url: String,
    directories: Directories,
    refreshed: Mutex<Option<Instant>>,
    outbox: Mutex<Option<Outbox>>,
}

impl S3Store {
    /// The place at `address`, as in `s3://bucket/prefix`, with the settings of the environment. Nothing is
    /// sent or started yet.
    ///
    /// # Errors
    /// If the address or a setting is wrong.
    pub fn open(address: &str) -> Result<Self, Error> {
        let settings = Settings::from_environment(Address::parse(address)?)?;
        let directories = Directories::of_this_user(&settings.address, &settings.endpoint)?;
        Ok(Self::new(settings, directories))
    }

    fn new(settings: Settings, directories: Directories) -> Self {
        S3Store {
            url: settings.address.to_string(),
            settings,
            client: Mutex::new(None),
            directories,
            refreshed: Mutex::new(None),
            outbox: Mutex::new(None),
        }
    }

    fn client(&self) -> Result<Arc<Client>, RecordError> {
        let mut client = lock(&self.client);
        let started = match client.take() {
            Some(started) => started,
            None => Arc::new(Client::start(&self.settings)?),
        };
        Ok(Arc::clone(client.insert(started)))
    }

    /// The path below the prefix of the record whose directory in the cache is `directory`.
    fn path_of(&self, directory: &Path) -> Result<String, RecordError> {
        let inside = directory.strip_prefix(&self.directories.cache).ok().and_then(Path::to_str);
        inside.map(str::to_owned).ok_or_else(|| RecordError::Store {
            action: "find",
            url: self.url.clone(),
            reason: format!("{} is not a record in its cache", directory.display()),
        })
    }

    /// Writes and removes an object, so that a measurement does not begin if its record could not be
    /// uploaded.
    fn try_to_write(client: &Client) -> Result<(), RecordError> {
        client.wait(async {
            client.write(TRIAL, Vec::new()).await?;
            client.remove(&[TRIAL.to_owned()]).await
        })
    }
}

impl RunStore for S3Store {
    fn url(&self) -> &str {
        &self.url
    }

    fn url_of(&self, directory: &Path) -> String {
        if let Ok(inside) = directory.strip_prefix(&self.directories.cache) {
            return format!("{}/{}", self.url, inside.display());
        }
        let in_outbox = directory.strip_prefix(&self.directories.outboxes).ok();
        // The first component is the outbox.
        let key = in_outbox.and_then(|path| upload::key_of(&path.iter().skip(1).collect::<PathBuf>()));
        key.map_or_else(|| directory.display().to_string(), |key| format!("{}/{key}", self.url))
    }

    fn cache(&self) -> &Path {
        &self.directories.cache
    }

    fn refresh(&self) -> Result<(), RecordError> {
        // One thread at a time; the other threads use its list.
        let mut refreshed = lock(&self.refreshed);
        if refreshed.is_some_and(|at| at.elapsed() < MAX_LIST_AGE) {
            return Ok(());
        }
        cache::refresh(&*self.client()?, &self.directories.cache)?;
        *refreshed = Some(Instant::now());
        Ok(())
    }

    fn refresh_files(&self, directory: &str) -> Result<(), RecordError> {
        cache::refresh_files(&*self.client()?, &self.directories.cache, directory)
    }

    fn file_names(&self, directory: &Path) -> Result<Vec<String>, RecordError> {
        let path = self.path_of(directory)?;
        let client = self.client()?;
        let objects = client.wait(client.objects(&path))?;
        let names = objects.iter().filter_map(|object| object.strip_prefix(&path)?.strip_prefix('/'));
        Ok(names.filter(|name| !name.contains('/')).map(str::to_owned).collect())
    }

    fn fetch(&self, directory: &Path, file: &str) -> Result<(), RecordError> {
        let local = directory.join(file);
        if local.exists() {
            return Ok(());
        }
        let path = format!("{}/{file}", self.path_of(directory)?);
        let client = self.client()?;
        client.wait(cache::fetch(&client, &path, &local))
    }

    fn remove(&self, directory: &Path) -> Result<(), RecordError> {
        let path = self.path_of(directory)?;
        let client = self.client()?;
        client.wait(async {
            // Without its summary, the remainder of an interrupted removal is not a finished record.
            client.remove(&[format!("{path}/{SUMMARY}")]).await?;
            client.remove(&client.objects(&path).await?).await
        })?;
        *lock(&self.refreshed) = None;
        // A directory that remains is removed by the next refresh.
        let _ = std::fs::remove_dir_all(directory);
        Ok(())
    }

    fn outbox(&self) -> Result<PathBuf, RecordError> {
        let mut outbox = lock(&self.outbox);
        let open = match outbox.take() {
            Some(open) => open,
            None => {
                let client = self.client()?;
                Self::try_to_write(&client)?;
                Outbox::start(&client, &self.directories)?
            }
        };
        Ok(outbox.insert(open).directory().to_owned())
    }

    fn finish(&self) -> Result<(), RecordError> {
        lock(&self.outbox).take().map_or(Ok(()), Outbox::finish)
    }
}

/// Locks a mutex even if a thread has panicked: the data that it guards is consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_request_starts_the_client() {
        let user = tempfile::tempdir().unwrap();
        // A port on which nothing listens.
        let variables = [
            ("AWS_ENDPOINT_URL", "http://127.0.0.1:9".to_owned()),
            ("AWS_ACCESS_KEY_ID", "key".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "secret".to_owned()),
        ];
        let settings = Settings::from_variables(Address::parse("s3://runs/place").unwrap(), &variables);
        let directories =
            Directories { cache: user.path().join("runs"), outboxes: user.path().join("outbox") };
        let store = S3Store::new(settings, directories);
        let record = store.cache().join("lab8/run=1");
        std::fs::create_dir_all(&record).unwrap();
        std::fs::write(record.join("flows.parquet"), "rows").unwrap();
        store.fetch(&record, "flows.parquet").unwrap();
        store.finish().unwrap();
        assert_eq!(store.url_of(&record), "s3://runs/place/lab8/run=1");
        assert!(lock(&store.client).is_none());
        let error = store.fetch(&record, "links.parquet").unwrap_err().to_string();
        assert!(lock(&store.client).is_some() && error.contains("Connection refused"), "{error}");
    }
}
