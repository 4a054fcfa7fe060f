//! Several servers, one space of ids.

mod budget;
mod centres;
mod copies;
mod fed;
mod outages;
mod patroni;
mod review;
mod secrets;
mod sharding;
mod stripes;
mod workers;
