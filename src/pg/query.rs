//! Queries as bytes in the database's encoding, which need not be UTF-8.

use std::ffi::CStr;

use pgrx::{Spi, pg_sys};

/// Runs a query that returns a `bigint`; `None` for NULL and for no row.
pub fn bigint_of(query: &CStr) -> Option<i64> {
    Spi::connect_mut(|_| {
        let mut null = true;
        // SAFETY: connected to SPI. If there is a row, it has the column, whose type the
        // caller promises.
        let datum = unsafe {
            pg_sys::SPI_execute(query.as_ptr(), false, 1);
            let rows = pg_sys::SPI_tuptable;
            if rows.is_null() || pg_sys::SPI_processed == 0 {
                return None;
            }
            pg_sys::SPI_getbinval(*(*rows).vals, (*rows).tupdesc, 1, &raw mut null)
        };
        (!null).then(|| datum.value() as i64)
    })
}
