//! The operating-system account that servers run under.

use nix::unistd::{Gid, Uid, User};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// `postgres` where the tests run as root, otherwise nobody else.
fn account() -> Option<(Uid, Gid)> {
    if !Uid::effective().is_root() {
        return None;
    }
    let user = User::from_name("postgres")
        .expect("the list of accounts is readable")
        .expect("root needs an account named postgres to run servers as");
    Some((user.uid, user.gid))
}

/// A command that runs under the servers' account. It starts in `/`, because that
/// account may be unable to enter the folder the tests run in, and knows nothing
/// of a server which the environment points to.
pub fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir("/").env("LC_ALL", "C");
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("PG")) {
        command.env_remove(name);
    }
    if let Some((uid, gid)) = account() {
        command.uid(uid.as_raw()).gid(gid.as_raw());
    }
    command
}

/// Hands a folder to the servers' account, closed to all others, as the server
/// wants its data to be.
pub fn give(folder: &Path) {
    if let Some((uid, gid)) = account() {
        chown(folder, Some(uid.as_raw()), Some(gid.as_raw())).expect("chown");
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).expect("chmod");
}

/// Runs a command to its end; panics with its output if it fails.
pub fn run(command: &mut Command) {
    let output = command
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
