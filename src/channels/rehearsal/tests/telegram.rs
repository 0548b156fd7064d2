//! The fake Telegram: what it promises as Telegram does, and what it breaks when the script says so.

use serde_json::{Value as Json, json};
use thoughtstream_domain::content::Content;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::super::{
    After, Cut, CutAt, CutHow, Image, ImageKind, Item, Manner, Message, MessageRef, Outcome, Rehearsal,
    Script, Scripted, TelegramAnswer, TelegramRule, TelegramScript, TelegramWhen,
};
use super::client::{call, exchange, open, read_all, request};

async fn playing(telegram: TelegramScript) -> Rehearsal {
    Rehearsal::start(Script { telegram, ..Script::default() }).await.unwrap()
}

async fn result(rehearsal: &Rehearsal, method: &str, parameters: Json) -> Json {
    let got = exchange(rehearsal, &call(method, &parameters)).await;
    assert_eq!(got.status(), 200, "{method}");
    got.json()["result"].clone()
}

async fn updates(rehearsal: &Rehearsal, offset: i64) -> Vec<i64> {
    let all = [json!("message"), json!("edited_message"), json!("message_reaction")];
    let asked = json!({ "offset": offset, "timeout": 0, "allowed_updates": all });
    let result = result(rehearsal, "getUpdates", asked).await;
    result.as_array().unwrap().iter().map(|update| update["update_id"].as_i64().unwrap()).collect()
}

fn said(text: &str) -> Scripted {
    Scripted::new(Item::Message(Message::text(42, 42, text)))
}

#[tokio::test]
async fn an_update_waits_until_a_higher_offset_is_asked_for() {
    let rehearsal = playing(TelegramScript { first_update: 501, ..TelegramScript::default() }).await;
    for text in ["a", "b", "c"] {
        rehearsal.say(42, 42, text).unwrap();
    }
    assert_eq!(updates(&rehearsal, 0).await, [501, 502, 503]);
    assert_eq!(updates(&rehearsal, 501).await, [501, 502, 503]);
    assert_eq!(updates(&rehearsal, 502).await, [502, 503]);
    assert_eq!(updates(&rehearsal, 0).await, [502, 503], "the first is forgotten for good");
    assert_eq!(updates(&rehearsal, -1).await, [503]);
    assert_eq!(updates(&rehearsal, 504).await, [0_i64; 0]);
    assert_eq!(rehearsal.counters().telegram.waiting, 0);
}

#[tokio::test]
async fn a_poll_waits_for_news_and_a_second_one_ends_it() {
    let rehearsal = playing(TelegramScript::default()).await;
    let long = call("getUpdates", &json!({ "timeout": 50 }));
    let mut first = open(&rehearsal, &long).await;
    rehearsal.until(|counters| counters.telegram.methods.contains_key("getUpdates")).await;
    let mut second = open(&rehearsal, &long).await;
    first.shutdown().await.ok();
    let ended = read_some(&mut first).await;
    assert!(ended.contains("409") && ended.contains("terminated by other getUpdates"), "{ended}");
    rehearsal.say(42, 42, "now");
    let answered = read_some(&mut second).await;
    assert!(answered.contains("\"text\":\"now\""), "{answered}");
    assert_eq!(rehearsal.counters().telegram.conflicts, 1);
}

