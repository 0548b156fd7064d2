use serde_json::{Value, json};
use thoughtstream_domain::payload::telegram::{
    ImageArtifact, MessageText, RejectedAttachment, TelegramCorrection, TelegramMessage,
};

use super::super::message::{Draft, Finished};
use super::*;

fn rules() -> Rules {
    Rules {
        chats: [ChatId::new(7), ChatId::new(-100)].into(),
        senders: [SenderId::new(7)].into(),
        username: Some("garden_bot".to_owned()),
    }
}

fn read(update: &Value) -> Normalised {
    normalise(update.to_string().as_bytes(), &rules())
}

/// A message of the person who is listened to, with other members put in.
fn message(members: Value) -> Value {
    let mut message = json!({
        "message_id": 40, "date": 1_700_000_000, "chat": { "id": 7, "type": "private" },
        "from": { "id": 7, "is_bot": false, "first_name": "A" },
    });
    message.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    json!({ "update_id": 501, "message": message })
}

fn drafted(update: &Value) -> Draft {
    let Observed::Message(draft) = read(update).observed else { panic!("{update}") };
    *draft
}

fn said(update: &Value) -> TelegramMessage {
    let draft = drafted(update);
    assert!(draft.wanted.is_empty());
    let Finished::Message(message) = draft.finish(Vec::new()) else { panic!("{update}") };
    message
}

fn refused(update: &Value) -> TelegramNonconversation {
    if let Observed::Nonconversation(evidence) = read(update).observed {
        return evidence;
    }
    let Finished::Nonconversation(evidence) = drafted(update).finish(Vec::new()) else { panic!("{update}") };
    evidence
}

fn corrected(update: &Value) -> TelegramCorrection {
    let Observed::Correction(correction) = read(update).observed else { panic!("{update}") };
    correction
}

#[test]
fn text_of_someone_who_is_listened_to_is_a_message() {
    for text in ["hello", "مرحبا \u{202e}بك", "👩‍🌾🌱", &"x".repeat(4096), "*_`[x](", "/start", "/helpful"]
    {
        let update = message(json!({ "text": text, "reply_to_message": { "message_id": 39 } }));
        let message = said(&update);
        assert_eq!(message.text.reveal(), text);
        assert_eq!(message.reply_to, Some(MessageId::new(39)));
        assert_eq!((message.update, message.edited), (UpdateId::new(501), false));
        assert_eq!(message.sent_at, Timestamp::from_millis(1_700_000_000_000));
    }
    assert_eq!(read(&message(json!({ "text": "x" }))).key.as_str(), "update/501");
}

#[test]
fn an_edit_is_a_message_that_says_so() {
    let mut update = message(json!({ "text": "now", "edit_date": 1_700_000_100 }));
    update["edited_message"] = update["message"].take();
    update.as_object_mut().unwrap().remove("message");
    let edit = said(&update);
    assert!(edit.edited);
    assert_eq!(edit.sent_at, Timestamp::from_millis(1_700_000_100_000));
}

#[test]
fn ids_beyond_53_bits_are_exact() {
    let big = 9_007_199_254_740_993_i64;
    let rules =
        Rules { chats: [ChatId::new(-big)].into(), senders: [SenderId::new(big)].into(), username: None };
    let mut update = message(json!({ "text": "x" }));
    update["message"]["chat"]["id"] = (-big).into();
    update["message"]["from"]["id"] = big.into();
    let Observed::Message(draft) = normalise(update.to_string().as_bytes(), &rules).observed else {
        panic!()
    };
    let Finished::Message(message) = draft.finish(Vec::new()) else { panic!() };
    assert_eq!(serde_json::to_value(&message).unwrap()["chat"], json!("-9007199254740993"));
}

