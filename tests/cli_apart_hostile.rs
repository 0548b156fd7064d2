//! The door of one source, attacked: whoever holds it can say what its source allows, and nothing else.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use thoughtstream_channels::filesystem::admit::{Declared, Offer};
use thoughtstream_channels::filesystem::change::{ChangeGroup, ChangeKind, DocumentChange};
use thoughtstream_channels::filesystem::rules::{Bounds, ScanRules, Selection};
use thoughtstream_domain::commit::{Document, FileStat};
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::{DocumentId, SourceId};
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_surface::config;
use thoughtstream_surface::socket::source::{Producing, SAID_BYTES_MAX};

use crate::cli_apart::{SOURCE, added, apart, door, note, producer, until_added, until_note, verified};
use crate::cli_world::World;

/// An answer that has not come by then never will.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that has connected to the door and says what it likes.
struct Liar(BufReader<UnixStream>);

impl Liar {
    fn connect(world: &World) -> Self {
        let stream = UnixStream::connect(door(world)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self(BufReader::new(stream))
    }

    /// Greets as the real producer does, and is let in.
    fn admitted(world: &World) -> Self {
        let mut liar = Self::connect(world);
        liar.say(&greeting(world));
        let told = liar.hear();
        assert!(told["admitted"]["pid"].is_number(), "{told}");
        liar
    }

    /// Says something; one that is hung up on in the middle has said it all the same.
    fn say(&mut self, value: &Value) {
        self.raw(format!("{value}\n").as_bytes());
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).ok();
    }

    fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or(Value::Null)
    }

    /// Waits until the other side has hung up.
    fn gone(mut self) {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).ok();
        assert_eq!(String::from_utf8_lossy(&rest), "");
    }
}

fn greeting(world: &World) -> Value {
    let text = std::fs::read(world.config.join("config.yaml")).unwrap();
    let config = config::parse("config.yaml", &text, None).unwrap();
    serde_json::to_value(Producing::of(&config.folders[0])).unwrap()
}

/// Writes down the addition of a file that the source may have.
fn offer(path: &str, content: &str) -> Value {
    let source = SourceId::parse(SOURCE).unwrap();
    let selection = Selection::new(&[], &[], true).unwrap();
    let rules = ScanRules { selection, bounds: Bounds::default() };
    let declared = Declared { source: source.clone(), rules, privacy: Privacy::Private };
    let stat = FileStat {
        device: 1,
        inode: 2,
        size: content.len() as u64,
        modified_ns: 3,
        changed_ns: 4,
        read_ns: 5,
    };
    let after = Document {
        id: DocumentId::at_first_sight(&source, path, 0),
        source,
        revision: 1,
        path: path.to_owned(),
        sha256: Sha256Hash::of(content.as_bytes()),
        bytes: content.len() as u64,
        content_type: "text/markdown".to_owned(),
        named: None,
        removed: false,
        stat: Some(stat),
    };
    let change = DocumentChange { kind: ChangeKind::Added, before: None, after };
    json!({ "offer": Offer::of(&declared, &ChangeGroup::one(change)) })
}

/// Writes down the removal of a file that was offered before.
fn removal(path: &str, content: &str) -> Value {
    let mut offer = offer(path, content);
    let change = &mut offer["offer"]["changes"][0];
    change["type"] = "stream.thought.source.file.removed@1".into();
    change["before"] = change["after"].clone();
    change["after"]["revision"] = 2.into();
    change["after"]["removed"] = true.into();
    change["after"].as_object_mut().unwrap().remove("stat");
    offer
}

/// Changes one value of an offer.
fn but(pointer: &str, value: Value) -> Value {
    let mut offer = offer("a.md", "one");
    *offer.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = value;
    offer
}

