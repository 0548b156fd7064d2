//! Moving a consumer from one version to the next while nothing comes in: which steps there are, in which order, and
//! what of it is in the log.
//!
//! An activation is found by its consumer and its number alone: the ids of its events follow from them, so it needs
//! no table, and handing a step in again is harmless. Whatever the log has of it is where it goes on.

use serde::{Deserialize, Serialize};

use crate::commit::{Commit, Precondition};
use crate::event::{Actor, ActorKind, Candidate, Envelope, Event, Parent};
use crate::hash::Sha256Hash;
use crate::id::{ConsumerId, EventId, IdempotencyKey, SourceId};
use crate::payload::TypedPayload;
use crate::payload::activation::{ActivationBegun, ActivationCancelled, ActivationStepped, Step, StepFacts};
use crate::payload::system::Operator;
use crate::privacy::Privacy;

/// An activation as the log has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activation {
    /// The event that began it.
    pub id: EventId,
    /// What was begun.
    pub begun: ActivationBegun,
    /// The steps that are done, in the order of [`Step::ALL`].
    pub done: Vec<(Step, StepFacts)>,
    /// Whether it was given up.
    pub cancelled: bool,
}

/// Names what is in the log of an activation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Its beginning.
    Begun,
    /// One of its steps.
    Step(Step),
    /// That it was given up.
    Cancelled,
}

fn key(consumer: &ConsumerId, number: u32, mark: Mark) -> IdempotencyKey {
    let what = match mark {
        Mark::Begun => "begun",
        Mark::Step(step) => step.as_str(),
        Mark::Cancelled => "cancelled",
    };
    let key = format!("activation/{consumer}/{number}/{what}");
    IdempotencyKey::parse(&key).expect("a consumer's id, a number and a word make a key")
}

/// Returns the id of an event of an activation, written or not.
#[must_use]
pub fn event_id(consumer: &ConsumerId, number: u32, mark: Mark) -> EventId {
    let (source, name) = match mark {
        Mark::Begun => (SourceId::decisions(), ActivationBegun::kind().name),
        Mark::Step(_) => (SourceId::supervision(), ActivationStepped::kind().name),
        Mark::Cancelled => (SourceId::decisions(), ActivationCancelled::kind().name),
    };
    EventId::derive(&source, &name, &key(consumer, number, mark))
}

/// Reads what the log has of a consumer's activations, the oldest first; `find` looks an event up by its id.
///
/// # Errors
/// Whatever `find` says.
pub fn all<E>(
    consumer: &ConsumerId,
    mut find: impl FnMut(&EventId) -> Result<Option<Event>, E>,
) -> Result<Vec<Activation>, E> {
    let mut found = Vec::new();
    for number in 1.. {
        let Some(event) = find(&event_id(consumer, number, Mark::Begun))? else { break };
        let Ok(begun) = event.payload_as::<ActivationBegun>() else { break };
        let mut done = Vec::new();
        for step in Step::ALL {
            // One that an earlier build left open may have its menu set and not be resumed: a gap, in today's order.
            let event = find(&event_id(consumer, number, Mark::Step(step)))?;
            let stepped = event.and_then(|event| event.payload_as::<ActivationStepped>().ok());
            done.extend(stepped.map(|stepped| (step, stepped.facts)));
        }
        let cancelled = find(&event_id(consumer, number, Mark::Cancelled))?.is_some();
        found.push(Activation { id: event.id, begun, done, cancelled });
    }
    Ok(found)
}

/// Reads what the log has of a consumer's last activation.
///
/// # Errors
/// Whatever `find` says.
pub fn last<E>(
    consumer: &ConsumerId,
    find: impl FnMut(&EventId) -> Result<Option<Event>, E>,
) -> Result<Option<Activation>, E> {
    Ok(all(consumer, find)?.pop())
}

