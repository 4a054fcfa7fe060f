//! Names of relations.

use std::ffi::{CStr, CString};

use pgrx::pg_sys;

/// A name that no relation of the schema has, made of those of a table and a column and a
/// label, and shortened as necessary: as PostgreSQL names sequences.
pub fn free(table: &[u8], column: &[u8], label: &CStr, schema: pg_sys::Oid) -> Vec<u8> {
    let [table, column] = [table, column].map(|name| CString::new(name).unwrap_or_default());
    // SAFETY: C strings; a copy of the result is taken.
    unsafe {
        let name = pg_sys::ChooseRelationName(
            table.as_ptr(),
            column.as_ptr(),
            label.as_ptr(),
            schema,
            false,
        );
        CStr::from_ptr(name).to_bytes().to_vec()
    }
}
