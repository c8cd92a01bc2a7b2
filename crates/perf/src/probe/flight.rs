//! Sends one train: each packet at its instant, those that are due together in one call.

use probe::Train;
use socket2::Socket;

use super::wire::packet_number;
use crate::{
    Error, Stop,
    error::Attempted,
    udp::{
        Numbers, Watch,
        alarm::Alarm,
        batch::Batch,
        sys::{monotonic_ns, realtime_ns},
    },
};

/// How long to wait where the device's queue is full, ns.
const FULL_NAP: u64 = 20_000;
/// For how long, ns: then a packet counts as lost here.
const MOST_FULL: u64 = 100_000_000;

/// When each packet was handed to the kernel.
#[derive(Debug, Default)]
pub(super) struct Flown {
    /// ns since 1970.
    pub(super) sent_ns: Vec<i64>,
    /// This host had no room for some.
    pub(super) refused: u64,
}

/// Sends the train number `number` on a connected socket; `headers` are the bytes that IP and UDP take of each packet.
pub(super) fn fly(
    socket: &Socket,
    train: &Train,
    number: u32,
    headers: u32,
    stop: &Stop,
) -> Result<Flown, Error> {
    let block = train.bytes.saturating_sub(headers) as usize;
    let mut batch = Batch::new(socket, block, Numbers::Bits64);
    let mut alarm = Alarm::new(Watch::AsNeeded);
    let mut flown = Flown { sent_ns: Vec::with_capacity(train.at_ns.len()), refused: 0 };
    let begin = monotonic_ns() + 1_000_000;
    let mut next = 0;
    while next < train.at_ns.len() && !stop.is_set() {
        let now = alarm.wait(begin + train.at_ns[next], stop);
        let due = train.at_ns[next..].iter().take(batch.room()).take_while(|at| begin + **at <= now).count();
        let now = realtime_ns();
        let went = send(&mut batch, socket, packet_number(number, next as u32), due.max(1), block, now)?;
        flown.refused += u64::from(!went.1);
        flown.sent_ns.extend(std::iter::repeat_n(now, went.0));
        next += went.0;
    }
    Ok(flown)
}

/// How many went, and whether they really did: where the device's queue stays full the first is given up.
fn send(
    batch: &mut Batch,
    socket: &Socket,
    first: u64,
    count: usize,
    block: usize,
    now: i64,
) -> Result<(usize, bool), Error> {
    let until = monotonic_ns() + MOST_FULL;
    loop {
        match batch.send(socket, first, count, block, now) {
            Ok(went) => return Ok((went, true)),
            Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => {
                if monotonic_ns() > until {
                    return Ok((1, false));
                }
                std::thread::sleep(std::time::Duration::from_nanos(FULL_NAP));
            }
            // An earlier datagram's answer by ICMP, which is told once: this one was not sent.
            Err(e)
                if matches!(e.raw_os_error(), Some(libc::ECONNREFUSED | libc::EMSGSIZE))
                    && monotonic_ns() < until => {}
            Err(e) => return Err(e).attempted(|| "cannot send a train".into()),
        }
    }
}
