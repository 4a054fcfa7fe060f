//! Several servers, one space of ids.

mod fed;
