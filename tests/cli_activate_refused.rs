//! Moving who answers a bot, through the real program: what is refused, what it says, and the way on from there.

use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use thoughtstream_channels::rehearsal::{Outcome, TelegramAnswer, TelegramRule, TelegramWhen};

use crate::cli_world::{Answer, Running};
use crate::talk::Talk;

/// Runs the command over a version that lies in a directory of its own.
fn activate(talk: &Talk, from: &Path, more: &[&str]) -> Answer {
    let arguments = ["activate", "talk", "--json", "--from", from.to_str().unwrap()];
    talk.world.thought(&arguments.into_iter().chain(more.iter().copied()).collect::<Vec<_>>())
}

fn planned(talk: &Talk, from: &Path) -> String {
    activate(talk, from, &[]).expect(0).json()["confirm"].as_str().unwrap().to_owned()
}

fn steps(answer: &Answer) -> Vec<String> {
    let lines = answer.lines();
    let steps = lines.iter().filter(|line| line["kind"] == "step");
    steps.map(|line| line["step"].as_str().unwrap().to_owned()).collect()
}

#[track_caller]
fn refused(answer: &Answer, code: &str) {
    assert!(answer.code != 0 && answer.stderr.contains(&format!("\"{code}\"")), "{code}: {answer:?}");
}

/// Puts a version into the configuration by hand, as nobody should who has an activation under way.
fn put_in_place(talk: &Talk, from: &Path) {
    for directory in ["declarations", "prompts"] {
        for entry in std::fs::read_dir(from.join(directory)).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), talk.world.config.join(directory).join(entry.file_name())).unwrap();
        }
    }
}

/// Brings an activation of a version to where that is installed and nothing of it verified; the service was killed
/// there, and runs again. Returns the plan's hash.
fn until_installed<'t>(talk: &'t Talk, from: &Path, running: Running<'t>) -> (String, Running<'t>) {
    let confirm = planned(talk, from);
    let arm = ["rehearsal", "arm", "activation.step.after", "abort-process", "--passage", "3"];
    talk.world.thought(&arm).expect(0);
    assert_ne!(activate(talk, from, &["--confirm", &confirm]).code, 0);
    running.wait();
    (confirm, talk.world.serve(&[]))
}

/// Answers a method of the bot API with a refusal, so many times.
fn refuse(talk: &Talk, method: &str, times: u64) {
    let when =
        TelegramWhen { method: Some(method.to_owned()), times: Some(times), ..TelegramWhen::default() };
    let answer = TelegramAnswer {
        outcome: Outcome::Refused { status: 400, retry_after: None },
        ..TelegramAnswer::default()
    };
    talk.telegram.add_telegram_rule(TelegramRule { name: method.to_owned(), when, answer });
}

#[test]
fn a_menu_that_telegram_refuses_keeps_nobody_from_being_answered() {
    let talk = Talk::new("It is dry.");
    let running = talk.world.serve(&[]);
    refuse(&talk, "setMyCommands", 2);
    // Nobody has ever written to this bot: its head is nothing, and that is where the next version begins.
    let second = talk.stage(2);
    let confirm = planned(&talk, &second);
    let lost = activate(&talk, &second, &["--confirm", &confirm]);
    refused(&lost, "menu.telegram");
    assert_eq!(steps(&lost), ["frozen", "stopped", "installed", "verified", "resumed"]);
    talk.say("hello");
    talk.until_delivered(1);
    assert_eq!(talk.answered_by(), ["talk@2"]);
    let inbox = talk.world.thought(&["inbox"]).expect(0).stdout;
    assert!(inbox.contains("comes in again; next step advertised"), "{inbox}");
    refused(&talk.world.thought(&["activate", "talk", "--json", "--cancel"]), "activation.none");

    // It is not in the way of a version after it, and neither is its own menu.
    let third = talk.stage(3);
    let next = planned(&talk, &third);
    refused(&activate(&talk, &third, &["--confirm", &next]), "menu.telegram");
    talk.world.thought(&["activate", "talk", "--confirm", &next]).expect(0);
    let registered = ["event", "list", "--type", "stream.thought.system.menu.registered", "--json"];
    assert_eq!(talk.world.thought(&registered).expect(0).lines().len(), 1);
    assert!(!talk.world.thought(&["inbox"]).expect(0).stdout.contains("activation-open"));
    talk.say("and now?");
    talk.until_delivered(2);
    assert_eq!(talk.answered_by(), ["talk@2", "talk@3"]);
    assert_eq!(running.stop(), 0);
    talk.world.thought(&["verify"]).expect(0);
}

