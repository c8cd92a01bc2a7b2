//! A copy of a native build with values of its parameters: what one run has of one congestion control.
//!
//! Everything in C (globals, parameters, maps, clock) belongs to the copy, so that simulations side by side share
//! nothing. The sockets of one run share it, as they share a registration in the kernel. A library and its controllers
//! stay on one thread.

#![allow(unsafe_code)]

use super::controller::Controller;
use super::image::Image;
use super::inspect::{Map, Operations};
use super::object::incomplete;
use super::runtime::{Call, MODULES, Module, RawOperations, Runtime, c_name, rust_name};
use super::{LibraryError, SharedObject, build, signatures};
use crate::{Algorithm, Source, Values, encode};
use std::ffi::c_void;
use std::rc::Rc;
use std::sync::Arc;

/// A congestion control, loaded.
#[derive(Debug, Clone)]
pub struct Library {
    inner: Rc<Inner>,
}

/// The copy and what is needed to call it.
#[derive(Debug)]
pub(super) struct Inner {
    // Dropped in this order: what the copy allocated, then the copy.
    _maps: Maps,
    pub(super) runtime: *mut Runtime,
    pub(super) free_storage: unsafe extern "C" fn(*mut Call),
    operations: Vec<(String, Table)>,
    main: usize,
    hz: *mut libc::c_ulong,
    /// What the kernel's functions for its own congestion controls call, where the file uses such.
    modules: Vec<Library>,
    _known: Box<[[u8; 16]]>,
    _image: Image,
}

/// The operations of one congestion control, and how they are called.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table {
    pub(super) raw: RawOperations,
    /// `cong_control` takes `(sk, rs)` as before Linux 6.10.
    pub(super) short_cong_control: bool,
}

/// The maps that the copy's definitions point to.
#[derive(Debug)]
struct Maps {
    definitions: Vec<*mut c_void>,
    free: unsafe extern "C" fn(*mut c_void),
}

impl Drop for Maps {
    fn drop(&mut self) {
        for definition in &self.definitions {
            // SAFETY: made by longfat_map_create of the same copy, which is still loaded, and freed once.
            unsafe { (self.free)(*definition) };
        }
    }
}

type MapCreate = unsafe extern "C" fn(*mut c_void, u32, u32, u32, u32) -> libc::c_int;

impl Library {
    /// Builds the source if it is a user's, and loads a copy with these parameters.
    pub fn open(source: &Source, values: &Values) -> Result<Library, LibraryError> {
        Library::load(&build(source)?, values)
    }

