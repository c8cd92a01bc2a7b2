//! Loads a congestion control into the running kernel.

use std::{
    cell::RefCell,
    collections::BTreeSet,
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    sync::Once,
};

use libbpf_rs::{Link, MapCore, MapType, PrintLevel};

use super::{
    Error, Missing, OpsInfo, Rejection, compile,
    error::{Attempted, as_io},
    log::INCOMPLETE,
    missing, names,
    object::{Layout, is_ops, main_of, open},
};
use crate::{Source, Values, parameters};

/// The registration ends with its link, so with this process (linux/bpf.h, since 6.4).
const BPF_F_LINK: u32 = 1 << 13;
/// Any socket may choose it, without root and whatever the machine's list of allowed ones says (net/tcp.h).
const TCP_CONG_NON_RESTRICTED: u32 = 1;
/// Names are tried so often before giving up: each is one of 60 million.
const TRIES: usize = 8;

/// What to call it in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name<'a> {
    /// The algorithm's name and a tail that nothing else has.
    Generated,
    /// As the file says.
    OfTheFile,
    /// This.
    Given(&'a str),
}

/// A congestion control in the kernel, until it is dropped or the process ends. Sockets that use it then keep it until they are closed.
#[derive(Debug)]
pub struct Registration {
    names: Vec<String>,
    /// What the file calls each of these: its variable, and its `.name`.
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

