//! Computes the advice for a host from its facts and the goal. Pure.
//!
//! Sources: fasterdata.es.net (host tuning, 2025), perfSONAR's configure_sysctl (2025), net/ipv4/tcp*.c of
//! Linux 6.18, RFC 7323; the University of South Carolina's Lab 8 for twice the bandwidth-delay product.

use model::{MAX_WINDOW, SCALING_RATIO_SINCE, bdp_f64, round_up_mib};
use units::{Bytes, group_digits};

use crate::{
    advice::{Advice, Goal, InfeasibleGoal, Recommendation, RecommendationStatus, Target},
    advise_devices,
    facts::{HostFacts, Reading},
};

/// Maximum value of these sysctls, which are ints.
const INT_MAX: u64 = i32::MAX as u64;
/// Defaults of the first and second values of `tcp_rmem` and `tcp_wmem` (tcp(7)): the minimum buffer under
/// memory pressure, and the initial buffer of a connection, bytes.
const MIN_BUFFER_BYTES: u64 = 4096;
const INITIAL_RECEIVE_BUFFER_BYTES: u64 = 131_072;
const INITIAL_SEND_BUFFER_BYTES: u64 = 16_384;
/// Minimum of `net.core.netdev_max_backlog` if packets were dropped: four times the default. A multiple of
/// the present value would grow with each `--apply`, because the drops count since the machine started.
const BACKLOG_PACKETS: i64 = 4000;
/// Maximum fraction of packets at which a soft interrupt may run out of budget before a larger budget is
/// recommended.
const MAX_SQUEEZED_PER_PACKET: f64 = 1e-4;

/// Before Linux 6.6 this sysctl determines the share of a receive buffer that is window: all except 2^-n of
/// it, or 2^n of it if n is not above 0 (`tcp_win_from_space`, include/net/tcp.h).
const WINDOW_SCALE: &str = "net.ipv4.tcp_adv_win_scale";
/// Maximum absolute value of [`WINDOW_SCALE`].
const MAX_WINDOW_SCALE: u64 = 31;
/// With values up to this one, less than half of the buffer is available for the window.
const LOW_WINDOW_SCALE: i64 = -2;
const ADVERTISES_HALF: &str = "this kernel advertises half of the buffer as window";

const FASTERDATA: &str = "fasterdata.es.net, host tuning (2025)";
const LAB_8: &str = "twice the BDP: University of South Carolina, Lab 8; net/ipv4/tcp_input.c";

/// Recommends settings of `host` for `goal`.
///
/// # Errors
/// If no values could reach the goal: the window would exceed TCP's maximum, or the buffers half of the
/// host's memory.
pub fn advise(host: &HostFacts, goal: &Goal) -> Result<Advice, InfeasibleGoal> {
    let bdp = bdp_f64(goal.rate, goal.rtt);
    let share = max_share(goal.streams);
    let buffer = connection_buffer(bdp, share)?;
    let memory = 2 * buffer.0.saturating_mul(u64::from(goal.streams));
    if let Some(available) = host.memory_bytes.known().copied().filter(|available| memory > available / 2) {
        let (needed, memory) = (Bytes(memory), Bytes(available));
        return Err(InfeasibleGoal::Memory { needed, memory, streams: goal.streams });
    }
    let advisor = Advisor { host, goal };
    let mut items = Vec::new();
    advisor.recommend_buffers(bdp, buffer, &mut items);
    advisor.recommend_tcp_mem(memory, &mut items);
    advisor.recommend_switches(&mut items);
    advisor.recommend_queues(&mut items);
    advise_devices::advise(host, goal, &mut items);
    Ok(Advice { bdp_bytes: bdp as u64, buffer_bytes: buffer.0, memory_bytes: memory, items })
}

/// The maximum part of the rate that one of `streams` connections may get. Connections do not share evenly,
/// so it is twice the even share.
fn max_share(streams: u32) -> f64 {
    (2.0 / f64::from(streams.max(1))).min(1.0)
}

