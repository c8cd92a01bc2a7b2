//! Reads a host's facts from /proc, /sys, rtnetlink and ethtool's ioctl, without other programs, in a few
//! milliseconds.

use std::{fs, io, path::Path};

use os::{TransmitQueue, TxCounters};

use crate::{
    ethtool,
    facts::{Device, HostFacts, Interrupt, Reading, Softnet},
    netlink, sys, sysctl,
};

/// Name of the init process in the PID namespace of a lab. The lab's hosts share files and processors with
/// the machine, but not its network namespace.
const LAB_INIT: &str = "longfat-init";

/// Reads the facts of the host, in this thread's network namespace. Values that cannot be read are replaced
/// by the reason.
pub fn inspect() -> HostFacts {
    let root = Path::new("/proc/sys");
    let kernel = sysctl::read(root, "kernel.osrelease").unwrap_or_default();
    let (devices, routes) = match netlink::devices() {
        Ok(devices) => {
            let names = devices.iter().map(|device| (device.index, device.name.clone())).collect();
            (devices, netlink::routes(&names).into())
        }
        Err(error) => (Vec::new(), Reading::unknown(error.to_string())),
    };
    HostFacts {
        fq: has_fq(&kernel, root),
        kernel,
        memory_bytes: memory_bytes().into(),
        page_bytes: sys::page_bytes().into(),
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        lab_host: is_lab_host(),
        sysctls: sysctl::INSPECTED
            .iter()
            .map(|name| (name.to_string(), sysctl::inspect(root, name)))
            .collect(),
        devices: devices.into_iter().map(add_driver_facts).collect(),
        routes,
        governors: governors(),
        softnet: softnet().into(),
    }
}

/// Reads the transmit counters of the device with this address; `None` if there is no such device or
/// rtnetlink fails.
pub fn read_tx_counters(address: std::net::IpAddr) -> Option<TxCounters> {
    let index = netlink::device_with_address(address).ok().flatten()?;
    TxCounters::read(index).ok()
}

/// Reads the transmit queue of the device with this address; `None` if there is no such device or rtnetlink
/// fails.
pub fn read_transmit_queue(address: std::net::IpAddr) -> Option<TransmitQueue> {
    let index = netlink::device_with_address(address).ok().flatten()?;
    TransmitQueue::read(index).ok().flatten()
}

/// Whether this process runs on a host of a lab, which shares the machine's files.
pub fn is_lab_host() -> bool {
    fs::read_to_string("/proc/1/comm").is_ok_and(|name| name.trim_end() == LAB_INIT)
}

/// MemTotal of /proc/meminfo.
fn memory_bytes() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let kib = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse::<u64>().ok());
    kib.and_then(|kib| kib.checked_mul(1024)).ok_or_else(|| io::Error::other("/proc/meminfo has no MemTotal"))
}

/// The frequency governors of all processors, without duplicates.
fn governors() -> Reading<Vec<String>> {
    let cpus = match fs::read_dir("/sys/devices/system/cpu") {
        Ok(cpus) => cpus,
        Err(error) => return Reading::unknown(error.to_string()),
    };
    let governor = |cpu: fs::DirEntry| fs::read_to_string(cpu.path().join("cpufreq/scaling_governor")).ok();
    let mut found: Vec<String> = cpus.flatten().filter_map(governor).map(|name| name.trim().into()).collect();
    found.sort();
    found.dedup();
    match found.is_empty() {
        true => {
            Reading::unknown("this machine has no frequency scaling, or hides it (as virtual machines do)")
        }
        false => Reading::Known(found),
    }
}

/// Sums of /proc/net/softnet_stat, which has a line for each processor with hexadecimal columns processed,
/// dropped and time_squeeze (net/core/net-procfs.c).
fn softnet() -> io::Result<Softnet> {
    Ok(parse_softnet(&fs::read_to_string("/proc/net/softnet_stat")?))
}

fn parse_softnet(text: &str) -> Softnet {
    text.lines().fold(Softnet::default(), |sum, line| {
        let mut columns = line.split_whitespace().map(|n| u64::from_str_radix(n, 16).unwrap_or(0));
        let mut next = || columns.next().unwrap_or(0);
        Softnet {
            processed: sum.processed.saturating_add(next()),
            dropped: sum.dropped.saturating_add(next()),
            squeezed: sum.squeezed.saturating_add(next()),
        }
    })
}

