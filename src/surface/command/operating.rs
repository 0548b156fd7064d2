//! How a decision is made: by the service if one runs, else written into the log by the command itself.

use serde_json::Value;
use thoughtstream_domain::registry::Registry;

use super::asking::{Show, open};
use crate::ask::{Operate, Operated};
use crate::client::{self, Reached};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::operate::{self, Operation};
use crate::out::Out;
use crate::query::{self, proposals::Home};
use crate::session::Session;
use crate::socket::Door;
use crate::submit::set_types;

/// Makes a decision and shows what came of it.
///
/// # Errors
/// [`Failure`] if it is refused, or needs a running service and none runs.
pub(crate) fn operate(session: &Session, operate: Operate, out: &mut Out) -> Result<Exit, Failure> {
    let mut show = Show::new(out, session.json, |value: Value| operate::render(&value));
    match client::reach(session, Door::Operator)? {
        Reached::Service(mut connection) => {
            connection.ask(&Operated::Operate(operate), &mut show).map_err(again)
        }
        Reached::Alone(_lock) => {
            let mut store = open(session)?;
            // Only types of ours are written here, and those never change.
            set_types(&mut store, Registry::shipped().hashes())?;
            let operation = Operation {
                operator: operate::ourselves(),
                now: session.now(),
                key: crate::chance::key("decision")?,
            };
            let home = Home::configured(&session.places);
            operate::alone(&mut store, &home, &operate, &operation, &mut |done| {
                query::put(&mut show, &done)
            })?;
            Ok(Exit::Done)
        }
    }
}

/// A decision that is made already is made once: running the command again is safe.
fn again(failure: Failure) -> Failure {
    match failure.exit() {
        Exit::Unknown => {
            failure.with_hint("run the same command again: what is done already is not done twice")
        }
        Exit::Done
        | Exit::Refused
        | Exit::Usage
        | Exit::Undeclared
        | Exit::CouldNotLook
        | Exit::Advice
        | Exit::Bug => failure,
    }
}
