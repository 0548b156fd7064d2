//! Proposals, as the person meets them who decides: shown safely, decided once, and followed by what follows.

mod outlook;
mod trouble;

use std::process::Stdio;

use serde_json::{Value, json};
use thoughtstream_domain::text::is_hostile;
use thoughtstream_store::{Options, Store};
use thoughtstream_testkit::proposals::{ADDED, INSTEAD, MEMORY, SENT, Setting, Story, edit_memory, tell};

use crate::cli_world::{Answer, World};

/// A world in whose log an agent has proposed one thing of each kind.
struct Desk {
    world: World,
    story: Story,
}

impl Desk {
    fn new(setting: &Setting) -> Self {
        Self::of(World::with_config(), setting)
    }

    /// A world in which anything may be made to fail.
    fn rehearsal() -> Self {
        Self::of(Self::rehearsal_world(), &Setting::default())
    }

    fn rehearsal_world() -> World {
        let mut world = World::with_config();
        world.data = world.base().join("rehearsal");
        world.thought(&["rehearsal", "create"]).expect(0);
        world
    }

    fn of(world: World, setting: &Setting) -> Self {
        if !world.data.join("rehearsal").exists() {
            world.append("first", "a note").expect(0);
        }
        let story = Self::written(&world, |store| tell(store, setting));
        Self { world, story }
    }

    fn written<T>(world: &World, write: impl FnOnce(&mut Store) -> T) -> T {
        let mut store = Store::open(&world.data, Options::default()).unwrap();
        let told = write(&mut store);
        store.writer.close().unwrap();
        told
    }

    fn memory(&self) -> String {
        self.story.memory.id.to_string()
    }

    fn correction(&self) -> String {
        self.story.correction.id.to_string()
    }

    fn decide(&self, id: &str, what: &[&str]) -> Answer {
        let arguments: Vec<&str> = ["proposal-decision", id].iter().chain(what).copied().collect();
        self.world.thought(&arguments)
    }

    fn one(&self, id: &str) -> Value {
        self.world.thought(&["proposal-list", id, "--json"]).expect(0).json()
    }

    fn inbox(&self) -> Vec<Value> {
        self.world.thought(&["inbox", "--json"]).expect(0).lines()
    }

    fn decisions(&self) -> Vec<Value> {
        let kind = "stream.thought.agent.proposal.decision";
        self.world.thought(&["event", "list", "--type", kind, "--json"]).expect(0).lines()
    }

    fn judgments(&self) -> Vec<Value> {
        self.world.thought(&["judgment", "list", "--all", "--json"]).expect(0).lines()
    }

    fn verify(&self) {
        self.world.thought(&["verify"]).expect(0);
    }
}

fn says_nothing(answer: &Answer) {
    for content in [ADDED, INSTEAD, SENT, "They said so"] {
        assert!(!answer.stdout.contains(content) && !answer.stderr.contains(content), "{answer:?}");
    }
}

#[test]
fn what_is_proposed_is_listed_and_its_words_only_where_they_are_asked_for() {
    let desk = Desk::new(&Setting::default());
    let table = desk.world.thought(&["proposal-list"]).expect(0);
    says_nothing(&table);
    for word in ["memory-change", "self-correction", "focus-declaration", "waiting", "inert", "stream@18"] {
        assert!(table.stdout.contains(word), "{}", table.stdout);
    }
    says_nothing(&desk.world.thought(&["proposal-list", "--json"]).expect(0));
    says_nothing(&desk.world.thought(&["inbox"]).expect(0));
    says_nothing(&desk.world.thought(&["inbox", "show", &desk.memory()]).expect(0));
    says_nothing(&desk.world.thought(&["inbox", "show", &desk.memory(), "--json"]).expect(0));
    let said = desk.world.thought(&["proposal-list", "--json", "--content", "--waiting"]).expect(0).lines();
    assert_eq!(said.len(), 2);
    let (memory, correction) = (&said[0]["content"], &said[1]["content"]);
    assert_eq!((&memory["text"], &memory["reason"]), (&json!(ADDED), &json!("They said so.")));
    assert_eq!(memory["evidence"][0]["text"], "Where do I live?");
    assert_eq!(memory["shown"]["kind"], "document");
    assert_eq!(correction["shown"], json!({ "kind": "reply", "before": SENT, "after": INSTEAD }));
    let kinds = |state: &str| {
        let arguments = ["proposal-list", "--state", state, "--json"];
        desk.world.thought(&arguments).expect(0).lines().len()
    };
    assert_eq!((kinds("waiting"), kinds("inert"), kinds("broken")), (2, 1, 0));
    desk.world.thought(&["proposal-list", "--state", "approved"]).expect(2);
    desk.world.thought(&["proposal-list", &desk.story.output.id.to_string()]).expect(1);
    let inbox = desk.inbox();
    let kinds: Vec<&Value> = inbox.iter().map(|row| &row["kind"]).collect();
    assert_eq!(kinds, [&json!("proposal"), &json!("proposal")]);
    desk.verify();
}

