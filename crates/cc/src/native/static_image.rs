//! A loader for shared objects in a statically linked program, which has no dynamic loader.
//!
//! It supports only the output of the native build (`compiler::OPTIONS`): segments, relative and symbol
//! relocations, constructors. The object can import the functions of the C library in [`OFFERED`]; a file
//! that needs others is refused with their names. No thread-local variables, no destructors, no unwinding out
//! of the copy. Source: System V ABI, chapter 5, and its supplements for x86-64 (table 4.10) and AArch64
//! (section 5.7).

#![allow(unsafe_code)]

use std::{
    collections::BTreeMap,
    ffi::{CStr, c_int, c_void},
    io, ptr,
};

use object::{
    Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, RelocationFlags, RelocationTarget,
    elf::{
        PF_W, PF_X, PT_LOAD, PT_TLS, R_AARCH64_ABS64, R_AARCH64_GLOB_DAT, R_AARCH64_JUMP_SLOT,
        R_AARCH64_RELATIVE, R_X86_64_64, R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT, R_X86_64_RELATIVE,
    },
    read::elf::{ElfFile64, ProgramHeader},
};

/// Functions of the C library that a copy can import.
const OFFERED: [(&str, *const c_void); 15] = [
    ("abort", libc::abort as *const c_void),
    ("bcmp", bcmp as *const c_void),
    ("calloc", libc::calloc as *const c_void),
    ("free", libc::free as *const c_void),
    ("malloc", libc::malloc as *const c_void),
    ("memcmp", libc::memcmp as *const c_void),
    ("memcpy", libc::memcpy as *const c_void),
    ("memmove", libc::memmove as *const c_void),
    ("memset", libc::memset as *const c_void),
    ("realloc", libc::realloc as *const c_void),
    ("strcmp", libc::strcmp as *const c_void),
    ("strcpy", libc::strcpy as *const c_void),
    ("strlen", libc::strlen as *const c_void),
    ("strncmp", libc::strncmp as *const c_void),
    ("strncpy", libc::strncpy as *const c_void),
];

/// C's bcmp, which is not in the libc crate.
extern "C" fn bcmp(a: *const c_void, b: *const c_void, bytes: usize) -> c_int {
    // SAFETY: the caller passes two areas of `bytes` bytes, as C's bcmp requires.
    unsafe { libc::memcmp(a, b, bytes) }
}

/// Maximum size of an object in memory, larger than any congestion control.
const MAX_BYTES: u64 = 64 << 20;

/// One copy. Dropping it frees its memory.
#[derive(Debug)]
pub struct Image {
    base: *mut u8,
    bytes: usize,
    symbols: BTreeMap<String, usize>,
}

impl Image {
    /// Loads a copy of an ELF file.
    pub fn load(elf: &[u8]) -> io::Result<Image> {
        let file: ElfFile64<'_> = ElfFile64::parse(elf).map_err(|e| bad(e.to_string()))?;
        let endian = file.endian();
        let loads =
            || file.elf_program_headers().iter().filter(move |header| header.p_type(endian) == PT_LOAD);
        if file.elf_program_headers().iter().any(|header| header.p_type(endian) == PT_TLS) {
            return Err(bad("it has thread-local variables, which a static longfat does not support".into()));
        }
        let ends = loads().map(|header| header.p_vaddr(endian).checked_add(header.p_memsz(endian)));
        let end = ends.max().flatten().filter(|end| (1..=MAX_BYTES).contains(end));
        let bytes = end.ok_or_else(|| bad("it has no segments, or they are too large".into()))? as usize;
        let image = Image { base: reserve(bytes)?, bytes, symbols: BTreeMap::new() };
        for header in loads() {
            let data = header.data(endian, elf).map_err(|()| bad("a segment is not in the file".into()))?;
            image.write(header.p_vaddr(endian), data)?;
        }
        let image = image.with_symbols(&file);
        image.relocate(&file)?;
        for header in loads() {
            let flags = header.p_flags(endian);
            image.protect(
                header.p_vaddr(endian),
                header.p_memsz(endian),
                flags & PF_W != 0,
                flags & PF_X != 0,
            )?;
        }
        image.construct(&file)?;
        Ok(image)
    }

    /// The address of a symbol.
    pub fn symbol(&self, name: &CStr) -> io::Result<*mut c_void> {
        let found = self.symbols.get(&*name.to_string_lossy());
        let offset = found.ok_or_else(|| io::Error::other(format!("no symbol {name:?}")))?;
        Ok(self.base.wrapping_add(*offset).cast())
    }

    fn with_symbols(mut self, file: &ElfFile64<'_>) -> Image {
        let defined = file.dynamic_symbols().filter(|symbol| symbol.is_definition());
        let named =
            defined.filter_map(|symbol| Some((symbol.name().ok()?.to_owned(), symbol.address() as usize)));
        self.symbols = named.filter(|(_, offset)| *offset < self.bytes).collect();
        self
    }