#[test]
fn whoever_is_unknown_new_or_answers_nobody_is_not_moved() {
    let talk = Talk::new("It is dry.");
    let staged = talk.stage(2);
    let links = |version: u32| {
        format!(
            "id: document-links\nversion: {version}\nenabled: true\ndescription: Links.\nsubscribe:\n  types: \
             [stream.thought.source.file.*]\n  kinds: [filesystem]\nrunner: {{ kind: deterministic }}\nemit: \
             [stream.thought.derived.document.links]\n"
        )
    };
    std::fs::write(talk.world.config.join("declarations/links.yaml"), links(1)).unwrap();
    std::fs::write(staged.join("declarations/links.yaml"), links(2)).unwrap();
    let again = staged.join("declarations/again.yaml");
    std::fs::write(
        &again,
        links(1).replace("document.links", "document.tasks").replace("document-links", "document-tasks"),
    )
    .unwrap();
    let running = talk.world.serve(&[]);
    let code = |consumer: &str, code: &str| {
        let staged = staged.to_str().unwrap();
        let answer = talk.world.thought(&["activate", consumer, "--json", "--from", staged]);
        refused(&answer.expect(1), code);
    };
    code("document-links", "activation.no-bot");
    let nobody = talk.world.thought(&["activate", "nobody", "--json"]).expect(1);
    refused(&nobody, "activation.unknown");
    code("document-tasks", "activation.first");
    assert_eq!(running.stop(), 0);
}

#[test]
fn two_at_once_do_not_wait_for_each_other_and_one_that_fails_goes_on() {
    let talk = Talk::new("It is dry.");
    let running = talk.world.serve(&[]);
    let staged = talk.stage(2);
    let confirm = planned(&talk, &staged);
    talk.world.thought(&["rehearsal", "arm", "activation.step.before", "hold"]).expect(0);
    let arguments = ["activate", "talk", "--from", staged.to_str().unwrap(), "--confirm", &confirm];
    let mut held = talk.world.command(&arguments);
    let mut held = held.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begun = ["event", "list", "--type", "stream.thought.system.activation.begun", "--json"];
    talk.world.until(&begun, |answer| !answer.stdout.is_empty());
    refused(&activate(&talk, &staged, &["--confirm", &confirm]), "activation.busy");
    refused(&talk.world.thought(&["activate", "talk", "--json", "--cancel"]), "activation.busy");
    assert_eq!(planned(&talk, &staged), confirm, "who only looks is not in the way");
    running.kill();
    assert!(!held.wait().unwrap().success());
    let running = talk.world.serve(&[]);
    talk.world.thought(&["rehearsal", "arm", "activation.step.inside", "fail"]).expect(0);
    let failed = activate(&talk, &staged, &["--confirm", &confirm]).expect(5);
    refused(&failed, "activation.interrupted");
    activate(&talk, &staged, &["--confirm", &confirm]).expect(0);
    assert_eq!(running.stop(), 0);
    talk.world.thought(&["verify"]).expect(0);
}

