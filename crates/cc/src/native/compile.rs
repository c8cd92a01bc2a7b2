//! Compiles a user's file natively with the machine's compiler, and maps its messages to lines of the file.
//!
//! The text goes in on standard input, from a folder of our own, so that no header beside the file wins over the shim's;
//! other headers are found beside the file.

use super::{BuildError, Line, compiler, shim};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// The shared object's bytes.
pub fn compile(path: &Path, text: &str) -> Result<Vec<u8>, BuildError> {
    let os = |operation: &'static str| move |cause| BuildError::Os { operation: operation.to_owned(), cause };
    let compiler = compiler::find().ok_or(BuildError::NoCompiler)?;
    let folder =
        tempfile::Builder::new().prefix("longfat-cc-").tempdir().map_err(os("making a temporary folder"))?;
    let include = folder.path().join("shim");
    shim::write(&include).map_err(os("writing the headers of the native build"))?;
    let output = folder.path().join("out.so");
    let beside = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let beside = std::path::absolute(beside).map_err(os("finding the folder of the congestion control"))?;
    let mut child = Command::new(&compiler)
        .args(compiler::OPTIONS)
        .arg("-iquote")
        .arg(&include)
        .arg("-iquote")
        .arg(&beside)
        .arg("-I")
        .arg(&include)
        .args(["-fno-diagnostics-color", "-x", "c", "-"])
        .arg(include.join("native/runtime.c"))
        .arg(include.join("native/maps.c"))
        .arg("-o")
        .arg(&output)
        .current_dir(&include)
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|cause| BuildError::Os { operation: format!("starting {}", compiler.display()), cause })?;
    // A compiler that ends early closes its input; what it says is then the answer.
    if let Some(mut input) = child.stdin.take() {
        let _ = input.write_all(text.as_bytes());
    }
    let result = child.wait_with_output().map_err(os("waiting for the compiler"))?;
    if !result.status.success() {
        let said = String::from_utf8_lossy(&result.stderr);
        return Err(BuildError::Refused { lines: lines(path, &include, &said) });
    }
    std::fs::read(&output).map_err(os("reading the compiler's output"))
}

/// Errors among the compiler's and the linker's messages; if none is recognised, all that was said.
fn lines(path: &Path, include: &Path, said: &str) -> Vec<Line> {
    let mut found: Vec<Line> = Vec::new();
    for text in said.lines() {
        let line = error(path, include, text).or_else(|| undefined(path, text));
        if let Some(line) = line
            && !found.contains(&line)
        {
            found.push(line);
        }
    }
    if found.is_empty() {
        found.push(Line { file: path.to_owned(), line: 0, column: 0, message: said.trim().to_owned() });
    }
    found
}

/// `<stdin>:12:5: error: what`.
fn error(path: &Path, include: &Path, text: &str) -> Option<Line> {
    let (place, message) = text.split_once(": error: ").or_else(|| text.split_once(": fatal error: "))?;
    let mut parts = place.rsplitn(3, ':');
    let (column, line) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let file = parts.next()?;
    let file = match Path::new(file).strip_prefix(include) {
        Ok(header) => Path::new("(longfat's headers)").join(header),
        Err(_) if file == "<stdin>" => path.to_owned(),
        Err(_) => file.into(),
    };
    Some(Line { file, line, column, message: explain(message) })
}

/// Adds what a compiler cannot know.
fn explain(message: &str) -> String {
    let read_only = message.contains("read-only") || message.contains("const-qualified");
    let undeclared =
        message.contains("implicit declaration of function") || message.contains("undeclared function");
    let clean = message.rsplit_once(" [-W").map_or(message, |(text, _)| text);
    // The declaration's attribute repeats the function's name: only its own text says what is meant.
    let own =
        clean.find("declared with").and_then(|_| clean.split_once(": ")).map_or(clean, |(_, text)| text);
    if read_only {
        format!("{own} (a congestion control may not write this member in the kernel)")
    } else if undeclared {
        format!("{own} (no helper or kernel function that is supported natively has this name)")
    } else {
        own.to_owned()
    }
}

/// `<stdin>:12: undefined reference to `name'`, as the linker says it.
fn undefined(path: &Path, text: &str) -> Option<Line> {
    let (place, rest) =
        text.split_once("undefined reference to ").or_else(|| text.split_once("undefined symbol: "))?;
    let name = rest.trim_matches(|c: char| !c.is_alphanumeric() && c != '_');
    let after_stdin = place.rsplit_once("<stdin>:").map(|(_, after)| after);
    let line = after_stdin.and_then(|after| after.split(':').next()?.trim().parse().ok()).unwrap_or(0);
    let message =
        format!("{name} is not supported natively: it is a function of the kernel or of one of its modules");
    Some(Line { file: path.to_owned(), line, column: 0, message })
}
