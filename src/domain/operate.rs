//! What a person does to a consumer as a whole (pause, resume, restart), to a source (let removals pass) or to an event
//! (redact). Each is one commit that says who.
//!
//! Retrying and skipping concern one execution and live with it ([`crate::lifecycle::Execution`]).

use crate::commit::{Commit, Control, Precondition, Row};
use crate::event::{Actor, ActorKind, Candidate, Envelope, Event, Parent, Payload};
use crate::id::{ConsumerId, ConsumerKey, IdempotencyKey, SourceId, TypeRef};
use crate::lane::DamagedEvent;
use crate::payload::TypedPayload;
use crate::payload::system::{
    DamageSkipped, Operator, Paused, Redacted, RemovalsAccepted, RestartRequested, Resumed,
};
use crate::privacy::Privacy;
use crate::time::Timestamp;

/// Stops a consumer from starting new work; nothing if it is paused already. What is open runs to its end.
///
/// `control` is the consumer's control row as it was read, and `key` makes the act recognisable.
#[must_use]
pub fn pause(
    consumer: &ConsumerId,
    control: Option<&Control>,
    reason: Option<String>,
    operator: Operator,
    now: Timestamp,
    key: IdempotencyKey,
) -> Option<Commit> {
    let before = control.cloned().unwrap_or_default();
    if before.paused_since.is_some() {
        return None;
    }
    let after = Control { paused_since: Some(now), pause_reason: reason.clone(), ..before };
    let envelope = decision(&operator, key);
    let event = Paused { consumer: consumer.clone(), reason, operator }.candidate(envelope);
    Some(change(consumer, control, after, event))
}

/// Lets a paused or quarantined consumer go on; nothing if it is neither.
#[must_use]
pub fn resume(
    consumer: &ConsumerId,
    control: Option<&Control>,
    operator: Operator,
    key: IdempotencyKey,
) -> Option<Commit> {
    if control.is_none_or(|control| control.paused_since.is_none() && control.quarantined_since.is_none()) {
        return None;
    }
    let envelope = decision(&operator, key);
    let event = Resumed { consumer: consumer.clone(), operator }.candidate(envelope);
    Some(change(consumer, control, Control::default(), event))
}

/// Records that a person asked for a consumer's actor to be stopped and started.
#[must_use]
pub fn restart(consumer: &ConsumerId, operator: Operator, key: IdempotencyKey) -> Commit {
    let envelope = decision(&operator, key);
    let event = RestartRequested { consumer: consumer.clone(), operator }.candidate(envelope);
    Commit { preconditions: Vec::new(), appends: vec![event], rows: Vec::new() }
}

/// Records that a person lets removals pass that a source held back.
#[must_use]
pub fn accept_removals(source: &SourceId, operator: Operator, key: IdempotencyKey) -> Commit {
    let envelope = decision(&operator, key);
    let event = RemovalsAccepted { source: source.clone(), operator }.candidate(envelope);
    Commit { appends: vec![event], ..Commit::default() }
}

/// Says why an event's payload is not erased.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RedactError {
    /// It is evidence of what the service or a person did.
    #[error("{kind} is evidence of what was done, and stays")]
    Evidence {
        /// Its type.
        kind: TypeRef,
    },
}

/// Erases the payload of an event, recording that, why and by whom; nothing if it is erased already.
///
/// The event, its hash and the chain stay. Evidence (runs, decisions, supervision) cannot be erased.
///
/// # Errors
/// [`RedactError::Evidence`] for such an event.
pub fn redact(
    event: &Event,
    reason: &str,
    operator: Operator,
    key: IdempotencyKey,
) -> Result<Option<Commit>, RedactError> {
    let evidence = ["stream.thought.run", "stream.thought.system"];
    if evidence.iter().any(|family| event.kind.name.is_within(family)) {
        return Err(RedactError::Evidence { kind: event.kind.clone() });
    }
    if event.payload == Payload::Redacted {
        return Ok(None);
    }
    let mut envelope = decision(&operator, key).with_parents(vec![Parent::of(event)]);
    envelope.privacy = envelope.privacy.join(event.privacy);
    let redacted = Redacted { event: event.id, reason: reason.to_owned(), operator };
    let appends = vec![redacted.candidate(envelope)];
    Ok(Some(Commit { preconditions: Vec::new(), appends, rows: vec![Row::Redact(event.id)] }))
}

