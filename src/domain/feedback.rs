//! What a person's feedback in a chat means: a judgment of the reply it is about, or nothing.
//!
//! Only feedback that is bound to a delivered reply judges: a `/correct` that answers the reply and brings a text,
//! and a thumb on it. No model is asked, nothing is reserved, and nothing is done but to append the judgment: it may
//! inform private evaluation, and leaves this log in no data set.

use crate::content::Content;
use crate::event::{Candidate, Event};
use crate::id::IdempotencyKey;
use crate::judgment::{Given, JudgeError, Judged, Judging, Proposed, Said, judge, retract};
use crate::payload::delivery::DeliveryDelivered;
use crate::payload::judgment::Opinion;
use crate::payload::telegram::{ChatId, MessageId, SenderId, TelegramCorrection, TelegramReaction};

/// The criterion of every judgment that is read from a chat.
pub const CRITERION: &str = "telegram-feedback-1";

/// The reaction that accepts a reply.
const ACCEPTS: &str = "👍";
/// The reaction that rejects it.
const REJECTS: &str = "👎";

/// Says which message feedback is about, and what it says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feedback {
    /// The chat.
    pub chat: ChatId,
    /// Who says so.
    pub sender: SenderId,
    /// The message.
    pub target: MessageId,
    /// What is said.
    pub word: Word,
}

/// Is what feedback says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// This should have been the reply.
    Correct(Content<String>),
    /// It is right.
    Accept,
    /// It is not.
    Reject,
    /// An earlier thumb no longer holds.
    TakeBack,
}

/// Reads feedback from an event; `None` if it judges nothing: the bare command, one that answers no message, a
/// reaction that is no thumb.
#[must_use]
pub fn read(event: &Event) -> Option<Feedback> {
    if let Ok(TelegramCorrection { chat, sender, target, replacement, .. }) = event.payload_as() {
        let word = Word::Correct(Content::new(replacement?.reveal().to_owned()));
        return Some(Feedback { chat, sender, target: target?, word });
    }
    let TelegramReaction { chat, sender, message, added, removed, .. } = event.payload_as().ok()?;
    let has = |names: &[String], thumb: &str| names.iter().any(|name| name == thumb);
    let word = match (has(&added, ACCEPTS), has(&added, REJECTS)) {
        (true, false) => Word::Accept,
        (false, true) => Word::Reject,
        (false, false) if has(&removed, ACCEPTS) || has(&removed, REJECTS) => Word::TakeBack,
        (true, true) | (false, false) => return None,
    };
    Some(Feedback { chat, sender, target: message, word })
}

/// Says whether a receipt is that of the message that feedback is about, and who gives it may judge it.
#[must_use]
pub fn is_about(feedback: &Feedback, receipt: &DeliveryDelivered) -> bool {
    receipt.binding.chat == feedback.chat
        && receipt.message == Some(feedback.target)
        && receipt.binding.sender.is_none_or(|answered| answered == feedback.sender)
}

/// Makes the events that feedback becomes; none if nothing follows: it says what stands already, or takes back what
/// was never said. `event` is the feedback's own, `said` everything that was thought of the output before.
///
/// # Errors
/// [`JudgeError`] if the correction does not fit the output's contract.
pub fn project(
    feedback: &Feedback,
    event: &Event,
    judged: &Judged,
    receipt: &Event,
    said: &Said,
) -> Result<Vec<Candidate>, JudgeError> {
    // What a person says in the chat replaces what they said there before, and nothing said elsewhere.
    let ours =
        |given: &&Given| given.newer.as_ref().is_some_and(|newer| newer.criterion_version == CRITERION);
    let standing = said.standing().into_iter().filter(ours);
    let before = standing.max_by_key(|given| given.event.position);
    let opinion = match &feedback.word {
        Word::Accept => Proposed::Accept,
        Word::Reject => Proposed::Reject,
        Word::Correct(text) => Proposed::CorrectText(text),
        Word::TakeBack => {
            let thumbs = thumbs(before, said).into_iter().enumerate();
            return thumbs
                .map(|(number, thumb)| retract(&thumb.event, None, Some(event), None, key(event, number)))
                .collect();
        }
    };
    // A thumb on what was corrected says nothing new about what was sent.
    let corrected = before.is_some_and(|given| matches!(given.opinion, Opinion::Correct { .. }));
    if corrected && !matches!(feedback.word, Word::Correct(_)) {
        return Ok(Vec::new());
    }
    let judging = Judging {
        opinion,
        criterion: None,
        criterion_version: CRITERION,
        quality_eligible: true,
        external_export_eligible: false,
        authorizes_private: false,
        feedback: Some(event),
        delivery: Some(receipt),
        supersedes: before.map(|given| &given.event),
        operator: None,
    };
    Ok(vec![judge(judged, &judging, key(event, 0))?])
}

/// Returns the thumb that stands and those that it replaced: whoever takes it back holds none of them.
fn thumbs<'s>(before: Option<&'s Given>, said: &'s Said) -> Vec<&'s Given> {
    let (mut found, mut next) = (Vec::new(), before);
    while let Some(thumb) = next.filter(|given| matches!(given.opinion, Opinion::Accept | Opinion::Reject)) {
        next = said.given.iter().find(|given| Some(given.event.id) == thumb.supersedes());
        found.push(thumb);
    }
    found.retain(|thumb| !thumb.retracted);
    found
}

