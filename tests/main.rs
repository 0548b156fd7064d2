//! The integration tests: one program, so that they are linked once.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod calls;
mod cells;
mod chaos;
mod chaos_decisions;
mod chaos_power;
mod chaos_process;
mod chaos_refusals;
mod chaos_surroundings;
mod cli_activate;
mod cli_activate_refused;
mod cli_context;
mod cli_copies;
mod cli_demo;
mod cli_doctor;
mod cli_events;
mod cli_first_steps;
mod cli_models;
mod cli_notified;
mod cli_outputs;
mod cli_private;
mod cli_proposals;
mod cli_providers;
mod cli_rehearse;
mod cli_remembering;
mod cli_service;
mod cli_telegram;
mod cli_trouble;
mod cli_turns;
mod cli_world;
mod materializer;
mod proposals_decided;
mod proposals_lineage;
mod real_model;
mod talk;
mod tidy;