/// Passes an event that a consumer stands still before because it is damaged, and has not begun. `progress` is where the
/// consumer stands: everything of the source up to the event is closed.
///
/// Nothing of the event itself is needed, so the record has no parent.
#[must_use]
pub fn skip_damaged(
    consumer: &ConsumerKey,
    progress: u64,
    damaged: &DamagedEvent,
    reason: &str,
    operator: Operator,
    key: IdempotencyKey,
) -> Commit {
    let DamagedEvent { source, sequence, position } = damaged.clone();
    let envelope = decision(&operator, key);
    let (consumer, reason) = (consumer.clone(), reason.to_owned());
    let pass = Row::Pass { consumer: consumer.clone(), source: source.clone(), sequence };
    let here = (consumer.clone(), source.clone());
    let preconditions = vec![
        Precondition::ProgressIs { consumer: here.0.clone(), source: here.1.clone(), sequence: progress },
        Precondition::Unclaimed { consumer: here.0, source: here.1, sequences: vec![sequence] },
    ];
    let skipped = DamageSkipped { consumer, source, sequence, position, reason, operator };
    Commit { preconditions, appends: vec![skipped.candidate(envelope)], rows: vec![pass] }
}

fn change(consumer: &ConsumerId, before: Option<&Control>, after: Control, event: Candidate) -> Commit {
    Commit {
        preconditions: vec![Precondition::ControlIs(consumer.clone(), before.cloned())],
        appends: vec![event],
        rows: vec![Row::Control(consumer.clone(), after)],
    }
}

fn decision(operator: &Operator, key: IdempotencyKey) -> Envelope {
    let actor = Actor::ours(ActorKind::Person, &format!("uid:{}", operator.uid));
    Envelope::new(SourceId::decisions(), key, Privacy::Private, actor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operator() -> Operator {
        Operator { uid: 7, pid: 8, tty: None }
    }

    fn key(text: &str) -> IdempotencyKey {
        IdempotencyKey::parse(text).unwrap()
    }

    fn control(commit: &Commit) -> &Control {
        let [Row::Control(_, control)] = &commit.rows[..] else { panic!("one control row") };
        control
    }

    #[test]
    fn a_pause_is_undone_by_a_resume_and_neither_happens_twice() {
        let id = ConsumerId::parse("a").unwrap();
        let now = Timestamp::from_millis(5);
        let paused = pause(&id, None, Some("why".to_owned()), operator(), now, key("p")).unwrap();
        let row = control(&paused).clone();
        assert_eq!((row.paused_since, row.pause_reason.as_deref()), (Some(now), Some("why")));
        assert_eq!(paused.preconditions, [Precondition::ControlIs(id.clone(), None)]);
        assert_eq!(pause(&id, Some(&row), None, operator(), now, key("q")), None);
        let resumed = resume(&id, Some(&row), operator(), key("r")).unwrap();
        assert_eq!(control(&resumed), &Control::default());
        assert_eq!(resume(&id, Some(&Control::default()), operator(), key("s")), None);
        assert_eq!(resume(&id, None, operator(), key("s")), None);
    }

    #[test]
    fn a_resume_ends_a_quarantine() {
        let id = ConsumerId::parse("a").unwrap();
        let row = Control { quarantined_since: Some(Timestamp::from_millis(1)), ..Control::default() };
        assert_eq!(control(&resume(&id, Some(&row), operator(), key("r")).unwrap()), &Control::default());
    }
}
