//! Points that reserve with each other over a simulated network.

mod agreement;
mod day;
mod faults;
mod load;
mod simulation;
