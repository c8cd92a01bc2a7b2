//! From what a host is and what it is to be good for to what should be changed. Pure.
//!
//! Sources: fasterdata.es.net (host tuning, 2025), perfSONAR's configure_sysctl (2025), net/ipv4/tcp*.c of Linux 6.18,
//! RFC 7323; the University of South Carolina's Lab 8 for twice the bandwidth-delay product.

use model::{LEARNT_WINDOW_SHARE, MAX_WINDOW, bdp_f64, round_up_mib};
use units::{Bytes, group_digits};

use crate::{
    advice::{Advice, Goal, Item, Refusal, State, Target},
    advise_devices,
    facts::{HostFacts, Reading},
};

/// The largest value of an int, which these sysctls are.
const INT_MAX: u64 = i32::MAX as u64;
const PAGE_BYTES: u64 = 4096;
/// The first and second values of `tcp_rmem` and `tcp_wmem` where nobody changed them (tcp(7)): the smallest buffer under memory pressure,
/// and the one that a connection begins with.
const SMALLEST_BUFFER: u64 = PAGE_BYTES;
const FIRST_RECEIVE_BUFFER: u64 = 131_072;
const FIRST_SEND_BUFFER: u64 = 16_384;
/// What `net.core.netdev_max_backlog` is where nobody changed it.
const BACKLOG: i64 = 1000;
/// Soft interrupts that run out of budget once in so many packets are too many.
const SQUEEZED_PER_PACKET: f64 = 1e-4;

const FASTERDATA: &str = "fasterdata.es.net, host tuning (2025)";
const LAB_8: &str = "twice the BDP: University of South Carolina, Lab 8; net/ipv4/tcp_input.c";

/// What should be changed on `host` for `goal`; where no value could work, why not.
pub fn advise(host: &HostFacts, goal: &Goal) -> Result<Advice, Refusal> {
    let bdp = bdp_f64(goal.rate, goal.rtt);
    let share = share(goal.streams);
    let buffer = buffer(bdp, share)?;
    let memory = 2 * buffer.0.saturating_mul(u64::from(goal.streams));
    if let Some(available) = host.memory_bytes.known().copied().filter(|available| memory > available / 2) {
        let (needed, memory) = (Bytes(memory), Bytes(available));
        return Err(Refusal::Memory { needed, memory, streams: goal.streams });
    }
    let maker = Maker { host, goal };
    let mut items = Vec::new();
    maker.buffers(bdp, buffer, &mut items);
    maker.machine_memory(memory, &mut items);
    maker.switches(&mut items);
    maker.queues(&mut items);
    advise_devices::advise(host, goal, &mut items);
    Ok(Advice { bdp_bytes: bdp as u64, buffer_bytes: buffer.0, memory_bytes: memory, items })
}

/// The part of the rate that one of `streams` connections may come to have: they do not share evenly, so twice its share.
fn share(streams: u32) -> f64 {
    (2.0 / f64::from(streams.max(1))).min(1.0)
}

/// The buffer of one connection: room for twice what it may have on the way.
fn buffer(bdp: f64, share: f64) -> Result<Bytes, Refusal> {
    let window = bdp * share;
    if window > MAX_WINDOW.as_f64() {
        // A connection may come to have two shares.
        let streams = (2.0 * bdp / MAX_WINDOW.as_f64()).ceil() as u32;
        return Err(Refusal::Window { needed: Bytes(window as u64), streams });
    }
    // Twice the largest window is one more than the largest int.
    Ok(round_up_mib(2.0 * window).clamp(Bytes(1 << 20), Bytes(INT_MAX)))
}

struct Maker<'a> {
    host: &'a HostFacts,
    goal: &'a Goal,
}

