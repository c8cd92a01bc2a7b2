//! The server of a queue, which determines when segments depart: at once, at a rate, with a token bucket, or
//! with a trace.

use std::sync::Arc;

use units::{Instant, Time};

use crate::{OPPORTUNITY_BYTES, PipeSpec, Rate, RateTrace, fixed::Fixed};

/// Serves one segment after the other.
#[derive(Debug, Clone)]
pub(crate) enum Server {
    Unlimited,
    Constant {
        per_byte: Fixed,
    },
    /// A segment leaves as soon as the bucket has tokens for it; `full_at` is when the bucket would be full.
    Bucket {
        per_byte: Fixed,
        depth: Fixed,
        full_at: Fixed,
    },
    Steps {
        trace: Arc<RateTrace>,
    },
    /// `left` bytes of the opportunity number `index`, counted over all periods, are unused.
    Opportunities {
        trace: Arc<RateTrace>,
        index: u64,
        left: u64,
    },
}

impl Server {
    pub(crate) fn new(spec: &PipeSpec) -> Self {
        match (&spec.rate, spec.burst) {
            (Rate::Unlimited, _) => Server::Unlimited,
            (Rate::Constant(rate), None) => Server::Constant { per_byte: Fixed::per_byte(*rate) },
            (Rate::Constant(rate), Some(burst)) => {
                let per_byte = Fixed::per_byte(*rate);
                Server::Bucket { per_byte, depth: per_byte * burst.0, full_at: Fixed::ZERO }
            }
            (Rate::Trace(trace), _) => match **trace {
                RateTrace::Steps { .. } => Server::Steps { trace: trace.clone() },
                RateTrace::Opportunities(_) => {
                    Server::Opportunities { trace: trace.clone(), index: 0, left: OPPORTUNITY_BYTES }
                }
            },
        }
    }

    /// The server for a changed specification from `now` on. A bucket keeps its tokens, up to the new size.
    pub(crate) fn changed(&self, spec: &PipeSpec, now: Fixed) -> Self {
        let mut next = Server::new(spec);
        if let (
            Server::Bucket { per_byte: old_byte, depth: old_depth, full_at: old_full },
            Server::Bucket { per_byte, depth, full_at },
        ) = (self, &mut next)
        {
            let missing = old_full.saturating_sub(now).count_up(*old_byte);
            let old_tokens = old_depth.count(*old_byte) as i128 - i128::from(missing);
            let new_depth = depth.count(*per_byte) as i128;
            let missing = u64::try_from((new_depth - old_tokens).max(0)).unwrap_or(u64::MAX);
            *full_at = now + *per_byte * missing;
        }
        next
    }

    /// Serves a segment of `bytes` from `start` on and returns its departure. Called once for each segment.
    pub(crate) fn serve(&mut self, start: Fixed, bytes: u64) -> Fixed {
        match self {
            Server::Unlimited => start,
            Server::Constant { per_byte } => start + *per_byte * bytes,
            Server::Bucket { per_byte, depth, full_at } => {
                let cost = *per_byte * bytes;
                let departs = start.max((*full_at + cost).saturating_sub(*depth));
                *full_at = (*full_at).max(departs) + cost;
                departs
            }
            Server::Steps { trace } => after_steps(trace, start, bytes),
            Server::Opportunities { trace, index, left } => {
                let RateTrace::Opportunities(at) = &**trace else { return start };
                let first = first_at_or_after(at, start);
                if first > *index {
                    (*index, *left) = (first, OPPORTUNITY_BYTES);
                }
                if bytes > *left {
                    let more = (bytes - *left - 1) / OPPORTUNITY_BYTES;
                    let last = bytes - *left - more * OPPORTUNITY_BYTES;
                    *index += 1 + more;
                    *left = OPPORTUNITY_BYTES - last;
                } else {
                    *left -= bytes;
                }
                instant_of(at, *index).max(start)
            }
        }
    }

    /// Whether a segment may leave at the instant of its arrival. Then it is not in the queue that the next
    /// one finds.
    pub(crate) fn may_send_at_once(&self) -> bool {
        !matches!(self, Server::Constant { .. } | Server::Steps { .. })
    }

    /// Sets a bucket's clock to that of another pipe.
    pub(crate) fn set_clock(&mut self, clock: Fixed) {
        if let Server::Bucket { full_at, .. } = self {
            *full_at = clock;
        }
    }

