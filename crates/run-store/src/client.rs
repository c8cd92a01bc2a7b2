//! Requests to the object store, for callers without an asynchronous runtime.

use std::fs::File;
use std::future::Future;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use futures_util::{StreamExt, TryStreamExt};
use object_store::aws::AmazonS3;
use object_store::multipart::MultipartStore;
use object_store::path::Path as Key;
use object_store::{BackoffConfig, ObjectStore, ObjectStoreExt, PutPayload, RetryConfig};
use record::Error as RecordError;
use tokio::runtime::Runtime;

use crate::address::Address;
use crate::error::reason;
use crate::http::Connector;
use crate::journal::Journal;
use crate::settings::Settings;
use crate::uplink::{Uplink, upload_time};

/// Retries of a request after an error of the server or the network.
const MAX_RETRIES: usize = 4;
/// A request is not retried after this time.
const RETRY_TIMEOUT: Duration = Duration::from_secs(20);
/// Pause before the first retry, and the maximum pause.
const RETRY_PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3));
/// Deadline of a request with a small reply, including its retries. The time to send a large request is
/// added.
const DEADLINE: Duration = Duration::from_secs(60);
/// Deadline for the next bytes of a large reply.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Files up to this size are uploaded by one request, larger ones in parts of it.
const PART_BYTES: u64 = 8 << 20;
/// Parts of one file that are uploaded at once.
const PARALLEL_PARTS: usize = 4;
/// Threads for requests.
const THREADS: usize = 2;

/// A bucket, reached by S3's protocol.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) address: Address,
    endpoint: String,
    objects: AmazonS3,
    runtime: Runtime,
    uplink: Uplink,
}

impl Client {
    /// Starts the threads. Nothing is sent.
    pub(crate) fn start(settings: &Settings) -> Result<Self, RecordError> {
        let retries = RetryConfig {
            backoff: BackoffConfig { init_backoff: RETRY_PAUSE.0, max_backoff: RETRY_PAUSE.1, base: 3.0 },
            max_retries: MAX_RETRIES,
            retry_timeout: RETRY_TIMEOUT,
        };
        let address = settings.address.clone();
        let failed = |reason| RecordError::Store { action: "use", url: settings.address.to_string(), reason };
        let objects = settings
            .builder()
            .with_retry(retries)
            .with_http_connector(Connector { needs_tls: !settings.is_plain() })
            .build()
            .map_err(|error| failed(error.to_string()))?;
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
        let runtime = runtime.map_err(|error| failed(format!("cannot start threads: {error}")))?;
        Ok(Client { address, endpoint: settings.endpoint.clone(), objects, runtime, uplink: Uplink::new() })
    }

    /// Waits for requests. Not for asynchronous tasks.
    pub(crate) fn wait<T>(&self, requests: impl Future<Output = T>) -> T {
        self.runtime.block_on(requests)
    }

