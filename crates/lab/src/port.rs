//! Ports, through which frames leave and enter a host's kernel: a TAP device, or a packet socket on the far
//! end of a veth pair where TAP devices cannot be created.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    time::{Duration, Instant},
};

use os::DeviceControl;
use scenario::{Cidr, Nic};
use units::KernelVersion;

use crate::{
    Error,
    error::Attempted,
    frame::mac,
    namespace::Namespace,
    netlink::{DeviceSetup, Netlink},
    sys,
    sysctl::set_sysctls,
};

/// Queue lengths to request for a TAP device, in super-packets, preferred first. The queue holds the frames
/// that the host sends while the emulator is late; the kernel's default of 500 would drop packets then. Linux
/// 6.1.192 and 6.12.117 limit it to 32767.
const QUEUE_LENGTHS: [u32; 2] = [65_536, MAX_QUEUE_LENGTH_OF_NEWER_KERNELS];
/// Limit of IFLA_TXQLEN in the netlink policy of those kernels (net/core/rtnetlink.c).
const MAX_QUEUE_LENGTH_OF_NEWER_KERNELS: u32 = 32_767;
/// MTU of the far end of a veth pair: the maximum, because the MTU of the host's end may change.
const WIRE_MTU: u32 = 65_535;
/// Requested receive buffer of packet sockets, bytes; the kernel may grant less.
const PACKET_BUFFER: i32 = 64 << 20;
/// The first kernel whose packet sockets pass on UDP super-packets (VIRTIO_NET_HDR_GSO_UDP_L4).
const UDP_GSO_READABLE_SINCE: KernelVersion = KernelVersion::new(6, 2);

/// Maximum time until a device is operational: the kernel processes such events at least once a second.
const OPERATIONAL_TIMEOUT: Duration = Duration::from_secs(2);
const OPERATIONAL_POLL: Duration = Duration::from_millis(1);

/// How hosts are connected to the emulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// TAP devices.
    Tap,
    /// veth pairs and packet sockets.
    Packet,
}

impl std::str::FromStr for Backend {
    type Err = String;

    /// `tap` or `packet`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "tap" => Ok(Backend::Tap),
            "packet" => Ok(Backend::Packet),
            other => Err(format!("unknown kind of ports {other:?}; write tap or packet")),
        }
    }
}

impl Backend {
    /// `tap` or `packet`.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Tap => "tap",
            Backend::Packet => "packet",
        }
    }

    /// TAP if a TAP device can be created, else packet sockets. Call this after [`crate::acquire_privilege`].
    pub fn for_this_machine() -> Self {
        let tap = Namespace::new().and_then(|namespace| {
            namespace.run(|| sys::open_tap("lf-check").attempted(|| "create a TAP device".into()))
        });
        match tap {
            Ok(_) => Backend::Tap,
            Err(_) => Backend::Packet,
        }
    }
}

/// A host's port.
#[derive(Debug)]
pub(crate) struct Port {
    file: File,
    backend: Backend,
    /// Maximum number of segments per frame that the host accepts.
    pub(crate) gro: Option<u32>,
    /// The scenario sets a transmit queue: frames are read no faster than the link sends them, so that the
    /// queue fills.
    pub(crate) has_tx_queue: bool,
}

/// The result of reading a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PortRead {
    /// Length of the frame, with its virtio-net header.
    Frame(usize),
    /// There is no frame.
    Empty,
    /// The kernel dropped one frame because a virtio-net header cannot describe it.
    Dropped,
}

/// Configuration of a port's device.
pub(crate) struct PortSetup<'a> {
    /// The station number, which determines the device's Ethernet address.
    pub(crate) station: usize,
    pub(crate) device: &'a str,
    pub(crate) mtu: u32,
    pub(crate) addresses: &'a [Cidr],
    pub(crate) nic: &'a Nic,
    /// The host's name, and the sysctls that belong to the device.
    pub(crate) host: &'a str,
    pub(crate) sysctls: &'a [(&'a str, &'a str)],
}