impl Activation {
    /// Says whether it goes on: it was not given up, and a step of it is not done.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.cancelled && Step::ALL.into_iter().any(|step| !self.has(step))
    }

    /// Says whether its source is held back.
    #[must_use]
    pub fn holds_back(&self) -> bool {
        self.is_open() && !self.has(Step::Resumed)
    }

    /// Says whether a step is done.
    #[must_use]
    pub fn has(&self, step: Step) -> bool {
        self.done.iter().any(|(done, _)| *done == step)
    }

    /// Returns the next step; none if it is over.
    #[must_use]
    pub fn next(&self) -> Option<Step> {
        if self.is_open() { Step::ALL.into_iter().find(|step| !self.has(*step)) } else { None }
    }

    /// Returns the last event of the frozen source, once the version before has been stopped behind it.
    #[must_use]
    pub fn frozen_head(&self) -> Option<u64> {
        self.done.iter().find(|(step, _)| *step == Step::Stopped).and_then(|(_, facts)| facts.head)
    }

    /// Makes the commit that says that a step is done. The step before it must be in the log, and the activation must
    /// not have been given up.
    #[must_use]
    pub fn step(&self, step: Step, facts: StepFacts) -> Commit {
        let (consumer, number) = (&self.begun.consumer, self.begun.number);
        let before = Step::ALL.into_iter().take_while(|other| *other != step).last();
        let mark = before.map_or(Mark::Begun, Mark::Step);
        let (source, kind) = match before {
            None => (SourceId::decisions(), ActivationBegun::kind().name),
            Some(_) => (SourceId::supervision(), ActivationStepped::kind().name),
        };
        let preconditions = vec![
            Precondition::KeyUsed { source, kind, key: key(consumer, number, mark) },
            Precondition::KeyUnused {
                source: SourceId::decisions(),
                types: vec![ActivationCancelled::kind().name],
                key: key(consumer, number, Mark::Cancelled),
            },
        ];
        // Each step hangs on the one before it, so a step that lacks one is found by whoever verifies the log.
        let parent = event_id(consumer, number, mark);
        Commit { preconditions, appends: vec![self.stepped(step, facts, parent)], rows: Vec::new() }
    }

    fn stepped(&self, step: Step, facts: StepFacts, parent: EventId) -> Candidate {
        let (consumer, number) = (self.begun.consumer.clone(), self.begun.number);
        let key = key(&consumer, number, Mark::Step(step));
        let actor = Actor::ours(ActorKind::System, "service");
        let envelope = Envelope::new(SourceId::supervision(), key, Privacy::Private, actor)
            .with_parents(vec![Parent { id: parent, position: None }]);
        ActivationStepped { activation: self.id, consumer, number, step, facts }.candidate(envelope)
    }

    /// Makes the commit that gives it up, as long as its source is held back. Behind its installation only a caller
    /// that knows of another version in its place asks for that.
    #[must_use]
    pub fn cancel(&self, operator: Operator) -> Option<Commit> {
        if !self.holds_back() {
            return None;
        }
        let (consumer, number) = (self.begun.consumer.clone(), self.begun.number);
        // It is given up as it is known: whoever goes on with it at the same time is not overtaken.
        let until = if self.has(Step::Installed) { Step::Resumed } else { Step::Installed };
        let unused = Precondition::KeyUnused {
            source: SourceId::supervision(),
            types: vec![ActivationStepped::kind().name],
            key: key(&consumer, number, Mark::Step(until)),
        };
        let envelope = decision(&operator, key(&consumer, number, Mark::Cancelled))
            .with_parents(vec![Parent { id: self.id, position: None }]);
        let cancelled = ActivationCancelled { activation: self.id, consumer, number, operator };
        let appends = vec![cancelled.candidate(envelope)];
        Some(Commit { preconditions: vec![unused], appends, rows: Vec::new() })
    }
}

/// Makes the commit that begins an activation, as it was planned.
#[must_use]
pub fn begin(begun: &ActivationBegun) -> Commit {
    let key = key(&begun.consumer, begun.number, Mark::Begun);
    let appends = vec![begun.candidate(decision(&begun.operator, key))];
    Commit { preconditions: Vec::new(), appends, rows: Vec::new() }
}

fn decision(operator: &Operator, key: IdempotencyKey) -> Envelope {
    let actor = Actor::ours(ActorKind::Person, &format!("uid:{}", operator.uid));
    Envelope::new(SourceId::decisions(), key, Privacy::Private, actor)
}

/// Is a command as a bot's menu shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MenuEntry {
    /// Its name, without the slash.
    pub command: String,
    /// What it does.
    pub description: String,
}

/// Returns the menu of a bot that is answered by a version with or without focus proposals.
#[must_use]
pub fn menu(proposes_focus: bool) -> Vec<MenuEntry> {
    let entry = |command: &str, description: &str| MenuEntry {
        command: command.to_owned(),
        description: description.to_owned(),
    };
    let mut menu = vec![
        entry("help", "What I do, and how to correct me"),
        entry("correct", "As a reply to one of my messages: what it should have said"),
    ];
    if proposes_focus {
        menu.push(entry(crate::slash::FOCUS, "Describe a focus; I propose it, and you decide"));
    }
    menu
}

