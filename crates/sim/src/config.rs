//! The settings of one end of a connection, from the scenario's host and flow.
//!
//! Sysctls that do not affect TCP, or that the host's kernel does not have, are ignored. An invalid value of
//! any other sysctl is an error.

use scenario::{Host, TcpSpec};
use tcp::{Config, Profile};

use crate::{Error, HostDefaults, Side};

/// The settings of one end of a flow.
pub(crate) fn config(
    defaults: &HostDefaults,
    host: &Host,
    tcp: &TcpSpec,
    side: Side,
) -> Result<Config, Error> {
    let mut config = Config {
        mtu: host.mtu,
        user_mss: tcp.mss.map(|mss| u16::try_from(mss).unwrap_or(u16::MAX)),
        ..kernel_config(defaults, host)
    };
    config.local_congestion = host.local_congestion;
    let is_linux24 = config.profile == Profile::Linux24;
    for (name, value) in host.sysctl.iter().filter(|(name, _)| has_sysctl(is_linux24, host, name)) {
        set(&mut config, name, value).map_err(|expected| Error::Sysctl {
            host: host.name.clone(),
            name: name.clone(),
            value: value.clone(),
            expected,
        })?;
    }
    let int = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX).min(i32::MAX as u32 / 2);
    match side {
        Side::Sender => {
            config.sndbuf = tcp.send_buffer.map(|bytes| int(bytes.0));
            // As in the lab, a socket's buffer may exceed the limit.
            config.wmem_max = config.wmem_max.max(config.sndbuf.unwrap_or(0));
            config.max_pacing_rate = tcp.pacing.map(|rate| rate.0 / 8);
        }
        Side::Receiver => {
            config.rcvbuf = tcp.receive_buffer.map(|bytes| int(bytes.0));
            config.rmem_max = config.rmem_max.max(config.rcvbuf.unwrap_or(0));
        }
    }
    if let Some(gso) = host.nic.gso.filter(|_| !is_linux24) {
        // If only one segment fits, there are no super-packets.
        match gso.0 < 2 * u64::from(host.mtu) {
            true => config.gso_max_segs = 1,
            false => config.gso_max_size = int(gso.0),
        }
    }
    if let Some(segments) = host.nic.gso_segs.filter(|_| !is_linux24) {
        config.gso_max_segs = config.gso_max_segs.min(segments as u16);
    }
    Ok(config)
}

/// True if a host's sysctl affects its simulated TCP.
pub fn applies_sysctl(defaults: &HostDefaults, host: &Host, name: &str) -> bool {
    let is_known = set(&mut Config::default(), name, "").is_err();
    is_known && has_sysctl(defaults.kernel_of(host) < (2, 6), host, name)
}

/// True if a host's kernel has a sysctl of [`set`].
fn has_sysctl(is_linux24: bool, host: &Host, name: &str) -> bool {
    match SYSCTLS_WEB100.contains(&name) {
        true => is_linux24 && host.web100,
        false => !is_linux24 || SYSCTLS_24.contains(&name),
    }
}

/// A host's settings before its own sysctls: `defaults`, or for Linux 2.4 that kernel's defaults.
fn kernel_config(defaults: &HostDefaults, host: &Host) -> Config {
    let kernel = defaults.kernel_of(host);
    match Profile::of_kernel(kernel.0, kernel.1) {
        Some(Profile::Linux24) => Config::linux24(),
        _ => Config {
            profile: Profile::Linux6 { kernel },
            hz: defaults.hz_of(host),
            rmem: defaults.rmem,
            wmem: defaults.wmem,
            rmem_max: defaults.rmem_max,
            wmem_max: defaults.wmem_max,
            packet_memory: defaults.packet_memory,
            ..Config::of_kernel(kernel.0, kernel.1).unwrap_or_default()
        },
    }
}

/// The sysctls of [`set`] that Linux 2.4 has.
const SYSCTLS_24: [&str; 14] = [
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.ipv4.tcp_adv_win_scale",
    "net.ipv4.tcp_app_win",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_dsack",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_reordering",
    "net.ipv4.tcp_retries2",
    "net.ipv4.tcp_syn_retries",
];

/// Those of web100's patch to Linux 2.4.
const SYSCTLS_WEB100: [&str; 3] =
    ["net.ipv4.WAD_IFQ", "net.ipv4.web100_rbufmode", "net.ipv4.web100_sbufmode"];

/// The valid values.
type Expected = &'static str;

