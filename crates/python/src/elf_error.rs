//! The error state of libelf, for libbpf in a shared object.
//!
//! Distributions compile their static libelf for programs: its `elf_error.o` has a thread-local variable that
//! the linker refuses in a shared object. These functions replace it, so that the linker does not use that
//! file of the archive. Nothing reads the texts of libelf's errors: libbpf prints them in its log only.

#![allow(unsafe_code)]

use std::{
    cell::Cell,
    ffi::{c_char, c_int},
};

thread_local! {
    /// The last error of this thread; 0 without one.
    static LAST: Cell<c_int> = const { Cell::new(0) };
}

/// Sets the thread's last error.
// SAFETY: no other library of this module defines the name; see above.
#[unsafe(no_mangle)]
extern "C" fn __libelf_seterrno(value: c_int) {
    LAST.set(value);
}

/// The thread's last error, which is cleared (elf_errno(3)).
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn elf_errno() -> c_int {
    LAST.replace(0)
}

/// The text of an error (elf_errmsg(3)); null without an error.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn elf_errmsg(error: c_int) -> *const c_char {
    match if error == 0 { LAST.get() } else { error } {
        0 => std::ptr::null(),
        _ => c"libelf failed".as_ptr(),
    }
}
