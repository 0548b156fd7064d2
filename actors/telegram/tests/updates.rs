//! What comes in: each update once, whatever happens to it on the way.

use thoughtstream_channels::rehearsal::{Counters, Image, ImageKind, Item, Message, MessageRef, Scripted};
use thoughtstream_domain::content::Content;
use thoughtstream_domain::payload::telegram::{
    MessageId, TelegramCorrection, TelegramMessage, TelegramNonconversation, TelegramReaction,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::killpoint::{KillAction, KillPoint, Trap};

const BOT: &str = "telegram:garden";

fn keys(events: &[Event]) -> Vec<String> {
    events.iter().map(|event| event.key.as_str().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn duplicates_replays_and_updates_out_of_order_are_one_event_each() {
    let bench = Bench::new().await;
    for number in [503, 501, 502] {
        let item = Item::Message(Message::text(ADA, ADA, format!("text {number}")));
        let update = Some(number);
        bench.telegram.happen(&Scripted { update, copies: 2, again: 1, ..Scripted::new(item) });
    }
    let service = bench.start().await;
    until(&service, BOT, "message", 3).await;
    bench.telegram.until(|counters| counters.telegram.waiting == 0).await;
    let mut found = keys(&events(&service, BOT, ""));
    found.sort();
    assert_eq!(found, ["update/501", "update/502", "update/503"]);
    bench.stop(service).await;
    // The last one comes again after a restart, together with a new one.
    let item = Item::Message(Message::text(ADA, ADA, "text 503"));
    bench.telegram.happen(&Scripted { update: Some(503), ..Scripted::new(item) });
    bench.telegram.say(ADA, ADA, "new");
    let service = bench.start().await;
    until(&service, BOT, "message", 4).await;
    bench.telegram.until(|counters| counters.telegram.waiting == 0).await;
    assert_eq!(events(&service, BOT, "").len(), 4);
    bench.stop(service).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_acknowledged_before_it_is_durable() {
    let bench = Bench::new().await;
    let service = bench.start().await;
    let held = bench.points.arm(Trap::new(KillPoint::CommitInside, KillAction::Hold)).unwrap();
    bench.telegram.say(ADA, ADA, "kept");
    bench.points.sprung(held).await;
    assert_eq!(bench.telegram.counters().telegram.waiting, 1);
    bench.points.release(held);
    until(&service, BOT, "message", 1).await;
    bench.telegram.until(|counters| counters.telegram.waiting == 0).await;
    bench.stop(service).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bot_that_was_held_back_is_said_to_listen_before_anything_comes() {
    let bench = Bench::new().await;
    let service = bench.start().await;
    let note = async || {
        let tree = service.handle().tree().await.unwrap();
        tree.children.iter().find(|child| child.name == BOT).unwrap().note
    };
    let asked = |times: u64| {
        move |counters: &Counters| counters.telegram.methods.get("getUpdates").is_some_and(|n| *n >= times)
    };
    for times in 1..4 {
        bench.telegram.until(asked(times)).await;
        assert_eq!(note().await, Some(ReasonCode::new("listening")), "while nobody has answered it");
        service.handle().freeze(&source(BOT)).await.unwrap();
        assert_eq!(note().await, Some(FROZEN));
        service.handle().thaw(&source(BOT));
    }
    bench.stop(service).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_survives_the_death_of_its_actor_at_every_point() {
    let bench = Bench::new().await;
    let service = bench.start().await;
    let mut count = 0;
    for point in [KillPoint::ObserveBefore, KillPoint::ObserveInside, KillPoint::ObserveAfter] {
        for action in [KillAction::KillActor, KillAction::Panic] {
            let trap = bench.points.arm(Trap::new(point, action)).unwrap();
            bench.telegram.say(ADA, ADA, "kept");
            count += 1;
            bench.points.sprung(trap).await;
            until(&service, BOT, "message", count).await;
            bench.telegram.until(|counters| counters.telegram.waiting == 0).await;
        }
    }
    assert_eq!(events(&service, BOT, "").len(), count);
    bench.stop(service).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_poller_and_an_outage_are_waited_out() {
    let bench = Bench::new().await;
    bench.refuse("getUpdates", 409, None, 3);
    let service = bench.start().await;
    bench.telegram.say(ADA, ADA, "after all");
    until(&service, BOT, "message", 1).await;
    let incidents = events(&service, "system:supervision", "incident");
    let codes: Vec<_> = incidents.iter().map(|event| event.payload_value().unwrap()).collect();
    assert_eq!(codes.len(), 2, "{codes:?}");
    assert!(codes.iter().all(|incident| incident["code"] == "another-poller"));
    assert_eq!((&codes[0]["over"], &codes[1]["over"]), (&false.into(), &true.into()));
    bench.refuse("getUpdates", 500, None, 1);
    bench.refuse("getUpdates", 429, Some(1), 1);
    bench.telegram.say(ADA, ADA, "and again");
    until(&service, BOT, "message", 2).await;
    bench.telegram.until(|counters| counters.telegram.waiting == 0).await;
    assert_eq!(events(&service, BOT, "").len(), 2);
    bench.stop(service).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trouble_that_an_earlier_start_has_left_is_over_once_a_look_succeeds() {
    let bench = Bench::new().await;
    *bench.token.lock().unwrap() = "100000001:another".to_owned();
    let service = bench.start().await;
    until(&service, "system:supervision", "incident", 1).await;
    bench.stop(service).await;
    // It goes on: nothing is said twice.
    let service = bench.start().await;
    let before = bench.telegram.counters().telegram.unauthorized;
    bench.telegram.until(|counters| counters.telegram.unauthorized > before + 3).await;
    assert_eq!(events(&service, "system:supervision", "incident").len(), 1);
    bench.stop(service).await;
    *bench.token.lock().unwrap() = TOKEN.to_owned();
    let service = bench.start().await;
    let incidents = until(&service, "system:supervision", "incident", 2).await;
    let said: Vec<_> = incidents.iter().map(|event| event.payload_value().unwrap()).collect();
    assert!(said.iter().all(|incident| incident["code"] == "unauthorised"), "{said:?}");
    assert_eq!((&said[0]["over"], &said[1]["over"]), (&false.into(), &true.into()));
    bench.stop(service).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_and_what_cannot_be_read_hold_nothing_up() {
    let bench = Bench::new().await;
    bench.telegram.say(ADA, 5, "secret of a stranger");
    let raw = r#"{"update_id":77,"message":{"message_id":"x"}}"#.to_owned();
    bench.telegram.happen(&Scripted::new(Item::Raw(Content::new(raw))));
    bench.telegram.say(ADA, ADA, "");
    bench.telegram.say(ADA, ADA, "hello");
    let service = bench.start().await;
    let said: TelegramMessage = until(&service, BOT, "message", 1).await[0].payload_as().unwrap();
    assert_eq!(said.text.reveal(), "hello");
    let evidence = events(&service, BOT, "nonconversation");
    let evidence: Vec<TelegramNonconversation> =
        evidence.iter().map(|event| event.payload_as().unwrap()).collect();
    let codes: Vec<&str> = evidence.iter().map(|one| one.code.as_str()).collect();
    assert_eq!(codes, ["stranger", "malformed", "empty"]);
    assert!(evidence[0].rejected.is_empty() && evidence[0].sender == Some(SenderId::new(5)));
    assert_eq!(bench.telegram.counters().telegram.sent, 0, "silence");
    bench.stop(service).await;
}

fn picture(bytes: Vec<u8>, caption: &str, kind: ImageKind) -> Scripted {
    let image = Image { bytes: Content::new(bytes), width: 8, height: 8, claims: None, kind };
    let message = Message::text(ADA, ADA, caption);
    Scripted::new(Item::Message(Message { image: Some(image), album: Some("g".to_owned()), ..message }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn images_are_fetched_verified_and_stored_and_an_album_keeps_every_caption() {
    let bench = Bench::new().await;
    let jpeg = || vec![0xff, 0xd8, 0xff, 0xe0, 1, 2, 3];
    for caption in ["a", "b", ""] {
        bench.telegram.happen(&picture(jpeg(), caption, ImageKind::Photo));
    }
    let service = bench.start().await;
    let said = until(&service, BOT, "message", 3).await;
    let said: Vec<TelegramMessage> = said.iter().map(|event| event.payload_as().unwrap()).collect();
    let captions: Vec<&str> = said.iter().map(|one| one.text.reveal()).collect();
    assert_eq!(captions, ["a", "b", ""], "three events, three captions; a photo alone is a turn");
    for message in &said {
        let [image] = &message.images[..] else { panic!("one image") };
        let bytes = service.handle().reader().blob(&image.sha256).unwrap().unwrap();
        assert!(image.verifies(bytes.reveal()));
    }
    let file = ImageKind::File { mime: "image/jpeg".to_owned(), name: "x.jpg".to_owned() };
    bench.telegram.happen(&picture(b"\x89PNG\r\n\x1a\nrest".to_vec(), "", file));
    bench.telegram.happen(&picture(vec![0xff; 1_001], "", ImageKind::Photo));
    bench.telegram.happen(&picture(b"GIF89a".to_vec(), "", ImageKind::Photo));
    bench.telegram.happen(&picture(b"GIF89a".to_vec(), "words stay", ImageKind::Photo));
    let words: TelegramMessage = until(&service, BOT, "message", 4).await[3].payload_as().unwrap();
    assert_eq!((words.text.reveal(), words.rejected[0].code.as_str()), ("words stay", "not-an-image"));
    let evidence = until(&service, BOT, "nonconversation", 3).await;
    let codes: Vec<String> =
        evidence.iter().map(|e| e.payload_as::<TelegramNonconversation>().unwrap().code).collect();
    assert_eq!(codes, ["mislabelled", "too-large", "not-an-image"]);
    bench.stop(service).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edits_reactions_and_corrections_are_events_of_their_own() {
    let bench = Bench::new().await;
    bench.telegram.say(ADA, ADA, "one");
    let message = MessageRef::LastSaid;
    let item = Item::Edit { chat: ADA, from: ADA, message, text: Content::new("two".to_owned()) };
    bench.telegram.happen(&Scripted::new(item));
    let service = bench.start().await;
    let edit: TelegramMessage = until(&service, BOT, "message", 2).await[1].payload_as().unwrap();
    assert_eq!((edit.text.reveal(), edit.edited), ("two", true));
    let item = Item::Reaction { chat: ADA, from: ADA, message, emoji: Some("👍".to_owned()) };
    bench.telegram.happen(&Scripted::new(item));
    let reaction: TelegramReaction = until(&service, BOT, "reaction", 1).await[0].payload_as().unwrap();
    assert_eq!((reaction.message, reaction.added), (edit.message, vec!["👍".to_owned()]));
    bench.telegram.say(ADA, ADA, "/correct");
    let text = "/correct@rehearsal_bot three".to_owned();
    let bound = Message { reply_to: Some(MessageRef::Number(1)), ..Message::text(ADA, ADA, text) };
    bench.telegram.happen(&Scripted::new(Item::Message(bound)));
    let corrections = until(&service, BOT, "correction", 2).await;
    let bare: TelegramCorrection = corrections[0].payload_as().unwrap();
    assert_eq!((bare.target, bare.replacement), (None, None));
    let bound: TelegramCorrection = corrections[1].payload_as().unwrap();
    assert_eq!(bound.target, Some(MessageId::new(1)));
    assert_eq!(bound.replacement.unwrap().reveal(), "three");
    bench.stop(service).await;
}

/// Posts an update as Telegram would, and returns the status.
async fn post(address: SocketAddr, secret: &str, body: &str) -> u16 {
    let mut stream = loop {
        match tokio::net::TcpStream::connect(address).await {
            Ok(stream) => break stream,
            Err(_) => tokio::task::yield_now().await,
        }
    };
    let request = format!(
        "POST /garden HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-telegram-bot-api-secret-token: \
         {secret}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_wrong_while_a_bot_asked_for_updates_is_over_once_it_is_told_them() {
    let mut bench = Bench::new().await;
    *bench.token.lock().unwrap() = "100000001:another".to_owned();
    let service = bench.start().await;
    until(&service, "system:supervision", "incident", 1).await;
    bench.stop(service).await;
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    bench.webhook = Some(free.local_addr().unwrap());
    drop(free);
    let service = bench.start().await;
    let incidents = until(&service, "system:supervision", "incident", 2).await;
    let said: Vec<_> = incidents.iter().map(|event| event.payload_value().unwrap()).collect();
    assert!(said.iter().all(|incident| incident["code"] == "unauthorised"), "{said:?}");
    assert_eq!((&said[0]["over"], &said[1]["over"]), (&false.into(), &true.into()));
    bench.stop(service).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_says_yes_only_to_what_is_durable_and_only_to_telegram() {
    let mut bench = Bench::new().await;
    // A port that was just free.
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = free.local_addr().unwrap();
    bench.webhook = Some(address);
    drop(free);
    let service = bench.start().await;
    let update = |id: i64| {
        format!(
            r#"{{"update_id":{id},"message":{{"message_id":{id},"date":1,"chat":{{"id":{ADA}}},"from":{{"id":{ADA}}},"text":"x"}}}}"#
        )
    };
    assert_eq!(post(address, "wrong", &update(1)).await, 401);
    assert_eq!(post(address, "s3cret", &update(2)).await, 200);
    assert_eq!(events(&service, BOT, "message").len(), 1, "it is there when it is acknowledged");
    assert_eq!(post(address, "s3cret", &update(2)).await, 200);
    // What was there first stands, whoever says otherwise under its number.
    assert_eq!(post(address, "s3cret", &update(2).replace("\"x\"", "\"forged\"")).await, 200);
    assert_eq!(post(address, "s3cret", "{\"update_id\":2}").await, 200);
    assert_eq!(post(address, "s3cret", "not json").await, 200);
    let all = events(&service, BOT, "");
    assert_eq!(all.len(), 2, "{:?}", keys(&all));
    assert_eq!(bench.telegram.counters().telegram.methods.get("getUpdates"), None);
    bench.stop(service).await;
}
