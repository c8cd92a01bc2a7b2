//! The user's headers that a C file includes, directly or through others. Its results depend on them.
//!
//! Differences from a preprocessor:
//! 1. Conditions and comments are ignored, so a header that a build skips counts too.
//! 2. A macro that an `#include` names counts as every file name that a `#define` has.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use crate::{Source, headers::is_fixed};

/// Maximum size of a header, bytes.
const MAX_BYTES: u64 = 4_000_000;

/// A header in the user's folders.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UserHeader {
    /// Its path relative to the C file's folder, or as included.
    pub name: String,
    /// Its bytes.
    pub content: Vec<u8>,
}

impl Source {
    /// The user's headers that the file includes, in the order of the includes; none of a built-in algorithm.
    /// Headers that cannot be read are omitted: the compiler reports them.
    pub fn user_headers(&self) -> Vec<UserHeader> {
        let Source::File { path, text } = self else { return Vec::new() };
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut headers = Vec::new();
        add_included(folder, folder, text, &mut BTreeSet::new(), &mut headers);
        headers
    }
}

/// Adds the headers that the text of a file in `current` includes. The C file itself is in `folder`.
fn add_included(
    folder: &Path,
    current: &Path,
    text: &str,
    visited: &mut BTreeSet<PathBuf>,
    headers: &mut Vec<UserHeader>,
) {
    for included in included_names(text) {
        let is_longfats = |path: &Path| path.strip_prefix(folder).is_ok_and(is_fixed);
        let paths = [current.join(&included), folder.join(&included)];
        let mut readable = paths.into_iter().filter(|path| !is_longfats(path));
        let found = readable.find_map(|path| read(&path).ok().map(|content| (path, content)));
        let Some((path, content)) = found else { continue };
        // The same file by another path.
        if !visited.insert(fs::canonicalize(&path).unwrap_or_else(|_| path.clone())) {
            continue;
        }
        let name = path.strip_prefix(folder).map_or(included, |path| path.display().to_string());
        let text = String::from_utf8_lossy(&content).into_owned();
        headers.push(UserHeader { name, content });
        add_included(folder, path.parent().unwrap_or(folder), &text, visited, headers);
    }
}

/// The names of files in a text's directives.
fn included_names(text: &str) -> Vec<String> {
    let joined = text.replace("\\\r\n", "").replace("\\\n", "");
    let name = |line: &str| {
        let directive = line.trim_start().strip_prefix('#')?.trim_start();
        let arguments =
            ["include", "import", "embed", "define"].iter().find_map(|d| directive.strip_prefix(d))?;
        let begin = arguments.find(['"', '<'])?;
        let end = if arguments[begin..].starts_with('"') { '"' } else { '>' };
        Some(arguments[begin + 1..].split_once(end)?.0.to_owned())
    };
    joined.lines().filter_map(name).filter(|name| !name.is_empty()).collect()
}

/// Reads a regular file. A pipe or a device might never end.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let about = fs::metadata(path)?;
    match about.is_file() && about.len() <= MAX_BYTES {
        true => fs::read(path),
        false => Err(io::Error::other("not a regular file, or too large")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_found_through_other_headers_and_fixed_ones_are_omitted() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        fs::create_dir_all(folder.path().join("sub")).unwrap();
        fs::create_dir_all(folder.path().join("linux")).unwrap();
        write("my.h", "#include \"sub/a.h\"\n#include <errno.h>\n");
        write("sub/a.h", "# include /* of sub */ \"b.h\"\n#include \"../my.h\"\n");
        write("sub/b.h", "#define B 1\n");
        write("by_macro.h", "");
        write("continued.h", "");
        for fixed in ["vmlinux.h", "linux/tcp.h"] {
            write(fixed, "#error \"longfat's own is used\"\n");
        }
        let text = "#include \"vmlinux.h\"\n#include <linux/tcp.h>\n#include <my.h>\n#define HEADER \"by_macro.h\"\n\
                    #include HEADER\n#include \\\n\"continued.h\"\n#include \"absent.h\"\n// not \"included.h\"\n";
        let source = Source::File { path: folder.path().join("x.bpf.c"), text: text.into() };
        let names: Vec<String> = source.user_headers().into_iter().map(|header| header.name).collect();
        assert_eq!(names, ["my.h", "sub/a.h", "sub/b.h", "by_macro.h", "continued.h"]);
        assert_eq!(Source::built_in("cubic").unwrap().user_headers(), []);
    }
}