/// Returns the hash of a menu.
#[must_use]
pub fn menu_hash(menu: &[MenuEntry]) -> Sha256Hash {
    let mut bytes = Vec::new();
    for entry in menu {
        bytes.extend_from_slice(entry.command.as_bytes());
        bytes.push(0);
        bytes.extend_from_slice(entry.description.as_bytes());
        bytes.push(0);
    }
    Sha256Hash::of(&bytes)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::id::ConsumerKey;
    use crate::judgment::tests::record;

    fn begun(number: u32) -> ActivationBegun {
        ActivationBegun {
            consumer: ConsumerId::parse("talk").unwrap(),
            number,
            from: ConsumerKey::parse("talk@1").unwrap(),
            to: ConsumerKey::parse("talk@2").unwrap(),
            fingerprint: Sha256Hash::of(b"two"),
            source: SourceId::parse("telegram:garden").unwrap(),
            plan: Sha256Hash::of(b"plan"),
            operator: Operator { uid: 7, pid: 8, tty: None },
        }
    }

    #[derive(Default)]
    struct Log(BTreeMap<EventId, Event>);

    impl Log {
        fn take(&mut self, commit: &Commit) {
            for candidate in &commit.appends {
                let position = self.0.len() as u64 + 1;
                self.0.insert(candidate.id(), record(candidate, position, None));
            }
        }

        fn last(&self) -> Option<Activation> {
            let talk = ConsumerId::parse("talk").unwrap();
            last(&talk, |id| Ok::<_, std::convert::Infallible>(self.0.get(id).cloned())).unwrap()
        }
    }

    #[test]
    fn the_log_says_where_an_activation_goes_on() {
        let mut log = Log::default();
        assert_eq!(log.last(), None);
        log.take(&begin(&begun(1)));
        for step in Step::ALL {
            let activation = log.last().unwrap();
            assert_eq!((activation.next(), activation.is_open()), (Some(step), true));
            assert_eq!(activation.holds_back(), step != Step::Advertised);
            let commit = activation.step(step, StepFacts { head: Some(9), ..StepFacts::default() });
            assert_eq!(commit.appends[0].id(), event_id(&activation.begun.consumer, 1, Mark::Step(step)));
            assert_eq!(commit.preconditions.len(), 2, "the step before, and that it was not given up");
            log.take(&commit);
            log.take(&commit);
        }
        let over = log.last().unwrap();
        assert_eq!((over.next(), over.is_open(), over.frozen_head()), (None, false, Some(9)));
        assert_eq!(over.cancel(begun(1).operator), None);
        log.take(&begin(&begun(2)));
        assert_eq!(log.last().unwrap().begun.number, 2);
        assert_eq!(log.last().unwrap().next(), Some(Step::Frozen));
    }

    #[test]
    fn it_can_be_given_up_only_while_it_holds_its_source_back() {
        let mut log = Log::default();
        log.take(&begin(&begun(1)));
        let cancel = log.last().unwrap().cancel(begun(1).operator).unwrap();
        let unused = |cancel: &Commit| match &cancel.preconditions[..] {
            [Precondition::KeyUnused { key, .. }] => key.to_string(),
            other => panic!("{other:?}"),
        };
        for step in Step::ALL {
            let activation = log.last().unwrap();
            let until = match step {
                Step::Frozen | Step::Stopped | Step::Installed => Some("activation/talk/1/installed"),
                Step::Verified | Step::Resumed => Some("activation/talk/1/resumed"),
                Step::Advertised => None,
            };
            assert_eq!(activation.holds_back(), until.is_some(), "{step:?}");
            let cancel = activation.cancel(begun(1).operator);
            assert_eq!(cancel.as_ref().map(unused).as_deref(), until, "{step:?}");
            log.take(&activation.step(step, StepFacts::default()));
        }
        assert!(!log.last().unwrap().is_open());
        let mut other = Log::default();
        other.take(&begin(&begun(1)));
        other.take(&cancel);
        let given_up = other.last().unwrap();
        assert_eq!((given_up.is_open(), given_up.next()), (false, None));
    }

    #[test]
    fn what_an_earlier_build_left_open_with_its_menu_set_is_resumed_and_over() {
        let mut log = Log::default();
        log.take(&begin(&begun(1)));
        for step in [Step::Frozen, Step::Stopped, Step::Installed, Step::Verified] {
            log.take(&log.last().unwrap().step(step, StepFacts::default()));
        }
        let verified = log.last().unwrap();
        let parent = event_id(&verified.begun.consumer, 1, Mark::Step(Step::Verified));
        let facts = StepFacts { menu: Some(menu_hash(&menu(true))), ..StepFacts::default() };
        let appends = vec![verified.stepped(Step::Advertised, facts, parent)];
        log.take(&Commit { appends, ..Commit::default() });
        let open = log.last().unwrap();
        assert_eq!((open.next(), open.holds_back()), (Some(Step::Resumed), true));
        let resumed = open.step(Step::Resumed, StepFacts::default());
        assert_eq!(resumed.appends[0].envelope().parents[0].id, parent, "it hangs on what it comes after");
        log.take(&resumed);
        let over = log.last().unwrap();
        assert_eq!((over.next(), over.is_open(), over.done.len()), (None, false, Step::ALL.len()));
    }

    #[test]
    fn a_menu_names_focus_only_where_it_can_be_proposed() {
        let names = |menu: Vec<MenuEntry>| menu.into_iter().map(|entry| entry.command).collect::<Vec<_>>();
        assert_eq!(names(menu(false)), ["help", "correct"]);
        assert_eq!(names(menu(true)), ["help", "correct", "focus"]);
        assert_ne!(menu_hash(&menu(false)), menu_hash(&menu(true)));
    }
}
