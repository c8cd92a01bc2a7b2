//! The queue of flows' replies on their way to the client. Rows that a slow client has not read do not
//! accumulate: the result at the flow's end contains all samples again. Neither do notes, of which the other
//! end of a flow can cause any number.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
    mpsc::{Receiver, Sender, channel},
};

use schema::FlowSample;

use crate::{flow::FlowObserver, message::Reply};
use iperf3::wire::Samples;

/// Maximum number of queued rows and notes; a row takes about 1 kB.
const MAX_QUEUED_ROWS: usize = 100_000;

/// The end of the queue to which flows send.
#[derive(Debug, Clone)]
pub(crate) struct ReplySender {
    sender: Sender<(Reply, usize)>,
    queued_rows: Arc<AtomicUsize>,
}

/// The end of the queue that the session reads.
#[derive(Debug)]
pub(crate) struct ReplyReceiver {
    receiver: Receiver<(Reply, usize)>,
    queued_rows: Arc<AtomicUsize>,
}

pub(crate) fn reply_queue() -> (ReplySender, ReplyReceiver) {
    let (sender, receiver) = channel();
    let queued_rows = Arc::default();
    (ReplySender { sender, queued_rows: Arc::clone(&queued_rows) }, ReplyReceiver { receiver, queued_rows })
}

impl ReplySender {
    pub(crate) fn send(&self, reply: Reply) {
        // An error means that the session has ended.
        let _ = self.sender.send((reply, 0));
    }

    /// Queues a reply that counts as this number of rows, or drops it if too many are queued.
    fn send_limited(&self, rows: usize, reply: impl FnOnce() -> Reply) {
        let queued = self.queued_rows.fetch_add(rows, Ordering::Relaxed);
        if queued + rows > MAX_QUEUED_ROWS {
            self.queued_rows.fetch_sub(rows, Ordering::Relaxed);
            return;
        }
        let _ = self.sender.send((reply(), rows));
    }
}

impl ReplyReceiver {
    /// The next reply, if there is one.
    pub(crate) fn next(&self) -> Option<Reply> {
        let (reply, rows) = self.receiver.try_recv().ok()?;
        self.queued_rows.fetch_sub(rows, Ordering::Relaxed);
        Some(reply)
    }
}

/// Queues the progress of a flow.
pub(crate) struct ReplyingObserver {
    pub(crate) number: u32,
    pub(crate) replies: ReplySender,
}

impl FlowObserver for ReplyingObserver {
    fn note(&mut self, text: &str) {
        self.replies.send_limited(1, || Reply::Note { number: self.number, text: text.into() });
    }

    fn started(&mut self, realtime_ns: i64) {
        self.replies.send(Reply::Started { number: self.number, realtime_ns });
    }

    fn rows(&mut self, rows: &[FlowSample]) {
        let reply = || Reply::Rows { number: self.number, samples: Samples::of(rows) };
        self.replies.send_limited(rows.len(), reply);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_beyond_the_queue_limit_are_dropped() {
        let (replies, queue) = reply_queue();
        let mut observer = ReplyingObserver { number: 3, replies: replies.clone() };
        let rows = vec![FlowSample::default(); 1000];
        (0..250).for_each(|_| observer.rows(&rows));
        replies.send(Reply::Changed);
        let queued: Vec<Reply> = std::iter::from_fn(|| queue.next()).collect();
        assert_eq!(queued.len(), MAX_QUEUED_ROWS / rows.len() + 1);
        assert_eq!(queued.last(), Some(&Reply::Changed), "other replies are never dropped");
        observer.rows(&rows);
        assert!(matches!(queue.next(), Some(Reply::Rows { number: 3, .. })), "there is space again");
    }

    /// A server sends its client a note of its queue as often as it likes.
    #[test]
    fn notes_beyond_the_queue_limit_are_dropped() {
        let (replies, queue) = reply_queue();
        let mut observer = ReplyingObserver { number: 3, replies };
        (0..2 * MAX_QUEUED_ROWS).for_each(|_| observer.note("waiting"));
        let queued = std::iter::from_fn(|| queue.next()).count();
        assert_eq!(queued, MAX_QUEUED_ROWS);
        observer.note("waiting");
        assert!(matches!(queue.next(), Some(Reply::Note { number: 3, .. })), "there is space again");
    }
}
