//! Real-time streams over paths in virtual time.

use bulk::stream::{NUMBER_BYTES, Parameters, Receiver, Sender};
use units::{BitRate, Bytes, Instant, Time};

use crate::common::{End, Path, Simulation};

struct StreamSender(Sender, u32);

impl End for StreamSender {
    fn handle_datagram(&mut self, now: Instant, bytes: &[u8]) {
        self.0.handle_datagram(now, bytes);
    }
    fn next_timeout(&self) -> Instant {
        self.0.next_timeout()
    }
    fn handle_timeout(&mut self, _now: Instant) {}
    fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        let Some(number) = self.0.poll_transmit(now) else { return false };
        out.extend_from_slice(&number.to_be_bytes());
        out.resize(NUMBER_BYTES + self.1 as usize, 0);
        true
    }
}

struct StreamReceiver(Receiver);

impl End for StreamReceiver {
    fn handle_datagram(&mut self, now: Instant, bytes: &[u8]) {
        self.0.handle_datagram(now, bytes);
    }
    fn next_timeout(&self) -> Instant {
        self.0.next_timeout()
    }
    fn handle_timeout(&mut self, now: Instant) {
        self.0.handle_timeout(now);
    }
    fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        self.0.poll_transmit(now, out)
    }
}

/// 10,000 packets of 80 Mb/s over 50 ms with losses; the share in time, and the receiver.
fn stream(deadline: Time, repairs: bool, loss: f64, rate: BitRate) -> (f64, Receiver) {
    let parameters = Parameters {
        rate: BitRate(80_000_000),
        payload_bytes: 1000,
        deadline,
        repairs,
        packets: Some(10_000),
        vdif: None,
    };
    let path = Path { rate, rtt: Time::from_millis(50), loss, return_loss: loss, queue: Bytes(100_000) };
    let sender = StreamSender(Sender::new(parameters), 1000);
    let mut simulation = Simulation::new(&path, sender, StreamReceiver(Receiver::new(parameters)), 1);
    let is_over = simulation.run(Instant::from_secs(60), |_, receiver| receiver.0.is_over());
    assert!(is_over);
    let counts = simulation.b.0.counts();
    println!("{counts:?} {:?}", simulation.a.0.statistics());
    assert_eq!(counts.due, 10_000);
    (counts.in_time as f64 / counts.due as f64, simulation.b.0)
}

const ROOMY: BitRate = BitRate(100_000_000);

#[test]
fn without_losses_all_packets_arrive_in_time() {
    let (share, receiver) = stream(Time::from_millis(20), false, 0.0, ROOMY);
    assert_eq!((share, receiver.counts().gaps), (1.0, [0; 4]));
}

#[test]
fn losses_are_gaps_unless_they_are_repaired_before_the_deadline() {
    let (lossy, receiver) = stream(Time::from_millis(200), false, 0.01, ROOMY);
    assert!((0.985..0.994).contains(&lossy), "{lossy}");
    assert!(receiver.counts().gaps[0] > 70, "{:?}", receiver.counts());
    let (repaired, receiver) = stream(Time::from_millis(400), true, 0.01, ROOMY);
    // The loss of the last packet is not detected, because no other packet follows.
    assert!(repaired >= 0.9999, "{repaired} {:?}", receiver.counts());
    assert!((50..60).contains(&receiver.min_rtt().unwrap().as_millis()), "{:?}", receiver.min_rtt());
    // A retransmission needs a round trip of 50 ms.
    let (too_late, _) = stream(Time::from_millis(30), true, 0.01, ROOMY);
    assert!((0.985..0.994).contains(&too_late), "{too_late}");
}

#[test]
fn a_path_that_is_too_slow_loses_the_excess() {
    let (share, receiver) = stream(Time::from_millis(50), false, 0.0, BitRate(60_000_000));
    // 1000 of 1036 bytes and more are payload.
    assert!((0.68..0.76).contains(&share), "{share}");
    assert!(receiver.counts().gaps.iter().sum::<u64>() > 100);
}

proptest::proptest! {
    /// Any datagrams: no panic, and few requests.
    #[test]
    fn hostile_datagrams_cause_a_limited_number_of_replies(
        datagrams in proptest::collection::vec((proptest::prelude::any::<u64>(), 0usize..40), 1..60),
        repairs in proptest::prelude::any::<bool>(),
    ) {
        let parameters = Parameters {
            rate: BitRate(8_000_000),
            payload_bytes: 8,
            deadline: Time::from_millis(100),
            repairs,
            packets: None,
        vdif: None,
        };
        let (mut sender, mut receiver) = (Sender::new(parameters), Receiver::new(parameters));
        let (mut now, mut sent) = (Instant::ZERO, 0);
        for (number, length) in datagrams {
            now += Time::from_millis(3);
            let mut bytes = (number >> (number % 64)).to_be_bytes().to_vec();
            bytes.resize(length, 0xff);
            receiver.handle_datagram(now, &bytes);
            sender.handle_datagram(now, &bytes);
            receiver.handle_timeout(now);
            let mut out = Vec::new();
            while receiver.poll_transmit(now, &mut out) {
                sent += out.len();
                out.clear();
            }
            while sender.poll_transmit(now).is_some() {}
        }
        proptest::prop_assert!(sent < 60 * 1400, "{}", sent);
    }
}
