//! The program `leafctl`.

use std::env;
use std::process::Command;

/// A call of `leafctl`, without variables that would lead it to a server of the machine.
pub fn leafctl() -> Command {
    let program = env::var_os("LEAF_CTL").expect("LEAF_CTL; scripts/test-server sets it");
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("PG") {
            command.env_remove(name);
        }
    }
    command.env("TZ", "UTC").env("HOME", "/nonexistent");
    command
}