    /// The address of `len` bytes at `offset` of the object.
    fn address(&self, offset: u64, len: usize) -> io::Result<*mut u8> {
        let end = usize::try_from(offset).ok().and_then(|start| start.checked_add(len));
        match end.filter(|end| *end <= self.bytes) {
            Some(end) => Ok(self.base.wrapping_add(end - len)),
            None => Err(bad(format!("{offset:#x} is outside of its segments"))),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let target = self.address(offset, data.len())?;
        // SAFETY: the target is inside the mapping, which is writable until `protect`, and nothing else
        // refers to it yet.
        unsafe { ptr::copy_nonoverlapping(data.as_ptr(), target, data.len()) };
        Ok(())
    }

    fn relocate(&self, file: &ElfFile64<'_>) -> io::Result<()> {
        let Some(table) = file.dynamic_symbol_table() else { return Ok(()) };
        for (offset, relocation) in file.dynamic_relocations().into_iter().flatten() {
            let RelocationFlags::Elf { r_type } = relocation.flags() else { continue };
            let target = match relocation.target() {
                RelocationTarget::Symbol(index) => {
                    let symbol = table.symbol_by_index(index).map_err(|e| bad(e.to_string()))?;
                    self.resolve(&symbol)?
                }
                _ => self.base as u64,
            };
            let addend = relocation.addend() as u64;
            let value = match (cfg!(target_arch = "aarch64"), r_type) {
                (false, R_X86_64_RELATIVE | R_X86_64_64) => target.wrapping_add(addend),
                (false, R_X86_64_GLOB_DAT | R_X86_64_JUMP_SLOT) => target,
                (true, R_AARCH64_RELATIVE | R_AARCH64_ABS64 | R_AARCH64_GLOB_DAT | R_AARCH64_JUMP_SLOT) => {
                    target.wrapping_add(addend)
                }
                _ => {
                    return Err(bad(format!(
                        "it has a relocation of type {r_type}, which a static longfat does not support"
                    )));
                }
            };
            self.write(offset, &value.to_le_bytes())?;
        }
        Ok(())
    }

    /// The address of a symbol: defined in the copy, or offered; 0 for an undefined weak symbol.
    fn resolve<'data>(&self, symbol: &impl ObjectSymbol<'data>) -> io::Result<u64> {
        let name = symbol.name().map_err(|e| bad(e.to_string()))?;
        if symbol.is_definition() {
            return Ok(self.address(symbol.address(), 0)? as u64);
        }
        match OFFERED.iter().find(|(offered, _)| *offered == name) {
            Some((_, address)) => Ok(*address as u64),
            None if symbol.is_weak() => Ok(0),
            None => {
                let offered: Vec<&str> = OFFERED.iter().map(|(name, _)| *name).collect();
                Err(bad(format!("it needs {name}; a static longfat has {}", offered.join(", "))))
            }
        }
    }

    fn protect(&self, offset: u64, len: u64, write: bool, run: bool) -> io::Result<()> {
        let page = page_bytes();
        let end = self.address(offset, len as usize)? as usize + len as usize;
        let start = (end - len as usize) / page * page;
        let mut flags = libc::PROT_READ;
        flags |= if write { libc::PROT_WRITE } else { 0 };
        flags |= if run { libc::PROT_EXEC } else { 0 };
        // SAFETY: whole pages of this mapping; their contents were written before.
        match unsafe { libc::mprotect(start as *mut c_void, end - start, flags) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn construct(&self, file: &ElfFile64<'_>) -> io::Result<()> {
        let Some(section) = file.section_by_name(".init_array") else { return Ok(()) };
        for at in (0..section.size() / 8).map(|i| section.address() + 8 * i) {
            let target = self.address(at, 8)?;
            // SAFETY: the array's pointers were relocated; those of a C compiler take no arguments and return
            // nothing. A user's own constructors run in this process anyway.
            unsafe {
                if let Some(function) = target.cast::<Option<extern "C" fn()>>().read_unaligned() {
                    function();
                }
            }
        }
        Ok(())
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // SAFETY: this mapping, freed once; pointers into the copy are dropped before (loaded_copy.rs).
        unsafe { libc::munmap(self.base.cast(), self.bytes) };
    }
}

/// Allocates zeroed memory at the start of a page.
fn reserve(bytes: usize) -> io::Result<*mut u8> {
    // SAFETY: a new private anonymous mapping.
    let base = unsafe {
        libc::mmap(
            ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if base == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(base.cast()) }
}

fn page_bytes() -> usize {
    // SAFETY: sysconf has no conditions.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

fn bad(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use std::ffi::c_char;

    use super::*;
    use crate::Algorithm;

    #[test]
    fn every_algorithm_loads_and_copies_are_separate() {
        for algorithm in Algorithm::all() {
            let copies = [(); 2].map(|()| Image::load(algorithm.native).unwrap());
            let [one, other] = copies.each_ref().map(|copy| copy.symbol(c"longfat_runtime").unwrap());
            assert_ne!(one, other);
            let symbol = copies[0].symbol(c"longfat_map_create").unwrap();
            // A map created by the copy's code with this program's C library: an array of four values.
            type Create = extern "C" fn(*mut c_void, u32, u32, u32, u32) -> c_int;
            type Free = extern "C" fn(*mut c_void);
            // SAFETY: the shim's functions have these types (runtime.h).
            let (create, free) = unsafe {
                let free = copies[0].symbol(c"longfat_map_free").unwrap();
                (
                    std::mem::transmute::<*mut c_void, Create>(symbol),
                    std::mem::transmute::<*mut c_void, Free>(free),
                )
            };
            let mut definition: [*mut c_char; 8] = [ptr::null_mut(); 8];
            assert_eq!(create(definition.as_mut_ptr().cast(), 2, 4, 8, 4), 0, "{}", algorithm.name);
            assert!(!definition[0].is_null());
            free(definition.as_mut_ptr().cast());
        }
    }

    #[test]
    fn invalid_objects_are_refused() {
        let whole = Algorithm::all()[0].native;
        assert!(Image::load(b"no ELF file").is_err());
        for cut in (0..whole.len()).step_by(97) {
            // A cut file has no section headers: never loaded, never a crash.
            assert!(Image::load(&whole[..cut]).is_err(), "{cut}");
        }
    }
}
