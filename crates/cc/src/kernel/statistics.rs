//! The kernel's statistics of a congestion control's calls: number and duration.

use std::os::fd::{AsFd, OwnedFd};

use super::{Error, Registration, error::Attempted, sys};

/// While this value exists, the kernel counts the calls of all BPF programs of the machine (about ten
/// nanoseconds per call).
#[derive(Debug)]
pub struct CallMeasurement {
    /// The kernel counts until this descriptor is closed.
    _open: OwnedFd,
}

impl CallMeasurement {
    /// Starts counting. Several processes can do so at the same time; counting stops with the last one.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn begin() -> Result<Self, Error> {
        let open =
            sys::enable_stats().attempted(|| "enable the kernel's statistics of BPF programs".into())?;
        Ok(CallMeasurement { _open: open })
    }
}

/// The calls of one program, that is of the C function of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramCalls {
    /// The C function.
    pub program: String,
    /// Instructions that the verifier processed on all paths.
    pub verified_instructions: u32,
    /// Calls while statistics were enabled.
    pub calls: u64,
    /// Total duration of these calls, ns.
    pub time_ns: u64,
}

impl ProgramCalls {
    /// Mean duration of a call, ns; `None` without calls.
    pub fn ns_per_call(&self) -> Option<f64> {
        (self.calls > 0).then(|| self.time_ns as f64 / self.calls as f64)
    }
}

impl Registration {
    /// The calls of each program since it was loaded.
    ///
    /// # Errors
    /// If the kernel does not return the statistics of a program.
    pub fn calls(&self) -> Result<Vec<ProgramCalls>, Error> {
        let counted = self.programs().iter().map(|(name, program)| {
            let counts = sys::program_counts(program.as_fd())
                .attempted(|| format!("read the statistics of program {name}"))?;
            Ok(ProgramCalls {
                program: name.clone(),
                verified_instructions: counts.verified_insns,
                calls: counts.run_cnt,
                time_ns: counts.run_time_ns,
            })
        });
        counted.collect()
    }
}
