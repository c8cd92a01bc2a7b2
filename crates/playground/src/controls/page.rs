//! The functions of the page (`web/src/playground/instance.ts`) that instantiate side modules.

#![allow(unsafe_code)]

#[link(wasm_import_module = "page")]
unsafe extern "C" {
    /// Instantiates a side module; returns its index, or -1.
    fn instantiate(module: *const u8, bytes: usize) -> i32;
    /// The address of a variable of a side module; null if it has none of this name.
    fn symbol(instance: i32, name: *const u8, bytes: usize) -> *mut u8;
}

/// A side module with separate variables.
#[derive(Debug, Clone, Copy)]
pub struct Instance(i32);

/// Instantiates a side module; `None` if the browser refuses it.
pub fn instantiate_module(module: &'static [u8]) -> Option<Instance> {
    // SAFETY: the page reads the bytes and writes only into memory that it allocates by `allocate`.
    let index = unsafe { instantiate(module.as_ptr(), module.len()) };
    (index >= 0).then_some(Instance(index))
}

impl Instance {
    /// The address of a variable.
    pub fn symbol(self, name: &str) -> Option<*mut u8> {
        // SAFETY: the page reads the name.
        let address = unsafe { symbol(self.0, name.as_ptr(), name.len()) };
        (!address.is_null()).then_some(address)
    }
}