#[test]
fn an_event_is_listed_and_shown_without_the_words_of_a_proposal_unless_they_are_asked_for() {
    let desk = Desk::new(&Setting::default());
    let edit = desk.world.base().join("edit");
    std::fs::write(&edit, "Moved to Porto again.").unwrap();
    desk.decide(&desk.memory(), &["edit", "--file", edit.to_str().unwrap()]).expect(0);
    let decision = desk.decisions()[0]["id"].as_str().unwrap().to_owned();
    let focus = desk.story.focus.id.to_string();
    let words = [ADDED, "They said so", INSTEAD, "Moved to Porto again", "objective"];
    let kinds = ["stream.thought.agent.*", "stream.thought.focus.*"];
    for (more, shown) in
        [(&[][..], false), (&["--json"], false), (&["--content"], true), (&["--content", "--json"], true)]
    {
        let mut said = String::new();
        for kind in kinds {
            let list = [&["event", "list", "--type", kind, "--limit", "100"], more].concat();
            said += &desk.world.thought(&list).expect(0).stdout;
        }
        let listed = said.clone();
        for id in [&desk.memory(), &desk.correction(), &focus, &decision] {
            said += &desk.world.thought(&[&["event", "show", id], more].concat()).expect(0).stdout;
            assert!(listed.contains(id.as_str()), "{listed}");
        }
        for word in words {
            assert_eq!(said.contains(word), shown, "{more:?} {word}: {said}");
        }
    }
    // What is not shown is named, and everything else is there.
    let proposed = desk.world.thought(&["event", "show", &desk.memory(), "--json"]).expect(0).json();
    assert_eq!(proposed["withheld"], json!(["/proposedText", "/reason"]));
    assert_eq!(proposed["payload"]["textLength"], ADDED.len());
    let decided = desk.world.thought(&["event", "show", &decision, "--json"]).expect(0).json();
    assert_eq!(decided["withheld"], json!(["/disposition/replacement"]));
    assert_eq!(decided["payload"]["disposition"], json!({ "kind": "edit" }));
    let shown = desk.world.thought(&["event", "show", &desk.memory()]).expect(0).stdout;
    assert!(shown.contains("proposedText, reason: --content shows it"), "{shown}");
    // Whoever sits at a terminal sees it, and a program at one has to ask.
    assert!(on_a_terminal(&desk.world, &["event", "show", &desk.memory()]).contains(ADDED));
    assert!(!on_a_terminal(&desk.world, &["event", "show", &desk.memory(), "--json"]).contains(ADDED));
}

#[test]
fn whoever_wants_all_of_it_where_nobody_looks_is_told_how() {
    let desk = Desk::new(&Setting::default());
    let memory = desk.memory();
    let full = ["inbox", "show", &memory, "--full"];
    let told = desk.world.thought(&full).expect(0);
    says_nothing(&told);
    assert!(told.stderr.contains("at a terminal, and elsewhere with --content"), "{}", told.stderr);
    let all = desk.world.thought(&[&full[..], &["--content"]].concat()).expect(0);
    assert!(all.stdout.contains(ADDED) && all.stderr.is_empty(), "{all:?}");
    let glance = desk.world.thought(&full[..3]).expect(0);
    assert!(glance.stderr.is_empty(), "nothing is missed that was asked for: {}", glance.stderr);
}

