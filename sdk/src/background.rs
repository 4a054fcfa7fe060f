//! The background thread, which runs the tasks that use a handle's connection.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use crate::link::{Link, in_time};
use crate::process::Process;
use crate::{Config, Error};

/// The background thread of a handle, and the connection that its tasks use. The
/// thread ends when this is dropped, even if there are unfinished tasks. Tasks must
/// therefore not own it; they share the [`Link`].
pub(crate) struct Background {
    pub(crate) process: Process,
    pub(crate) link: Arc<Link>,
    /// Always there, until this is dropped.
    tasks: Option<UnboundedSender<Task>>,
}

impl Drop for Background {
    /// In a child of the process, a lock of the runtime may be held for ever: nothing is
    /// released there.
    fn drop(&mut self) {
        if !self.process.is_current() {
            std::mem::forget(self.tasks.take());
        }
    }
}

/// How much longer than its timeout a caller waits for the thread, which may hang.
const MARGIN: Duration = Duration::from_secs(1);

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A task whose end a caller waits for, such as one that closes a source or a handle.
pub(crate) trait Awaited<T = ()>:
    Future<Output = Result<T, Error>> + Send + 'static
{
}

impl<T, F: Future<Output = Result<T, Error>> + Send + 'static> Awaited<T> for F {}

impl Background {
    /// Starts the thread. It connects with the first task that needs it.
    pub(crate) fn start(config: Config) -> Result<Background, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()?;
        let link = Arc::new(Link::new(config));
        let (tasks, received) = unbounded_channel();
        let work = run(received, link.clone());
        thread::Builder::new()
            .name("leaf-sdk".into())
            .spawn(move || {
                runtime.block_on(work);
                // A look-up of a name may take long and is not waited for.
                runtime.shutdown_background();
            })?;
        Ok(Background {
            process: Process::current()?,
            link,
            tasks: Some(tasks),
        })
    }

    /// Runs a task on the thread.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        // The thread receives as long as there is this sender.
        let _ = self.tasks.as_ref().map(|tasks| tasks.send(Box::pin(task)));
    }

    /// Runs a task on the thread, and waits for its end up to the timeout.
    pub(crate) fn finish<T: Send + 'static>(&self, task: impl Awaited<T>) -> Result<T, Error> {
        self.process.check()?;
        forbid_blocking_a_runtime()?;
        let after = self.link.config.timeout;
        let (done, is_done) = channel();
        self.spawn(async move {
            let _ = done.send(in_time(Some(after), caught(task)).await);
        });
        is_done
            .recv_timeout(after.saturating_add(MARGIN))
            .unwrap_or_else(|error| match error {
                RecvTimeoutError::Timeout => Err(Error::Timeout { after, last: None }),
                RecvTimeoutError::Disconnected => Err(Error::Closed),
            })
    }

    /// Like [`finish`](Self::finish), asynchronous.
    #[cfg(feature = "async")]
    pub(crate) async fn finish_async<T: Send + 'static>(
        &self,
        task: impl Awaited<T>,
    ) -> Result<T, Error> {
        self.process.check()?;
        let after = self.link.config.timeout;
        let (done, is_done) = tokio::sync::oneshot::channel();
        self.spawn(async move {
            let _ = done.send(in_time(Some(after), caught(task)).await);
        });
        match tokio::time::timeout(after.saturating_add(MARGIN), is_done).await {
            Ok(done) => done.unwrap_or(Err(Error::Closed)),
            Err(_) => Err(Error::Timeout { after, last: None }),
        }
    }
}

/// Runs tasks until there are no more senders. What is unfinished then is dropped; the
/// server is asked to cancel its statements.
async fn run(mut received: UnboundedReceiver<Task>, link: Arc<Link>) {
    let mut tasks = JoinSet::new();
    while let Some(task) = received.recv().await {
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }
    tasks.shutdown().await;
    link.finish_cancels().await;
}

/// Runs a task in which user code may panic, which is an error then.
pub(crate) async fn caught<T>(task: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let mut task = pin!(task);
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(context)));
        polled.unwrap_or_else(|panic| Poll::Ready(Err(Error::Panic(text_of(&*panic)))))
    })
    .await
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "not with a text".to_owned())
}

/// An error if blocking this thread would block an async runtime.
pub(crate) fn forbid_blocking_a_runtime() -> Result<(), Error> {
    match tokio::runtime::Handle::try_current() {
        Ok(_) => Err(Error::WouldBlockRuntime),
        Err(_) => Ok(()),
    }
}
