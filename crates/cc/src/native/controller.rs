//! The congestion control of one socket, written in C, behind the trait of `tcp`.

#![allow(unsafe_code)]

use super::loaded_copy::{LoadedCopy, Table, built_in};
use super::runtime::{Call, RawOperations, rust_name};
use std::rc::Rc;
use tcp::{AckSample, CaEvent, CaState, CongestionControl, Operation, RateSample, TcpSock};

/// A native congestion control of one socket.
///
/// It holds the state of the socket that is not in [`TcpSock`]: its random numbers and its SK_STORAGE.
#[derive(Debug)]
pub struct Controller {
    operations: RawOperations,
    /// `cong_control` takes `(sk, rs)` as before Linux 6.10.
    short_cong_control: bool,
    call: Box<Call>,
    library: Rc<LoadedCopy>,
    /// Libraries that the socket used before a switch: its storage may belong to their maps.
    previous: Vec<Rc<LoadedCopy>>,
    name: String,
}

impl Drop for Controller {
    fn drop(&mut self) {
        // SAFETY: copies that are still loaded allocated the storage with the C library's allocator.
        unsafe { (self.library.free_storage)(&mut *self.call) };
    }
}

impl Controller {
    pub(super) fn new(library: Rc<LoadedCopy>, table: Table) -> Controller {
        let Table { raw: operations, short_cong_control } = table;
        let call = Box::new(Call {
            now_ns: 0,
            random: 0,
            storage: std::ptr::null_mut(),
            congestion: operations.name,
            changed: 0,
            changing: 0,
            ack_wanted: 0,
            ack_rcv_nxt: 0,
        });
        Controller {
            operations,
            short_cong_control,
            call,
            library,
            previous: Vec::new(),
            name: rust_name(&operations.name),
        }
    }

    /// Seeds the socket's random numbers (`bpf_get_prandom_u32`).
    pub fn set_seed(&mut self, seed: u64) {
        self.call.random = seed;
    }

    /// Sets the copy's current call and time.
    #[inline]
    fn enter(&mut self, sk: &TcpSock) {
        self.call.now_ns = sk.tcp_clock_cache;
        // SAFETY: the copy's variable; the call's address is stable while the controller lives, and every
        // call sets it.
        unsafe { (*self.library.runtime).call = &mut *self.call };
    }

    /// After a call: switches the socket to another algorithm if the call requested it.
    #[inline]
    fn leave(&mut self, sk: &mut TcpSock) {
        if self.call.changed != 0 {
            self.change(sk);
        }
    }

    /// Switches as the kernel does on `setsockopt` of TCP_CONGESTION: release, clear the private area, init.
    #[cold]
    fn change(&mut self, sk: &mut TcpSock) {
        self.call.changed = 0;
        let name = self.call.congestion;
        let same_library = self.library.by_kernel_name(&name);
        let target =
            same_library.map(|o| (self.library.clone(), o)).or_else(|| built_in(&name, &self.library));
        let Some((library, table)) = target else { return };
        self.call.changing = 1;
        self.release(sk);
        self.previous.push(std::mem::replace(&mut self.library, library));
        self.operations = table.raw;
        self.short_cong_control = table.short_cong_control;
        self.name = rust_name(&name);
        sk.icsk_ca_priv = [0; 13];
        self.init(sk);
        self.call.changing = 0;
    }
}

impl Controller {
    /// `cong_control` of a file that was written for kernels before 6.10.
    fn call_short_cong_control(&mut self, sk: &mut TcpSock, sample: &RateSample) {
        type Full = unsafe extern "C" fn(*mut TcpSock, u32, i32, *const RateSample);
        type Short = unsafe extern "C" fn(*mut TcpSock, *const RateSample);
        let Some(function) = self.operations.cong_control else { return };
        self.enter(sk);
        // SAFETY: the inspection of the object found a function with this signature; otherwise as for
        // `call!`.
        unsafe { std::mem::transmute::<Full, Short>(function)(sk, sample) };
        self.leave(sk);
    }
}

