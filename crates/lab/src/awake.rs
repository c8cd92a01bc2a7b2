//! Keeps the machine's idle processors awake while packets are on the way.
//!
//! A program that waits for a packet runs when its processor has woken. On a virtual machine an idle one is halted, and to call
//! it takes the hypervisor 10 to 50 us; on others it takes what the idle state's exit does, up to 200 us. Beside that delay
//! the caller pays: here waking the receiver of each frame was a fifth of the emulator's thread at 25 Gb/s.
//!
//! What is asked of /dev/cpu_dma_latency (Linux: Documentation/power/pm_qos_interface.rst) holds while the file is open, so
//! nothing of it remains however this process ends.

use std::{
    fs::{self, File},
    io::{self, Write},
};

/// Longest exit from an idle state that is asked for, us: that of the lightest state that saves power.
const LIGHT: i32 = 2;
/// Where every state halts a processor of a virtual machine: none, idle processors poll.
const NONE: i32 = 0;

/// The request, while there is one.
#[derive(Debug, Default)]
pub(crate) struct Awake {
    request: Option<File>,
    /// It was refused: only root may ask.
    refused: bool,
}

impl Awake {
    /// Keeps processors awake from now on, or no more.
    pub(crate) fn keep(&mut self, awake: bool) {
        if !awake {
            self.request = None;
        } else if self.request.is_none() && !self.refused {
            self.request = ask().ok();
            self.refused = self.request.is_none();
        }
    }
}

/// Asks for as long as the file is open.
pub(crate) fn ask() -> io::Result<File> {
    let mut file = File::options().write(true).open("/dev/cpu_dma_latency")?;
    let driver = fs::read_to_string("/sys/devices/system/cpu/cpuidle/current_driver").unwrap_or_default();
    let latency = if driver.trim() == "haltpoll" { NONE } else { LIGHT };
    file.write_all(&latency.to_ne_bytes())?;
    Ok(file)
}
