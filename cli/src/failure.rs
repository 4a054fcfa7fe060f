//! Why a command has failed: one line for people, an exit code for scripts.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use crate::human::printable;

/// Exit codes, which a script can tell apart. `clap` exits with 2 when the command line is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Nothing has failed, but nobody reads what is printed.
    Unread = 0,
    /// The command could not be carried out.
    Failed = 1,
    /// The command line, or the environment, is wrong.
    Usage = 2,
    /// No server could be reached.
    Unreachable = 3,
    /// `doctor` has found a problem.
    Found = 4,
    /// Ended by Ctrl-C.
    Interrupted = 130,
}

/// Why a command has failed.
#[derive(Debug)]
pub struct Failure {
    code: Code,
    /// `None` if there is nothing more to say, or nobody to say it to.
    message: Option<String>,
    hint: Option<String>,
    is_of_input: bool,
    is_of_tag: bool,
    is_of_rights: bool,
}

impl Failure {
    pub fn new(code: Code, message: impl Display) -> Failure {
        Failure {
            code,
            message: Some(one_line(&message.to_string())),
            hint: None,
            is_of_input: false,
            is_of_tag: false,
            is_of_rights: false,
        }
    }

    /// The command could not be carried out.
    pub fn failed(message: impl Display) -> Failure {
        Failure::new(Code::Failed, message)
    }

    /// The command line is wrong.
    pub fn usage(message: impl Display) -> Failure {
        Failure::new(Code::Usage, message)
    }

    /// An item of the input is wrong, which is no reason to leave out the others.
    pub fn input(message: impl Display) -> Failure {
        Failure {
            is_of_input: true,
            ..Failure::failed(message)
        }
    }

    /// A failure whose message was printed already.
    pub fn silent(code: Code) -> Failure {
        Failure {
            code,
            message: None,
            hint: None,
            is_of_input: false,
            is_of_tag: false,
            is_of_rights: false,
        }
    }

    /// The way out, without a full stop.
    pub fn hint(mut self, hint: impl Display) -> Failure {
        self.hint = Some(one_line(&hint.to_string()));
        self
    }

    /// The subject of the failure, before its text.
    pub fn about(mut self, what: impl Display) -> Failure {
        self.message = self.message.map(|message| format!("{what}: {message}"));
        self
    }

    /// Whether an item of the input is wrong.
    pub fn is_of_input(&self) -> bool {
        self.is_of_input
    }

    /// Whether there is no such tag.
    pub fn is_of_tag(&self) -> bool {
        self.is_of_tag
    }

    /// Whether the role may not do it.
    pub fn is_of_rights(&self) -> bool {
        self.is_of_rights
    }

    /// Whether nothing has failed, but nobody reads what is printed.
    pub fn is_unread(&self) -> bool {
        self.code == Code::Unread
    }

    /// Whether no server could be reached.
    pub fn is_unreachable(&self) -> bool {
        self.code == Code::Unreachable
    }

    /// Whether Ctrl-C has ended it.
    pub fn is_interrupted(&self) -> bool {
        self.code == Code::Interrupted
    }

    /// The text, in one line.
    pub fn text(&self) -> String {
        let message = self.message.as_deref().unwrap_or_default();
        match &self.hint {
            Some(hint) => format!("{message}; hint: {hint}"),
            None => message.to_owned(),
        }
    }

    /// Writes the text to standard error; the exit code.
    pub fn report(&self) -> ExitCode {
        if self.message.is_some() {
            // If standard error cannot be written, nobody can be told.
            let _ = writeln!(io::stderr(), "leafctl: {}", printable(&self.text()));
        }
        ExitCode::from(self.code as u8)
    }
}

/// Texts of servers have lines, those of commands do not.
fn one_line(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    // A sentence of a server may be followed by another part.
    let line = words.join(" ").replace(".; ", "; ");
    line.trim_end_matches('.').to_owned()
}

/// SQLSTATE of a text that is not in the encoding that the client has asked for.
const CHARACTER_NOT_IN_REPERTOIRE: &str = "22021";

impl From<leaf_sdk::Error> for Failure {
    fn from(error: leaf_sdk::Error) -> Failure {
        let is_not_utf8 =
            |code: &tokio_postgres::error::SqlState| code.code() == CHARACTER_NOT_IN_REPERTOIRE;
        match &error {
            error if error.sqlstate().is_some_and(is_not_utf8) => Failure::failed(error).hint(
                "a name or text in this database is not UTF-8; \
                 find and change it with PGCLIENTENCODING=SQL_ASCII psql",
            ),
            leaf_sdk::Error::Connection(_) => Failure::new(Code::Unreachable, error),
            leaf_sdk::Error::Timeout { .. } => Failure::new(Code::Unreachable, error),
            leaf_sdk::Error::Config(message) => Failure::usage(message),
            // Their texts begin with what kind of error they are, which the command
            // has made clear.
            leaf_sdk::Error::UnknownTag(cause) => Failure {
                is_of_tag: true,
                ..Failure::failed(cause)
            },
            leaf_sdk::Error::Permission(cause) => Failure {
                is_of_rights: true,
                ..Failure::failed(cause)
            },
            leaf_sdk::Error::Exhausted(cause) => Failure::failed(cause),
            _ => Failure::failed(error),
        }
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Failure {
        leaf_sdk::Error::from(error).into()
    }
}

impl From<io::Error> for Failure {
    /// Of standard output: a reader that has seen enough, such as `head`, is no failure.
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::silent(Code::Unread),
            _ => Failure::failed(error).about("could not write to standard output"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Failure;

    #[test]
    fn failure_is_one_line_with_its_hint() {
        let failure = Failure::failed("no such\n  thing; It is gone.; or was.")
            .hint("make one.\n")
            .about("tag");
        assert_eq!(
            failure.text(),
            "tag: no such thing; It is gone; or was; hint: make one"
        );
    }
}
