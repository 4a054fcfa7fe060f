//! A function call as PostgreSQL makes it. An SQL function is written like this:
//!
//! ```ignore
//! sql_functions!(leaf_tag_drop);
//!
//! /// Removes a tag.
//! fn leaf_tag_drop(call: Call) {
//!     tags::drop(args::tag(call.text(0)))
//! }
//! ```
//!
//! [`sql_functions`] exports the symbol of that name that `sql/` declares, and turns
//! errors and panics into PostgreSQL errors. The function reads its arguments from
//! the [`Call`], by their position and with the types that SQL declares, and returns
//! a type that implements [`Returns`]: `()` for `void`, a number, a
//! [`Record`](super::rows::Record), `None` for NULL.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::time::Duration;

use leaf_core::Run;
use leaf_core::time::WallTime;
use pgrx::datum::RangeBound;
use pgrx::{FromDatum, IntoDatum, pg_sys};

use super::{clock, datum};

/// A value as PostgreSQL passes it.
pub use pgrx::pg_sys::Datum;

/// The bit of a call site's pointer that is set if the argument is a constant.
const CONSTANT: usize = 1;

/// The state of a call site between the calls of one execution.
pub struct Site<T: 'static> {
    /// The value that was left there.
    pub value: &'static T,
    /// Whether the argument cannot change and does not have to be compared.
    pub is_constant: bool,
}

/// The call of a version-1 function.
#[derive(Clone, Copy)]
pub struct Call<'call> {
    pub(super) info: pg_sys::FunctionCallInfo,
    lifetime: PhantomData<&'call ()>,
}

impl<'call> Call<'call> {
    /// # Safety
    /// `fcinfo` is what PostgreSQL gave the function, and `'call` ends before the
    /// call returns. The arguments are read as the types that SQL declares.
    #[inline(always)]
    pub unsafe fn new(fcinfo: pg_sys::FunctionCallInfo) -> Self {
        Call {
            info: fcinfo,
            lifetime: PhantomData,
        }
    }

    /// Whether the function is called in FROM, and not in an expression.
    pub fn is_in_from_clause(self) -> bool {
        // SAFETY: null, or a node that describes how a set is returned. To a function that
        // returns none, only FROM passes one; and only FROM prefers sets that are whole.
        unsafe {
            let result = (*self.info).resultinfo;
            if result.is_null() || (*result).type_ != pg_sys::NodeTag::T_ReturnSetInfo {
                return false;
            }
            let modes = (*result.cast::<pg_sys::ReturnSetInfo>()).allowedModes as u32;
            !(*(*self.info).flinfo).fn_retset
                || modes & pg_sys::SetFunctionReturnMode::SFRM_Materialize_Preferred != 0
        }
    }

    /// An argument of a strict function.
    ///
    /// # Safety
    /// The function is strict and has that argument.
    #[inline(always)]
    pub unsafe fn strict_arg(self, number: usize) -> Datum {
        // SAFETY: the caller's promise.
        unsafe { (*(*self.info).args.as_ptr().add(number)).value }
    }

    /// How many arguments there are.
    pub fn args(self) -> usize {
        // SAFETY: `info` is valid during the call.
        unsafe { (*self.info).nargs as usize }
    }

    /// An argument; `None` for NULL.
    fn arg(self, number: usize) -> Option<Datum> {
        assert!(number < self.args(), "SQL declares fewer arguments");
        // SAFETY: there are at least `number` + 1 arguments; see `new`.
        let arg = unsafe { *(*self.info).args.as_ptr().add(number) };
        (!arg.isnull).then_some(arg.value)
    }