    /// Loads a copy of a build with these parameters.
    pub fn load(object: &Arc<SharedObject>, values: &Values) -> Result<Library, LibraryError> {
        let os = |cause| LibraryError::Load { name: object.name().to_owned(), cause };
        let mut bytes = object.bytes().to_vec();
        for (parameter, raw) in encode(object.name(), object.parameters(), values)? {
            object.patch(&mut bytes, parameter, raw);
        }
        let image = Image::load(&bytes).map_err(os)?;
        let symbol = |name| image.symbol(name).map_err(os);
        let found = object.inspection();
        let runtime = symbol(c"longfat_runtime")?.cast::<Runtime>();
        let base = (runtime as usize).wrapping_sub(found.runtime as usize);
        let at = |address: u64| base.wrapping_add(address as usize) as *mut c_void;

        // SAFETY: the symbols are the shim's own functions of these types.
        let (create, free, free_storage) = unsafe {
            (
                std::mem::transmute::<*mut c_void, MapCreate>(symbol(c"longfat_map_create")?),
                std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void)>(symbol(
                    c"longfat_map_free",
                )?),
                std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut Call)>(symbol(
                    c"longfat_storage_free",
                )?),
            )
        };
        let mut maps = Maps { definitions: Vec::new(), free };
        for Map { address, kind, key_bytes, value_bytes, max_entries, .. } in &found.maps {
            // SAFETY: the definition is a variable of the copy of at least one pointer, in a writable section.
            if unsafe { create(at(*address), *kind, *key_bytes, *value_bytes, *max_entries) } != 0 {
                return Err(os(std::io::ErrorKind::OutOfMemory.into()));
            }
            maps.definitions.push(at(*address));
        }
        let table = |o: &Operations| Table {
            // SAFETY: a variable of this type is at this address of the copy; its signatures were checked.
            raw: unsafe { at(o.address).cast::<RawOperations>().read() },
            short_cong_control: signatures::has_short_cong_control(found, o),
        };
        let operations: Vec<(String, Table)> =
            found.operations.iter().map(|o| (o.name.clone(), table(o))).collect();
        let is_named =
            |(name, o): &(String, Table)| name == object.name() || rust_name(&o.raw.name) == object.name();
        let complete = || found.operations.iter().position(|o| incomplete(o).is_none());
        let main = operations.iter().rposition(is_named).or_else(complete).unwrap_or(0);

        let names = operations.iter().map(|(_, o)| o.raw.name);
        let known: Box<[[u8; 16]]> = names.chain(Algorithm::all().iter().map(|a| c_name(a.name))).collect();
        // SAFETY: the copy's variable, of the type that runtime.h gives it; nobody else knows the copy yet.
        unsafe {
            (*runtime).known = known.as_ptr();
            (*runtime).known_count = known.len() as u64;
        }
        let hz = symbol(c"CONFIG_HZ")?.cast::<libc::c_ulong>();
        let modules = match image.symbol(c"longfat_modules") {
            Ok(table) => open_modules(table.cast())?,
            Err(_) => Vec::new(),
        };
        let inner = Inner {
            _maps: maps,
            runtime,
            free_storage,
            operations,
            main,
            hz,
            modules,
            _known: known,
            _image: image,
        };
        Ok(Library { inner: Rc::new(inner) })
    }

    /// Ticks a second of the clock `jiffies`; 250 unless set. To be set before the first call.
    pub fn set_hz(&mut self, hz: u32) {
        // SAFETY: the copy's variables; no call is under way, for calls borrow a controller on this thread.
        unsafe {
            (*self.inner.runtime).jiffy_ns = 1_000_000_000 / u64::from(hz.max(1));
            (*self.inner.runtime).jiffy_start_ns = u64::MAX;
            *self.inner.hz = libc::c_ulong::from(hz);
        }
        for module in &self.inner.modules {
            module.clone().set_hz(hz);
        }
    }

    /// The variables of type `struct tcp_congestion_ops`, in the order of the file.
    pub fn names(&self) -> Vec<&str> {
        self.inner.operations.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// The main one: the last that is named as the file is (the variable or its `.name`), else the first that the kernel
    /// would take.
    pub fn main_name(&self) -> &str {
        &self.inner.operations[self.inner.main].0
    }

    /// A controller for one socket: of the main variable, or of the variable or `.name` that is given.
    pub fn controller(&self, name: Option<&str>) -> Result<Controller, LibraryError> {
        let index = match name {
            None => self.inner.main,
            Some(wanted) => self.inner.position(wanted).ok_or_else(|| LibraryError::NoSuchOperations {
                wanted: wanted.to_owned(),
                names: self.names().join(", "),
            })?,
        };
        Ok(Controller::new(self.inner.clone(), self.inner.operations[index].1))
    }
}

impl Inner {
    /// The operations with this variable name or `.name`.
    fn position(&self, name: &str) -> Option<usize> {
        let by_variable = self.operations.iter().position(|(variable, _)| variable == name);
        by_variable.or_else(|| self.operations.iter().position(|(_, o)| rust_name(&o.raw.name) == name))
    }

    /// The operations with this `.name`.
    pub(super) fn by_kernel_name(&self, name: &[u8; 16]) -> Option<Table> {
        self.operations.iter().find(|(_, o)| o.raw.name == *name).map(|(_, o)| *o)
    }
}

/// Copies of the program's algorithms that stand for the kernel's, entered into the table at `table`.
fn open_modules(table: *mut Module) -> Result<Vec<Library>, LibraryError> {
    let mut opened = Vec::new();
    for (i, name) in MODULES.into_iter().enumerate() {
        let missing = || LibraryError::NoSuchOperations { wanted: name.into(), names: MODULES.join(", ") };
        let library = Library::open(&Source::built_in(name).ok_or_else(missing)?, &Values::new())?;
        let inner = &library.inner;
        let module =
            Module { operations: &raw const inner.operations[inner.main].1.raw, runtime: inner.runtime };
        // SAFETY: the array of a copy that nobody else knows yet, of MODULES.len() elements. What the entry points to
        // belongs to the library, which is kept as long as the copy.
        unsafe { table.add(i).write(module) };
        opened.push(library);
    }
    Ok(opened)
}

/// The built-in algorithm of that name, with its defaults.
pub(super) fn built_in(name: &[u8; 16], like: &Inner) -> Option<(Rc<Inner>, Table)> {
    let source = Source::built_in(&rust_name(name))?;
    let mut library = Library::open(&source, &Values::new()).ok()?;
    // SAFETY: the copy's variable; no call is under way.
    library.set_hz(unsafe { *like.hz } as u32);
    let operations = library.inner.operations[library.inner.main].1;
    Some((library.inner, operations))
}
