//! longfat's clients with perfSONAR's servers and vice versa (<https://github.com/perfsonar/owamp>, tested
//! with 5.2.3), over loopback. `LONGFAT_OWAMP` names the directory of its programs; otherwise they are in
//! PATH.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use stamp::{ControlProtocol, ControlServer, Protocol, SenderOptions, Spacing, measure, measure_packets};
use units::Time;

/// The servers' address: it differs from the clients', because perfSONAR's reflector uses the same port as
/// the client.
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// The path of a program, if it is installed.
fn program(name: &str) -> Option<PathBuf> {
    let path = match std::env::var_os("LONGFAT_OWAMP") {
        Some(directory) => PathBuf::from(directory).join(name),
        None => PathBuf::from(name),
    };
    if Command::new(&path).arg("-h").output().is_ok() {
        return Some(path);
    }
    testing::skip(testing::Missing::Feature, format!("{name} is neither in PATH nor in LONGFAT_OWAMP"));
    None
}

/// A server of perfSONAR, which ends with this value.
struct Server {
    child: Child,
    directory: PathBuf,
    at: SocketAddr,
}

impl Server {
    fn start(path: &PathBuf, name: &str) -> Self {
        let port = TcpListener::bind((SERVER, 0)).unwrap().local_addr().unwrap().port();
        let at = SocketAddr::from((SERVER, port));
        let directory = std::env::temp_dir().join(format!("longfat-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        for kind in ["owamp", "twamp"] {
            std::fs::write(directory.join(format!("{kind}-server.conf")), "").unwrap();
            let limits = "limit root with disk=0,bandwidth=0,delete_on_fetch=on\nassign default root\n";
            std::fs::write(directory.join(format!("{kind}-server.limits")), limits).unwrap();
        }
        // Runs in the foreground, as any user.
        let mut command = Command::new(path);
        command.args(["-Z", "-f", "-c"]).arg(&directory).arg("-R").arg(&directory).arg("-d").arg(&directory);
        command.args(["-S", &at.to_string()]).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let server = Server { child, directory, at };
        let begin = Instant::now();
        while TcpStream::connect(at).is_err() {
            assert!(begin.elapsed() < Duration::from_secs(60), "{name} does not listen on {at}");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn options(protocol: Protocol, to: SocketAddr, spacing: Spacing) -> SenderOptions {
    SenderOptions {
        protocol,
        to,
        count: 40,
        interval: Time::from_millis(10),
        spacing,
        payload: 200,
        key: None,
        session: 0,
        timeout: Duration::from_secs(2),
    }
}

#[test]
fn our_client_measures_with_perfsonars_servers() {
    let (Some(twampd), Some(owampd)) = (program("twampd"), program("owampd")) else { return };
    for spacing in [Spacing::Fixed, Spacing::Exponential] {
        let server = Server::start(&twampd, "twampd");
        let result =
            measure(&options(Protocol::Twamp, server.at, spacing), &AtomicBool::new(false), &mut |_| {});
        let result = result.unwrap();
        assert_eq!((result.sent, result.lost), (40, 0));
        assert_eq!(result.each_direction.unwrap().map(|way| way.lost), [0, 0]);
        assert!(result.rtt_ms.unwrap()[0] > 0.0, "{result:?}");

        let server = Server::start(&owampd, "owampd");
        let options = options(Protocol::Owamp, server.at, spacing);
        let measured = measure_packets(&options, &AtomicBool::new(false), &mut |_| {}).unwrap();
        assert_eq!((measured.trips.len(), measured.lost.len()), (40, 0));
        let result = measured.result;
        assert_eq!(
            result.each_direction.unwrap().map(|way| (way.sent, way.lost)),
            [(40, 0); 2],
            "{result:?}"
        );
        let forward = result.forward.unwrap();
        assert!((0.0..1000.0).contains(&forward.delay_ms.high), "{result:?}");
    }
}

/// Runs a client of perfSONAR with our server; returns what it prints.
fn their_client(protocol: ControlProtocol, path: &PathBuf, args: &[&str]) -> String {
    let server = ControlServer::bind(protocol, SERVER, 0).unwrap();
    let at = SocketAddr::from((SERVER, server.port().unwrap()));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| server.run(&stop, &|note| eprintln!("{note}")));
        let output = Command::new(path).args(args).arg(at.to_string()).output();
        stop.store(true, Ordering::Release);
        running.join().unwrap().unwrap();
        let output = output.unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text} {}", String::from_utf8_lossy(&output.stderr));
        text
    })
}

#[test]
fn perfsonars_clients_measure_with_our_server() {
    let (Some(twping), Some(owping)) = (program("twping"), program("owping")) else { return };
    for args in [&["-c", "40", "-i", "0.01f", "-L", "2"][..], &["-c", "20", "-i", "0.02", "-s", "300"]] {
        let count = args[1];
        let none_lost = format!("{count} sent, 0 lost (0.000%), 0");
        let text = their_client(ControlProtocol::Twamp, &twping, args);
        assert!(text.contains(&none_lost), "{text}");
        assert_eq!(text.matches("hops = 0 (consistently)").count(), 2, "{text}");
        let text = their_client(ControlProtocol::Owamp, &owping, args);
        assert_eq!(text.matches(&none_lost).count(), 2, "{text}");
        assert_eq!(text.matches("hops = 0 (consistently)").count(), 2, "{text}");
    }
    // Without padding for the length of a reply.
    let server = ControlServer::bind(ControlProtocol::Twamp, SERVER, 0).unwrap();
    let at = SocketAddr::from((SERVER, server.port().unwrap()));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| server.run(&stop, &|_| {}));
        let output = Command::new(&twping).args(["-c", "5", "-s", "0", &at.to_string()]).output();
        stop.store(true, Ordering::Release);
        running.join().unwrap().unwrap();
        assert!(!output.unwrap().status.success());
    });
}
