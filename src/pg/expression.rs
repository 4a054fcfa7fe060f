//! Expressions as the catalogs store them.

use std::ffi::{CStr, c_void};
use std::panic::AssertUnwindSafe;

use pgrx::pg_sys::NodeTag;
use pgrx::{PgSqlErrorCode, PgTryBuilder, pg_guard, pg_sys};

use super::datum;

unsafe extern "C-unwind" {
    // A macro hides this name's change in PostgreSQL 16.
    #[cfg_attr(not(feature = "pg15"), link_name = "expression_tree_walker_impl")]
    fn expression_tree_walker(
        node: *mut pg_sys::Node,
        walker: Walker,
        context: *mut c_void,
    ) -> bool;
}

type Walker = unsafe extern "C-unwind" fn(*mut pg_sys::Node, *mut c_void) -> bool;

/// What is looked for, and what has been found.
struct Search {
    function: pg_sys::Oid,
    arguments: Vec<Option<Vec<u8>>>,
}

/// The arguments with which an expression calls a function of one `text`: one for
/// each call, `None` if the argument is not a constant. `expression` is a
/// `pg_node_tree` as text.
///
/// An expression that is nested too deeply to be read counts as one such call.
pub fn constant_arguments(expression: &CStr, function: pg_sys::Oid) -> Vec<Option<Vec<u8>>> {
    let search = AssertUnwindSafe(|| {
        let mut search = Search {
            function,
            arguments: Vec::new(),
        };
        // SAFETY: PostgreSQL reads its own format, or raises an error; the nodes live in
        // the current memory context.
        unsafe {
            let node = pg_sys::stringToNode(expression.as_ptr());
            let context = (&raw mut search).cast();
            pg_sys::ffi::pg_guard_ffi_boundary(|| walk(node.cast(), context));
        }
        search.arguments
    });
    PgTryBuilder::new(search)
        .catch_when(PgSqlErrorCode::ERRCODE_STATEMENT_TOO_COMPLEX, |_| {
            vec![None]
        })
        .execute()
}

/// Visits a node and the nodes below it.
#[pg_guard]
unsafe extern "C-unwind" fn walk(node: *mut pg_sys::Node, context: *mut c_void) -> bool {
    if node.is_null() {
        return false;
    }
    // SAFETY: `node` is a valid node, and `context` the search that is under way.
    unsafe {
        if (*node).type_ == pg_sys::NodeTag::T_FuncExpr {
            let call = &*node.cast::<pg_sys::FuncExpr>();
            let search = &mut *context.cast::<Search>();
            if call.funcid == search.function {
                let argument = (*(*call.args).elements).ptr_value;
                search.arguments.push(constant_text(argument.cast()));
            }
        }
        pg_sys::ffi::pg_guard_ffi_boundary(|| expression_tree_walker(node, walk, context))
    }
}

/// The text of a node that is a constant, possibly cast from another type of texts.
///
/// # Safety
/// `node` is a valid node of an expression of type `text`.
unsafe fn constant_text(mut node: *mut pg_sys::Node) -> Option<Vec<u8>> {
    // SAFETY: the type of a node is given by its tag, that of a value by its constant.
    unsafe {
        loop {
            node = match (*node).type_ {
                NodeTag::T_RelabelType => (*node.cast::<pg_sys::RelabelType>()).arg.cast(),
                NodeTag::T_CollateExpr => (*node.cast::<pg_sys::CollateExpr>()).arg.cast(),
                NodeTag::T_NamedArgExpr => (*node.cast::<pg_sys::NamedArgExpr>()).arg.cast(),
                NodeTag::T_CoerceToDomain => (*node.cast::<pg_sys::CoerceToDomain>()).arg.cast(),
                NodeTag::T_FuncExpr => {
                    let call = &*node.cast::<pg_sys::FuncExpr>();
                    if call.funcformat == pg_sys::CoercionForm::COERCE_EXPLICIT_CALL {
                        return None;
                    }
                    (*(*call.args).elements).ptr_value.cast()
                }
                NodeTag::T_Const => break,
                _ => return None,
            };
        }
        let constant = &*node.cast::<pg_sys::Const>();
        if constant.constisnull {
            return None;
        }
        let value = constant.constvalue;
        match constant.consttype {
            pg_sys::TEXTOID | pg_sys::VARCHAROID => Some(datum::text(value).to_vec()),
            // As a text it has no blanks at its end.
            pg_sys::BPCHAROID => Some(datum::text(value).trim_ascii_end().to_vec()),
            pg_sys::NAMEOID => Some(CStr::from_ptr(value.cast_mut_ptr()).to_bytes().to_vec()),
            _ => None,
        }
    }
}
