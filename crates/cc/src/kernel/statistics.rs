//! What the kernel counts of a congestion control's calls: how many, and how long they took.

use std::os::fd::{AsFd, OwnedFd};

use super::{Error, Registration, error::Attempted, sys};

/// While it lives the kernel counts calls of all BPF programs of the machine (which costs each call some ten nanoseconds).
#[derive(Debug)]
pub struct Measuring {
    /// The kernel measures until it is closed.
    _open: OwnedFd,
}

impl Measuring {
    /// Begins. Others may be measuring at the same time; it ends when the last has ended.
    pub fn begin() -> Result<Self, Error> {
        let open = sys::enable_stats().attempted(|| "have the kernel count BPF programs' calls".into())?;
        Ok(Measuring { _open: open })
    }
}

/// The calls of one program, the C function behind an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calls {
    /// The C function.
    pub program: String,
    /// Instructions that the verifier followed, all paths together.
    pub verified_instructions: u32,
    /// Calls while somebody measured.
    pub calls: u64,
    /// Time that they took, ns.
    pub time_ns: u64,
}

impl Calls {
    /// Nanoseconds a call; `None` without calls.
    pub fn ns_a_call(&self) -> Option<f64> {
        (self.calls > 0).then(|| self.time_ns as f64 / self.calls as f64)
    }
}

impl Registration {
    /// What the kernel has counted of each of its programs since it was loaded.
    pub fn calls(&self) -> Result<Vec<Calls>, Error> {
        let counted = self.programs().iter().map(|(name, program)| {
            let counts =
                sys::program_counts(program.as_fd()).attempted(|| format!("ask about program {name}"))?;
            Ok(Calls {
                program: name.clone(),
                verified_instructions: counts.verified_insns,
                calls: counts.run_cnt,
                time_ns: counts.run_time_ns,
            })
        });
        counted.collect()
    }
}
