//! udpmon on paths in virtual time, whose times per byte are known.

use crate::virtual_path::{CrossTraffic, PacketSizes, VirtualPath};
use datagrams::Draws;
use net::{
    Destination, DropCause, LossModel, Network, Node, PacketSink, PipeId, PipeSpec, QueueLimit, Rate,
    Topology, test_packet::TestPacket,
};
use probe::{
    GridResult, Interval, Method, ProbeLimits, ReplySize, RequestResponse, RequestResponseResult, Step,
    TrainObservation, UdpmonGrid, UdpmonPlan,
};
use units::{BitRate, Bytes, Instant, Time};

const MAX_RATE: BitRate = BitRate(1_000_000_000);
const IDLE: CrossTraffic = CrossTraffic { load: 0.0, sizes: PacketSizes::One, burst: 1.0 };

fn limits(resolution_ns: f64) -> ProbeLimits {
    ProbeLimits { max_bytes_per_second: MAX_RATE.0 / 8, mtu: 1500, resolution_ns }
}

fn plan() -> UdpmonPlan {
    UdpmonPlan {
        sizes: UdpmonPlan::default_sizes(1500),
        spacings: None,
        packets: 400,
        rounds: 3,
        requests: 10,
        smallest_request: 52,
    }
}

/// Adds the errors of real timestamps to the observations of a method: a delay of 3 us on average, and
/// occasional pauses of the receiver, after which all packets that have arrived get one time.
struct Noisy<M> {
    method: M,
    draws: Draws,
}

impl<M: Method> Method for Noisy<M> {
    type Output = M::Output;

    fn next_step(&mut self) -> Step {
        self.method.next_step()
    }

    fn add_observations(&mut self, observations: &[TrainObservation]) {
        let mut observations = observations.to_vec();
        for observation in &mut observations {
            let mut free_at = i64::MIN;
            for arrived in observation.arrived_ns.iter_mut().flatten() {
                if self.draws.below(400) == 0 {
                    free_at = *arrived + 200_000;
                }
                *arrived =
                    free_at.max(*arrived + self.draws.exponential(Time::from_nanos(3_000)).as_nanos() as i64);
                free_at = free_at.max(*arrived);
            }
        }
        self.method.add_observations(&observations);
    }

    fn result(&self) -> M::Output {
        self.method.result()
    }

    fn progress(&self) -> String {
        self.method.progress()
    }
}

fn grid(link: PipeSpec, cross: CrossTraffic, access: BitRate, seed: u64) -> GridResult {
    // Trains of some milliseconds at every rate.
    let rate = link.rate.mean().map_or(0, |rate| rate.0);
    let plan = UdpmonPlan { packets: 400.max(rate as usize / 500_000), ..plan() };
    let mut path = VirtualPath::new(link, access, cross, MAX_RATE, seed);
    let method = UdpmonGrid::new(plan, limits(20_000.0));
    path.run(&mut Noisy { method, draws: Draws::new(seed, 9) })
}

fn link(rate: u64) -> PipeSpec {
    PipeSpec {
        rate: Rate::Constant(BitRate(rate)),
        delay: Time::from_millis(5),
        overhead: 14,
        queue: QueueLimit::Bytes(Bytes(200_000)),
        ..PipeSpec::default()
    }
}

/// The relative error of the time per byte.
fn error(result: &GridResult, rate: u64) -> f64 {
    let found = result.per_byte_ns.unwrap_or_else(|| panic!("{:?} {:?}", result.bottleneck, result.validity));
    found.value / (8e9 / rate as f64) - 1.0
}

