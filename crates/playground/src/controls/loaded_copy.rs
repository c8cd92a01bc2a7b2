//! A copy of an algorithm, instantiated by the page, with values of its parameters.

#![allow(unsafe_code)]

use std::rc::Rc;

use tcp::parameters::{ParameterValues, encode};

use super::{
    Algorithm, page,
    runtime::{Call, RawOperations, Runtime},
};

/// The copy and the pointers to call it. It exists as long as the instance of the whole module.
#[derive(Debug)]
pub(super) struct LoadedCopy {
    pub(super) runtime: *mut Runtime,
    pub(super) free_storage: unsafe extern "C" fn(*mut Call),
    pub(super) operations: Table,
}

/// The operations of one congestion control, and the form of `cong_control`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table {
    pub(super) raw: RawOperations,
    /// `cong_control` takes `(sk, rs)` as before Linux 6.10: never for built-in algorithms.
    pub(super) short_cong_control: bool,
}

impl LoadedCopy {
    /// Loads a copy of an algorithm with these parameters, for a host with these timer ticks per second.
    ///
    /// # Errors
    /// A parameter is invalid, or the page cannot instantiate the module.
    pub(super) fn load(
        algorithm: &'static Algorithm,
        values: &ParameterValues,
        hz: u32,
    ) -> Result<Rc<LoadedCopy>, String> {
        let known = algorithm.parameters();
        let encoded = encode(algorithm.name, &known, values).map_err(|error| error.to_string())?;
        let instance = page::instantiate_module(algorithm.module).ok_or_else(|| {
            format!("the page cannot instantiate the congestion control {}", algorithm.name)
        })?;
        let symbol = |name: &str| {
            instance.symbol(name).ok_or_else(|| format!("{} has no variable {name}", algorithm.name))
        };
        for (parameter, raw) in encoded {
            let bytes = parameter.bytes(raw);
            // SAFETY: the copy's variable of this type; nothing else refers to the copy yet.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), symbol(&parameter.name)?, bytes.len()) };
        }
        let runtime = symbol("longfat_runtime")?.cast::<Runtime>();
        // SAFETY: variables of the copy with these types (native/runtime.h, native/runtime.c; `long` has 32
        // bits); nothing else refers to the copy yet. The members of the operations point to functions with
        // the types of the mirror.
        let raw = unsafe {
            (*runtime).jiffy_ns = 1_000_000_000 / u64::from(hz.max(1));
            (*runtime).jiffy_start_ns = u64::MAX;
            symbol("CONFIG_HZ")?.cast::<u32>().write(hz);
            symbol(algorithm.operations)?.cast::<RawOperations>().read()
        };
        let operations = Table { raw, short_cong_control: false };
        Ok(Rc::new(LoadedCopy { runtime, free_storage: no_storage, operations }))
    }

    /// The operations with this `.name`: built-in algorithms never switch a socket to another one.
    pub(super) fn by_kernel_name(&self, _: &[u8; 16]) -> Option<Table> {
        None
    }
}

/// As [`LoadedCopy::by_kernel_name`], of other algorithms.
pub(super) fn built_in(_: &[u8; 16], _: &LoadedCopy) -> Option<(Rc<LoadedCopy>, Table)> {
    None
}

/// Side modules are built without `native/maps.c`, so a socket has no values in maps.
unsafe extern "C" fn no_storage(_: *mut Call) {}
