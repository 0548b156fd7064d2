//! Why an event does or does not match, clause by clause.

use serde::Serialize;

use super::{DEPTH_MAX, Replay, Subscription};
use crate::event::{Event, Payload};
use crate::text::excerpt;

/// Values from events are cut here: an explanation is read on a terminal.
const FOUND_CHARS_MAX: usize = 120;

/// One clause of a subscription, held against one event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Clause {
    /// What is tested: a key of the declaration or a field of `where`.
    pub name: String,
    /// What the declaration wants.
    pub wanted: String,
    /// What the event has, cut and made printable.
    pub found: String,
    /// Whether they agree.
    pub holds: bool,
}

impl Subscription {
    /// Explains clause by clause why the event does or does not match.
    ///
    /// `registered` is the log's position when this version of the consumer was registered; `replay: now` starts
    /// behind it. The replay clause tells what happens on a source without progress and is no part of matching.
    #[must_use]
    pub fn explain(&self, event: &Event, registered: Option<u64>) -> Vec<Clause> {
        let list = |items: &mut dyn Iterator<Item = String>| items.collect::<Vec<_>>().join(", ");
        let mut clauses = vec![
            Clause {
                name: "types".to_owned(),
                wanted: list(&mut self.types.iter().map(ToString::to_string)),
                found: event.kind.to_string(),
                holds: self.accepted.contains(&event.kind.name),
            },
            Clause {
                name: "source".to_owned(),
                wanted: list(
                    &mut (self.sources.iter().map(ToString::to_string))
                        .chain(self.kinds.iter().map(|kind| format!("{kind}:*"))),
                ),
                found: event.source.to_string(),
                holds: self.includes(&event.source),
            },
            Clause {
                name: "privacy".to_owned(),
                wanted: list(&mut self.privacy.iter().map(ToString::to_string)),
                found: event.privacy.to_string(),
                holds: self.privacy.contains(&event.privacy),
            },
        ];
        if let Some(address) = &self.address {
            let found = event.address.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string);
            let holds = event.address.as_ref() == Some(address);
            clauses.push(Clause { name: "address".to_owned(), wanted: address.to_string(), found, holds });
        }
        self.explain_conditions(event, &mut clauses);
        clauses.push(Clause {
            name: "depth".to_owned(),
            wanted: format!("at most {DEPTH_MAX}"),
            found: event.depth.to_string(),
            holds: event.depth <= DEPTH_MAX,
        });
        clauses.push(self.explain_replay(event, registered));
        clauses
    }

    fn explain_conditions(&self, event: &Event, clauses: &mut Vec<Clause>) {
        let payload = event.payload_value();
        for condition in &self.conditions {
            let found = condition.field.of(event, payload.as_ref());
            let absent = match event.payload {
                Payload::Present(_) => "absent",
                Payload::Redacted => "redacted",
                Payload::Damaged => "damaged",
            };
            clauses.push(Clause {
                name: condition.field.to_string(),
                wanted: excerpt(&condition.predicate.to_json().to_string(), FOUND_CHARS_MAX),
                found: found.map_or_else(|| absent.to_owned(), |v| excerpt(&v.to_string(), FOUND_CHARS_MAX)),
                holds: condition.holds(event, payload.as_ref()),
            });
        }
    }

    fn explain_replay(&self, event: &Event, registered: Option<u64>) -> Clause {
        let sequence = format!("sequence {}", event.sequence);
        let (wanted, found, holds) = match (self.replay, registered) {
            (Replay::Beginning, _) => ("beginning".to_owned(), sequence, true),
            (Replay::Sequence(first), _) => {
                (format!("from sequence {first}"), sequence, event.sequence >= first)
            }
            (Replay::Now, None) => ("now".to_owned(), "not registered yet".to_owned(), false),
            (Replay::Now, Some(registered)) => (
                format!("behind position {registered}"),
                format!("position {}", event.position),
                event.position > registered,
            ),
        };
        Clause { name: "replay".to_owned(), wanted, found, holds }
    }
}
