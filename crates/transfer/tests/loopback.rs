//! Whole transfers over loopback.

use std::{
    fs,
    io::Write,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use transfer::{
    Error, FileReport, Observer, RateChoice, Receiver, ReceiverOptions, SenderOptions, Token, Transport, send,
};
use units::BitRate;

use crate::quic::relay;

/// Ignores progress; optionally stops the sender after some bytes.
#[derive(Default)]
pub struct Quiet {
    stop_after: Option<(u64, Arc<AtomicBool>)>,
}

impl Observer for Quiet {
    fn begin(&self, _name: &str, _bytes: u64, _resumed: u64) {}
    fn progress(&self, bytes: u64) {
        if let Some((after, stop)) = &self.stop_after
            && bytes > *after
        {
            stop.store(true, Ordering::Release);
        }
    }
    fn end(&self, _report: &FileReport) {}
    fn note(&self, _text: &str) {}
}

/// A receiver on a thread.
pub struct Running {
    pub address: SocketAddr,
    pub directory: tempfile::TempDir,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    pub fn start(token: Option<Token>) -> Running {
        let directory = tempfile::tempdir().unwrap();
        let options = ReceiverOptions {
            listen: "127.0.0.1:0".parse().unwrap(),
            directory: directory.path().to_path_buf(),
            token,
            max_senders: 4,
        };
        let receiver = Receiver::bind(options).unwrap();
        let address = receiver.address().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = thread::spawn(move || receiver.run(&Quiet::default(), &flag, || false).unwrap());
        Running { address, directory, stop, thread: Some(thread) }
    }

    pub fn options(&self, transport: Transport) -> SenderOptions {
        SenderOptions {
            receiver: self.address,
            other_addresses: Vec::new(),
            directory: String::new(),
            transport,
            rate: RateChoice::Fixed(BitRate(400_000_000)),
            mss: 1500,
            streams: 1,
            congestion: None,
            token: None,
            connect_timeout: Duration::from_secs(5),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// A file with different bytes everywhere and a hole.
pub fn file(directory: &Path, name: &str, bytes: usize) -> PathBuf {
    let mut state = 1u64;
    let mut content: Vec<u8> = (0..bytes)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .collect();
    if bytes > 3_000_000 {
        content[1_000_000..2_000_000].fill(0);
    }
    let path = directory.join(name);
    fs::write(&path, content).unwrap();
    path
}

pub fn send_quietly(files: &[PathBuf], options: &SenderOptions) -> Result<Vec<FileReport>, Error> {
    send(files, options, &Quiet::default(), &AtomicBool::new(false))
}

/// Each transport, with its number of streams.
pub const TRANSPORTS: [(Transport, u16); 6] = [
    (Transport::Tcp, 1),
    (Transport::Tcp, 5),
    (Transport::Udt, 1),
    (Transport::Tsunami, 1),
    (Transport::Quic, 1),
    (Transport::Sabul, 1),
];

#[test]
fn files_and_directories_arrive_complete_over_each_transport() {
    let source = tempfile::tempdir().unwrap();
    fs::create_dir_all(source.path().join("tree/sub")).unwrap();
    let large = file(source.path(), "large", 5_000_001);
    file(source.path(), "tree/empty", 0);
    file(source.path(), "tree/sub/one", 1);
    for (transport, streams) in TRANSPORTS {
        let running = Running::start(None);
        let options = SenderOptions { streams, ..running.options(transport) };
        let files = [large.clone(), source.path().join("tree")];
        let reports = send_quietly(&files, &options).unwrap();
        assert_eq!(reports.len(), 3, "{transport:?}");
        for name in ["large", "tree/empty", "tree/sub/one"] {
            let (sent, received) = (source.path().join(name), running.directory.path().join(name));
            assert_eq!(fs::read(sent).unwrap(), fs::read(received).unwrap(), "{transport:?} {name}");
        }
        assert_eq!(fs::read_dir(running.directory.path()).unwrap().count(), 2, "{transport:?}");
    }
}

#[test]
fn an_interrupted_transfer_continues_over_each_transport() {
    let source = tempfile::tempdir().unwrap();
    let large = file(source.path(), "large", 120_000_000);
    for (transport, streams) in TRANSPORTS {
        let running = Running::start(None);
        let options = SenderOptions { streams, ..running.options(transport) };
        let stop = Arc::new(AtomicBool::new(false));
        // Up to 20 MB may be in the buffers of five sockets, and the receiver records its progress five times
        // a second.
        let observer = Quiet { stop_after: Some((60_000_000, Arc::clone(&stop))) };
        let result = send(std::slice::from_ref(&large), &options, &observer, &stop);
        assert!(matches!(result, Err(Error::Interrupted)), "{transport:?} {result:?}");
        let arrived = running.directory.path().join("large");
        assert!(!arrived.exists());
        // The receiver may still hold the file's lock.
        let begin = Instant::now();
        let report = loop {
            match send_quietly(std::slice::from_ref(&large), &options) {
                Ok(reports) => break reports[0].clone(),
                Err(Error::Peer(_)) if begin.elapsed() < Duration::from_secs(30) => {
                    thread::sleep(Duration::from_millis(100));
                }
                Err(error) => panic!("{transport:?} {error}"),
            }
        };
        assert!(report.resumed_bytes > 0, "{transport:?} {report:?}");
        assert_eq!(fs::read(&large).unwrap(), fs::read(&arrived).unwrap(), "{transport:?}");
    }
}

#[test]
fn a_changed_file_is_sent_from_the_beginning() {
    let source = tempfile::tempdir().unwrap();
    let path = file(source.path(), "f", 100_000);
    let running = Running::start(None);
    let temporary = running.directory.path().join(".f.longfat-new");
    fs::write(&temporary, vec![1; 50_000]).unwrap();
    fs::write(running.directory.path().join(".f.longfat-new.progress"), "00000000000000050000\n").unwrap();
    let reports = send_quietly(std::slice::from_ref(&path), &running.options(Transport::Tcp)).unwrap();
    assert_eq!(reports[0].resumed_bytes, 0);
    assert_eq!(fs::read(&path).unwrap(), fs::read(running.directory.path().join("f")).unwrap());
}

#[test]
fn both_ends_must_have_the_same_token() {
    let source = tempfile::tempdir().unwrap();
    let path = file(source.path(), "f", 10);
    let token = |text: &str| {
        let path = source.path().join("token");
        fs::write(&path, text).unwrap();
        Token::read(&path).unwrap()
    };
    let running = Running::start(Some(token("the right secret of both")));
    let mut options = running.options(Transport::Udt);
    for wrong in [None, Some(token("another secret, a wrong one"))] {
        options.token = wrong;
        let error = send_quietly(std::slice::from_ref(&path), &options).unwrap_err();
        assert!(error.to_string().contains("token"), "{error}");
    }
    options.token = Some(token("the right secret of both"));
    send_quietly(&[path], &options).unwrap();
    assert!(running.directory.path().join("f").exists());
}

#[test]
fn names_outside_of_the_directory_are_refused() {
    let source = tempfile::tempdir().unwrap();
    let path = file(source.path(), "f", 10);
    let running = Running::start(None);
    for directory in ["../x", "/tmp"] {
        let options = SenderOptions { directory: directory.into(), ..running.options(Transport::Tcp) };
        let error = send_quietly(std::slice::from_ref(&path), &options).unwrap_err();
        assert!(error.to_string().contains("invalid file name"), "{error}");
    }
    let options = SenderOptions { directory: "a/b".into(), ..running.options(Transport::Tcp) };
    send_quietly(&[path], &options).unwrap();
    assert!(running.directory.path().join("a/b/f").exists());
}

#[test]
fn another_address_of_the_receiver_is_tried() {
    let source = tempfile::tempdir().unwrap();
    let path = file(source.path(), "f", 100_000);
    let running = Running::start(None);
    // A free port, where nothing listens.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let options = SenderOptions { receiver: closed, ..running.options(Transport::Udt) };
    let error = send_quietly(std::slice::from_ref(&path), &options).unwrap_err().to_string();
    assert!(error.contains(&closed.to_string()), "{error}");
    let options = SenderOptions { other_addresses: vec![closed, running.address], ..options };
    send_quietly(std::slice::from_ref(&path), &options).unwrap();
    assert_eq!(fs::read(&path).unwrap(), fs::read(running.directory.path().join("f")).unwrap());
}

/// Connections of others to the port for several streams do not become a part of the transfer.
#[test]
fn streams_need_the_sessions_key() {
    let source = tempfile::tempdir().unwrap();
    let path = file(source.path(), "f", 2_000_000);
    let running = Running::start(None);
    let through = relay(running.address, |message| {
        let json: serde_json::Value = serde_json::from_str(&message).unwrap();
        if json["type"] == "ready" {
            let port = json["port"].as_u64().unwrap() as u16;
            for content in [vec![], vec![b'0'; 64], vec![0; 1000]] {
                let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
                stream.write_all(&content).unwrap();
                // It stays open during the transfer.
                std::mem::forget(stream);
            }
        }
        message
    });
    let options = SenderOptions { streams: 3, receiver: through, ..running.options(Transport::Tcp) };
    send_quietly(std::slice::from_ref(&path), &options).unwrap();
    assert_eq!(fs::read(&path).unwrap(), fs::read(running.directory.path().join("f")).unwrap());
}
