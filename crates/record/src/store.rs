//! The interface of an object store with records.
//!
//! An object store is used through two directories. The cache is a directory of records with the summaries of
//! the store; other files are fetched into it when they are read. Commands write records to the outbox, from
//! which a thread uploads them.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::Error;

/// An object store with records.
pub trait RunStore: fmt::Debug + Send + Sync {
    /// Its address, as in `s3://bucket/prefix`.
    fn url(&self) -> &str;

    /// The address of the record whose directory in the cache or the outbox is `directory`.
    fn url_of(&self, directory: &Path) -> String;

    /// The cache: a directory of records.
    fn cache(&self) -> &Path;

    /// Brings the records in the cache and their summaries up to date.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn refresh(&self) -> Result<(), Error>;

    /// Brings up to date the files below `directory` of the cache, which are not records and never change.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn refresh_files(&self, directory: &str) -> Result<(), Error>;

    /// The names of a record's files in the store.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn file_names(&self, directory: &Path) -> Result<Vec<String>, Error>;

    /// Fetches a file of a record into its directory in the cache, unless it is there. A file that the record
    /// does not have is no error.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn fetch(&self, directory: &Path, file: &str) -> Result<(), Error>;

    /// Removes a record from the store and from the cache.
    ///
    /// # Errors
    /// If the store cannot be written.
    fn remove(&self, directory: &Path) -> Result<(), Error>;

    /// Opens the outbox: a directory of records whose changes are uploaded in the background.
    ///
    /// # Errors
    /// If it cannot be created, or the store cannot be written.
    fn outbox(&self) -> Result<PathBuf, Error>;

    /// Waits until everything in the outbox is uploaded, and removes it. Without an outbox, nothing is done.
    ///
    /// # Errors
    /// If the store cannot be written. The outbox remains, and is uploaded by the next program that writes to
    /// this store.
    fn finish(&self) -> Result<(), Error>;
}
