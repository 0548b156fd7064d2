//! How a decision is made: by the service if one runs, else written into the log by the command itself.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use thoughtstream_domain::registry::Registry;
use thoughtstream_effects::lock::OwnerKind;

use super::asking::{Gather, Show, open};
use crate::ask::{Operate, Operated};
use crate::client::{self, Reached};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::operate::{self, Operation};
use crate::out::Out;
use crate::query::{self, Sink, proposals::Home};
use crate::session::Session;
use crate::socket::Door;
use crate::submit::set_types;

/// Makes a decision and shows what came of it.
///
/// # Errors
/// [`Failure`] if it is refused, or needs a running service and none runs.
pub(crate) fn operate(session: &Session, operate: Operate, out: &mut Out) -> Result<Exit, Failure> {
    operate_to(session, operate, &mut Show::new(out, session.json, |value: Value| operate::render(&value)))
}

/// Says whether the end of the service is waited for.
#[derive(Debug, Args)]
pub struct StopArgs {
    /// Do not wait until it has gone: open work may take as long as the configured drain
    #[arg(long)]
    pub no_wait: bool,
}

/// Tells the service to stop, and waits until it has gone; one that is on its way out already is waited for.
///
/// # Errors
/// [`Failure`] if none runs, or with exit code 5 if it is still there when its drain should be long over.
pub(crate) fn stop(args: &StopArgs, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    let data = &session.places.data;
    // Whoever cannot be looked at now is named by the attempt to reach them.
    let service = client::holder(data).ok().flatten().filter(|owner| owner.kind == OwnerKind::Service);
    let leaves = service.as_ref().is_some_and(|owner| owner.draining.is_some());
    let mut done = Gather::default();
    if leaves {
        let already = json!({ "done": "stopping", "id": "service", "already": true });
        done.value(already)?;
    } else {
        operate_to(session, Operate::Stop, &mut done)?;
    }
    // It is recorded beside the lock as well, unless nothing can be written there.
    let told = done.0.iter_mut().filter_map(Value::as_object_mut).find_map(|told| told.remove("boundMs"));
    let bound = told.and_then(|bound| bound.as_u64()).map(Duration::from_millis);
    if !args.no_wait {
        let is_seen = out.is_terminal() && !session.json;
        client::wait_until_gone(data, service.as_ref(), bound, |bound| {
            if is_seen {
                let seconds = bound.as_secs();
                out.remark(&format!("waiting until what is open has finished, {seconds} s at most"));
            }
        })?;
        for value in &mut done.0 {
            value["done"] = "stopped".into();
        }
    }
    let mut show = Show::new(out, session.json, |value: Value| operate::render(&value));
    done.0.into_iter().try_for_each(|value| show.value(value))?;
    Ok(Exit::Done)
}

fn operate_to(session: &Session, operate: Operate, show: &mut dyn Sink) -> Result<Exit, Failure> {
    match client::reach(session, Door::Operator)? {
        Reached::Service(mut connection) => connection.ask(&Operated::Operate(operate), show).map_err(again),
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
            operate::alone(&mut store, &home, &operate, &operation, &mut |done| query::put(show, &done))?;
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
