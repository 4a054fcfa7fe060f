//! One handle for the whole process.

use once_cell::sync::OnceCell;

use crate::{Config, Error, IdSource, Leaf, SegmentId};

static LEAF: OnceCell<Leaf> = OnceCell::new();

/// Creates the handle that [`next`] uses. Call it once, at the start of the program, and in a
/// program that forks, after that: a child has no such handle of its own. The handle is that of one
/// database: a program with several creates a [`Leaf`] for each, because a tag of one name has other
/// ids in another database.
///
/// # Errors
/// The errors of [`Leaf::new`], after which it may be called again; [`Error::Global`] if
/// there is a handle already, which says if that is of another database.
///
/// ```no_run
/// # fn main() -> Result<(), leaf_sdk::Error> {
/// leaf_sdk::init(leaf_sdk::Config::new("host=db user=shop")?)?;
/// let id = leaf_sdk::next("orders")?;
/// # let _ = id; Ok(()) }
/// ```
pub fn init(config: Config) -> Result<(), Error> {
    let (hosts, database) = (config.hosts(), config.dbname());
    let mut is_new = false;
    let leaf = LEAF.get_or_try_init(|| {
        is_new = true;
        Leaf::new(config)
    })?;
    match is_new {
        true => Ok(()),
        false if leaf.is_of(&hosts, &database) => {
            Err(Error::Global("leaf_sdk::init has already been called"))
        }
        false => Err(Error::Global(
            "leaf_sdk::init has already been called, for another database; create a Leaf for each",
        )),
    }
}

/// The process's handle.
///
/// # Errors
/// [`Error::Global`] before [`init`].
///
/// ```no_run
/// # fn main() -> Result<(), leaf_sdk::Error> {
/// leaf_sdk::init(leaf_sdk::Config::new("host=db user=shop")?)?;
/// let orders = leaf_sdk::leaf()?.segment("orders");
/// # let _ = orders; Ok(()) }
/// ```
pub fn leaf() -> Result<&'static Leaf, Error> {
    LEAF.get()
        .ok_or(Error::Global("leaf_sdk::init has not been called"))
}

/// The next id of a tag, from the process's handle. It may block; see
/// [`IdSource::next`].
///
/// ```no_run
/// # fn main() -> Result<(), leaf_sdk::Error> {
/// leaf_sdk::init(leaf_sdk::Config::new("host=db user=shop")?)?;
/// let order = leaf_sdk::next("orders")?;
/// # let _ = order; Ok(()) }
/// ```
pub fn next(tag: &str) -> Result<SegmentId, Error> {
    leaf()?.segment(tag).next()
}
