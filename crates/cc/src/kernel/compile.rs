//! C to eBPF at run time, for a user's file. The program's own files were compiled when it was built.
//!
//! The source comes from standard input; [`headers`](crate::headers) says which headers it gets.

use std::{
    borrow::Cow,
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
};

use super::{Error, Missing, clang, error::Attempted};
use crate::{
    Source,
    headers::{Build, Headers},
    native::Line,
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
    let headers = Headers::lay_out(path).attempted(|| "write longfat's headers for clang".into())?;
    let object = headers.output("object.o");
    let mut command = Command::new(&clang);
    command.args(clang::OPTIONS).args(headers.options(Build::Bpf, text));
    // Where a cong_control of the older form finds its sample in this kernel.
    let sample_at = super::object::cong_control_arguments().map_or(3, |arguments| arguments.max(1) - 1);
    command.arg(format!("-D__LONGFAT_RATE_SAMPLE_AT={sample_at}"));
    command.args(["-fno-caret-diagnostics", "-fno-color-diagnostics", "-x", "c", "-", "-o"]).arg(&object);
    command.current_dir(headers.working_folder());
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
fn lines(said: &str, path: &Path, headers: &Headers) -> Vec<Line> {
    let parsed: Vec<(bool, Line)> = said.lines().filter_map(|l| parse(l, headers)).collect();
    let errors: Vec<Line> = parsed.iter().filter(|(error, _)| *error).map(|(_, line)| line.clone()).collect();
    if !errors.is_empty() {
        return errors;
    }
    let message = said.lines().next().unwrap_or("clang failed and said nothing").to_string();
    vec![Line { file: path.to_path_buf(), line: 0, column: 0, message }]
}

/// Of `my.bpf.c:12:5: error: use of undeclared identifier 'x'`; whether it is an error.
fn parse(text: &str, headers: &Headers) -> Option<(bool, Line)> {
    let (place, kind, message) =
        [("error", ": error: "), ("error", ": fatal error: "), ("warning", ": warning: ")]
            .iter()
            .find_map(|(kind, mark)| text.split_once(mark).map(|(place, message)| (place, *kind, message)))?;
    let mut parts = place.rsplitn(3, ':');
    let column = parts.next()?.parse().ok()?;
    let line = parts.next()?.parse().ok()?;
    let file = Path::new(parts.next()?);
    let file = headers.as_written(file);
    Some((kind == "error", Line { file, line, column, message: message.into() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compilers_message_becomes_a_line() {
        let said = "a:b.c:3:9: warning: unused\na:b.c:12:5: error: use of undeclared identifier 'x'\n1 error generated.";
        let path = Path::new("a:b.c");
        let lines = lines(said, path, &Headers::lay_out(path).unwrap());
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].to_string(), "a:b.c:12:5: use of undeclared identifier 'x'");
    }
}
