//! How a person and a program talk to the service: the `thought` command, its sockets, its configuration.
//!
//! It speaks and decides nothing: rules are the domain's, what is kept the store's, who is alive the actors'.

pub mod activate;
pub mod address;
mod apart;
pub mod ask;
pub mod at_start;
pub mod bench;
mod bots;
pub mod cells;
pub mod chance;
pub mod cli;
pub mod client;
pub mod command;
pub mod config;
pub mod copies;
pub mod demo;
pub mod desk;
pub mod doctor;
pub mod exit;
pub mod failure;
mod files;
pub mod judge;
pub mod load;
pub mod operate;
pub mod out;
pub mod places;
pub mod producer_only;
pub mod progress;
pub mod proposals;
pub mod query;
pub mod rehearsal;
pub mod render;
mod roots;
pub mod schemas;
pub mod serve;
pub mod session;
pub mod shipped;
pub mod socket;

pub mod submit;
pub mod training;
