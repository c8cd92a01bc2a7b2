//! The headers that a user's file is compiled with: the shim's, written out for a compiler at run time, and those beside
//! the file.
//!
//! A header beside the file is found before the shim's of the same name, as a compiler would find it. Exceptions are the headers
//! that give both builds their meaning ([`FIXED`]): the kernel's types, which natively are the layout of this program's own
//! structures, and libbpf's macros, which natively make plain C functions. To hold this for headers that include others as
//! well, the compiler sees the user's folder through a folder of symbolic links, in which these are the shim's.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

/// Path below the shim's folder, and text.
const FILES: &[(&str, &str)] = &[
    ("vmlinux.h", include_str!("../shim/vmlinux.h")),
    ("bpf_tracing_net.h", include_str!("../shim/bpf_tracing_net.h")),
    ("fractional_growth.h", include_str!("../shim/fractional_growth.h")),
    ("longfat_tcp.h", include_str!("../shim/longfat_tcp.h")),
    ("bpf_tcp_helpers.h", include_str!("../shim/bpf_tcp_helpers.h")),
    ("bpf_trace_helpers.h", include_str!("../shim/bpf_trace_helpers.h")),
    ("bpf_helpers.h", include_str!("../shim/bpf_helpers.h")),
    ("bpf_core_read.h", include_str!("../shim/bpf_core_read.h")),
    ("bpf_tracing.h", include_str!("../shim/bpf_tracing.h")),
    ("bpf/bpf_helpers.h", include_str!("../shim/bpf/bpf_helpers.h")),
    ("bpf/bpf_core_read.h", include_str!("../shim/bpf/bpf_core_read.h")),
    ("bpf/bpf_tracing.h", include_str!("../shim/bpf/bpf_tracing.h")),
    ("libc/errno.h", include_str!("../shim/libc/errno.h")),
    ("libc/limits.h", include_str!("../shim/libc/limits.h")),
    ("libc/stdint.h", include_str!("../shim/libc/stdint.h")),
    ("libc/string.h", include_str!("../shim/libc/string.h")),
    ("linux/bpf.h", include_str!("../shim/linux/bpf.h")),
    ("linux/stddef.h", include_str!("../shim/linux/stddef.h")),
    ("linux/tcp.h", include_str!("../shim/linux/tcp.h")),
    ("linux/types.h", include_str!("../shim/linux/types.h")),
    ("native/helpers.h", include_str!("../shim/native/helpers.h")),
    ("native/kernel_functions.c", include_str!("../shim/native/kernel_functions.c")),
    ("native/runtime.h", include_str!("../shim/native/runtime.h")),
    ("native/runtime.c", include_str!("../shim/native/runtime.c")),
    ("native/maps.c", include_str!("../shim/native/maps.c")),
];

/// What a header beside the file never stands in for: names in the shim's folder.
const FIXED: [&str; 9] = [
    "vmlinux.h",
    "linux",
    "bpf",
    "native",
    "bpf_helpers.h",
    "bpf_core_read.h",
    "bpf_tracing.h",
    "bpf_trace_helpers.h",
    // Kernels up to 6.8 define struct tcp_sock and its kin in it.
    "bpf_tcp_helpers.h",
];

/// The build whose headers are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Build {
    /// eBPF, for which the C library's headers do not compile: the shim has those that make sense.
    Bpf,
    /// Natively, with the C library's own.
    Native,
}

/// The folders of one run of a compiler, gone when it is dropped.
#[derive(Debug)]
pub struct Headers {
    place: tempfile::TempDir,
    /// The user's folder, absolute and as it was written.
    beside: PathBuf,
    written: PathBuf,
}

impl Headers {
    /// Writes the shim and links to what is beside the file at `path`.
    pub fn lay_out(path: &Path) -> io::Result<Headers> {
        let written = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(""));
        let beside =
            std::path::absolute(if written.as_os_str().is_empty() { Path::new(".") } else { written })?;
        let place = tempfile::Builder::new().prefix("longfat-cc-").tempdir()?;
        let headers = Headers { place, beside, written: written.to_owned() };
        for (name, text) in FILES {
            let path = headers.shim().join(name);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(path, text)?;
        }
        fs::create_dir(headers.working_folder())?;
        fs::create_dir(headers.links())?;
        for name in FIXED {
            symlink(headers.shim().join(name), headers.links().join(name))?;
        }
        // A folder that cannot be read has no headers; where the file needs one, the compiler says which.
        // Only headers include others by their place; anything else is found in the folder itself.
        let is_header = |entry: &fs::DirEntry| {
            entry.path().extension().is_some_and(|e| e == "h") || entry.file_type().is_ok_and(|t| t.is_dir())
        };
        for entry in fs::read_dir(&headers.beside).into_iter().flatten().flatten().filter(is_header) {
            match symlink(entry.path(), headers.links().join(entry.file_name())) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        Ok(headers)
    }

