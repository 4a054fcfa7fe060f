//! Queries that see what is committed now, even in a transaction whose snapshot is older.

use std::ffi::c_char;

use pgrx::pg_sys;
use pgrx::spi::{Spi, SpiHeapTupleData};

use super::datum::Arg;
use super::encoding::encode_c;

/// Runs a SELECT, with names as [`display`](super::display) shows them, and reads each row of
/// its result. It sees what other transactions have committed by now, and what this one has
/// done.
pub fn select_latest<R>(
    statement: &str,
    args: &[Arg],
    read: impl Fn(&SpiHeapTupleData<'_>) -> R,
) -> Vec<R> {
    run(statement, args, latest, true, read).1
}

/// As [`select_latest`], in the snapshot of the query that is being executed.
pub fn select<R>(
    statement: &str,
    args: &[Arg],
    read: impl Fn(&SpiHeapTupleData<'_>) -> R,
) -> Vec<R> {
    run(statement, args, std::ptr::null_mut, true, read).1
}

/// As [`select_latest`], for any statement, which may write. Also returns how many rows it processed.
pub fn execute_latest<R>(
    statement: &str,
    args: &[Arg],
    read: impl Fn(&SpiHeapTupleData<'_>) -> R,
) -> (usize, Vec<R>) {
    run(statement, args, latest, false, read)
}

fn latest() -> pg_sys::Snapshot {
    // SAFETY: inside a transaction.
    unsafe { pg_sys::GetLatestSnapshot() }
}

/// If `snapshot` is null, SPI takes that of the query.
fn run<R>(
    statement: &str,
    args: &[Arg],
    snapshot: impl FnOnce() -> pg_sys::Snapshot,
    read_only: bool,
    read: impl Fn(&SpiHeapTupleData<'_>) -> R,
) -> (usize, Vec<R>) {
    let command = encode_c(statement);
    let mut types: Vec<_> = args.iter().map(Arg::oid).collect();
    let null = |arg: &Arg| if arg.datum().is_none() { b'n' } else { b' ' } as c_char;
    let nulls: Vec<_> = args.iter().map(null).collect();
    let value = |arg: &Arg| {
        let value = arg.datum().map(|value| value.sans_lifetime());
        value.unwrap_or(pg_sys::Datum::from(0))
    };
    let mut values: Vec<_> = args.iter().map(value).collect();
    Spi::connect(|_| {
        // SAFETY: SPI is connected. The arguments are as many as their types; the rows live
        // until it is disconnected.
        unsafe {
            let plan =
                pg_sys::SPI_prepare(command.as_ptr(), types.len() as i32, types.as_mut_ptr());
            if plan.is_null() {
                pgrx::error!("query could not be prepared");
            }
            let code = pg_sys::SPI_execute_snapshot(
                plan,
                values.as_mut_ptr(),
                nulls.as_ptr(),
                snapshot(),
                std::ptr::null_mut(),
                read_only,
                !read_only,
                0,
            );
            if code < 0 {
                pgrx::error!("query failed: {code}");
            }
            let processed = pg_sys::SPI_processed as usize;
            if pg_sys::SPI_tuptable.is_null() {
                return (processed, Vec::new());
            }
            let table = &*pg_sys::SPI_tuptable;
            let rows = std::slice::from_raw_parts(table.vals, table.numvals as usize);
            let row = |&row| match SpiHeapTupleData::new(table.tupdesc, row) {
                Ok(Some(row)) => read(&row),
                _ => pgrx::error!("query has returned no row"),
            };
            (processed, rows.iter().map(row).collect())
        }
    })
}
