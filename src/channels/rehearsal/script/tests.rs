use serde_json::json;
use thoughtstream_domain::yaml::render_all;

use super::super::{After, CallId, CutAt, CutHow, Drip, ImageKind, Item, MessageRef, Outcome, Says, Usage};
use super::{EXAMPLE, Script};

fn read(text: &str) -> Script {
    Script::parse("script.yaml", text.as_bytes())
        .unwrap_or_else(|problems| panic!("{}", render_all(&problems)))
}

fn problems(text: &str) -> String {
    let problems = Script::parse("script.yaml", text.as_bytes()).unwrap_err();
    problems.iter().map(|problem| format!("{problem}\n")).collect()
}

#[test]
fn an_empty_script_plays_what_needs_none() {
    for text in ["", "# nothing\n", "provider: {}\ntelegram: {}\n"] {
        let script = read(text);
        assert!(script.provider.rules.is_empty() && script.telegram.updates.is_empty());
        assert!(matches!(script.provider.otherwise.says, Says::Echo));
        assert_eq!(script.telegram.token.reveal(), "100000001:rehearsal");
    }
}

#[test]
fn the_example_is_read_and_its_schema_is_the_published_one() {
    let script = read(EXAMPLE);
    assert!(script.provider.rules.len() > 3 && script.telegram.updates.len() > 3);
    let expected = serde_json::to_string_pretty(&Script::schema()).unwrap() + "\n";
    let published = include_str!("../../../../schemas/rehearsal.schema.json");
    assert!(published == expected, "write this to schemas/rehearsal.schema.json:\n{expected}");
}

#[test]
fn every_answer_of_the_provider_is_read() {
    let text = r#"
provider:
  token: k1
  models: [small]
  rules:
    - { answer: { text: hi, usage: absurd, finish: length, piece: 3 } }
    - { answer: { json: '{ "a": [1, 2] }', usage: { prompt: 5, completion: 6 } } }
    - { answer: { text: so, tools: [{ name: t, arguments: "{" }] } }
    - { answer: { error: { status: 429, code: slow_down, retryAfter: 1500ms } } }
    - { answer: { bodyBase64: "/w==", status: 302, headers: { Location: "http://127.0.0.1:9/" } } }
    - { answer: { body: "", delay: 2s, hold: gate, drip: { bytes: 1, every: 50ms } } }
    - { answer: { fill: 100000000 } }
    - { answer: { endless: true, cut: 70000 } }
    - { answer: { rawBase64: "aGk=" } }
    - { name: last, when: { nth: 2, contains: a, system: b, model: c, has: tools, offers: note, times: 3 }, answer: { echo: true, reset: head } }
    - { answer: { inTurn: true, tools: [{ name: t, arguments: "{}", id: "", index: 7 }, { name: t, arguments: "{}", withoutId: true }] } }
  otherwise: { error: { status: 500 }, cut: request }
"#;
    let provider = read(text).provider;
    let says = |at: usize| &provider.rules[at].answer.says;
    let answer = |at: usize| &provider.rules[at].answer;
    assert_eq!(provider.token.as_ref().map(|token| token.reveal().as_str()), Some("k1"));
    assert!(matches!(says(0), Says::Text(text) if text.reveal() == "hi"));
    assert_eq!((&answer(0).usage, answer(0).piece), (&Usage::Absurd, Some(3)));
    assert!(matches!(says(1), Says::Text(text) if text.reveal() == "{\"a\":[1,2]}"));
    assert_eq!(answer(1).usage, Usage::Given { prompt: 5, completion: 6 });
    assert!(matches!(says(2), Says::Tools { text: Some(_), calls } if calls[0].arguments.reveal() == "{"));
    assert!(
        matches!(says(3), Says::Error { status: 429, code, retry_after: Some(2) } if code == "slow_down")
    );
    let Says::Body { status, headers, bytes } = says(4) else { panic!() };
    assert_eq!((*status, headers[0].0.as_str(), bytes.reveal().as_slice()), (302, "location", &b"\xff"[..]));
    let manner = &answer(5).manner;
    assert_eq!((manner.delay_ms, manner.hold.as_deref()), (2_000, Some("gate")));
    assert_eq!(manner.drip, Some(Drip { bytes: 1, every_ms: 50 }));
    assert!(matches!(says(6), Says::Fill(100_000_000)));
    assert!(matches!(says(7), Says::Endless));
    assert_eq!(answer(7).manner.cut.map(|cut| (cut.at, cut.how)), Some((CutAt::Body(70_000), CutHow::Close)));
    assert!(matches!(says(8), Says::Raw(bytes) if bytes.reveal() == b"hi"));
    let last = &provider.rules[9];
    assert_eq!((last.name.as_str(), provider.rules[0].name.as_str()), ("last", "rule-1"));
    assert_eq!((last.when.nth, last.when.times, last.when.has.as_deref()), (Some(2), Some(3), Some("tools")));
    assert_eq!(last.answer.manner.cut.map(|cut| (cut.at, cut.how)), Some((CutAt::Head, CutHow::Reset)));
    assert_eq!(last.when.offers.as_deref(), Some("note"));
    let Says::Tools { text: None, calls } = says(10) else { panic!() };
    assert_eq!((&calls[0].id, calls[0].index), (&CallId::Given(String::new()), Some(7)));
    assert!(answer(10).in_turn && calls[1].id == CallId::Missing && calls[1].index.is_none());
    assert_eq!(provider.otherwise.manner.cut.map(|cut| cut.at), Some(CutAt::Request));
}

