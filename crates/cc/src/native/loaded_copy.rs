//! A copy of a native build, loaded into this process, with values of its parameters.
//!
//! All state in C (globals, parameters, maps, clock) belongs to the copy, so parallel simulations share
//! nothing.

#![allow(unsafe_code)]

use super::image::Image;
use super::inspect::{Map, Operations};
use super::object::incomplete;
use super::runtime::{Call, MODULES, Module, RawOperations, Runtime, c_name, rust_name};
use super::{LibraryError, SharedObject, build, signatures};
use crate::{Algorithm, ParameterValues, Source, encode};
use std::ffi::c_void;
use std::rc::Rc;

/// The copy and the pointers to call it.
#[derive(Debug)]
pub(super) struct LoadedCopy {
    // Drop order: first the copy's allocations, then the copy.
    _maps: Maps,
    pub(super) runtime: *mut Runtime,
    pub(super) free_storage: unsafe extern "C" fn(*mut Call),
    pub(super) operations: Vec<(String, Table)>,
    pub(super) main: usize,
    hz: *mut libc::c_ulong,
    /// Libraries behind functions of kernel modules such as `cubictcp_init`, if the file uses any.
    modules: Vec<Rc<LoadedCopy>>,
    _known: Box<[[u8; 16]]>,
    _image: Image,
}

/// The operations of one congestion control, and the form of `cong_control`.
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
            // SAFETY: created by longfat_map_create of the same copy, which is still loaded, and freed once.
            unsafe { (self.free)(*definition) };
        }
    }
}

type MapCreate = unsafe extern "C" fn(*mut c_void, u32, u32, u32, u32) -> libc::c_int;

impl LoadedCopy {
    /// Loads a copy of a build with these parameters.
    ///
    /// # Errors
    /// If a parameter is invalid, or the object cannot be loaded.
    pub(super) fn load(
        object: &SharedObject,
        values: &ParameterValues,
    ) -> Result<Rc<LoadedCopy>, LibraryError> {
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

        // SAFETY: the symbols are functions of the shim with these types.
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
            // SAFETY: the definition is a variable of the copy of at least one pointer, in a writable
            // section.
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
        // SAFETY: the copy's variable, with the type in runtime.h; nothing else refers to the copy yet.
        unsafe {
            (*runtime).known = known.as_ptr();
            (*runtime).known_count = known.len() as u64;
        }
        let hz = symbol(c"CONFIG_HZ")?.cast::<libc::c_ulong>();
        let modules = match image.symbol(c"longfat_modules") {
            Ok(table) => open_modules(table.cast())?,
            Err(_) => Vec::new(),
        };
        let copy = LoadedCopy {
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
        Ok(Rc::new(copy))
    }

    /// Sets the ticks per second of `jiffies` (default: 250). Call it before the first operation.
    pub(super) fn set_hz(&self, hz: u32) {
        // SAFETY: the copy's variables; no call is active, because calls borrow a controller on this thread.
        unsafe {
            (*self.runtime).jiffy_ns = 1_000_000_000 / u64::from(hz.max(1));
            (*self.runtime).jiffy_start_ns = u64::MAX;
            *self.hz = libc::c_ulong::from(hz);
        }
        for module in &self.modules {
            module.set_hz(hz);
        }
    }

    /// The operations with this variable name or `.name`.
    pub(super) fn position(&self, name: &str) -> Option<usize> {
        let by_variable = self.operations.iter().position(|(variable, _)| variable == name);
        by_variable.or_else(|| self.operations.iter().position(|(_, o)| rust_name(&o.raw.name) == name))
    }

    /// The operations with this `.name`.
    pub(super) fn by_kernel_name(&self, name: &[u8; 16]) -> Option<Table> {
        self.operations.iter().find(|(_, o)| o.raw.name == *name).map(|(_, o)| *o)
    }
}

/// Loads the built-in algorithms that replace kernel modules, and enters them into `table`.
fn open_modules(table: *mut Module) -> Result<Vec<Rc<LoadedCopy>>, LibraryError> {
    let mut opened = Vec::new();
    for (i, name) in MODULES.into_iter().enumerate() {
        let missing = || LibraryError::NoSuchOperations { wanted: name.into(), names: MODULES.join(", ") };
        let source = Source::built_in(name).ok_or_else(missing)?;
        let copy = LoadedCopy::load(&*build(&source)?, &ParameterValues::new())?;
        let module =
            Module { operations: &raw const copy.operations[copy.main].1.raw, runtime: copy.runtime };
        // SAFETY: the array has MODULES.len() elements, and nothing else refers to the copy yet. The entry
        // points into the library, which lives as long as the copy.
        unsafe { table.add(i).write(module) };
        opened.push(copy);
    }
    Ok(opened)
}

/// The built-in algorithm of this name, with its defaults.
pub(super) fn built_in(name: &[u8; 16], like: &LoadedCopy) -> Option<(Rc<LoadedCopy>, Table)> {
    let source = Source::built_in(&rust_name(name))?;
    let copy = LoadedCopy::load(&*build(&source).ok()?, &ParameterValues::new()).ok()?;
    // SAFETY: the copy's variable; no call is active.
    copy.set_hz(unsafe { *like.hz } as u32);
    let operations = copy.operations[copy.main].1;
    Some((copy, operations))
}
