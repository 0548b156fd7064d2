//! Verdicts, judgments and data sets, as a person meets them.

use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::PathBuf;

use serde_json::{Value, json};
use thoughtstream_domain::commit::Commit;
use thoughtstream_domain::contract::{Contract, FinalPart, Mode, Stop, judge};
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::{ConsumerKey, EventId, RunId};
use thoughtstream_domain::lifecycle::{AdapterRevision, Execution, Frame};
use thoughtstream_domain::payload::output::{MessageObservation, Provenance};
use thoughtstream_domain::payload::run::RunStarted;
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_domain::registry::Registry;
use thoughtstream_domain::time::Timestamp;
use thoughtstream_store::{Options, Store};

use crate::cli_world::{Answer, World};

const GOOD: &str = r#"{"summary":"The bed is dry","tags":["garden"],"importance":"high","confidence":0.75}"#;

/// A word that must not appear in any answer.
const SECRET: &str = "hunter2";

fn check(world: &World, mode: &str, text: impl AsRef<[u8]>, json: bool) -> Answer {
    let file = world.base().join("message");
    std::fs::write(&file, text).unwrap();
    let mut arguments = vec!["contract", "check", "message", "--mode", mode];
    if json {
        arguments.push("--json");
    }
    world.thought(&arguments)
}

