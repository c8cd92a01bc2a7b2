//! The parameters of a C file, which are read from its native build.

use super::build;
use crate::{Parameter, Source, SourceError};

impl Source {
    /// The parameters, in the order of the file. A user's file is compiled natively for this.
    ///
    /// # Errors
    /// If the native build fails.
    pub fn parameters(&self) -> Result<Vec<Parameter>, SourceError> {
        Ok(build(self)?.parameters().to_vec())
    }
}
