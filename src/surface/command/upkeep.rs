//! `thought compact` and `thought rebuild`: maintenance of a log that no service has open.

use thoughtstream_store::{Compacted, Store};

use super::asking::open;
use crate::client::{self, Reached};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;
use crate::session::Session;
use crate::socket::Door;

/// Writes the log anew, so that no byte of what was erased is left in its files, and gives free space back to the
/// disk; answers with advice if there is only room to move the log together where it lies.
///
/// # Errors
/// [`Failure`] if a service has the log open, or the log cannot be written.
pub fn compact(session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    let before = blocks(session);
    let compacted = alone(session, |store| store.writer.compact_and_close())?;
    let after = blocks(session);
    if session.json {
        let mut answer = serde_json::json!({
            "bytesBefore": before,
            "bytesAfter": after,
            "writtenAnew": compacted == Compacted::Anew,
        });
        if let Compacted::InPlace { free, needed } = compacted {
            answer["bytesFree"] = free.into();
            answer["bytesNeeded"] = needed.into();
        }
        out.json(&answer)?;
    } else {
        out.line(&format!("the log took {before} bytes on disk and takes {after} now"))?;
        match compacted {
            Compacted::Anew => {
                out.line("it was written anew: of what was redacted, nothing is left in it")?
            }
            Compacted::InPlace { free, needed } => {
                out.line(&format!(
                    "it was only moved together, for a second one beside it needs {needed} bytes and {free} are free:"
                ))?;
                out.line("what was redacted may still lie between its rows; make room and compact it again")?;
            }
        }
    }
    Ok(if compacted == Compacted::Anew { Exit::Done } else { Exit::Advice })
}

/// Drops every index and every current state, and builds them anew from what happened.
///
/// # Errors
/// [`Failure`] if a service has the log open, or the log cannot be read or written.
pub fn rebuild(session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    alone(session, |store| store.writer.rebuild_projections())?;
    if session.json {
        out.json(&serde_json::json!({ "rebuilt": true }))?;
    } else {
        out.line("every index was built anew; `thought verify` holds them against the events")?;
    }
    Ok(Exit::Done)
}

/// Returns how much of the disk the log's file takes: its blocks, for it may have holes.
fn blocks(session: &Session) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(session.places.data.join("log.redb")).map_or(0, |file| file.blocks() * 512)
}

fn alone<T, E: std::error::Error>(
    session: &Session,
    upkeep: impl FnOnce(&mut Store) -> Result<T, E>,
) -> Result<T, Failure> {
    let Reached::Alone(_lock) = client::reach(session, Door::Ask)? else {
        let what = "a service has this log open, and upkeep needs it alone";
        return Err(Failure::new(Exit::Refused, "upkeep.service", what).with_hint("run `thought stop` first"));
    };
    let mut store = open(session)?;
    upkeep(&mut store).map_err(|error| {
        let hint = "nothing is lost: what was recorded stays; `thought verify` says how it stands";
        Failure::of(Exit::CouldNotLook, "upkeep.failed", &error).with_hint(hint)
    })
}