#[test]
fn an_offer_is_taken_as_the_source_declares_it_and_refused_by_name_otherwise() {
    let world = apart("");
    let service = world.serve(&[]);
    let mut liar = Liar::admitted(&world);
    liar.say(&offer("a.md", "one"));
    liar.raw(b"one");
    assert_eq!(liar.hear(), json!({ "answer": "done" }));
    // The answer was lost, as far as anybody knows: the same again is the same event.
    liar.say(&offer("a.md", "one"));
    liar.raw(b"one");
    assert_eq!(liar.hear(), json!({ "answer": "done" }));
    // The log knows this document otherwise.
    liar.say(&offer("a.md", "two"));
    liar.raw(b"two");
    assert_eq!(liar.hear(), json!({ "answer": "overtaken" }));
    drop(liar);

    let document = "/offer/changes/0/after";
    let at = |key: &str| format!("{document}/{key}");
    let large = 64 << 20;
    for (said, content, refused) in [
        (but("/offer/source", "filesystem:mail".into()), "one", "other-source"),
        (but(&at("source"), "filesystem:mail".into()), "one", "other-source"),
        (but(&at("source"), "system:supervision".into()), "one", "other-source"),
        (but("/offer/privacy", "public-source".into()), "one", "other-privacy"),
        (but("/offer/privacy", "sensitive".into()), "one", "other-privacy"),
        (
            but("/offer/changes/0/type", "stream.thought.decision.proposal.accepted@1".into()),
            "",
            "other-type",
        ),
        (but("/offer/changes/0/type", "stream.thought.system.service.stopped@1".into()), "", "other-type"),
        (but("/offer/changes", json!([])), "", "count"),
        (offer("forged.md", "one"), "two", "content"),
        (offer("../a.md", "one"), "one", "path"),
        (offer(".env", "one"), "one", "path"),
        (but(&at("revision"), 2.into()), "one", "document-row"),
        (but(&at("bytes"), large.into()), "", "too-large"),
        (but(&at("bytes"), u64::MAX.into()), "", "too-large"),
        (but(&at("contentType"), "text/html".into()), "one", "document-row"),
        (
            {
                let mut forged = offer("forged.md", "one");
                forged["offer"]["changes"][0]["after"]["id"] = "doc_mine".into();
                forged
            },
            "one",
            "document-id",
        ),
        (json!({ "stats": [] }), "", "count"),
        (
            json!({ "incident": { "code": "gave-up", "detail": "", "over": false, "look": 1 } }),
            "",
            "incident",
        ),
    ] {
        let mut liar = Liar::admitted(&world);
        liar.say(&said);
        liar.raw(content.as_bytes());
        assert_eq!(liar.hear(), json!({ "answer": { "unfit": refused } }), "{said}");
        liar.gone();
    }
    assert_eq!(added(&world), ["a.md"]);
    assert_eq!(service.stop(), 0);
    verified(&world);
}

#[test]
fn no_more_files_are_taken_than_the_folder_may_have_and_as_many_whose_removal_waits() {
    let world = apart("    maxFiles: 2\n");
    let service = world.serve(&[]);
    let offered = |liar: &mut Liar, offer: &Value, content: &str| {
        liar.say(offer);
        liar.raw(content.as_bytes());
        liar.hear()
    };
    let done = json!({ "answer": "done" });
    let refused = json!({ "answer": { "unfit": "too-many" } });
    let mut liar = Liar::admitted(&world);
    for name in ["a.md", "b.md", "c.md"] {
        assert_eq!(offered(&mut liar, &offer(name, "one"), "one"), done);
    }
    // The same again is the same file, and whoever comes in anew is counted from the log.
    assert_eq!(offered(&mut liar, &offer("c.md", "one"), "one"), done);
    drop(liar);
    until_note(&world, "not-connected");
    let mut liar = Liar::admitted(&world);
    assert_eq!(offered(&mut liar, &offer("d.md", "one"), "one"), done);
    assert_eq!(offered(&mut liar, &offer("e.md", "one"), "one"), refused);
    liar.gone();
    // A file that is gone makes room.
    let mut liar = Liar::admitted(&world);
    assert_eq!(offered(&mut liar, &removal("a.md", "one"), ""), done);
    assert_eq!(offered(&mut liar, &offer("e.md", "one"), "one"), done);
    assert_eq!(offered(&mut liar, &offer("f.md", "one"), "one"), refused);
    liar.gone();
    assert_eq!(added(&world), ["a.md", "b.md", "c.md", "d.md", "e.md"]);
    assert_eq!(service.stop(), 0);
    verified(&world);
}

