//! Moving who answers a bot to the next version, through the real program: with the bot held back, killed at every
//! step, given up, and gone on with.

use serde_json::Value;

use crate::cli_world::Answer;
use crate::talk::Talk;

const STEPS: [&str; 6] = ["frozen", "stopped", "installed", "verified", "resumed", "advertised"];

fn activate(talk: &Talk, version: u32, more: &[&str]) -> Answer {
    let staged = talk.stage(version);
    let arguments = ["activate", "talk", "--json", "--from", staged.to_str().unwrap()];
    talk.world.thought(&arguments.into_iter().chain(more.iter().copied()).collect::<Vec<_>>())
}

/// Looks at the plan; returns its hash.
fn planned(talk: &Talk, version: u32) -> String {
    let plan = activate(talk, version, &[]).expect(0).json();
    assert_eq!((&plan["kind"], &plan["to"]), (&"plan".into(), &format!("talk@{version}").into()));
    plan["confirm"].as_str().unwrap().to_owned()
}

fn steps(answer: &Answer) -> Vec<String> {
    let lines = answer.lines();
    let steps = lines.iter().filter(|line| line["kind"] == "step");
    steps.map(|line| line["step"].as_str().unwrap().to_owned()).collect()
}

fn versions(talk: &Talk) -> Vec<Value> {
    let consumers = talk.world.thought(&["consumer", "list", "--json"]).expect(0).lines();
    let running = consumers.iter().filter(|consumer| consumer["state"] != "disabled");
    running.map(|consumer| consumer["consumer"].clone()).collect()
}

fn events(talk: &Talk, kind: &str) -> Vec<Value> {
    talk.world.thought(&["event", "list", "--type", kind, "--limit", "1000", "--json"]).expect(0).lines()
}

#[test]
fn a_plan_is_shown_and_does_nothing_and_confirmed_it_moves_everything_at_the_frozen_head() {
    let talk = Talk::new("It is dry.");
    let running = talk.world.serve(&[]);
    talk.say("hello");
    talk.until_delivered(1);
    let confirm = planned(&talk, 2);
    let shown =
        talk.world.thought(&["activate", "talk", "--from", talk.stage(2).to_str().unwrap()]).expect(0);
    for say in ["talk@1 becomes talk@2", "changes:", "prompt", "nothing is done yet", &confirm] {
        assert!(shown.stdout.contains(say), "{say}: {}", shown.stdout);
    }
    assert!(events(&talk, "stream.thought.system.activation.*").is_empty());
    assert_eq!((talk.calls("setMyCommands"), versions(&talk)), (0, vec!["talk@1".into()]));
    let other = "0".repeat(64);
    assert!(activate(&talk, 2, &["--confirm", &other]).expect(1).stderr.contains("activation.other-plan"));
    let refused = talk.world.thought(&[
        "activate",
        "talk",
        "--from",
        talk.stage(2).to_str().unwrap(),
        "--confirm",
        &other,
    ]);
    assert!(refused.stdout.contains(&format!("plan        {confirm}")), "{refused:?}");

    let before = events(&talk, "stream.thought.*").len();
    let moved = activate(&talk, 2, &["--confirm", &confirm]).expect(0);
    assert_eq!(steps(&moved), STEPS);
    assert_eq!(versions(&talk), ["talk@2"]);
    assert_eq!((talk.calls("setMyCommands"), talk.calls("sendMessage")), (1, 1), "nobody is told in a chat");
    // What it wrote are its steps, the set of declarations and the menu: no proposal, and no document.
    let wrote = events(&talk, "stream.thought.*").split_off(before);
    let kinds: Vec<&str> = wrote.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let ours = ["system.activation.", "system.declarations-loaded", "system.menu.registered"];
    assert!(kinds.iter().all(|kind| ours.iter().any(|ours| kind.contains(ours))), "{kinds:?}");
    let verified = moved.lines().into_iter().find(|line| line["step"] == "verified").unwrap();
    assert!(verified["facts"]["worker"].is_string() && verified["facts"]["fingerprint"].is_string());
    assert_eq!(verified["facts"]["head"], 1);

    talk.say("and now?");
    talk.until_delivered(2);
    assert_eq!(talk.answered_by(), ["talk@1", "talk@2"]);
    // Only the answer could have been lost.
    let again = activate(&talk, 2, &["--confirm", &confirm]).expect(0);
    assert_eq!(again.json()["kind"], "activated");
    assert_eq!(talk.calls("setMyCommands"), 1);
    assert_eq!(running.stop(), 0);
    talk.world.thought(&["verify"]).expect(0);
}