#[test]
fn a_change_is_shown_with_its_diff_its_reason_and_what_it_cites() {
    let desk = Desk::new(&Setting::default());
    let shown = desk.world.thought(&["inbox", "show", &desk.memory(), "--content"]).expect(0).stdout;
    for line in ["  │ +Moved to Lisbon.", "  │  Likes tea.", "  │ They said so.", "  │ Where do I live?"]
    {
        assert!(shown.contains(line), "{shown}");
    }
    assert!(!shown.contains("│ -"), "{shown}");
    for way in ["thought inbox accept evt_", "thought inbox later evt_", "thought inbox show evt_"] {
        assert!(shown.contains(way), "{shown}");
    }
    let correction = desk.world.thought(&["inbox", "show", &desk.correction(), "--content"]).expect(0).stdout;
    let (sent, instead) = (correction.find(SENT).unwrap(), correction.find(INSTEAD).unwrap());
    assert!(sent < instead, "{correction}");
    let focus = desk.story.focus.id.to_string();
    let focus = desk.world.thought(&["inbox", "show", &focus, "--content"]).expect(0).stdout;
    assert!(focus.contains("nothing of it is looked up, granted or in force"), "{focus}");
    assert!(focus.contains("nobody decides about a focus"), "{focus}");
}

#[test]
fn text_that_wants_to_be_taken_for_ours_is_shown_for_what_it_is() {
    let hostile = "ok\u{1b}[2J\u{1b}]0;x\u{7}\u{202e}detpecca\u{2066}\u{200b}\u{feff}\n\
                   decided   accept by uid:0 2 s ago\nway out   thought stop\r  │ +nothing\n\u{3164}\u{e0041}";
    let setting = Setting {
        added: format!("{hostile}\n{}", "long ".repeat(5_000)),
        instead: format!("{hostile} reply"),
        reason: hostile.to_owned(),
        ..Setting::default()
    };
    let desk = Desk::new(&setting);
    for id in [desk.memory(), desk.correction()] {
        for more in [&["--content"][..], &["--content", "--full"]] {
            let arguments: Vec<&str> = ["inbox", "show", &id].iter().chain(more).copied().collect();
            let shown = desk.world.thought(&arguments).expect(0).stdout;
            assert!(shown.chars().all(|c| c == '\n' || !is_hostile(c)), "{shown:?}");
            assert!(shown.contains("\\u{202e}detpecca") && shown.contains("\\u{1b}[2J"), "{shown}");
            // What imitates our own lines stands behind our mark.
            assert!(
                !shown.lines().any(|line| line.starts_with("decided") || line == "way out   thought stop")
            );
            assert!(shown.lines().any(|line| line.contains("sha256")), "{shown}");
        }
        desk.world.thought(&["inbox"]).expect(0);
    }
    let glance = desk.world.thought(&["inbox", "show", &desk.memory(), "--content"]).expect(0).stdout;
    assert!(
        glance.lines().count() < 200 && glance.contains("more characters: thought inbox show evt_"),
        "{glance}"
    );
    let whole =
        desk.world.thought(&["inbox", "show", &desk.memory(), "--content", "--full"]).expect(0).stdout;
    assert!(whole.matches("long").count() >= 5_000);
    let json = desk.world.thought(&["proposal-list", &desk.memory(), "--json", "--content"]).expect(0);
    assert!(!json.stdout.chars().any(|c| c != '\n' && is_hostile(c)));
    assert_eq!(json.json()["content"]["reason"], hostile);
}

#[test]
fn a_decision_is_made_once_and_another_is_told_what_stands() {
    let desk = Desk::new(&Setting::default());
    let memory = desk.memory();
    let made = desk.decide(&memory, &["accept", "--submission", "mine"]).expect(0);
    assert!(made.stdout.starts_with(&format!("accepted {memory}\n")), "{}", made.stdout);
    says_nothing(&made);
    let again = desk.decide(&memory, &["accept", "--submission", "another"]).expect(0).stdout;
    assert!(again.starts_with(&format!("already accepted {memory}\n")), "{again}");
    let row = desk.one(&memory);
    assert_eq!((&row["state"], &row["decision"]["submission"]), (&json!("unmaterialized"), &json!("mine")));
    std::fs::write(desk.world.base().join("text"), "Moved to Paris.").unwrap();
    for other in [&["reject"][..], &["edit", "--file", "text"]] {
        let refused = desk.decide(&memory, other).expect(1);
        let uid = format!("accept by uid:{}", nix::unistd::geteuid().as_raw());
        let event = row["decision"]["event"].as_str().unwrap();
        for told in ["proposal.decided", &uid, event, row["decision"]["at"].as_str().unwrap()] {
            assert!(refused.stderr.contains(told), "{}", refused.stderr);
        }
    }
    let decisions = desk.decisions();
    assert_eq!(decisions.len(), 1);
    let decision = &decisions[0];
    assert_eq!(
        (&decision["source"], &decision["privacy"]),
        (&json!("system:decisions"), &json!("sensitive"))
    );
    assert_eq!(
        (&decision["payload"]["authority"], &decision["payload"]["kind"]),
        (&json!("human"), &json!("memory-change"))
    );
    assert_eq!(decision["parents"], json!([memory]));
    desk.verify();
}