/// Whether the kernel has `fq`: in use, loaded, built in, or a module on disk.
fn has_fq(kernel: &str, root: &Path) -> Reading<bool> {
    let in_use = sysctl::read(root, "net.core.default_qdisc").is_ok_and(|name| name == "fq");
    if in_use || Path::new("/sys/module/sch_fq").exists() {
        return Reading::Known(true);
    }
    let modules = Path::new("/lib/modules").join(kernel);
    let lists = ["modules.builtin", "modules.dep"].map(|name| fs::read_to_string(modules.join(name)));
    if lists.iter().flatten().any(|text| text.contains("/sch_fq.ko")) {
        return Reading::Known(true);
    }
    match lists.iter().all(Result::is_ok) {
        true => Reading::Known(false),
        false => Reading::unknown(format!("{} does not list this kernel's modules", modules.display())),
    }
}

/// Adds the facts that the driver and /sys provide.
fn add_driver_facts(mut device: Device) -> Device {
    ethtool::add_driver_facts(&mut device);
    let sysfs_device = Path::new("/sys/class/net").join(&device.name);
    // /sys may show another network namespace, whose devices can have the same names.
    let index =
        fs::read_to_string(sysfs_device.join("ifindex")).ok().and_then(|text| text.trim().parse().ok());
    if index != Some(device.index) {
        let why = "/sys does not show this network namespace's devices";
        (device.numa_node, device.interrupts) = (Reading::unknown(why), Reading::unknown(why));
        return device;
    }
    let node = fs::read_to_string(sysfs_device.join("device/numa_node"))
        .ok()
        .and_then(|text| text.trim().parse().ok());
    device.numa_node = match node {
        Some(node) if node >= 0 => Reading::Known(node),
        Some(_) => Reading::unknown("this machine has only one memory node, or does not report it"),
        None => Reading::unknown("the device is virtual (no bus)"),
    };
    device.interrupts = interrupts(&sysfs_device);
    device
}

/// The interrupts of the device with this directory in /sys/class/net.
fn interrupts(sysfs_device: &Path) -> Reading<Vec<Interrupt>> {
    let Ok(lines) = fs::read_dir(sysfs_device.join("device/msi_irqs")) else {
        return Reading::unknown("the device has no interrupts");
    };
    let line = |entry: fs::DirEntry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        let cpus = fs::read_to_string(format!("/proc/irq/{number}/smp_affinity_list")).ok()?;
        Some(Interrupt { number, cpus: cpus.trim().into() })
    };
    let mut found: Vec<Interrupt> = lines.flatten().filter_map(line).collect();
    found.sort_by_key(|interrupt| interrupt.number);
    Reading::Known(found)
}

/// The name of the device through which packets to `to` leave, by the kernel's routing table; `None` without
/// a route, or if they do not leave this host.
pub fn device_towards(to: std::net::IpAddr) -> Option<String> {
    device_name(netlink::device_towards(to.to_canonical()).ok().flatten()?)
}

/// The name of the device that has an address; `None` if none has, or the loopback device.
pub fn device_with_address(address: std::net::IpAddr) -> Option<String> {
    device_name(netlink::device_with_address(address).ok().flatten()?)
}

/// The name of the device with an interface index; `None` for the loopback device.
fn device_name(index: u32) -> Option<String> {
    netlink::devices().ok()?.into_iter().find(|device| device.index == index).map(|device| device.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn softnet_columns_of_all_processors_are_added() {
        let text = "0000000a 00000001 00000002 00000000\n000000ff 00000000 00000001\nnonsense\n\n";
        assert_eq!(parse_softnet(text), Softnet { processed: 265, dropped: 1, squeezed: 3 });
    }

    #[test]
    fn facts_of_this_machine_are_plausible() {
        let facts = inspect();
        assert!(facts.version().is_some(), "{}", facts.kernel);
        assert!(facts.triple("net.ipv4.tcp_rmem").is_some_and(|[min, _, max]| min <= max));
        assert!(*facts.memory_bytes.known().unwrap() > 1 << 20);
        assert_eq!(facts.page_bytes, Reading::Known(facts.page_bytes_or_default()));
        for device in &facts.devices {
            assert!(!device.name.is_empty() && device.mtu > 0, "{device:?}");
        }
    }
}
