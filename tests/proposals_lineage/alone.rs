//! One condition of a link at a time: everything else about the forged event is as it was.

use thoughtstream_domain::id::DocumentId;
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::output::MessageObservation;
use thoughtstream_domain::payload::repair::RepairProposed;

use super::*;

/// Changes an output into what a repair run would have proposed in its place.
fn repaired(event: &mut Event) {
    let said: MessageObservation = event.payload_as().unwrap();
    let repair = RepairProposed {
        stamp: said.stamp,
        request: EventId::from_bytes([1; 32]),
        failed: RunId::from_bytes([2; 20]),
        contract: said.contract,
        contract_hash: said.contract_hash,
        snapshot: said.snapshot,
        provenance: said.provenance,
        replacement: said.observation,
    };
    event.kind = RepairProposed::kind();
    event.payload = Payload::Present(Content::new(serde_json::to_vec(&repair).unwrap().into()));
}

#[test]
fn an_output_says_of_itself_everything_that_the_proposal_says_of_it() {
    let World { store, story, .. } = world(&Setting::default());
    for proposal in [&story.memory, &story.correction, &story.focus] {
        let output = |change: &dyn Fn(&mut Event)| {
            breaks(&Forged::of(&store).event(&story.output, change), proposal, Link::Output);
        };
        output(&repaired);
        output(&|event| event.root = story.first.id);
        output(&|event| event.source = SourceId::parse("agent:other").unwrap());
        output(&|event| event.parents = vec![story.first.id]);
        output(&|event| payload(event, |it| it["provenance"]["provider"] = json!("elsewhere")));
        output(&|event| payload(event, |it| it["provenance"]["model"] = json!("large-1")));
        output(&|event| payload(event, |it| it["snapshot"] = json!(Sha256Hash::of(b"x"))));
        let other = Judged::of(&story.reply).unwrap().stamp;
        for (field, value) in [
            ("run", json!(other.run)),
            ("execution", json!(other.execution)),
            ("consumer", json!("other@1")),
            ("fingerprint", json!(Sha256Hash::of(b"another declaration"))),
            ("attempt", json!(2)),
        ] {
            output(&|event| payload(event, |it| it["stamp"][field] = value.clone()));
        }
    }
}

#[test]
fn a_context_is_the_one_version_of_its_own_document_where_its_agents_contexts_are() {
    let World { store, story, .. } = world(&Setting::default());
    let with = |change: &dyn Fn(&mut Document)| {
        let mut log = Forged::of(&store);
        let mut stored = log.stored(&story);
        change(stored.version.as_mut().unwrap());
        log.snapshot = Some(Some(stored));
        log
    };
    assert!(prove(&with(&|_| {}), &story.memory.id).is_ok());
    for proposal in [&story.memory, &story.correction, &story.focus] {
        let version = |change: &dyn Fn(&mut Document)| breaks(&with(change), proposal, Link::Snapshot);
        version(&|version| version.id = DocumentId::parse("doc_other").unwrap());
        version(&|version| version.source = SourceId::parse("context:other").unwrap());
        version(&|version| version.revision = 2);
        version(&|version| version.sha256 = Sha256Hash::of(b"x"));
    }
}

#[test]
fn a_reply_was_sent_to_whoever_asked_then_and_asks_now() {
    let World { store, story, .. } = world(&Setting::default());
    let log = || Forged::of(&store);
    let target = |forged: Forged<'_>| breaks(&forged, &story.correction, Link::Target);
    // Who asked then, and who asks now.
    for message in [&story.first, &story.trigger] {
        target(log().event(message, |event| payload(event, |it| it["sender"] = json!(9))));
        target(log().event(message, |event| payload(event, |it| it["chat"] = json!(9))));
    }
    // The bot that asked and sent is one, and another than the bot that is asked now.
    let other = SourceId::parse("telegram:other").unwrap();
    let sent = |event: &mut Event| payload(event, |it| it["binding"]["bot"] = json!("telegram:other"));
    target(log().event(&story.first, |event| event.source = other).event(&story.receipt, sent));
    // The reply is another run's, or what a repair proposed.
    let run = json!(story.run);
    target(log().event(&story.reply, |event| payload(event, |it| it["stamp"]["run"] = run)));
    target(log().event(&story.reply, repaired));
    // The receipt is less sensitive than what it is of, or was there before it.
    target(log().event(&story.receipt, |event| event.privacy = Privacy::Private));
    target(log().event(&story.receipt, |event| event.position = story.reply.position));
}
