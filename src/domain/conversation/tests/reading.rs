//! Reconstruction: what is a turn, in which order, and which corrections count.

use super::fixture::*;
use crate::content::Content;
use crate::conversation::evidence::Party;
use crate::conversation::reconstruct::{Found, NoTurn, Reconstruction, Speaker, Turn};
use crate::judgment::Hidden;
use crate::payload::telegram::{ChatId, SenderId};

fn read(chat: &Chat) -> Vec<Found> {
    let current = chat.current("now");
    let mut conversation = Reconstruction::before(&current, chat.clone());
    let mut found = Vec::new();
    while let Some(next) = conversation.older().unwrap() {
        found.push(next);
    }
    found
}

fn turns(chat: &Chat) -> Vec<Turn> {
    let turn = |found| match found {
        Found::Turn(turn) => Some(turn),
        Found::Not(..) => None,
    };
    read(chat).into_iter().filter_map(turn).collect()
}

fn texts(chat: &Chat) -> Vec<String> {
    turns(chat).iter().map(|turn| turn.effective().to_owned()).collect()
}

#[test]
fn it_is_read_newest_first_to_its_beginning() {
    assert_eq!(texts(&Chat::of(3)), ["a2", "q2", "a1", "q1", "a0", "q0"]);
    assert!(read(&Chat::of(0)).is_empty());
}

#[test]
fn a_reply_stands_behind_its_message_however_late_it_was_delivered() {
    let mut chat = Chat::of(3);
    chat.turns[0].1[0].position = 1_000;
    assert_eq!(texts(&chat), ["a2", "q2", "a1", "q1", "a0", "q0"]);
}

#[test]
fn the_message_that_is_answered_and_what_came_after_it_are_no_history() {
    let mut chat = Chat::of(4);
    let mut current = chat.current("now");
    current.position = chat.turns[2].0.position;
    let mut conversation = Reconstruction::before(&current, chat.clone());
    let Some(Found::Turn(newest)) = conversation.older().unwrap() else { panic!("there is a turn") };
    assert_eq!(newest.effective(), "a1");
    chat.turns.clear();
}

#[test]
fn an_image_without_words_is_a_placeholder_and_its_reply_keeps_its_trigger() {
    let mut chat = Chat::of(1);
    chat.turns[0].0.text = Content::new(String::new());
    chat.turns[0].0.images = 1;
    assert_eq!(texts(&chat), ["a0", "[image]"]);
}

#[test]
fn a_caption_is_shown_as_words_without_a_placeholder() {
    let mut chat = Chat::of(1);
    chat.turns[0].0.images = 1;
    assert_eq!(texts(&chat), ["a0", "q0"]);
}

#[test]
fn neither_words_nor_exactly_one_image_is_no_turn() {
    for images in [0, 2] {
        let mut chat = Chat::of(1);
        chat.turns[0].0.text = Content::new(String::new());
        chat.turns[0].0.images = images;
        assert!(read(&chat).contains(&Found::Not(message_id(0), Speaker::User, NoTurn::Empty)), "{images}");
    }
}

#[test]
fn another_chat_or_sender_is_no_part_of_it() {
    let strangers = [
        Party { chat: ChatId::new(70), ..ME },
        Party { sender: Some(SenderId::new(80)), ..ME },
        Party { sender: None, ..ME },
    ];
    for stranger in strangers {
        let mut chat = Chat::of(2);
        chat.turns[0].0.party = stranger;
        chat.turns[1].1[0].party = stranger;
        assert_eq!(texts(&chat), ["q1"], "{stranger:?}");
        let not = |id, speaker| Found::Not(id, speaker, NoTurn::OtherParty);
        assert!(read(&chat).contains(&not(message_id(0), Speaker::User)));
        assert!(read(&chat).contains(&not(output_id(1), Speaker::Assistant)));
    }
}

#[test]
fn a_reply_needs_a_receipt_and_a_completed_run_that_settled_exactly_it() {
    type Break = fn(&mut crate::conversation::evidence::Reply);
    let cases: [(Break, NoTurn); 7] = [
        (|reply| reply.completion = None, NoTurn::NotCompleted),
        (|reply| reply.completion.as_mut().unwrap().run = run(9), NoTurn::OtherRun),
        (|reply| reply.completion.as_mut().unwrap().outputs = vec![output_id(9)], NoTurn::OtherRun),
        (|reply| reply.root = message_id(9), NoTurn::OtherRoot),
        (|reply| reply.named = output_id(9), NoTurn::OtherRoot),
        (|reply| reply.output_root = message_id(9), NoTurn::OtherRoot),
        (|reply| reply.text = Content::new(String::new()), NoTurn::Empty),
    ];
    for (break_it, why) in cases {
        let mut chat = Chat::of(1);
        break_it(&mut chat.turns[0].1[0]);
        assert_eq!(texts(&chat), ["q0"], "{why:?}");
        assert!(read(&chat).contains(&Found::Not(output_id(0), Speaker::Assistant, why)), "{why:?}");
    }
    // What was never delivered has no receipt, and therefore no entry at all.
    let mut chat = Chat::of(1);
    chat.turns[0].1.clear();
    assert_eq!(texts(&chat), ["q0"]);
}

#[test]
fn a_corrected_turn_keeps_both_texts_and_shows_the_replacement() {
    let mut chat = Chat::of(2);
    chat.turns[0].1[0].correction = corrected(0, "better");
    assert_eq!(texts(&chat), ["a1", "q1", "better", "q0"]);
    let corrected = turns(&chat).remove(2);
    let Turn::Assistant(turn) = corrected else { panic!("a reply") };
    assert_eq!(turn.delivered.reveal(), "a0");
    let correction = turn.correction.unwrap();
    assert_eq!((correction.projection.as_str(), correction.judgment), ("projection-0", id("judgment", 0)));
}

#[test]
fn a_correction_that_does_not_count_leaves_the_reply_as_it_was_delivered() {
    for why in [Hidden::Unresolved, Hidden::Future, Hidden::Repair, Hidden::Mismatch] {
        let mut chat = Chat::of(1);
        chat.turns[0].1[0].correction = Some(Err(why));
        assert_eq!(texts(&chat), ["a0", "q0"], "{why:?}");
        let Turn::Assistant(turn) = turns(&chat).remove(0) else { panic!("a reply") };
        assert_eq!((turn.correction, turn.unfit), (None, Some(why)));
    }
}
