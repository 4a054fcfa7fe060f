//! The processor time of processes, and on which processor they run.

use std::fs;

use leaf_tests::Server;
use rustix::process::{Pid, setpriority_process};
use rustix::thread::{CpuSet, sched_setaffinity};

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

/// Gives a server a processor of its own, the first one: everything else, this process and other
/// servers, runs on the others. Not if there is only one.
pub fn isolate(server: &Server, others: &[&Server]) {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if processors == 1 {
        return;
    }
    let mut first = CpuSet::new();
    first.set(0);
    let mut rest = CpuSet::new();
    (1..processors).for_each(|number| rest.set(number));
    let bind = |pid: Option<i32>, set: &CpuSet| {
        let pid = pid.and_then(Pid::from_raw);
        sched_setaffinity(pid, set).expect("processes may be bound to a processor");
    };
    let processes = |server: &Server| server.processes();
    processes(server)
        .into_iter()
        .for_each(|pid| bind(Some(pid), &first));
    let others = others.iter().flat_map(|server| processes(server));
    others.for_each(|pid| bind(Some(pid), &rest));
    // Threads that this one starts inherit it.
    bind(None, &rest);
}

/// Lets this thread run only when no other one wants to.
pub fn step_back() {
    setpriority_process(None, 19).expect("a lower priority needs no permission");
}
