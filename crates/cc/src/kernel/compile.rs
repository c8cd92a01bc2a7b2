//! Compiles a user's file to eBPF at run time. Built-in files were compiled when the program was built.
//!
//! The compiler reads the source from standard input; [`headers`](crate::headers) provides the headers.

use std::{
    borrow::Cow,
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
};

use super::{Error, MissingRequirement, clang, error::Attempted, kernel_types};
use crate::{
    Source,
    build_error::Diagnostic,
    headers::{Build, Headers},
};

/// The eBPF object of a source.
///
/// # Errors
/// [`Error::Missing`] without clang, [`Error::Compile`] with the compiler's errors.
pub fn compile(source: &Source) -> Result<Cow<'static, [u8]>, Error> {
    match source {
        Source::BuiltIn(algorithm) => Ok(Cow::Borrowed(algorithm.bpf())),
        Source::File { path, text } => compile_file(path, text).map(Cow::Owned),
    }
}

fn compile_file(path: &Path, text: &str) -> Result<Vec<u8>, Error> {
    let clang = clang::find().map_err(|found| Error::Missing(MissingRequirement::Compiler(found)))?;
    let headers = Headers::lay_out(path).attempted(|| "write longfat's headers for clang".into())?;
    let object = headers.output("object.o");
    let mut command = Command::new(&clang);
    command.args(clang::OPTIONS).args(headers.options(Build::Bpf, text));
    // The index of the rate sample in this kernel's arguments, for a cong_control with the signature of
    // kernels before 6.10.
    let sample_at = kernel_types::cong_control_arguments().map_or(3, |arguments| arguments.max(1) - 1);
    command.arg(format!("-D__LONGFAT_RATE_SAMPLE_AT={sample_at}"));
    command.args(["-fno-caret-diagnostics", "-fno-color-diagnostics", "-x", "c", "-", "-o"]).arg(&object);
    command.current_dir(headers.working_folder());
    // Messages and the verifier's log have the file name as given by the user.
    let source = format!("#line 1 {:?}\n{text}", path.display().to_string());
    let output = with_input(command, &source).attempted(|| format!("run {}", clang.display()))?;
    if !output.status.success() {
        return Err(Error::Compile {
            lines: parse_messages(&String::from_utf8_lossy(&output.stderr), path, &headers),
        });
    }
    std::fs::read(&object).attempted(|| format!("read {}", object.display()))
}

fn with_input(mut command: Command, text: &str) -> std::io::Result<Output> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().ok_or(std::io::ErrorKind::BrokenPipe)?;
    std::thread::scope(|scope| {
        // The compiler may stop reading at its first error, which is then in its output.
        scope.spawn(move || input.write_all(text.as_bytes()));
        child.wait_with_output()
    })
}

/// clang's errors; if there is none, the first line of its output.
fn parse_messages(output: &str, path: &Path, headers: &Headers) -> Vec<Diagnostic> {
    let parsed: Vec<(bool, Diagnostic)> = output.lines().filter_map(|l| parse(l, headers)).collect();
    let errors: Vec<Diagnostic> =
        parsed.iter().filter(|(error, _)| *error).map(|(_, line)| line.clone()).collect();
    if !errors.is_empty() {
        return errors;
    }
    let message = output.lines().next().unwrap_or("clang failed without a message").to_string();
    vec![Diagnostic { file: path.to_path_buf(), line: 0, column: 0, message }]
}

/// Parses `my.bpf.c:12:5: error: use of undeclared identifier 'x'`. Also returns whether it is an error.
fn parse(text: &str, headers: &Headers) -> Option<(bool, Diagnostic)> {
    let (position, kind, message) =
        [("error", ": error: "), ("error", ": fatal error: "), ("warning", ": warning: ")].iter().find_map(
            |(kind, mark)| text.split_once(mark).map(|(position, message)| (position, *kind, message)),
        )?;
    let mut parts = position.rsplitn(3, ':');
    let column = parts.next()?.parse().ok()?;
    let line = parts.next()?.parse().ok()?;
    let file = Path::new(parts.next()?);
    let file = headers.as_written(file);
    Some((kind == "error", Diagnostic { file, line, column, message: message.into() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_message_becomes_a_diagnostic() {
        let output = "a:b.c:3:9: warning: unused\na:b.c:12:5: error: use of undeclared identifier 'x'\n1 error generated.";
        let path = Path::new("a:b.c");
        let lines = parse_messages(output, path, &Headers::lay_out(path).unwrap());
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].to_string(), "a:b.c:12:5: use of undeclared identifier 'x'");
    }
}
