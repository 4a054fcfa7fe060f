//! The connections of a handle: few, made when they are needed, and replaced when they
//! break.
//!
//! A statement has a connection to itself, so that one that waits for a lock delays no
//! other. Most of the time there is one connection; there are more while several
//! statements are executed at once.
//!
//! - [`session`]: one connection.
//! - [`connection`]: one for a program's own statements.
//! - [`stream`]: the bytes of a connection.

#[cfg(feature = "async")]
mod connection;
mod session;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::task::JoinSet;
use tokio_postgres::error::SqlState;

use crate::calls::statement::Statement;
use crate::connection::Needs;
use crate::events::TARGET;
use crate::{Config, Error};

#[cfg(feature = "async")]
pub use connection::Connection;
pub(crate) use session::{Session, in_time};

/// The most connections. There is one as long as statements do not have to wait; the others are
/// for the time in which some do, for example because a tag is locked, so that other tags are
/// not delayed.
const CONNECTIONS: usize = 4;

/// How long a request to cancel may take, at most. A pooler passes it on only when the
/// server accepts connections again.
const CANCEL_LIMIT: Duration = Duration::from_secs(30);

/// The connections.
pub(crate) struct Link {
    pub(crate) config: Config,
    /// Connections on which no statement is being executed, the last used one last.
    free: Mutex<Vec<Arc<Session>>>,
    /// One for each connection that may exist.
    permits: Semaphore,
    /// One for each connection that statements may use that have failed before: the
    /// others are left to those that have not.
    permits_to_repeat: Semaphore,
    /// One connection is made at a time. Guards why the last attempt failed, if it did.
    connecting: tokio::sync::Mutex<Option<Error>>,
    /// The address of the last connection.
    address: Mutex<Option<String>>,
    /// Told when a connection is to another address than the one before.
    moved: Notify,
    /// Whether the server answered the last time, and why not.
    reached: Mutex<Option<Result<(), String>>>,
    /// Requests to cancel that are under way.
    cancels: Mutex<JoinSet<()>>,
}

impl Link {
    /// A link that connects with the first query.
    pub(crate) fn new(config: Config) -> Self {
        Link {
            config,
            free: Mutex::default(),
            permits: Semaphore::new(CONNECTIONS),
            permits_to_repeat: Semaphore::new(CONNECTIONS / 2),
            connecting: tokio::sync::Mutex::default(),
            address: Mutex::default(),
            moved: Notify::new(),
            reached: Mutex::default(),
            cancels: Mutex::default(),
        }
    }

    /// Executes a statement, or fails within the time allowed for it.
    ///
    /// A statement that is given up, because its time is over or because the caller is
    /// gone, is cancelled at the server, and its connection is closed.
    pub(crate) async fn query<T>(&self, statement: Statement<T>) -> Result<T, Error> {
        self.query_in_session(statement, false)
            .await
            .map(|(answer, _)| answer)
    }

    /// Like [`query`](Self::query); returns the session, too. `is_repeated` if the same
    /// statement has failed before.
    pub(crate) async fn query_in_session<T>(
        &self,
        statement: Statement<T>,
        is_repeated: bool,
    ) -> Result<(T, Arc<Session>), Error> {
        let _to_repeat = match is_repeated {
            true => Some(permit(&self.permits_to_repeat).await?),
            false => None,
        };
        let _permit = permit(&self.permits).await?;
        let session = self.session().await;
        if let Err(error) = &session {
            *self.reached.lock() = Some(Err(error.to_string()));
        }
        let session = session?;
        let answer = self.execute(&session, statement).await;
        let answer = match has_no_function(&answer) {
            true => answer.map_err(older_version(self.execute(&session, version()).await)),
            false => answer,
        };
        // Whether there are functions or procedures is asked again, by another session.
        if !session.is_closed() && !is_given_up(&answer) && !has_no_function(&answer) {
            self.free.lock().push(session.clone());
        }
        Ok((answer?, session))
    }

    /// Connects, unless there is a connection.
    pub(crate) async fn reach(&self) -> Result<(), Error> {
        let _permit = permit(&self.permits).await?;
        let session = self.session().await;
        *self.reached.lock() = Some(match &session {
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        });
        self.free.lock().push(session?);
        Ok(())
    }

    /// Like [`query`](Self::query), in a certain session.
    pub(crate) async fn query_in<T>(
        &self,
        session: &Arc<Session>,
        statement: Statement<T>,
    ) -> Result<T, Error> {
        self.execute(session, statement).await
    }

    async fn execute<T>(
        &self,
        session: &Arc<Session>,
        statement: Statement<T>,
    ) -> Result<T, Error> {
        let limit = Some(self.config.query_timeout);
        let alone = in_time(limit, async { Ok(session.alone.lock().await) }).await?;
        let mut running = Running {
            link: self,
            session: Some(session),
        };
        let answer = in_time(limit, session.query(statement)).await;
        // Another error than these is an answer, too.
        *self.reached.lock() = Some(match &answer {
            Err(error @ (Error::Timeout { .. } | Error::Connection(_))) => Err(error.to_string()),
            _ => Ok(()),
        });
        if !is_given_up(&answer) {
            running.session = None;
        }
        drop(running);
        drop(alone);
        answer
    }

