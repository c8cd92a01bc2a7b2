//! `longfat view`: starts, prints the address, refuses clients without the token, and ends.

use crate::common;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::{Command, Stdio},
};

use common::{SMALL, TestDir};
use serde_json::Value;

#[test]
fn the_page_is_served_until_the_command_is_interrupted() {
    let test_dir = TestDir::new(SMALL);
    assert_eq!(test_dir.run(&["run", "s.toml", "--engine", "sim"]).code, 0);
    let mut command = test_dir.longfat(&["--json", "view", "last", "--no-open"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut document = String::new();
    while serde_json::from_str::<Value>(&document).is_err() {
        assert!(reader.read_line(&mut document).unwrap() > 0, "{document}");
    }
    let started: Value = serde_json::from_str(&document).unwrap();
    let address = started["address"].as_str().unwrap();
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    assert!(started["url"].as_str().unwrap().starts_with(&format!("http://{address}/?token=")));
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut result = String::new();
    stream.read_to_string(&mut result).unwrap();
    assert!(result.starts_with("HTTP/1.1 403"), "{result}");
    // A silent connection does not delay the end of the command.
    let _silent = TcpStream::connect(address).unwrap();
    let pid = child.id().to_string();
    Command::new("kill").args(["-INT", &pid]).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_shared_token_is_valid_for_a_second_browser() {
    let test_dir = TestDir::new(SMALL);
    let mut command = test_dir.longfat(&["view", "--share-token", "--no-open"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    while !text.contains("Ctrl-C") {
        assert!(reader.read_line(&mut text).unwrap() > 0, "{text}");
    }
    assert!(text.contains("for every browser that opens this address"), "{text}");
    let url = text.split_whitespace().find(|word| word.starts_with("http://")).unwrap();
    let (address, path) = url["http://".len()..].split_once('/').unwrap();
    let request = |path: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET /{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
        let mut result = String::new();
        stream.read_to_string(&mut result).unwrap();
        result
    };
    for _ in 0..2 {
        let result = request(path);
        assert!(result.starts_with("HTTP/1.1 200"), "{result}");
        assert!(result.to_lowercase().contains("httponly; samesite=strict"), "{result}");
    }
    assert!(request("").starts_with("HTTP/1.1 403"));
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn missing_runs_and_ports_are_reported() {
    let test_dir = TestDir::new(SMALL);
    let none = test_dir.run(&["view", "nothing", "--no-open"]);
    assert_eq!(none.code, 2);
    assert!(none.stderr.contains("no run \"nothing\""), "{}", none.stderr);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let refused = test_dir.run(&["view", "--no-open", "--port", &port]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("cannot listen on 127.0.0.1:"), "{}", refused.stderr);
}
