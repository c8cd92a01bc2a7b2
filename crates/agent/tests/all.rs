//! The calendar file: what it refuses, and that it survives SIGKILL. The agent: two processes on loopback, kills at each step of a
//! reservation, a peer that vanishes, and hostile connections.

mod agents;
mod hostile;
mod killed;
mod mesh;
mod opening;
mod steps;
