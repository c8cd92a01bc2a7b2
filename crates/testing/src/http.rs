//! Requests of HTTP/1.1 for servers of tests.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};

/// Reads a request that has a `Content-Length`. Returns its head, which ends with an empty line, and its
/// body.
///
/// # Errors
/// If the peer closes the connection before the end of the request, or its length is invalid.
pub fn read_request(stream: impl Read) -> io::Result<(String, Vec<u8>)> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let length = length.and_then(|length| length.parse().ok()).ok_or(ErrorKind::InvalidData)?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok((head, body))
}