#[test]
fn a_version_that_came_by_another_way_is_given_up_and_runs_as_it_is() {
    let talk = Talk::new("It is dry.");
    let running = talk.world.serve(&[]);
    talk.world.thought(&["consumer", "pause", "talk"]).expect(0);
    talk.say("hello");
    let there = |answer: &Answer| answer.code == 0 && answer.lines().len() == 1;
    talk.world.until(&["event", "list", "--source", "telegram:garden", "--json"], there);
    let second = talk.stage(2);
    let confirm = planned(&talk, &second);
    refused(&activate(&talk, &second, &["--confirm", &confirm]), "activation.unfinished");
    refused(&activate(&talk, &talk.stage(3), &[]), "activation.other");

    put_in_place(&talk, &second);
    talk.world.thought(&["reload"]).expect(0);
    talk.world.thought(&["consumer", "resume", "talk"]).expect(0);
    talk.until_delivered(1);
    refused(&activate(&talk, &second, &["--confirm", &confirm]), "activation.bypassed");
    talk.say("still there?");
    let given_up = talk.world.thought(&["activate", "talk", "--json", "--cancel"]).expect(0).json();
    assert_eq!((&given_up["kind"], &given_up["consumer"]), (&"cancelled".into(), &"talk@2".into()));
    talk.until_delivered(2);
    assert_eq!(talk.answered_by(), ["talk@2", "talk@2"]);
    assert_eq!(running.stop(), 0);
    talk.world.thought(&["verify"]).expect(0);
}

#[test]
fn what_was_switched_off_or_replaced_since_is_not_let_in_and_can_be_given_up() {
    let talk = Talk::new("It is dry.");
    let second = talk.stage(2);
    let (confirm, running) = until_installed(&talk, &second, talk.world.serve(&[]));
    let place = talk.world.config.join("declarations/talk.yaml");
    let good = std::fs::read_to_string(&place).unwrap();
    std::fs::write(&place, good.replace("enabled: true", "enabled: false")).unwrap();
    talk.world.thought(&["reload"]).expect(0);
    std::fs::write(&place, &good).unwrap();
    talk.say("hello");
    let again = || activate(&talk, &second, &["--confirm", &confirm]);
    refused(&again(), "activation.unverified.enabled");
    refused(&talk.world.thought(&["activate", "talk", "--json", "--cancel"]), "activation.none");
    talk.world.thought(&["reload"]).expect(0);
    let on = again().expect(0);
    assert_eq!(steps(&on).len(), 6);
    talk.until_delivered(1);

    let (third, fourth) = (talk.stage(3), talk.stage(4));
    let (confirm, running) = until_installed(&talk, &third, running);
    put_in_place(&talk, &fourth);
    talk.world.thought(&["reload"]).expect(0);
    talk.say("and now?");
    let replaced = activate(&talk, &third, &["--confirm", &confirm]);
    refused(&replaced, "config.problems");
    assert!(replaced.stderr.contains("declaration.version-went-back"), "{replaced:?}");
    refused(&talk.world.thought(&["activate", "talk", "--json"]), "activation.other");
    let given_up = talk.world.thought(&["activate", "talk", "--json", "--cancel"]).expect(0).json();
    assert_eq!(given_up["consumer"], "talk@4");
    talk.until_delivered(2);
    assert_eq!(talk.answered_by(), ["talk@2", "talk@4"]);
    assert_eq!(running.stop(), 0);
    talk.world.thought(&["verify"]).expect(0);
}

#[test]
fn another_worker_beside_the_program_than_the_loaded_one_lets_nobody_in() {
    let talk = Talk::new("It is dry.");
    let built = Path::new(env!("CARGO_BIN_EXE_thought-worker"));
    let place = talk.world.base().join("worker");
    std::fs::copy(built, &place).unwrap();
    let running = talk.world.serve_in(&[], |command| {
        command.env("THOUGHTSTREAM_WORKER", &place);
    });
    talk.say("hello");
    talk.until_delivered(1);
    let exchange = |bytes: &[u8]| {
        let next = talk.world.base().join("worker.new");
        std::fs::copy(built, &next).unwrap();
        std::fs::write(&next, bytes).unwrap();
        std::fs::rename(&next, &place).unwrap();
    };
    let good = std::fs::read(built).unwrap();
    exchange(&[&good[..], b"of another build"].concat());
    let second = talk.stage(2);
    let confirm = planned(&talk, &second);
    let wrong = activate(&talk, &second, &["--confirm", &confirm]).expect(1);
    refused(&wrong, "activation.unverified.worker");
    assert_eq!(steps(&wrong), ["frozen", "stopped", "installed"]);
    talk.say("and now?");
    refused(&activate(&talk, &second, &["--confirm", &confirm]), "activation.unverified.worker");
    assert_eq!(talk.calls("setMyCommands"), 0);
    exchange(&good);
    activate(&talk, &second, &["--confirm", &confirm]).expect(0);
    talk.until_delivered(2);
    assert_eq!(talk.answered_by(), ["talk@1", "talk@2"], "what was written meanwhile waited");
    assert_eq!(running.stop(), 0);
    talk.world.thought(&["verify"]).expect(0);
}