impl Port {
    /// Creates the port of a host in its namespace. The far ends of veth pairs are in the namespace `wires`.
    pub(crate) fn open(
        setup: &PortSetup<'_>,
        backend: Backend,
        host: &Namespace,
        wires: &Namespace,
    ) -> Result<Self, Error> {
        let device = setup.device;
        let wire = format!("wire{}", setup.station);
        let tap = host.run(|| {
            let what = || format!("set up device {device}");
            let netlink = Netlink::open().attempted(what)?;
            let tap = match backend {
                Backend::Tap => Some(sys::open_tap(device).map_err(no_port("create TAP device", device))?),
                Backend::Packet => {
                    netlink
                        .add_veth(device, &wire, wires.raw_fd())
                        .map_err(no_port("create veth device", device))?;
                    None
                }
            };
            let index = netlink
                .configure(&DeviceSetup {
                    name: device,
                    mac: mac(setup.station),
                    mtu: setup.mtu,
                    gso_bytes: setup.nic.gso.map(|bytes| bytes.0.min(65_536) as u32),
                    gso_segs: setup.nic.gso_segs,
                })
                .attempted(what)?;
            if backend == Backend::Packet {
                let names = unreadable_offloads(os::kernel_release().and_then(|text| text.parse().ok()));
                let turned_off =
                    DeviceControl::open().and_then(|control| control.turn_off_features(device, names));
                // The driver counts the frames that the kernel then drops.
                turned_off
                    .unwrap_or_else(|error| tracing::warn!(device, ?names, %error, "offloads remain on"));
            }
            if setup.nic.software_gso {
                DeviceControl::open()
                    .and_then(|control| control.turn_off_tso(device))
                    .attempted(|| format!("turn off TSO of {device}"))?;
            }
            // A veth device has no transmit queue.
            if backend == Backend::Tap {
                let set = |packets| netlink.set_queue_length(index, packets);
                match setup.nic.tx_queue {
                    Some(packets) => set_exact_queue(device, packets, set)?,
                    None => set_longest_queue(set)
                        .map(drop)
                        .attempted(|| format!("set the transmit queue length of {device}"))?,
                }
            }
            // The sysctls are set before the device is up: some apply to its first packets, such as those of
            // duplicate address detection.
            set_sysctls(setup.host, setup.sysctls)?;
            netlink.bring_up(index).attempted(what)?;
            for cidr in setup.addresses {
                netlink
                    .add_address(index, cidr.address, cidr.prefix)
                    .attempted(|| format!("add address {cidr} to {device}"))?;
            }
            Ok(tap)
        })?;
        let file = match tap {
            Some(file) => file,
            None => wires.run(|| open_wire(&wire, setup))?,
        };
        host.run(|| {
            if backend == Backend::Packet {
                wait_until_operational(device).attempted(|| format!("read the state of {device}"))?;
            }
            // The sysctls are set again, because bringing the device up resets some, such as
            // net.ipv6.conf.DEVICE.mtu.
            set_sysctls(setup.host, setup.sysctls)
        })?;
        Ok(Port { file, backend, gro: setup.nic.gro, has_tx_queue: setup.nic.tx_queue.is_some() })
    }

    /// A port that writes to any file, for tests.
    #[cfg(test)]
    pub(crate) fn onto(file: File) -> Self {
        Port { file, backend: Backend::Tap, gro: None, has_tx_queue: false }
    }

    /// Creates a port as a run does and removes it again.
    pub(crate) fn try_one(backend: Backend) -> Result<(), Error> {
        let nic = Nic::default();
        let (device, mtu) = ("lf-check", 1500);
        let setup =
            PortSetup { station: 0, device, mtu, addresses: &[], nic: &nic, host: "check", sysctls: &[] };
        Port::open(&setup, backend, &Namespace::new()?, &Namespace::new()?).map(drop)
    }

