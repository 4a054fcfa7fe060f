//! Files that survive a crash of the machine. The one module of this crate that
//! does I/O: it holds no rule of leaf's, only how to make a change durable.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Writes a file so that there is the old content or the new after a crash, and
/// never a part; once this has returned, the new.
///
/// The content is first written to a file beside it, whose name has `.tmp` at
/// the end, and which a failure may leave behind. Callers that write one file
/// take turns.
///
/// # Errors
/// What kept the file from being written. The old content may have been replaced
/// by the new one if it could not be made durable.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// let path = folder.path().join("state.json");
/// leaf_core::file::write_durably(&path, b"{}")?;
/// assert_eq!(std::fs::read(&path)?, b"{}");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn write_durably(path: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = temporary(path);
    let mut file = File::create(&temporary)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    sync(folder(path))
}

/// Removes a file so that it is still gone after a crash. Where there is no such
/// file, or no such folder, nothing has to be removed.
///
/// # Errors
/// What kept the file from being removed, or its removal from becoming durable.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// let path = folder.path().join("state.json");
/// std::fs::write(&path, "{}")?;
/// leaf_core::file::remove_durably(&path)?;
/// assert!(!path.exists());
/// leaf_core::file::remove_durably(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn remove_durably(path: &Path) -> io::Result<()> {
    ignore_missing(fs::remove_file(path))?;
    // A file that is missing may have been removed by a call that failed here.
    ignore_missing(sync(folder(path)))
}

/// The name with an ending of its own, instead of another extension: files that
/// differ only in the extension do not share it.
fn temporary(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".tmp");
    PathBuf::from(name)
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
