//! A real terminal, in which a program runs: tmux.

use std::process::Command;

use tempfile::TempDir;

use crate::wait_until;

/// A terminal with a program; dropped, both are gone.
pub struct Terminal {
    folder: TempDir,
}

impl Terminal {
    /// Starts what a shell makes of `line`, with these variables. When it ends, its exit code
    /// is shown as `exit N`.
    pub fn start(line: &str, variables: &[(&str, &str)], width: u16, height: u16) -> Terminal {
        let folder = tempfile::tempdir().expect("a folder");
        let terminal = Terminal { folder };
        let mut command = terminal.tmux(&["-f", "/dev/null", "new-session", "-d"]);
        for (name, value) in variables {
            command.arg("-e").arg(format!("{name}={value}"));
        }
        let size = [width.to_string(), height.to_string()];
        command.args(["-x", &size[0], "-y", &size[1]]);
        // It stays when the program has ended.
        command.arg(format!("{line}; echo exit $?; exec cat"));
        let done = command.output().expect("tmux runs");
        assert!(done.status.success(), "{done:?}");
        terminal
    }

    /// What it shows.
    pub fn screen(&self) -> String {
        let output = self.tmux(&["capture-pane", "-p"]).output();
        let output = output.expect("tmux runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Types keys, as tmux names them.
    pub fn keys(&self, keys: &[&str]) {
        let done = self.tmux(&["send-keys"]).args(keys).status();
        assert!(done.expect("tmux runs").success());
    }

    pub fn resize(&self, width: u16, height: u16) {
        let size = [width.to_string(), height.to_string()];
        let arguments = ["resize-window", "-x", &size[0], "-y", &size[1]];
        let done = self.tmux(&arguments).status();
        assert!(done.expect("tmux runs").success());
    }

    /// Waits until it shows a text.
    #[track_caller]
    pub fn wait_for(&self, text: &str) -> String {
        let mut screen = String::new();
        let what = format!("the terminal shows \"{text}\"");
        wait_until(&what, || {
            screen = self.screen();
            screen.contains(text)
        });
        screen
    }

    /// The process of the shell in it.
    pub fn pid(&self) -> i32 {
        let output = self.tmux(&["list-panes", "-F", "#{pane_pid}"]).output();
        let output = output.expect("tmux runs");
        let text = String::from_utf8_lossy(&output.stdout);
        text.trim().parse().expect("a process")
    }

    fn tmux(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command
            .arg("-u")
            .arg("-S")
            .arg(self.folder.path().join("tmux"))
            .env_remove("TMUX")
            .env("LC_ALL", "C.UTF-8")
            .args(arguments);
        command
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]).output();
    }
}
