//! Composition: what stands where, and the whole of a packet as it is stored.

use super::fixture::*;
use crate::content::Content;
use crate::conversation::compose::{ComposeError, Trusted, conversation};
use crate::conversation::reconstruct::Current;
use crate::conversation::select::Policy;
use crate::hash::Sha256Hash;
use crate::packet::documents::Subscribed;
use crate::packet::manifest::{Part as What, Rule};
use crate::packet::{Capabilities, Composed, TooLarge};
use crate::privacy::Privacy;
use crate::provider::{Message, Part, Role};

pub(crate) fn capabilities() -> Capabilities {
    Capabilities { privacy: Privacy::Private, tools: Vec::new(), external_actions: false }
}

pub(crate) fn compose(chat: &Chat, current: &Current, takes_images: bool) -> Composed {
    let (capabilities, documents) = (capabilities(), Subscribed::default());
    let trusted = Trusted {
        prompt: "Talk like a person.\n",
        capabilities: &capabilities,
        answer: "Answer in plain text.",
        documents: &documents,
        takes_images,
        proposals: None,
    };
    conversation(current, chat.clone(), &policy(8, 2_000), &trusted).unwrap()
}

/// Composes a conversation without documents and images under a policy.
pub(crate) fn within(chat: &Chat, said: &str, policy: &Policy) -> Result<Composed, TooLarge> {
    let (capabilities, documents) = (capabilities(), Subscribed::default());
    let trusted = Trusted {
        prompt: "p",
        capabilities: &capabilities,
        answer: "",
        documents: &documents,
        takes_images: false,
        proposals: None,
    };
    conversation(&chat.current(said), chat.clone(), policy, &trusted).map_err(|error| match error {
        ComposeError::TooLarge(error) => error,
        ComposeError::Evidence(never) => match never {},
    })
}

fn text(message: &Message) -> &str {
    match &message.parts[..] {
        [Part::Text { text }] => text.reveal(),
        _ => panic!("one text"),
    }
}

#[test]
fn turns_are_native_roles_and_the_current_message_stands_once_and_last() {
    let chat = Chat::of(2);
    let composed = compose(&chat, &chat.current("and now?"), false);
    let roles: Vec<Role> = composed.messages().iter().map(|message| message.role).collect();
    let turn = [Role::User, Role::Assistant];
    assert_eq!(roles, [&[Role::System][..], &turn, &turn, &[Role::User]].concat());
    let texts: Vec<&str> = composed.messages().iter().map(text).collect();
    assert_eq!(texts[1..], ["q0", "a0", "q1", "a1", "and now?"]);
    assert!(!texts[0].contains("and now?"));
}

#[test]
fn the_system_message_is_in_order_and_names_no_identity_of_the_run() {
    let chat = Chat::of(1);
    let composed = compose(&chat, &chat.current("hello"), false);
    insta::assert_snapshot!(text(&composed.messages()[0]));
}

#[test]
fn documents_stand_behind_the_prompt_and_the_authority_in_their_order() {
    let chat = Chat::of(1);
    let (capabilities, documents) =
        (capabilities(), super::proposing::folder(&["other.md", "notes/memory.md"]));
    let trusted = Trusted {
        prompt: "Talk like a person.",
        capabilities: &capabilities,
        answer: "Answer in plain text.",
        documents: &documents,
        takes_images: false,
        proposals: None,
    };
    let composed = conversation(&chat.current("?"), chat, &policy(8, 4_000), &trusted).unwrap();
    let system = text(&composed.messages()[0]);
    let blocks =
        ["Talk like a person.", "Authority of this run.", "Document other.md:", "Document notes/memory.md:"];
    let places: Vec<_> = blocks.iter().map(|block| system.find(block).unwrap()).collect();
    assert!(places.is_sorted(), "{places:?}\n{system}");
    assert!(!composed.messages()[1..].iter().any(|message| text(message).contains("Document ")));
}

#[test]
fn an_image_without_words_is_answered_as_a_placeholder_and_counted() {
    let chat = Chat::of(1);
    let mut current = chat.current("");
    current.images = vec![image(1).0];
    let seeing = compose(&chat, &current, true);
    assert_eq!(text(seeing.messages().last().unwrap()), "[image]");
    assert!(text(&seeing.messages()[0]).ends_with("The current message comes with 1 image."));
    assert!(seeing.manifest().included.iter().any(|included| included.part == What::Image));
    let blind = compose(&chat, &current, false);
    assert!(text(&blind.messages()[0]).contains("comes with 0 images"));
    let named = blind.manifest().omitted.iter().find(|omitted| omitted.part == What::Image).unwrap();
    assert_eq!(named.rule, Rule::ModelTakesNoImages);
}

#[test]
fn with_no_image_the_model_is_told_not_to_claim_sight() {
    let chat = Chat::of(0);
    let composed = compose(&chat, &chat.current("what is on the photo?"), true);
    assert!(text(&composed.messages()[0]).contains("You see no picture"));
}

#[test]
fn what_is_never_cut_must_fit() {
    let error = within(&Chat::of(1), &"x".repeat(3_000), &policy(8, 3_000)).unwrap_err();
    assert!(error.chars > 3_000 && error.chars_max == 3_000);
}

#[test]
fn a_packet_carries_the_strongest_class_of_all_that_is_in_it() {
    let mut chat = Chat::of(2);
    assert_eq!(compose(&chat, &chat.current("?"), false).privacy(), Privacy::Private);
    chat.turns[0].0.privacy = Privacy::Sensitive;
    assert_eq!(compose(&chat, &chat.current("?"), false).privacy(), Privacy::Sensitive);
    let mut current = chat.current("?");
    current.privacy = Privacy::Sensitive;
    assert_eq!(compose(&Chat::of(0), &current, false).privacy(), Privacy::Sensitive);
}

#[test]
fn the_characters_taken_down_are_those_shown() {
    let mut chat = Chat::of(3);
    chat.turns[0].1[0].text = Content::new("😀 yes".to_owned());
    let composed = compose(&chat, &chat.current("?"), false);
    let shown: usize = composed.messages().iter().map(|message| crate::text::characters(text(message))).sum();
    assert_eq!(composed.manifest().chars, shown as u64);
}

#[test]
fn no_id_of_the_log_reaches_the_model() {
    let mut chat = Chat::of(3);
    chat.turns[0].1[0].correction = corrected(0, "better");
    let composed = compose(&chat, &chat.current("?"), false);
    let all: String = composed.messages().iter().map(text).collect();
    for prefix in ["evt_", "run_", "exe_", "projection-", "talk"] {
        assert!(!all.contains(prefix), "{prefix}");
    }
    let hash = Sha256Hash::of(b"better").to_string();
    assert!(!all.contains(&hash));
}