    /// The descriptor to poll.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Reads one frame. An error of [`is_gone`] is permanent.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<PortRead> {
        match (&self.file).read(buffer) {
            Ok(len) => Ok(PortRead::Frame(len)),
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Ok(PortRead::Empty)
            }
            // The host's device is down.
            Err(e) if e.raw_os_error() == Some(libc::ENETDOWN) => Ok(PortRead::Empty),
            // The kernel has freed the frame (packet_recvmsg, tun_do_read): virtio_net_hdr_from_skb has no
            // type for its GSO.
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => Ok(PortRead::Dropped),
            Err(e) => Err(e),
        }
    }

    /// Writes one frame; false if the host did not accept it.
    pub(crate) fn write(&self, frame: &[u8]) -> bool {
        matches!((&self.file).write(frame), Ok(len) if len == frame.len())
    }

    /// Frames that the packet socket dropped since the last call, which the device's counters do not include.
    pub(crate) fn drops(&self) -> u64 {
        match self.backend {
            Backend::Tap => 0,
            Backend::Packet => sys::packet_drops(&self.file).unwrap_or(0),
        }
    }
}

/// Waits until the kernel has processed the event that a veth device has a carrier (net/core/link_watch.c).
/// From Linux 6.8 on it does so at once when the device's state is requested, otherwise within
/// [`OPERATIONAL_TIMEOUT`].
fn wait_until_operational(device: &str) -> io::Result<()> {
    let netlink = Netlink::open()?;
    let began = Instant::now();
    while !netlink.is_operational(device)? && began.elapsed() < OPERATIONAL_TIMEOUT {
        std::thread::sleep(OPERATIONAL_POLL);
    }
    Ok(())
}

/// Offloads of a host's veth device, by their names in `ethtool -k`, whose super-packets a packet socket of
/// this kernel cannot read (virtio_net_hdr_from_skb in linux/virtio_net.h). Without these offloads the kernel
/// segments before the device.
fn unreadable_offloads(kernel: Option<KernelVersion>) -> &'static [&'static str] {
    match kernel {
        Some(version) if version >= UDP_GSO_READABLE_SINCE => &["tx-sctp-segmentation"],
        _ => &["tx-sctp-segmentation", "tx-udp-segmentation"],
    }
}

/// True for the error of reading a device that its host removed (`ip link del`; tun.c: no device is
/// attached).
pub(crate) fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EBADFD)
}

/// Sets the preferred length of [`QUEUE_LENGTHS`] that the kernel accepts, and returns it. If it accepts
/// none, the device keeps its default: packets dropped there are counted and reported in the run's quality
/// either way.
fn set_longest_queue(mut set: impl FnMut(u32) -> io::Result<()>) -> io::Result<Option<u32>> {
    for packets in QUEUE_LENGTHS {
        match set(packets) {
            Ok(()) => return Ok(Some(packets)),
            Err(e) if is_length_refused(&e) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(None)
}

/// Sets exactly the length of the scenario, because it determines what the host drops.
fn set_exact_queue(
    device: &str,
    packets: u32,
    mut set: impl FnMut(u32) -> io::Result<()>,
) -> Result<(), Error> {
    let source = match set(packets) {
        Err(e) if is_length_refused(&e) => e,
        other => return other.attempted(|| format!("set the transmit queue length of {device}")),
    };
    let max = MAX_QUEUE_LENGTH_OF_NEWER_KERNELS;
    let max = (packets > max && set(max).is_ok()).then_some(max);
    Err(Error::TxQueue { device: device.into(), packets, max, source })
}

/// Whether the kernel rejects this length of a queue; another one may work.
fn is_length_refused(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ERANGE | libc::EINVAL | libc::ENOMEM))
}

fn open_wire(wire: &str, setup: &PortSetup<'_>) -> Result<File, Error> {
    let what = || format!("set up the far end of {}", setup.device);
    // Otherwise the kernel would send neighbour discovery from this namespace through it.
    silence_ipv6(wire);
    let netlink = Netlink::open().attempted(what)?;
    let mut wire_mac = mac(setup.station);
    wire_mac[3] = b'w';
    let index = netlink
        .configure(&DeviceSetup { name: wire, mac: wire_mac, mtu: WIRE_MTU, gso_bytes: None, gso_segs: None })
        .attempted(what)?;
    netlink.bring_up(index).attempted(what)?;
    sys::open_packet(index, PACKET_BUFFER).map_err(no_port("open a packet socket on", wire))
}

