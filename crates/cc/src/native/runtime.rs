//! The interface between this program and a native congestion control: mirrors of `shim/native/runtime.h` and
//! of `struct tcp_congestion_ops`. Tests compare them with the compiler's layout.

use std::ffi::c_void;
use tcp::{AckSample, Operation, RateSample, TcpSock};

/// `struct lf_call`: the context of calls for one socket.
#[derive(Debug)]
#[repr(C)]
pub struct Call {
    pub now_ns: u64,
    pub random: u64,
    pub storage: *mut c_void,
    pub congestion: [u8; 16],
    pub changed: u32,
    pub changing: u32,
    pub ack_wanted: u32,
    pub ack_rcv_nxt: u32,
}

/// `struct lf_runtime`: one copy of a shared object.
#[derive(Debug)]
#[repr(C)]
pub struct Runtime {
    pub call: *mut Call,
    pub jiffies: u64,
    pub jiffy_start_ns: u64,
    pub jiffy_ns: u64,
    pub known: *const [u8; 16],
    pub known_count: u64,
}

/// `struct lf_module`: a built-in congestion control that implements functions of a kernel module.
#[derive(Debug)]
#[repr(C)]
pub struct Module {
    pub operations: *const RawOperations,
    pub runtime: *mut Runtime,
}

/// The algorithms of `longfat_modules` in native/kernel_functions.c, in its order.
pub const MODULES: [&str; 3] = ["cubic", "bbr", "dctcp"];

/// `struct tcp_congestion_ops` of `shim/vmlinux.h`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct RawOperations {
    pub ssthresh: Option<unsafe extern "C" fn(*mut TcpSock) -> u32>,
    pub cong_avoid: Option<unsafe extern "C" fn(*mut TcpSock, u32, u32)>,
    pub set_state: Option<unsafe extern "C" fn(*mut TcpSock, u8)>,
    pub cwnd_event: Option<unsafe extern "C" fn(*mut TcpSock, u32)>,
    pub cwnd_event_tx_start: Option<unsafe extern "C" fn(*mut TcpSock)>,
    pub in_ack_event: Option<unsafe extern "C" fn(*mut TcpSock, u32)>,
    pub pkts_acked: Option<unsafe extern "C" fn(*mut TcpSock, *const AckSample)>,
    pub min_tso_segs: Option<unsafe extern "C" fn(*mut TcpSock) -> u32>,
    pub cong_control: Option<unsafe extern "C" fn(*mut TcpSock, u32, i32, *const RateSample)>,
    pub undo_cwnd: Option<unsafe extern "C" fn(*mut TcpSock) -> u32>,
    pub sndbuf_expand: Option<unsafe extern "C" fn(*mut TcpSock) -> u32>,
    pub get_info: Option<unsafe extern "C" fn()>,
    pub name: [u8; 16],
    pub key: u32,
    pub flags: u32,
    pub init: Option<unsafe extern "C" fn(*mut TcpSock)>,
    pub release: Option<unsafe extern "C" fn(*mut TcpSock)>,
}

/// Offset of the member of an operation.
pub fn offset(operation: Operation) -> u64 {
    (match operation {
        Operation::Ssthresh => std::mem::offset_of!(RawOperations, ssthresh),
        Operation::CongAvoid => std::mem::offset_of!(RawOperations, cong_avoid),
        Operation::SetState => std::mem::offset_of!(RawOperations, set_state),
        Operation::CwndEvent => std::mem::offset_of!(RawOperations, cwnd_event),
        Operation::InAckEvent => std::mem::offset_of!(RawOperations, in_ack_event),
        Operation::PktsAcked => std::mem::offset_of!(RawOperations, pkts_acked),
        Operation::MinTsoSegs => std::mem::offset_of!(RawOperations, min_tso_segs),
        Operation::CongControl => std::mem::offset_of!(RawOperations, cong_control),
        Operation::UndoCwnd => std::mem::offset_of!(RawOperations, undo_cwnd),
        Operation::SndbufExpand => std::mem::offset_of!(RawOperations, sndbuf_expand),
        Operation::Init => std::mem::offset_of!(RawOperations, init),
        Operation::Release => std::mem::offset_of!(RawOperations, release),
    }) as u64
}

/// Offset of `get_info`, which BPF congestion controls may not set.
pub const GET_INFO_OFFSET: u64 = std::mem::offset_of!(RawOperations, get_info) as u64;

/// Offset of the member that newer kernels call instead of `cwnd_event` for CA_EVENT_TX_START.
pub const TX_START_OFFSET: u64 = std::mem::offset_of!(RawOperations, cwnd_event_tx_start) as u64;

/// Offsets of the members that point to functions.
pub fn pointer_offsets() -> impl Iterator<Item = u64> {
    Operation::ALL.into_iter().map(offset).chain([TX_START_OFFSET, GET_INFO_OFFSET])
}

/// Converts a name to a C array: at most 15 bytes, padded with zeros.
pub fn c_name(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    let length = name.len().min(15);
    bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
    bytes
}

/// Converts a C array to a name.
pub fn rust_name(bytes: &[u8; 16]) -> String {
    let length = bytes.iter().position(|b| *b == 0).unwrap_or(16);
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}
