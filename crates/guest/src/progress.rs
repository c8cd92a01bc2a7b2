//! Progress of a kernel build.

/// Stage of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildStage {
    /// apt reads or downloads package lists.
    PackageLists,
    /// apt downloads the source package; counted in bytes.
    Download,
    /// The source is unpacked or copied.
    Unpack,
    /// The configuration is generated and checked.
    Configure,
    /// The kernel is compiled; counted in objects; the total is an estimate.
    Compile,
}

/// Progress of a kernel build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuildProgress {
    /// The current stage.
    pub stage: BuildStage,
    /// Bytes or objects so far; 0 in stages without a count.
    pub done: u64,
    /// Total number; 0 if unknown.
    pub total: u64,
}

impl BuildProgress {
    /// The start of a stage.
    pub(crate) fn start(stage: BuildStage) -> Self {
        BuildProgress { stage, done: 0, total: 0 }
    }
}
