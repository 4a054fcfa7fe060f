//! Settings: defining those of leaf, and setting PostgreSQL's for this process.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use pgrx::{GucContext, GucFlags, GucRegistry, GucSetting, pg_sys};

use super::{inval, report, xact};

/// Checks whether a text can be the value of a setting; the error becomes the
/// DETAIL.
pub trait Check {
    /// Checks a value.
    fn check(value: &str) -> Result<(), String>;
}

/// Defines a setting that superusers can change, for a database or in the
/// configuration file.
pub fn define_string<C: Check>(
    name: &'static CStr,
    short: &'static CStr,
    long: &'static CStr,
    setting: &'static GucSetting<Option<CString>>,
) {
    let (context, flags) = (GucContext::Suset, GucFlags::default());
    let hooks = (hook::<C> as CheckHook, Some(text_assigned as AssignHook));
    define((name, short, long), setting, (context, flags), hooks);
}

/// Defines a setting of the configuration file that only superusers can read. A value that
/// is refused is not quoted in the error, because it may be a secret.
pub fn define_hidden_string<C: Check>(
    name: &'static CStr,
    short: &'static CStr,
    long: &'static CStr,
    setting: &'static GucSetting<Option<CString>>,
) {
    let (context, flags) = (GucContext::Sighup, GucFlags::SUPERUSER_ONLY);
    define(
        (name, short, long),
        setting,
        (context, flags),
        (discreet_hook::<C>, Some(text_assigned)),
    );
}

/// A hook that checks the value of a setting.
type CheckHook = unsafe extern "C-unwind" fn(
    *mut *mut c_char,
    *mut *mut c_void,
    pg_sys::GucSource::Type,
) -> bool;

/// A hook that is called when a setting has got another value.
type AssignHook = unsafe extern "C-unwind" fn(*const c_char, *mut c_void);

fn define(
    (name, short, long): (&'static CStr, &'static CStr, &'static CStr),
    setting: &'static GucSetting<Option<CString>>,
    (context, flags): (GucContext, GucFlags),
    (check, assigned): (CheckHook, Option<AssignHook>),
) {
    // SAFETY: the hook is guarded.
    unsafe {
        GucRegistry::define_string_guc_with_hooks(
            name,
            short,
            long,
            setting,
            context,
            flags,
            Some(check),
            assigned,
            None,
        );
    }
}

/// Like [`hook`], with a message in which the value is not quoted.
unsafe extern "C-unwind" fn discreet_hook<C: Check>(
    value: *mut *mut c_char,
    extra: *mut *mut c_void,
    source: pg_sys::GucSource::Type,
) -> bool {
    // SAFETY: PostgreSQL's promises, as for `hook`.
    unsafe {
        let is_valid = hook::<C>(value, extra, source);
        if !is_valid {
            report::guarded(|| {
                let message = c"the value of this setting of leaf is refused";
                pg_sys::GUC_check_errmsg_string = pg_sys::pstrdup(message.as_ptr());
            });
        }
        is_valid
    }
}

/// The folder of the server's libraries.
pub fn library_folder() -> PathBuf {
    let mut folder = vec![0; pg_sys::MAXPGPATH as usize];
    // SAFETY: a buffer of the size that the function requires, and this program's path.
    unsafe {
        pg_sys::get_lib_path(
            (&raw const pg_sys::my_exec_path).cast(),
            folder.as_mut_ptr(),
        );
        let folder = CStr::from_ptr(folder.as_ptr());
        PathBuf::from(OsStr::from_bytes(folder.to_bytes()))
    }
}

/// PostgreSQL's form of a [`Check`].
unsafe extern "C-unwind" fn hook<C: Check>(
    value: *mut *mut c_char,
    _extra: *mut *mut c_void,
    _source: pg_sys::GucSource::Type,
) -> bool {
    // SAFETY: PostgreSQL passes a pointer to a C string or to NULL, and reads
    // the DETAIL, a C string of its own memory, when the hook returns false.
    unsafe {
        report::guarded(|| {
            if (*value).is_null() {
                return true;
            }
            let text = CStr::from_ptr(*value).to_string_lossy();
            let Err(why) = C::check(&text) else {
                return true;
            };
            let why = CString::new(why).unwrap_or_default();
            pg_sys::GUC_check_errdetail_string = pg_sys::pstrdup(why.as_ptr());
            false
        })
    }
}

/// Where a value of a setting comes from, as far as its check has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A session sets it for itself, or a role has it.
    Session,
    /// It is about to be stored, for a database, for a role or in a file.
    Stored,
    Other,
}

