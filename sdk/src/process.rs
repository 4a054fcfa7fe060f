//! Whether this still is the process in which something was created.

use std::io;

use forkguard::atfork::Guard;

use crate::Error;

/// The process in which a handle was created.
///
/// A child made by `fork` has a copy of the buffers, of the lease and of the
/// connections, but not of the background thread: it would issue the same ids as its
/// parent. The C library counts forks in the child; comparing costs one load.
#[derive(Clone, Debug)]
pub(crate) struct Process(Guard);

impl Process {
    /// The current process.
    pub(crate) fn current() -> Result<Process, Error> {
        match Guard::try_new() {
            Ok(guard) => Ok(Process(guard)),
            Err(error) => {
                let code = error.code().get();
                Err(io::Error::from_raw_os_error(code).into())
            }
        }
    }

    /// Whether it is the current process.
    #[inline]
    pub(crate) fn is_current(&self) -> bool {
        // The guard would remember a fork, which must be detected for ever.
        !self.0.clone().detected_fork()
    }

    /// An error if it is not the current process.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.is_current() {
            true => Ok(()),
            false => Err(Error::Forked),
        }
    }
}
