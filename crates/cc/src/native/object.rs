//! A native build and its description. Each source is built once per process.

use super::inspect::{Inspection, inspect};
use super::{compile, signatures};
use crate::build_error::{BuildError, Diagnostic};
use crate::{Parameter, Source, UserHeader};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tcp::Operation;

/// The shared object of a native build.
#[derive(Debug)]
pub struct SharedObject {
    name: String,
    bytes: Vec<u8>,
    parameters: Vec<Parameter>,
    inspection: Inspection,
}

impl SharedObject {
    /// The source's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The ELF file.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The parameters, in the order of the file.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// The variables of type `struct tcp_congestion_ops`, in the order of the file.
    pub fn operations(&self) -> Vec<&str> {
        self.inspection.operations.iter().map(|o| o.name.as_str()).collect()
    }

    pub(super) fn inspection(&self) -> &Inspection {
        &self.inspection
    }

    /// Writes a parameter's value into a copy of the ELF file.
    pub(super) fn patch(&self, elf: &mut [u8], parameter: &Parameter, raw: i64) {
        let position = self.inspection.parameters.iter().find(|(p, _)| p.name == parameter.name);
        let value = parameter.bytes(raw);
        if let Some(target) =
            position.and_then(|(_, at)| elf.get_mut(*at as usize..*at as usize + value.len()))
        {
            target.copy_from_slice(&value);
        }
    }
}

/// By path, text and headers; of a built-in algorithm by its name.
type Cache = BTreeMap<(PathBuf, String, Vec<UserHeader>), Arc<SharedObject>>;

static BUILT: Mutex<Cache> = Mutex::new(Cache::new());

/// Builds a source natively. A user's file is compiled with the machine's compiler, which takes a quarter of
/// a second; built-in files are already compiled. The result is cached.
///
/// # Errors
/// If there is no compiler, or the compiler or longfat's checks refuse the file.
pub fn build(source: &Source) -> Result<Arc<SharedObject>, BuildError> {
    let key = match source {
        Source::BuiltIn(algorithm) => (PathBuf::new(), algorithm.name.to_owned(), Vec::new()),
        Source::File { path, text } => (path.clone(), text.clone(), source.user_headers()),
    };
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(object) = built.get(&key) {
        return Ok(object.clone());
    }
    let object = Arc::new(match source {
        Source::BuiltIn(algorithm) => {
            let path = PathBuf::from(format!("{}.bpf.c", algorithm.name));
            read(algorithm.name, algorithm.native.to_vec(), &path, algorithm.text)?
        }
        Source::File { path, text } => read(source.name(), compile::compile(path, text)?, path, text)?,
    });
    built.insert(key, object.clone());
    Ok(object)
}

/// Inspects the object, and refuses it if calls would fail.
fn read(name: &str, bytes: Vec<u8>, path: &Path, text: &str) -> Result<SharedObject, BuildError> {
    let at = |line, message| Diagnostic { file: path.to_owned(), line, column: 0, message };
    let inspection = inspect(&bytes).map_err(|why| BuildError::Refused { lines: vec![at(0, why)] })?;
    let mut lines: Vec<Diagnostic> =
        signatures::check(&inspection).into_iter().map(|(l, why)| at(l, why)).collect();
    lines.extend(inspection.mismatches.iter().map(|(line, why)| at(*line, why.clone())));
    lines.extend(inspection.maps.iter().filter_map(|map| Some(at(map.line, map.unsupported()?))));
    let complete = |o: &super::inspect::Operations| incomplete(o).is_none();
    if !inspection.operations.iter().any(complete) {
        lines.extend(inspection.operations.iter().filter_map(|o| Some(at(o.line, incomplete(o)?))));
    }
    if inspection.operations.is_empty() {
        lines.push(at(0, "no variable of type struct tcp_congestion_ops: not a congestion control".into()));
    }
    if !lines.is_empty() {
        return Err(BuildError::Refused { lines });
    }
    let with_doc = |p: &Parameter| Parameter { doc: comment_above(text, p.line), ..p.clone() };
    let parameters = inspection.parameters.iter().map(|(p, _)| with_doc(p)).collect();
    Ok(SharedObject { name: name.to_owned(), bytes, parameters, inspection })
}

/// A message about missing operations that the kernel requires of every congestion control
/// (`tcp_validate_congestion_control`).
pub(super) fn incomplete(operations: &super::inspect::Operations) -> Option<String> {
    let has = |o| operations.members.contains_key(&super::runtime::offset(o));
    let missing: Vec<&str> = [
        (has(Operation::Ssthresh), "ssthresh"),
        (has(Operation::UndoCwnd), "undo_cwnd"),
        (has(Operation::CongAvoid) || has(Operation::CongControl), "cong_avoid or cong_control"),
    ]
    .into_iter()
    .filter_map(|(has, name)| (!has).then_some(name))
    .collect();
    let missing = missing.join(", ");
    (!missing.is_empty()).then(|| format!("{} lacks {missing}, which the kernel requires", operations.name))
}

/// The comment on the line above, if it has one line, or else at the end of the line itself.
fn comment_above(text: &str, line: u32) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let at = line as usize;
    let above = at.checked_sub(2).and_then(|i| lines.get(i)).map(|l| l.trim()).filter(|l| l.starts_with('/'));
    let same_line = at
        .checked_sub(1)
        .and_then(|i| lines.get(i))
        .and_then(|l| l.find("/*").or(l.find("//")).map(|i| &l[i..]));
    let comment = above.or(same_line).unwrap_or_default();
    comment.trim_start_matches(['/', '*']).trim_end_matches(['/', '*']).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::comment_above;

    #[test]
    fn the_doc_of_a_parameter_is_the_comment_above_or_after_it() {
        let text = "/* The share kept. */\nconst volatile int a = 1;\nconst volatile int b = 2; // Segments.\n\nint c;";
        assert_eq!(comment_above(text, 2), "The share kept.");
        assert_eq!(comment_above(text, 3), "Segments.");
        assert_eq!(comment_above(text, 5), "");
    }
}