#[test]
fn words_of_another_door_and_frames_without_an_end_are_refused() {
    let world = apart("");
    let service = world.serve(&[]);
    let refused = |told: Value| told["failure"]["code"].as_str().map(str::to_owned);
    // Who is no producer of this source is told so before it is let in.
    let hello = json!({ "protocol": 1, "version": "x" });
    let with = |key: &str, value: Value| {
        let mut greeting = greeting(&world);
        greeting[key] = value;
        greeting
    };
    let rules = Sha256Hash::of(b"").to_string();
    for (greeting, code) in [
        (hello.clone(), "socket.role"),
        (json!({ "operate": "stop" }), "socket.role"),
        (json!("alive"), "socket.role"),
        (with("protocol", 99.into()), "socket.protocol"),
        (with("source", "filesystem:mail".into()), "producer.other-source"),
        (with("root", "/".into()), "producer.other-root"),
        (with("rules", rules.into()), "producer.other-rules"),
        (with("privacy", "sensitive".into()), "producer.other-privacy"),
        (with("operator", true.into()), "socket.role"),
    ] {
        let mut liar = Liar::connect(&world);
        liar.say(&greeting);
        assert_eq!(refused(liar.hear()).as_deref(), Some(code), "{greeting}");
        liar.gone();
    }
    let mut liar = Liar::connect(&world);
    liar.raw(&vec![b'x'; 1 << 20]);
    assert_eq!(refused(liar.hear()).as_deref(), Some("socket.frame"));
    // Who is let in has no words but its own.
    for said in
        [hello, json!({ "operate": "stop" }), json!({ "ask": "inbox" }), json!({ "submit": {} }), json!(7)]
    {
        let mut liar = Liar::admitted(&world);
        liar.say(&said);
        assert_eq!(refused(liar.hear()).as_deref(), Some("socket.frame"), "{said}");
        liar.gone();
    }
    let mut liar = Liar::admitted(&world);
    liar.raw(&vec![b'x'; SAID_BYTES_MAX + 2]);
    assert_eq!(refused(liar.hear()).as_deref(), Some("socket.frame"));
    // Nor does the real door of the operator take a producer's.
    assert_eq!(added(&world), [""; 0]);
    until_note(&world, "not-connected");
    assert_eq!(service.stop(), 0);
    verified(&world);
}

#[test]
fn a_second_producer_is_told_who_the_first_is_and_the_first_goes_on() {
    let world = apart("");
    let service = world.serve(&[]);
    let first = producer(&world);
    let answer = world.thought(&["serve", "--producer-only", SOURCE]).expect(1);
    assert!(answer.stderr.contains("[producer.taken]"), "{}", answer.stderr);
    let named = format!("process {} has been its producer since", first.pid());
    assert!(answer.stderr.contains(&named), "{}", answer.stderr);
    note(&world, "a.md", "# One\n");
    until_added(&world, 1);
    assert_eq!(until_note(&world, "connected")["detail"]["pid"], first.pid());
    first.signal(Signal::SIGTERM);
    assert_eq!(first.wait(), 0);
    assert_eq!(service.stop(), 0);
}

#[test]
fn those_who_say_nothing_or_leave_in_the_middle_keep_nobody_out() {
    let world = apart("");
    note(&world, "real.md", "# Real\n");
    let service = world.serve(&[]);
    // Cut off in the greeting, in a line, and in the content.
    let mut liar = Liar::connect(&world);
    liar.raw(b"{\"protocol\":");
    drop(liar);
    let mut liar = Liar::admitted(&world);
    liar.raw(b"{\"offer\":");
    drop(liar);
    let mut liar = Liar::admitted(&world);
    liar.say(&offer("half.md", "the whole of it"));
    liar.raw(b"the wh");
    drop(liar);
    until_note(&world, "not-connected");
    // More than there are places, and none of them says a word.
    let silent: Vec<Liar> = (0..12).map(|_| Liar::connect(&world)).collect();
    let looking = producer(&world);
    let kept_waiting = world.log_of("producer");
    assert!(
        kept_waiting.contains("connections are open at this source's door"),
        "{kept_waiting}\n{}",
        world.log()
    );
    until_added(&world, 1);
    drop(silent);
    assert_eq!(added(&world), ["real.md"]);
    looking.signal(Signal::SIGTERM);
    assert_eq!(looking.wait(), 0);
    assert_eq!(service.stop(), 0);
    verified(&world);
}

#[test]
fn a_configuration_that_changed_under_one_of_the_two_is_named_and_not_guessed() {
    let world = apart("");
    let service = world.serve(&[]);
    let config = world.config.join("config.yaml");
    let text = std::fs::read_to_string(&config).unwrap();
    let root = format!("    root: {}\n", world.notes.display());
    let elsewhere = world.base().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    for (now, code) in [
        (format!("    root: {}\n", elsewhere.display()), "producer.other-root"),
        (format!("{root}    maxBytes: 7\n"), "producer.other-rules"),
        (format!("{root}    privacy: sensitive\n"), "producer.other-privacy"),
    ] {
        std::fs::write(&config, text.replace(&root, &now)).unwrap();
        let answer = world.thought(&["serve", "--producer-only", SOURCE]).expect(1);
        assert!(answer.stderr.contains(&format!("[{code}]")), "{}", answer.stderr);
    }
    assert_eq!(service.stop(), 0);
}