    /// An argument of type `text`.
    pub fn text(self, number: usize) -> Option<&'call [u8]> {
        // SAFETY: its type is what SQL declares; it lives as long as the call.
        self.arg(number).map(|datum| unsafe { datum::text(datum) })
    }

    /// An argument of type `bytea`.
    pub fn bytea(self, number: usize) -> Option<&'call [u8]> {
        self.text(number)
    }

    /// An argument of type `name`.
    pub fn name(self, number: usize) -> Option<&'call CStr> {
        // SAFETY: as in `text`; a name is a C string.
        self.arg(number)
            .map(|datum| unsafe { CStr::from_ptr(datum.cast_mut_ptr()) })
    }

    /// An argument of type `boolean`.
    pub fn boolean(self, number: usize) -> Option<bool> {
        self.arg(number).map(|datum| datum.value() & 0xff != 0)
    }

    /// An argument of type `integer`.
    pub fn integer(self, number: usize) -> Option<i32> {
        self.arg(number).map(|datum| datum.value() as i32)
    }

    /// An argument of type `oid` or `regclass`.
    pub fn oid(self, number: usize) -> Option<pg_sys::Oid> {
        self.arg(number)
            .map(|datum| pg_sys::Oid::from(datum.value() as u32))
    }

    /// An argument of type `bigint`.
    pub fn bigint(self, number: usize) -> Option<i64> {
        self.arg(number).map(|datum| datum.value() as i64)
    }

    /// An argument of type `text[]`.
    pub fn texts(self, number: usize) -> Option<Vec<Option<&'call [u8]>>> {
        let elements = self.elements(number, pg_sys::TEXTOID, -1, b'i')?;
        // SAFETY: as in `text`; the elements are parts of the array, or copied.
        let text = |datum| unsafe { datum::text(datum) };
        Some(elements.into_iter().map(|it| it.map(text)).collect())
    }

    /// An argument of type `bigint[]`.
    pub fn bigints(self, number: usize) -> Option<Vec<Option<i64>>> {
        let elements = self.elements(number, pg_sys::INT8OID, 8, b'd')?;
        let bigint = |datum: Datum| datum.value() as i64;
        Some(elements.into_iter().map(|it| it.map(bigint)).collect())
    }

    /// An argument of type `boolean[]`.
    pub fn booleans(self, number: usize) -> Option<Vec<Option<bool>>> {
        let elements = self.elements(number, pg_sys::BOOLOID, 1, b'c')?;
        let boolean = |datum: Datum| datum.value() & 0xff != 0;
        Some(elements.into_iter().map(|it| it.map(boolean)).collect())
    }

    /// The elements of an array, of any number of dimensions, with their type, its length and
    /// its alignment.
    fn elements(
        self,
        number: usize,
        kind: pg_sys::Oid,
        length: i32,
        alignment: u8,
    ) -> Option<Vec<Option<Datum>>> {
        let array = self.arg(number)?;
        let (mut values, mut nulls, mut count) = (std::ptr::null_mut(), std::ptr::null_mut(), 0);
        // SAFETY: an array of that type, as SQL declares; as many values and nulls as counted.
        unsafe {
            let array = pg_sys::pg_detoast_datum(array.cast_mut_ptr());
            pg_sys::deconstruct_array(
                array.cast(),
                kind,
                length,
                length > 0,
                alignment as _,
                &raw mut values,
                &raw mut nulls,
                &raw mut count,
            );
            let at = |i: usize| (!*nulls.add(i)).then(|| *values.add(i));
            Some((0..count as usize).map(at).collect())
        }
    }

    /// An argument of type `int8range`: its bounds, of which the lower one is inclusive and
    /// the upper one is not. A bound that is missing is `None`; an empty range ends where it
    /// begins.
    pub fn bigint_range(self, number: usize) -> Option<std::ops::Range<Option<i64>>> {
        let datum = self.arg(number)?;
        // SAFETY: as in `text`.
        let range = unsafe { pgrx::Range::<i64>::from_datum(datum, false)? };
        Some(match range.into_inner() {
            None => Some(0)..Some(0),
            Some((lower, upper)) => lower.get().copied()..upper.get().copied(),
        })
    }

    /// An argument of type `timestamptz`.
    pub fn timestamp(self, number: usize) -> Option<WallTime> {
        self.bigint(number).map(clock::from_timestamp)
    }

    /// An argument of type `uuid`.
    pub fn uuid(self, number: usize) -> Option<[u8; 16]> {
        // SAFETY: as in `text`; a uuid is 16 bytes.
        self.arg(number)
            .map(|datum| unsafe { *datum.cast_mut_ptr::<[u8; 16]>() })
    }

    /// An argument of type `interval`.
    pub fn interval(self, number: usize) -> Option<Interval> {
        self.arg(number).map(|datum| {
            // SAFETY: as in `text`.
            let interval = unsafe { &*datum.cast_mut_ptr::<pg_sys::Interval>() };
            Interval {
                months: interval.month,
                days: interval.day,
                us: interval.time,
            }
        })
    }

    /// The value that [`set_site`](Self::set_site) left at this call site in the current
    /// execution.
    ///
    /// # Safety
    /// The function keeps nothing but values of `T` there.
    #[inline(always)]
    pub unsafe fn site<T>(self) -> Option<Site<T>> {
        // SAFETY: `flinfo` is valid during the call.
        let kept = unsafe { (*(*self.info).flinfo).fn_extra };
        let value = kept.map_addr(|address| address & !CONSTANT).cast::<T>();
        // SAFETY: null, or what `set_site` was given.
        unsafe { value.as_ref() }.map(|value| Site {
            value,
            is_constant: kept.addr() & CONSTANT != 0,
        })
    }

    /// Leaves a value at this call site for the rest of the execution, and whether
    /// argument `arg` is a constant of the query. Does not allocate.
    ///
    /// # Safety
    /// As [`site`](Self::site).
    pub unsafe fn set_site<T>(self, value: &'static T, arg: usize) {
        const { assert!(align_of::<T>() > CONSTANT) };
        let mark = if self.arg_is_constant(arg) {
            CONSTANT
        } else {
            0
        };
        let kept = std::ptr::from_ref(value)
            .cast_mut()
            .map_addr(|address| address | mark);
        // SAFETY: `flinfo` is valid during the call.
        unsafe { (*(*self.info).flinfo).fn_extra = kept.cast() };
    }

    /// Whether an argument is a constant of the query. A parameter is not, because
    /// PL/pgSQL changes parameters between the executions of one call site.
    fn arg_is_constant(self, number: usize) -> bool {
        // SAFETY: `fn_expr` is null or the expression node of this call.
        unsafe {
            let expression = (*(*self.info).flinfo).fn_expr;
            if expression.is_null() || (*expression).type_ != pg_sys::NodeTag::T_FuncExpr {
                return false;
            }
            let args = (*expression.cast::<pg_sys::FuncExpr>()).args;
            if args.is_null() || number >= (*args).length as usize {
                return false;
            }
            let node = (*(*args).elements.add(number))
                .ptr_value
                .cast::<pg_sys::Node>();
            (*node).type_ == pg_sys::NodeTag::T_Const
        }
    }

    /// Makes the function return NULL.
    pub(super) fn null(self) -> Datum {
        // SAFETY: `info` is valid during the call.
        unsafe { (*self.info).isnull = true };
        Datum::from(0)
    }
}

