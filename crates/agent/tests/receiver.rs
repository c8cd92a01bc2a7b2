//! HTTP servers that accept requests of agents, as Alertmanager, OpenTelemetry collectors and Prometheus do.

use std::{io::Write, net::TcpListener};

use serde_json::Value;
use testing::http::read_request;

/// Starts a server that ends with the test program. It passes the head and the body of each request to
/// `reply`, and sends the status line and header fields that this returns. Returns its address.
pub fn serve(reply: impl Fn(&str, Vec<u8>) -> &'static str + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // The agent may have been killed.
            let Ok((head, body)) = read_request(&stream) else { continue };
            let status = reply(&head, body);
            let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
        }
    });
    address
}

/// Starts a server as [`serve`] that passes each JSON document that is posted to this path to `accept`.
/// Returns its address.
pub fn receive(path: &'static str, accept: impl Fn(Value) + Send + 'static) -> String {
    serve(move |head, body| {
        assert!(head.starts_with(&format!("POST {path} HTTP/1.1\r\n")), "{head}");
        assert!(head.contains("\r\nContent-Type: application/json\r\n"), "{head}");
        accept(serde_json::from_slice(&body).expect("a JSON document"));
        "200 OK"
    })
}