#[test]
fn a_stranger_leaves_ids_kind_and_size() {
    let mut update = message(json!({ "text": "secret words", "photo": [{ "file_id": "f" }] }));
    update["message"]["from"]["id"] = 8.into();
    let evidence = refused(&update);
    assert_eq!((evidence.code.as_str(), evidence.kind.as_str()), ("stranger", "message"));
    assert_eq!(evidence.sender, Some(SenderId::new(8)));
    assert_eq!(evidence.bytes, update.to_string().len() as u64);
    let stored = serde_json::to_string(&evidence).unwrap();
    assert!(!stored.contains("secret") && evidence.rejected.is_empty());
    // An allowed person in a chat that is not, and the other way round.
    let mut elsewhere = message(json!({ "text": "x" }));
    elsewhere["message"]["chat"]["id"] = 99.into();
    assert_eq!(refused(&elsewhere).code, "stranger");
    let mut reaction = json!({ "update_id": 9, "message_reaction": {
        "chat": { "id": 7 }, "message_id": 3, "date": 1, "user": { "id": 8 }, "new_reaction": [] } });
    assert_eq!(refused(&reaction).code, "stranger");
    reaction["message_reaction"].as_object_mut().unwrap().remove("user");
    assert_eq!(refused(&reaction).code, "no-sender");
}

#[test]
fn a_bot_and_a_channel_are_no_person() {
    let mut update = message(json!({ "text": "x" }));
    update["message"]["from"]["is_bot"] = true.into();
    assert_eq!(refused(&update).code, "not-a-person");
    let update = message(json!({ "text": "x", "sender_chat": { "id": -5 } }));
    assert_eq!(refused(&update).code, "not-a-person");
}

#[test]
fn what_cannot_be_read_is_evidence_and_never_the_same_twice() {
    let forged = [
        json!({ "update_id": 1 }),
        json!({ "update_id": 1, "message": 7 }),
        json!({ "update_id": 1, "message": { "text": "x" } }),
        json!({ "update_id": 1, "message": { "message_id": "4", "chat": { "id": 7 }, "from": { "id": 7 } } }),
        json!({ "update_id": 1, "callback_query": { "id": "1" } }),
        json!({ "update_id": 1, "something_new": {} }),
        json!({ "update_id": 1, "message": { "message_id": 4, "chat": { "id": 7 }, "from": { "id": 7 },
                "date": i64::MAX, "text": "x" } }),
        json!({ "update_id": 1, "message_reaction": { "chat": { "id": 7 }, "message_id": 3, "date": 1,
                "user": { "id": 7 }, "new_reaction": [{ "type": "emoji" }] } }),
    ];
    for update in forged {
        let read = read(&update);
        assert_eq!(read.key.as_str(), "update/1");
        assert!(matches!(read.observed, Observed::Nonconversation(_)), "{update}");
    }
    let mut both = message(json!({ "text": "x" }));
    both["message_reaction"] = json!({});
    assert_eq!(refused(&both).code, "ambiguous");
    let raw: [&[u8]; 7] = [
        b"",
        b"null",
        b"[]",
        b"{\"update_id\":-1}",
        b"{\"update_id\":1e3}",
        b"\xff\xfe",
        b"{\"update_id\":1,\"update_id\":2}",
    ];
    for raw in raw {
        let read = normalise(raw, &rules());
        assert_eq!(read.update, None);
        assert!(read.key.as_str().starts_with("unnamed/"));
        let Observed::Nonconversation(evidence) = read.observed else { panic!() };
        assert_eq!((evidence.code.as_str(), evidence.bytes), ("malformed", raw.len() as u64));
    }
    let deep = format!("{{\"update_id\":1,\"message\":{}{}}}", "[".repeat(5000), "]".repeat(5000));
    assert!(matches!(normalise(deep.as_bytes(), &rules()).observed, Observed::Nonconversation(_)));
}

