//! Settings that are whole numbers.

use std::ffi::{CStr, c_int, c_void};

use pgrx::{GucContext, GucFlags, GucRegistry, GucSetting, pg_sys};

use crate::pg::guc;

/// A setting and all its properties.
pub struct Integer {
    pub name: &'static CStr,
    /// The description, as a sentence.
    pub short: &'static CStr,
    /// The meaning of its values, and the effect of one that is too low or too high.
    pub long: &'static CStr,
    pub default: GucSetting<i32>,
    pub min: i32,
    pub max: i32,
    pub changed_by: ChangedBy,
    pub unit: Unit,
}

/// The unit of the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Ids, tags or percent: PostgreSQL has no unit for them.
    None,
    Milliseconds,
    Seconds,
}

/// PostgreSQL's form of the check of a value.
pub type CheckHook =
    unsafe extern "C-unwind" fn(*mut c_int, *mut *mut c_void, pg_sys::GucSource::Type) -> bool;

/// Who can change a setting, and how.
#[derive(Clone, Copy, Debug)]
pub enum ChangedBy {
    /// The configuration file, at a restart.
    Restart,
    /// The configuration file, at a reload.
    Reload,
    /// As `Reload`, and superusers for a database. Only the loader reads it: in a session it
    /// has no effect, which its check says.
    Loader(CheckHook),
    /// As `Reload`, and superusers: for a session, a role or a database.
    Superuser,
    /// Any role, for a session.
    Anybody,
}

impl Integer {
    /// The current value of a setting that cannot be negative.
    pub fn get_unsigned(&self) -> u64 {
        assert!(self.min >= 0, "{:?}: get_optional", self.name);
        self.get_optional().unwrap_or(0)
    }

    /// The current value; `None` if it is negative, which stands for none, any or off.
    pub fn get_optional(&self) -> Option<u64> {
        u64::try_from(self.default.get()).ok()
    }

    /// Defines the setting in PostgreSQL.
    pub fn define(&'static self) {
        let unit = match self.unit {
            Unit::None => GucFlags::default(),
            Unit::Milliseconds => GucFlags::UNIT_MS,
            Unit::Seconds => GucFlags::UNIT_S,
        };
        let context = match self.changed_by {
            ChangedBy::Restart => GucContext::Postmaster,
            ChangedBy::Reload => GucContext::Sighup,
            ChangedBy::Loader(_) | ChangedBy::Superuser => GucContext::Suset,
            ChangedBy::Anybody => GucContext::Userset,
        };
        let (check, assigned): (pg_sys::GucIntCheckHook, pg_sys::GucIntAssignHook) =
            match self.changed_by {
                ChangedBy::Loader(check) => (Some(check), Some(guc::integer_assigned)),
                _ => (None, None),
            };
        // SAFETY: the hook is guarded.
        unsafe {
            GucRegistry::define_int_guc_with_hooks(
                self.name,
                self.short,
                self.long,
                &self.default,
                self.min,
                self.max,
                context,
                unit,
                check,
                assigned,
                None,
            );
        }
    }
}
