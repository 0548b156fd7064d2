//! What came to nothing without anything standing still is told where a person looks, until they have seen it.

use serde_json::Value;
use thoughtstream_channels::rehearsal::{
    Answer as Reply, Outcome, Script, TelegramAnswer, TelegramRule, TelegramWhen,
};

use crate::cli_models::{Stage, Terms};
use crate::cli_turns::Chat;
use crate::cli_world::{Answer, World};

/// Returns what waits of a kind.
fn waiting(world: &World, kind: &str) -> Vec<Value> {
    let mut all = world.thought(&["inbox", "--json"]).expect(0).lines();
    all.retain(|one| one["kind"] == kind);
    all
}

fn why(waiting: &Value) -> &str {
    waiting["why"].as_str().unwrap()
}

#[test]
fn refused_answers_are_one_line_that_comes_back_with_the_next_one() {
    let stage = Stage::new(Script::answering(Reply::text("no JSON at all")), &Terms::default());
    let service = stage.world.serve(&[]);
    for key in ["one", "two", "three"] {
        stage.world.append(key, "text").expect(0);
    }
    let failed = |count: usize| {
        let list = ["run", "list", "--consumer", "observer", "--state", "failed", "--json"];
        stage.world.until(&list, |answer: &Answer| answer.lines().len() == count);
    };
    failed(3);
    let shown = waiting(&stage.world, "output-refused");
    assert_eq!(shown.len(), 1, "{shown:?}");
    assert!(why(&shown[0]).contains("3 outputs were refused"), "{shown:?}");
    let doctor = stage.world.thought(&["doctor", "--quick"]);
    assert!(doctor.stdout.contains("output-refused (1)"), "{}", doctor.stdout);
    // The command that it names says what was wrong.
    let run = shown[0]["id"].as_str().unwrap();
    assert_eq!(shown[0]["command"], format!("thought why {run}"));
    assert!(stage.world.thought(&["why", run]).expect(0).stdout.contains("output.json"));
    stage.world.thought(&["inbox", "later", run, "--for-good"]).expect(0);
    assert_eq!(waiting(&stage.world, "output-refused").len(), 0);
    stage.world.append("four", "text").expect(0);
    failed(4);
    let again = waiting(&stage.world, "output-refused");
    assert_eq!(again.len(), 1, "{again:?}");
    assert_ne!(again[0]["id"], run);
    assert_eq!(service.stop(), 0);
    stage.verify();
}

#[test]
fn a_message_whose_answer_was_refused_is_told_of() {
    let stage = crate::cli_remembering::Stage::new();
    let service = stage.serve();
    stage.say("Write it elsewhere");
    stage.world.until(&["run", "list", "--state", "failed", "--json"], |answer| answer.lines().len() == 1);
    let shown = waiting(&stage.world, "output-refused");
    assert_eq!(shown.len(), 1, "{shown:?}");
    assert!(why(&shown[0]).contains("1 output was refused"), "{shown:?}");
    assert!(stage.rehearsal.sent_messages().is_empty());
    assert_eq!(service.stop(), 0);
}

#[test]
fn a_reply_that_telegram_refuses_waits_until_it_is_sent_again_or_given_up() {
    let chat = Chat::new(crate::cli_turns::script());
    let when =
        TelegramWhen { method: Some("sendMessage".to_owned()), nth: Some(1), ..TelegramWhen::default() };
    let outcome = Outcome::Refused { status: 400, retry_after: None };
    let answer = TelegramAnswer { outcome, ..TelegramAnswer::default() };
    chat.rehearsal.add_telegram_rule(TelegramRule { name: "refused".to_owned(), when, answer });
    let service = chat.world.serve(&[]);
    chat.rehearsal.say(7, 7, "one");
    chat.delivered("failed", 1);
    let shown = waiting(&chat.world, "delivery-failed");
    assert_eq!(shown.len(), 1, "{shown:?}");
    let id = shown[0]["id"].as_str().unwrap();
    assert!(why(&shown[0]).contains("did not arrive in chat 7"), "{shown:?}");
    let resend = format!("thought delivery resend {id}");
    assert_eq!(shown[0]["ways"][0], resend);
    chat.world.thought(&["delivery", "resend", id]).expect(0);
    chat.delivered("delivered", 1);
    assert_eq!(waiting(&chat.world, "delivery-failed").len(), 0);
    assert_eq!(chat.rehearsal.sent_messages().len(), 1);
    assert_eq!(service.stop(), 0);
    chat.world.thought(&["verify"]).expect(0);
}