#[test]
fn a_message_without_words_or_image_is_no_conversation() {
    assert_eq!(refused(&message(json!({}))).code, "empty");
    assert_eq!(refused(&message(json!({ "text": " \n" }))).code, "empty");
    assert_eq!(refused(&message(json!({ "text": "x".repeat(4097) }))).code, "too-long");
    let voice = refused(&message(json!({ "voice": { "file_id": "f" } })));
    assert_eq!(voice.code, "unsupported");
    assert_eq!(voice.rejected[0].kind, "voice");
    let gif = message(json!({ "animation": {}, "document": { "file_id": "f", "mime_type": "image/png" } }));
    assert_eq!(refused(&gif).rejected.len(), 1, "an animation is not fetched as its document");
}

#[test]
fn the_largest_size_of_a_photo_is_the_photo() {
    let update = message(json!({ "caption": "b", "media_group_id": "g1", "photo": [
        { "file_id": "small", "file_size": 10, "width": 90, "height": 90 },
        { "file_id": "large", "file_size": 30, "width": 900, "height": 900 },
        { "file_id": "middle", "file_size": 20, "width": 320, "height": 320 },
    ] }));
    let Observed::Message(draft) = read(&update).observed else { panic!() };
    assert_eq!(draft.wanted.len(), 1);
    assert_eq!((draft.wanted[0].file.as_str(), draft.wanted[0].bytes), ("large", Some(30)));
    let rejected = RejectedAttachment { kind: "photo".into(), code: "too-large".into(), bytes: Some(30) };
    let Finished::Message(message) = draft.finish(vec![Err(rejected)]) else { panic!() };
    assert_eq!((message.text.reveal(), message.album.as_deref()), ("b", Some("g1")));
    assert_eq!(message.rejected[0].code, "too-large");
}

#[test]
fn an_image_alone_is_conversation_only_if_it_is_verified() {
    let photo = message(json!({ "photo": [{ "file_id": "f" }] }));
    let draft = || drafted(&photo);
    let image = ImageArtifact::of(&[0xff, 0xd8, 0xff, 0xe0]).unwrap();
    let Finished::Message(message) = draft().finish(vec![Ok(image.clone())]) else { panic!() };
    assert_eq!((message.text, message.images), (MessageText::new(String::new()), vec![image]));
    let rejected = RejectedAttachment { kind: "photo".into(), code: "mislabelled".into(), bytes: Some(3) };
    let Finished::Nonconversation(evidence) = draft().finish(vec![Err(rejected.clone())]) else { panic!() };
    assert_eq!((evidence.code.as_str(), evidence.rejected), ("mislabelled", vec![rejected]));
}

#[test]
fn a_correction_is_never_conversation() {
    let bound = message(json!({ "text": "/correct five rows", "reply_to_message": { "message_id": 39 } }));
    let correction = corrected(&bound);
    assert_eq!(correction.target, Some(MessageId::new(39)));
    assert_eq!(correction.replacement.unwrap().reveal(), "five rows");
    for bare in ["/correct", "/correct@garden_bot", "/correct  "] {
        let correction = corrected(&message(json!({ "text": bare })));
        assert_eq!((correction.target, correction.replacement), (None, None), "{bare}");
    }
    assert_eq!(
        said(&message(json!({ "text": "/correct@other_bot x" }))).text.reveal(),
        "/correct@other_bot x"
    );
}

#[test]
fn a_reaction_says_what_changed() {
    let update = json!({ "update_id": 9, "message_reaction": {
        "chat": { "id": 7 }, "message_id": 3, "date": 5, "user": { "id": 7, "is_bot": false },
        "old_reaction": [{ "type": "emoji", "emoji": "👍" }, { "type": "emoji", "emoji": "❤" }],
        "new_reaction": [{ "type": "emoji", "emoji": "👍" }, { "type": "custom_emoji", "custom_emoji_id": "5" }],
    } });
    let Observed::Reaction(reaction) = read(&update).observed else { panic!() };
    assert_eq!((reaction.added, reaction.removed), (vec!["custom:5".to_owned()], vec!["❤".to_owned()]));
    assert_eq!(reaction.message, MessageId::new(3));
}
