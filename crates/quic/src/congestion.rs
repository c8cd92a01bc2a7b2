//! Loads congestion controls of crate `cc` for the connections of a thread.

use bulk::quic::Congestion;
use cc::{ParameterValues, Source, native::Library};

use crate::Error;

/// Loads a congestion control, with the default values of its parameters.
pub(crate) fn load(source: &Source) -> Result<Congestion, Error> {
    let library = Library::open(source, &ParameterValues::new())?;
    // The main congestion control exists from now on.
    library.controller(None)?;
    Ok(Congestion::new(move |number| {
        let mut controller = library.controller(None).ok()?;
        controller.set_seed(number);
        Some(Box::new(controller))
    }))
}
