//! Compiles a user's file natively with the machine's compiler, and maps messages to lines of the file.
//!
//! The compiler reads the text from standard input; [`headers`](crate::headers) provides the headers. A
//! second run compiles the shim's C files without the user's headers and links them. The implementations of
//! kernel functions of congestion controls (`cubictcp_init` and so on) are linked only if the file calls one.

use crate::build_error::{BuildError, Diagnostic};
use crate::compiler;
use crate::headers::{Build, Headers};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Compiles a file to a shared object.
///
/// # Errors
/// If there is no compiler, or it rejects the file.
pub fn compile(path: &Path, text: &str) -> Result<Vec<u8>, BuildError> {
    let os = |operation: &'static str| move |cause| BuildError::Os { operation: operation.to_owned(), cause };
    let compiler = compiler::find().ok_or(BuildError::NoCompiler)?;
    let run = |command: &mut Command, text: &str| {
        let operation = || format!("start {}", compiler.display());
        with_input(command, text).map_err(|cause| BuildError::Os { operation: operation(), cause })
    };
    let headers = Headers::lay_out(path).map_err(os("write the headers of the native build"))?;
    let object = headers.output("file.o");
    let mut command = Command::new(&compiler);
    command.args(compiler::OPTIONS).args(headers.options(Build::Native, text));
    command.args(["-c", "-fno-diagnostics-color", "-x", "c", "-", "-o"]).arg(&object);
    command.current_dir(headers.working_folder()).env("LC_ALL", "C");
    let compiled = run(&mut command, text)?;
    if !compiled.status.success() {
        return Err(BuildError::Refused { lines: parse_messages(path, &headers, &messages(&compiled)) });
    }
    let shared = headers.output("file.so");
    let link = |sources: &[&str]| {
        let native = headers.shim().join("native");
        let mut command = Command::new(&compiler);
        command.args(compiler::OPTIONS).arg("-I").arg(headers.shim()).arg(&object);
        command.args(sources.iter().map(|name| native.join(name))).arg("-o").arg(&shared);
        command.current_dir(headers.working_folder()).env("LC_ALL", "C");
        run(&mut command, "")
    };
    let mut linked = link(&["runtime.c", "maps.c"])?;
    if messages(&linked)
        .lines()
        .any(|text| undefined_name(text).is_some_and(|(_, name)| is_of_a_module(name)))
    {
        linked = link(&["runtime.c", "maps.c", "kernel_functions.c"])?;
    }
    if !linked.status.success() {
        return Err(BuildError::Refused { lines: parse_messages(path, &headers, &messages(&linked)) });
    }
    std::fs::read(&shared).map_err(os("read the compiler's output"))
}

/// Whether native/kernel_functions.c may define this function.
fn is_of_a_module(name: &str) -> bool {
    ["cubictcp_", "bbr_", "dctcp_"].iter().any(|module| name.starts_with(module))
}

fn messages(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs a compiler. A compiler that exits early closes its input: the write error is ignored, its output
/// gives the reason.
fn with_input(command: &mut Command, text: &str) -> std::io::Result<Output> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    if let Some(mut input) = child.stdin.take() {
        let _ = input.write_all(text.as_bytes());
    }
    child.wait_with_output()
}

/// The errors in the output of compiler and linker; if none is recognised, the whole output.
fn parse_messages(path: &Path, headers: &Headers, output: &str) -> Vec<Diagnostic> {
    let mut found: Vec<Diagnostic> = Vec::new();
    for text in output.lines() {
        let line = error(path, headers, text).or_else(|| undefined(path, text));
        if let Some(line) = line
            && !found.contains(&line)
        {
            found.push(line);
        }
    }
    if found.is_empty() {
        found.push(Diagnostic {
            file: path.to_owned(),
            line: 0,
            column: 0,
            message: output.trim().to_owned(),
        });
    }
    found
}

/// Parses `<stdin>:12:5: error: message`.
fn error(path: &Path, headers: &Headers, text: &str) -> Option<Diagnostic> {
    let (position, message) = text.split_once(": error: ").or_else(|| text.split_once(": fatal error: "))?;
    let mut parts = position.rsplitn(3, ':');
    let (column, line) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let file = parts.next()?;
    let file = if file == "<stdin>" { path.to_owned() } else { headers.as_written(Path::new(file)) };
    Some(Diagnostic { file, line, column, message: explain(message) })
}

/// Adds information that the compiler does not have.
fn explain(message: &str) -> String {
    let read_only = message.contains("read-only") || message.contains("const-qualified");
    let undeclared =
        message.contains("implicit declaration of function") || message.contains("undeclared function");
    let clean = message.rsplit_once(" [-W").map_or(message, |(text, _)| text);
    // The message of a declaration's error attribute repeats the function's name: use only the attribute's
    // text.
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

/// Parses the linker's message about an undefined function.
fn undefined(path: &Path, text: &str) -> Option<Diagnostic> {
    let (position, name) = undefined_name(text)?;
    let after_stdin = position.rsplit_once("<stdin>:").map(|(_, after)| after);
    let line = after_stdin.and_then(|after| after.split(':').next()?.trim().parse().ok()).unwrap_or(0);
    let message =
        format!("{name} is not supported natively: it is a function of the kernel or of one of its modules");
    Some(Diagnostic { file: path.to_owned(), line, column: 0, message })
}

/// Splits the linker's `<stdin>:12: undefined reference to `name'` into position and name.
fn undefined_name(text: &str) -> Option<(&str, &str)> {
    let (position, rest) =
        text.split_once("undefined reference to ").or_else(|| text.split_once("undefined symbol: "))?;
    Some((position, rest.trim_matches(|c: char| !c.is_alphanumeric() && c != '_')))
}
