//! Every setting of leaf: a private static that describes it, and one accessor
//! beside it. No other code uses the statics.

mod integer;
pub mod segment;
pub mod server;
pub mod snowflake;
pub mod upstream;

/// Defines the settings. Called once, while the server preloads leaf.
pub fn init() {
    let integers = [
        server::ALL,
        segment::ALL,
        snowflake::INTEGERS,
        upstream::INTEGERS,
    ];
    for setting in integers.into_iter().flatten() {
        setting.define();
    }
    server::define_others();
    snowflake::define_others();
    upstream::define_others();
    crate::pg::guc::reserve_prefix(c"leaf");
}