fn set(config: &mut Config, name: &str, value: &str) -> Result<(), Expected> {
    match name {
        "net.ipv4.tcp_rmem" => config.rmem = triple(value)?,
        "net.ipv4.tcp_wmem" => config.wmem = triple(value)?,
        "net.core.rmem_max" => config.rmem_max = number(value)?,
        "net.core.wmem_max" => config.wmem_max = number(value)?,
        "net.ipv4.tcp_moderate_rcvbuf" => config.moderate_rcvbuf = number::<u32>(value)? != 0,
        "net.ipv4.tcp_adv_win_scale" => config.adv_win_scale = number(value)?,
        "net.ipv4.tcp_app_win" => config.app_win = number(value)?,
        "net.ipv4.tcp_window_scaling" => config.window_scaling = number::<u32>(value)? != 0,
        "net.ipv4.tcp_timestamps" => config.timestamps = number::<u32>(value)? != 0,
        "net.ipv4.tcp_sack" => config.sack = number::<u32>(value)? != 0,
        "net.ipv4.tcp_dsack" => config.dsack = number::<u32>(value)? != 0,
        "net.ipv4.tcp_ecn" => config.ecn = number(value)?,
        "net.ipv4.tcp_recovery" => config.recovery = number(value)?,
        "net.ipv4.tcp_early_retrans" => config.early_retrans = number(value)?,
        "net.ipv4.tcp_frto" => config.frto = number(value)?,
        "net.ipv4.tcp_reordering" => config.reordering = number(value)?,
        "net.ipv4.tcp_max_reordering" => config.max_reordering = number(value)?,
        "net.ipv4.tcp_slow_start_after_idle" => config.slow_start_after_idle = number::<u32>(value)? != 0,
        "net.ipv4.tcp_min_rtt_wlen" => config.min_rtt_wlen_s = number(value)?,
        "net.ipv4.tcp_pacing_ss_ratio" => config.pacing_ss_ratio = number(value)?,
        "net.ipv4.tcp_pacing_ca_ratio" => config.pacing_ca_ratio = number(value)?,
        "net.ipv4.tcp_min_tso_segs" => config.min_tso_segs = number(value)?,
        "net.ipv4.tcp_tso_win_divisor" => config.tso_win_divisor = number(value)?,
        "net.ipv4.tcp_tso_rtt_log" => config.tso_rtt_log = number(value)?,
        "net.ipv4.tcp_limit_output_bytes" => config.limit_output_bytes = number(value)?,
        "net.ipv4.tcp_notsent_lowat" => config.notsent_lowat = number(value)?,
        "net.ipv4.tcp_comp_sack_delay_ns" => config.comp_sack_delay_ns = number(value)?,
        "net.ipv4.tcp_comp_sack_rtt_percent" => config.comp_sack_rtt_percent = number(value)?,
        "net.ipv4.tcp_rcvbuf_low_rtt" => config.rcvbuf_low_rtt_us = number(value)?,
        "net.ipv4.tcp_comp_sack_slack_ns" => config.comp_sack_slack_ns = number(value)?,
        "net.ipv4.tcp_comp_sack_nr" => config.comp_sack_nr = number(value)?,
        "net.ipv4.tcp_mtu_probing" => config.mtu_probing = number(value)?,
        "net.ipv4.tcp_base_mss" => config.base_mss = number(value)?,
        "net.ipv4.tcp_mtu_probe_floor" => config.mtu_probe_floor = number(value)?,
        "net.ipv4.tcp_probe_threshold" => config.probe_threshold = number(value)?,
        "net.ipv4.tcp_probe_interval" => config.probe_interval_s = number(value)?,
        "net.ipv4.tcp_min_snd_mss" => config.min_snd_mss = number(value)?,
        "net.ipv4.tcp_retries1" => config.retries1 = number(value)?,
        "net.ipv4.tcp_retries2" => config.retries2 = number(value)?,
        "net.ipv4.tcp_syn_retries" => config.syn_retries = number(value)?,
        // 1: a full device queue is not congestion.
        "net.ipv4.WAD_IFQ" => config.local_congestion &= number::<u32>(value)? == 0,
        "net.ipv4.web100_rbufmode" => config.moderate_rcvbuf = number::<u32>(value)? != 0,
        // Linux 2.4 tunes the send buffer without web100 too.
        "net.ipv4.web100_sbufmode" => drop(number::<u32>(value)?),
        _ => {}
    }
    Ok(())
}

fn number<T: std::str::FromStr>(value: &str) -> Result<T, Expected> {
    value.trim().parse().map_err(|_| "a number in its range")
}

fn triple(value: &str) -> Result<[u32; 3], Expected> {
    const EXPECTED: Expected = "three numbers of bytes";
    let numbers: Result<Vec<u32>, _> = value.split_whitespace().map(str::parse).collect();
    numbers.map_err(|_| EXPECTED)?.try_into().map_err(|_| EXPECTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sysctls_are_parsed_as_by_the_kernel() {
        let mut config = Config::default();
        set(&mut config, "net.ipv4.tcp_rmem", "10240\t87380 16777216").unwrap();
        set(&mut config, "net.ipv4.tcp_sack", "0").unwrap();
        set(&mut config, "net.ipv4.ip_forward", "what?").unwrap();
        let text = "hosts.h1.address = \"10.0.0.1/24\"\nhosts.h2.address = \"10.0.0.2/24\"\n[[links]]\nends = [\"h1\", \"h2\"]\n";
        let scenario = scenario::ScenarioFile::parse("s", text).unwrap().resolve(None, &[]).unwrap();
        let (defaults, host) = (HostDefaults::default(), &scenario.hosts[0]);
        assert!(applies_sysctl(&defaults, host, "net.ipv4.tcp_mtu_probing"));
        assert!(!applies_sysctl(&defaults, host, "net.ipv4.tcp_fastopen"));
        assert_eq!((config.rmem, config.sack), ([10_240, 87_380, 16_777_216], false));
        assert!(set(&mut config, "net.ipv4.tcp_wmem", "1 2").is_err());
        assert!(set(&mut config, "net.ipv4.tcp_app_win", "31x").is_err());
    }
}
