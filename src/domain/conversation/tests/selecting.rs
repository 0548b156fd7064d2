//! Selection: each rule takes away what it says, in its order, and takes it down by name.

use super::fixture::*;
use crate::conversation::evidence::{Stretch, link};
use crate::conversation::select::{Policy, Selection, Taken, WINDOW_MESSAGES, select};
use crate::hash::{ChainHash, Sha256Hash};
use crate::id::{ConsumerId, EventId};
use crate::judgment::Hidden;
use crate::packet::manifest::{Change, Omitted, OmittedStretch, Part, Rule};

fn choose(chat: &Chat, policy: &Policy) -> Selection {
    select(&chat.current("now"), chat.clone(), policy, Taken::default()).unwrap()
}

fn shown(selection: &Selection) -> Vec<&str> {
    selection.turns().iter().map(|turn| turn.text.reveal().as_str()).collect()
}

fn omitted(selection: &Selection, rule: Rule) -> Vec<String> {
    let all = selection.manifest().omitted.iter();
    all.filter(|omitted| omitted.rule == rule).map(|omitted| omitted.id.clone()).collect()
}

fn ids(ids: impl IntoIterator<Item = EventId>) -> Vec<String> {
    ids.into_iter().map(|id| id.to_string()).collect()
}

#[test]
fn what_fits_is_shown_oldest_first_and_nothing_is_taken_down() {
    let selection = choose(&Chat::of(3), &policy(100, 1_000));
    assert_eq!(shown(&selection), ["q0", "a0", "q1", "a1", "q2", "a2"]);
    assert!(selection.manifest().is_untouched());
    assert_eq!(selection.manifest().included.len(), 6);
}

#[test]
fn only_listed_agents_answer_in_it_across_their_versions() {
    let mut chat = Chat::of(3);
    let stranger = ConsumerId::parse("stranger").unwrap();
    chat.turns[1].1[0].completion.as_mut().unwrap().consumer.id = stranger.clone();
    chat.turns[2].1[0].completion.as_mut().unwrap().consumer.version = 9;
    let mut wanted = policy(100, 1_000);
    let selection = choose(&chat, &wanted);
    assert_eq!(shown(&selection), ["q0", "a0", "q1", "q2", "a2"]);
    assert_eq!(omitted(&selection, Rule::AgentNotListed), ids([output_id(1)]));
    wanted.agents.insert(stranger);
    assert_eq!(shown(&choose(&chat, &wanted)).len(), 6);
}

#[test]
fn each_speaker_has_a_window_of_its_own() {
    let mut chat = Chat::of(6);
    // Three questions without an answer do not push the older answers out of their window.
    for turn in &mut chat.turns[3..] {
        turn.1.clear();
    }
    let selection = choose(&chat, &policy(4, 1_000));
    assert_eq!(omitted(&selection, Rule::RoleWindow), ids([message_id(1), message_id(0)]));
    // Then the combined bound counts the current message, too.
    assert_eq!(shown(&selection), ["q3", "q4", "q5"]);
    assert_eq!(
        omitted(&selection, Rule::EventBound),
        ids([output_id(2), message_id(2), output_id(1), output_id(0)])
    );
}

#[test]
fn of_forty_turns_under_a_bound_of_ten_every_other_is_named_with_its_rule() {
    let chat = Chat::of(40);
    let selection = choose(&chat, &policy(10, 10_000));
    assert_eq!(selection.turns().len(), 9);
    let named = selection.manifest().omitted.len();
    assert_eq!(named, 80 - 9);
    assert!(selection.manifest().stretches.is_empty());
}

#[test]
fn a_cap_on_assistant_turns_names_candidates_retained_and_omitted() {
    let chat = Chat::of(4);
    let mut capped = policy(100, 1_000);
    assert_eq!(choose(&chat, &capped).manifest().assistant_cap, None);
    capped.assistant_max_turns = Some(1);
    let selection = choose(&chat, &capped);
    assert_eq!(shown(&selection), ["q0", "q1", "q2", "q3", "a3"]);
    let cap = selection.manifest().assistant_cap.clone().unwrap();
    assert_eq!(cap.candidates, [0, 1, 2, 3].map(output_id));
    assert_eq!((cap.retained, cap.omitted.len()), (vec![output_id(3)], 3));
    assert_eq!(omitted(&selection, Rule::AssistantCap), ids([2, 1, 0].map(output_id)));
}

#[test]
fn a_correction_is_shown_with_its_authority_and_ids_in_the_manifest_alone() {
    let mut chat = Chat::of(2);
    chat.turns[0].1[0].correction = corrected(0, "better");
    chat.turns[1].1[0].correction = Some(Err(Hidden::Future));
    let selection = choose(&chat, &policy(100, 1_000));
    assert_eq!(shown(&selection), ["q0", "better", "q1", "a1"]);
    let manifest = selection.manifest();
    let judgment = id("judgment", 0);
    assert_eq!(manifest.changed.len(), 1);
    assert_eq!(
        manifest.changed[0].how,
        Change::Corrected { projection: "projection-0".to_owned(), judgment }
    );
    assert_eq!(manifest.changed[0].recorded, Sha256Hash::of(b"a0"));
    assert_eq!(manifest.changed[0].shown, Sha256Hash::of(b"better"));
    assert_eq!((manifest.unfit[0].id, manifest.unfit[0].why), (output_id(1), Hidden::Future));
}

