//! The headers for compiling a user's file: the shim's headers, written to a folder at run time, and those
//! beside the file.
//!
//! A header beside the file takes precedence over the shim's header of the same name, as a compiler would
//! find it. Exceptions are the headers that both builds depend on ([`FIXED`]): the kernel's types, which
//! natively have the layout of this program's structures, and libbpf's macros, which natively define plain C
//! functions. To apply this to headers that include others as well, the compiler receives a folder of
//! symbolic links to the user's headers, in which the fixed ones link to the shim.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

/// The shim's files: path below the shim's folder, and text.
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

/// Names in the shim's folder that a header beside the file never replaces.
const FIXED: [&str; 9] = [
    "vmlinux.h",
    "linux",
    "bpf",
    "native",
    "bpf_helpers.h",
    "bpf_core_read.h",
    "bpf_tracing.h",
    "bpf_trace_helpers.h",
    // In kernels up to 6.8 it defines struct tcp_sock and related structures.
    "bpf_tcp_helpers.h",
];

/// Whether a path below the folder of the user's file is one of the headers that longfat provides in any
/// case.
pub(crate) fn is_fixed(path: &Path) -> bool {
    path.components().next().is_some_and(|first| FIXED.iter().any(|name| first.as_os_str() == *name))
}

/// The kind of build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Build {
    /// eBPF. The C library's headers do not compile for it, so the shim replaces the commonly used ones.
    Bpf,
    /// Native, with the C library's headers.
    Native,
}

/// The folders of one compiler run. Dropping it removes them.
#[derive(Debug)]
pub struct Headers {
    folder: tempfile::TempDir,
    /// The user's folder, as absolute path and as given.
    user_folder: PathBuf,
    written: PathBuf,
}

impl Headers {
    /// Writes the shim, and links to the headers beside the file at `path`.
    ///
    /// # Errors
    /// If a temporary folder, file or link cannot be created.
    pub fn lay_out(path: &Path) -> io::Result<Headers> {
        let written = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(""));
        let user_folder =
            std::path::absolute(if written.as_os_str().is_empty() { Path::new(".") } else { written })?;
        let folder = tempfile::Builder::new().prefix("longfat-cc-").tempdir()?;
        let headers = Headers { folder, user_folder, written: written.to_owned() };
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
        // An unreadable folder counts as one without headers; the compiler reports a missing one. Only
        // headers include others relative to their folder; other files are found in the user's folder itself.
        let is_header = |entry: &fs::DirEntry| {
            entry.path().extension().is_some_and(|e| e == "h") || entry.file_type().is_ok_and(|t| t.is_dir())
        };
        for entry in fs::read_dir(&headers.user_folder).into_iter().flatten().flatten().filter(is_header) {
            match symlink(entry.path(), headers.links().join(entry.file_name())) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        Ok(headers)
    }

    /// The shim's folder.
    pub fn shim(&self) -> PathBuf {
        self.folder.path().join("shim")
    }

    /// An empty working directory for the compiler, which first searches there for includes of a file on
    /// standard input.
    pub fn working_folder(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// A path for the compiler's output.
    pub fn output(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn links(&self) -> PathBuf {
        self.folder.path().join("beside")
    }

    /// The compiler's options for the user's file, whose text is `text`.
    pub fn options(&self, build: Build, text: &str) -> Vec<OsString> {
        let mut options: Vec<OsString> = Vec::new();
        let mut folder = |option: &str, folder: PathBuf| options.extend([option.into(), folder.into()]);
        folder("-I", self.links());
        folder("-I", self.shim());
        // For "../other.h" and "other.c", which are not linked.
        folder("-I", self.user_folder.clone());
        if build == Build::Bpf {
            folder("-I", self.shim().join("libc"));
        }
        if defines_before(text) {
            options.push("-D__LONGFAT_FILE_DEFINES_BEFORE".into());
        }
        options
    }

    /// Converts a file name in a compiler's message to the name in the user's source.
    pub fn as_written(&self, file: &Path) -> PathBuf {
        if let Ok(header) = file.strip_prefix(self.shim()) {
            return Path::new("(longfat's headers)").join(header);
        }
        let users = file.strip_prefix(self.links()).or_else(|_| file.strip_prefix(&self.user_folder));
        users.map_or_else(|_| file.to_owned(), |header| self.written.join(header))
    }
}

/// Whether a C file defines its own function `before`, as the selftests of kernels up to 6.12 do.
fn defines_before(text: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices("before").any(|(at, name)| {
        let (preceding, following) = (&text[..at], &text[at + name.len()..]);
        // A definition has a type and a blank before the name; a call has an operator, a bracket or `return`.
        let head = preceding.trim_end();
        let last = head.rsplit(|c| !is_word(c)).next().unwrap_or_default();
        head.len() < preceding.len()
            && !last.is_empty()
            && !["return", "else", "define"].contains(&last)
            && begins_with_body(following)
    })
}

/// Whether the text starts with parameters in brackets and an opening brace.
fn begins_with_body(text: &str) -> bool {
    let parameters = text.trim_start().strip_prefix('(').and_then(|rest| rest.split_once(')'));
    parameters.is_some_and(|(_, rest)| rest.trim_start().starts_with('{'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_of_the_function_before_is_distinguished_from_a_call() {
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
    fn file_names_in_compiler_messages_become_those_of_the_users_files() {
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
