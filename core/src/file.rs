//! Files that survive a crash of the machine. The only module of this crate that
//! does I/O: it contains no rule of leaf's, only the steps that make a change durable.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The content of a file that has at most `most` bytes; `None` if there is none. Reads nothing but
/// regular files: anything else may have no end, or not even a beginning.
///
/// # Errors
/// Why the file could not be read, or that it is another kind of file, or larger.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// let path = folder.path().join("state.json");
/// assert_eq!(leaf_core::file::read_small(&path, 2)?, None);
/// std::fs::write(&path, "{}")?;
/// assert_eq!(leaf_core::file::read_small(&path, 2)?.as_deref(), Some(b"{}".as_slice()));
/// assert!(leaf_core::file::read_small(&path, 1).is_err());
/// assert!(leaf_core::file::read_small(folder.path(), 2).is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn read_small(path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    // Before it is opened, for which a pipe waits.
    let found = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        found => found?,
    };
    if !found.is_file() {
        return Err(io::Error::other("this is not a regular file"));
    }
    let mut content = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut content)?;
    match content.len() as u64 <= most {
        true => Ok(Some(content)),
        false => Err(io::Error::other(format!(
            "the file has more than {most} bytes"
        ))),
    }
}

/// Writes a file so that it has either the old or the new content after a crash,
/// never a part of it. Once this function has returned, it has the new content.
///
/// The content is first written to a file in the same folder, with the number of the process and
/// `.tmp` appended to the name; a crash can leave this file behind. Of processes that write the same
/// file at the same time, the last one prevails; the threads of one process must not.
///
/// # Errors
/// Why the file could not be written. If only the last step failed, which makes the
/// change durable, the new content may already be in place.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// let path = folder.path().join("state.json");
/// leaf_core::file::write_durably(&path, b"{}")?;
/// assert_eq!(std::fs::read(&path)?, b"{}");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn write_durably(path: &Path, content: &[u8]) -> io::Result<()> {
    write_with_mode(path, content, 0o666)
}

/// Like [`write_durably`], for what no other user may read.
///
/// # Errors
/// The errors of [`write_durably`].
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # use std::os::unix::fs::MetadataExt;
/// let path = folder.path().join("secret.json");
/// leaf_core::file::write_secret_durably(&path, b"{}")?;
/// assert_eq!(std::fs::metadata(&path)?.mode() & 0o077, 0);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn write_secret_durably(path: &Path, content: &[u8]) -> io::Result<()> {
    write_with_mode(path, content, 0o600)
}

fn write_with_mode(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let temporary = temporary(path);
    let write = || {
        // A file that is there already has another mode, and may be another user's.
        ignore_missing(fs::remove_file(&temporary))?;
        let mut options = File::options();
        let options = options.write(true).create_new(true);
        let mut file = options.mode(mode).open(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    if let Err(error) = write() {
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    sync(folder(path))
}

/// Appends to a file, which is made if there is none, so that it has the new content after a crash. If
/// that fails, or at a crash, it may have a part of it.
///
/// # Errors
/// Why the file could not be written.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// let path = folder.path().join("journal");
/// leaf_core::file::append_durably(&path, b"a")?;
/// leaf_core::file::append_durably(&path, b"b")?;
/// assert_eq!(std::fs::read(&path)?, b"ab");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn append_durably(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = File::options().append(true).create(true).open(path)?;
    file.write_all(content)?;
    file.sync_all()?;
    sync(folder(path))
}

/// Removes a file so that it is still gone after a crash. If there is no such
/// file, or no such folder, the call succeeds.
///
/// # Errors
/// Why the file could not be removed, or its removal could not be made durable.
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
    // If the file is missing, an earlier call may have removed it and failed here.
    ignore_missing(sync(folder(path)))
}

/// The name with `.tmp` appended. It does not replace the extension, because files
/// that differ only in the extension would then share the temporary file, as would processes without
/// their numbers.
fn temporary(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(format!(".{}.tmp", std::process::id()));
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