impl Origin {
    /// The origin, in a session of a client; `Other` elsewhere.
    pub fn of(source: pg_sys::GucSource::Type) -> Self {
        use pg_sys::GucSource::{PGC_S_CLIENT, PGC_S_FILE, PGC_S_SESSION, PGC_S_TEST, PGC_S_USER};
        // SAFETY: a plain variable of this process.
        let is_session = unsafe { pg_sys::MyBackendType } == pg_sys::BackendType::B_BACKEND;
        match source {
            PGC_S_CLIENT | PGC_S_SESSION | PGC_S_USER if is_session => Origin::Session,
            // ALTER SYSTEM checks as if the value came from the file.
            PGC_S_TEST | PGC_S_FILE if is_session && xact::is_in_transaction() => Origin::Stored,
            _ => Origin::Other,
        }
    }
}

/// Sessions compare settings of the lease when they look for the generator, not at each draw.
unsafe extern "C-unwind" fn text_assigned(_value: *const c_char, _extra: *mut c_void) {
    inval::bump();
}

/// As [`text_assigned`], for `leaf.worker_id`.
pub unsafe extern "C-unwind" fn integer_assigned(_value: c_int, _extra: *mut c_void) {
    inval::bump();
}

/// Makes PostgreSQL reject undefined settings with this prefix.
pub fn reserve_prefix(prefix: &CStr) {
    // SAFETY: a C string, which is copied.
    unsafe { pg_sys::MarkGUCPrefixReserved(prefix.as_ptr()) };
}

/// Sets a setting for this process, with precedence over database, role and file.
pub fn set(name: &CStr, value: &CStr) {
    // SAFETY: both are C strings; an unknown name or value is an error.
    unsafe {
        pg_sys::SetConfigOption(
            name.as_ptr(),
            value.as_ptr(),
            pg_sys::GucContext::PGC_SUSET,
            pg_sys::GucSource::PGC_S_SESSION,
        )
    };
}

/// The value of a setting as a text; empty if there is no such setting.
pub fn text(name: &CStr) -> String {
    // SAFETY: a C string, or null, that is copied before anything else is done.
    unsafe {
        let value = pg_sys::GetConfigOption(name.as_ptr(), true, false);
        match value.is_null() {
            true => String::new(),
            false => CStr::from_ptr(value).to_string_lossy().into_owned(),
        }
    }
}

/// The time after which a wait for a lock is given up, if one is set.
pub fn lock_timeout() -> Option<Duration> {
    // SAFETY: a plain variable of this process.
    let ms = unsafe { pg_sys::LockTimeout };
    u64::try_from(ms)
        .ok()
        .filter(|&ms| ms > 0)
        .map(Duration::from_millis)
}

/// Runs `work` with other settings, even with such that only superusers can change. If `work`
/// raises an error, the abort restores them.
pub fn with<R>(settings: &[(&CStr, &CStr)], work: impl FnOnce() -> R) -> R {
    // SAFETY: what PostgreSQL does for functions with settings of their own.
    let nest_level = unsafe {
        let nest_level = pg_sys::NewGUCNestLevel();
        for (name, value) in settings {
            pg_sys::set_config_option(
                name.as_ptr(),
                value.as_ptr(),
                pg_sys::GucContext::PGC_SUSET,
                pg_sys::GucSource::PGC_S_SESSION,
                pg_sys::GucAction::GUC_ACTION_SAVE,
                true,
                0,
                false,
            );
        }
        nest_level
    };
    let result = work();
    // SAFETY: undoes exactly what was done above.
    unsafe { pg_sys::AtEOXact_GUC(false, nest_level) };
    result
}

/// Runs `work`, whose queries are planned to read in the order of an index and to end early.
/// Without statistics, the planner takes a full table for an almost empty one, and sorts.
pub fn in_order_of_an_index<R>(work: impl FnOnce() -> R) -> R {
    let off = [c"enable_seqscan", c"enable_bitmapscan", c"enable_sort"].map(|name| (name, c"off"));
    with(&off, work)
}

/// Makes commits of this process wait at least for the local flush and for that of
/// the synchronous standby, whatever is configured. A stronger value is kept.
pub fn insist_on_durable_commits() {
    // SAFETY: a plain variable of this process.
    let level = unsafe { pg_sys::synchronous_commit };
    if (level as u32) < pg_sys::SyncCommitLevel::SYNCHRONOUS_COMMIT_REMOTE_FLUSH {
        set(c"synchronous_commit", c"on");
    }
}

/// As [`insist_on_durable_commits`], for the current transaction of a session.
pub fn insist_on_durable_commit_of_transaction() {
    // SAFETY: a plain variable of this process; the setting is undone when the
    // transaction ends.
    unsafe {
        if (pg_sys::synchronous_commit as u32)
            < pg_sys::SyncCommitLevel::SYNCHRONOUS_COMMIT_REMOTE_FLUSH
        {
            pg_sys::set_config_option(
                c"synchronous_commit".as_ptr(),
                c"on".as_ptr(),
                pg_sys::GucContext::PGC_USERSET,
                pg_sys::GucSource::PGC_S_SESSION,
                pg_sys::GucAction::GUC_ACTION_LOCAL,
                true,
                0,
                false,
            );
        }
    }
}