#[test]
fn an_edit_is_the_text_of_a_file_and_nothing_else_takes_one() {
    let desk = Desk::new(&Setting::default());
    let (memory, correction) = (desk.memory(), desk.correction());
    let write = |text: &[u8]| std::fs::write(desk.world.base().join("text"), text).unwrap();
    write(b"Moved to Lisbon in May.");
    for wrong in
        [&["edit"][..], &["accept", "--file", "text"], &["reject", "--file", "text"], &["approve"], &[]]
    {
        desk.decide(&memory, wrong).expect(2);
    }
    desk.world.thought(&["inbox", "edit", &memory]).expect(2);
    desk.decide(&memory, &["edit", "--file", "missing"]).expect(4);
    std::os::unix::fs::symlink("text", desk.world.base().join("link")).unwrap();
    let link = desk.world.thought(&["inbox", "edit", &memory, "--file", "link"]).expect(2).stderr;
    assert!(link.contains("proposal.file") && link.contains("the file that a link leads to"), "{link}");
    for bad in [&b""[..], b"\xff\xfe", "x".repeat(32_769).as_bytes()] {
        write(bad);
        desk.decide(&memory, &["edit", "--file", "text"]).expect(2);
    }
    write(b" \n");
    let blank = desk.decide(&correction, &["edit", "--file", "text"]).expect(1);
    assert!(blank.stderr.contains("proposal.replacement") && blank.stderr.contains("contract"), "{blank:?}");
    write("x".repeat(4_097).as_bytes());
    let refused = desk.decide(&correction, &["edit", "--file", "text"]).expect(1);
    assert!(refused.stderr.contains("proposal.replacement"), "{}", refused.stderr);
    assert!(desk.decisions().is_empty());
    write(b"Moved to Lisbon in May.");
    let made = desk.decide(&memory, &["edit", "--file", "text"]).expect(0);
    assert!(made.stdout.starts_with("edited evt_") && !made.stdout.contains("May"), "{}", made.stdout);
    let again = desk.decide(&memory, &["edit", "--file", "text"]).expect(0).stdout;
    assert!(again.starts_with(&format!("already edited {memory}\n")), "{again}");
    write(b"Moved to Lisbon in June.");
    let other = desk.decide(&memory, &["edit", "--file", "text"]).expect(1);
    assert!(other.stderr.contains("proposal.decided") && other.stderr.contains("edit by uid:"), "{other:?}");
    assert_eq!(desk.decisions().len(), 1);
    let shown = desk.world.thought(&["inbox", "show", &memory, "--content"]).expect(0).stdout;
    assert!(shown.contains("  │ +Moved to Lisbon in May."), "{shown}");
    desk.verify();
}

