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

/// `nextval`.
pub const NEXTVAL: pg_sys::Oid = pg_sys::Oid::from_u32(pg_sys::F_NEXTVAL);

/// What is looked for, and what has been found.
struct Search {
    function: pg_sys::Oid,
    arguments: Vec<Option<Vec<u8>>>,
}

/// An expression that is nothing but the call of a function.
#[derive(Clone, Debug)]
pub struct PlainCall {
    pub function: pg_sys::Oid,
    /// Its only argument, if that is a constant.
    pub argument: Option<Constant>,
}

/// A constant of a type that leaf knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Constant {
    Text(Vec<u8>),
    Relation(pg_sys::Oid),
}

/// The arguments with which an expression calls a function of one `text`: one for
/// each call, `None` if the argument is not a constant. `expression` is a
/// `pg_node_tree` as text.
///
/// An expression that is nested too deeply to be read counts as one such call.
pub fn constant_arguments(expression: &CStr, function: pg_sys::Oid) -> Vec<Option<Vec<u8>>> {
    let search = read(expression, |node| {
        let mut search = Search {
            function,
            arguments: Vec::new(),
        };
        let context = (&raw mut search).cast();
        // SAFETY: a valid node, and the context that `walk` expects.
        unsafe { pg_sys::ffi::pg_guard_ffi_boundary(|| walk(node, context)) };
        search.arguments
    });
    search.unwrap_or_else(|| vec![None])
}

/// What an expression calls, if it is a plain call, whose result is at most converted to the type
/// of a column.
pub fn plain_call(expression: &CStr) -> Option<PlainCall> {
    let call = read(expression, |mut node| {
        // SAFETY: a valid node; the type of a node is given by its tag.
        unsafe {
            loop {
                node = match (*node).type_ {
                    NodeTag::T_RelabelType => (*node.cast::<pg_sys::RelabelType>()).arg.cast(),
                    NodeTag::T_CoerceToDomain => {
                        (*node.cast::<pg_sys::CoerceToDomain>()).arg.cast()
                    }
                    NodeTag::T_FuncExpr => {
                        let call = &*node.cast::<pg_sys::FuncExpr>();
                        let arguments = arguments(call);
                        if call.funcformat == pg_sys::CoercionForm::COERCE_EXPLICIT_CALL {
                            let argument = arguments.first().and_then(|&node| constant(node));
                            return (arguments.len() < 2).then(|| PlainCall {
                                function: call.funcid,
                                argument: argument.and_then(Value::into_constant),
                            });
                        }
                        if call.funcformat != pg_sys::CoercionForm::COERCE_IMPLICIT_CAST {
                            return None;
                        }
                        *arguments.first()?
                    }
                    _ => return None,
                };
            }
        }
    });
    call.flatten()
}

/// Calls `look` with the root of an expression; `None` if that is nested too deeply.
fn read<R>(expression: &CStr, look: impl FnOnce(*mut pg_sys::Node) -> R) -> Option<R> {
    let read = AssertUnwindSafe(|| {
        // SAFETY: PostgreSQL reads its own format, or raises an error; the nodes live in the
        // current memory context.
        let node = unsafe { pg_sys::stringToNode(expression.as_ptr()) };
        Some(look(node.cast()))
    });
    PgTryBuilder::new(read)
        .catch_when(PgSqlErrorCode::ERRCODE_STATEMENT_TOO_COMPLEX, |_| None)
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
                let argument = arguments(call).first().and_then(|&node| constant(node));
                search
                    .arguments
                    .push(match argument.and_then(Value::into_constant) {
                        Some(Constant::Text(text)) => Some(text),
                        _ => None,
                    });
            }
        }
        pg_sys::ffi::pg_guard_ffi_boundary(|| expression_tree_walker(node, walk, context))
    }
}

/// A value, and the type in which it is stored.
struct Value {
    datum: pg_sys::Datum,
    type_oid: pg_sys::Oid,
}

impl Value {
    fn into_constant(self) -> Option<Constant> {
        let value = self.datum;
        // SAFETY: the value is of this type.
        unsafe {
            let text = match self.type_oid {
                pg_sys::TEXTOID | pg_sys::VARCHAROID => datum::text(value),
                // As a text it has no blanks at its end.
                pg_sys::BPCHAROID => datum::text(value).trim_ascii_end(),
                pg_sys::NAMEOID => CStr::from_ptr(value.cast_mut_ptr()).to_bytes(),
                pg_sys::REGCLASSOID => {
                    let relation = pg_sys::Oid::from(value.value() as u32);
                    return Some(Constant::Relation(relation));
                }
                _ => return None,
            };
            Some(Constant::Text(text.to_vec()))
        }
    }
}

/// The value of a node that is a constant, possibly cast between types of texts: a cast can
/// shorten it. Only PostgreSQL's own casts are executed, because anybody can set a default.
///
/// # Safety
/// `node` is a valid node of an expression.
unsafe fn constant(node: *mut pg_sys::Node) -> Option<Value> {
    // SAFETY: the type of a node is given by its tag; casts get values of the types they take.
    unsafe {
        match (*node).type_ {
            NodeTag::T_RelabelType => constant((*node.cast::<pg_sys::RelabelType>()).arg.cast()),
            NodeTag::T_CollateExpr => constant((*node.cast::<pg_sys::CollateExpr>()).arg.cast()),
            NodeTag::T_NamedArgExpr => constant((*node.cast::<pg_sys::NamedArgExpr>()).arg.cast()),
            NodeTag::T_CoerceToDomain => {
                constant((*node.cast::<pg_sys::CoerceToDomain>()).arg.cast())
            }
            NodeTag::T_Const => {
                let constant = &*node.cast::<pg_sys::Const>();
                (!constant.constisnull).then_some(Value {
                    datum: constant.constvalue,
                    type_oid: constant.consttype,
                })
            }
            NodeTag::T_FuncExpr => {
                let call = &*node.cast::<pg_sys::FuncExpr>();
                let is_cast = call.funcformat != pg_sys::CoercionForm::COERCE_EXPLICIT_CALL
                    && call.funcid.to_u32() < pg_sys::FirstGenbkiObjectId
                    && TEXTS.contains(&call.funcresulttype);
                if !is_cast {
                    return None;
                }
                let values = arguments(call).into_iter().map(|node| constant(node));
                let values: Vec<Value> = values.collect::<Option<_>>()?;
                let (function, collation) = (call.funcid, call.inputcollid);
                let datum = match values.as_slice() {
                    [text] => pg_sys::OidFunctionCall1Coll(function, collation, text.datum),
                    // A length, and whether the cast is an explicit one.
                    [text, length, explicit] => pg_sys::OidFunctionCall3Coll(
                        function,
                        collation,
                        text.datum,
                        length.datum,
                        explicit.datum,
                    ),
                    _ => return None,
                };
                let type_oid = call.funcresulttype;
                Some(Value { datum, type_oid })
            }
            _ => None,
        }
    }
}

/// The types of texts.
const TEXTS: [pg_sys::Oid; 4] = [
    pg_sys::TEXTOID,
    pg_sys::VARCHAROID,
    pg_sys::BPCHAROID,
    pg_sys::NAMEOID,
];

/// The arguments of a call.
///
/// # Safety
/// `call` is a valid node.
unsafe fn arguments(call: &pg_sys::FuncExpr) -> Vec<*mut pg_sys::Node> {
    if call.args.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller's promise; a list has as many elements as its length.
    unsafe {
        let list = &*call.args;
        let cells = std::slice::from_raw_parts(list.elements, list.length as usize);
        cells.iter().map(|cell| cell.ptr_value.cast()).collect()
    }
}
