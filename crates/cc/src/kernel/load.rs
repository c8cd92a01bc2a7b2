//! Loads a congestion control into the running kernel.

use std::{
    collections::BTreeSet,
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

use libbpf_rs::{Link, MapCore, MapType};

use super::{
    Error, MissingRequirement, OpsInfo, Rejection, compile,
    error::{Attempted, as_io},
    libbpf_log::capture_log,
    log::INCOMPLETE,
    missing_requirement, names,
    object::{Layout, is_ops, main_of, open},
};
use crate::{ParameterValues, Source, encode};

/// The registration ends with its link, and so with this process (linux/bpf.h, since 6.4).
const BPF_F_LINK: u32 = 1 << 13;
/// Any socket may select it, without root and independent of the machine's list of allowed ones (net/tcp.h).
const TCP_CONG_NON_RESTRICTED: u32 = 1;
/// Maximum attempts to find a free name; each generated name is one of 60 million.
const MAX_NAME_ATTEMPTS: usize = 8;

/// The name in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelName<'a> {
    /// The algorithm's name and a unique suffix.
    Generated,
    /// The name in the file.
    FromFile,
    /// This name.
    Given(&'a str),
}

/// A congestion control in the kernel, until it is dropped or the process ends. Sockets that use it keep it
/// until they are closed.
#[derive(Debug)]
pub struct Registration {
    names: Vec<String>,
    /// Variable and `.name` of each of these in the file.
    own: Vec<OpsInfo>,
    links: Vec<Link>,
    programs: Vec<(String, OwnedFd)>,
}

impl Registration {
    /// The name for `setsockopt(TCP_CONGESTION)`: at most 15 characters.
    pub fn name(&self) -> &str {
        &self.names[0]
    }

    /// All names: a file may have several congestion controls. The first is [`Registration::name`].
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The kernel name of the congestion control with this variable, or else with this `.name`, in the file.
    pub fn named(&self, wanted: &str) -> Option<&str> {
        let by_variable = self.own.iter().position(|own| own.variable == wanted);
        let found = by_variable.or_else(|| self.own.iter().position(|own| own.name == wanted))?;
        self.names.get(found).map(String::as_str)
    }

    pub(super) fn programs(&self) -> &[(String, OwnedFd)] {
        &self.programs
    }

    pub(super) fn links_mut(&mut self) -> impl Iterator<Item = (&str, &mut Link)> {
        self.names.iter().map(String::as_str).zip(&mut self.links)
    }
}

/// Loads a source with these parameters under `name`, or under a generated one.
///
/// # Errors
/// If the machine lacks a requirement, the file, its parameters or the name is invalid, or the kernel rejects
/// the program.
pub fn load(source: &Source, values: &ParameterValues, name: Option<&str>) -> Result<Registration, Error> {
    load_named(source, values, name.map_or(KernelName::Generated, KernelName::Given))
}

/// Like [`load`], for all kinds of names.
///
/// # Errors
/// As [`load`].
pub fn load_named(
    source: &Source,
    values: &ParameterValues,
    name: KernelName<'_>,
) -> Result<Registration, Error> {
    if let KernelName::Given(name) = name {
        names::check(name)?;
    }
    if let Some(missing) = missing_requirement() {
        return Err(Error::Missing(missing));
    }
    let object = compile(source)?;
    let known = if values.is_empty() { Vec::new() } else { source.parameters()? };
    let encoded = encode(source.name(), &known, values)?;
    let constants: Vec<(&str, Vec<u8>)> =
        encoded.iter().map(|(parameter, raw)| (parameter.name.as_str(), parameter.bytes(*raw))).collect();
    let layout = Layout::of(source.name(), &object)?;
    tracing::debug!(file = source.name(), bytes = object.len(), "compiled to eBPF");
    let mut taken = BTreeSet::new();
    loop {
        match attempt(source, &object, &layout, &constants, name, &taken) {
            // The generated name, or that of a secondary congestion control of the file, is taken: try other
            // names.
            Err(Error::Taken { name: wanted })
                if taken.len() < MAX_NAME_ATTEMPTS && may_differ(&wanted, name) =>
            {
                taken.insert(wanted);
            }
            other => return other,
        }
    }
}

/// Whether a congestion control may get another name than `wanted`.
fn may_differ(wanted: &str, name: KernelName<'_>) -> bool {
    match name {
        KernelName::Generated => true,
        KernelName::Given(given) => wanted != given,
        KernelName::FromFile => false,
    }
}

fn attempt(
    source: &Source,
    object: &[u8],
    layout: &Layout,
    constants: &[(&str, Vec<u8>)],
    name: KernelName<'_>,
    taken: &BTreeSet<String>,
) -> Result<Registration, Error> {
    let file = source.name();
    let mut open = open(file, object)?;
    let ops = layout.ops(&open, file)?;
    let main = main_of(&ops, file).ok_or_else(|| Error::NoOps { name: file.into() })?;
    let unexpected = |what: &str| Error::Os {
        operation: format!("set {what} of {file}"),
        cause: io::Error::new(io::ErrorKind::InvalidData, "not found in the eBPF object"),
    };
    layout.set_constants(&mut open, constants).map_err(|which| unexpected(&format!("parameter {which}")))?;
    layout.clear_unsupported_members(&mut open);
    let mut chosen: Vec<(&OpsInfo, String)> = Vec::new();
    for mut map in open.maps_mut().filter(|map| is_ops(map)) {
        let variable = map.name().to_string_lossy().into_owned();
        let Some(own) = ops.iter().find(|o| o.variable == variable) else { continue };
        let kernel_name = kernel_name(own, own == main, file, name, taken);
        names::check(&kernel_name)?;
        let flags = own.flags | TCP_CONG_NON_RESTRICTED;
        layout.set_name_and_flags(&mut map, &kernel_name, flags).ok_or_else(|| unexpected("the name"))?;
        let flags = map.map_flags() | BPF_F_LINK;
        map.set_map_flags(flags).attempted(|| format!("set flags of {variable}"))?;
        if chosen.iter().any(|(_, other)| *other == kernel_name) {
            return Err(duplicate_name(file, kernel_name, name));
        }
        chosen.push((own, kernel_name));
    }
    let (loaded, log) = capture_log(|| open.load());
    let mut loaded = loaded.map_err(|e| refused(source, &log, &as_io(&e)))?;
    let mut registration =
        Registration { names: Vec::new(), own: Vec::new(), links: Vec::new(), programs: Vec::new() };
    // The main one is first, as in `names`.
    for is_main in [true, false] {
        for mut map in loaded.maps_mut().filter(|m| m.map_type() == MapType::StructOps) {
            let variable = map.name().to_string_lossy().into_owned();
            let Some((own, kernel_name)) = chosen.iter().find(|(own, _)| own.variable == variable) else {
                continue;
            };
            if (variable == main.variable) != is_main {
                continue;
            }
            let (link, log) = capture_log(|| map.attach_struct_ops());
            match link.map_err(|e| as_io(&e)) {
                Ok(link) => registration.links.push(link),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                    return Err(Error::Taken { name: kernel_name.clone() });
                }
                // A file may have an incomplete one beside others, which is not meant to be used (the
                // kernel's selftests do).
                Err(e) if is_incomplete(&e) && !is_main => continue,
                Err(e) if is_incomplete(&e) => {
                    return Err(refused(source, &format!("{INCOMPLETE}{variable} {NEEDED_OPERATIONS}"), &e));
                }
                Err(e) => return Err(refused(source, &log, &e)),
            }
            registration.names.push(kernel_name.clone());
            registration.own.push((*own).clone());
        }
    }
    // Optional programs that no operation refers to may not be loaded.
    for program in loaded.progs().filter(|program| program.as_fd().as_raw_fd() >= 0) {
        let kept = program
            .as_fd()
            .try_clone_to_owned()
            .attempted(|| format!("duplicate the descriptor of a program of {file}"))?;
        registration.programs.push((program.name().to_string_lossy().into_owned(), kept));
    }
    Ok(registration)
}

