//! Rows and sets of rows that SQL functions return.

use std::ffi::CStr;

use leaf_core::time::WallTime;
use pgrx::{IntoDatum, PgMemoryContexts, pg_sys};

use super::call::{Call, Datum, Returns};
use super::clock;
use super::datum::text_datum;
use super::encoding::encode;

/// A value of a column: a number, a text or bytes, an instant, or `None` for NULL.
pub trait Value {
    /// The value for PostgreSQL, in the current memory context.
    fn datum(self) -> Option<Datum>;
}

macro_rules! plain_values {
    ($($kind:ty),+) => {$(
        impl Value for $kind {
            fn datum(self) -> Option<Datum> {
                self.into_datum()
            }
        }
    )+};
}
plain_values!(bool, i32, i64, f64);

impl Value for &[u8] {
    fn datum(self) -> Option<Datum> {
        Some(text_datum(self))
    }
}

impl Value for Vec<u8> {
    fn datum(self) -> Option<Datum> {
        self.as_slice().datum()
    }
}

/// A `text`, as [`display`](super::display) makes it.
impl Value for String {
    fn datum(self) -> Option<Datum> {
        encode(&self).datum()
    }
}

/// A `timestamptz`.
impl Value for WallTime {
    fn datum(self) -> Option<Datum> {
        clock::to_timestamp(self).datum()
    }
}

/// An `interval`.
impl Value for std::time::Duration {
    fn datum(self) -> Option<Datum> {
        let day = 86_400;
        let us = (self.as_secs() % day) * 1_000_000 + u64::from(self.subsec_micros());
        let days = i32::try_from(self.as_secs() / day).ok()?;
        pgrx::datum::Interval::new(0, days, us as i64)
            .ok()?
            .into_datum()
    }
}

/// A `uuid`.
impl Value for [u8; 16] {
    fn datum(self) -> Option<Datum> {
        pgrx::Uuid::from_bytes(self).into_datum()
    }
}

impl<T: Value> Value for Option<T> {
    fn datum(self) -> Option<Datum> {
        self.and_then(T::datum)
    }
}

/// A row, column by column, under the names that SQL declares. Their order does
/// not matter. A column that SQL does not declare is left out: the objects of an
/// earlier version of the extension may have fewer.
#[derive(Default)]
pub struct Record(Vec<(&'static str, Option<Datum>)>);

impl Record {
    /// No columns.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a column.
    pub fn with(mut self, column: &'static str, value: impl Value) -> Self {
        self.0.push((column, value.datum()));
        self
    }
}

impl Returns for Record {
    fn returned(self, call: Call<'_>) -> Datum {
        let mut descriptor = std::ptr::null_mut();
        // SAFETY: fills in the descriptor if the result is a row whose columns are known.
        let class = unsafe {
            pg_sys::get_call_result_type(call.info, std::ptr::null_mut(), &raw mut descriptor)
        };
        if class != pg_sys::TypeFuncClass::TYPEFUNC_COMPOSITE {
            pgrx::error!("a function of leaf that returns a row is declared in another way");
        }
        // SAFETY: the tuple is made of as many values as its descriptor has columns,
        // each assigned by name; SQL declares their types.
        unsafe {
            let descriptor = pg_sys::BlessTupleDesc(descriptor);
            let count = (*descriptor).natts as usize;
            let (mut datums, mut nulls) = (vec![Datum::from(0); count], vec![true; count]);
            for index in 0..count {
                let name = pg_sys::SPI_fname(descriptor, index as i32 + 1);
                let name = CStr::from_ptr(name).to_bytes();
                let value = self.0.iter().find(|(column, _)| column.as_bytes() == name);
                let Some((_, value)) = value else {
                    let name = super::display(name);
                    pgrx::error!("column \"{name}\" of the result has no value");
                };
                if let Some(datum) = value {
                    (datums[index], nulls[index]) = (*datum, false);
                }
            }
            let tuple =
                pg_sys::heap_form_tuple(descriptor, datums.as_mut_ptr(), nulls.as_mut_ptr());
            pg_sys::HeapTupleHeaderGetDatum((*tuple).t_data)
        }
    }
}

impl<'call> Call<'call> {
    /// The next value of a function that returns a set. The first call of an execution
    /// calls `begin` to make the iterator that all values come from.
    pub fn each<I>(self, begin: impl FnOnce() -> I) -> Datum
    where
        I: Iterator<Item: Returns> + 'static,
    {
        // SAFETY: PostgreSQL's protocol for such functions. The iterator is in a memory
        // context that is deleted with the execution, and is dropped with it.
        unsafe {
            if (*(*self.info).flinfo).fn_extra.is_null() {
                pg_sys::init_MultiFuncCall(self.info);
            }
            // The value of `per_MultiFuncCall`, without the guard around the call.
            let set = (*(*self.info).flinfo).fn_extra;
            let set = set.cast::<pg_sys::FuncCallContext>();
            if (*set).user_fctx.is_null() {
                let mut context = PgMemoryContexts::For((*set).multi_call_memory_ctx);
                let values = context.switch_to(|_| begin());
                (*set).user_fctx = context.leak_and_drop_on_delete(values).cast();
            }
            let result = (*self.info).resultinfo.cast::<pg_sys::ReturnSetInfo>();
            let values = &mut *(*set).user_fctx.cast::<I>();
            match values.next() {
                Some(value) => {
                    (*set).call_cntr += 1;
                    (*result).isDone = pg_sys::ExprDoneCond::ExprMultipleResult;
                    value.returned(self)
                }
                None => {
                    pg_sys::end_MultiFuncCall(self.info, set);
                    (*result).isDone = pg_sys::ExprDoneCond::ExprEndResult;
                    self.null()
                }
            }
        }
    }
}
