//! The processor time of processes, and who comes first.

use std::fs;

use leaf_tests::Server;
use rustix::process::setpriority_process;

/// Clock ticks in a second.
const TICKS: f64 = 100.0;

/// User and system time of a process so far, in seconds.
pub fn seconds(pid: i32) -> f64 {
    times(pid).map_or(0.0, |times| times[..2].iter().sum())
}

/// User and system time of all processes of a server so far, in seconds, also of those that have
/// ended.
pub fn seconds_of_server(server: &Server) -> f64 {
    let ended = times(server.postmaster_pid()).map_or(0.0, |times| times[2..].iter().sum());
    server.processes().into_iter().map(seconds).sum::<f64>() + ended
}

/// User and system time of a process, and of its children that have ended; `None` if it has ended.
fn times(pid: i32) -> Option<[f64; 4]> {
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = line.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut next = || Some(fields.next()?.parse::<f64>().ok()? / TICKS);
    Some([next()?, next()?, next()?, next()?])
}

/// Lets this thread run only when no other one wants to.
pub fn step_back() {
    setpriority_process(None, 19).expect("a lower priority needs no permission");
}