#[test]
fn an_accepted_correction_is_a_judgment_and_changes_what_stands_and_a_rejected_one_nothing() {
    let desk = Desk::new(&Setting::default());
    let correction = desk.correction();
    assert!(desk.judgments().is_empty());
    let made = desk.world.thought(&["inbox", "accept", &correction]).expect(0);
    says_nothing(&made);
    assert!(made.stdout.contains("the reply is corrected by evt_"), "{}", made.stdout);
    let judgments = desk.judgments();
    assert_eq!(judgments.len(), 1);
    assert_eq!((&judgments[0]["opinion"], &judgments[0]["state"]), (&json!("correct"), &json!("active")));
    assert_eq!(judgments[0]["criterion"], "agent-self-correction");
    assert_eq!(judgments[0]["criterionVersion"], "1");
    assert_eq!(
        (&judgments[0]["qualityEligible"], &judgments[0]["externalExportEligible"]),
        (&json!(true), &json!(false))
    );
    assert!(judgments[0]["projection"].as_str().unwrap().starts_with("prj_"));
    for _ in 0..2 {
        desk.world.thought(&["proposal-project"]).expect(0);
        let again = desk.world.thought(&["proposal-project", &correction]).expect(0).stdout;
        assert!(again.starts_with("already accepted evt_"), "{again}");
    }
    assert_eq!(desk.judgments(), judgments);
    assert_eq!(desk.one(&correction)["state"], "projected");
    desk.verify();

    let desk = Desk::new(&Setting::default());
    let undecided = desk.world.thought(&["proposal-project", &desk.correction()]).expect(1);
    let shows = format!("thought inbox show {}", desk.correction());
    assert!(undecided.stderr.contains(&shows) && !undecided.stderr.contains('|'), "{undecided:?}");
    desk.world.thought(&["inbox", "reject", &desk.correction()]).expect(0);
    desk.world.thought(&["proposal-project"]).expect(0);
    assert!(desk.judgments().is_empty());
    assert_eq!(desk.one(&desk.correction())["state"], "rejected");
    assert_eq!(desk.inbox().len(), 1);
    desk.verify();
}

#[test]
fn nobody_decides_about_a_focus_nor_about_what_does_not_hold() {
    let desk = Desk::new(&Setting::default());
    let focus = desk.story.focus.id.to_string();
    for what in [&["accept"][..], &["reject"]] {
        let refused = desk.decide(&focus, what).expect(1);
        assert!(refused.stderr.contains("proposal.no-decision"), "{}", refused.stderr);
    }
    let output = desk.story.output.id.to_string();
    assert!(desk.decide(&output, &["accept"]).expect(1).stderr.contains("id.unknown"));
    let broken = Desk::new(&Setting { strays: true, ..Setting::default() });
    let refused = broken.decide(&broken.memory(), &["accept"]).expect(1);
    assert!(refused.stderr.contains("lineage-evidence"), "{}", refused.stderr);
    says_nothing(&refused);
    let row =
        broken.world.thought(&["proposal-list", &broken.memory(), "--content", "--json"]).expect(0).json();
    assert_eq!(
        (&row["state"], &row["code"], &row["content"]),
        (&json!("broken"), &json!("lineage-evidence"), &Value::Null)
    );
    assert!(broken.decisions().is_empty());
    let found = broken.world.thought(&["verify"]).expect(1).stdout;
    assert!(found.contains("lineage-evidence"), "{found}");
}