/// Kills the service at a point of each of these steps, a sample of what `chaos_talk` deals; the same command goes on,
/// and what was written meanwhile is answered once, by the new version.
fn killed_at(point: &str, numbers: std::ops::RangeInclusive<u32>) {
    let talk = Talk::new("It is dry.");
    let mut running = talk.world.serve(&[]);
    talk.say("hello");
    talk.until_delivered(1);
    let mut version = 1;
    for number in numbers {
        version += 1;
        let confirm = planned(&talk, version);
        let passage = number.to_string();
        let arm = ["rehearsal", "arm", point, "abort-process", "--passage", &passage];
        talk.world.thought(&arm).expect(0);
        let lost = activate(&talk, version, &["--confirm", &confirm]);
        assert_ne!(lost.code, 0, "{point} {number}");
        running.wait();
        talk.say("are you there?");
        running = talk.world.serve(&[]);
        let waiting = talk.world.thought(&["inbox", "--json"]).expect(0);
        let open = waiting.stdout.contains("activation-open");
        // The last step is the only one after which nothing is left to be done.
        assert_eq!(open, !(point == "activation.step.after" && number == 6), "{point} {number}: {waiting:?}");
        activate(&talk, version, &["--confirm", &confirm]).expect(0);
        assert_eq!(versions(&talk), [format!("talk@{version}")]);
        talk.until_delivered(version as usize);
        assert_eq!(talk.answered_by().last(), Some(&format!("talk@{version}")), "{point} {number}");
    }
    assert_eq!(talk.answered_by().len(), version as usize, "each message is answered once");
    let begun = events(&talk, "stream.thought.system.activation.begun").len();
    let stepped = events(&talk, "stream.thought.system.activation.stepped").len();
    assert_eq!((begun, stepped), (version as usize - 1, (version as usize - 1) * STEPS.len()));
    assert_eq!(running.stop(), 0);
    talk.world.thought(&["verify"]).expect(0);
}

#[test]
fn killed_before_a_step_the_same_command_goes_on_at_the_first_ones() {
    killed_at("activation.step.before", 1..=2);
}

#[test]
fn killed_between_a_step_and_its_record_the_same_command_goes_on_in_the_middle() {
    killed_at("activation.step.inside", 3..=4);
}

#[test]
fn killed_after_a_step_the_same_command_goes_on_at_the_last_ones() {
    killed_at("activation.step.after", 5..=6);
}

#[test]
fn it_waits_for_what_came_in_before_and_can_be_given_up_until_the_new_version_is_in_place() {
    let talk = Talk::new("It is dry.");
    let running = talk.world.serve(&[]);
    talk.world.thought(&["consumer", "pause", "talk"]).expect(0);
    talk.say("hello");
    let there = |answer: &Answer| answer.code == 0 && answer.lines().len() == 1;
    talk.world.until(&["event", "list", "--source", "telegram:garden", "--json"], there);
    let confirm = planned(&talk, 2);
    let refused = activate(&talk, 2, &["--confirm", &confirm]).expect(1);
    assert!(refused.stderr.contains("activation.unfinished"), "{}", refused.stderr);
    assert_eq!(steps(&refused), ["frozen"]);
    assert!(talk.world.thought(&["inbox"]).expect(0).stdout.contains("activation-open"));
    let menu = talk.world.thought(&["telegram-menu-register", "--skip-help-notice"]).expect(1);
    assert!(menu.stderr.contains("menu.not-ready"), "{}", menu.stderr);

    talk.world.thought(&["activate", "talk", "--cancel"]).expect(0);
    talk.world.thought(&["activate", "talk", "--cancel"]).expect(1);
    talk.world.thought(&["consumer", "resume", "talk"]).expect(0);
    talk.until_delivered(1);
    talk.say("still you?");
    talk.until_delivered(2);
    assert_eq!(talk.answered_by(), ["talk@1", "talk@1"]);

    // Another one is begun, and this time what stood in the way is done.
    assert_eq!(planned(&talk, 2), confirm);
    activate(&talk, 2, &["--confirm", &confirm]).expect(0);
    assert!(
        talk.world.thought(&["activate", "talk", "--cancel"]).expect(1).stderr.contains("activation.none")
    );
    talk.say("and now?");
    talk.until_delivered(3);
    assert_eq!(talk.answered_by()[2], "talk@2");
    assert_eq!(running.stop(), 0);
    talk.world.thought(&["verify"]).expect(0);
}

