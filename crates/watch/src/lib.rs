//! What the kernel tells about our own TCP sockets: one `getsockopt` each for TCP_INFO and SO_MEMINFO.
//!
//! Fields that an older kernel's shorter `tcp_info` has not are `None`.

mod socket;
mod tcp_info;

pub use socket::{read_receiver, read_sender, tcp_info};
pub use tcp_info::TcpInfo;