/// Four replies; the first was corrected and lost its ritual.
fn slow() -> Chat {
    let mut chat = Chat::of(4);
    let said = ["Slow. It leaves at nine.", "Slow again if you want.", "Why \"Slow\"? A habit.", "At ten."];
    for ((_, replies), text) in chat.turns.iter_mut().zip(said) {
        replies[0].text = crate::content::Content::new(text.to_owned());
    }
    chat.turns[0].1[0].correction = corrected(0, "It leaves at nine.");
    chat.turns[3].0.text = crate::content::Content::new("Slow or slower?".to_owned());
    chat
}

#[test]
fn a_corrected_away_ritual_leaves_the_replies_and_never_the_persons_words() {
    let selection = choose(&slow(), &policy(100, 1_000));
    let expected = ["q0", "It leaves at nine.", "q1", "q2", "Why ? A habit.", "Slow or slower?", "At ten."];
    assert_eq!(
        shown(&selection).iter().map(|text| text.replace("Why?", "Why ?")).collect::<Vec<_>>(),
        expected
    );
    assert_eq!(omitted(&selection, Rule::Suppressed), ids([output_id(1)]));
    let suppression = selection.manifest().suppression.clone().unwrap();
    assert_eq!(suppression.policy_version, 1);
    assert_eq!(suppression.judgments, [id("judgment", 0)]);
    assert_eq!(suppression.fragments, [Sha256Hash::of(b"slow")]);
    assert_eq!((suppression.affected.len(), suppression.removed), (2, 2));
    let manifest = serde_json::to_string(selection.manifest()).unwrap().to_lowercase();
    assert!(!manifest.contains("slow"), "a manifest holds no words");
}

#[test]
fn a_correction_that_does_not_count_suppresses_nothing() {
    let mut chat = slow();
    chat.turns[0].1[0].correction = Some(Err(Hidden::Unresolved));
    let selection = choose(&chat, &policy(100, 1_000));
    assert_eq!(selection.manifest().suppression, None);
    assert!(shown(&selection).contains(&"Slow again if you want."));
}

#[test]
fn nothing_is_cut_in_two_and_nothing_older_slips_past_what_did_not_fit() {
    let mut chat = Chat::of(3);
    chat.turns[1].0.text = crate::content::Content::new("a long question".to_owned());
    let selection = choose(&chat, &policy(100, 10));
    assert_eq!(shown(&selection), ["a1", "q2", "a2"]);
    assert_eq!(omitted(&selection, Rule::CharBound), ids([message_id(1), output_id(0), message_id(0)]));
}

#[test]
fn characters_are_utf_16_code_units_here_too() {
    let mut chat = Chat::of(1);
    chat.turns[0].1[0].text = crate::content::Content::new("😀😀".to_owned());
    assert_eq!(shown(&choose(&chat, &policy(100, 6))), ["q0", "😀😀"]);
    assert_eq!(shown(&choose(&chat, &policy(100, 5))), ["😀😀"]);
    assert!(shown(&choose(&chat, &policy(100, 3))).is_empty());
}

#[test]
fn behind_the_window_the_rest_is_named_by_its_ends_its_number_and_a_hash() {
    let chat = Chat::of(WINDOW_MESSAGES + 44);
    let selection = choose(&chat, &policy(10, 10_000));
    let hash = (0..44).fold(ChainHash::START, |hash, n| link(hash, &message_id(n)));
    let stretch = Stretch { first: message_id(0), last: message_id(43), count: 44, hash };
    let expected = OmittedStretch { part: Part::Exchange, rule: Rule::NotLookedAt, stretch };
    assert_eq!(selection.manifest().stretches, [expected]);
    assert_eq!(selection.manifest().omitted.len() + selection.turns().len(), 2 * WINDOW_MESSAGES);
    assert!(choose(&Chat::of(WINDOW_MESSAGES), &policy(10, 10_000)).manifest().stretches.is_empty());
}

#[test]
fn selection_never_changes_what_was_reconstructed() {
    let chat = slow();
    let before = format!("{:?}", chat.turns.iter().map(|turn| turn.1[0].text.reveal()).collect::<Vec<_>>());
    choose(&chat, &policy(3, 20));
    let after = format!("{:?}", chat.turns.iter().map(|turn| turn.1[0].text.reveal()).collect::<Vec<_>>());
    assert_eq!(before, after);
}

#[test]
fn a_manifest_is_read_back_as_it_was_written() {
    let selection = choose(&slow(), &policy(4, 60));
    let json = serde_json::to_value(selection.manifest()).unwrap();
    assert_eq!(
        serde_json::from_value::<crate::packet::manifest::Manifest>(json).unwrap(),
        *selection.manifest()
    );
    let _: &Vec<Omitted> = &selection.manifest().omitted;
}