#[test]
fn what_cannot_be_activated_is_refused_before_anything_is_held_back() {
    let talk = Talk::new("It is dry.");
    let running = talk.world.serve(&[]);
    let code =
        |answer: &Answer, code: &str| assert!(answer.stderr.contains(code), "{code}: {}", answer.stderr);
    code(&activate(&talk, 1, &[]).expect(1), "activation.same");
    let staged = talk.stage(3);
    let with = |arguments: &[&str]| {
        let all = ["activate", "talk", "--from", staged.to_str().unwrap()];
        talk.world.thought(&all.into_iter().chain(arguments.iter().copied()).collect::<Vec<_>>())
    };
    let declaration = staged.join("declarations/talk.yaml");
    let good = std::fs::read_to_string(&declaration).unwrap();
    // A prompt that is in use keeps its text; one that this version does not name is not what is moved.
    std::fs::write(staged.join("prompts/talk.md"), "Answer at length.\n").unwrap();
    let files = with(&["--json"]).expect(0).json()["files"].to_string();
    assert!(files.contains("prompts/talk-3.md") && !files.contains("prompts/talk.md"), "{files}");
    std::fs::write(&declaration, good.replace("prompts/talk-3.md", "prompts/talk.md")).unwrap();
    code(&with(&[]).expect(1), "activation.prompt-in-place");
    std::fs::write(&declaration, &good).unwrap();
    std::fs::remove_file(staged.join("prompts/talk.md")).unwrap();
    std::fs::write(staged.join("declarations/again.yaml"), "id: talk\nversion: 4\n").unwrap();
    code(&with(&[]).expect(2), "activation.staged");
    std::fs::remove_file(staged.join("declarations/again.yaml")).unwrap();
    talk.world.thought(&["activate", "talk", "--from", "/nowhere"]).expect(2);
    std::fs::write(&declaration, good.replace("enabled: true", "enabled: false")).unwrap();
    code(&with(&[]).expect(1), "activation.version");
    std::fs::write(&declaration, good.replace("replay: now", "replay: whenever")).unwrap();
    with(&[]).expect(2);
    std::fs::write(&declaration, good).unwrap();
    with(&[]).expect(0);
    // What else has changed would come with it, and was in no plan.
    let more = "id: document-links\nversion: 1\nenabled: true\ndescription: Links.\nsubscribe:\n  types: \
                [stream.thought.source.file.*]\n  sources: [filesystem:notes]\n  replay: beginning\ncontext: { maxEvents: 1, \
                maxChars: 24000 }\nrunner: { kind: deterministic }\nprompt: prompts/talk.md\nemit: \
                [stream.thought.derived.document.links]\n";
    std::fs::write(talk.world.config.join("declarations/links.yaml"), more).unwrap();
    code(&with(&[]).expect(1), "activation.others-changed");
    assert!(events(&talk, "stream.thought.system.activation.*").is_empty());
    assert_eq!(running.stop(), 0);
    talk.world.thought(&["activate", "talk", "--cancel"]).expect(1);
}

#[test]
fn a_menu_is_set_when_its_version_is_ready_and_chats_are_told_once() {
    let talk = Talk::new("It is dry.");
    let running = talk.world.serve(&[]);
    talk.world.thought(&["telegram-menu-register", "--skip-help-notice"]).expect(0);
    assert_eq!((talk.calls("setMyCommands"), talk.calls("sendMessage")), (1, 0));
    for told in 1..=2 {
        talk.world.thought(&["telegram-menu-register"]).expect(0);
        assert_eq!((talk.calls("setMyCommands"), talk.calls("sendMessage")), (1 + told, 1));
    }
    assert_eq!(events(&talk, "stream.thought.system.menu.registered").len(), 1);
    let notices = events(&talk, "stream.thought.system.menu.notice");
    let states: Vec<&Value> = notices.iter().map(|notice| &notice["payload"]["state"]).collect();
    assert_eq!(states, ["begun", "sent"]);
    assert_eq!(running.stop(), 0);
    talk.world.thought(&["telegram-menu-register"]).expect(1);
    talk.world.thought(&["verify"]).expect(0);
}

#[test]
fn a_webhook_is_set_once_it_listens_and_doctor_sees_it() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    let settings = format!(
        "    mode: webhook\n    webhook: {{ listen: \"{address}\", secret: garden-webhook, url: \"http://{address}/garden\" }}\n"
    );
    let talk = Talk::with("It is dry.", &settings);
    talk.credential("garden-webhook", "s3cret", 0o600);
    let bot = |health: &str, says: &str| {
        let seen = talk.world.thought(&["doctor", "--quick", "--json"]).json();
        let checks = seen["checks"].as_array().unwrap();
        let check = checks.iter().find(|check| check["id"] == "bot-garden").unwrap();
        assert_eq!(check["status"], health, "{check}");
        assert!(check["evidence"].as_str().unwrap().contains(says), "{check}");
        assert!(!check.to_string().contains("s3cret") && !check.to_string().contains(&address.to_string()));
    };
    bot("finding", "nowhere or elsewhere");
    drop(free);
    let running = talk.world.serve(&[]);
    talk.say("hello");
    talk.until_delivered(1);
    assert_eq!((talk.calls("setWebhook"), talk.calls("getUpdates")), (1, 0));
    bot("ok", "is told of updates");
    // The listener goes away while the version is moved, and what was written meanwhile is told again.
    let confirm = planned(&talk, 2);
    activate(&talk, 2, &["--confirm", &confirm]).expect(0);
    talk.say("and now?");
    talk.until_delivered(2);
    assert_eq!(talk.answered_by(), ["talk@1", "talk@2"]);
    assert_eq!(running.stop(), 0);
    talk.credential("telegram-garden", "100000001:another", 0o600);
    bot("finding", "does not know its token");
    talk.credential("telegram-garden", "100000001:rehearsal", 0o644);
    bot("finding", "its token is not used");
}
