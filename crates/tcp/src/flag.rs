//! Flags of the processing of an ACK, shared by the sender and the test kit.

#![allow(dead_code, reason = "the kernel's complete list")]

/// The ACK's segment carries data (`FLAG_*` of net/ipv4/tcp_input.c, as the constants below).
pub(crate) const DATA: i32 = 0x01;
pub(crate) const WIN_UPDATE: i32 = 0x02;
pub(crate) const DATA_ACKED: i32 = 0x04;
pub(crate) const RETRANS_DATA_ACKED: i32 = 0x08;
pub(crate) const SYN_ACKED: i32 = 0x10;
pub(crate) const DATA_SACKED: i32 = 0x20;
pub(crate) const ECE: i32 = 0x40;
pub(crate) const LOST_RETRANS: i32 = 0x80;
pub(crate) const SLOWPATH: i32 = 0x100;
pub(crate) const ORIG_SACK_ACKED: i32 = 0x200;
pub(crate) const SND_UNA_ADVANCED: i32 = 0x400;
pub(crate) const DSACKING_ACK: i32 = 0x800;
pub(crate) const SET_XMIT_TIMER: i32 = 0x1000;
pub(crate) const SACK_RENEGING: i32 = 0x2000;
pub(crate) const ACK_MAYBE_DELAYED: i32 = 0x10000;
pub(crate) const DSACK_TLP: i32 = 0x20000;
pub(crate) const ACKED: i32 = DATA_ACKED | SYN_ACKED;
pub(crate) const NOT_DUP: i32 = DATA | WIN_UPDATE | ACKED;
pub(crate) const CA_ALERT: i32 = DATA_SACKED | ECE | DSACKING_ACK;
pub(crate) const FORWARD_PROGRESS: i32 = ACKED | DATA_SACKED;

/// The ACK took the slow path (flags of `in_ack_event`: `enum tcp_ca_ack_event_flags`, include/net/tcp.h).
pub(crate) const CA_ACK_SLOWPATH: u32 = 1;
/// The ACK updated the window.
pub(crate) const CA_ACK_WIN_UPDATE: u32 = 2;
/// The ACK carries ECE.
pub(crate) const CA_ACK_ECE: u32 = 4;
