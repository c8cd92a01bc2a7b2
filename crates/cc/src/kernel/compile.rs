//! C to eBPF at run time, for a user's file. The program's own files were compiled when it was built.
//!
//! The source comes from standard input with the shim's folder first, so that a header beside the file never stands in
//! for one of the shim's; what the shim has not is looked for beside the file.

use std::{
    borrow::Cow,
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
};

use super::{Error, Missing, clang, error::Attempted};
use crate::{
    Source,
    native::{Line, shim},
};

/// The eBPF object of a source.
///
/// # Errors
/// [`Error::Missing`] where there is no clang, [`Error::Compile`] with the compiler's lines.
pub fn compile(source: &Source) -> Result<Cow<'static, [u8]>, Error> {
    match source {
        Source::BuiltIn(algorithm) => Ok(Cow::Borrowed(algorithm.bpf())),
        Source::File { path, text } => compile_file(path, text).map(Cow::Owned),
    }
}

fn compile_file(path: &Path, text: &str) -> Result<Vec<u8>, Error> {
    let clang = clang::find().map_err(|found| Error::Missing(Missing::Compiler(found)))?;
    let place = tempfile::tempdir().attempted(|| "make a temporary directory".into())?;
    let headers = place.path().join("shim");
    shim::write(&headers).attempted(|| format!("write {}", headers.display()))?;
    let object = place.path().join("object.o");
    let beside = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let beside = beside.canonicalize().unwrap_or_else(|_| beside.to_path_buf());
    let mut command = Command::new(&clang);
    command.args(clang::OPTIONS).arg("-I").arg(&headers).arg("-I").arg(beside);
    command.args(["-fno-caret-diagnostics", "-fno-color-diagnostics", "-x", "c", "-", "-o"]).arg(&object);
    // In an empty directory: standard input's own includes are looked for where the compiler runs.
    command.current_dir(place.path());
    // Messages and the verifier name the file as the user did.
    let source = format!("#line 1 {:?}\n{text}", path.display().to_string());
    let output = with_input(command, &source).attempted(|| format!("run {}", clang.display()))?;
    if !output.status.success() {
        return Err(Error::Compile {
            lines: lines(&String::from_utf8_lossy(&output.stderr), path, &headers),
        });
    }
    std::fs::read(&object).attempted(|| format!("read {}", object.display()))
}

fn with_input(mut command: Command, text: &str) -> std::io::Result<Output> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().ok_or(std::io::ErrorKind::BrokenPipe)?;
    std::thread::scope(|scope| {
        // The compiler may stop reading at its first error; what it says then is what counts.
        scope.spawn(move || input.write_all(text.as_bytes()));
        child.wait_with_output()
    })
}

/// clang's errors, each in a line; its warnings where there is no error.
fn lines(said: &str, path: &Path, headers: &Path) -> Vec<Line> {
    let parsed: Vec<(bool, Line)> = said.lines().filter_map(|l| parse(l, headers)).collect();
    let errors: Vec<Line> = parsed.iter().filter(|(error, _)| *error).map(|(_, line)| line.clone()).collect();
    if !errors.is_empty() {
        return errors;
    }
    let message = said.lines().next().unwrap_or("clang failed and said nothing").to_string();
    vec![Line { file: path.to_path_buf(), line: 0, column: 0, message }]
}

/// Of `my.bpf.c:12:5: error: use of undeclared identifier 'x'`; whether it is an error.
fn parse(text: &str, headers: &Path) -> Option<(bool, Line)> {
    let (place, kind, message) =
        [("error", ": error: "), ("error", ": fatal error: "), ("warning", ": warning: ")]
            .iter()
            .find_map(|(kind, mark)| text.split_once(mark).map(|(place, message)| (place, *kind, message)))?;
    let mut parts = place.rsplitn(3, ':');
    let column = parts.next()?.parse().ok()?;
    let line = parts.next()?.parse().ok()?;
    let file = Path::new(parts.next()?);
    let file = match file.strip_prefix(headers) {
        Ok(header) => Path::new("(longfat's headers)").join(header),
        Err(_) => file.to_path_buf(),
    };
    Some((kind == "error", Line { file, line, column, message: message.into() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compilers_message_becomes_a_line() {
        let said = "a:b.c:3:9: warning: unused\na:b.c:12:5: error: use of undeclared identifier 'x'\n1 error generated.";
        let lines = lines(said, Path::new("a:b.c"), Path::new("/shim"));
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].to_string(), "a:b.c:12:5: use of undeclared identifier 'x'");
    }
}
