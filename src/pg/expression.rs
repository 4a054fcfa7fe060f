//! Expressions as the catalogs store them.

use std::ffi::{CStr, c_void};

use pgrx::{pg_guard, pg_sys};

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
pub fn constant_arguments(expression: &CStr, function: pg_sys::Oid) -> Vec<Option<Vec<u8>>> {
    let mut search = Search {
        function,
        arguments: Vec::new(),
    };
    // SAFETY: PostgreSQL reads its own format, or raises an error; the nodes live in
    // the current memory context.
    unsafe {
        let node = pg_sys::stringToNode(expression.as_ptr());
        walk(node.cast(), (&raw mut search).cast());
    }
    search.arguments
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

/// The text of a node that is a constant, possibly of another type with the same
/// representation.
///
/// # Safety
/// `node` is a valid node of an expression of type `text`.
unsafe fn constant_text(mut node: *mut pg_sys::Node) -> Option<Vec<u8>> {
    // SAFETY: the type of a node is given by its tag.
    unsafe {
        while (*node).type_ == pg_sys::NodeTag::T_RelabelType {
            node = (*node.cast::<pg_sys::RelabelType>()).arg.cast();
        }
        if (*node).type_ != pg_sys::NodeTag::T_Const {
            return None;
        }
        let constant = &*node.cast::<pg_sys::Const>();
        (!constant.constisnull).then(|| datum::text(constant.constvalue).to_vec())
    }
}
