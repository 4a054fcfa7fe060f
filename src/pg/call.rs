//! A function call as PostgreSQL makes it.

use pgrx::pg_sys;

/// The call of a version-1 function.
#[derive(Clone, Copy)]
pub struct Call(pg_sys::FunctionCallInfo);

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
    pub unsafe fn site<T>(self) -> Option<&'static T> {
        // SAFETY: the memory lives as long as the call site, and so longer
        // than the call.
        unsafe { (*(*self.0).flinfo).fn_extra.cast::<T>().as_ref() }
    }

    /// Leaves a value at this call site, unless there is one.
    ///
    /// # Safety
    /// As [`site`](Self::site).
    pub unsafe fn set_site<T>(self, value: impl FnOnce() -> T) {
        // SAFETY: memory of the call site's own context, written before it is
        // published; a `T` there is never dropped.
        unsafe {
            let flinfo = (*self.0).flinfo;
            if (*flinfo).fn_extra.is_null() {
                let place = pg_sys::MemoryContextAlloc((*flinfo).fn_mcxt, size_of::<T>());
                place.cast::<T>().write(value());
                (*flinfo).fn_extra = place;
            }
        }
    }

    /// A row of `bigint`s to return.
    ///
    /// # Safety
    /// The function is declared to return a record of that many `bigint`s.
    pub unsafe fn record<const N: usize>(self, values: [i64; N]) -> pg_sys::Datum {
        let mut datums = values.map(pg_sys::Datum::from);
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
