//! A copy of a shared object in this process, with separate variables.
//!
//! The dynamic loader returns the same copy for the same path. So each copy is loaded from a memory file
//! (memfd), which remains open under its own number as long as the copy exists, or from a temporary file
//! where memory files must not be executed.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_void};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd};

/// One copy. Dropping it unloads it.
#[derive(Debug)]
pub struct Image {
    handle: *mut c_void,
    _memory: Option<File>,
}

impl Image {
    /// Loads a copy of an ELF file.
    pub fn load(elf: &[u8]) -> io::Result<Image> {
        match memory_file(elf) {
            Ok(file) => {
                let path = format!("/proc/self/fd/{}", file.as_raw_fd());
                match open(&path) {
                    Ok(handle) => Ok(Image { handle, _memory: Some(file) }),
                    Err(_) => Image::from_temporary_file(elf),
                }
            }
            Err(_) => Image::from_temporary_file(elf),
        }
    }

    fn from_temporary_file(elf: &[u8]) -> io::Result<Image> {
        let mut file = tempfile::Builder::new().prefix("longfat-cc-").suffix(".so").tempfile()?;
        file.write_all(elf)?;
        let path = file
            .path()
            .to_str()
            .ok_or_else(|| io::Error::other("the temporary folder's name is not UTF-8"))?;
        Ok(Image { handle: open(path)?, _memory: None })
    }

    /// The address of a symbol.
    pub fn symbol(&self, name: &CStr) -> io::Result<*mut c_void> {
        // SAFETY: the handle is open and the name a C string.
        let address = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        if address.is_null() { Err(io::Error::other(format!("no symbol {name:?}"))) } else { Ok(address) }
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // SAFETY: the handle is open and closed only here; pointers into the copy are dropped before
        // (loaded_copy.rs).
        unsafe { libc::dlclose(self.handle) };
    }
}

fn memory_file(elf: &[u8]) -> io::Result<File> {
    // SAFETY: the name is a C string; the descriptor is new and owned here.
    let mut file = unsafe {
        let descriptor = libc::memfd_create(c"longfat-cc".as_ptr(), libc::MFD_CLOEXEC);
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        File::from_raw_fd(descriptor)
    };
    file.write_all(elf)?;
    Ok(file)
}

fn open(path: &str) -> io::Result<*mut c_void> {
    let path = CString::new(path)?;
    // SAFETY: the path is a C string. Loading runs the object's constructors: the compiler's, and any in the
    // user's file, which runs in this process anyway.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if !handle.is_null() {
        return Ok(handle);
    }
    // SAFETY: after a failure dlerror returns a C string that is valid until the thread's next call.
    let why = unsafe { CStr::from_ptr(libc::dlerror()) };
    Err(io::Error::other(why.to_string_lossy().into_owned()))
}

#[cfg(test)]
mod tests {
    use super::Image;
    use crate::Algorithm;

    #[test]
    fn copies_from_memory_files_and_temporary_files_are_separate() {
        let elf = Algorithm::all()[0].native;
        let load = [Image::load, Image::load, Image::from_temporary_file, Image::from_temporary_file];
        let copies: Vec<Image> = load.iter().map(|load| load(elf).unwrap()).collect();
        let mut addresses: Vec<_> = copies.iter().map(|c| c.symbol(c"longfat_runtime").unwrap()).collect();
        addresses.sort();
        addresses.dedup();
        assert_eq!(addresses.len(), 4);
        assert!(Image::load(b"no ELF file").is_err());
    }
}
