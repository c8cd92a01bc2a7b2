//! The calendar file: the files that it refuses, and its recovery after SIGKILL. The agent: two processes on
//! loopback, kills at each step of a reservation, a peer that vanishes, a partition, a full disk, clock
//! steps, hostile connections, and a PostgreSQL server that is stopped and started.

mod agents;
mod alerts;
mod applications;
mod disk;
mod fuzz_corpus;
mod hostile;
mod http;
mod killed;
mod mesh;
mod metrics;
mod opening;
mod partition;
mod postgres;
mod probes;
mod receiver;
mod recurring;
mod remote_write;
mod roles;
mod steps;
mod traces;