    /// A connection that is free, or a new one. Those who wait for an attempt to
    /// connect that fails get its error, instead of repeating it one after the other.
    async fn session(&self) -> Result<Arc<Session>, Error> {
        if let Some(session) = self.free_session() {
            return Ok(session);
        }
        let (mut failure, has_waited) = match self.connecting.try_lock() {
            Ok(failure) => (failure, false),
            Err(_) => (self.connecting.lock().await, true),
        };
        if let Some(session) = self.free_session() {
            return Ok(session);
        }
        if let Some(error) = failure.as_ref().filter(|_| has_waited) {
            return Err(error.clone());
        }
        let connected =
            Session::connect(&self.config, self.config.targets.needs.max(Needs::Primary)).await;
        *failure = connected.as_ref().err().cloned();
        let session = connected?;
        let before = self.address.lock().replace(session.address());
        if before.is_some_and(|before| before != session.address()) {
            self.moved.notify_one();
        }
        Ok(Arc::new(session))
    }

    /// Waits for a connection to another address than the one before.
    pub(crate) async fn moved(&self) {
        self.moved.notified().await;
    }

    fn free_session(&self) -> Option<Arc<Session>> {
        let mut free = self.free.lock();
        free.retain(|session| !session.is_closed());
        free.pop()
    }

    /// Asks the server to cancel what a session is doing, and closes it.
    fn give_up(&self, session: Arc<Session>) {
        self.free.lock().retain(|free| !Arc::ptr_eq(free, &session));
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let mut cancels = self.cancels.lock();
        while cancels.try_join_next().is_some() {}
        let cancel = async move {
            if let Err(error) = in_time(Some(CANCEL_LIMIT), session.cancel()).await {
                tracing::debug!(target: TARGET, %error, "could not cancel a statement");
            }
            session.close();
        };
        cancels.spawn_on(cancel, &runtime);
    }

    /// Closes a connection that has not been needed lately: the one that was not used
    /// for the longest time, if there are several. One whose session may still have to
    /// return ids stays.
    pub(crate) fn close_surplus(&self) {
        let mut free = self.free.lock();
        let is_surplus = |session: &Arc<Session>| Arc::strong_count(session) == 1;
        if free.len() > 1
            && let Some(surplus) = free.iter().position(is_surplus)
        {
            free.remove(surplus);
        }
    }

    /// Closes the connections that are free.
    pub(crate) fn disconnect(&self) {
        self.free.lock().clear();
    }

    /// Whether the server answered the last time that it was asked and the connection is open, and
    /// why not.
    pub(crate) fn reached(&self) -> Option<Result<(), String>> {
        let reached = self.reached.lock().clone();
        let free = self.free.lock();
        let has_ended = !free.is_empty() && free.iter().all(|session| session.is_closed());
        match reached {
            Some(Ok(())) if has_ended => Some(Err("the connection has ended".to_owned())),
            reached => reached,
        }
    }

    /// Waits until nothing is being cancelled any more.
    pub(crate) async fn finish_cancels(&self) {
        let mut cancels = std::mem::take(&mut *self.cancels.lock());
        while cancels.join_next().await.is_some() {}
    }

    /// The pauses between attempts: they double, with jitter, and never end.
    pub(crate) fn pauses(&self) -> impl Iterator<Item = Duration> + use<> {
        let (shortest, longest) = self.config.retry;
        ExponentialBuilder::new()
            .with_min_delay(shortest)
            .with_max_delay(longest)
            .with_jitter()
            .without_max_times()
            .build()
    }
}

/// Waits for a permit; the semaphores are never closed.
async fn permit(semaphore: &Semaphore) -> Result<SemaphorePermit<'_>, Error> {
    semaphore.acquire().await.map_err(|_| Error::Closed)
}

/// Whether the answer did not come in time.
fn is_given_up<T>(answer: &Result<T, Error>) -> bool {
    matches!(answer, Err(Error::Timeout { .. }))
}

/// Whether the database has no such function, or a procedure instead.
fn has_no_function<T>(answer: &Result<T, Error>) -> bool {
    let codes = [&SqlState::UNDEFINED_FUNCTION, &SqlState::WRONG_OBJECT_TYPE];
    let code = answer.as_ref().err().and_then(Error::sqlstate);
    code.is_some_and(|code| codes.contains(&code))
}

/// The version of the extension in the database.
fn version() -> Statement<Vec<Option<String>>> {
    let of_leaf = "(SELECT extversion AS answer FROM pg_catalog.pg_extension \
                     WHERE extname OPERATOR(pg_catalog.=) 'leaf') AS leaf";
    Statement::select(of_leaf, Vec::new())
}

/// The numbers of a version, to be compared.
fn numbers(version: &str) -> Vec<u64> {
    let numbers = version.split(['.', '-']).map_while(|it| it.parse().ok());
    numbers.collect()
}

/// What a missing function means in a database with this version.
fn older_version(installed: Result<Vec<Option<String>>, Error>) -> impl FnOnce(Error) -> Error {
    const OWN: &str = env!("CARGO_PKG_VERSION");
    let installed = installed.ok().and_then(|mut found| found.pop()?);
    move |error| match installed {
        Some(installed) if numbers(&installed) < numbers(OWN) => Error::Config(format!(
            "the database has version {installed} of leaf, and this program {OWN}; {error}; update the database \
             first: install leaf {OWN}, restart the server, and execute ALTER EXTENSION leaf UPDATE",
        )),
        _ => error,
    }
}

/// A statement that a session is executing. If this is dropped with the session, the
/// statement is given up.
struct Running<'a> {
    link: &'a Link,
    session: Option<&'a Arc<Session>>,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(session) = self.session {
            self.link.give_up(session.clone());
        }
    }
}
