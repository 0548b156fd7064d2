//! "Not now": what a person hid in the list until a time. It is no decision, and nothing but this list reads it.

use std::collections::BTreeMap;

use thoughtstream_domain::commit::Commit;
use thoughtstream_domain::event::{Actor, ActorKind, Envelope};
use thoughtstream_domain::id::TypeName;
use thoughtstream_domain::judgment::active;
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::inbox::{self, InboxPostponed};
use thoughtstream_domain::payload::repair::RepairProposed;
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_domain::time::Timestamp;
use thoughtstream_store::Reader;

use super::super::{Look, unknown};
use super::{Kind, Waiting};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::operate::{Decision, Done, Operation};

/// Marks what is hidden at the moment.
pub(super) fn hide(look: &Look<'_>, found: &mut [Waiting]) -> Result<(), Failure> {
    type Named = (String, String, Option<Timestamp>);
    let mut until: BTreeMap<Named, Timestamp> = BTreeMap::new();
    for event in look.reader.walk(&[InboxPostponed::kind().name], &inbox::source()) {
        let Ok(postponed) = event?.payload_as::<InboxPostponed>() else { continue };
        until.insert((postponed.what, postponed.id, postponed.since), postponed.until);
    }
    for waiting in found {
        let named = (waiting.kind.as_str().to_owned(), waiting.id.clone(), waiting.since);
        waiting.hidden_until = until.get(&named).copied().filter(|until| *until > look.now);
    }
    Ok(())
}

/// Works out the commit that hides what waits under this id until a time.
///
/// # Errors
/// [`Failure`] if nothing of this name waits, or the log cannot be read.
pub fn postpone(
    waiting: &[Waiting],
    id: &str,
    until: Timestamp,
    operation: &Operation,
) -> Result<Decision, Failure> {
    let mut named = waiting.iter().filter(|waiting| waiting.id == id);
    let (Some(one), None) = (named.next(), named.next()) else {
        if waiting.iter().any(|waiting| waiting.id == id) {
            let what = format!("several things wait under the name `{id}`");
            return Err(Failure::new(Exit::Refused, "inbox.ambiguous", what));
        }
        return Err(unknown("thing that waits", &id));
    };
    let Operation { operator, key, now } = operation.clone();
    let is_shown_again = until <= now;
    if is_shown_again && one.hidden_until.is_none() {
        let what = format!("{until} is past, and nobody has hidden `{id}`: it would hide nothing");
        return Err(Failure::new(Exit::Refused, "inbox.until", what)
            .with_hint("name a time that is to come, or a length with --for"));
    }
    let (word, note) = if is_shown_again {
        ("shown again:".to_owned(), None)
    } else {
        let note = "nothing was decided; `thought inbox --all` shows it".to_owned();
        (format!("hidden until {until}:"), Some(note))
    };
    let actor = Actor::ours(ActorKind::Person, &format!("uid:{}", operator.uid));
    let envelope = Envelope::new(inbox::source(), key, Privacy::Private, actor);
    let what = one.kind.as_str().to_owned();
    let event = InboxPostponed { what, id: one.id.clone(), since: one.since, until, operator };
    let event = event.candidate(envelope);
    let done = Done { done: word, id: one.id.clone(), already: false, note, event: Some(event.id()) };
    Ok(Decision::Commit(Box::new(Commit { appends: vec![event], ..Commit::default() }), done))
}

/// Adds the repairs that nobody has judged: each may be used or not, and is used by nobody else.
pub(super) fn repairs(reader: &Reader, found: &mut Vec<Waiting>) -> Result<(), Failure> {
    let kinds: [TypeName; 1] = [RepairProposed::kind().name];
    for head in reader.sources_where(|source| source.kind() == "agent")? {
        for event in reader.walk(&kinds, &head.source) {
            let event = event?;
            let Ok(proposed) = event.payload_as::<RepairProposed>() else { continue };
            if !active(&reader.judgments_of(&event)?).is_empty() {
                continue;
            }
            let run = proposed.stamp.run;
            found.push(Waiting {
                kind: Kind::RepairProposal,
                id: run.to_string(),
                since: Some(event.recorded_at),
                why: format!(
                    "{} proposes what {} should have said",
                    proposed.stamp.consumer, proposed.failed
                ),
                command: format!("thought run show {run}"),
                ways: ["accept", "reject"].map(|way| format!("thought judge {run} --{way}")).into(),
                about: None,
                hidden_until: None,
            });
        }
    }
    Ok(())
}
