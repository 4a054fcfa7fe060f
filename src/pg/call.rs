//! A function call as PostgreSQL makes it.

use pgrx::pg_sys;

/// A value as PostgreSQL passes it.
pub use pgrx::pg_sys::Datum;

/// The bit of a call site's pointer that says that the argument is a constant.
const CONSTANT: usize = 1;

/// What a call site keeps between the calls of one execution.
pub struct Site<T: 'static> {
    /// The value that was left there.
    pub value: &'static T,
    /// Whether the argument cannot change, and need not be compared.
    pub is_constant: bool,
}

/// The call of a version-1 function.
#[derive(Clone, Copy)]
pub struct Call(pub(super) pg_sys::FunctionCallInfo);

impl Call {
    /// # Safety
    /// `fcinfo` is what PostgreSQL gave the function, and the call has not
    /// returned yet as long as this is used.
    #[inline(always)]
    pub unsafe fn new(fcinfo: pg_sys::FunctionCallInfo) -> Self {
        Call(fcinfo)
    }

    /// An argument.
    ///
    /// # Safety
    /// The function has so many arguments.
    #[inline(always)]
    pub unsafe fn arg(self, number: usize) -> pg_sys::Datum {
        // SAFETY: the caller's promise.
        unsafe { (*(*self.0).args.as_ptr().add(number)).value }
    }

    /// What [`set_site`](Self::set_site) left at this call site in the present
    /// execution.
    ///
    /// # Safety
    /// The function keeps nothing but values of `T` there.
    #[inline(always)]
    pub unsafe fn site<T>(self) -> Option<Site<T>> {
        // SAFETY: `flinfo` is valid during the call.
        let kept = unsafe { (*(*self.0).flinfo).fn_extra };
        let value = kept.map_addr(|address| address & !CONSTANT).cast::<T>();
        // SAFETY: null, or what `set_site` was given.
        unsafe { value.as_ref() }.map(|value| Site {
            value,
            is_constant: kept.addr() & CONSTANT != 0,
        })
    }

    /// Leaves a value at this call site for the rest of the execution, and
    /// whether argument `arg` is a constant of the query. Allocates nothing.
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
        unsafe { (*(*self.0).flinfo).fn_extra = kept.cast() };
    }

    /// How many arguments there are.
    pub fn args(self) -> usize {
        // SAFETY: `fcinfo` is valid during the call.
        unsafe { (*self.0).nargs as usize }
    }

    /// An argument of a function that is not strict; `None` for NULL.
    ///
    /// # Safety
    /// The function has so many arguments.
    pub unsafe fn optional_arg(self, number: usize) -> Option<pg_sys::Datum> {
        // SAFETY: the caller's promise.
        let arg = unsafe { *(*self.0).args.as_ptr().add(number) };
        (!arg.isnull).then_some(arg.value)
    }

    /// A row to return.
    ///
    /// # Safety
    /// The function is declared to return a record of as many columns, of the
    /// datums' types.
    pub unsafe fn record<const N: usize>(self, values: [pg_sys::Datum; N]) -> pg_sys::Datum {
        let mut datums = values;
        let mut nulls = [false; N];
        let mut descriptor = std::ptr::null_mut();
        // SAFETY: the caller's promise; the tuple is made of as many values as
        // its descriptor has columns.
        unsafe {
            pg_sys::get_call_result_type(self.0, std::ptr::null_mut(), &raw mut descriptor);
            let descriptor = pg_sys::BlessTupleDesc(descriptor);
            let tuple =
                pg_sys::heap_form_tuple(descriptor, datums.as_mut_ptr(), nulls.as_mut_ptr());
            pg_sys::HeapTupleHeaderGetDatum((*tuple).t_data)
        }
    }

    /// Whether an argument is a constant of the query. A parameter is not:
    /// PL/pgSQL changes parameters under a call site that it keeps.
    pub fn arg_is_constant(self, number: usize) -> bool {
        // SAFETY: `fn_expr` is null or the expression node of this call.
        unsafe {
            let expression = (*(*self.0).flinfo).fn_expr;
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
}

/// Runs `work` so that a Rust panic or a PostgreSQL error in it leaves as a
/// PostgreSQL error.
///
/// # Safety
/// Called from a function that PostgreSQL has called.
#[inline(always)]
pub unsafe fn guarded<R>(work: impl FnOnce() -> R) -> R {
    // SAFETY: the caller's promise.
    unsafe { pg_sys::panic::pgrx_extern_c_guard(work) }
}

/// Defines a function that PostgreSQL calls by the version-1 convention, under
/// its own name: for what `#[pg_extern]` cannot express. Its body may read the
/// arguments that SQL declares, and errors in it leave as PostgreSQL errors.
macro_rules! v1_function {
    ($(#[$attribute:meta])* fn $name:ident($call:ident) $body:block) => {
        const _: () = {
            #[unsafe(export_name = concat!("pg_finfo_", stringify!($name)))]
            extern "C" fn finfo() -> &'static ::pgrx::pg_sys::Pg_finfo_record {
                &$crate::pg::V1
            }
        };

        $(#[$attribute])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            fcinfo: ::pgrx::pg_sys::FunctionCallInfo,
        ) -> $crate::pg::call::Datum {
            // SAFETY: PostgreSQL has called the function, with what SQL declares.
            unsafe {
                let $call = $crate::pg::call::Call::new(fcinfo);
                $crate::pg::call::guarded(|| $body)
            }
        }
    };
}
pub(crate) use v1_function;
