//! libbpf's messages: captured per thread and never printed to the terminal.

use std::{cell::RefCell, sync::Once};

use libbpf_rs::PrintLevel;

thread_local! {
    static LOG: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs `work` and returns its result with the messages that libbpf logged on this thread meanwhile.
pub(super) fn capture_log<T>(work: impl FnOnce() -> T) -> (T, String) {
    redirect_log();
    LOG.take();
    let done = work();
    (done, LOG.take())
}

/// Redirects libbpf's messages from the terminal to the log of the calling thread, for the rest of the
/// process.
pub(super) fn redirect_log() {
    static REDIRECT: Once = Once::new();
    REDIRECT.call_once(|| {
        libbpf_rs::set_print(Some((PrintLevel::Warn, |_, message| {
            LOG.with_borrow_mut(|log| log.push_str(&message));
        })));
    });
}