#[test]
fn everything_that_happens_is_read() {
    let text = r#"
telegram:
  token: "7:x"
  bot: { id: 7, username: a_bot, name: A }
  chats: [42, -100, "9007199254740993"]
  firstUpdate: 500
  updates:
    - message: { chat: "9007199254740993", from: 8, name: Eve, text: hi, replyTo: last-reply, album: a }
    - message: { chat: 42, photo: { base64: "/9g=", width: 9, height: 6, claims: 1 } }
      after: 2s
      copies: 2
    - message: { chat: 42, text: see, file: { base64: "", mime: image/png } }
      after: reply
      again: 1
      update: 505
    - edit: { chat: 42, message: last-said, text: new }
    - reaction: { chat: 42, from: 7, message: 3, emoji: "👍" }
    - reaction: { chat: 42, message: last-reply }
    - raw: '{"poll": {}}'
      forged: true
  rules:
    - { when: { method: getUpdates, times: 10 }, answer: { status: 409 } }
    - { name: slow, when: { method: sendMessage, nth: 2, contains: x, chat: 42 }, answer: { status: 429, retryAfter: 3s, delay: 1s } }
    - { answer: { body: "<html>", status: 502, done: true, cut: 3 } }
    - { answer: { reset: request } }
"#;
    let telegram = read(text).telegram;
    assert_eq!((telegram.bot.id, telegram.first_update), (7, 500));
    assert_eq!(telegram.chats, [42, -100, 9_007_199_254_740_993]);
    let updates = &telegram.updates;
    let Item::Message(message) = &updates[0].item else { panic!() };
    assert_eq!((message.chat, message.from, message.name.as_str()), (9_007_199_254_740_993, 8, "Eve"));
    assert_eq!(message.reply_to, Some(MessageRef::LastReply));
    let Item::Message(message) = &updates[1].item else { panic!() };
    let image = message.image.as_ref().unwrap();
    assert_eq!(
        (image.bytes.reveal().as_slice(), image.claims, message.from),
        (&b"\xff\xd8"[..], Some(1), 42)
    );
    assert_eq!((updates[1].after, updates[1].copies), (After::Delay(2_000), 2));
    let Item::Message(message) = &updates[2].item else { panic!() };
    assert!(
        matches!(&message.image.as_ref().unwrap().kind, ImageKind::File { mime, .. } if mime == "image/png")
    );
    assert_eq!((updates[2].after, updates[2].again, updates[2].update), (After::Reply, 1, Some(505)));
    assert!(matches!(updates[3].item, Item::Edit { message: MessageRef::LastSaid, .. }));
    assert!(matches!(&updates[4].item, Item::Reaction { from: 7, emoji: Some(_), .. }));
    assert!(matches!(&updates[5].item, Item::Reaction { from: 42, emoji: None, .. }));
    assert!(matches!(&updates[6].item, Item::Raw(_)) && updates[6].forged);
    let rules = &telegram.rules;
    assert!(matches!(rules[0].answer.outcome, Outcome::Refused { status: 409, retry_after: None }));
    assert!(matches!(rules[1].answer.outcome, Outcome::Refused { status: 429, retry_after: Some(3) }));
    assert!(matches!(rules[2].answer.outcome, Outcome::Body { status: 502, .. }));
    assert_eq!(rules[2].answer.done, Some(true));
    assert!(matches!(rules[3].answer.outcome, Outcome::Good));
}

const WRONG_PROVIDER: &str = r#"provider:
  rules:
    - name: a
      answer: { text: hi, echo: true }
    - name: a
      answer: { json: '{"a":', status: 200 }
    - when: { contians: x, nth: 0 }
      answer: { usage: none }
    - answer: { echo: false, cut: 3, reset: body }
  otherwise: { bodyBase64: "?", delay: 2 }
"#;