fn no_port(attempted: &str, device: &str) -> impl FnOnce(io::Error) -> Error {
    let attempted = format!("{attempted} {device}");
    move |source| Error::NoPort { attempted, source }
}

/// Disables IPv6 on a device, or on devices created later (`default`), so that the kernel sends no router
/// solicitations and the like. These packets are only noise, so a failure is ignored: without IPv6, or with a
/// read-only /proc/sys (containers), nothing is done.
pub(crate) fn silence_ipv6(device: &str) {
    let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{device}/disable_ipv6"), "1");
}

#[cfg(test)]
mod tests {
    use std::{net::UdpSocket, os::fd::AsFd};

    use super::*;
    use crate::frame::{FRAME_BYTES, VNET_HEADER};

    /// A kernel that limits queue lengths, as Linux 6.1.192 and 6.12.117 do.
    struct FakeKernel {
        max: u32,
        errno: i32,
        requested: Vec<u32>,
        length: u32,
    }

    impl FakeKernel {
        fn new(max: u32, errno: i32) -> Self {
            FakeKernel { max, errno, requested: Vec::new(), length: 500 }
        }

        fn set(&mut self, packets: u32) -> io::Result<()> {
            self.requested.push(packets);
            if packets > self.max {
                return Err(io::Error::from_raw_os_error(self.errno));
            }
            self.length = packets;
            Ok(())
        }
    }

    /// The address of a host's device, and the network's broadcast address, which needs no ARP.
    const ADDRESS: &str = "10.0.0.1";
    const BROADCAST: &str = "10.0.0.255:9";

    /// A packet port with [`ADDRESS`], and its host. Without the privilege to create them the test is
    /// skipped.
    fn packet_port() -> Option<(Port, Namespace)> {
        let nic = Nic::default();
        let addresses = &[Cidr { address: ADDRESS.parse().unwrap(), prefix: 24 }];
        let (device, mtu) = ("h1-eth0", 1500);
        let setup = PortSetup { station: 0, device, mtu, addresses, nic: &nic, host: "h1", sysctls: &[] };
        let open = || -> Result<(Port, Namespace), Error> {
            let (host, wires) = (Namespace::new()?, Namespace::new()?);
            host.run(|| {
                silence_ipv6("default");
                Ok(())
            })?;
            Ok((Port::open(&setup, Backend::Packet, &host, &wires)?, host))
        };
        match open() {
            Ok(opened) => Some(opened),
            Err(error @ Error::System { .. }) if error.os_error() != Some(libc::EPERM) => panic!("{error}"),
            Err(error) => {
                testing::skip(testing::Missing::Privilege, error);
                None
            }
        }
    }

    /// Sends one message to [`BROADCAST`], in segments of `segment` bytes if that is not 0.
    fn broadcast(host: &Namespace, bytes: usize, segment: i32) {
        let send = || {
            let socket = UdpSocket::bind((ADDRESS, 0))?;
            socket.set_broadcast(true)?;
            os::set_option(&socket, libc::SOL_UDP, libc::UDP_SEGMENT, segment)?;
            socket.send_to(&vec![0; bytes], BROADCAST)
        };
        assert_eq!(host.run(|| send().attempted(|| "send".into())).unwrap(), bytes);
    }

    /// Headers of a datagram and its frame.
    const HEADERS: usize = VNET_HEADER + 14 + 20 + 8;

    /// Waits for a frame and reads it.
    fn read_next(port: &Port, buffer: &mut [u8]) -> PortRead {
        assert!(os::wait_readable(port.file().as_fd(), Duration::from_secs(30)).unwrap());
        port.read(buffer).unwrap()
    }

    /// The GSO types of the frames that carry a message of `bytes`.
    fn gso_types(port: &Port, bytes: usize) -> Vec<u8> {
        let mut buffer = vec![0; FRAME_BYTES];
        let (mut types, mut received) = (Vec::new(), 0);
        while received < bytes {
            let PortRead::Frame(len) = read_next(port, &mut buffer) else { panic!("after {received} bytes") };
            types.push(buffer[1]);
            received += len - HEADERS;
        }
        types
    }

