//! Baseline for benchmarks: TCP goodput and echoes over a plain veth pair between two namespaces, without an
//! emulator.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use traffic::{Listener, PingOptions, PingSocket, Stop, TcpOptions};
use units::{Bytes, Time};

use crate::{
    Error,
    error::Attempted,
    frame::mac,
    namespace::Namespace,
    netlink::{DeviceSetup, Netlink},
    sys,
};

/// Two namespaces joined by a veth pair: `left` (10.0.0.1) and `right` (10.0.0.2).
#[derive(Debug)]
pub struct VethPair {
    left: Namespace,
    right: Namespace,
}

impl VethPair {
    /// Creates both namespaces and the pair, with IP packets of up to `mtu` bytes.
    ///
    /// # Errors
    /// If the namespaces or devices cannot be created.
    pub fn new(mtu: u32) -> Result<Self, Error> {
        let (left, right) = (Namespace::new()?, Namespace::new()?);
        let set_up = |device: &str, host: usize| {
            let netlink = Netlink::open().attempted(|| "open netlink".into())?;
            let setup = DeviceSetup { name: device, mac: mac(host), mtu, gso_bytes: None, gso_segs: None };
            let set_up = netlink.configure(&setup).and_then(|index| netlink.bring_up(index).map(|()| index));
            let index = set_up.attempted(|| format!("set up {device}"))?;
            let address = [10, 0, 0, host as u8 + 1].into();
            netlink.add_address(index, address, 24).attempted(|| format!("give {device} an address"))
        };
        left.run(|| {
            Netlink::open()
                .and_then(|n| n.add_veth("left", "right", right.raw_fd()))
                .attempted(|| "make a veth pair".into())?;
            set_up("left", 0)
        })?;
        right.run(|| set_up("right", 1))?;
        Ok(VethPair { left, right })
    }

    /// Runs `work` in the left namespace; processes that it starts stay there.
    ///
    /// # Errors
    /// If a thread in the namespace cannot be started.
    pub fn left<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
        self.left.run(|| Ok(work()))
    }

    /// Runs `work` in the right namespace.
    ///
    /// # Errors
    /// See [`VethPair::left`].
    pub fn right<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
        self.right.run(|| Ok(work()))
    }
}

/// Round-trip times of `count` echoes, one every `interval`, between two namespaces joined by a veth pair:
/// the delay of the hosts themselves.
///
/// # Errors
/// If the pair cannot be created or an echo cannot be sent.
pub fn veth_echoes(count: u32, interval: Time) -> Result<Vec<Duration>, Error> {
    let VethPair { left, .. } = &VethPair::new(1500)?;
    let failed = |source| Error::Flow { flow: "baseline".into(), source };
    let socket = left.run(|| PingSocket::new([10, 0, 0, 2].into(), 1).map_err(failed))?;
    let timeout = Duration::from_secs(1);
    let options = PingOptions { interval, count: Some(count), payload: Bytes(56), timeout };
    let mut times = Vec::new();
    socket.run(&options, &Stop::default(), |echo| times.extend(echo.rtt)).map_err(failed)?;
    Ok(times)
}

/// Goodput in bit/s of one TCP flow between two namespaces joined by a veth pair, over `span` after a
/// second of warm-up.
///
/// # Errors
/// If the pair cannot be created or the flow cannot be connected.
pub fn veth_goodput(mtu: u32, cc: &str, span: Duration) -> Result<f64, Error> {
    let VethPair { left, right } = VethPair::new(mtu)?;
    let options = TcpOptions { cc: Some(cc.into()), ..TcpOptions::default() };
    let failed = |source| Error::Flow { flow: "baseline".into(), source };
    let stop = Stop::default();
    let received = AtomicU64::new(0);
    let listener = right.run(|| Listener::bind([10, 0, 0, 2].into(), &options).map_err(failed))?;
    let address = listener.address().map_err(failed)?;
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| listener.accept(&stop)?.run(&stop, &received));
        // Without its sender the receiver would wait forever.
        let sender = left.run(|| traffic::connect(address, &options, &stop).map_err(failed));
        let sender = sender.inspect_err(|_| stop.set())?;
        let sender = scope.spawn(|| sender.run(&stop));
        std::thread::sleep(Duration::from_secs(1));
        let (from, before) = (sys::monotonic(), received.load(Ordering::Relaxed));
        std::thread::sleep(span);
        let bytes = received.load(Ordering::Relaxed) - before;
        let seconds = sys::monotonic().as_secs_f64() - from.as_secs_f64();
        stop.set();
        // Both flows were stopped, so their results are irrelevant.
        let _ = (sender.join(), receiver.join());
        Ok(bytes as f64 * 8.0 / seconds)
    })
}
