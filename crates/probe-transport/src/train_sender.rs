//! Sends one train: each packet at its instant, packets that are due together in one call.

use os::{monotonic_ns, realtime_ns};
use probe::Train;
use socket2::Socket;
use traffic::{
    Attempted, Error, Stop,
    udp::{Batch, NumberWidth, PreciseTimer, SpinPolicy},
};

use super::wire::packet_number;

/// How long to wait when the device's queue is full, ns.
const QUEUE_FULL_PAUSE_NS: u64 = 20_000;
/// After this time with a full queue a packet counts as lost at this host, ns.
const QUEUE_FULL_TIMEOUT_NS: u64 = 100_000_000;

/// When each packet was passed to the kernel.
#[derive(Debug, Default)]
pub(super) struct SentTrain {
    /// ns since 1970.
    pub(super) sent_ns: Vec<i64>,
    /// Number of packets that this host could not send.
    pub(super) refused: u64,
}

/// Sends the train number `number` on a connected socket; `headers` is the size of the IP and UDP headers of
/// a packet.
pub(super) fn send_train(
    socket: &Socket,
    train: &Train,
    number: u32,
    headers: u32,
    stop: &Stop,
) -> Result<SentTrain, Error> {
    let block = train.bytes.saturating_sub(headers) as usize;
    let mut batch = Batch::new(socket, block, NumberWidth::Bits64);
    let mut timer = PreciseTimer::new(SpinPolicy::AsNeeded);
    let mut sent = SentTrain { sent_ns: Vec::with_capacity(train.offsets_ns.len()), refused: 0 };
    let begin = monotonic_ns() + 1_000_000;
    let mut next = 0;
    while next < train.offsets_ns.len() && !stop.is_set() {
        let now = timer.wait(begin + train.offsets_ns[next], stop);
        let due = train.offsets_ns[next..]
            .iter()
            .take(batch.capacity())
            .take_while(|at| begin + **at <= now)
            .count();
        let now = realtime_ns();
        let accepted = send(&mut batch, socket, packet_number(number, next as u32), due.max(1), block, now)?;
        sent.refused += u64::from(!accepted.1);
        sent.sent_ns.extend(std::iter::repeat_n(now, accepted.0));
        next += accepted.0;
    }
    Ok(sent)
}

/// Returns how many packets were sent, and true; or 1 and false if the device's queue stays full and the
/// first is skipped.
fn send(
    batch: &mut Batch,
    socket: &Socket,
    first: u64,
    count: usize,
    block: usize,
    now: i64,
) -> Result<(usize, bool), Error> {
    let until = monotonic_ns() + QUEUE_FULL_TIMEOUT_NS;
    loop {
        match batch.send(socket, first, count, block, now) {
            Ok(accepted) => return Ok((accepted, true)),
            Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => {
                if monotonic_ns() > until {
                    return Ok((1, false));
                }
                std::thread::sleep(std::time::Duration::from_nanos(QUEUE_FULL_PAUSE_NS));
            }
            // The ICMP message about an earlier packet, reported once: this packet was not sent.
            Err(e)
                if matches!(e.raw_os_error(), Some(libc::ECONNREFUSED | libc::EMSGSIZE))
                    && monotonic_ns() < until => {}
            Err(e) => return Err(e).attempted(|| "send a train".into()),
        }
    }
}