async fn read_some(stream: &mut TcpStream) -> String {
    let mut bytes = vec![0; 4096];
    let length = stream.read(&mut bytes).await.unwrap();
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

#[tokio::test]
async fn updates_come_twice_out_of_order_and_again_when_the_script_says_so() {
    let numbered =
        |update: i64, copies: u32, again: u32| Scripted { update: Some(update), copies, again, ..said("x") };
    let script = TelegramScript {
        updates: vec![numbered(505, 1, 0), numbered(504, 2, 0), numbered(506, 1, 1)],
        ..TelegramScript::default()
    };
    let rehearsal = playing(script).await;
    rehearsal.until(|counters| counters.telegram.to_come == 0).await;
    assert_eq!(updates(&rehearsal, 0).await, [505, 504, 504, 506]);
    assert_eq!(updates(&rehearsal, 507).await, [506], "confirmed, and told once more");
    assert_eq!(updates(&rehearsal, 507).await, [0_i64; 0]);
    assert_eq!(rehearsal.say(42, 42, "next"), Some(507));
}

#[tokio::test]
async fn reactions_are_told_only_to_a_bot_that_asked_for_them() {
    let rehearsal = playing(TelegramScript::default()).await;
    rehearsal.say(42, 42, "x");
    let like = |message: MessageRef, emoji: Option<&str>| {
        Scripted::new(Item::Reaction { chat: 42, from: 42, message, emoji: emoji.map(str::to_owned) })
    };
    assert_eq!(rehearsal.happen(&like(MessageRef::LastReply, Some("👍"))), None, "there is no reply yet");
    let sent = result(&rehearsal, "sendMessage", json!({ "chat_id": 42, "text": "y" })).await;
    let number = sent["message_id"].as_i64().unwrap();
    assert_eq!(rehearsal.last_reply(42), Some(number));
    rehearsal.happen(&like(MessageRef::LastReply, Some("👍"))).unwrap();
    let told = result(&rehearsal, "getUpdates", json!({})).await;
    assert_eq!((told.as_array().unwrap().len(), rehearsal.counters().telegram.withheld), (1, 1));
    let asked = json!({ "offset": 3, "allowed_updates": ["message", "message_reaction"] });
    result(&rehearsal, "getUpdates", asked).await;
    rehearsal.happen(&like(MessageRef::Number(number), Some("👎"))).unwrap();
    rehearsal.happen(&like(MessageRef::Number(number), None)).unwrap();
    let told = result(&rehearsal, "getUpdates", json!({ "offset": 3 })).await;
    assert_eq!(told[0]["message_reaction"]["message_id"], number);
    assert_eq!(told[0]["message_reaction"]["new_reaction"], json!([{ "type": "emoji", "emoji": "👎" }]));
    assert_eq!(told[0]["message_reaction"]["old_reaction"], json!([{ "type": "emoji", "emoji": "👍" }]));
    assert_eq!(told[1]["message_reaction"]["new_reaction"], json!([]));
    assert_eq!(told[1]["message_reaction"]["old_reaction"], json!([{ "type": "emoji", "emoji": "👎" }]));
}

#[tokio::test]
async fn a_message_has_the_form_that_telegram_gives_it() {
    let rehearsal = playing(TelegramScript::default()).await;
    rehearsal.say(42, 42, "/help now");
    result(&rehearsal, "sendMessage", json!({ "chat_id": "42", "text": "yes" })).await;
    let reply = Message { reply_to: Some(MessageRef::LastReply), ..Message::text(42, 7, "thanks") };
    rehearsal.happen(&Scripted::new(Item::Message(reply)));
    let edit = Item::Edit {
        chat: 42,
        from: 7,
        message: MessageRef::LastSaid,
        text: Content::new("thank you".to_owned()),
    };
    rehearsal.happen(&Scripted::new(edit));
    rehearsal.happen(&Scripted::new(Item::Raw(Content::new("{\"poll\":{\"id\":\"1\"}}".to_owned()))));
    let told = result(&rehearsal, "getUpdates", json!({})).await;
    assert_eq!(told[0]["message"]["entities"], json!([{ "type": "bot_command", "offset": 0, "length": 5 }]));
    assert_eq!(told[0]["message"]["chat"]["type"], "private");
    let thanks = &told[1]["message"];
    assert_eq!((&thanks["message_id"], &thanks["from"]["id"]), (&json!(3), &json!(7)));
    assert_eq!(thanks["reply_to_message"]["text"], "yes");
    assert_eq!(thanks["reply_to_message"]["from"]["is_bot"], true);
    assert_eq!(told[2]["edited_message"]["text"], "thank you");
    assert_eq!(told[3], json!({ "poll": { "id": "1" }, "update_id": 4 }));
}

#[tokio::test]
async fn images_are_fetched_as_they_are_whatever_is_told_of_them() {
    let rehearsal = playing(TelegramScript::default()).await;
    let image = |bytes: &[u8], claims: Option<u64>, kind: ImageKind| {
        let bytes = Content::new(bytes.to_vec());
        let image = Some(Image { bytes, width: 90, height: 60, claims, kind });
        Scripted::new(Item::Message(Message {
            image,
            album: Some("a1".to_owned()),
            ..Message::text(42, 42, "see")
        }))
    };
    rehearsal.happen(&image(b"\xff\xd8 a photo", Some(5), ImageKind::Photo));
    let kind = ImageKind::File { mime: "image/png".to_owned(), name: "a.png".to_owned() };
    rehearsal.happen(&image(b"GIF89a", None, kind));
    let told = result(&rehearsal, "getUpdates", json!({})).await;
    let photo = &told[0]["message"];
    assert_eq!((&photo["caption"], &photo["media_group_id"]), (&json!("see"), &json!("a1")));
    assert_eq!(photo["photo"].as_array().unwrap().len(), 2);
    let large = &photo["photo"][1];
    assert_eq!((&large["width"], &large["file_size"]), (&json!(90), &json!(5)));
    assert_eq!(told[1]["message"]["document"]["mime_type"], "image/png");
    for (file, bytes) in
        [(large, &b"\xff\xd8 a photo"[..]), (&told[1]["message"]["document"], &b"GIF89a"[..])]
    {
        let found = result(&rehearsal, "getFile", json!({ "file_id": file["file_id"] })).await;
        let path = found["file_path"].as_str().unwrap();
        let got =
            exchange(&rehearsal, &request("GET", &format!("/file/bot100000001:rehearsal/{path}"), "", ""))
                .await;
        assert_eq!((got.status(), got.raw_body()), (200, bytes));
    }
    let none = exchange(&rehearsal, &call("getFile", &json!({ "file_id": "x" }))).await;
    assert_eq!((none.status(), &none.json()["description"]), (400, &json!("Bad Request: invalid file_id")));
}

#[tokio::test]
async fn a_message_is_refused_as_telegram_refuses_it() {
    let rehearsal = playing(TelegramScript { chats: vec![42], ..TelegramScript::default() }).await;
    let letters = |text: &str, count: usize| text.repeat(count);
    for (parameters, refusal) in [
        (json!({ "text": "x" }), Some("Bad Request: chat_id is empty")),
        (json!({ "chat_id": 7, "text": "x" }), Some("Bad Request: chat not found")),
        (json!({ "chat_id": 42, "text": " \n" }), Some("Bad Request: message text is empty")),
        (json!({ "chat_id": 42, "text": letters("a", 4097) }), Some("Bad Request: message is too long")),
        (json!({ "chat_id": 42, "text": letters("𝄞", 2049) }), Some("Bad Request: message is too long")),
        (
            json!({ "chat_id": 42, "text": "x", "reply_parameters": { "message_id": 9 } }),
            Some("Bad Request: message to be replied not found"),
        ),
        (
            json!({ "chat_id": 42, "text": "x",
                "reply_parameters": { "message_id": 9, "allow_sending_without_reply": true } }),
            None,
        ),
        (json!({ "chat_id": 42, "text": letters("a", 4096) }), None),
        (json!({ "chat_id": 42, "text": letters("𝄞", 2048), "reply_to_message_id": 1 }), None),
    ] {
        let got = exchange(&rehearsal, &call("sendMessage", &parameters)).await;
        assert_eq!(got.status(), if refusal.is_some() { 400 } else { 200 });
        assert_eq!(got.json()["description"].as_str(), refusal);
    }
    let sent = rehearsal.sent_messages();
    assert_eq!((sent.len(), sent[2].reply_to), (3, Some(1)));
    assert_eq!(rehearsal.counters().telegram.methods["sendMessage"], 9);
}

#[tokio::test]
async fn rules_refuse_and_what_was_done_all_the_same_is_said() {
    let rehearsal = playing(TelegramScript::default()).await;
    let send = call("sendMessage", &json!({ "chat_id": 42, "text": "*odd" }));
    for (status, description) in [
        (400, "Bad Request: rehearsed refusal"),
        (403, "Forbidden: bot was blocked by the user"),
        (500, "Internal Server Error"),
    ] {
        rehearsal.add_telegram_rule(TelegramRule::refusing(&status.to_string(), "sendMessage", status, 1));
        let got = exchange(&rehearsal, &send).await;
        assert_eq!((got.status(), got.json()["description"].as_str()), (status, Some(description)));
    }
    let mut limited = TelegramRule::refusing("limit", "sendMessage", 429, 1);
    limited.answer.outcome = Outcome::Refused { status: 429, retry_after: Some(3) };
    rehearsal.add_telegram_rule(limited);
    let got = exchange(&rehearsal, &send).await.json();
    assert_eq!((&got["error_code"], &got["parameters"]["retry_after"]), (&json!(429), &json!(3)));
    assert!(rehearsal.sent_messages().is_empty(), "nothing of this arrived");

    let mut unknown = TelegramRule::refusing("unknown", "sendMessage", 502, 1);
    unknown.when = TelegramWhen {
        contains: Some(Content::new("odd".to_owned())),
        chat: Some(42),
        nth: Some(5),
        ..unknown.when
    };
    let bytes = Content::new(b"<html>bad gateway</html>".to_vec());
    unknown.answer = TelegramAnswer {
        outcome: Outcome::Body { status: 502, bytes },
        done: Some(true),
        ..TelegramAnswer::default()
    };
    rehearsal.add_telegram_rule(unknown);
    let got = exchange(&rehearsal, &send).await;
    assert_eq!((got.status(), got.raw_body()), (502, &b"<html>bad gateway</html>"[..]));
    assert_eq!(rehearsal.sent_messages().len(), 1, "it arrived, and the bot cannot know");
    assert_eq!(exchange(&rehearsal, &send).await.status(), 200);
    let rules = rehearsal.counters().telegram.rules;
    assert_eq!((rules["limit"], rules["unknown"]), (1, 1));
}

#[tokio::test]
async fn an_answer_is_lost_on_its_way_while_the_message_arrives() {
    let rehearsal = playing(TelegramScript::default()).await;
    let send = call("sendMessage", &json!({ "chat_id": 42, "text": "x" }));
    for (at, how) in
        [(CutAt::Request, CutHow::Close), (CutAt::Head, CutHow::Reset), (CutAt::Body(4), CutHow::Close)]
    {
        let manner = Manner { cut: Some(Cut { at, how }), ..Manner::default() };
        rehearsal.add_telegram_rule(TelegramRule::bringing("lost", "sendMessage", manner));
        let mut stream = open(&rehearsal, &send).await;
        let got = read_all(&mut stream).await;
        assert_eq!(got.reset, how == CutHow::Reset);
    }
    assert_eq!(rehearsal.sent_messages().len(), 3);
}

#[tokio::test]
async fn only_the_bot_itself_is_answered() {
    let rehearsal = playing(TelegramScript::default()).await;
    let forged = exchange(&rehearsal, &request("POST", "/bot1:x/getMe", "", "")).await;
    assert_eq!((forged.status(), &forged.json()["description"]), (401, &json!("Unauthorized")));
    assert_eq!(exchange(&rehearsal, &request("GET", "/file/bot1:x/photos/1", "", "")).await.status(), 401);
    assert_eq!(rehearsal.counters().telegram.unauthorized, 2);
    let me = result(&rehearsal, "getMe", json!({})).await;
    assert_eq!((&me["id"], &me["username"]), (&json!(100_000_001), &json!("rehearsal_bot")));
    assert_eq!(exchange(&rehearsal, &call("banChatMember", &json!({}))).await.status(), 404);
    assert_eq!(exchange(&rehearsal, &request("GET", "/else", "", "")).await.status(), 404);
    let path = "/bot100000001:rehearsal/sendMessage?chat_id=42";
    let form = "content-type: application/x-www-form-urlencoded\r\n";
    let got = exchange(&rehearsal, &request("POST", path, form, "text=a+b%26c")).await;
    assert_eq!(got.json()["result"]["text"], "a b&c");
    result(&rehearsal, "setMyCommands", json!({ "commands": [{ "command": "help", "description": "x" }] }))
        .await;
    assert_eq!(result(&rehearsal, "getMyCommands", json!({})).await[0]["command"], "help");
}

/// Is a webhook: it refuses who lacks the secret, fails once, and keeps what it was told.
async fn webhook(posts: usize) -> (String, tokio::task::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/telegram", listener.local_addr().unwrap());
    let told = tokio::spawn(async move {
        let (mut told, mut genuine) = (Vec::new(), 0);
        for _ in 0..posts {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut bytes = vec![0; 8192];
            let length = stream.read(&mut bytes).await.unwrap();
            let post = String::from_utf8_lossy(&bytes[..length]).into_owned();
            let has_secret = post.contains("x-telegram-bot-api-secret-token: s3cret");
            genuine += u32::from(has_secret);
            let status = match (has_secret, genuine) {
                (false, _) => 401,
                (true, 1) => 500,
                (true, _) => 200,
            };
            told.push(post);
            let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        told
    });
    (url, told)
}

#[tokio::test]
async fn a_webhook_is_told_in_order_until_it_says_yes() {
    let script = TelegramScript {
        updates: vec![said("first"), said("second"), Scripted { forged: true, ..said("forged") }],
        ..TelegramScript::default()
    };
    let rehearsal = playing(script).await;
    rehearsal.until(|counters| counters.telegram.to_come == 1).await;
    let (url, told) = webhook(4).await;
    let asked = json!({ "url": url, "secret_token": "s3cret" });
    result(&rehearsal, "setWebhook", asked).await;
    let poll = exchange(&rehearsal, &call("getUpdates", &json!({}))).await;
    assert_eq!(poll.status(), 409);
    let told = told.await.unwrap();
    rehearsal.until(|counters| counters.telegram.to_come == 0 && counters.telegram.waiting == 0).await;
    let of = |text: &str| told.iter().filter(|post| post.contains(&format!("\"{text}\""))).count();
    assert_eq!((of("first"), of("second"), of("forged")), (2, 1, 1));
    for post in &told {
        let genuine = post.contains("x-telegram-bot-api-secret-token: s3cret");
        assert_eq!(genuine, !post.contains("forged"));
    }
    assert_eq!(rehearsal.counters().telegram.forged[&401], 1);
    result(&rehearsal, "deleteWebhook", json!({})).await;
    assert_eq!(result(&rehearsal, "getWebhookInfo", json!({})).await["url"], "");
    assert_eq!(updates(&rehearsal, 0).await, [0_i64; 0]);
}

#[tokio::test]
async fn a_script_waits_for_the_bot_to_answer_before_it_goes_on() {
    let script = TelegramScript {
        updates: vec![
            said("hello"),
            Scripted { after: After::Reply, ..said("how are you?") },
            Scripted { after: After::Delay(1), ..said("and?") },
        ],
        ..TelegramScript::default()
    };
    let rehearsal = playing(script).await;
    rehearsal.until(|counters| counters.telegram.updates == 1).await;
    tokio::task::yield_now().await;
    assert_eq!(rehearsal.counters().telegram.to_come, 2);
    result(&rehearsal, "sendMessage", json!({ "chat_id": 42, "text": "hi" })).await;
    rehearsal.until(|counters| counters.telegram.to_come == 0).await;
    assert_eq!(updates(&rehearsal, 0).await, [1, 2, 3]);
}

#[tokio::test]
async fn whoever_rehearses_speaks_reacts_releases_and_counts() {
    let rehearsal = playing(TelegramScript::default()).await;
    let post = |what: &str, body: Json| request("POST", &format!("/rehearsal/{what}"), "", &body.to_string());
    let said = exchange(&rehearsal, &post("say", json!({ "chat": 42, "text": "hello" }))).await;
    assert_eq!(said.json(), json!({ "update": 1 }));
    let early = exchange(&rehearsal, &post("react", json!({ "chat": 42, "emoji": "👍" }))).await;
    assert_eq!(early.status(), 409);
    result(&rehearsal, "sendMessage", json!({ "chat_id": 42, "text": "hi" })).await;
    exchange(&rehearsal, &post("react", json!({ "chat": 42, "emoji": "👍" }))).await;
    exchange(&rehearsal, &post("release", json!({ "gate": "g" }))).await;
    let wrong = exchange(&rehearsal, &post("say", json!({ "chat": 42, "text": "x", "frm": 1 }))).await;
    assert_eq!((wrong.status(), &wrong.json()["error"]), (400, &json!("this is not understood")));
    let counted = exchange(&rehearsal, &request("GET", "/rehearsal/counters", "", "")).await.json();
    assert_eq!(counted["telegram"]["updates"], 2);
    assert_eq!(counted["messages"][0]["text"], "hi");
    assert_eq!(counted["provider"]["requests"], 0);
}
