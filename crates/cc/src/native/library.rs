//! A native congestion control of one run.
//!
//! The sockets of a run share a library, as they share a registration in the kernel. A library and its
//! controllers must stay on one thread.

use super::controller::Controller;
use super::loaded_copy::LoadedCopy;
use super::{LibraryError, SharedObject, build};
use crate::{ParameterValues, Source};
use std::rc::Rc;

/// A loaded congestion control.
#[derive(Debug, Clone)]
pub struct Library {
    copy: Rc<LoadedCopy>,
}

impl Library {
    /// Builds a user's source, and loads a copy with these parameters.
    ///
    /// # Errors
    /// If the build fails, a parameter is invalid, or the object cannot be loaded.
    pub fn open(source: &Source, values: &ParameterValues) -> Result<Library, LibraryError> {
        Library::load(&*build(source)?, values)
    }

    /// Loads a copy of a build with these parameters.
    ///
    /// # Errors
    /// If a parameter is invalid, or the object cannot be loaded.
    pub fn load(object: &SharedObject, values: &ParameterValues) -> Result<Library, LibraryError> {
        Ok(Library { copy: LoadedCopy::load(object, values)? })
    }

    /// Sets the ticks per second of `jiffies` (default: 250). Call it before the first operation.
    pub fn set_hz(&mut self, hz: u32) {
        self.copy.set_hz(hz);
    }

    /// The variables of type `struct tcp_congestion_ops`, in the order of the file.
    pub fn names(&self) -> Vec<&str> {
        self.copy.operations.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// The main congestion control: the last one whose variable or `.name` is that of the file, else the
    /// first that the kernel would accept.
    pub fn main_name(&self) -> &str {
        &self.copy.operations[self.copy.main].0
    }

    /// Creates a controller for one socket, of the main congestion control or of that with the variable or
    /// `.name` given.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn controller(&self, name: Option<&str>) -> Result<Controller, LibraryError> {
        let index = match name {
            None => self.copy.main,
            Some(wanted) => self.copy.position(wanted).ok_or_else(|| LibraryError::NoSuchOperations {
                wanted: wanted.to_owned(),
                names: self.names().join(", "),
            })?,
        };
        Ok(Controller::new(self.copy.clone(), self.copy.operations[index].1))
    }
}