#[test]
fn what_is_wrong_with_a_provider_is_reported_at_its_place() {
    insta::assert_snapshot!(problems(WRONG_PROVIDER), @r##"
    script.yaml:4:27: something else is answered already [script.one-of]
      4 |       answer: { text: hi, echo: true }
        |                           ^^^^
      only `text` and `tools` stand together
    script.yaml:5:13: this name is taken [script.same-name]
      5 |     - name: a
        |             ^
      what rules answer is counted by their names
    script.yaml:6:23: this is not JSON at line 1, column 5 of it [script.json]
      6 |       answer: { json: '{"a":', status: 200 }
        |                       ^^^^^^^
      put it between single quotes, or behind `|`
    script.yaml:6:32: `status` means nothing here [script.not-together]
      6 |       answer: { json: '{"a":', status: 200 }
        |                                ^^^^^^
      it belongs to body or bodyBase64
    script.yaml:7:15: this key is not known here [shape.unknown-key]
      7 |     - when: { contians: x, nth: 0 }
        |               ^^^^^^^^
      did you mean `contains`?
      known here: nth, contains, system, model, has, offers, times
    script.yaml:7:33: 0 is not between 1 and 9007199254740991 [shape.out-of-bounds]
      7 |     - when: { contians: x, nth: 0 }
        |                                 ^
      write a whole number from 1 to 9007199254740991
    script.yaml:8:15: nothing says what is answered [script.one-of]
      8 |       answer: { usage: none }
        |               ^^^^^^^^^^^^^^^
      one of echo, text, json, tools, error, body, bodyBase64, fill, endless, rawBase64
    script.yaml:8:24: this word is not known here [shape.bad-value]
      8 |       answer: { usage: none }
        |                        ^^^^
      write `counted` or `missing` or `nothing` or `prompt-only` or `absurd` or `negative` or `as-text`
    script.yaml:9:23: `echo` is only ever true [script.not-together]
      9 |     - answer: { echo: false, cut: 3, reset: body }
        |                       ^^^^^
      remove the key
    script.yaml:9:38: the connection is cut already [script.not-together]
      9 |     - answer: { echo: false, cut: 3, reset: body }
        |                                      ^^^^^
      it ends once: by `cut` or by `reset`
    script.yaml:9:45: this word is not known here [shape.bad-value]
      9 |     - answer: { echo: false, cut: 3, reset: body }
        |                                             ^^^^
      write `request` or `head`
    script.yaml:10:28: this is not base64 [script.base64]
      10 |   otherwise: { bodyBase64: "?", delay: 2 }
         |                            ^^^
      `base64 -w0 FILE` makes it
    script.yaml:10:40: a length of time is expected here, not a whole number [shape.wrong-kind]
      10 |   otherwise: { bodyBase64: "?", delay: 2 }
         |                                        ^
      add a unit, such as `2s`
    "##);
}

const WRONG_TELEGRAM: &str = r#"telegram:
  token: "a b"
  updates:
    - { after: soon }
    - message: { text: hi }
    - message: { chat: 42 }
      reaction: { chat: 42, message: last }
    - edit: { chat: 42, message: 1, text: x }
      forged: true
    - raw: "[1]"
  rules:
    - answer: { retryAfter: 3s }
"#;

#[test]
fn what_is_wrong_with_telegram_is_reported_at_its_place() {
    insta::assert_snapshot!(problems(WRONG_TELEGRAM), @r##"
    script.yaml:2:10: this is not a token [shape.bad-value]
      2 |   token: "a b"
        |          ^^^^^
      write it like `100000001:rehearsal`
    script.yaml:4:7: nothing says what happens [script.one-of]
      4 |     - { after: soon }
        |       ^^^^^^^^^^^^^^^
      one of message, edit, reaction, raw
    script.yaml:4:16: this is not a length of time, or `reply` [shape.bad-value]
      4 |     - { after: soon }
        |                ^^^^
      write it like `2s`
    script.yaml:5:7: the key `chat` is missing [shape.missing-key]
      5 |     - message: { text: hi }
        |       ^^^^^^^
      chat: the chat
    script.yaml:6:16: the message holds nothing [script.one-of]
      6 |     - message: { chat: 42 }
        |                ^^^^^^^^^^^^
      an empty message is written as `text: ""`
    script.yaml:7:7: something else happens already [script.one-of]
      7 |       reaction: { chat: 42, message: last }
        |       ^^^^^^^^
      one thing happens in each update
    script.yaml:7:38: this word is not known here [shape.bad-value]
      7 |       reaction: { chat: 42, message: last }
        |                                      ^^^^
      write `last-reply` or `last-said`
    script.yaml:9:7: `forged` means nothing here [script.not-together]
      9 |       forged: true
        |       ^^^^^^
      it belongs to message or raw
    script.yaml:10:12: an update is a JSON object [script.json]
      10 |     - raw: "[1]"
         |            ^^^^^
      such as '{"poll": {}}'
    script.yaml:12:17: `retryAfter` means nothing here [script.not-together]
      12 |     - answer: { retryAfter: 3s }
         |                 ^^^^^^^^^^
      it belongs to status
    "##);
}

#[test]
fn nothing_but_a_script_is_one() {
    insta::assert_snapshot!(problems("- a\n"), @r##"
    script.yaml:1:1: a map is expected here, not a list [shape.wrong-kind]
      1 | - a
        | ^
      write it as a map of: provider, telegram
    "##);
    insta::assert_snapshot!(problems("provider: &a {}\n"), @r##"
    script.yaml:1:11: an anchor is not read [yaml.anchor]
      1 | provider: &a {}
        |           ^^
      write the value out where it is used; quote text that starts with `&`
    "##);
    assert_eq!(Script::schema()["properties"]["provider"]["type"], json!("object"));
}