/// The main algorithm gets the requested name. The others keep the file's names if these are free, because
/// the file may switch between them by name.
fn kernel_name(
    own: &OpsInfo,
    is_main: bool,
    file: &str,
    name: KernelName<'_>,
    taken: &BTreeSet<String>,
) -> String {
    match name {
        KernelName::Given(given) if is_main => given.into(),
        KernelName::Generated if is_main => names::generate(file),
        KernelName::FromFile => own.name.clone(),
        _ if taken.contains(&own.name) => names::generate(&own.name),
        _ => own.name.clone(),
    }
}

/// The error for two congestion controls of a file with one name. If names are generated, another name is
/// tried.
fn duplicate_name(file: &str, kernel_name: String, name: KernelName<'_>) -> Error {
    match name {
        KernelName::Generated => Error::Taken { name: kernel_name },
        _ => Error::Name { name: kernel_name, why: format!("{file} has two of this name") },
    }
}

/// Whether tcp_validate_congestion_control() rejected it (net/ipv4/tcp_cong.c).
fn is_incomplete(cause: &io::Error) -> bool {
    cause.raw_os_error() == Some(libc::EINVAL)
}

const NEEDED_OPERATIONS: &str = "needs ssthresh, undo_cwnd, and one of cong_avoid and cong_control";

/// Converts an error number of the kernel to its meaning for loading.
fn refused(source: &Source, log: &str, cause: &io::Error) -> Error {
    // EACCES is the verifier's rejection of the program; EPERM concerns the caller.
    if cause.raw_os_error() == Some(libc::EPERM) && !log.contains("BEGIN PROG LOAD LOG") {
        return Error::Missing(MissingRequirement::Privilege(
            "the kernel's permission to load BPF is".into(),
        ));
    }
    // Not caused by the program: this process has no more descriptors or memory, or was interrupted.
    if matches!(
        cause.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EINTR | libc::EAGAIN)
    ) {
        let cause = io::Error::from_raw_os_error(cause.raw_os_error().unwrap_or_default());
        return Error::Os { operation: format!("load {}", source.name()), cause };
    }
    let why = Rejection::read(log, &cause.to_string());
    let why = match source {
        Source::File { path, text } => why.at_source(path, text),
        Source::BuiltIn(algorithm) => {
            why.at_source(format!("{}.bpf.c", algorithm.name).as_ref(), algorithm.text)
        }
    };
    Error::Rejected { name: source.name().into(), why: Box::new(why) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_main_algorithm_gets_the_requested_name_and_the_others_keep_free_names() {
        let own = OpsInfo { variable: "second".into(), name: "second".into(), flags: 0 };
        let none = BTreeSet::new();
        assert_eq!(kernel_name(&own, true, "f", KernelName::Given("g"), &none), "g");
        assert_eq!(kernel_name(&own, false, "f", KernelName::Given("g"), &none), "second");
        let taken = BTreeSet::from(["second".to_string()]);
        assert!(kernel_name(&own, false, "f", KernelName::Generated, &taken).starts_with("second_"));
        assert!(kernel_name(&own, true, "f", KernelName::Generated, &taken).starts_with("f_"));
    }
}
