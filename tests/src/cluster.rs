//! Data folders. `initdb` takes a second and copying its result a fraction, so each
//! server starts from a copy of a template that is made once per machine.

use crate::account::{command, give, run};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;

/// The programs of the server under test.
pub fn bindir() -> PathBuf {
    std::env::var_os("LEAF_PG_BINDIR")
        .expect("LEAF_PG_BINDIR names the programs of a PostgreSQL that has leaf; use `make test`")
        .into()
}

/// The programs of the server at which upgrades begin: of an older version if
/// `LEAF_PG_BINDIR_OLD` names them, otherwise of the same.
pub fn old_bindir() -> PathBuf {
    let old = std::env::var_os("LEAF_PG_BINDIR_OLD").filter(|old| !old.is_empty());
    old.map_or_else(bindir, PathBuf::from)
}

/// The folder in which all servers have theirs.
pub fn home() -> PathBuf {
    let home = std::env::var_os("LEAF_TEST_DIR").map_or_else(
        || {
            let user = nix::unistd::Uid::effective();
            std::env::temp_dir().join(format!("leaf-tests-{user}"))
        },
        PathBuf::from,
    );
    fs::create_dir_all(&home).expect("a folder for servers");
    fs::set_permissions(&home, fs::Permissions::from_mode(0o755)).expect("chmod");
    static ONCE: Once = Once::new();
    ONCE.call_once(|| spread(&home));
    home
}

/// Has ext4 put each folder made in this one elsewhere on the disk (`chattr +T`).
/// Otherwise the thousand files of a new server lie where those of the last one were
/// removed just now, and ext4, which reuses no inode so soon, looks at all of these
/// for each new file: half a second for each server. Other file systems refuse the
/// flag and do not need it.
fn spread(home: &Path) {
    let _ = Command::new("chattr").arg("+T").arg(home).output();
}

/// Copies the template of the server under test to `data`, which does not exist yet.
pub fn copy_template(data: &Path) {
    run(Command::new("cp").arg("-a").arg(template()).arg(data));
}

/// Makes a new cluster in `data`, with a system identifier of its own; all copies
/// of the template share one. It has checksums, because those of PostgreSQL 18 do
/// and an upgrade keeps what there is.
pub fn init(bindir: &Path, data: &Path) {
    fs::create_dir_all(data).expect("a data folder");
    give(data);
    run(command(&bindir.join("initdb"))
        .arg("-D")
        .arg(data)
        .args("-k -U postgres -A trust -E UTF8 --no-locale --no-sync".split(' ')));
}

/// The template of the server under test.
fn template() -> PathBuf {
    let version = Command::new(bindir().join("postgres"))
        .arg("--version")
        .output()
        .expect("LEAF_PG_BINDIR has a program postgres");
    let name: String = String::from_utf8_lossy(&version.stdout)
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || *c == '.')
        .collect();
    let template = home().join(format!("template-{name}"));

    // Several test programs may come here at once.
    let lock = File::create(home().join("template.lock")).expect("a lock file");
    lock.lock().expect("a file lock");
    if !template.exists() {
        let unfinished = home().join("template.new");
        let _ = fs::remove_dir_all(&unfinished);
        init(&bindir(), &unfinished);
        fs::rename(&unfinished, &template).expect("rename");
    }
    template
}