/// The buffer of one connection: twice its maximum bandwidth-delay product.
fn connection_buffer(bdp: f64, share: f64) -> Result<Bytes, InfeasibleGoal> {
    let window = bdp * share;
    if window > MAX_WINDOW.as_f64() {
        // A connection may get twice its even share.
        let streams = (2.0 * bdp / MAX_WINDOW.as_f64()).ceil() as u32;
        return Err(InfeasibleGoal::Window { needed: Bytes(window as u64), streams });
    }
    // Twice the maximum window is one more than the maximum int.
    Ok(round_up_mib(2.0 * window).clamp(Bytes(1 << 20), Bytes(INT_MAX)))
}

struct Advisor<'a> {
    host: &'a HostFacts,
    goal: &'a Goal,
}

impl Advisor<'_> {
    /// Maximum sizes of socket buffers.
    fn recommend_buffers(&self, bdp: f64, buffer: Bytes, items: &mut Vec<Recommendation>) {
        let streams = u64::from(self.goal.streams);
        let learns_share = self.host.version().is_none_or(|version| version >= SCALING_RATIO_SINCE);
        let window = match learns_share {
            true => {
                "since Linux 6.6 the kernel estimates from the received packets which share of the buffer it \
                can advertise as window, mostly 60 to 85 %"
                    .into()
            }
            false => self.fixed_share(),
        };
        let bdp_text =
            format!("the path holds {} ({} x {})", Bytes(bdp as u64), self.goal.rate, self.goal.rtt);
        let limit = |name: &str, min_initial: u64, reason: String, items: &mut Vec<Recommendation>| {
            let Some([min, initial, max]) = self.host.triple(name) else {
                items.extend(self.unreadable(name, &buffer.0.to_string(), reason, LAB_8));
                return;
            };
            let (min, initial) = (min.max(MIN_BUFFER_BYTES), initial.max(min_initial));
            let is_enough = max >= buffer.0 && !self.goal.lower;
            let value = if is_enough { max } else { buffer.0.max(initial) };
            let mut item = self.sysctl(name, &format!("{min} {initial} {value}"), reason, LAB_8);
            if is_enough && max > buffer.0 && item.status == RecommendationStatus::Satisfied {
                item.status = RecommendationStatus::Exceeded;
            }
            item.memory_bytes = Some(value.saturating_mul(streams));
            items.push(item);
        };
        let reason = format!("{bdp_text}; {window}, and data queues behind a lost segment for a round trip");
        limit("net.ipv4.tcp_rmem", INITIAL_RECEIVE_BUFFER_BYTES, reason, items);
        let reason = format!(
            "{bdp_text}; the kernel wakes a writer when a third of the buffer is free, so only two thirds may \
            be in flight"
        );
        limit("net.ipv4.tcp_wmem", INITIAL_SEND_BUFFER_BYTES, reason, items);
        for name in ["net.core.rmem_max", "net.core.wmem_max"] {
            let reason = "limits the buffers that programs set themselves (SO_RCVBUF, SO_SNDBUF) to twice this \
                          value; buffers that the kernel tunes are not limited by it";
            items.extend(self.at_least(name, buffer.0 as i64, reason.into(), FASTERDATA));
        }
    }

    /// Which share of a receive buffer a kernel before 6.6 advertises as window, after this advice is
    /// followed.
    fn fixed_share(&self) -> String {
        let scale = self.host.number(WINDOW_SCALE).unwrap_or(1);
        let share = match scale {
            ..=LOW_WINDOW_SCALE => return format!("with {WINDOW_SCALE} = 1 {ADVERTISES_HALF}"),
            -1 | 1 => return ADVERTISES_HALF.into(),
            0 => "all".into(),
            2..=6 => format!("{}/{}", (1 << scale) - 1, 1 << scale),
            _ => "almost all".into(),
        };
        format!("this kernel advertises {share} of the buffer as window")
    }

    /// Memory of all TCP sockets, in pages: above the second value buffers stop growing
    /// (net/ipv4/tcp_input.c, tcp_under_memory_pressure).
    fn recommend_tcp_mem(&self, memory: u64, items: &mut Vec<Recommendation>) {
        let name = "net.ipv4.tcp_mem";
        let Some([low, pressure, high]) = self.host.triple(name) else { return };
        let page_bytes = self.host.page_bytes_or_default();
        let needed = memory.div_ceil(page_bytes);
        if needed <= pressure {
            return;
        }
        let reason = format!(
            "all connections' buffers may reach {}, and above {} pages of {} bytes the kernel stops \
            growing them",
            Bytes(memory),
            group_digits(pressure),
            group_digits(page_bytes)
        );
        let value = format!("{} {needed} {}", low.max(needed * 3 / 4), high.max(needed * 3 / 2));
        items.push(Recommendation {
            memory_bytes: Some(memory),
            ..self.sysctl(name, &value, reason, "tcp(7)")
        });
    }

    /// Features of TCP that should be on or off.
    fn recommend_switches(&self, items: &mut Vec<Recommendation>) {
        let mut exactly = |name: &str, value: &str, reason: &str, source| {
            items.extend(self.exactly(name, value, reason.into(), source));
        };
        let scaling = "without it the window is at most 65,535 bytes, whatever the buffer sizes";
        exactly("net.ipv4.tcp_window_scaling", "1", scaling, "RFC 7323");
        let sack = "without it only one lost segment is repaired per round trip";
        exactly("net.ipv4.tcp_sack", "1", sack, "RFC 2018");
        let stamps = "sequence numbers wrap within seconds at these rates (PAWS needs timestamps), and \
            timestamps measure round trips";
        // 2: on, without random offsets (ip-sysctl.rst).
        let stamps_on = if self.host.number("net.ipv4.tcp_timestamps") == Some(2) { "2" } else { "1" };
        exactly("net.ipv4.tcp_timestamps", stamps_on, stamps, "RFC 7323");
        let moderate = "without it receive buffers stay at the initial size (second value of tcp_rmem)";
        exactly("net.ipv4.tcp_moderate_rcvbuf", "1", moderate, "tcp(7)");
        let metrics =
            "otherwise the slow-start threshold of a connection with losses is reused for later connections";
        exactly("net.ipv4.tcp_no_metrics_save", "1", metrics, FASTERDATA);
        let idle = "otherwise a connection restarts from the initial window (ten segments) after a pause";
        exactly("net.ipv4.tcp_slow_start_after_idle", "0", idle, FASTERDATA);
        let old = self.host.version().is_some_and(|version| version < SCALING_RATIO_SINCE);
        if let Some(scale) = self.host.number(WINDOW_SCALE).filter(|scale| old && *scale <= LOW_WINDOW_SCALE)
        {
            let part = 1u64 << scale.unsigned_abs().min(MAX_WINDOW_SCALE);
            let reason =
                format!("this value advertises only 1/{part} of the buffer as window, 1 advertises half");
            exactly(WINDOW_SCALE, "1", &reason, "include/net/tcp.h before Linux 6.6");
        }
        let jumbo = self.devices().any(|device| device.mtu > 1500);
        if jumbo {
            let name = "net.ipv4.tcp_mtu_probing";
            let reason = "some routers drop large packets without an ICMP error; with probing TCP finds the \
                packet size itself";
            items.extend(self.at_least(name, 1, reason.into(), FASTERDATA));
        }
        // In a network namespace root may select only allowed congestion controls.
        let allowed = self.host.sysctl("net.ipv4.tcp_allowed_congestion_control").unwrap_or_default();
        if self.host.sysctl("net.ipv4.tcp_congestion_control") == Some("reno")
            && allowed.split_whitespace().any(|name| name == "cubic")
        {
            let reason = "reno needs minutes to recover its rate after one loss on such a path";
            items.extend(self.exactly("net.ipv4.tcp_congestion_control", "cubic", reason.into(), "RFC 9438"));
        }
    }

    /// Queues of the kernel: queueing discipline, and backlog of received packets.
    fn recommend_queues(&self, items: &mut Vec<Recommendation>) {
        let name = "net.core.default_qdisc";
        match self.host.fq {
            Reading::Known(true) => {
                let reason =
                    "fq paces each connection, so that bursts do not overflow short queues on the path";
                items.extend(self.exactly(name, "fq", reason.into(), FASTERDATA));
            }
            Reading::Known(false) => {}
            Reading::Unknown { ref why } => items.push(Recommendation {
                status: RecommendationStatus::Unknown { why: why.clone() },
                ..self.sysctl(
                    name,
                    "fq",
                    "fq paces each connection; without it TCP paces with its own timers (Linux 4.13)".into(),
                    FASTERDATA,
                )
            }),
        }
        let Some(softnet) = self.host.softnet.known() else { return };
        if softnet.dropped > 0 {
            let now = self.host.number("net.core.netdev_max_backlog").unwrap_or(0);
            let reason = format!(
                "{} received packets were dropped because the backlog was full",
                group_digits(softnet.dropped)
            );
            items.extend(self.at_least(
                "net.core.netdev_max_backlog",
                now.max(BACKLOG_PACKETS),
                reason,
                "/proc/net/softnet_stat",
            ));
        }
        if softnet.squeezed as f64 > MAX_SQUEEZED_PER_PACKET * softnet.processed as f64 {
            let now = self.host.number("net.core.netdev_budget").unwrap_or(300);
            let reason = format!(
                "{} times a soft interrupt ran out of its packet budget",
                group_digits(softnet.squeezed)
            );
            let item =
                self.at_least("net.core.netdev_budget", now.max(600), reason, "/proc/net/softnet_stat");
            items.extend(item);
        }
    }

    fn devices(&self) -> impl Iterator<Item = &crate::facts::Device> {
        advise_devices::devices_of_goal(self.host, self.goal)
    }

    /// Recommends a minimum value of a sysctl.
    fn at_least(
        &self,
        name: &str,
        value: i64,
        reason: String,
        source: &'static str,
    ) -> Option<Recommendation> {
        let Some(now) = self.host.number(name) else {
            return self.unreadable(name, &value.to_string(), reason, source);
        };
        let is_larger = now > value && !self.goal.lower;
        let mut item = self.sysctl(name, &if is_larger { now } else { value }.to_string(), reason, source);
        if is_larger {
            item.status = RecommendationStatus::Exceeded;
        }
        Some(item)
    }

    /// Recommends one value of a sysctl.
    fn exactly(
        &self,
        name: &str,
        value: &str,
        reason: String,
        source: &'static str,
    ) -> Option<Recommendation> {
        match self.host.sysctl(name) {
            Some(_) => Some(self.sysctl(name, value, reason, source)),
            None => self.unreadable(name, value, reason, source),
        }
    }

    fn sysctl(&self, name: &str, value: &str, reason: String, source: &'static str) -> Recommendation {
        let setting = self.host.sysctls.get(name).and_then(Reading::known);
        let status = match setting {
            Some(setting) if setting.value == value => RecommendationStatus::Satisfied,
            Some(setting) if setting.read_only => RecommendationStatus::NotChangeable {
                why: "it belongs to the whole machine, not to this network namespace".into(),
            },
            _ => RecommendationStatus::Change,
        };
        Recommendation {
            target: Target::Sysctl { name: name.into() },
            now: setting.map(|setting| setting.value.clone()),
            advised: value.into(),
            status,
            reason,
            memory_bytes: None,
            source,
        }
    }

    /// The recommendation for a setting that could not be read; `None` if the host's facts do not contain it.
    fn unreadable(
        &self,
        name: &str,
        value: &str,
        reason: String,
        source: &'static str,
    ) -> Option<Recommendation> {
        let Reading::Unknown { why } = self.host.sysctls.get(name)? else { return None };
        Some(Recommendation {
            status: RecommendationStatus::Unknown { why: why.clone() },
            ..self.sysctl(name, value, reason, source)
        })
    }
}
