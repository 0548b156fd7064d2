//! What the model of a run saw: shown and compared up and down, with and without its texts, asking nobody.

use thoughtstream_domain::commit::Commit;
use thoughtstream_domain::event::Event;
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::{ConsumerKey, EventId, TypeRef};
use thoughtstream_domain::lifecycle::{AdapterRevision, Execution, Frame};
use thoughtstream_domain::packet::observe::{Instructions, Observed, observation};
use thoughtstream_domain::packet::{Asking, Capabilities, ContractRevision, Packet, Runtime, Subject};
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_domain::provider::{ResponseFormat, ThinkingLevel};
use thoughtstream_domain::registry::Registry;
use thoughtstream_domain::time::Timestamp;
use thoughtstream_store::{Options, Store};

use crate::cli_world::World;

const SECRET: &str = "water the tulips \u{1b}[2J \u{202e}";

fn frame() -> Frame {
    Frame {
        consumer: ConsumerKey::parse("garden@1").unwrap(),
        fingerprint: Sha256Hash::of(b"declaration"),
        privacy_floor: Privacy::Private,
        incarnation: 1,
        now: Timestamp::from_millis(1_796_000_000_000),
        adapter: AdapterRevision::observer_cell(),
    }
}

fn packet(event: &Event) -> Packet {
    let frame = frame();
    let capabilities =
        Capabilities { privacy: Privacy::PublicSource, tools: Vec::new(), external_actions: false };
    let told = Instructions {
        prompt: "Look at the garden.",
        capabilities: &capabilities,
        answer: "Answer with JSON.",
        max_events: 4,
        max_chars: 4_000,
    };
    let observed = [Observed { event: event.clone(), document: None }];
    let composed = observation(&observed, &[], &told).unwrap();
    let subject = Subject {
        consumer: frame.consumer,
        fingerprint: frame.fingerprint,
        triggers: vec![event.id],
        prompt: None,
        contract: ContractRevision {
            name: TypeRef::parse("stream.thought.output.observation@1").unwrap(),
            sha256: Sha256Hash::of(b"contract"),
        },
        runtime: Runtime {
            profile: "local".to_owned(),
            model: "small".to_owned(),
            execution_adapter_revision: "observer-v1".to_owned(),
            model_adapter: None,
        },
        capabilities,
        images: Vec::new(),
    };
    let asking = Asking {
        max_output_tokens: 400,
        thinking: ThinkingLevel::Off,
        response: ResponseFormat::Text,
        stream: false,
    };
    Packet::seal(subject, asking, composed).unwrap()
}

/// Appends a note and a run on it, with a packet or without; returns the run.
fn run(world: &World, key: &str, text: &str, sealed: bool, previous: u64) -> String {
    let answer = world.append(key, text).expect(0).json();
    let id = EventId::parse(answer["id"].as_str().unwrap()).unwrap();
    let mut store = Store::open(&world.data, Options::default()).unwrap();
    store.writer.set_types(Registry::shipped().hashes()).unwrap();
    let event = store.reader.event(&id).unwrap().unwrap();
    let frame = frame();
    let mut execution = Execution::fix(&frame, std::slice::from_ref(&event));
    let mut open: Commit = execution.open(&frame, previous);
    if sealed {
        let packet = packet(&event);
        open.preconditions.push(packet.precondition());
        open.rows.extend(packet.rows());
    }
    let close = execution.complete(&frame, frame.now, &Registry::shipped(), Vec::new()).unwrap();
    for commit in [open, close] {
        let verdict = store.writer.apply(&[commit], frame.now).unwrap().remove(0);
        assert!(verdict.placed().is_some(), "{verdict:?}");
    }
    store.writer.close().unwrap();
    execution.run_id().to_string()
}

#[test]
fn a_context_is_shown_and_compared_up_and_down_and_its_texts_only_when_asked_for() {
    let world = World::with_config();
    let one = run(&world, "k1", SECRET, true, 0);
    let two = run(&world, "k2", "mow the lawn", true, 1);
    let none = run(&world, "k3", "nothing", false, 2);
    let show = ["context", "show", &one];
    let head = || world.thought(&["verify", "--json"]).expect(0).json()["head"].clone();
    let before = head();
    let quiet = world.thought(&show).expect(0);
    assert!(quiet.stdout.contains("verified") && quiet.stdout.contains("small at local"), "{}", quiet.stdout);
    assert!(quiet.stdout.contains("nothing was left out, cut or changed"));
    assert!(!quiet.stdout.contains("tulips"));
    let told = world.thought(&["context", "show", &one, "--content"]).expect(0);
    assert!(told.stdout.contains("water the tulips"));
    assert!(!told.stdout.chars().any(|c| c != '\n' && thoughtstream_domain::text::is_hostile(c)));
    let json = world.thought(&["context", "show", &one, "--json"]).expect(0);
    assert!(!json.stdout.contains("tulips"));
    let json = json.json();
    assert_eq!(
        (&json["messages"][0]["role"], &json["manifest"]["maxChars"]),
        (&"system".into(), &4_000.into())
    );
    assert!(json["asking"]["messages"].is_null() && json["asking"]["maxOutputTokens"] == 400);
    let json = world.thought(&["context", "show", &one, "--json", "--content"]).expect(0).json();
    assert!(json["messages"][1]["text"].as_str().unwrap().contains("tulips"));

    let diff = ["context", "diff", &one, &two, "--content"];
    let differs = world.thought(&diff).expect(0);
    assert!(differs.stdout.contains("- user") && differs.stdout.contains("+ user"), "{}", differs.stdout);
    assert!(differs.stdout.contains("mow the lawn") && differs.stdout.contains("\ntriggers\n"));
    let same = world.thought(&["context", "diff", &one, &one, "--json"]).expect(0).json();
    assert!(same["same"] == true && same["fields"].as_array().unwrap().is_empty());
    let refused = world.thought(&["context", "show", &none]).expect(1);
    assert!(refused.stderr.contains("context.none"), "{}", refused.stderr);

    assert_eq!(head(), before, "looking appends nothing");
    let running = world.serve(&[]);
    assert_eq!(world.thought(&show).expect(0).stdout, quiet.stdout);
    assert_eq!(world.thought(&diff).expect(0).stdout, differs.stdout);
    assert_eq!(running.stop(), 0);
    let after = world.thought(&["verify", "--json", "--from", before.as_str().unwrap()]).expect(0).json();
    assert_eq!(after["ok"], true);
}
