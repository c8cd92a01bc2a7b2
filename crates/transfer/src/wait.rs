//! Waits during which the data connection must be served: for the peer's next message, and for work of this
//! end that takes long.

use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{RecvTimeoutError, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use crate::{
    Error,
    control::{Control, Frame, STORE_TIMEOUT},
    data_stream::DataStream,
    error::failed,
    message::Message,
};

/// Interval at which the data connection is served.
const SERVE_INTERVAL: Duration = Duration::from_millis(10);
/// Interval at which an end that still works reports this to the other one. Earlier versions do not know the
/// message and end the transfer after [`STORE_TIMEOUT`].
const WORKING_INTERVAL: Duration = Duration::from_secs(600);

/// The next message. A stream is served while it waits.
pub(crate) fn next_message(
    control: &mut Control<'_>,
    mut stream: Option<&mut (dyn DataStream + 'static)>,
    what: &'static str,
) -> Result<Message, Error> {
    loop {
        let message = match stream.as_deref_mut() {
            Some(stream) => receive_while_serving(control, stream, what, STORE_TIMEOUT)?,
            None => control.receive(what, STORE_TIMEOUT)?,
        };
        if message != Message::Working {
            return Ok(message);
        }
        // A hostile peer can report work without end.
        control.check_stop()?;
    }
}

/// Waits for a message while the stream still acknowledges and retransmits.
fn receive_while_serving(
    control: &mut Control<'_>,
    stream: &mut dyn DataStream,
    what: &'static str,
    timeout: Duration,
) -> Result<Message, Error> {
    let begin = Instant::now();
    loop {
        match control.poll()? {
            Some(Frame::Message(message)) => return Ok(message),
            Some(Frame::Report(packet)) if stream.handle_report(&packet) => {}
            Some(_) => return Err(Error::Protocol(format!("another protocol's dialogue instead of {what}"))),
            None => stream.serve(SERVE_INTERVAL, control)?,
        }
        // Also after a report: a hostile peer can send them without end.
        if begin.elapsed() > timeout {
            return Err(Error::Timeout { what, after: timeout });
        }
        control.check_stop()?;
    }
}

/// Does `work` on another thread, and serves a stream meanwhile: peers of UDT and SABUL close a connection
/// that is silent for 46 s. The argument of `work` becomes true when its result is no longer needed.
pub(crate) fn while_serving<T: Send>(
    control: &mut Control<'_>,
    mut stream: Option<&mut (dyn DataStream + 'static)>,
    work: impl FnOnce(&AtomicBool) -> Result<T, Error> + Send,
) -> Result<T, Error> {
    let is_cancelled = &AtomicBool::new(false);
    thread::scope(|scope| {
        let (sender, result) = sync_channel(1);
        let run = move || {
            // Fails only if the result is no longer needed.
            let _ = sender.send(work(is_cancelled));
        };
        let thread = thread::Builder::new().name("file work".into());
        thread.spawn_scoped(scope, run).map_err(failed("start a thread"))?;
        let mut reported = Instant::now();
        let mut attend = || {
            control.check()?;
            if reported.elapsed() >= WORKING_INTERVAL {
                reported = Instant::now();
                control.send(&Message::Working)?;
            }
            stream.as_deref_mut().map_or(Ok(()), |stream| stream.serve(Duration::ZERO, control))
        };
        loop {
            match result.recv_timeout(SERVE_INTERVAL) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::Input("a thread of the transfer has failed".into()));
                }
                Err(RecvTimeoutError::Timeout) => {
                    attend().inspect_err(|_| is_cancelled.store(true, Ordering::Relaxed))?
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use std::{
        net::{TcpListener, TcpStream},
        sync::atomic::AtomicU64,
    };

    use super::*;
    use crate::sampler::SharedCounts;

    /// Counts how often it is served.
    struct Served(&'static AtomicU64);

    impl DataStream for Served {
        fn write_all(&mut self, _bytes: &[u8], _control: &mut Control<'_>) -> Result<(), Error> {
            Ok(())
        }
        fn read(&mut self, _buffer: &mut [u8], _control: &mut Control<'_>) -> Result<usize, Error> {
            Ok(0)
        }
        fn serve(&mut self, _time: Duration, _control: &mut Control<'_>) -> Result<(), Error> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
        fn close(self: Box<Self>, _control: &mut Control<'_>) -> Result<(), Error> {
            Ok(())
        }
        fn buffered_bytes(&self) -> u64 {
            0
        }
        fn packets(&self) -> (u64, u64) {
            (0, 0)
        }
        fn publish_to(&mut self, _counts: SharedCounts) {}
    }

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    #[test]
    fn a_stream_is_served_during_long_work() {
        static SERVED: AtomicU64 = AtomicU64::new(0);
        let (stop, (near, _far)) = (AtomicBool::new(false), pair());
        let mut control = Control::new(near, &stop).unwrap();
        let mut stream = Served(&SERVED);
        let work = |_: &AtomicBool| {
            while SERVED.load(Ordering::Relaxed) < 3 {
                thread::sleep(Duration::from_millis(1));
            }
            Ok(7)
        };
        assert_eq!(while_serving(&mut control, Some(&mut stream), work).unwrap(), 7);
    }

    #[test]
    fn a_signal_and_a_peer_that_closes_cancel_the_work() {
        for is_signal in [true, false] {
            let (stop, (near, far)) = (AtomicBool::new(false), pair());
            let mut control = Control::new(near, &stop).unwrap();
            let work = |is_cancelled: &AtomicBool| {
                if is_signal {
                    stop.store(true, Ordering::Release);
                } else {
                    drop(far);
                }
                while !is_cancelled.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(1));
                }
                Ok(())
            };
            let error = while_serving(&mut control, None, work).unwrap_err();
            let is_expected = match error {
                Error::Interrupted => is_signal,
                Error::Closed => !is_signal,
                _ => false,
            };
            assert!(is_expected, "{error}");
        }
    }

    #[test]
    fn a_signal_ends_the_wait_for_a_peer_that_reports_work_without_a_pause() {
        let (stop, (near, far)) = (AtomicBool::new(false), pair());
        let mut control = Control::new(near, &stop).unwrap();
        let mut peer = Control::new(far, &stop).unwrap();
        for message in [Message::Working, Message::Working, Message::Stored] {
            peer.send(&message).unwrap();
        }
        stop.store(true, Ordering::Release);
        let error = next_message(&mut control, None, "confirmation").unwrap_err();
        assert!(matches!(error, Error::Interrupted), "{error}");
    }

    #[test]
    fn the_wait_continues_while_the_peer_reports_work() {
        let (stop, (near, far)) = (AtomicBool::new(false), pair());
        let mut control = Control::new(near, &stop).unwrap();
        let mut peer = Control::new(far, &stop).unwrap();
        for message in [Message::Working, Message::Working, Message::Stored] {
            peer.send(&message).unwrap();
        }
        assert_eq!(next_message(&mut control, None, "confirmation").unwrap(), Message::Stored);
    }
}
