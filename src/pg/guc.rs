//! String settings that are checked when they are set.

use std::ffi::{CStr, CString, c_char, c_void};

use pgrx::{GucContext, GucFlags, GucRegistry, GucSetting, pg_sys};

use super::call;

/// Says whether a text can be the value of a setting; the error becomes the
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
    // SAFETY: the hook is guarded.
    unsafe {
        GucRegistry::define_string_guc_with_hooks(
            name,
            short,
            long,
            setting,
            GucContext::Suset,
            GucFlags::default(),
            Some(hook::<C>),
            None,
            None,
        );
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
        call::guarded(|| {
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
