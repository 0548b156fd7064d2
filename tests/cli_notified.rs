//! The shipped observer of files: what it proposes to take a person's attention for is delivered, and nothing else.

use thoughtstream_channels::rehearsal::{Answer as Reply, Rehearsal, Rule, Script};
use thoughtstream_surface::shipped;
use tokio::runtime::Runtime;

use crate::cli_world::World;

/// The observer's answer to a note that has a word in it.
struct Observed {
    word: &'static str,
    importance: &'static str,
    tag: &'static str,
    target: &'static str,
    action: &'static str,
}

/// Fits in everything.
const FITS: Observed = Observed {
    word: "fits",
    importance: "high",
    tag: "notify-owner",
    target: "owner-telegram",
    action: "notify",
};

impl Observed {
    fn rule(&self) -> Rule {
        let Self { word, importance, tag, target, action } = self;
        let answer = serde_json::json!({
            "summary": format!("A note that {word}"), "tags": ["garden", tag], "importance": importance,
            "confidence": 0.9,
            "recommendation": { "target": target, "reason": "It is due today.", "proposedAction": action },
        });
        Rule::when_contains(word, &format!("w-{word}-w"), Reply::text(answer.to_string()))
    }
}

#[test]
fn the_shipped_prompt_and_the_example_of_the_configuration_use_the_same_words() {
    let text = |path: &str| shipped::FILES.iter().find(|file| file.path == path).unwrap().text;
    let example = include_str!("../ops/config.example.yaml");
    let prompt = text("prompts/file-observer.md");
    for word in [FITS.tag, FITS.target] {
        assert!(prompt.contains(&format!("`{word}`")) && example.contains(&format!(": {word}\n")), "{word}");
    }
    assert!(prompt.contains("the `proposedAction` `notify`") && prompt.contains("`importance` is `high`"));
}

#[test]
fn a_note_that_asks_for_attention_in_the_exact_way_is_told_once_and_no_other() {
    let short = [
        Observed { word: "importance", importance: "normal", ..FITS },
        Observed { word: "tag", tag: "notify-owners", ..FITS },
        Observed { word: "target", target: "owner", ..FITS },
        Observed { word: "action", action: "tell", ..FITS },
    ];
    let mut script = Script::answering(Reply::text("nothing")).with_rule(FITS.rule());
    for observed in &short {
        script = script.with_rule(observed.rule());
    }
    let runtime = Runtime::new().unwrap();
    let rehearsal = runtime.block_on(Rehearsal::start(script)).unwrap();
    let world = World::with_config();
    let config = format!(
        "sources:\n  - {{ filesystem: notes, root: {notes} }}\n\
         providers:\n  - {{ name: local, endpoint: {provider}, models: [smollm2-135m-instruct] }}\n\
         telegram:\n  - bot: garden\n    api: {api}\n    credential: garden\n    chats: [\"7\"]\n    \
         senders: [\"7\"]\n    notifications:\n      chat: \"7\"\n      tag: notify-owner\n      \
         target: owner-telegram\n      from: [{{ agent: file-observer, source: \"filesystem:notes\" }}]\n",
        notes = world.notes.display(),
        provider = rehearsal.provider_url,
        api = rehearsal.telegram_url,
    );
    std::fs::write(world.config.join("config.yaml"), config).unwrap();
    let declared = world.config.join("declarations/file-observer.yaml");
    let text = std::fs::read_to_string(&declared).unwrap();
    std::fs::write(&declared, text.replacen("enabled: false", "enabled: true", 1)).unwrap();
    let token = world.config.join("credentials/garden");
    std::fs::create_dir_all(token.parent().unwrap()).unwrap();
    std::fs::write(&token, "100000001:rehearsal\n").unwrap();
    std::fs::set_permissions(&token, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let running = world.serve(&[]);
    for observed in short.iter().chain([&FITS]) {
        let path = world.notes.join(format!("{}.md", observed.word));
        std::fs::write(path, format!("# A note\n\nw-{}-w\n", observed.word)).unwrap();
    }
    let runs = ["run", "list", "--consumer", "file-observer", "--state", "completed", "--json"];
    world.until(&runs, |answer| answer.lines().len() == 5);
    world.until(&["delivery", "list", "--state", "delivered", "--json"], |answer| answer.lines().len() == 1);
    world.until_idle();
    let sent: Vec<String> = rehearsal.sent_messages().iter().map(|sent| sent.text.reveal().clone()).collect();
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert!(sent[0].contains("A note that fits"), "{sent:?}");
    let delivery = world.thought(&["delivery", "list", "--json"]).expect(0).json();
    assert_eq!((&delivery["route"], &delivery["chat"]), (&"notification".into(), &"7".into()), "{delivery}");
    // The receipt names the run whose output it was.
    let why = world.thought(&["why", delivery["run"].as_str().unwrap(), "--json"]).expect(0).json();
    assert!(why["fact"].as_str().unwrap().contains(delivery["id"].as_str().unwrap()), "{why}");
    assert_eq!(running.stop(), 0);
    world.thought(&["verify"]).expect(0);
}