#[test]
fn a_file_gets_the_verdict_that_an_output_would_get() {
    let world = World::new();
    let accepted = check(&world, "strict-json", GOOD, false).expect(0);
    insta::assert_snapshot!(accepted.stdout, @r"
    accepted as stream.thought.output.observation@1, strict-json
    84 bytes, 84 characters, canonical sha256 4a3d882efa4f5f310bcf1c5659337b4d66acb872ce817328ce527c2c82fd1247
    ");
    let fenced = check(&world, "strict-json", format!("```json\n{GOOD}\n```"), false).expect(1);
    insta::assert_snapshot!(fenced.stdout, @r"
    refused by stream.thought.output.observation@1, strict-json [output.json]
      the whole: the value stands in a Markdown fence [fenced]
    96 bytes, 96 characters, sha256 93400ac6562920a451a90cb1422f54998062fdbd2b06ab71a8dc761646400bdb
    ");
    let wrong = GOOD.replace("0.75", "7").replace("garden", SECRET).replace("high", SECRET);
    let wrong = check(&world, "strict-json", wrong, false).expect(1);
    insta::assert_snapshot!(wrong.stdout, @r"
    refused by stream.thought.output.observation@1, strict-json [output.contract]
      /importance: the word is not one of those allowed [not-allowed]
      /confidence: the number lies outside its range [out-of-range]
    85 bytes, 85 characters, sha256 e6e6f6e82180ef590e4789d283b7dc12ad6b8bc5e2cea9585a4405e7c8596f86
    ");
    let reply = check(&world, "conversation-text", "x".repeat(4_097), false).expect(1);
    insta::assert_snapshot!(reply.stdout, @r"
    refused by stream.thought.output.observation@1, conversation-text [output.text]
      the whole: the text is longer than its bound [too-long]
    4097 bytes, 4097 characters, sha256 3e97197f4b8d46a893067c94ab15e195e3d97fb5f24eede5ef047b571240d92b
    ");
    check(&world, "conversation-text", "x".repeat(4_096), false).expect(0);
}

#[test]
fn a_verdict_for_programs_says_the_same_and_no_text() {
    let world = World::new();
    let accepted = check(&world, "conversation-text", SECRET, true).expect(0).json();
    assert_eq!((&accepted["verdict"], &accepted["counts"]["characters"]), (&json!("accepted"), &json!(7)));
    assert!(!accepted.to_string().contains(SECRET));
    let refused = check(&world, "strict-json", format!("{SECRET} {GOOD}"), true).expect(1).json();
    assert_eq!(refused["rejection"]["issues"], json!([{ "code": "prose-before", "path": "" }]));
    assert_eq!((&refused["verdict"], &refused["repairable"]), (&json!("refused"), &json!(true)));
    assert!(!refused.to_string().contains(SECRET));
}

#[test]
fn hostile_files_get_a_verdict_or_a_refusal_and_nothing_else() {
    let world = World::new();
    let deep = "[".repeat(60_000);
    let hostile: [&[u8]; 6] = [
        b"",
        b"\xff\xfe\x00",
        b"\x1b[2J\x1b]0;x\x07",
        deep.as_bytes(),
        b"\0\0\0",
        "\u{202e}\u{feff}{}".as_bytes(),
    ];
    for bytes in hostile {
        for mode in ["strict-json", "conversation-text"] {
            let answer = check(&world, mode, bytes, false);
            assert!(answer.code == 0 || answer.code == 1, "{answer:?}");
            assert!(answer.stderr.is_empty() && !answer.stdout.contains('\u{1b}'), "{answer:?}");
        }
    }
    let large = std::fs::File::create(world.base().join("large")).unwrap();
    large.set_len(100 << 20).unwrap();
    world.thought(&["contract", "check", "large"]).expect(1);
    world.thought(&["contract", "check", "missing"]).expect(4);
    world.thought(&["contract", "check", "."]).expect(4);
    // A pipe that nobody writes must not hold the command.
    let fifo = world.base().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(fifo.metadata().unwrap().file_type().is_fifo());
    world.thought(&["contract", "check", "fifo"]).expect(4);
    world.thought_with(&["contract", "check", "-"], GOOD).expect(0);
    world.thought(&["contract", "check", "message", "--contract", "a.b@1"]).expect(1);
    world.thought(&["contract", "check", "message", "--mode", "json"]).expect(2);
}

#[test]
fn contracts_are_listed_and_shown() {
    let world = World::new();
    let listed = world.thought(&["contract", "list", "--json"]).expect(0).json();
    let contract = Contract::observation();
    assert_eq!(listed["contract"], json!(contract.kind()));
    assert_eq!(listed["definitionHash"], json!(contract.hash()));
    let shown = world.thought(&["contract", "show", "stream.thought.output.observation"]).expect(0).stdout;
    assert!(shown.contains("\"confidence\"") && shown.contains(&contract.hash().to_string()), "{shown}");
    assert!(
        world.thought(&["contract", "list"]).expect(0).stdout.contains("stream.thought.output.observation@1")
    );
}

/// A log with completed runs of a consumer that answers notes, as a model's consumer would settle them.
struct Garden {
    world: World,
    notes: Vec<EventId>,
    runs: Vec<RunId>,
}

impl Garden {
    /// Makes one run for each reply, on a note of this class.
    fn new(privacy: &str, replies: &[&str]) -> Self {
        let world = World::with_config();
        let (mut notes, mut runs) = (Vec::new(), Vec::new());
        for (number, reply) in replies.iter().enumerate() {
            let arguments =
                ["event", "append", "--source", "notes:test", "--type", "stream.thought.source.note"];
            let key = format!("k{number}");
            let rest = ["--key", &key, "--privacy", privacy, "--payload", "-", "--json"];
            let arguments: Vec<&str> = arguments.into_iter().chain(rest).collect();
            let payload = json!({ "text": SECRET }).to_string();
            let id = world.thought_with(&arguments, &payload).expect(0).json()["id"].clone();
            let id = EventId::parse(id.as_str().unwrap()).unwrap();
            runs.push(settle(&world, &id, number as u64, reply));
            notes.push(id);
        }
        Self { world, notes, runs }
    }

    fn run(&self, number: usize) -> String {
        self.runs[number].to_string()
    }

    fn judge(&self, arguments: &[&str]) -> Answer {
        let arguments: Vec<&str> = ["judge"].iter().chain(arguments).copied().chain(["--json"]).collect();
        self.world.thought(&arguments)
    }

    /// Makes a directory that is the owner's alone, or not.
    fn directory(&self, name: &str, mode: u32) -> PathBuf {
        let path = self.world.base().join(name);
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn export(&self, file: &str, more: &[&str]) -> Answer {
        let arguments = ["training-export", "--output", file, "--json"];
        self.world.thought(&arguments.into_iter().chain(more.iter().copied()).collect::<Vec<_>>())
    }

    fn judgments(&self, more: &[&str]) -> Vec<Value> {
        let arguments = ["judgment", "list", "--json"];
        self.world
            .thought(&arguments.into_iter().chain(more.iter().copied()).collect::<Vec<_>>())
            .expect(0)
            .lines()
    }
}

/// Runs one execution on a trigger to its end, with a reply.
fn settle(world: &World, trigger: &EventId, number: u64, reply: &str) -> RunId {
    let mut store = Store::open(&world.data, Options::default()).unwrap();
    let registry = Registry::shipped();
    store.writer.set_types(registry.hashes()).unwrap();
    let trigger = store.reader.event(trigger).unwrap().unwrap();
    let frame = Frame {
        consumer: ConsumerKey::parse("garden@1").unwrap(),
        fingerprint: Sha256Hash::of(b"garden"),
        privacy_floor: Privacy::PublicSource,
        incarnation: 1,
        now: Timestamp::from_millis(1_700_000_000_000),
        adapter: AdapterRevision::observer_cell(),
    };
    let mut execution = Execution::fix(&frame, &[trigger]);
    let opened = execution.open(&frame, number);
    let mut apply = |commit: Commit| {
        let verdicts = store.writer.apply(&[commit], frame.now).unwrap();
        assert!(verdicts[0].placed().is_some(), "{verdicts:?}");
    };
    let started = opened
        .appends
        .iter()
        .find_map(|candidate| serde_json::from_slice::<RunStarted>(candidate.payload().reveal()).ok());
    apply(opened);
    let parts = [FinalPart::text(reply)];
    let accepted = judge(&Contract::observation(), Mode::ConversationText, &parts, Stop::End).unwrap();
    let provenance = Provenance { provider: "local".into(), model: "small-1".into() };
    let snapshot = Sha256Hash::of(b"packet");
    let output = MessageObservation::of(accepted, started.unwrap().stamp, snapshot, provenance).output();
    apply(execution.complete(&frame, frame.now, &registry, vec![output]).unwrap());
    store.writer.close().unwrap();
    execution.run_id()
}

#[test]
fn a_judgment_is_made_once_listed_replaced_and_taken_back() {
    let garden = Garden::new("private", &["Water it."]);
    let run = garden.run(0);
    let first = garden.judge(&[&run, "--accept", "--quality"]).expect(0).json();
    assert_eq!(first["done"], "judged");
    let again = garden.judge(&[&run, "--accept", "--quality"]).expect(0).json();
    assert_eq!((&again["already"], &again["id"]), (&json!(true), &first["id"]));
    let refused = garden.judge(&[&run, "--reject"]).expect(1);
    assert!(refused.stderr.contains("judgment.contradicts") && refused.stderr.contains("--supersedes evt_"));
    let first = first["id"].as_str().unwrap();
    garden.judge(&[&run, "--reject", "--supersedes", first]).expect(0);
    let rows = garden.judgments(&["--all"]);
    let states: Vec<(&Value, &Value)> = rows.iter().map(|row| (&row["opinion"], &row["state"])).collect();
    assert_eq!(states, [(&json!("accept"), &json!("superseded")), (&json!("reject"), &json!("active"))]);
    assert_eq!(garden.judgments(&[]).len(), 1);
    let second = rows[1]["id"].as_str().unwrap().to_owned();
    garden.judge(&["--retract", &second, "--reason", "a slip"]).expect(0);
    let again = garden.judge(&["--retract", &second]).expect(0).json();
    assert_eq!(again["already"], true);
    // The one it had replaced holds again.
    assert_eq!(garden.judgments(&[])[0]["id"], json!(first));
    assert!(garden.world.thought(&["judgment", "list"]).expect(0).stdout.contains("accept"));
    garden.world.thought(&["verify"]).expect(0);
}

#[test]
fn a_correction_fits_the_contract_or_is_not_written() {
    let garden = Garden::new("private", &["Water it."]);
    let run = garden.run(0);
    let write = |text: &str| std::fs::write(garden.world.base().join("right.json"), text).unwrap();
    for (text, code, say) in [
        (format!("{{\"summary\":\"{SECRET}\"}}"), 1, "judgment.replacement"),
        (GOOD.replace("0.75", "1.5"), 1, "/confidence"),
        (format!("{GOOD}{GOOD}"), 2, "judgment.file"),
        (GOOD.replace("\"tags\"", "\"summary\":\"x\",\"tags\""), 2, "twice"),
    ] {
        write(&text);
        let refused = garden.judge(&[&run, "--correct", "right.json"]).expect(code);
        assert!(refused.stderr.contains(say) && !refused.stderr.contains(SECRET), "{}", refused.stderr);
    }
    assert!(garden.judgments(&["--all"]).is_empty());
    write(GOOD);
    garden.judge(&[&run, "--correct", "right.json"]).expect(0);
    let row = &garden.judgments(&[])[0];
    assert_eq!(row["opinion"], "correct");
    assert!(row["projection"].as_str().unwrap().starts_with("prj_"));
    assert!(!row.to_string().contains("The bed"));
}

#[test]
fn only_a_completed_run_with_an_output_is_judged() {
    let garden = Garden::new("private", &["Water it.", "Leave it."]);
    let (one, two) = (garden.run(0), garden.run(1));
    garden.judge(&["run_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "--accept"]).expect(1);
    garden.judge(&["evt_x", "--accept"]).expect(2);
    garden.judge(&[&one]).expect(2);
    garden.judge(&[&one, "--accept", "--reject"]).expect(2);
    garden.judge(&["--accept"]).expect(2);
    garden.judge(&[&one, "--accept", "--authorize-private"]).expect(2);
    garden.judge(&[&one, "--prefer-over", &one]).expect(1);
    garden.judge(&[&one, "--prefer", &two, "--quality"]).expect(0);
    let not_yet = garden.judge(&[&two, "--accept", "--external"]).expect(1);
    assert!(not_yet.stderr.contains("judgment.not-authorized"), "{}", not_yet.stderr);
    garden.judge(&[&two, "--accept", "--external", "--authorize-private"]).expect(0);
    garden.judge(&[&two, "--accept", "--criterion", "tone-2"]).expect(0);
}

#[test]
fn decisions_are_the_operators_and_the_same_with_a_service() {
    let garden = Garden::new("private", &["Water it."]);
    let running = garden.world.serve(&[]);
    let made = garden.judge(&[&garden.run(0), "--accept", "--quality"]).expect(0).json();
    assert_eq!(garden.judgments(&[])[0]["id"], made["id"]);
    let shown =
        garden.world.thought(&["event", "show", made["id"].as_str().unwrap(), "--json"]).expect(0).json();
    assert_eq!(shown["source"], "system:decisions");
    assert_eq!(shown["actor"]["kind"], "person");
    assert_eq!(shown["payload"]["operator"]["uid"], nix::unistd::geteuid().as_raw());
    let directory = garden.directory("mine", 0o700);
    garden.export(directory.join("set.jsonl").to_str().unwrap(), &[]).expect(1);
    assert_eq!(running.stop(), 0);
}

#[test]
fn nothing_private_leaves_without_two_words() {
    let garden = Garden::new("private", &["Water it.", "Leave it."]);
    let directory = garden.directory("mine", 0o700);
    let file = directory.join("set.jsonl");
    let file = file.to_str().unwrap();
    assert!(garden.export(file, &[]).expect(1).stderr.contains("nothing was judged yet"));
    garden.judge(&[&garden.run(0), "--accept", "--quality"]).expect(0);
    garden.judge(&[&garden.run(1), "--accept", "--quality", "--external", "--authorize-private"]).expect(0);
    let refused = garden.export(file, &[]).expect(1).stderr;
    assert!(refused.contains("above public-source") && refused.contains("--include-private"), "{refused}");
    assert!(!PathBuf::from(file).exists());
    let exported = garden.export(file, &["--include-private"]).expect(0);
    assert_eq!(exported.json()["count"], 1);
    assert_eq!(exported.json()["excluded"][0]["reason"], "not-externally-eligible");
    assert!(!exported.stdout.contains("Leave it") && !exported.stderr.contains("Leave it"));
    assert!(std::fs::read_to_string(file).unwrap().contains("Leave it."));
}

#[test]
fn a_data_set_is_the_owners_whole_and_the_same_twice() {
    let garden = Garden::new("public-source", &["Water it.", "Leave it.", "Wait."]);
    let [one, two, three] = [garden.run(0), garden.run(1), garden.run(2)];
    garden.judge(&[&one, "--accept", "--quality", "--external"]).expect(0);
    garden.judge(&[&two, "--prefer-over", &three, "--quality", "--external"]).expect(0);
    let taken = garden.judge(&[&three, "--reject", "--quality", "--external"]).expect(0).json();
    garden.judge(&["--retract", taken["id"].as_str().unwrap()]).expect(0);

    // Somebody's word about a message rests on its receipt, and there is none.
    let note = garden.notes[0].to_string();
    let heard = [&one, "--accept", "--quality", "--external", "--criterion", "tone", "--feedback", &note];
    garden.judge(&heard).expect(0);

    let open = garden.directory("open", 0o755);
    let refused = garden.export(open.join("set.jsonl").to_str().unwrap(), &[]).expect(1).stderr;
    assert!(refused.contains("training.directory-open"), "{refused}");
    for nowhere in ["-", "/dev/stdout", "/dev/null"] {
        garden.export(nowhere, &[]).expect(2);
    }
    garden.export(garden.world.data.join("set.jsonl").to_str().unwrap(), &[]).expect(1);

    let mine = garden.directory("mine", 0o700);
    let read = |name: &str| {
        let path = mine.join(name);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{name}");
        std::fs::read(path).unwrap()
    };
    let export = |name: &str| garden.export(mine.join(name).to_str().unwrap(), &[]);
    let exported = export("a.jsonl").expect(0).json();
    export("b.jsonl").expect(0);
    assert_eq!(read("a.jsonl"), read("b.jsonl"));
    assert_eq!(read("a.jsonl.manifest.json"), read("b.jsonl.manifest.json"));
    assert!(export("a.jsonl").expect(1).stderr.contains("training.exists"), "it is left as it is");

    let manifest: Value = serde_json::from_slice(&read("a.jsonl.manifest.json")).unwrap();
    assert_eq!(manifest["format"], "thoughtstream.training-dataset-manifest.v4");
    assert_eq!(manifest["kinds"], json!({ "accept": 1, "prefer": 1 }));
    assert_eq!(manifest["datasetSha256"], json!(Sha256Hash::of(&read("a.jsonl"))));
    assert_eq!(manifest["datasetSha256"], exported["datasetSha256"]);
    let reasons: Vec<&Value> =
        exported["excluded"].as_array().unwrap().iter().map(|excluded| &excluded["reason"]).collect();
    assert_eq!(reasons, [&json!("inactive"), &json!("evidence-missing")]);

    let text = String::from_utf8(read("a.jsonl")).unwrap();
    for hidden in [SECRET, "evt_", "run_", "notes:test", "garden", "k0"] {
        assert!(!text.contains(hidden), "{hidden}: {text}");
    }
    let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(first["format"], "thoughtstream.training-example.v3");
    assert_eq!(first["source"]["sourceKind"], "notes");
    // These runs were settled without a trace: that is said, and is no run without steps.
    assert_eq!((first.get("trace"), &exported["withoutTrace"]), (Some(&Value::Null), &json!(2)));
}

/// Runs judgments at once, each a process of its own; says which was taken and what the other was told.
fn one_of_two(garden: &Garden, commands: [&[&str]; 2]) -> (usize, Answer) {
    let mut answers = garden.world.at_once(&commands);
    let taken: Vec<usize> = (0..2).filter(|index| answers[*index].code == 0).collect();
    let [taken] = taken[..] else { panic!("not one of two: {answers:?}") };
    (taken, answers.remove(1 - taken))
}

#[test]
fn two_who_contradict_each_other_at_once_leave_one_judgment_and_one_who_is_told() {
    const ROUNDS: usize = 24;
    let garden = Garden::new("private", &["Water it."; ROUNDS]);
    let running = garden.world.serve(&[]);
    let by = format!("by uid:{} at 2", nix::unistd::geteuid().as_raw());
    let mut won = [0; 2];
    for number in 0..ROUNDS {
        let run = garden.run(number);
        let words = ["--accept", "--reject"];
        let (taken, told) = one_of_two(
            &garden,
            words.map(|word| ["judge", &run, word]).each_ref().map(|command| &command[..]),
        );
        won[taken] += 1;
        let rows = garden.judgments(&["--all", "--run", &run]);
        let [stands] = &rows[..] else { panic!("both were written: {rows:?}") };
        assert_eq!(stands["opinion"], words[taken].trim_start_matches("--"));
        let id = stands["id"].as_str().unwrap();
        // Who, when, what, and how to change it knowingly.
        let told = told.expect(1).stderr;
        let ways = [format!("--supersedes {id}"), format!("thought judge --retract {id}")];
        for word in ["judgment.contradicts", &by, id, &ways[0], &ways[1]] {
            assert!(told.contains(word), "{word}: {told}");
        }
        // Of two who replace the same judgment, one replaces it; the other is told of the new one.
        let other = words[1 - taken];
        let replacing =
            [["judge", &run, other, "--supersedes", id], ["judge", &run, words[taken], "--supersedes", id]];
        let replacing = if number % 2 == 0 { replacing } else { [replacing[1], replacing[0]] };
        let (_, told) = one_of_two(&garden, replacing.each_ref().map(|command| &command[..]));
        assert!(told.expect(1).stderr.contains("judgment."));
        let rows = garden.judgments(&["--run", &run]);
        let [stands] = &rows[..] else { panic!("not one stands: {rows:?}") };
        // One takes it back while the other replaces it: whatever comes first, one word stands or none.
        let id = stands["id"].as_str().unwrap();
        let answers = garden.world.at_once(&[
            &["judge", "--retract", id],
            &["judge", &run, other, "--criterion", "v1", "--supersedes", id],
        ]);
        assert!(answers.iter().any(|answer| answer.code == 0), "{answers:?}");
        assert!(garden.judgments(&["--run", &run]).len() <= 1);
    }
    assert_eq!(running.stop(), 0);
    garden.world.thought(&["verify"]).expect(0);
    assert_eq!(won[0] + won[1], ROUNDS);
}

#[test]
fn many_who_say_the_same_at_once_say_it_once() {
    let garden = Garden::new("private", &["Water it."]);
    let run = garden.run(0);
    let running = garden.world.serve(&[]);
    let same: [&str; 4] = ["judge", &run, "--accept", "--quality"];
    let answers = garden.world.at_once(&[&same, &same, &same, &same]);
    let made = answers.iter().filter(|answer| answer.stdout.starts_with("judged ")).count();
    let already = answers.iter().filter(|answer| answer.stdout.starts_with("already judged ")).count();
    assert_eq!((made, already), (1, 3), "{answers:?}");
    assert_eq!(garden.judgments(&["--all"]).len(), 1);
    // By criteria of their own, everybody is heard.
    let criteria: Vec<String> = (0..6).map(|number| format!("c{number}")).collect();
    let own: Vec<[&str; 5]> =
        criteria.iter().map(|criterion| ["judge", &run, "--reject", "--criterion", criterion]).collect();
    let own: Vec<&[&str]> = own.iter().map(|command| &command[..]).collect();
    garden.world.at_once(&own).into_iter().for_each(|answer| drop(answer.expect(0)));
    assert_eq!(garden.judgments(&["--all"]).len(), 7);
    assert_eq!(running.stop(), 0);
    garden.world.thought(&["verify"]).expect(0);
}

#[test]
fn two_who_contradict_each_other_without_a_service_leave_one_judgment() {
    const ROUNDS: usize = 6;
    let garden = Garden::new("private", &["Water it."; ROUNDS]);
    for number in 0..ROUNDS {
        let run = garden.run(number);
        // Whoever finds the log held by the other is told so, and has written nothing.
        let (_, told) = one_of_two(&garden, [&["judge", &run, "--accept"], &["judge", &run, "--reject"]]);
        let held = told.code == 4 && told.stderr.contains("data.held");
        assert!(held || told.code == 1 && told.stderr.contains("judgment.contradicts"), "{told:?}");
        assert_eq!(garden.judgments(&["--all", "--run", &run]).len(), 1);
    }
    garden.world.thought(&["verify"]).expect(0);
}

#[test]
fn what_is_replaced_is_what_stands_and_a_comparison_has_one_outcome() {
    let garden = Garden::new("private", &["Water it.", "Leave it."]);
    let (one, two) = (garden.run(0), garden.run(1));
    let id = |answer: Answer| answer.expect(0).json()["id"].as_str().unwrap().to_owned();
    let first = id(garden.judge(&[&one, "--accept"]));
    let second = id(garden.judge(&[&one, "--reject", "--supersedes", &first]));
    let refused = garden.judge(&[&one, "--accept", "--quality", "--supersedes", &first]).expect(1).stderr;
    assert!(refused.contains("judgment.not-standing") && refused.contains(&second), "{refused}");
    // Taking back what was replaced lets nothing stand beside its contrary.
    garden.judge(&["--retract", &first]).expect(0);
    assert_eq!(garden.judgments(&[]).len(), 1);
    let refused = garden.judge(&[&one, "--accept", "--quality", "--supersedes", &first]).expect(1).stderr;
    assert!(refused.contains("was taken back"), "{refused}");
    let better = id(garden.judge(&[&one, "--prefer-over", &two]));
    let refused = garden.judge(&[&two, "--prefer-over", &one]).expect(1).stderr;
    assert!(refused.contains(&format!("thought judge --retract {better}")), "{refused}");
    assert!(!refused.contains("--supersedes"), "it is a judgment of the other output: {refused}");
    garden.judge(&["--retract", &better]).expect(0);
    garden.judge(&[&two, "--prefer-over", &one]).expect(0);
    garden.world.thought(&["verify"]).expect(0);
}
