//! Several servers, one space of ids.

mod budget;
mod centres;
mod copies;
mod fed;
mod feeds;
mod outages;
mod patroni;
mod secrets;
mod sharding;
mod stripes;
mod two_centres;
mod workers;
