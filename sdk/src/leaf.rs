//! The handle: one connection, one thread, any number of tags.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};

use parking_lot::{Mutex, RwLock};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::calls::statement;
use crate::link::{Link, TARGET};
use crate::source::SegmentSource;
use crate::tag::{Tag, TagStats};
use crate::{Config, Error};

/// Ids at memory speed, buffered in this process and refilled in the background.
///
/// Cheap to clone: all clones share the buffers and the connection, which a
/// thread of its own looks after. Nothing connects until ids are asked for. When
/// the last clone and the last [`SegmentSource`] are dropped, the thread ends and
/// unused ids are lost; [`close`](Leaf::close) hands them back.
///
/// ```no_run
/// # fn main() -> Result<(), leaf_sdk::Error> {
/// let leaf = leaf_sdk::Leaf::new(leaf_sdk::Config::new("host=db user=shop")?)?;
/// let orders = leaf.segment("orders");
/// let id = orders.next()?;
/// # let _ = id; Ok(()) }
/// ```
#[derive(Clone)]
pub struct Leaf {
    inner: Arc<Inner>,
}

/// What ends with the last handle.
struct Inner {
    shared: Arc<Shared>,
    tasks: UnboundedSender<Task>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What tasks of the thread share with the handles.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) link: Link,
    tags: RwLock<HashMap<String, Arc<Tag>>>,
}

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Leaf {
    /// A handle that connects when ids are first asked for.
    ///
    /// # Errors
    /// [`Error::Config`] if the configuration contradicts itself,
    /// [`Error::Runtime`] if the thread cannot be started.
    ///
    /// ```
    /// # fn main() -> Result<(), leaf_sdk::Error> {
    /// let leaf = leaf_sdk::Leaf::new(leaf_sdk::Config::new("host=db user=shop")?)?;
    /// # let _ = leaf; Ok(()) }
    /// ```
    pub fn new(config: Config) -> Result<Leaf, Error> {
        config.check()?;
        let shared = Arc::new(Shared {
            link: Link::new(config.clone()),
            config,
            tags: RwLock::default(),
        });
        let (tasks, thread) = start_thread()?;
        Ok(Leaf {
            inner: Arc::new(Inner {
                shared,
                tasks,
                thread: Mutex::new(Some(thread)),
            }),
        })
    }

    /// The source of a tag's ids; the same buffers for every caller. Whether the
    /// tag exists shows with the first id.
    ///
    /// ```
    /// # fn example(leaf: &leaf_sdk::Leaf) {
    /// let orders = leaf.segment("orders");
    /// # let _ = orders; }
    /// ```
    pub fn segment(&self, tag: &str) -> SegmentSource {
        SegmentSource::new(self.clone(), self.tag(tag))
    }

    fn tag(&self, name: &str) -> Arc<Tag> {
        let tags = &self.inner.shared.tags;
        if let Some(tag) = tags.read().get(name) {
            return tag.clone();
        }
        let mut tags = tags.write();
        let new = || Arc::new(Tag::new(name));
        tags.entry(name.to_owned()).or_insert_with(new).clone()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }

    /// Has the thread run a future.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        // The thread is gone only once this handle is closed.
        let _ = self.inner.tasks.send(Box::pin(task));
    }

    /// How each tag fares in this process, by name.
    ///
    /// ```
    /// # fn example(leaf: &leaf_sdk::Leaf) {
    /// for (tag, stats) in leaf.stats() {
    ///     println!("{tag}: {} ids at hand", stats.buffered);
    /// }
    /// # }
    /// ```
    pub fn stats(&self) -> HashMap<String, TagStats> {
        let tags = self.inner.shared.tags.read();
        tags.iter()
            .map(|(name, tag)| (name.clone(), tag.stats()))
            .collect()
    }

    /// Ends all sources and hands unused ids back to the server, where nothing
    /// has been granted behind them since. Calls that wait get
    /// [`Error::Closed`], and so do all later ones.
    ///
    /// # Errors
    /// [`Error::Timeout`] if the server does not answer within the configured
    /// timeout: the ids are lost. [`Error::WouldBlockRuntime`] inside an async
    /// runtime.
    ///
    /// ```no_run
    /// # fn example(leaf: &leaf_sdk::Leaf) -> Result<(), leaf_sdk::Error> {
    /// leaf.close()?;
    /// # Ok(()) }
    /// ```
    pub fn close(&self) -> Result<(), Error> {
        self.finish(close_all(self.shared().clone()))
    }

    /// As [`close`](Leaf::close), for a task.
    ///
    /// ```no_run
    /// # async fn example(leaf: &leaf_sdk::Leaf) -> Result<(), leaf_sdk::Error> {
    /// leaf.close_async().await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "async")]
    pub async fn close_async(&self) -> Result<(), Error> {
        self.finish_async(close_all(self.shared().clone())).await
    }

    /// Has the thread do a last thing, and waits for it up to the timeout.
    pub(crate) fn finish(&self, last: impl Last) -> Result<(), Error> {
        forbid_blocking_a_runtime()?;
        let after = self.shared().config.timeout;
        let (done, is_done) = channel();
        self.spawn(async move {
            let _ = done.send(last.await);
        });
        let finished = is_done.recv_timeout(after);
        finished.unwrap_or(Err(Error::Timeout { after, last: None }))
    }

    /// As [`finish`](Leaf::finish), for a task.
    #[cfg(feature = "async")]
    pub(crate) async fn finish_async(&self, last: impl Last) -> Result<(), Error> {
        let after = self.shared().config.timeout;
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

/// What ends a handle.
pub(crate) trait Last: Future<Output = Result<(), Error>> + Send + 'static {}

impl<T: Future<Output = Result<(), Error>> + Send + 'static> Last for T {}

impl Drop for Inner {
    fn drop(&mut self) {
        // The thread ends when the channel has no sender any more; nobody waits
        // for it here, for this may be an async task.
        drop(self.thread.lock().take());
    }
}

async fn close_all(shared: Arc<Shared>) -> Result<(), Error> {
    let tags: Vec<Arc<Tag>> = shared.tags.read().values().cloned().collect();
    let mut result = Ok(());
    for tag in tags {
        for (first, last) in tag.close() {
            let name = tag.name.as_str();
            match shared
                .link
                .run(statement::segment_return(&name, &first, &last))
                .await
            {
                Ok(true) => {
                    tracing::debug!(target: TARGET, tag = name, %first, %last, "handed back")
                }
                // Others were granted ids behind these.
                Ok(false) => break,
                Err(error) => result = Err(error),
            }
        }
    }
    result
}

/// Starts the thread that runs tasks until nobody can send it any.
fn start_thread() -> Result<(UnboundedSender<Task>, JoinHandle<()>), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()?;
    let (tasks, mut to_run) = unbounded_channel::<Task>();
    let work = async move {
        while let Some(task) = to_run.recv().await {
            tokio::spawn(task);
        }
    };
    let thread = thread::Builder::new()
        .name("leaf-sdk".into())
        .spawn(move || runtime.block_on(work))?;
    Ok((tasks, thread))
}

/// An error where blocking this thread would stop an async runtime.
pub(crate) fn forbid_blocking_a_runtime() -> Result<(), Error> {
    match tokio::runtime::Handle::try_current() {
        Ok(_) => Err(Error::WouldBlockRuntime),
        Err(_) => Ok(()),
    }
}

impl From<io::Error> for Error {
    fn from(cause: io::Error) -> Self {
        Error::Runtime(Arc::new(cause))
    }
}
