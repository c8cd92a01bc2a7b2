//! Requests to the object store, for callers without an asynchronous runtime.

use std::fs::File;
use std::future::Future;
use std::io::{BufReader, Read, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use futures_util::{StreamExt, TryStreamExt};
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path as Key;
use object_store::{BackoffConfig, ObjectStore, ObjectStoreExt, PutPayload, RetryConfig, WriteMultipart};
use record::Error as RecordError;
use tokio::runtime::Runtime;

use crate::Error;
use crate::address::Address;
use crate::error::reason;
use crate::http::{Connector, SLOWEST_UPLOAD};

/// Retries of a request after an error of the server or the network.
const MAX_RETRIES: usize = 4;
/// A request is not retried after this time.
const RETRY_TIMEOUT: Duration = Duration::from_secs(20);
/// Pause before the first retry, and the maximum pause.
const RETRY_PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3));
/// Deadline of a request with a small reply, including its retries. The time to send a large request is added.
const DEADLINE: Duration = Duration::from_secs(60);
/// Deadline for the next bytes of a large reply.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Files up to this size are uploaded by one request, larger ones in parts of it.
const PART_BYTES: usize = 8 << 20;
/// Parts of one file that are uploaded at once.
const PARALLEL_PARTS: usize = 4;
/// Threads for requests.
const THREADS: usize = 2;

/// A bucket, reached by S3's protocol.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) address: Address,
    pub(crate) endpoint: String,
    objects: AmazonS3,
    runtime: Runtime,
}

impl Client {
    /// The client with the settings of the environment. Nothing is sent.
    pub(crate) fn from_environment(address: Address) -> Result<Self, Error> {
        let settings = |reason: String| Error::Settings { address: address.to_string(), reason };
        let builder = AmazonS3Builder::from_env().with_bucket_name(&address.bucket);
        let set = |key| builder.get_config_value(&key).filter(|value| !value.is_empty());
        let endpoint = set(AmazonS3ConfigKey::S3Endpoint).or_else(|| set(AmazonS3ConfigKey::Endpoint));
        let is_allowed = std::env::var("AWS_ALLOW_HTTP").is_ok_and(|value| value == "true" || value == "1");
        // Schemes are case-insensitive (RFC 3986, section 3.1).
        let is_plain = endpoint.as_ref().is_some_and(|endpoint| {
            endpoint.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http://"))
        });
        if is_plain && !is_allowed {
            return Err(settings(
                "AWS_ENDPOINT_URL is not encrypted (http://): set AWS_ALLOW_HTTP=true to allow that".into(),
            ));
        }
        let has_credentials = [
            AmazonS3ConfigKey::AccessKeyId,
            AmazonS3ConfigKey::WebIdentityTokenFile,
            AmazonS3ConfigKey::ContainerCredentialsRelativeUri,
            AmazonS3ConfigKey::ContainerCredentialsFullUri,
        ]
        .into_iter()
        .any(|key| set(key).is_some());
        let is_unsigned = set(AmazonS3ConfigKey::SkipSignature).is_some_and(|value| value == "true");
        // Only Amazon's virtual machines have credentials without variables; an endpoint that is set is usually a different server.
        if endpoint.is_some() && !has_credentials && !is_unsigned {
            return Err(settings(
                "there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY".into(),
            ));
        }
        let retries = RetryConfig {
            backoff: BackoffConfig { init_backoff: RETRY_PAUSE.0, max_backoff: RETRY_PAUSE.1, base: 3.0 },
            max_retries: MAX_RETRIES,
            retry_timeout: RETRY_TIMEOUT,
        };
        let objects = builder
            .with_allow_http(is_plain)
            .with_retry(retries)
            .with_http_connector(Connector { needs_tls: !is_plain })
            .build()
            .map_err(|error| settings(error.to_string()))?;
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
        let runtime = runtime.map_err(|error| settings(format!("cannot start threads: {error}")))?;
        let endpoint = endpoint.unwrap_or_else(|| "Amazon S3".into());
        Ok(Client { address, endpoint, objects, runtime })
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
        let key = self.address.key(path);
        let listed = self.objects.list(Some(&key)).map_ok(|object| object.location).try_collect::<Vec<_>>();
        let listed = self.in_time("list", path, listed).await?;
        Ok(listed.iter().map(|key| self.address.relative(key).to_owned()).collect())
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
        let key = self.address.key(path);
        let deadline = DEADLINE + Duration::from_secs(bytes.len() as u64 / SLOWEST_UPLOAD);
        self.within(deadline, "write", path, self.objects.put(&key, PutPayload::from(bytes))).await.map(drop)
    }

    /// Writes an object with the contents of a file; `false` if the file has vanished.
    pub(crate) async fn upload(&self, path: &str, file: &Path) -> Result<bool, RecordError> {
        let local =
            |error: std::io::Error| RecordError::Io { action: "read", path: file.to_owned(), source: error };
        let opened = match File::open(file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            opened => opened.map_err(local)?,
        };
        let mut reader = BufReader::new(opened);
        let mut first = Vec::new();
        (&mut reader).take(PART_BYTES as u64 + 1).read_to_end(&mut first).map_err(local)?;
        if first.len() <= PART_BYTES {
            return self.write(path, first).await.map(|()| true);
        }
        let key = self.address.key(path);
        let failed = |error: object_store::Error| self.failed("write", path, &error);
        let upload = self.in_time("write", path, self.objects.put_multipart(&key)).await?;
        let mut parts = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
        parts.write(&first);
        drop(first);
        let mut buffer = vec![0; PART_BYTES];
        let written = loop {
            match reader.read(&mut buffer).map_err(local) {
                Ok(0) => break Ok(()),
                Ok(count) => {
                    if let Err(error) = parts.wait_for_capacity(PARALLEL_PARTS).await {
                        break Err(failed(error));
                    }
                    parts.write(&buffer[..count]);
                }
                Err(error) => break Err(error),
            }
        };
        if let Err(error) = written {
            // Otherwise the store keeps, and charges for, the parts. The first error is the one to report.
            let _ = parts.abort().await;
            return Err(error);
        }
        parts.finish().await.map_err(failed)?;
        Ok(true)
    }

    /// Removes objects. An object that does not exist is no error.
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
