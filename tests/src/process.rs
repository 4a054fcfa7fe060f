//! Processes, by their number only: never by name, because other servers run here.

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::path::Path;

/// Sends a signal. A process that is gone already is fine: it was to be hit at an
/// arbitrary moment.
pub fn signal(pid: i32, signal: Signal) {
    match kill(Pid::from_raw(pid), signal) {
        Ok(()) | Err(Errno::ESRCH) => {}
        Err(e) => panic!("kill {pid}: {e}"),
    }
}

/// Processes that are stopped, until this is dropped.
pub struct Paused(Vec<i32>);

impl Paused {
    pub fn all(processes: Vec<i32>) -> Paused {
        for &pid in &processes {
            signal(pid, Signal::SIGSTOP);
        }
        Paused(processes)
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        for &pid in &self.0 {
            signal(pid, Signal::SIGCONT);
        }
    }
}

/// State and parent of a process, from `/proc/PID/stat`; the name before them is
/// in brackets and may hold anything, so reading starts after the last bracket.
fn stat(pid: i32) -> Option<(char, i32)> {
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = line.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    Some((state, parent))
}

/// Whether a process still does anything; one that nobody has reaped does not.
pub fn alive(pid: i32) -> bool {
    stat(pid).is_some_and(|(state, _)| state != 'Z' && state != 'X')
}

/// The children of a process.
pub fn children(parent: i32) -> Vec<i32> {
    all()
        .filter(|&pid| stat(pid).is_some_and(|(_, of)| of == parent))
        .collect()
}

/// The processes whose working directory this folder is, such as those of the server
/// whose data it has.
pub fn running_in(folder: &Path) -> Vec<i32> {
    all()
        .filter(|pid| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == folder))
        .collect()
}

fn all() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}