#[test]
fn a_folder_of_documents_is_watched_where_the_configuration_says_or_nobody_is_let_in() {
    let talk = Talk::new("It is dry.");
    let with = |version: u32, source: &str, required: bool| {
        let staged = talk.stage(version);
        let path = staged.join("declarations/talk.yaml");
        let text = std::fs::read_to_string(&path).unwrap();
        let documents = format!(
            "documents: {{ maxChars: 9000, from: [{{ source: {source}, paths: [bed.md], required: {required} }}] }}"
        );
        let text = text.replace("maxChars: 60000 }", &format!("maxChars: 60000, {documents} }}"));
        std::fs::write(&path, text).unwrap();
        staged
    };
    std::fs::write(talk.world.notes.join("bed.md"), "Beans in bed two.\n").unwrap();
    let running = talk.world.serve(&[]);
    let file = talk.world.config.join("config.yaml");
    let good = std::fs::read_to_string(&file).unwrap();
    let elsewhere = talk.world.base().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let root = |to: &Path| good.replace(&talk.world.notes.display().to_string(), &to.display().to_string());
    let more = good.replace(
        "sources:\n",
        &format!("sources:\n  - {{ filesystem: other, root: {} }}\n", elsewhere.display()),
    );

    // Before anything is held back: required and nowhere; there since the start of nobody; moved since the start.
    refused(&activate(&talk, &with(2, "filesystem:other", true), &[]).expect(1), "activation.source-root");
    std::fs::write(&file, &more).unwrap();
    refused(&activate(&talk, &with(2, "filesystem:other", false), &[]).expect(1), "activation.source-root");
    std::fs::write(&file, root(&elsewhere)).unwrap();
    let staged = with(2, "filesystem:notes", false);
    refused(&activate(&talk, &staged, &[]).expect(1), "activation.source-root");
    std::fs::write(&file, &good).unwrap();
    planned(&talk, &with(2, "filesystem:other", false));

    // Behind the installation: the same question, of what runs now.
    let staged = with(2, "filesystem:notes", false);
    let (confirm, running) = until_installed(&talk, &staged, running);
    std::fs::write(&file, root(&elsewhere)).unwrap();
    let wrong = activate(&talk, &staged, &["--confirm", &confirm]).expect(1);
    refused(&wrong, "activation.unverified.source-root");
    talk.say("hello");
    std::fs::write(&file, &good).unwrap();
    let moved = activate(&talk, &staged, &["--confirm", &confirm]).expect(0);
    let of = |step: &str| moved.lines().into_iter().find(|line| line["step"] == step).unwrap();
    assert_eq!(of("verified")["facts"]["roots"], serde_json::json!(["filesystem:notes"]));
    talk.until_delivered(1);
    let asked = talk.telegram.provider_requests().last().unwrap().json();
    assert!(asked["messages"].to_string().contains("Beans in bed two."), "{asked}");
    assert_eq!(running.stop(), 0);
    talk.world.thought(&["verify"]).expect(0);
}