/// Calls an operation if it is set, with the socket's time and storage.
macro_rules! call {
    ($self:ident, $sk:ident, $operation:ident ($($argument:expr),*)) => {{
        let function = $self.operations.$operation;
        function.map(|function| {
            $self.enter($sk);
            // SAFETY: the function's signature was checked when the object was built; the socket is borrowed
            // mutably and has the layout that the object was compiled with; the copy is loaded while
            // `library` lives.
            let result = unsafe { function($sk $(, $argument)*) };
            $self.leave($sk);
            result
        })
    }};
}

impl CongestionControl for Controller {
    fn name(&self) -> &str {
        &self.name
    }

    fn flags(&self) -> u32 {
        self.operations.flags
    }

    fn has(&self, operation: Operation) -> bool {
        let o = &self.operations;
        match operation {
            Operation::Ssthresh => o.ssthresh.is_some(),
            Operation::CongAvoid => o.cong_avoid.is_some(),
            Operation::SetState => o.set_state.is_some(),
            Operation::CwndEvent => o.cwnd_event.is_some() || o.cwnd_event_tx_start.is_some(),
            Operation::InAckEvent => o.in_ack_event.is_some(),
            Operation::PktsAcked => o.pkts_acked.is_some(),
            Operation::MinTsoSegs => o.min_tso_segs.is_some(),
            Operation::CongControl => o.cong_control.is_some(),
            Operation::UndoCwnd => o.undo_cwnd.is_some(),
            Operation::SndbufExpand => o.sndbuf_expand.is_some(),
            Operation::Init => o.init.is_some(),
            Operation::Release => o.release.is_some(),
        }
    }

    fn init(&mut self, sk: &mut TcpSock) {
        call!(self, sk, init());
    }

    fn release(&mut self, sk: &mut TcpSock) {
        call!(self, sk, release());
    }

    fn ssthresh(&mut self, sk: &mut TcpSock) -> u32 {
        call!(self, sk, ssthresh()).unwrap_or(sk.snd_ssthresh)
    }

    fn cong_avoid(&mut self, sk: &mut TcpSock, ack: u32, acked: u32) {
        call!(self, sk, cong_avoid(ack, acked));
    }

    fn set_state(&mut self, sk: &mut TcpSock, new_state: CaState) {
        call!(self, sk, set_state(new_state as u8));
    }

    fn cwnd_event(&mut self, sk: &mut TcpSock, event: CaEvent) {
        // As in newer kernels; older ones do not have this member.
        if event == CaEvent::TxStart && self.operations.cwnd_event_tx_start.is_some() {
            call!(self, sk, cwnd_event_tx_start());
            return;
        }
        call!(self, sk, cwnd_event(event as u32));
    }

    fn in_ack_event(&mut self, sk: &mut TcpSock, flags: u32) {
        call!(self, sk, in_ack_event(flags));
    }

    fn pkts_acked(&mut self, sk: &mut TcpSock, sample: &AckSample) {
        call!(self, sk, pkts_acked(sample));
    }

    fn min_tso_segs(&mut self, sk: &mut TcpSock) -> u32 {
        call!(self, sk, min_tso_segs()).unwrap_or(0)
    }

    fn cong_control(&mut self, sk: &mut TcpSock, ack: u32, flag: i32, sample: &RateSample) {
        if self.short_cong_control {
            return self.call_short_cong_control(sk, sample);
        }
        call!(self, sk, cong_control(ack, flag, sample));
    }

    fn undo_cwnd(&mut self, sk: &mut TcpSock) -> u32 {
        call!(self, sk, undo_cwnd()).unwrap_or(sk.snd_cwnd)
    }

    fn sndbuf_expand(&mut self, sk: &mut TcpSock) -> u32 {
        call!(self, sk, sndbuf_expand()).unwrap_or(0)
    }

    fn take_ack_request(&mut self) -> Option<u32> {
        let wanted = std::mem::take(&mut self.call.ack_wanted) != 0;
        wanted.then_some(self.call.ack_rcv_nxt)
    }
}
