//! `leafctl` at a terminal and in scripts: its commands against real servers, how it connects,
//! what it prints, and what it leaves behind. Its screens have tests beside them, in `cli/`;
//! `leafctl serve` has a binary of its own.

mod connections;
mod decode;
mod doctor;
mod interrupts;
mod manual;
mod printable;
mod status;
mod tags;
mod tls;
mod top;
