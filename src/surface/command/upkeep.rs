//! `thought compact` and `thought rebuild`: maintenance of a log that no service has open.

use thoughtstream_store::{Store, WriteError};

use super::asking::open;
use crate::client::{self, Reached};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;
use crate::session::Session;
use crate::socket::Door;

/// Moves the log together and gives free space back to the disk.
///
/// # Errors
/// [`Failure`] if a service has the log open, or the log cannot be written.
pub fn compact(session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    let before = blocks(session);
    alone(session, |store| store.writer.compact_and_close())?;
    let after = blocks(session);
    if session.json {
        out.json(&serde_json::json!({ "bytesBefore": before, "bytesAfter": after }))?;
    } else {
        out.line(&format!("the log took {before} bytes on disk and takes {after} now"))?;
    }
    Ok(Exit::Done)
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

fn alone(
    session: &Session,
    upkeep: impl FnOnce(&mut Store) -> Result<(), WriteError>,
) -> Result<(), Failure> {
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