    #[test]
    fn packet_ports_carry_messages_that_the_kernel_segments() {
        let Some((port, host)) = packet_port() else { return };
        broadcast(&host, 3000, 1000);
        let types = gso_types(&port, 3000);
        // One super-packet (VIRTIO_NET_HDR_GSO_UDP_L4), or three datagrams on older kernels.
        assert!(types == [5] || types == [0, 0, 0], "{types:?}");
        let older = unreadable_offloads(Some(KernelVersion::new(6, 1)));
        host.run(|| {
            DeviceControl::open()
                .and_then(|control| control.turn_off_features("h1-eth0", older))
                .attempted(|| "turn off offloads".into())
        })
        .unwrap();
        broadcast(&host, 3000, 1000);
        assert_eq!(gso_types(&port, 3000), [0, 0, 0], "no super-packet reaches the port");
        assert_eq!(unreadable_offloads(None), older);
        assert_eq!(unreadable_offloads(Some(UDP_GSO_READABLE_SINCE)), ["tx-sctp-segmentation"]);
    }

    /// A buffer without space for the virtio-net header makes the kernel fail as for a frame that the header
    /// cannot describe (packet_rcv_vnet): the kernel has already removed the frame from the queue.
    #[test]
    fn a_frame_that_the_kernel_cannot_describe_is_dropped_and_the_next_is_read() {
        let Some((port, host)) = packet_port() else { return };
        broadcast(&host, 100, 0);
        broadcast(&host, 200, 0);
        assert_eq!(read_next(&port, &mut [0; 4]), PortRead::Dropped);
        let mut buffer = vec![0; FRAME_BYTES];
        assert_eq!(read_next(&port, &mut buffer), PortRead::Frame(HEADERS + 200));
        assert_eq!(port.read(&mut buffer).unwrap(), PortRead::Empty);
    }

    #[test]
    fn the_longest_accepted_queue_is_set() {
        for (max, expected) in [(u32::MAX, 65_536), (32_767, 32_767), (1_000, 500)] {
            let mut kernel = FakeKernel::new(max, libc::ERANGE);
            let set = set_longest_queue(|packets| kernel.set(packets)).unwrap();
            assert_eq!(kernel.length, expected, "max {max}");
            assert_eq!(set, (max >= 32_767).then_some(expected));
        }
    }

    #[test]
    fn errors_other_than_a_rejected_length_are_reported() {
        let mut kernel = FakeKernel::new(0, libc::EPERM);
        let error = set_longest_queue(|packets| kernel.set(packets)).unwrap_err();
        assert_eq!((error.raw_os_error(), kernel.requested.len()), (Some(libc::EPERM), 1));
        let error = set_exact_queue("h1-eth0", 100, |packets| kernel.set(packets)).unwrap_err();
        assert!(matches!(error, Error::System { .. }) && !error.is_missing(), "{error}");
    }

    #[test]
    fn the_queue_of_a_scenario_is_set_exactly_or_rejected() {
        let mut kernel = FakeKernel::new(32_767, libc::ERANGE);
        set_exact_queue("h1-eth0", 20, |packets| kernel.set(packets)).unwrap();
        assert_eq!(kernel.length, 20);
        let error = set_exact_queue("h1-eth0", 100_000, |packets| kernel.set(packets)).unwrap_err();
        assert!(error.is_missing(), "{error}");
        assert_eq!(
            error.to_string(),
            "h1-eth0: this kernel rejects nic.tx_queue = 100000 packets: Numerical result out of range (os error 34); \
             it allows 32767: write tx_queue = 32767 or less, or run it with --engine sim"
        );
        let mut kernel = FakeKernel::new(10, libc::ERANGE);
        let error = set_exact_queue("h1-eth0", 100, |packets| kernel.set(packets)).unwrap_err().to_string();
        assert!(
            error.ends_with("(os error 34); write a smaller tx_queue, or run it with --engine sim"),
            "{error}"
        );
    }
}
