//! What monitoring sees; the views of schema `leaf` are made of it.

mod segment;
mod snowflake;
