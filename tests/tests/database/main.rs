//! What is done to whole databases and to the extension in them: create, copy,
//! rename, drop, dump and restore, upgrade; and the loader that each database has.

mod versions;

mod bounded_waits {
    mod align;
}

mod never_twice {
    mod align;
    mod dump;
    mod upgrade;
}

mod no_surprises {
    pub mod databases;
    pub mod dump;
    mod extension;
    mod loaders;
    mod preload;
    mod single_user;
    pub mod upgrade;
}

mod permissions {
    mod align;
    mod dump;
    mod extension;
}