/// A bare `/focus` is for the model as long as the version that answers cannot propose a focus, and is answered by the
/// program from then on.
#[test]
fn the_declaration_that_ships_takes_over_from_the_one_before_proposals() {
    let talk = Talk::new("It is dry.");
    let world = &talk.world;
    let shipped = include_str!("../declarations/telegram-conversation.yaml");
    let prompt = include_str!("../prompts/telegram-conversation.md");
    let config = std::fs::read_to_string(world.config.join("config.yaml")).unwrap();
    let config = config
        .replace(
            "models: [small]",
            "models: [smollm2-135m-instruct]\n    toolModels: [smollm2-135m-instruct]",
        )
        .replace("bot: garden", "bot: bot")
        .replace("directReplies: talk", "directReplies: telegram-conversation")
        .replace("filesystem: notes", "filesystem: telegram-agent-context");
    std::fs::write(world.config.join("config.yaml"), config).unwrap();
    std::fs::write(world.notes.join("memory.md"), include_str!("../ops/memory.example.md")).unwrap();
    std::fs::remove_file(world.config.join("declarations/talk.yaml")).unwrap();
    let (documents, proposals) =
        (shipped.find("  # The folder is").unwrap(), shipped.find("policy:").unwrap());
    let (runner, floor) = (shipped.find("runner:").unwrap(), shipped.find("privacyFloor:").unwrap());
    let before = [&shipped[..documents], &shipped[runner..proposals], &shipped[floor..]].concat();
    let before = before.replace("version: 2", "version: 1").replace("enabled: false", "enabled: true");
    let before = before.replace("prompts/telegram-conversation.md", "prompts/before.md");
    std::fs::write(world.config.join("declarations/telegram-conversation.yaml"), before).unwrap();
    std::fs::write(world.config.join("prompts/before.md"), "Answer.\n").unwrap();
    std::fs::remove_file(world.config.join("prompts/telegram-conversation.md")).ok();
    let staged = world.base().join("next");
    for (below, name, text) in [
        ("declarations", "telegram-conversation.yaml", &*shipped.replace("enabled: false", "enabled: true")),
        ("prompts", "telegram-conversation.md", prompt),
    ] {
        std::fs::create_dir_all(staged.join(below)).unwrap();
        std::fs::write(staged.join(below).join(name), text).unwrap();
    }
    let running = world.serve(&[]);
    let memory = ["event", "list", "--source", "filesystem:telegram-agent-context", "--json"];
    world.until(&memory, |answer| !answer.lines().is_empty());
    let sent = |count: usize| {
        world.until(&["status", "--json"], |_| talk.telegram.sent_messages().len() >= count);
        talk.telegram.sent_messages().last().unwrap().text.reveal().clone()
    };
    talk.say("/focus");
    assert_eq!((sent(1), talk.telegram.provider_requests().len()), ("It is dry.".to_owned(), 1));
    let receipts = ["event", "list", "--type", "stream.thought.delivery.delivered", "--json"];
    world.until(&receipts, |answer| answer.lines().len() == 1);

    let from = ["activate", "telegram-conversation", "--json", "--from", staged.to_str().unwrap()];
    let plan = world.thought(&from).expect(0).json();
    assert_eq!(plan["menu"], serde_json::json!(["help", "correct", "focus"]));
    let changes = plan["changes"].to_string();
    assert!(changes.contains("policy") && changes.contains("documents"), "{changes}");
    let confirm = plan["confirm"].as_str().unwrap();
    let moved = world.thought(&[&from[..], &["--confirm", confirm]].concat()).expect(0).lines();
    let verified = moved.iter().find(|line| line["step"] == "verified").unwrap();
    assert_eq!(verified["facts"]["roots"], serde_json::json!(["filesystem:telegram-agent-context"]));
    assert_eq!((talk.calls("setMyCommands"), talk.telegram.sent_messages().len()), (1, 1));
    talk.say("/focus");
    let answer = sent(2);
    assert!(answer.contains("A proposal starts nothing"), "{answer}");
    assert_eq!(talk.telegram.provider_requests().len(), 1, "nobody was asked");
    let wrote: Vec<Value> = world.thought(&["proposal-list", "--json"]).expect(0).lines();
    assert!(wrote.is_empty(), "an activation proposes nothing: {wrote:?}");
    assert_eq!(running.stop(), 0);
    world.thought(&["verify"]).expect(0);
}
