//! Builds the algorithms for WebAssembly: `wasm_modules FOLDER` writes FOLDER/NAME.wasm and
//! FOLDER/algorithms.rs, the table that crate `playground` includes. The folder can be moved: the table names
//! the files relative to itself.
//!
//! Each file becomes a side module (position-independent, with the linker's option `--shared`), which uses
//! the memory and the table of the module that instantiates it. Descriptions of parameters are those of the
//! native build. Needs a clang with the target wasm32, and the linker that rustup installs with Rust.

#![allow(missing_docs)]

#[allow(dead_code, reason = "it needs only the search for clang")]
#[path = "../src/kernel/clang.rs"]
mod clang;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use cc::{Algorithm, Parameter, ParameterValues, Source, native::Library};

/// Options of every build; those that define C's semantics are as in `src/compiler.rs`.
const OPTIONS: &[&str] = &[
    // Other targets than Emscripten's have no position-independent code; its libraries are not used.
    "--target=wasm32-unknown-emscripten",
    "-nostdlibinc",
    "-ffreestanding",
    "-mbulk-memory",
    "-fPIC",
    "-fvisibility=hidden",
    "-std=gnu11",
    "-O2",
    "-fno-strict-aliasing",
    "-fwrapv",
    "-fno-common",
    "-Wall",
    "-Werror",
    "-Wno-unused-function",
    "-Wno-unused-variable",
    "-c",
];

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let Some(folder) = env::args_os().nth(1) else {
        eprintln!("usage: wasm_modules FOLDER");
        return ExitCode::from(2);
    };
    match build_all(Path::new(&folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot build the algorithms for WebAssembly: {error}");
            ExitCode::FAILURE
        }
    }
}

fn build_all(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    let (clang, linker) = (clang::find()?, linker()?);
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let runtime = folder.join("runtime.o");
    compile(&clang, crate_root, &crate_root.join("shim/native/runtime.c"), &runtime)?;
    let mut table = String::from("&[\n");
    for algorithm in Algorithm::all() {
        let (name, source) = (algorithm.name, Source::BuiltIn(algorithm));
        let (object, module) = (folder.join(format!("{name}.o")), folder.join(format!("{name}.wasm")));
        let file = crate_root.join(format!("algorithms/{name}.bpf.c"));
        compile(&clang, crate_root, &file, &object)?;
        let operations = Library::open(&source, &ParameterValues::new())?.main_name().to_owned();
        let parameters = source.parameters()?;
        let variables = parameters.iter().map(|parameter| parameter.name.as_str());
        let exports = variables.chain(["longfat_runtime", "CONFIG_HZ", &operations]);
        let mut link = Command::new(&linker);
        link.args(["-flavor", "wasm", "--shared", "--experimental-pic", "--no-entry", "-Bsymbolic"]);
        link.args(["--strip-all", "--unresolved-symbols=report-all"]);
        link.args(exports.map(|name| format!("--export={name}")))
            .args([&object, &runtime])
            .arg("-o")
            .arg(&module);
        run(&mut link)?;
        let parameters: String = parameters.iter().map(parameter_text).collect();
        // The paths are relative to the table, so that the folder can be moved.
        table.push_str(&format!(
            "    Algorithm {{ name: {name:?}, operations: {operations:?}, module: include_bytes!(\"{name}.wasm\"), parameters: &[{parameters}] }},\n"
        ));
    }
    table.push(']');
    fs::write(folder.join("algorithms.rs"), table)?;
    Ok(())
}

fn parameter_text(parameter: &Parameter) -> String {
    let Parameter { name, doc, ty, scale, default_raw, line } = parameter;
    format!(
        "ParameterText {{ name: {name:?}, doc: {doc:?}, ty: ParameterType::{ty:?}, scale: {scale:?}, default_raw: {default_raw}, line: {line} }}, "
    )
}

fn compile(clang: &Path, crate_root: &Path, source: &Path, object: &Path) -> Result<()> {
    let shim = crate_root.join("shim");
    run(Command::new(clang)
        .args(OPTIONS)
        .arg(format!("-ffile-prefix-map={}=.", crate_root.display()))
        .arg("-I")
        .arg(shim.join("wasm"))
        .arg("-I")
        .arg(&shim)
        .arg(source)
        .arg("-o")
        .arg(object))
}

/// The linker of Rust's toolchain.
fn linker() -> Result<PathBuf> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let print = |what: &[&str]| -> Result<String> {
        Ok(String::from_utf8(Command::new(&rustc).args(what).output()?.stdout)?)
    };
    let folder = print(&["--print", "target-libdir"])?;
    let linker = Path::new(folder.trim()).with_file_name("bin").join("rust-lld");
    if linker.is_file() { Ok(linker) } else { Err(format!("{} does not exist", linker.display()).into()) }
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().map_err(|e| format!("cannot start {:?}: {e}", command.get_program()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}\n{}", String::from_utf8_lossy(&output.stderr)).into())
}
