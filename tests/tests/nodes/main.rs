//! Several servers, one space of ids.

mod budget;
mod centres;
mod copies;
mod fed;
mod outages;
mod patroni;
mod secrets;
mod stripes;
mod workers;
