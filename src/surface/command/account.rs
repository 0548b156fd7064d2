//! `thought account`: what asking models has cost, and what it still may.

use clap::{Args, Subcommand};
use thoughtstream_domain::id::ConsumerId;

use super::asking;
use crate::ask::Ask;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;
use crate::query::accounts::{Account, CALLS_MAX, Simulated};
use crate::render;
use crate::session::Session;

/// Is what can be done with accounts.
#[derive(Debug, Subcommand)]
pub enum AccountCommand {
    /// List the accounts of consumers that ask models
    List,
    /// Show what an account has spent in each window, what is open, and when the next call fits
    Show(IdArgs),
    /// Say what would happen to the next calls, and when the limit is reached
    Simulate(SimulateArgs),
}

/// Names an account.
#[derive(Debug, Args)]
pub struct IdArgs {
    /// The account: the id of a declaration
    pub account: ConsumerId,
}

/// Names an account and how many calls to imagine.
#[derive(Debug, Args)]
pub struct SimulateArgs {
    /// The account: the id of a declaration
    pub account: ConsumerId,
    /// How many calls are wanted now, each at what the declaration reserves
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=i64::from(CALLS_MAX)))]
    pub calls: u32,
}

/// Runs an account command.
///
/// # Errors
/// [`Failure`] as each says.
pub fn run(command: AccountCommand, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    let now = session.now();
    match command {
        AccountCommand::List => asking::list(session, Ask::Accounts, out, |accounts: &[Account]| {
            render::accounts::list(accounts, now)
        }),
        AccountCommand::Show(IdArgs { account }) => {
            asking::one(session, Ask::Account { account }, out, |account: Account| {
                render::accounts::show(&account, now)
            })
        }
        AccountCommand::Simulate(SimulateArgs { account, calls }) => {
            asking::one(session, Ask::Simulate { account, calls }, out, |simulated: Simulated| {
                render::accounts::simulated(&simulated)
            })
        }
    }
}
