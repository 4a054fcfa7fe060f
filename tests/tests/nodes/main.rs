//! Several servers, one space of ids.

mod fed;
mod feeds;

mod bounded_waits {
    mod budget;
    mod outages;
}

mod never_twice {
    mod centres;
    mod citus;
    mod copies;
    mod fed;
    mod patroni;
    mod replaced;
    mod sharding;
    mod stripes;
    mod two_centres;
    mod workers;
}

mod permissions {
    mod secrets;
    mod workers;
}

mod small_waste {
    mod fed;
}