    /// The address of an object.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.address)
    }

    fn failed(&self, action: &'static str, path: &str, error: &object_store::Error) -> RecordError {
        let url = if path.is_empty() { self.address.to_string() } else { self.url(path) };
        RecordError::Store { action, url, reason: reason(error, &self.address.bucket, &self.endpoint) }
    }

    /// The result of a request, or an error after the deadline.
    async fn in_time<T>(
        &self,
        action: &'static str,
        path: &str,
        request: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, RecordError> {
        self.within(DEADLINE, action, path, request).await
    }

    async fn within<T>(
        &self,
        deadline: Duration,
        action: &'static str,
        path: &str,
        request: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, RecordError> {
        match tokio::time::timeout(deadline, request).await {
            Ok(done) => done.map_err(|error| self.failed(action, path, &error)),
            Err(_) => Err(RecordError::Store {
                action,
                url: self.url(path),
                reason: format!("{} does not reply within {} s", self.endpoint, deadline.as_secs()),
            }),
        }
    }

    /// The names of directories: the next component of keys that begin with `path`.
    pub(crate) async fn directories(&self, path: &str) -> Result<Vec<String>, RecordError> {
        let key = self.address.key(path);
        let prefix = (!key.as_ref().is_empty()).then_some(&key);
        let listed = self.in_time("list", path, self.objects.list_with_delimiter(prefix)).await?;
        let names = listed.common_prefixes.iter().filter_map(Key::filename);
        Ok(names.filter(|name| !name.starts_with('.')).map(str::to_owned).collect())
    }

    /// The paths of all objects below `path`, relative to the prefix.
    pub(crate) async fn objects(&self, path: &str) -> Result<Vec<String>, RecordError> {
        Ok(self.sizes(path).await?.into_iter().map(|(path, _)| path).collect())
    }

    /// The same with their sizes, bytes.
    pub(crate) async fn sizes(&self, path: &str) -> Result<Vec<(String, u64)>, RecordError> {
        let key = self.address.key(path);
        let listed = self.objects.list(Some(&key)).try_collect::<Vec<_>>();
        let listed = self.in_time("list", path, listed).await?;
        let relative = |key: &Key| self.address.relative(key).to_owned();
        Ok(listed.iter().map(|object| (relative(&object.location), object.size)).collect())
    }

    /// A small object with the time of its last change; `None` if there is none.
    pub(crate) async fn read(&self, path: &str) -> Result<Option<(Vec<u8>, SystemTime)>, RecordError> {
        let key = self.address.key(path);
        let request = async {
            let found = match self.objects.get(&key).await {
                Err(error) if is_absent(&error) => return Ok(None),
                found => found?,
            };
            let written = found.meta.last_modified.into();
            Ok(Some((found.bytes().await?.to_vec(), written)))
        };
        self.in_time("read", path, request).await
    }

    /// Copies an object to a file; `false` if there is none.
    pub(crate) async fn download(&self, path: &str, file: &mut File) -> Result<bool, RecordError> {
        let key = self.address.key(path);
        let found = async {
            match self.objects.get(&key).await {
                Err(error) if is_absent(&error) => Ok(None),
                found => found.map(Some),
            }
        };
        let Some(found) = self.in_time("read", path, found).await? else { return Ok(false) };
        let local = |error: std::io::Error| RecordError::Store {
            action: "copy",
            url: self.url(path),
            reason: format!("cannot write to the cache: {error}"),
        };
        let mut chunks = found.into_stream();
        loop {
            let next = tokio::time::timeout(READ_TIMEOUT, chunks.next()).await;
            let Ok(next) = next else {
                return Err(RecordError::Store {
                    action: "read",
                    url: self.url(path),
                    reason: format!("{} sends no data for {} s", self.endpoint, READ_TIMEOUT.as_secs()),
                });
            };
            let Some(chunk) = next else { return Ok(true) };
            file.write_all(&chunk.map_err(|error| self.failed("read", path, &error))?).map_err(local)?;
        }
    }

    /// Writes an object by one request.
    pub(crate) async fn write(&self, path: &str, bytes: Vec<u8>) -> Result<(), RecordError> {
        let _share = self.uplink.share(bytes.len() as u64).await;
        self.send(path, bytes).await
    }

    /// Writes an object by one request. The caller has its share of the uplink.
    async fn send(&self, path: &str, bytes: Vec<u8>) -> Result<(), RecordError> {
        let key = self.address.key(path);
        let deadline = DEADLINE + upload_time(bytes.len() as u64);
        self.within(deadline, "write", path, self.objects.put(&key, PutPayload::from(bytes))).await.map(drop)
    }

    /// Writes an object with the contents of a file; `false` if the file has vanished.
    pub(crate) async fn upload(
        &self,
        path: &str,
        file: &Path,
        journal: &Journal,
    ) -> Result<bool, RecordError> {
        let local = |source| RecordError::Io { action: "read", path: file.to_owned(), source };
        let mut opened = match File::open(file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            opened => opened.map_err(local)?,
        };
        let length = opened.metadata().map_err(local)?.len();
        if length > PART_BYTES {
            return self.upload_parts(path, &opened, length, file, journal).await.map(|()| true);
        }
        let _share = self.uplink.share(length).await;
        let mut bytes = Vec::new();
        opened.read_to_end(&mut bytes).map_err(local)?;
        self.send(path, bytes).await.map(|()| true)
    }

    /// Writes an object in parts with the contents of a file, whose name is `name`.
    async fn upload_parts(
        &self,
        path: &str,
        file: &File,
        length: u64,
        name: &Path,
        journal: &Journal,
    ) -> Result<(), RecordError> {
        let key = &self.address.key(path);
        let id = &self.in_time("write", path, self.objects.create_multipart(key)).await?;
        journal.add_upload(path, id)?;
        let parts = (0..length.div_ceil(PART_BYTES)).map(|number| async move {
            let offset = number * PART_BYTES;
            let size = PART_BYTES.min(length - offset);
            let _share = self.uplink.share(size).await;
            let mut bytes = vec![0; size as usize];
            let local = |source| RecordError::Io { action: "read", path: name.to_owned(), source };
            file.read_exact_at(&mut bytes, offset).map_err(local)?;
            let sent = self.objects.put_part(key, id, number as usize, bytes.into());
            self.within(DEADLINE + upload_time(size), "write", path, sent).await
        });
        let parts: Vec<_> = parts.collect();
        let parts = futures_util::stream::iter(parts).buffered(PARALLEL_PARTS).try_collect::<Vec<_>>();
        let written = match parts.await {
            Ok(parts) => {
                self.in_time("write", path, self.objects.complete_multipart(key, id, parts)).await.map(drop)
            }
            Err(error) => Err(error),
        };
        match &written {
            Ok(()) => journal.close_upload(path, id),
            // Otherwise the store keeps, and charges for, the parts. The first error is the one to report.
            Err(_) => {
                if self.abort_upload(path, id).await.is_ok() {
                    journal.close_upload(path, id);
                }
            }
        }
        written
    }

    /// Removes the parts of an object that has not been completed. An upload that does not exist is not an
    /// error.
    pub(crate) async fn abort_upload(&self, path: &str, id: &str) -> Result<(), RecordError> {
        let (key, id) = (self.address.key(path), id.to_owned());
        let request = async {
            match self.objects.abort_multipart(&key, &id).await {
                Err(error) if is_absent(&error) => Ok(()),
                done => done,
            }
        };
        self.in_time("remove parts of", path, request).await
    }

    /// Removes objects. An object that does not exist is not an error.
    pub(crate) async fn remove(&self, paths: &[String]) -> Result<(), RecordError> {
        let removals = paths.iter().map(|path| async move {
            let key = self.address.key(path);
            let request = async {
                match self.objects.delete(&key).await {
                    Err(error) if is_absent(&error) => Ok(()),
                    done => done,
                }
            };
            self.in_time("remove", path, request).await
        });
        let removals: Vec<_> = removals.collect();
        futures_util::stream::iter(removals).buffer_unordered(16).try_collect::<()>().await
    }
}

/// Whether an object is absent, and not the bucket.
fn is_absent(error: &object_store::Error) -> bool {
    matches!(error, object_store::Error::NotFound { source, .. } if !source.to_string().contains("NoSuchBucket"))
}