/// Returns the key of the event that feedback becomes, and of each further one.
fn key(event: &Event, number: usize) -> IdempotencyKey {
    let id = event.id;
    let key = if number == 0 { format!("feedback/{id}") } else { format!("feedback/{id}/{number}") };
    IdempotencyKey::parse(&key).expect("an id makes a key")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Actor, ActorKind, Envelope};
    use crate::id::SourceId;
    use crate::payload::TypedPayload as _;
    use crate::payload::telegram::{MessageText, UpdateId};
    use crate::privacy::Privacy;
    use crate::time::Timestamp;

    fn recorded(candidate: &Candidate) -> Event {
        let placed = crate::commit::Placed {
            id: candidate.id(),
            position: 1,
            sequence: 1,
            recorded_at: Timestamp::from_millis(0),
            root: candidate.id(),
            depth: 0,
            chain: crate::hash::ChainHash::from_bytes([0; 32]),
        };
        Event::recorded(candidate, &placed)
    }

    fn envelope() -> Envelope {
        let source = SourceId::parse("telegram:a").unwrap();
        let key = IdempotencyKey::parse("update/1").unwrap();
        Envelope::new(source, key, Privacy::Sensitive, Actor::ours(ActorKind::Producer, "telegram:a"))
    }

    fn correction(target: Option<i64>, text: Option<&str>) -> Event {
        let correction = TelegramCorrection {
            update: UpdateId::new(1),
            chat: ChatId::new(7),
            sender: SenderId::new(7),
            message: MessageId::new(9),
            sent_at: Timestamp::from_millis(0),
            target: target.map(MessageId::new),
            replacement: text.map(|text| MessageText::new(text.to_owned())),
            edited: false,
        };
        recorded(&correction.candidate(envelope()))
    }

    fn reaction(added: &[&str], removed: &[&str]) -> Event {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let reaction = TelegramReaction {
            update: UpdateId::new(1),
            chat: ChatId::new(7),
            sender: SenderId::new(7),
            message: MessageId::new(3),
            sent_at: Timestamp::from_millis(0),
            added: owned(added),
            removed: owned(removed),
        };
        recorded(&reaction.candidate(envelope()))
    }

    #[test]
    fn only_what_is_bound_to_a_message_and_says_something_judges() {
        let bound = read(&correction(Some(3), Some("five rows"))).unwrap();
        assert_eq!(bound.word, Word::Correct(Content::new("five rows".to_owned())));
        assert_eq!(bound.target, MessageId::new(3));
        for bare in [(None, Some("x")), (Some(3), None), (None, None)] {
            assert_eq!(read(&correction(bare.0, bare.1)), None);
        }
        let word = |added: &[&str], removed: &[&str]| read(&reaction(added, removed)).map(|read| read.word);
        assert_eq!(word(&["👍"], &[]), Some(Word::Accept));
        assert_eq!(word(&["👎"], &["👍"]), Some(Word::Reject));
        assert_eq!(word(&[], &["👎"]), Some(Word::TakeBack));
        assert_eq!(word(&["🤔"], &["👍"]), Some(Word::TakeBack));
        for nothing in [word(&["🤔"], &[]), word(&[], &["🤔"]), word(&["👍", "👎"], &[]), word(&[], &[])]
        {
            assert_eq!(nothing, None);
        }
    }

    #[test]
    fn a_thumb_that_is_taken_away_leaves_none_of_those_before_it() {
        use crate::judgment::tests::{given, output, plain};
        let judged = Judged::of(&output("It is dry.", 1, Privacy::Sensitive, 10)).unwrap();
        let thumb = |opinion, before: Option<&Given>, position| {
            let judging = Judging {
                criterion_version: CRITERION,
                supersedes: before.map(|before| &before.event),
                ..plain(opinion)
            };
            given(&judged, &judging, position)
        };
        let up = thumb(Proposed::Accept, None, 11);
        let down = thumb(Proposed::Reject, Some(&up), 12);
        let by_command = given(&judged, &plain(Proposed::Accept), 13);
        let of = |given: &[&Given]| Said {
            output: judged.event.id,
            given: given.iter().map(|given| (*given).clone()).collect(),
            through: 13,
        };
        let event = reaction(&[], &["👎"]);
        let feedback = read(&event).unwrap();
        let taken = |said: &Said| -> Vec<crate::id::EventId> {
            let made = project(&feedback, &event, &judged, &up.event, said).unwrap();
            let keys: std::collections::BTreeSet<_> = made.iter().map(Candidate::id).collect();
            assert_eq!(keys.len(), made.len(), "each is an event of its own");
            made.iter().map(|candidate| candidate.envelope().parents[0].id).collect()
        };
        assert_eq!(taken(&of(&[&up, &down, &by_command])), [down.event.id, up.event.id]);
        let gone = Given { retracted: true, ..up.clone() };
        assert_eq!(taken(&of(&[&gone, &down, &by_command])), [down.event.id]);
        assert!(taken(&of(&[&by_command])).is_empty(), "what was said elsewhere stays");
    }
}
