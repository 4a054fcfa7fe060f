//! What is done to whole databases and to the extension in them: create, copy,
//! rename, drop, dump and restore, upgrade; and the loader that each database has.

mod versions;

mod never_twice {
    mod align;
}

mod no_surprises {
    mod databases;
    mod dump;
    mod extension;
    mod loaders;
    mod preload;
    mod single_user;
    mod upgrade;
}
