//! PostgreSQL's client library, loaded at run time by the process that needs it: neither
//! the postmaster nor a build of leaf depends on it.

use std::cell::Cell;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::{self, NonNull};

use leaf_core::standby::says_unconfirmed;
use libloading::Library;

/// The library's name, without a folder.
const NAME: &str = "libpq.so.5";

macro_rules! functions {
    ($($name:ident: fn($($arg:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of the library that are used.
        #[allow(non_snake_case)]
        struct Functions {
            $($name: unsafe extern "C" fn($($arg),*) $(-> $result)?,)*
        }

        impl Functions {
            fn find(library: &Library) -> Result<Self, libloading::Error> {
                // SAFETY: the types are those of libpq-fe.h, which never change.
                unsafe {
                    Ok(Functions {
                        $($name: *library.get(stringify!($name).as_bytes())?,)*
                    })
                }
            }
        }
    };
}

type Conn = *mut c_void;
type Result_ = *mut c_void;
type NoticeReceiver = unsafe extern "C" fn(*mut c_void, Result_);

functions! {
    PQconninfoParse: fn(*const c_char, *mut *mut c_char) -> *mut ConnInfoOption;
    PQconninfo: fn(Conn) -> *mut ConnInfoOption;
    PQconninfoFree: fn(*mut ConnInfoOption);
    PQfreemem: fn(*mut c_void);
    PQconnectdbParams: fn(*const *const c_char, *const *const c_char, c_int) -> Conn;
    PQstatus: fn(Conn) -> c_int;
    PQerrorMessage: fn(Conn) -> *const c_char;
    PQhost: fn(Conn) -> *const c_char;
    PQport: fn(Conn) -> *const c_char;
    PQfinish: fn(Conn);
    PQsetNoticeReceiver: fn(Conn, NoticeReceiver, *mut c_void) -> *mut c_void;
    PQsocket: fn(Conn) -> c_int;
    PQsetnonblocking: fn(Conn, c_int) -> c_int;
    PQenterPipelineMode: fn(Conn) -> c_int;
    PQsendQueryParams: fn(Conn, *const c_char, c_int, *const u32, *const *const c_char, *const c_int, *const c_int, c_int) -> c_int;
    PQpipelineSync: fn(Conn) -> c_int;
    PQflush: fn(Conn) -> c_int;
    PQconsumeInput: fn(Conn) -> c_int;
    PQisBusy: fn(Conn) -> c_int;
    PQgetResult: fn(Conn) -> Result_;
    PQresultStatus: fn(Result_) -> c_int;
    PQresultErrorField: fn(Result_, c_int) -> *const c_char;
    PQresultErrorMessage: fn(Result_) -> *const c_char;
    PQntuples: fn(Result_) -> c_int;
    PQnfields: fn(Result_) -> c_int;
    PQgetvalue: fn(Result_, c_int, c_int) -> *const c_char;
    PQclear: fn(Result_);
}

/// `PQconninfoOption`.
#[repr(C)]
struct ConnInfoOption {
    keyword: *const c_char,
    envvar: *const c_char,
    compiled: *const c_char,
    value: *const c_char,
    label: *const c_char,
    dispchar: *const c_char,
    dispsize: c_int,
}

/// The library. Never unloaded: a thread may be in it when the process ends.
pub struct LibPq(Functions);

impl LibPq {
    /// Loads the library: from the server's own folder of libraries if it is there.
    pub fn load(folder: &Path) -> Result<&'static LibPq, String> {
        let own = folder.join(NAME);
        let places: [&OsStr; 2] = [own.as_os_str(), OsStr::new(NAME)];
        let mut cause = String::new();
        for place in places {
            // SAFETY: PostgreSQL's own library, whose initialisation is harmless.
            let found = unsafe { Library::new(place) };
            match found.and_then(|library| Ok((Functions::find(&library)?, library))) {
                Ok((functions, library)) => {
                    std::mem::forget(library);
                    return Ok(Box::leak(Box::new(LibPq(functions))));
                }
                Err(error) => cause = error.to_string(),
            }
        }
        Err(format!("could not load libpq: {cause}"))
    }

    /// The options in a connection string that are set; `None` if it is not valid. The
    /// library's message is left out, because it quotes parts of the string.
    pub fn parse(&self, conninfo: &str) -> Option<Vec<(String, String)>> {
        let conninfo = CString::new(conninfo).ok()?;
        // SAFETY: a C string; what the library allocates is freed by it.
        unsafe {
            let mut message = ptr::null_mut();
            let options = (self.0.PQconninfoParse)(conninfo.as_ptr(), &raw mut message);
            if !message.is_null() {
                (self.0.PQfreemem)(message.cast());
            }
            self.take_options(options)
        }
    }

    /// # Safety
    /// `options` must be null, or from the library and not be used again.
    unsafe fn take_options(&self, options: *mut ConnInfoOption) -> Option<Vec<(String, String)>> {
        // SAFETY: an array that ends with a null keyword.
        unsafe {
            let mut next = NonNull::new(options)?.as_ptr();
            let mut all = Vec::new();
            while !(*next).keyword.is_null() {
                if !(*next).value.is_null() {
                    all.push((text((*next).keyword), text((*next).value)));
                }
                next = next.add(1);
            }
            (self.0.PQconninfoFree)(options);
            Some(all)
        }
    }

    /// Connects, which takes as long as the options allow. Later options take precedence; the
    /// value of `dbname` is a connection string. Check [`Connection::is_ok`] then.
    pub fn connect(&'static self, options: &[(&str, &str)]) -> Option<Connection> {
        let c_strings = |part: fn(&(&str, &str)) -> CString| -> Vec<CString> {
            options.iter().map(part).collect()
        };
        let keywords = c_strings(|(keyword, _)| CString::new(*keyword).unwrap_or_default());
        let values = c_strings(|(_, value)| CString::new(*value).unwrap_or_default());
        let pointers = |strings: &[CString]| -> Vec<*const c_char> {
            let pointers = strings.iter().map(|string| string.as_ptr());
            pointers.chain([ptr::null()]).collect()
        };
        let (keys, vals) = (pointers(&keywords), pointers(&values));
        // SAFETY: two arrays of C strings that end with a null pointer.
        let conn = unsafe { (self.0.PQconnectdbParams)(keys.as_ptr(), vals.as_ptr(), 1) };
        let conn = NonNull::new(conn)?;
        let notices = Box::new(Notices {
            pq: self,
            is_unconfirmed: Cell::new(false),
        });
        let receiver_arg = (&raw const *notices).cast_mut().cast();
        // SAFETY: what the receiver gets lives as long as the connection.
        unsafe { (self.0.PQsetNoticeReceiver)(conn.as_ptr(), receive_notice, receiver_arg) };
        Some(Connection {
            pq: self,
            conn,
            notices,
        })
    }
}

/// A connection, or the attempt to make one.
pub struct Connection {
    pq: &'static LibPq,
    conn: NonNull<c_void>,
    notices: Box<Notices>,
}

/// Facts that the library tells in notices only.
struct Notices {
    pq: &'static LibPq,
    /// That no standby has confirmed a commit, because somebody has cancelled the wait for it.
    is_unconfirmed: Cell<bool>,
}

/// # Safety
/// `notices` must be the [`Notices`] of the connection, and `notice` a result of it.
unsafe extern "C" fn receive_notice(notices: *mut c_void, notice: Result_) {
    // SAFETY: the caller's promise; the text is copied.
    unsafe {
        let notices = &*notices.cast::<Notices>();
        let routine = text((notices.pq.0.PQresultErrorField)(
            notice,
            PG_DIAG_SOURCE_FUNCTION,
        ));
        if says_unconfirmed(&routine) {
            notices.is_unconfirmed.set(true);
        }
    }
}

/// The result of a statement in a pipeline.
#[derive(Debug)]
pub enum Outcome {
    /// The rows. NULL is an empty text.
    Rows(Vec<Vec<String>>),
    /// An error, with its SQLSTATE; empty if the connection is lost.
    Error { code: String, message: String },
    /// The end of what was sent before a synchronisation point, and whether its commit can be
    /// relied on: it may be lost in a failover if somebody has cancelled the wait for the standby.
    Sync { is_confirmed: bool },
}

const CONNECTION_OK: c_int = 0;
const PGRES_TUPLES_OK: c_int = 2;
const PGRES_PIPELINE_SYNC: c_int = 10;
const PG_DIAG_SQLSTATE: c_int = b'C' as c_int;
const PG_DIAG_SOURCE_FUNCTION: c_int = b'R' as c_int;

impl Connection {
    fn conn(&self) -> Conn {
        self.conn.as_ptr()
    }

    /// Whether it is connected.
    pub fn is_ok(&self) -> bool {
        // SAFETY: a connection of the library.
        unsafe { (self.pq.0.PQstatus)(self.conn()) == CONNECTION_OK }
    }

    /// The last error.
    pub fn error(&self) -> String {
        // SAFETY: as above; the text is copied.
        unsafe { text((self.pq.0.PQerrorMessage)(self.conn())) }
            .trim()
            .to_owned()
    }

    /// The host and the port that it is connected to, or was to be.
    pub fn host_and_port(&self) -> (String, String) {
        // SAFETY: as above.
        unsafe {
            (
                text((self.pq.0.PQhost)(self.conn())),
                text((self.pq.0.PQport)(self.conn())),
            )
        }
    }

    /// The options in use, with those of the service file and the environment.
    pub fn options(&self) -> Vec<(String, String)> {
        // SAFETY: as above.
        unsafe {
            let options = (self.pq.0.PQconninfo)(self.conn());
            self.pq.take_options(options).unwrap_or_default()
        }
    }

    /// Makes calls return at once, and begins a pipeline.
    pub fn begin_pipeline(&self) -> bool {
        // SAFETY: as above.
        unsafe {
            (self.pq.0.PQsetnonblocking)(self.conn(), 1) == 0
                && (self.pq.0.PQenterPipelineMode)(self.conn()) == 1
        }
    }

    /// Adds a statement with its parameters to the pipeline, and a synchronisation point, so
    /// that it fails alone.
    pub fn send(&self, statement: &str, parameters: &[&str]) -> bool {
        let texts = parameters.iter().map(|text| CString::new(*text));
        let (Ok(statement), Ok(texts)) = (
            CString::new(statement),
            texts.collect::<Result<Vec<_>, _>>(),
        ) else {
            return false;
        };
        let pointers: Vec<_> = texts.iter().map(|text| text.as_ptr()).collect();
        // SAFETY: C strings, as many as are declared; all in text format.
        unsafe {
            (self.pq.0.PQsendQueryParams)(
                self.conn(),
                statement.as_ptr(),
                pointers.len() as c_int,
                ptr::null(),
                pointers.as_ptr(),
                ptr::null(),
                ptr::null(),
                0,
            ) == 1
                && (self.pq.0.PQpipelineSync)(self.conn()) == 1
        }
    }

    /// The socket.
    pub fn socket(&self) -> c_int {
        // SAFETY: as above.
        unsafe { (self.pq.0.PQsocket)(self.conn()) }
    }

    /// Sends what the socket takes. `Ok(true)` if that was everything.
    pub fn flush(&self) -> Result<bool, String> {
        // SAFETY: as above.
        match unsafe { (self.pq.0.PQflush)(self.conn()) } {
            0 => Ok(true),
            1 => Ok(false),
            _ => Err(self.error()),
        }
    }

    /// Reads what the socket has.
    pub fn read(&self) -> Result<(), String> {
        // SAFETY: as above.
        match unsafe { (self.pq.0.PQconsumeInput)(self.conn()) } {
            1 => Ok(()),
            _ => Err(self.error()),
        }
    }

    /// The next result that has arrived; `None` if there is none yet.
    pub fn next(&self) -> Option<Outcome> {
        let mut was_end = false;
        // SAFETY: as above; a result is cleared before the next is fetched.
        unsafe {
            while (self.pq.0.PQisBusy)(self.conn()) == 0 {
                let result = (self.pq.0.PQgetResult)(self.conn());
                if result.is_null() {
                    // The end of a statement; twice, the end of the pipeline.
                    if std::mem::replace(&mut was_end, true) {
                        return None;
                    }
                    continue;
                }
                let outcome = self.outcome(result);
                (self.pq.0.PQclear)(result);
                return Some(outcome);
            }
        }
        None
    }

    /// # Safety
    /// `result` must be of this connection, and not be cleared.
    unsafe fn outcome(&self, result: Result_) -> Outcome {
        let pq = &self.pq.0;
        // SAFETY: the caller's promise; texts are copied.
        unsafe {
            match (pq.PQresultStatus)(result) {
                PGRES_PIPELINE_SYNC => Outcome::Sync {
                    is_confirmed: !self.notices.is_unconfirmed.take(),
                },
                PGRES_TUPLES_OK => {
                    let (rows, columns) = ((pq.PQntuples)(result), (pq.PQnfields)(result));
                    let value = |row, column| text((pq.PQgetvalue)(result, row, column));
                    let row = |row| (0..columns).map(|column| value(row, column)).collect();
                    Outcome::Rows((0..rows).map(row).collect())
                }
                _ => Outcome::Error {
                    code: text((pq.PQresultErrorField)(result, PG_DIAG_SQLSTATE)),
                    message: text((pq.PQresultErrorMessage)(result)).trim().to_owned(),
                },
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: not used again.
        unsafe { (self.pq.0.PQfinish)(self.conn()) };
    }
}

/// # Safety
/// Null or a C string.
unsafe fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    /// Longer than anything that is expected: more is not what was asked for.
    const LONGEST: usize = 8_000;
    // SAFETY: the caller's promise.
    let bytes = unsafe { CStr::from_ptr(pointer) }.to_bytes();
    String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST)]).into_owned()
}