    /// The name of the congestion control that the file calls so, by its variable or else by its `.name`.
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
/// What the machine lacks, what is wrong with the file, its parameters or the name, or why the kernel refuses it.
pub fn load(source: &Source, values: &Values, name: Option<&str>) -> Result<Registration, Error> {
    load_named(source, values, name.map_or(Name::Generated, Name::Given))
}

/// As [`load`], with all ways of naming it.
///
/// # Errors
/// As [`load`].
pub fn load_named(source: &Source, values: &Values, name: Name<'_>) -> Result<Registration, Error> {
    if let Name::Given(name) = name {
        names::check(name)?;
    }
    if let Some(missing) = missing() {
        return Err(Error::Missing(missing));
    }
    let object = compile(source)?;
    let known = if values.is_empty() { Vec::new() } else { source.parameters()? };
    let encoded = parameters::encode(source.name(), &known, values)?;
    let constants: Vec<(&str, Vec<u8>)> =
        encoded.iter().map(|(parameter, raw)| (parameter.name.as_str(), parameter.bytes(*raw))).collect();
    let layout = Layout::of(source.name(), &object)?;
    let mut taken = BTreeSet::new();
    loop {
        match attempt(source, &object, &layout, &constants, name, &taken) {
            // Somebody has the generated name, or a name of the file beside its main one: these get others.
            Err(Error::Taken { name: wanted }) if taken.len() < TRIES && may_differ(&wanted, name) => {
                taken.insert(wanted);
            }
            other => return other,
        }
    }
}

/// Whether the file's other congestion controls, or all, may be called something else than `wanted`.
fn may_differ(wanted: &str, name: Name<'_>) -> bool {
    match name {
        Name::Generated => true,
        Name::Given(given) => wanted != given,
        Name::OfTheFile => false,
    }
}

fn attempt(
    source: &Source,
    object: &[u8],
    layout: &Layout,
    constants: &[(&str, Vec<u8>)],
    name: Name<'_>,
    taken: &BTreeSet<String>,
) -> Result<Registration, Error> {
    let file = source.name();
    let mut open = open(file, object)?;
    let ops = layout.ops(&open, file)?;
    let main = main_of(&ops, file).ok_or_else(|| Error::NoOps { name: file.into() })?;
    let unexpected = |what: &str| Error::Os {
        operation: format!("set {what} of {file}"),
        cause: io::Error::new(
            io::ErrorKind::InvalidData,
            "the eBPF object does not have it where it should be",
        ),
    };
    layout.set_constants(&mut open, constants).map_err(|which| unexpected(&format!("parameter {which}")))?;
    layout.leave_optional_members_out(&mut open);
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
            return Err(twice(file, kernel_name, name));
        }
        chosen.push((own, kernel_name));
    }
    let (loaded, log) = logged(|| open.load());
    let mut loaded = loaded.map_err(|e| refused(source, &log, &as_io(&e)))?;
    let mut registration =
        Registration { names: Vec::new(), own: Vec::new(), links: Vec::new(), programs: Vec::new() };
    // The main one first, so that it is the first of `names`.
    for is_main in [true, false] {
        for mut map in loaded.maps_mut().filter(|m| m.map_type() == MapType::StructOps) {
            let variable = map.name().to_string_lossy().into_owned();
            let Some((own, kernel_name)) = chosen.iter().find(|(own, _)| own.variable == variable) else {
                continue;
            };
            if (variable == main.variable) != is_main {
                continue;
            }
            let (link, log) = logged(|| map.attach_struct_ops());
            match link.map_err(|e| as_io(&e)) {
                Ok(link) => registration.links.push(link),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                    return Err(Error::Taken { name: kernel_name.clone() });
                }
                // A file may have one that nobody is meant to use, beside others (the kernel's selftests do).
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
    // Those that no operation refers to may not be loaded: optional ones.
    for program in loaded.progs().filter(|program| program.as_fd().as_raw_fd() >= 0) {
        let kept = program.as_fd().try_clone_to_owned().attempted(|| format!("keep a program of {file}"))?;
        registration.programs.push((program.name().to_string_lossy().into_owned(), kept));
    }
    Ok(registration)
}

/// The main one's name is as asked; the others keep the file's, which it may use to switch between them, where that is free.
fn kernel_name(own: &OpsInfo, is_main: bool, file: &str, name: Name<'_>, taken: &BTreeSet<String>) -> String {
    match name {
        Name::Given(given) if is_main => given.into(),
        Name::Generated if is_main => names::generate(file),
        Name::OfTheFile => own.name.clone(),
        _ if taken.contains(&own.name) => names::generate(&own.name),
        _ => own.name.clone(),
    }
}

/// Two of a file that would have the same name: others than the main one get another where that is ours to choose.
fn twice(file: &str, kernel_name: String, name: Name<'_>) -> Error {
    match name {
        Name::Generated => Error::Taken { name: kernel_name },
        _ => Error::Name { name: kernel_name, why: format!("{file} has two of this name") },
    }
}

/// What tcp_validate_congestion_control() answers (net/ipv4/tcp_cong.c).
fn is_incomplete(cause: &io::Error) -> bool {
    cause.raw_os_error() == Some(libc::EINVAL)
}

const NEEDED_OPERATIONS: &str = "needs ssthresh, undo_cwnd, and one of cong_avoid and cong_control";

/// An error number as what it means here.
fn refused(source: &Source, log: &str, cause: &io::Error) -> Error {
    // The verifier answers EACCES to a program that it does not like; EPERM is for the caller.
    if cause.raw_os_error() == Some(libc::EPERM) && !log.contains("BEGIN PROG LOAD LOG") {
        return Error::Missing(Missing::Privilege("the kernel's permission to load BPF is".into()));
    }
    // Not the program's fault: this process has no more descriptors or memory, or was interrupted.
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

thread_local! {
    static LOG: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Does it, and returns what libbpf said meanwhile on this thread; libbpf itself prints nothing.
pub(super) fn logged<T>(work: impl FnOnce() -> T) -> (T, String) {
    listen();
    LOG.take();
    let done = work();
    (done, LOG.take())
}

/// From here on libbpf prints nothing itself.
pub(super) fn listen() {
    static LISTEN: Once = Once::new();
    LISTEN.call_once(|| {
        libbpf_rs::set_print(Some((PrintLevel::Warn, |_, said| {
            LOG.with_borrow_mut(|log| log.push_str(&said));
        })));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_main_one_is_named_as_asked_and_the_others_as_the_file_does_while_that_is_free() {
        let own = OpsInfo { variable: "second".into(), name: "second".into(), flags: 0 };
        let none = BTreeSet::new();
        assert_eq!(kernel_name(&own, true, "f", Name::Given("g"), &none), "g");
        assert_eq!(kernel_name(&own, false, "f", Name::Given("g"), &none), "second");
        let taken = BTreeSet::from(["second".to_string()]);
        assert!(kernel_name(&own, false, "f", Name::Generated, &taken).starts_with("second_"));
        assert!(kernel_name(&own, true, "f", Name::Generated, &taken).starts_with("f_"));
    }
}
