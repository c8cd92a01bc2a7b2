//! The program as a pScheduler tool: the scripts of the package, and the errors that pScheduler receives.

use std::{
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::{Value, json};

use crate::common::{TestDir, binary};

/// Runs a program with a document on its standard input.
fn feed(mut command: Command, input: &str) -> Output {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A program that does not read its input has already ended.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

#[test]
fn each_script_of_the_package_calls_the_method_of_its_name() {
    let dir = TestDir::new("");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/pscheduler-tool/method");
    let call = |method: &str, input: &str| {
        let path = dir.path(method);
        std::fs::copy(&script, &path).unwrap();
        let mut command = Command::new(&path);
        let programs = Path::new(binary()).parent().unwrap().display();
        command.env("PATH", format!("{programs}:{}", std::env::var("PATH").unwrap()));
        let output = feed(command, input);
        assert!(output.status.success(), "{method}: {output:?}");
        assert!(output.stderr.is_empty(), "{method}: {output:?}");
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    assert_eq!(call("enumerate", "")["name"], "longfat");
    let test = r#"{"type": "throughput", "spec": {"schema": 1, "dest": "b.example"}}"#;
    assert_eq!(call("can-run", test), json!({ "can-run": true }));
    assert_eq!(call("duration", test), json!({ "duration": "PT20S" }));
    let participant = format!(r#"{{"participant": 1, "test": {test}}}"#);
    assert_eq!(call("participant-data", &participant)["port"], 5201);
}

#[test]
fn invalid_input_is_an_error() {
    let dir = TestDir::new("");
    for method in ["duration", "participant-data", "run", "merged-results"] {
        let output = feed(dir.longfat(&["pscheduler-tool", method]), "{}");
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(&format!("the input of {method}")), "{message}");
        assert!(output.stdout.is_empty());
    }
    let output = feed(dir.longfat(&["pscheduler-tool", "archive"]), "");
    assert_eq!(output.status.code(), Some(2));
}
