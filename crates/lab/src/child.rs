//! Runs irreversible system calls (unshare, setuid) in a child process.
#![allow(unsafe_code)]

use std::io::{self, Read, Write};

/// Runs `work` in a child process and returns its result. Only for a process with one thread: the child has a
/// copy of the memory, and a lock held by another thread would never be released in it.
pub(crate) fn in_child<const N: usize>(work: impl FnOnce() -> [i32; N]) -> io::Result<[i32; N]> {
    let (mut reader, mut writer) = io::pipe()?;
    // SAFETY: the child only runs `work` and ends by `_exit`, without the parent's clean-up.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    if pid == 0 {
        let result = work();
        let bytes: Vec<u8> = result.iter().flat_map(|number| number.to_ne_bytes()).collect();
        let sent = writer.write_all(&bytes);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(sent.is_err())) };
    }
    drop(writer);
    let mut bytes = Vec::new();
    let read = reader.read_to_end(&mut bytes);
    // SAFETY: our own child, which is waited for exactly once; its status is not requested.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
    read?;
    let mut result = [0; N];
    if bytes.len() != size_of_val(&result) {
        return Err(io::Error::other("the child process died"));
    }
    for (number, bytes) in result.iter_mut().zip(bytes.chunks_exact(4)) {
        *number = i32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    Ok(result)
}
