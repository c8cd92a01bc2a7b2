//! Keeps the machine's idle processors out of deep idle states while packets are in flight.
//!
//! A program that waits for a packet runs only after its processor has left its idle state. On a virtual
//! machine an idle processor is halted, and the hypervisor takes 10 to 50 us to resume it; elsewhere the idle
//! state's exit latency takes up to 200 us. The thread that wakes it pays as well: waking the receiver of
//! each frame took a fifth of the emulator's thread at 25 Gb/s.
//!
//! A request to /dev/cpu_dma_latency (Linux: Documentation/power/pm_qos_interface.rst) holds while the file
//! is open, so none outlasts this process, however it ends.

use std::{
    fs::{self, File},
    io::{self, Write},
};

/// Maximum exit latency to request, us: that of the lightest idle state that saves power.
const LIGHT_IDLE_LATENCY_US: i32 = 2;
/// Maximum exit latency to request where every idle state halts a virtual machine's processor, us: idle
/// processors poll.
const POLLING_LATENCY_US: i32 = 0;

/// The request to the kernel's PM QoS interface, while it is active.
#[derive(Debug, Default)]
pub(crate) struct CpuLatency {
    request: Option<File>,
    /// The kernel refused it: only root may open the device.
    refused: bool,
}

impl CpuLatency {
    /// Starts or ends the request.
    pub(crate) fn set_low(&mut self, low: bool) {
        if !low {
            self.request = None;
        } else if self.request.is_none() && !self.refused {
            self.request = request_low_latency().ok();
            self.refused = self.request.is_none();
        }
    }
}

/// Requests a low exit latency for as long as the returned file is open.
pub(crate) fn request_low_latency() -> io::Result<File> {
    let mut file = File::options().write(true).open("/dev/cpu_dma_latency")?;
    let driver = fs::read_to_string("/sys/devices/system/cpu/cpuidle/current_driver").unwrap_or_default();
    let latency = if driver.trim() == "haltpoll" { POLLING_LATENCY_US } else { LIGHT_IDLE_LATENCY_US };
    file.write_all(&latency.to_ne_bytes())?;
    Ok(file)
}
