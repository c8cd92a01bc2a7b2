//! Why engines with real kernels cannot run a scenario: a few words, for tables.

use lab::check_flows;
use scenario::{Cc, FlowKind, FlowSpec, Scenario};
use tcp::LINUX_CONGESTION_CONTROLS;
use units::{KernelVersion, Time};

use crate::{check_guest, flow_context::FlowPath};

/// The oldest Linux with guests: User-Mode Linux has virtual time (CONFIG_UML_TIME_TRAVEL_SUPPORT) from 5.3
/// on.
const OLDEST_GUEST: KernelVersion = KernelVersion::new(5, 3);

/// Why the lab of a machine with the kernel `machine` cannot run the scenario; `None` if it can.
pub(super) fn of_lab(scenario: &Scenario, machine: Option<KernelVersion>) -> Option<String> {
    let has = |needed: KernelVersion| machine.is_some_and(|own| is_same(own, needed));
    missing_kernel(scenario, has).or_else(|| check_flows(scenario).err().map(|error| error.to_string()))
}

/// Why a guest cannot run the scenario; `None` if it can. `guest` is its kernel; `None`: any kernel that
/// guests can have.
pub(super) fn of_guest(scenario: &Scenario, guest: Option<KernelVersion>) -> Option<String> {
    let has = |needed: KernelVersion| guest.map_or(needed >= OLDEST_GUEST, |guest| is_same(guest, needed));
    missing_kernel(scenario, has)
        .or_else(|| {
            let name = scenario.flows.iter().find_map(foreign_control)?;
            Some(format!("guests have no congestion control {name:?}"))
        })
        .or_else(|| {
            let reason = "guests take no time, which determines the figure on a path without delay";
            is_paced_by_hosts(scenario).then(|| reason.to_owned())
        })
        .or_else(|| check_guest(scenario).err().map(|error| error.to_string()))
}

/// Why real hosts cannot run the scenario, wherever they are; `None` if they can.
pub(super) fn of_hosts(scenario: &Scenario) -> Option<String> {
    // Their kernels are unknown before the run.
    missing_kernel(scenario, |_| false)
        .or_else(|| hosts::check_flows(scenario).err().map(|error| error.to_string()))
}

/// The kernel that a host needs, if it is none of those that the engine `has`.
fn missing_kernel(scenario: &Scenario, has: impl Fn(KernelVersion) -> bool) -> Option<String> {
    let kernels = scenario.hosts.iter().filter_map(|host| host.kernel);
    let mut needed = kernels.map(|(major, minor)| KernelVersion::new(major.into(), minor.into()));
    needed.find(|needed| !has(*needed)).map(|needed| format!("needs Linux {needed}"))
}

/// Whether two versions differ in their patch level at most.
fn is_same(one: KernelVersion, other: KernelVersion) -> bool {
    (one.major, one.minor) == (other.major, other.minor)
}

/// The congestion control of a TCP flow, if it is not part of Linux. User-Mode Linux cannot load it (no
/// struct_ops).
fn foreign_control(flow: &FlowSpec) -> Option<&str> {
    let FlowKind::Tcp(tcp) = &flow.kind else { return None };
    match tcp.cc.as_ref()? {
        Cc::Named(name) if LINUX_CONGESTION_CONTROLS.contains(&name.as_str()) => None,
        cc => Some(cc.name()),
    }
}

/// Whether the hosts' own time determines the round-trip time of a TCP flow: its path has no delay.
fn is_paced_by_hosts(scenario: &Scenario) -> bool {
    let has_turnaround = scenario.hosts.iter().any(|host| host.turnaround > Time::ZERO);
    let is_tcp = |flow: &&FlowSpec| matches!(flow.kind, FlowKind::Tcp(_));
    let mut paths = scenario.flows.iter().filter(is_tcp).filter_map(|flow| FlowPath::of(scenario, flow));
    has_turnaround && paths.any(|path| path.propagation == Time::ZERO)
}

#[cfg(test)]
mod tests {
    use scenario::ScenarioFile;

    use super::*;

    fn scenario(hosts: &str, link: &str, flow: &str) -> Scenario {
        let text = format!(
            "duration = \"5s\"\n[hosts.\"*\"]\n{hosts}\n[hosts.a]\naddress = \"10.0.0.1/24\"\n[hosts.b]\naddress = \"10.0.0.2/24\"\n\
             [[links]]\nends = [\"a\", \"b\"]\nforward = {{ rate = \"100mbit\"{link} }}\n[[flows]]\nname = \"f\"\nfrom = \"a\"\n\
             to = \"b\"\n{flow}\n"
        );
        ScenarioFile::parse("x.toml", &text).unwrap().resolve(None, &[]).unwrap()
    }

    const LINUX_6_18: KernelVersion = KernelVersion { major: 6, minor: 18, patch: 44 };

    #[test]
    fn an_engine_needs_the_kernel_of_each_host() {
        let old = scenario("kernel = \"2.4\"", "", "");
        assert_eq!(of_lab(&old, Some(LINUX_6_18)).as_deref(), Some("needs Linux 2.4"));
        assert_eq!(of_guest(&old, None).as_deref(), Some("needs Linux 2.4"));
        assert_eq!(of_hosts(&old).as_deref(), Some("needs Linux 2.4"));
        // The machine's own kernel, of another patch level.
        let own = scenario("kernel = \"6.18\"", "", "");
        assert_eq!(of_lab(&own, Some(LINUX_6_18)), None);
        assert_eq!(of_lab(&own, Some(KernelVersion::new(6, 1))).as_deref(), Some("needs Linux 6.18"));
        assert_eq!(of_lab(&own, None).as_deref(), Some("needs Linux 6.18"), "an unknown kernel");
        assert_eq!((of_guest(&own, None), of_guest(&own, Some(LINUX_6_18))), (None, None));
        assert_eq!(of_guest(&own, Some(KernelVersion::new(6, 1))).as_deref(), Some("needs Linux 6.18"));
        let any = scenario("", "", "");
        assert_eq!(
            (of_lab(&any, None), of_guest(&any, Some(LINUX_6_18)), of_hosts(&any)),
            (None, None, None)
        );
    }

    #[test]
    fn guests_have_only_linux_algorithms_and_take_no_time() {
        let with_cc = |cc: &str| of_guest(&scenario("", "", &format!("cc = {cc}")), None);
        assert_eq!(with_cc("\"highspeed\""), None);
        for foreign in ["\"fast\"", "{ name = \"griddt\", a = 7 }"] {
            assert!(with_cc(foreign).unwrap().starts_with("guests have no congestion control"), "{foreign}");
        }
        let slow_hosts = "turnaround = \"22us\"";
        assert!(of_guest(&scenario(slow_hosts, "", ""), None).unwrap().contains("take no time"));
        assert_eq!(of_guest(&scenario(slow_hosts, ", delay = \"1ms\"", ""), None), None);
        assert_eq!(of_lab(&scenario(slow_hosts, "", ""), None), None, "hosts of the lab take time");
    }

    #[test]
    fn real_hosts_cannot_stop_a_reader() {
        let stops = scenario("", "", "reader_stops = \"2s\"\nreader_resumes = \"4s\"");
        assert!(of_hosts(&stops).unwrap().contains("stops is not supported"));
        assert_eq!(of_lab(&stops, None), None);
    }
}
