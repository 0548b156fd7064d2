//! What holds for every conversation under every policy.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::fixture::*;
use super::shape::within;
use crate::content::Content;
use crate::id::ConsumerId;
use crate::packet::Composed;
use crate::packet::manifest::Part as What;
use crate::privacy::Privacy;
use crate::provider::{Part, Role};
use crate::text::characters;

/// One exchange: the words of both, whether it was answered, by whom, whether and how it was corrected.
type Exchange = (String, Option<(String, bool, Option<String>)>, bool);

fn exchange() -> impl Strategy<Value = Exchange> {
    let words = "(Slow\\.|Sure\\.|It is nine\\.|slow|[a-z😀é]{1,8}| ){0,6}";
    let correction = proptest::option::weighted(0.3, words);
    let reply = (words, proptest::bool::weighted(0.8), correction);
    (words, proptest::option::weighted(0.8, reply), proptest::bool::weighted(0.1))
}

fn chat(exchanges: Vec<Exchange>) -> Chat {
    let mut chat = Chat::default();
    for (n, (question, answer, is_strange)) in exchanges.into_iter().enumerate() {
        let mut asked = message(n, &question);
        asked.images = usize::from(question.is_empty());
        if is_strange {
            asked.party.sender = None;
        }
        let replies = answer.map(|(text, is_listed, corrections)| {
            let mut answer = reply(n, &text);
            if !is_listed {
                answer.completion.as_mut().unwrap().consumer.id = ConsumerId::parse("other").unwrap();
            }
            answer.correction = corrections.and_then(|text| corrected(n, &text));
            answer
        });
        chat.turns.push((asked, replies.into_iter().collect()));
    }
    chat
}

fn composed(chat: &Chat, max_events: usize, max_chars: usize, cap: Option<usize>) -> Option<Composed> {
    let mut policy = policy(max_events, max_chars);
    policy.assistant_max_turns = cap;
    let composed = within(chat, "the one and only question", &policy);
    if let Err(error) = &composed {
        assert!(error.chars > error.chars_max);
    }
    composed.ok()
}

proptest! {
    #[test]
    fn every_candidate_is_shown_or_named_and_never_both(
        exchanges in proptest::collection::vec(exchange(), 0..14),
        max_events in 1_usize..20,
        max_chars in 0_usize..1_400,
        cap in proptest::option::of(0_usize..6),
    ) {
        let chat = chat(exchanges);
        let Some(composed) = composed(&chat, max_events, max_chars, cap) else { return Ok(()) };
        let manifest = composed.manifest();
        let turns = [What::User, What::Assistant];
        let shown: Vec<String> = manifest.included.iter().filter(|included| turns.contains(&included.part))
            .map(|included| included.id.clone()).collect();
        let named: Vec<String> = manifest.omitted.iter().map(|omitted| omitted.id.clone()).collect();
        let all: BTreeSet<String> = shown.iter().chain(&named).cloned().collect();
        prop_assert_eq!(all.len(), shown.len() + named.len(), "something stands twice");
        let candidates: BTreeSet<String> = chat.candidates().iter().map(ToString::to_string).collect();
        prop_assert_eq!(all, candidates);
    }

    #[test]
    fn bounds_hold_and_the_current_message_is_once_and_last(
        exchanges in proptest::collection::vec(exchange(), 0..14),
        max_events in 1_usize..20,
        max_chars in 0_usize..1_400,
        cap in proptest::option::of(0_usize..6),
    ) {
        let chat = chat(exchanges);
        let Some(composed) = composed(&chat, max_events, max_chars, cap) else { return Ok(()) };
        let texts: Vec<(Role, String)> = composed.messages().iter().map(|message| {
            let texts = message.parts.iter().map(|part| match part {
                Part::Text { text } => text.reveal().clone(),
                Part::Image { .. } | Part::ToolCall { .. } | Part::ToolResult { .. } => panic!("one text"),
            });
            (message.role, texts.collect())
        }).collect();
        prop_assert!(texts.iter().map(|(_, text)| characters(text)).sum::<usize>() <= max_chars);
        prop_assert!(texts.len() <= max_events + 1);
        prop_assert_eq!(texts.iter().filter(|(role, _)| *role == Role::System).count(), 1);
        prop_assert_eq!(texts[0].0, Role::System);
        let current = (Role::User, "the one and only question".to_owned());
        prop_assert_eq!(texts.iter().filter(|entry| **entry == current).count(), 1);
        prop_assert_eq!(texts.last(), Some(&current));
        let assistants = texts.iter().filter(|(role, _)| *role == Role::Assistant).count();
        prop_assert!(assistants <= cap.unwrap_or(usize::MAX));
    }

    #[test]
    fn what_the_person_wrote_is_shown_as_it_was_written(
        exchanges in proptest::collection::vec(exchange(), 0..14),
    ) {
        let chat = chat(exchanges);
        let composed = composed(&chat, 100, 10_000, None).unwrap();
        let shown = composed.messages().iter().filter(|message| message.role == Role::User).map(|message| {
            match &message.parts[..] {
                [Part::Text { text }] => text.reveal().clone(),
                other => panic!("{other:?}"),
            }
        });
        let mine = chat.turns.iter().filter(|(message, _)| message.party == ME);
        let written = mine.map(|(message, _)| match message.text.reveal().as_str() {
            "" => "[image]".to_owned(),
            text => text.to_owned(),
        });
        let written: Vec<String> = written.chain(["the one and only question".to_owned()]).collect();
        prop_assert_eq!(shown.collect::<Vec<_>>(), written);
    }

    #[test]
    fn more_room_never_shows_less(
        exchanges in proptest::collection::vec(exchange(), 0..10),
        max_events in 1_usize..12,
        max_chars in 700_usize..1_200,
    ) {
        let chat = chat(exchanges);
        let Some(less) = composed(&chat, max_events, max_chars, None) else { return Ok(()) };
        let more = composed(&chat, max_events, max_chars + 200, None).unwrap();
        prop_assert!(more.messages().len() >= less.messages().len());
    }

    #[test]
    fn the_class_is_never_weaker_than_what_is_shown(sensitive in 0_usize..6) {
        let mut chat = Chat::of(6);
        chat.turns[sensitive].1[0].privacy = Privacy::Sensitive;
        chat.turns[sensitive].1[0].text = Content::new("marked".to_owned());
        let composed = composed(&chat, 6, 10_000, None).unwrap();
        let is_shown = composed.manifest().included.iter().any(|included| included.id == output_id(sensitive).to_string());
        prop_assert_eq!(composed.privacy() == Privacy::Sensitive, is_shown);
    }
}