impl Maker<'_> {
    /// How far socket buffers may grow.
    fn buffers(&self, bdp: f64, buffer: Bytes, items: &mut Vec<Item>) {
        let streams = u64::from(self.goal.streams);
        let learnt = self.host.version().is_none_or(|version| version >= LEARNT_WINDOW_SHARE);
        let window = match learnt {
            true => {
                "from Linux 6.6 on the share of the buffer that is offered as window is learnt from the packets, mostly 60 to 85 %"
            }
            false => "this kernel offers half of the buffer as window",
        };
        let of_bdp = format!("the path holds {} ({} x {})", Bytes(bdp as u64), self.goal.rate, self.goal.rtt);
        let most = |name: &str, least_first: u64, reason: String, items: &mut Vec<Item>| {
            let Some([least, first, largest]) = self.host.triple(name) else {
                items.extend(self.unreadable(name, &buffer.0.to_string(), reason, LAB_8));
                return;
            };
            let (least, first) = (least.max(SMALLEST_BUFFER), first.max(least_first));
            let keep = largest >= buffer.0 && !self.goal.lower;
            let value = if keep { largest } else { buffer.0.max(first) };
            let mut item = self.sysctl(name, &format!("{least} {first} {value}"), reason, LAB_8);
            if keep && largest > buffer.0 && item.state == State::Fine {
                item.state = State::Better;
            }
            item.memory_bytes = Some(value.saturating_mul(streams));
            items.push(item);
        };
        let reason = format!("{of_bdp}; {window}, and data piles up behind a lost segment for a round trip");
        most("net.ipv4.tcp_rmem", FIRST_RECEIVE_BUFFER, reason, items);
        let reason = format!(
            "{of_bdp}; a writer is woken when a third of the buffer is free, so two thirds may be all that is in flight"
        );
        most("net.ipv4.tcp_wmem", FIRST_SEND_BUFFER, reason, items);
        for name in ["net.core.rmem_max", "net.core.wmem_max"] {
            let reason = "programs that ask for a buffer themselves (SO_RCVBUF, SO_SNDBUF) get no more than this, doubled; \
                          buffers that the kernel tunes are not bound by it";
            items.extend(self.at_least(name, buffer.0 as i64, reason.into(), FASTERDATA));
        }
    }

    /// All TCP's memory, in pages: above the second value buffers stop to grow (net/ipv4/tcp_input.c, tcp_under_memory_pressure).
    fn machine_memory(&self, memory: u64, items: &mut Vec<Item>) {
        let name = "net.ipv4.tcp_mem";
        let Some([low, pressure, high]) = self.host.triple(name) else { return };
        let needed = memory.div_ceil(PAGE_BYTES);
        if needed <= pressure {
            return;
        }
        let reason = format!(
            "all connections' buffers may come to {}, and above {} pages of {PAGE_BYTES} bytes the kernel lets none grow",
            Bytes(memory),
            group_digits(pressure)
        );
        let value = format!("{} {needed} {}", low.max(needed * 3 / 4), high.max(needed * 3 / 2));
        items.push(Item { memory_bytes: Some(memory), ..self.sysctl(name, &value, reason, "tcp(7)") });
    }

    /// What TCP needs to be on, or off.
    fn switches(&self, items: &mut Vec<Item>) {
        let mut exactly = |name: &str, value: &str, reason: &str, source| {
            items.extend(self.exactly(name, value, reason.into(), source));
        };
        let scaling = "without it no window is larger than 65,535 bytes, whatever the buffers are";
        exactly("net.ipv4.tcp_window_scaling", "1", scaling, "RFC 7323");
        let sack = "without it a round trip repairs one lost segment";
        exactly("net.ipv4.tcp_sack", "1", sack, "RFC 2018");
        let stamps =
            "sequence numbers wrap within seconds at these rates, and round trips are measured by it";
        exactly("net.ipv4.tcp_timestamps", "1", stamps, "RFC 7323");
        let moderate = "without it receive buffers stay at the second value of tcp_rmem";
        exactly("net.ipv4.tcp_moderate_rcvbuf", "1", moderate, "tcp(7)");
        let metrics = "a connection that met a loss would begin the next ones with its threshold";
        exactly("net.ipv4.tcp_no_metrics_save", "1", metrics, FASTERDATA);
        let idle = "a connection that paused would begin anew with ten segments";
        exactly("net.ipv4.tcp_slow_start_after_idle", "0", idle, FASTERDATA);
        let old = self.host.version().is_some_and(|version| version < LEARNT_WINDOW_SHARE);
        if old
            && self.host.number("net.ipv4.tcp_adv_win_scale").is_some_and(|scale| !(1..=31).contains(&scale))
        {
            let half = "values below 1 offer less than half of the buffer as window";
            exactly("net.ipv4.tcp_adv_win_scale", "1", half, "net/ipv4/tcp_input.c before Linux 6.6");
        }
        let jumbo = self.devices().any(|device| device.mtu > 1500);
        if jumbo {
            let name = "net.ipv4.tcp_mtu_probing";
            let reason =
                "large packets meet routers that drop them without a word; then TCP finds the size by itself";
            items.extend(self.at_least(name, 1, reason.into(), FASTERDATA));
        }
        // Only root of the machine itself may make another one the default.
        let allowed = self.host.sysctl("net.ipv4.tcp_allowed_congestion_control").unwrap_or_default();
        if self.host.sysctl("net.ipv4.tcp_congestion_control") == Some("reno")
            && allowed.split_whitespace().any(|name| name == "cubic")
        {
            let reason = "reno needs minutes to come back from one loss on such a path";
            items.extend(self.exactly("net.ipv4.tcp_congestion_control", "cubic", reason.into(), "RFC 9438"));
        }
    }

    /// Where packets wait in the kernel.
    fn queues(&self, items: &mut Vec<Item>) {
        let name = "net.core.default_qdisc";
        match self.host.fq {
            Reading::Known(true) => {
                let reason =
                    "fq paces each connection, so that bursts do not overflow short queues on the way";
                items.extend(self.exactly(name, "fq", reason.into(), FASTERDATA));
            }
            Reading::Known(false) => {}
            Reading::Unknown { ref why } => items.push(Item {
                state: State::Unknown { why: why.clone() },
                ..self.sysctl(
                    name,
                    "fq",
                    "fq paces each connection; without it TCP paces by timers of its own (Linux 4.13)".into(),
                    FASTERDATA,
                )
            }),
        }
        let Some(softnet) = self.host.softnet.known() else { return };
        if softnet.dropped > 0 {
            let now = self.host.number("net.core.netdev_max_backlog").unwrap_or(BACKLOG);
            let reason = format!(
                "{} received packets were dropped because the backlog was full",
                group_digits(softnet.dropped)
            );
            items.extend(self.at_least(
                "net.core.netdev_max_backlog",
                now.saturating_mul(4).min(INT_MAX as i64),
                reason,
                "/proc/net/softnet_stat",
            ));
        }
        if softnet.squeezed as f64 > SQUEEZED_PER_PACKET * softnet.processed as f64 {
            let now = self.host.number("net.core.netdev_budget").unwrap_or(300);
            let reason = format!(
                "{} times more had been received than one round of soft interrupts may take",
                group_digits(softnet.squeezed)
            );
            let item =
                self.at_least("net.core.netdev_budget", now.max(600), reason, "/proc/net/softnet_stat");
            items.extend(item);
        }
    }

    fn devices(&self) -> impl Iterator<Item = &crate::facts::Device> {
        advise_devices::concerned(self.host, self.goal)
    }

    /// A sysctl that should not be smaller.
    fn at_least(&self, name: &str, value: i64, reason: String, source: &'static str) -> Option<Item> {
        let Some(now) = self.host.number(name) else {
            return self.unreadable(name, &value.to_string(), reason, source);
        };
        let keep = now > value && !self.goal.lower;
        let mut item = self.sysctl(name, &if keep { now } else { value }.to_string(), reason, source);
        if keep {
            item.state = State::Better;
        }
        Some(item)
    }

    /// A sysctl that should be so.
    fn exactly(&self, name: &str, value: &str, reason: String, source: &'static str) -> Option<Item> {
        match self.host.sysctl(name) {
            Some(_) => Some(self.sysctl(name, value, reason, source)),
            None => self.unreadable(name, value, reason, source),
        }
    }

    fn sysctl(&self, name: &str, value: &str, reason: String, source: &'static str) -> Item {
        let setting = self.host.sysctls.get(name).and_then(Reading::known);
        let state = match setting {
            Some(setting) if setting.value == value => State::Fine,
            Some(setting) if setting.read_only => State::Elsewhere {
                why: "it belongs to the whole machine, and this is one network namespace of it".into(),
            },
            _ => State::Change,
        };
        Item {
            target: Target::Sysctl { name: name.into() },
            now: setting.map(|setting| setting.value.clone()),
            advised: value.into(),
            state,
            reason,
            memory_bytes: None,
            source,
        }
    }

    /// A setting that was asked for and could not be read; nothing where nobody looked.
    fn unreadable(&self, name: &str, value: &str, reason: String, source: &'static str) -> Option<Item> {
        let Reading::Unknown { why } = self.host.sysctls.get(name)? else { return None };
        Some(Item { state: State::Unknown { why: why.clone() }, ..self.sysctl(name, value, reason, source) })
    }
}