/// An `interval`.
#[derive(Clone, Copy, Debug)]
pub struct Interval {
    months: i32,
    days: i32,
    us: i64,
}

impl Interval {
    /// Its length; `None` if it is negative, too long, or contains months, because
    /// their length depends on the calendar.
    pub fn length(self) -> Option<Duration> {
        let days_us = i64::from(self.days).checked_mul(86_400_000_000)?;
        let us = u64::try_from(self.us.checked_add(days_us)?).ok()?;
        (self.months == 0).then_some(Duration::from_micros(us))
    }
}

/// A type that an SQL function can return.
pub trait Returns {
    /// The value for PostgreSQL, in the current memory context.
    fn returned(self, call: Call<'_>) -> Datum;
}

impl Returns for Datum {
    fn returned(self, _call: Call<'_>) -> Datum {
        self
    }
}

impl Returns for () {
    fn returned(self, _call: Call<'_>) -> Datum {
        Datum::from(0)
    }
}

impl Returns for i64 {
    fn returned(self, _call: Call<'_>) -> Datum {
        Datum::from(self)
    }
}

impl Returns for i32 {
    fn returned(self, _call: Call<'_>) -> Datum {
        Datum::from(self)
    }
}

/// A `timestamptz`.
impl Returns for WallTime {
    fn returned(self, _call: Call<'_>) -> Datum {
        Datum::from(clock::to_timestamp(self))
    }
}

impl Returns for bool {
    fn returned(self, _call: Call<'_>) -> Datum {
        Datum::from(self)
    }
}

/// An `oid` or `regclass`.
impl Returns for pg_sys::Oid {
    fn returned(self, _call: Call<'_>) -> Datum {
        Datum::from(self)
    }
}

/// A `text`.
impl Returns for Vec<u8> {
    fn returned(self, _call: Call<'_>) -> Datum {
        datum::text_datum(&self)
    }
}

/// A `uuid`.
impl Returns for [u8; 16] {
    fn returned(self, _call: Call<'_>) -> Datum {
        let uuid = pgrx::Uuid::from_bytes(self).into_datum();
        uuid.expect("a uuid is not null")
    }
}

/// An `int8range`.
impl Returns for Run {
    fn returned(self, _call: Call<'_>) -> Datum {
        let range = pgrx::Range::new(
            RangeBound::Inclusive(self.first),
            RangeBound::Inclusive(self.last()),
        );
        range.into_datum().expect("a range is not null")
    }
}

impl<T: Returns> Returns for Option<T> {
    fn returned(self, call: Call<'_>) -> Datum {
        match self {
            Some(value) => value.returned(call),
            None => call.null(),
        }
    }
}

/// The answer of `pg_finfo_<function>` for a function of the version-1 calling
/// convention.
pub const V1: pg_sys::Pg_finfo_record = pg_sys::Pg_finfo_record { api_version: 1 };

/// Exports functions that take a [`Call`] and return a type that implements
/// [`Returns`], under their own names, as SQL functions.
macro_rules! sql_functions {
    ($($name:ident),+ $(,)?) => {$(
        $crate::pg::call::describe_function!($name);

        const _: () = {
            #[unsafe(export_name = stringify!($name))]
            unsafe extern "C-unwind" fn entry(
                fcinfo: ::pgrx::pg_sys::FunctionCallInfo,
            ) -> $crate::pg::call::Datum {
                // SAFETY: PostgreSQL has called the function, with what SQL declares.
                unsafe {
                    $crate::pg::report::guarded(|| {
                        let call = $crate::pg::call::Call::new(fcinfo);
                        $crate::pg::call::Returns::returned($name(call), call)
                    })
                }
            }
        };
    )+};
}

/// Declares the calling convention of a function that is exported without
/// [`sql_functions`] because even the guard would cost too much.
macro_rules! describe_function {
    ($name:ident) => {
        const _: () = {
            #[unsafe(export_name = concat!("pg_finfo_", stringify!($name)))]
            extern "C" fn description() -> &'static ::pgrx::pg_sys::Pg_finfo_record {
                &$crate::pg::call::V1
            }
        };
    };
}
pub(crate) use {describe_function, sql_functions};
