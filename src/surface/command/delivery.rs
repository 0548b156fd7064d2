//! `thought delivery`: look at what was sent out, and say what became of what nobody knows.

use clap::{Args, Subcommand};
use thoughtstream_domain::id::DeliveryId;
use thoughtstream_domain::payload::delivery::Reconciled;

use super::{asking, operating};
use crate::ask::{Ask, Operate};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;
use crate::query::deliveries::Delivery;
use crate::render;
use crate::session::Session;

/// Is what can be done with deliveries.
#[derive(Debug, Subcommand)]
pub enum DeliveryCommand {
    /// List deliveries with their states, the latest first
    List(ListArgs),
    /// Show one delivery with its events
    Show(IdArgs),
    /// Say that an unconfirmed delivery arrived
    Confirm(IdArgs),
    /// Have an unconfirmed or failed delivery sent again, whether it arrived or not
    Resend(IdArgs),
    /// Give an unconfirmed delivery up
    Abandon(IdArgs),
}

/// Says which deliveries are listed.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Only deliveries in this state; may be repeated
    #[arg(long = "state", value_name = "STATE",
          value_parser = ["claimed", "waiting", "delivered", "failed", "unconfirmed"])]
    pub states: Vec<String>,
    /// At most so many of each bot
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub limit: u32,
}

/// Names a delivery.
#[derive(Debug, Args)]
pub struct IdArgs {
    /// The delivery (`dlv_…`)
    pub id: DeliveryId,
}

/// Runs a delivery command.
///
/// # Errors
/// [`Failure`] as each says.
pub fn run(command: DeliveryCommand, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    let decide = |id: DeliveryId, decision: Reconciled, out: &mut Out| {
        operating::operate(session, Operate::Reconcile { delivery: id, decision }, out)
    };
    match command {
        DeliveryCommand::List(ListArgs { states, limit }) => {
            asking::list(session, Ask::Deliveries { states, limit }, out, |deliveries: &[Delivery]| {
                render::deliveries::list(deliveries, session.now())
            })
        }
        DeliveryCommand::Show(IdArgs { id }) => {
            asking::one(session, Ask::Delivery { id }, out, |delivery: Delivery| {
                render::deliveries::one(&delivery, session.now())
            })
        }
        DeliveryCommand::Confirm(IdArgs { id }) => decide(id, Reconciled::Confirmed, out),
        DeliveryCommand::Resend(IdArgs { id }) => decide(id, Reconciled::Resend, out),
        DeliveryCommand::Abandon(IdArgs { id }) => decide(id, Reconciled::Abandoned, out),
    }
}
