//! The background thread, which runs the tasks that use a handle's connection.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::link::Link;
use crate::{Config, Error};

/// The background thread of a handle, and the connection that its tasks use. The
/// thread ends when this is dropped, even if there are unfinished tasks. Tasks must
/// therefore not own it; they share the [`Link`].
pub(crate) struct Background {
    pub(crate) link: Arc<Link>,
    tasks: UnboundedSender<Task>,
}

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The task that closes a source or a handle.
pub(crate) trait Last: Future<Output = Result<(), Error>> + Send + 'static {}

impl<T: Future<Output = Result<(), Error>> + Send + 'static> Last for T {}

impl Background {
    /// Starts the thread. It connects with the first task that needs it.
    pub(crate) fn start(config: Config) -> Result<Background, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()?;
        let (tasks, mut received) = unbounded_channel::<Task>();
        let work = async move {
            while let Some(task) = received.recv().await {
                tokio::spawn(task);
            }
        };
        thread::Builder::new()
            .name("leaf-sdk".into())
            .spawn(move || runtime.block_on(work))?;
        Ok(Background {
            link: Arc::new(Link::new(config)),
            tasks,
        })
    }

    /// Runs a task on the thread.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        // The thread receives as long as there is this sender.
        let _ = self.tasks.send(Box::pin(task));
    }

    /// Runs a last task on the thread, and waits for its end up to the timeout.
    pub(crate) fn finish(&self, last: impl Last) -> Result<(), Error> {
        forbid_blocking_a_runtime()?;
        let after = self.link.config.timeout;
        let (done, is_done) = channel();
        self.spawn(async move {
            let _ = done.send(last.await);
        });
        let finished = is_done.recv_timeout(after);
        finished.unwrap_or(Err(Error::Timeout { after, last: None }))
    }

    /// Like [`finish`](Self::finish), asynchronous.
    #[cfg(feature = "async")]
    pub(crate) async fn finish_async(&self, last: impl Last) -> Result<(), Error> {
        let after = self.link.config.timeout;
        let (done, is_done) = tokio::sync::oneshot::channel();
        self.spawn(async move {
            let _ = done.send(last.await);
        });
        match tokio::time::timeout(after, is_done).await {
            Ok(Ok(finished)) => finished,
            Ok(Err(_)) => Err(Error::Closed),
            Err(_) => Err(Error::Timeout { after, last: None }),
        }
    }
}

/// An error if blocking this thread would block an async runtime.
pub(crate) fn forbid_blocking_a_runtime() -> Result<(), Error> {
    match tokio::runtime::Handle::try_current() {
        Ok(_) => Err(Error::WouldBlockRuntime),
        Err(_) => Ok(()),
    }
}
