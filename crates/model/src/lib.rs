//! Closed forms for TCP on a path: predictions that need no run.
//!
//! Each module is one family of formulas with its sources: bandwidth-delay product and windows,
//! socket buffers and the windows that a kernel derives from them, headers on the wire, loss-throughput laws,
//! additive increase and recovery, slow start, fairness. For sweeps it has knees and the search for unknowns.
//! [`predict`] combines the formulas into the model engine's result for one flow, [`report`] into the output
//! of `longfat bdp`.
//!
//! Pure: no I/O, no clock. The formulas are for a single flow over one bottleneck, except
//! [`synchronous_shares`]; use the simulator or the lab for several flows on a link.
//!
//! ```
//! use units::Bytes;
//!
//! let rate = "10gbit".parse().unwrap();
//! let rtt = "50ms".parse().unwrap();
//! assert_eq!(model::bdp(rate, rtt), Bytes(62_500_000));
//! let utilization = model::window_utilization(Bytes(1 << 20), rate, rtt);
//! assert!((utilization - 0.0168).abs() < 0.0001);
//! ```

mod aimd;
mod buffer;
mod fairness;
mod host_cost;
mod kernel;
mod knee;
mod loss;
mod loss_period;
mod predict;
mod receive_share;
pub mod report;
mod search;
mod start;
mod super_packet;
mod sweep_knees;
mod window;
mod window_cycle;
mod window_law;
mod wire;

pub use aimd::{
    Aimd, CUBIC_BETA, CUBIC_C, cubic_recovery_time, cubic_utilization, queue_for_full_use, regain_time,
    responsiveness, sawtooth_utilization,
};
pub use buffer::{
    BufferAdvice, SEND_BUFFER_SHARE_IN_FLIGHT, SocketBuffer, buffer_advice, receive_buffer_window,
    round_up_mib, send_buffer_bps, send_buffer_window,
};
pub use fairness::{CompetingFlow, FairnessWeight, fair_increase, jain_index, synchronous_shares};
pub use host_cost::{HostCost, HostLimit, HostRole, InterruptModeration, PacketStream};
pub use kernel::{BufferDefaults, SCALING_RATIO_SINCE, buffer_defaults};
pub use knee::{Knee, knee};
pub use loss::{
    cubic_window_segs, loss_for_cubic, loss_for_reno, mathis_bps, pftk_bps, reno_window_segs,
    window_throughput_bps,
};
pub use predict::{BusyHost, ControlLaw, DeviceQueue, GoodputLimit, PathInputs, Prediction, predict};
pub use receive_share::{HALF, first_packet_segs, received_truesize, window_share};
pub use search::{SearchRange, Trial, root_mean_square, search};
pub use start::{INITIAL_WINDOW_SEGS, SlowStart, initial_window_bytes};
pub use super_packet::super_packet_segs;
pub use sweep_knees::{KneePoint, knees};
pub use window::{
    MAX_WINDOW, MAX_WINDOW_SCALE, bdp, bdp_f64, hol_throughput_share, scaled_window, throughput_bps,
    transmit_queue_packets, window_scale, window_utilization,
};
pub use wire::{
    DatagramPackets, IpVersion, Transport, datagram_goodput_bps, datagram_packets, goodput_bps, mss,
    payload_bytes,
};
