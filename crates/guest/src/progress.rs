//! How far a build is.

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// apt reads package lists, or gets them.
    PackageLists,
    /// apt gets the source package: bytes.
    Download,
    /// The source is unpacked, or copied.
    Unpack,
    /// The configuration is made and checked.
    Configure,
    /// The kernel is compiled: objects, of an estimate.
    Compile,
}

/// How far a build is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What is being done.
    pub stage: Stage,
    /// Bytes or objects so far; 0 where nothing is counted.
    pub done: u64,
    /// Of how many; 0 where that is not known.
    pub total: u64,
}

impl Progress {
    /// The start of a stage.
    pub(crate) fn start(stage: Stage) -> Self {
        Progress { stage, done: 0, total: 0 }
    }
}