#[test]
fn not_now_hides_a_thing_in_the_list_and_decides_nothing() {
    let desk = Desk::new(&Setting::default());
    let memory = desk.memory();
    let later = |more: &[&str]| {
        let arguments: Vec<&str> = ["inbox", "later", &memory].iter().chain(more).copied().collect();
        desk.world.thought(&arguments)
    };
    later(&[]).expect(2);
    later(&["--for", "soon"]).expect(2);
    // It would hide nothing; what somebody may have meant is named.
    let nothing = later(&["--for", "0s"]).expect(2).stderr;
    assert!(nothing.contains("hides nothing") && nothing.contains("--until"), "{nothing}");
    later(&["--for", "1d"]).expect(0);
    let ids = |rows: &[Value]| rows.iter().map(|row| row["id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(&desk.inbox()), [json!(desk.correction())]);
    let all = desk.world.thought(&["inbox", "--all", "--json"]).expect(0).lines();
    assert_eq!(all.iter().filter(|row| row["hiddenUntil"].is_string()).count(), 1);
    assert!(desk.world.thought(&["inbox", "--all"]).expect(0).stdout.contains("1 thing hidden until a time"));
    assert!(desk.decisions().is_empty());
    assert_eq!(desk.one(&memory)["state"], "waiting");
    assert!(later(&["--until", "2026-01-01T00:00:00Z"]).expect(0).stdout.contains("shown again"));
    assert_eq!(desk.inbox().len(), 2);
    let past = later(&["--until", "2026-01-01T00:00:00Z"]).expect(1).stderr;
    assert!(past.contains("is past") && past.contains("hide nothing"), "{past}");
    for far in [["--for", "99999999d"], ["--until", "9999-12-30T00:00:01Z"]] {
        let beyond = later(&far).expect(2).stderr;
        assert!(beyond.contains("inbox.until") && beyond.contains("--for-good"), "{beyond}");
    }
    later(&["--for-good"]).expect(0);
    // What comes to wait anew is shown anew: the decision has not come to its end.
    desk.world.thought(&["inbox", "accept", &memory]).expect(0);
    assert_eq!(desk.inbox().len(), 2);
    let why = desk.world.thought(&["why", &memory]).expect(0).stdout;
    assert!(why.contains("unmaterialized") && why.contains("decided: accept"), "{why}");
    assert!(
        desk.world
            .thought(&["inbox", "later", "nothing", "--for", "1h"])
            .expect(1)
            .stderr
            .contains("id.unknown")
    );
    desk.verify();
}

#[test]
fn a_document_that_moved_makes_its_proposal_stale_and_says_what_to_do() {
    let desk = Desk::new(&Setting::default());
    Desk::written(&desk.world, |store| edit_memory(store, &MEMORY.replace("tea", "coffee")));
    let row = desk.one(&desk.memory());
    assert_eq!(row["state"], "stale");
    let (ways, hint) = (row["ways"].to_string(), row["hint"].to_string());
    assert!(ways.contains("thought inbox reject evt_") && !ways.contains("accept"), "{ways}");
    assert!(hint.contains("ask for it again"), "{hint}");
    let why = desk.inbox().iter().map(|row| row["why"].to_string()).collect::<Vec<_>>().join(" ");
    assert!(why.contains("stale"), "{why}");
    let why = desk.world.thought(&["why", &desk.memory()]).expect(0).stdout;
    assert!(why.contains("proposal") && why.contains("stale") && why.contains("ask for it again"), "{why}");
    // What is shown is the change of the frozen base, and nothing is rebased.
    let shown = desk.world.thought(&["inbox", "show", &desk.memory(), "--content"]).expect(0).stdout;
    assert!(shown.contains("  │  Likes tea.") && !shown.contains("coffee"), "{shown}");
    desk.world.thought(&["inbox", "reject", &desk.memory()]).expect(0);
    assert_eq!(desk.inbox().len(), 1);
}

#[test]
fn what_was_erased_is_said_to_be_and_waits_for_nobody() {
    let desk = Desk::new(&Setting::default());
    let memory = desk.memory();
    desk.world.thought(&["event", "redact", &memory, "--reason", "not mine"]).expect(0);
    assert_eq!(desk.one(&memory)["state"], "redacted");
    assert_eq!(desk.inbox().len(), 1);
    desk.decide(&memory, &["accept"]).expect(1);
    desk.verify();
}

/// Runs a command on a terminal, and returns what it shows there.
fn on_a_terminal(world: &World, arguments: &[&str]) -> String {
    let terminal = nix::pty::openpty(None, None).unwrap();
    let mut command = world.command(arguments);
    let mut child = command.stdout(Stdio::from(terminal.slave)).spawn().unwrap();
    // The command holds the other end for as long as it lives.
    drop(command);
    let (mut shown, mut master) = (Vec::new(), std::fs::File::from(terminal.master));
    // Once nobody holds the other end, reading ends with an error: that is the end.
    std::io::Read::read_to_end(&mut master, &mut shown).ok();
    assert!(child.wait().unwrap().success(), "{}", String::from_utf8_lossy(&shown));
    String::from_utf8(shown).unwrap().replace("\r\n", "\n")
}

#[test]
fn a_terminal_shows_what_is_proposed_and_a_program_asks_for_it() {
    let desk = Desk::new(&Setting::default());
    let memory = desk.memory();
    let inbox = on_a_terminal(&desk.world, &["inbox"]);
    for shown in
        ["  │ +Moved to Lisbon.", "  │ You live in Porto.", "  │ You live in Lisbon.", "  │ Where do I live?"]
    {
        assert!(inbox.contains(shown), "{inbox}");
    }
    // The exact commands that move it stand there whole, one on each line.
    for way in ["accept", "reject", "edit", "later"] {
        let command = format!("way out   thought inbox {way} {memory}");
        assert!(inbox.lines().any(|line| line.starts_with(&command) && !line.contains('|')), "{inbox}");
    }
    assert!(on_a_terminal(&desk.world, &["proposal-list"]).contains("  │ +Moved to Lisbon."));
    assert!(on_a_terminal(&desk.world, &["inbox", "show", &memory]).contains("  │ +Moved to Lisbon."));
    for programs in
        [&["inbox", "--json"][..], &["proposal-list", "--json"], &["inbox", "show", &memory, "--json"]]
    {
        let shown = on_a_terminal(&desk.world, programs);
        assert!(shown.contains(&memory) && !shown.contains(ADDED), "{shown}");
    }
    let decided = on_a_terminal(&desk.world, &["proposal-decision", &memory, "accept"]);
    assert!(decided.starts_with(&format!("accepted {memory}\n")) && !decided.contains(ADDED), "{decided}");
}

#[test]
fn a_repair_that_nobody_has_judged_waits_too() {
    use thoughtstream_domain::commit::Commit;
    use thoughtstream_domain::event::{Actor, ActorKind, Envelope, Parent};
    use thoughtstream_domain::id::{EventId, IdempotencyKey, RunId, SourceId};
    use thoughtstream_domain::judgment::Judged;
    use thoughtstream_domain::payload::TypedPayload as _;
    use thoughtstream_domain::payload::repair::RepairProposed;

    let desk = Desk::new(&Setting::default());
    let output = &desk.story.output;
    let judged = Judged::of(output).unwrap();
    let proposed = RepairProposed {
        stamp: judged.stamp.clone(),
        request: EventId::from_bytes([1; 32]),
        failed: RunId::from_bytes([2; 20]),
        contract: judged.contract.kind().clone(),
        contract_hash: *judged.contract.hash(),
        snapshot: judged.snapshot,
        provenance: judged.provenance.clone(),
        replacement: judged.observation.clone(),
    };
    let source = SourceId::parse("agent:repair").unwrap();
    let (key, actor) = (IdempotencyKey::parse("r1").unwrap(), Actor::ours(ActorKind::Agent, "repair@1"));
    let envelope = Envelope::new(source, key, output.privacy, actor).with_parents(vec![Parent::of(output)]);
    let commit = Commit { appends: vec![proposed.candidate(envelope)], ..Commit::default() };
    let now = output.recorded_at;
    Desk::written(&desk.world, |store| {
        store.writer.set_types(thoughtstream_domain::registry::Registry::shipped().hashes()).unwrap();
        assert!(store.writer.apply(&[commit], now).unwrap()[0].placed().is_some());
    });
    let waits =
        || desk.inbox().into_iter().filter(|row| row["kind"] == "repair-proposal").collect::<Vec<_>>();
    let [repair] = &waits()[..] else { panic!("one repair waits") };
    assert_eq!(repair["id"], json!(judged.stamp.run));
    let run = judged.stamp.run.to_string();
    let shows = format!("thought run show {run}");
    assert_eq!(repair["command"], shows);
    let ways = ["accept", "reject"].map(|way| format!("thought judge {run} --{way}"));
    assert_eq!(repair["ways"], json!(ways));
    let table = desk.world.thought(&["inbox"]).expect(0).stdout;
    for command in ways.iter().chain([&shows]) {
        assert!(table.lines().any(|line| line.ends_with(command)), "{table}");
    }
    desk.world.thought(&["inbox", "later", &run, "--for", "1h"]).expect(0);
    assert!(waits().is_empty());
}

#[test]
fn the_command_that_is_named_first_decides_nothing() {
    let desk = Desk::new(&Setting::default());
    let (inbox, proposals) =
        (desk.inbox(), desk.world.thought(&["proposal-list", "--json"]).expect(0).lines());
    let named = inbox.iter().map(|row| &row["command"]).chain(proposals.iter().map(|row| &row["ways"][0]));
    for command in named.filter_map(Value::as_str) {
        assert!(command.starts_with("thought inbox show evt_"), "{command}");
        desk.world.thought(&command.split(' ').skip(1).collect::<Vec<_>>()).expect(0);
    }
    assert_eq!(desk.decisions().len(), 0);
    // Every command is one, and every word of it an argument.
    let ways = proposals.iter().flat_map(|row| row["ways"].as_array().cloned().unwrap_or_default());
    for way in ways {
        let way = way.as_str().unwrap().to_owned();
        assert!(way.starts_with("thought ") && !way.contains(['|', ';', '&']), "{way}");
    }
}