#[test]
fn the_time_per_byte_is_within_two_per_cent() {
    let mut failed = Vec::new();
    for rate in [10_000_000u64, 100_000_000, 622_000_000, 1_000_000_000] {
        for (name, spec) in [
            ("long queue", link(rate)),
            ("20 packets", PipeSpec { queue: QueueLimit::Packets(20), ..link(rate) }),
            ("2 % loss", PipeSpec { loss: LossModel::Independent(0.02), ..link(rate) }),
            ("overhead of 38", PipeSpec { overhead: 38, ..link(rate) }),
            ("token bucket", PipeSpec { burst: Some(Bytes(40_000)), ..link(rate) }),
        ] {
            let result = grid(spec, IDLE, BitRate(rate * 10), rate);
            let relative_error = error(&result, rate);
            let overhead = result.overhead_bytes.unwrap();
            println!(
                "{} Mb/s, {name}: {:+.2} %, {overhead:.1} bytes, {:?}",
                rate / 1_000_000,
                relative_error * 100.0,
                result.validity
            );
            if relative_error.abs() > 0.02 || !result.validity.valid {
                failed.push((rate, name, relative_error, result.bottleneck, result.validity));
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

/// Without errors of timestamps the overhead is exact too.
#[test]
fn the_time_per_packet_gives_the_overhead_of_the_wire() {
    for overhead in [0, 14, 38] {
        let spec = PipeSpec { overhead, ..link(100_000_000) };
        let mut path = VirtualPath::new(spec, BitRate(1_000_000_000), IDLE, MAX_RATE, 1);
        let result = path.run(&mut UdpmonGrid::new(plan(), limits(100.0)));
        assert!(error(&result, 100_000_000).abs() < 0.001, "{:?}", result.bottleneck);
        assert!((result.overhead_bytes.unwrap() - f64::from(overhead)).abs() < 1.0, "{result:?}");
        assert_eq!(result.spacings_us.len(), 7);
        // The grid shows where the bottleneck is: all sizes are saturated back to back, none at twice the
        // time of the largest packet.
        let (first, last) = (&result.cells[..6], &result.cells[36..]);
        assert!(first.iter().all(|cell| cell.is_saturated && cell.trains == 3), "{first:?}");
        assert!(last.iter().all(|cell| !cell.is_saturated && cell.lost == 0), "{last:?}");
        let widest = last[5].clone();
        assert!((widest.received_bps.unwrap() / widest.sent_bps.unwrap() - 1.0).abs() < 1e-3, "{widest:?}");
        // Back to back 1500 bytes overflow the queue of 200 kB, and the rate received is that of the link.
        assert!(first[5].lost > 100, "{:?}", first[5]);
        let received = first[5].received_bps.unwrap() * (1500.0 + f64::from(overhead)) / 1500.0;
        assert!((received / 100e6 - 1.0).abs() < 0.01, "{received}");
    }
}

/// Other traffic lengthens the spacings, and the result is marked.
#[test]
fn a_shared_bottleneck_is_inconclusive() {
    for (seed, load) in [0.3, 0.3, 0.5, 0.7].into_iter().enumerate() {
        let cross = CrossTraffic { load, sizes: PacketSizes::One, burst: 1.0 };
        let result = grid(link(100_000_000), cross, BitRate(1_000_000_000), seed as u64);
        let relative_error = error(&result, 100_000_000);
        println!("load {load}: {:+.1} %, {:?}", relative_error * 100.0, result.validity);
        let is_named = result.validity.reasons.iter().any(|reason| reason.contains("other traffic"));
        assert!(is_named && !result.validity.valid, "{:?}", result.validity);
        assert!((0.0..0.5).contains(&relative_error), "{relative_error}");
    }
}

/// A host that needs 10 us for each packet hides a link of 1 Gb/s from small packets, and not from large
/// ones.
#[test]
fn sizes_that_a_host_limits_are_excluded() {
    struct SlowHost(UdpmonGrid);
    impl Method for SlowHost {
        type Output = GridResult;
        fn next_step(&mut self) -> Step {
            self.0.next_step()
        }
        fn add_observations(&mut self, observations: &[TrainObservation]) {
            let mut observations = observations.to_vec();
            for observation in &mut observations {
                let mut free_at = i64::MIN;
                for arrived in observation.arrived_ns.iter_mut().flatten() {
                    free_at = free_at.saturating_add(5_000).max(*arrived);
                    *arrived = free_at;
                }
            }
            self.0.add_observations(&observations);
        }
        fn result(&self) -> GridResult {
            self.0.result()
        }
        fn progress(&self) -> String {
            self.0.progress()
        }
    }
    let mut path = VirtualPath::new(link(1_000_000_000), BitRate(10_000_000_000), IDLE, MAX_RATE, 1);
    let result = path.run(&mut SlowHost(UdpmonGrid::new(plan(), limits(100.0))));
    let used: Vec<bool> = result.bottleneck.iter().map(|point| point.is_used).collect();
    assert_eq!(used, [false, false, true, true, true, true], "{:?}", result.bottleneck);
    assert!(error(&result, 1_000_000_000).abs() < 0.005, "{:?}", result.bottleneck);
}

#[test]
fn a_path_faster_than_the_host_gives_no_time_per_byte() {
    let mut path = VirtualPath::new(PipeSpec::default(), BitRate(100_000_000_000), IDLE, MAX_RATE, 1);
    let given =
        UdpmonPlan { spacings: Some(vec![Time::from_nanos(20_000), Time::from_nanos(50_000)]), ..plan() };
    let result = path.run(&mut UdpmonGrid::new(given, limits(100.0)));
    assert_eq!((result.per_byte_ns, result.validity.valid), (None, false));
    assert_eq!(result.cells.len(), 12);
    assert_eq!(result.spacings_us, [20.0, 50.0]);
}

#[test]
fn on_a_path_that_delivers_nothing_the_grid_ends_after_the_first_row() {
    let spec = PipeSpec { loss: LossModel::Independent(1.0), ..link(100_000_000) };
    let result = grid(spec, IDLE, BitRate(1_000_000_000), 1);
    assert_eq!((result.cells.len(), result.cells[0].lost), (6, 400));
    assert_eq!(result.validity.reasons, ["no packet arrived"]);
}

/// A client and a server with links of 100 and 200 Mb/s between them, and 50 Mb/s back.
fn latency(packets_lost: f64) -> RequestResponseResult {
    let mut topology = Topology::new(2, 2);
    let ideal = PipeSpec::default;
    let spec = |rate: u64| PipeSpec {
        rate: Rate::Constant(BitRate(rate)),
        delay: Time::from_millis(3),
        overhead: 14,
        ..PipeSpec::default()
    };
    let lossy = PipeSpec { loss: LossModel::Independent(packets_lost), ..spec(100_000_000) };
    topology.add_link(Node::Host(0), Node::Switch(0), lossy, spec(50_000_000));
    topology.add_link(Node::Switch(0), Node::Switch(1), spec(200_000_000), ideal());
    topology.add_link(Node::Switch(1), Node::Host(1), ideal(), ideal());
    let mut network: Network<TestPacket> = topology.build(1).unwrap();
    let mut requests = RequestResponse::new(&plan(), limits(100.0), Some(121.0));
    let mut now = Instant::ZERO;
    while let Some(next) = requests.next_train() {
        let mut ends = Ends::default();
        let begin = now;
        let mut trips = vec![None; next.train.offsets_ns.len()];
        let mut sent = next.train.offsets_ns.iter().enumerate().peekable();
        loop {
            // Replies leave when their requests arrive.
            for (station, at, packet) in std::mem::take(&mut ends.arrived) {
                let number = packet.first as usize;
                let left = begin.as_nanos() + next.train.offsets_ns[number];
                match station {
                    0 => trips[number] = Some((at.as_nanos() - left) as f64),
                    _ => {
                        let bytes = if next.replies == ReplySize::Request { packet.bytes } else { 52 };
                        let reply = TestPacket::single(packet.first, bytes);
                        network.send(1, at, Destination::Station(0), reply, &mut ends);
                    }
                }
            }
            let due = sent.peek().map(|(_, offset)| begin.as_nanos() + **offset);
            let Some(next_event) = network.next_event().map(|at| at.as_nanos()).into_iter().chain(due).min()
            else {
                break;
            };
            now = Instant::from_nanos(next_event);
            network.run_until(now, &mut ends);
            if due == Some(next_event) {
                let (number, _) = sent.next().unwrap();
                let packet = TestPacket::single(number as u64, next.train.bytes);
                network.send(0, now, Destination::Station(1), packet, &mut ends);
            }
        }
        requests.add_round_trips(&trips);
    }
    requests.result()
}

#[derive(Default)]
struct Ends {
    arrived: Vec<(u32, Instant, TestPacket)>,
}

impl PacketSink<TestPacket> for Ends {
    fn deliver(&mut self, station: u32, at: Instant, packet: TestPacket) {
        self.arrived.push((station, at, packet));
    }
    fn drop(&mut self, _pipe: PipeId, _at: Instant, _cause: DropCause, _packet: TestPacket) {}
}

#[test]
fn latency_grows_with_the_size_by_the_time_per_byte_of_all_links() {
    for lost in [0.0, 0.3] {
        let result = latency(lost);
        let holds = |found: Interval, value: f64| (found.value / value - 1.0).abs() < 0.001;
        // 80 and 40 ns per byte forward, 160 backward.
        assert!(holds(result.forward.unwrap().per_byte_ns, 120.0), "{result:?}");
        assert!(holds(result.round_trip.unwrap().per_byte_ns, 280.0), "{result:?}");
        assert!(holds(result.backward_per_byte_ns.unwrap(), 160.0), "{result:?}");
        // 6 ms forward, 3 ms back, and 14 bytes of each packet on each link.
        let intercept = result.round_trip.unwrap().intercept_us.value;
        assert!((intercept - 9000.0 - 14.0 * 0.28).abs() < 0.5, "{intercept}");
        assert!(result.validity.valid);
    }
}
