//! The thread that speaks with the centre.
//!
//! Resolving names and connecting block, in libpq as in the C library. The loader's main thread
//! must not block: it has to answer signals at once. So the conversation has a thread of its
//! own, in which all signals are blocked and which calls nothing of PostgreSQL's server.

use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use super::centre::{Address, Centre};
use super::message::{Answer, Demand};
use crate::pg::libpq::LibPq;
use crate::shmem::upstream::Contact;

/// How often it is looked whether the centre is still connected, while nothing is asked.
const LOOK: Duration = Duration::from_secs(1);

/// The questions to the thread.
struct Questions {
    address: Address,
    demands: Vec<Demand>,
}

/// The answers of the thread.
pub enum Message {
    /// The answer to the next request.
    Answer(Box<Answer>),
    /// All were answered. With where the centre is, if it is still connected.
    End(Option<String>),
}

/// The main thread's side of the conversation.
pub struct Speaker {
    questions: Sender<Questions>,
    messages: Receiver<Message>,
    /// Readable when there are messages.
    bell: UnixStream,
}

impl Speaker {
    /// Starts the thread.
    pub fn start(pq: &'static LibPq, contact: &'static Contact) -> io::Result<Speaker> {
        let (questions, asked) = mpsc::channel();
        let (answered, messages) = mpsc::channel();
        let (bell, mut ring) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        with_signals_blocked(|| {
            thread::Builder::new()
                .name("leaf centre".into())
                .spawn(move || speak(Centre::new(pq, contact), &asked, &answered, &mut ring))
        })?;
        Ok(Speaker {
            questions,
            messages,
            bell,
        })
    }

    /// Asks. That the thread has ended, [`messages`](Self::messages) says.
    pub fn ask(&self, address: Address, demands: Vec<Demand>) {
        let _ = self.questions.send(Questions { address, demands });
    }

    /// The answers that were not fetched yet, and whether the thread has ended.
    pub fn messages(&mut self) -> (Vec<Message>, bool) {
        // Nothing to read is no fault: the bell only ends a wait.
        let has_ended = matches!(self.bell.read(&mut [0; 256]), Ok(0));
        (self.messages.try_iter().collect(), has_ended)
    }

    /// The descriptor that is readable when there are messages.
    pub fn descriptor(&self) -> i32 {
        self.bell.as_raw_fd()
    }
}

fn speak(
    mut centre: Centre,
    questions: &Receiver<Questions>,
    messages: &Sender<Message>,
    ring: &mut UnixStream,
) {
    // If the main thread has ended, so does the process.
    let mut send = |message| {
        let _ = messages.send(message);
        let _ = ring.write_all(b"!");
    };
    loop {
        let Questions { address, demands } = match questions.recv_timeout(LOOK) {
            Ok(asked) => asked,
            Err(RecvTimeoutError::Timeout) => {
                centre.look();
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        centre.ask(&address, &demands, |answer| {
            send(Message::Answer(Box::new(answer)));
        });
        send(Message::End(centre.host()));
    }
}

/// Runs `start`, whose threads do not receive signals.
fn with_signals_blocked<R>(start: impl FnOnce() -> R) -> R {
    // SAFETY: masks of this function; the old one is restored.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let result = start();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        result
    }
}