    /// The shim's folder.
    pub fn shim(&self) -> PathBuf {
        self.place.path().join("shim")
    }

    /// An empty folder for the compiler to run in: what standard input includes is looked for there first.
    pub fn working_folder(&self) -> PathBuf {
        self.place.path().join("work")
    }

    /// A path for the compiler's output.
    pub fn output(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn links(&self) -> PathBuf {
        self.place.path().join("beside")
    }

    /// The compiler's options for the user's file, whose text is `text`.
    pub fn options(&self, build: Build, text: &str) -> Vec<OsString> {
        let mut options: Vec<OsString> = Vec::new();
        let mut folder = |option: &str, folder: PathBuf| options.extend([option.into(), folder.into()]);
        folder("-I", self.links());
        folder("-I", self.shim());
        // For "../other.h" and "other.c", to which no links lead.
        folder("-I", self.beside.clone());
        if build == Build::Bpf {
            folder("-I", self.shim().join("libc"));
        }
        if defines_before(text) {
            options.push("-D__LONGFAT_FILE_DEFINES_BEFORE".into());
        }
        options
    }

    /// The name for messages of a file that the compiler named.
    pub fn as_written(&self, file: &Path) -> PathBuf {
        if let Ok(header) = file.strip_prefix(self.shim()) {
            return Path::new("(longfat's headers)").join(header);
        }
        let user_s = file.strip_prefix(self.links()).or_else(|_| file.strip_prefix(&self.beside));
        user_s.map_or_else(|_| file.to_owned(), |header| self.written.join(header))
    }
}

/// Whether a C file has its own function `before`, as the selftests of kernels up to 6.12 have.
fn defines_before(text: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices("before").any(|(at, name)| {
        let (ahead, behind) = (&text[..at], &text[at + name.len()..]);
        // A type and blanks ahead: calls have an operator, a bracket or `return` there.
        let kind = ahead.trim_end();
        let last = kind.rsplit(|c| !is_word(c)).next().unwrap_or_default();
        kind.len() < ahead.len()
            && !last.is_empty()
            && !["return", "else", "define"].contains(&last)
            && begins_with_body(behind)
    })
}

/// Whether parameters in brackets and an opening brace come first.
fn begins_with_body(text: &str) -> bool {
    let parameters = text.trim_start().strip_prefix('(').and_then(|rest| rest.split_once(')'));
    parameters.is_some_and(|(_, rest)| rest.trim_start().starts_with('{'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_s_own_before_is_a_definition_and_no_call() {
        assert!(defines_before("static bool before(__u32 seq1, __u32 seq2)\n{"));
        assert!(defines_before("static inline bool\nbefore (__u32 a, __u32 b)\n{"));
        for call in [
            "if (!before(tp->snd_una, ca->next_seq))",
            "return before(a, b);",
            "x = before(a, b);",
            "#define after(a, b) \tbefore(b, a)",
            "#define before(a, b) ((__s32)((a) - (b)) < 0)",
            "/* long before (that) */ not_before(a); before (b);",
        ] {
            assert!(!defines_before(call), "{call}");
        }
    }

    #[test]
    fn the_compiler_s_names_become_the_user_s() {
        let folder = tempfile::tempdir().unwrap();
        let headers = Headers::lay_out(&folder.path().join("mine.bpf.c")).unwrap();
        let named = |file: PathBuf| headers.as_written(&file);
        assert_eq!(named(headers.links().join("mine.h")), folder.path().join("mine.h"));
        assert_eq!(
            named(headers.shim().join("bpf/bpf_helpers.h")),
            Path::new("(longfat's headers)/bpf/bpf_helpers.h")
        );
        assert_eq!(named("/usr/include/stdio.h".into()), Path::new("/usr/include/stdio.h"));
    }
}
