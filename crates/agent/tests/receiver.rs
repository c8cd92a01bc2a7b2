//! An HTTP server that accepts JSON documents, as Alertmanager and OpenTelemetry collectors do.

use std::{
    io::Write,
    net::{TcpListener, TcpStream},
};

use serde_json::Value;
use testing::http::read_request;

/// The document that is posted to a path; `None` if the agent was killed meanwhile.
fn posted(stream: &mut TcpStream, path: &str) -> Option<Value> {
    let (head, body) = read_request(stream).ok()?;
    assert!(head.starts_with(&format!("POST {path} HTTP/1.1\r\n")), "{head}");
    assert!(head.contains("\r\nContent-Type: application/json\r\n"), "{head}");
    Some(serde_json::from_slice(&body).expect("a JSON document"))
}

/// Starts a server that ends with the test program, and passes each document that is posted to this path to `accept`. Returns its address.
pub fn receive(path: &'static str, accept: impl Fn(Value) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let Some(document) = posted(&mut stream, path) else { continue };
            accept(document);
            // The agent may have been killed.
            let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
    address
}