    /// Interrupts the service of a segment of `bytes` that would depart at `departs`. Returns the bytes that
    /// have not left at `now`. These are served again later, so their tokens return to the bucket.
    pub(crate) fn interrupt(&mut self, bytes: u64, departs: Fixed, now: Fixed) -> u64 {
        let remaining = match self {
            Server::Unlimited => 0,
            Server::Constant { per_byte } => departs.saturating_sub(now).count_up(*per_byte),
            Server::Bucket { per_byte, full_at, .. } => {
                *full_at = full_at.saturating_sub(*per_byte * bytes);
                bytes
            }
            Server::Steps { trace } => bytes_of_steps(trace, now, departs),
            Server::Opportunities { trace, .. } => {
                let RateTrace::Opportunities(at) = &**trace else { return bytes };
                let just_after = now + Fixed::from_raw(1);
                let count = first_at_or_after(at, departs).saturating_sub(first_at_or_after(at, just_after));
                (count + 1).saturating_mul(OPPORTUNITY_BYTES)
            }
        };
        remaining.min(bytes)
    }
}

/// The number of the first opportunity not before `start`, counted over all periods.
fn first_at_or_after(at: &[u64], start: Fixed) -> u64 {
    let period = at.last().copied().unwrap_or(1).max(1);
    let count = at.len() as u64;
    let ms = start.ceil().as_nanos().div_ceil(1_000_000);
    let (periods, within) = (ms / period, ms % period);
    if within == 0 && periods > 0 {
        // The last opportunities of a period and those at 0 of the next are at the same instant.
        return (periods - 1) * count + at.partition_point(|at| *at < period) as u64;
    }
    periods * count + at.partition_point(|at| *at < within) as u64
}

/// The instant of an opportunity.
fn instant_of(at: &[u64], index: u64) -> Fixed {
    let period = at.last().copied().unwrap_or(1).max(1);
    let count = (at.len() as u64).max(1);
    let within = at.get((index % count) as usize).copied().unwrap_or(period);
    let ms = (index / count).saturating_mul(period).saturating_add(within);
    Fixed::from(Instant::from_millis(ms))
}

/// The work to send `bytes`: bits times nanoseconds per second, in the scale of [`Fixed`].
fn work(bytes: u64) -> u128 {
    Fixed::from(Time::from_secs(8)).raw() * u128::from(bytes)
}

/// The work that `rate` (bit/s) does in `span`.
fn work_of(rate: u64, span: Fixed) -> u128 {
    u128::from(rate).saturating_mul(span.raw())
}

/// The rate at `at`, and the instant of the next step.
fn step(trace: &RateTrace, at: Fixed) -> Option<(u64, Fixed)> {
    let RateTrace::Steps { steps, end } = trace else { return None };
    let period = Fixed::from(*end).raw().max(1);
    let (begins, within) = (at.raw() / period * period, at.raw() % period);
    let next = steps.partition_point(|step| Fixed::from(step.0).raw() <= within);
    let rate = steps.get(next.checked_sub(1)?)?.1;
    let until = steps.get(next).map_or(period, |step| Fixed::from(step.0).raw());
    Some((rate.0, Fixed::from_raw(begins + until)))
}

/// The departure of `bytes` whose transmission starts at `start`.
fn after_steps(trace: &RateTrace, start: Fixed, bytes: u64) -> Fixed {
    let RateTrace::Steps { end, .. } = trace else { return start };
    let (mut at, mut left) = (start, work(bytes));
    let period = Fixed::from(*end);
    // If the current step is not enough, skip whole periods in one step.
    if step(trace, at).is_some_and(|(rate, until)| left > work_of(rate, until.saturating_sub(at))) {
        let whole = work_of_period(trace);
        let Some(periods) = left.checked_div(whole) else { return Fixed::from(Instant::NEVER) };
        at = Fixed::from_raw(at.raw().saturating_add(period.raw().saturating_mul(periods)));
        left -= whole * periods;
        if at >= Fixed::from(Instant::NEVER) {
            return Fixed::from(Instant::NEVER);
        }
    }
    while let Some((rate, until)) = step(trace, at) {
        let possible = work_of(rate, until.saturating_sub(at));
        if left <= possible {
            return if left == 0 { at } else { at + Fixed::from_raw(left.div_ceil(u128::from(rate.max(1)))) };
        }
        left -= possible;
        at = until;
    }
    at
}

/// The work of one period.
fn work_of_period(trace: &RateTrace) -> u128 {
    let RateTrace::Steps { steps, end } = trace else { return 0 };
    let ends = steps.iter().skip(1).map(|step| step.0).chain([*end]);
    steps
        .iter()
        .zip(ends)
        .map(|((from, rate), to)| u128::from(rate.0) * Fixed::from(to.saturating_sub(*from)).raw())
        .fold(0, u128::saturating_add)
}

/// The bytes that leave between two instants, rounded up.
fn bytes_of_steps(trace: &RateTrace, from: Fixed, to: Fixed) -> u64 {
    let (mut at, mut sum) = (from, 0u128);
    while at < to {
        let Some((rate, until)) = step(trace, at) else { break };
        let until = until.min(to);
        sum = sum.saturating_add(work_of(rate, until.saturating_sub(at)));
        at = until;
    }
    u64::try_from(sum.div_ceil(work(1))).unwrap_or(u64::MAX)
}
