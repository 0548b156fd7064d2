//! Every link of a proposal's lineage, forged: each forgery fails closed, and its code names the link.

mod alone;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use thoughtstream_domain::commit::{Document, Registered};
use thoughtstream_domain::content::Content;
use thoughtstream_domain::event::{Actor, ActorKind, Event, Payload};
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::{ConsumerKey, EventId, ExecutionId, RunId, SourceId};
use thoughtstream_domain::judgment::Judged;
use thoughtstream_domain::lifecycle::{Run, RunState};
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_domain::proposal::Kind;
use thoughtstream_domain::proposal::lineage::{
    AnyProven, LineageError, Link, Records, Stored, prove, prove_correction, prove_memory,
};
use thoughtstream_domain::time::Timestamp;
use thoughtstream_store::{Options, RowError, Store};
use thoughtstream_testkit::proposals::{ADDED, INSTEAD, SENT, Setting, Story, tell};

/// Is a log as it is read by somebody who changed some of it.
struct Forged<'s> {
    store: &'s Store,
    events: BTreeMap<EventId, Option<Event>>,
    runs: BTreeMap<RunId, Option<Run>>,
    completions: Option<Vec<Event>>,
    registered: Option<Option<Registered>>,
    snapshot: Option<Option<Stored>>,
}

impl<'s> Forged<'s> {
    fn of(store: &'s Store) -> Self {
        Self {
            store,
            events: BTreeMap::new(),
            runs: BTreeMap::new(),
            completions: None,
            registered: None,
            snapshot: None,
        }
    }

    /// Reads an event otherwise than it was written.
    fn event(mut self, event: &Event, change: impl FnOnce(&mut Event)) -> Self {
        let mut changed = self.events.get(&event.id).cloned().flatten().unwrap_or_else(|| event.clone());
        change(&mut changed);
        self.events.insert(event.id, Some(changed));
        self
    }

    fn without(mut self, event: &Event) -> Self {
        self.events.insert(event.id, None);
        self
    }

    fn run(mut self, id: RunId, change: impl FnOnce(&mut Run)) -> Self {
        let mut run = self.store.reader.run_by_id(&id).unwrap().unwrap();
        change(&mut run);
        self.runs.insert(id, Some(run));
        self
    }

    fn stored(&self, story: &Story) -> Stored {
        let run = self.store.reader.run_by_id(&story.run).unwrap().unwrap();
        Records::snapshot(&self.store.reader, &run.consumer, &run.execution).unwrap().unwrap()
    }
}

impl Records for Forged<'_> {
    type Error = RowError;

    fn event(&self, id: &EventId) -> Result<Option<Event>, RowError> {
        match self.events.get(id) {
            Some(forged) => Ok(forged.clone()),
            None => self.store.reader.event(id),
        }
    }

    fn run(&self, id: &RunId) -> Result<Option<Run>, RowError> {
        match self.runs.get(id) {
            Some(forged) => Ok(forged.clone()),
            None => self.store.reader.run_by_id(id),
        }
    }

    fn completions(&self, run: &Run) -> Result<Vec<Event>, RowError> {
        match &self.completions {
            Some(forged) => Ok(forged.clone()),
            None => Records::completions(&self.store.reader, run),
        }
    }

    fn registered(&self, consumer: &ConsumerKey) -> Result<Option<Registered>, RowError> {
        match &self.registered {
            Some(forged) => Ok(forged.clone()),
            None => self.store.reader.registered(consumer),
        }
    }

    fn snapshot(&self, agent: &ConsumerKey, execution: &ExecutionId) -> Result<Option<Stored>, RowError> {
        match &self.snapshot {
            Some(forged) => Ok(forged.clone()),
            None => Records::snapshot(&self.store.reader, agent, execution),
        }
    }
}

pub(crate) fn bot() -> SourceId {
    SourceId::parse("telegram:bot").unwrap()
}

pub(crate) struct World {
    _directory: tempfile::TempDir,
    pub(crate) store: Store,
    pub(crate) story: Story,
}

pub(crate) fn world(setting: &Setting) -> World {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    Store::create(&data, [1; 16], Options::default()).unwrap();
    let mut store = Store::open(&data, Options::default()).unwrap();
    let story = tell(&mut store, setting);
    World { _directory: directory, store, story }
}

/// Changes the payload of an event in place.
pub(crate) fn payload(event: &mut Event, change: impl FnOnce(&mut Value)) {
    let Payload::Present(content) = &event.payload else { panic!("it has a payload") };
    let mut value: Value = serde_json::from_slice(content.reveal()).unwrap();
    change(&mut value);
    event.payload = Payload::Present(Content::new(serde_json::to_vec(&value).unwrap().into()));
}

#[track_caller]
fn breaks<R: Records<Error = RowError>>(records: &R, proposal: &Event, link: Link) {
    match prove(records, &proposal.id) {
        Ok(_) => panic!("a forged {link:?} was believed"),
        Err(LineageError::Unread(error)) => panic!("{error}"),
        Err(LineageError::Broken(broken)) => {
            assert_eq!(broken.link, link);
            let said = format!("{broken}");
            assert!(said.starts_with(link.code()), "{said}");
            for content in [ADDED, SENT, INSTEAD, "They said so"] {
                assert!(!said.contains(content), "{said}");
            }
        }
    }
}

/// Reads another context than was sealed, and every event that names it as if it had named that one.
fn sealed_as<'s>(store: &'s Store, story: &Story, change: impl FnOnce(&mut Value)) -> Forged<'s> {
    let mut log = Forged::of(store);
    let mut stored = log.stored(story);
    let mut value: Value = serde_json::from_slice(stored.bytes.unwrap().reveal()).unwrap();
    change(&mut value);
    let bytes = thoughtstream_domain::canonical::write(&value).unwrap();
    let sha256 = Sha256Hash::of(&bytes);
    stored.bytes = Some(Content::new(bytes));
    stored.document.sha256 = sha256;
    stored.version = stored.version.map(|version| Document { sha256, ..version });
    log.snapshot = Some(Some(stored));
    for proposal in [&story.memory, &story.correction, &story.focus] {
        log = log.event(proposal, |event| payload(event, |it| it["proposer"]["snapshot"] = json!(sha256)));
    }
    log.event(&story.output, |event| payload(event, |it| it["snapshot"] = json!(sha256)))
}

#[test]
fn what_the_service_settled_holds() {
    let World { store, story, .. } = world(&Setting::default());
    for (proposal, kind) in [
        (&story.memory, Kind::MemoryChange),
        (&story.correction, Kind::SelfCorrection),
        (&story.focus, Kind::FocusDeclaration),
    ] {
        let proven = prove(&store.reader, &proposal.id).unwrap();
        assert_eq!((proven.kind(), proven.event().id), (kind, proposal.id));
        assert!(proposal.privacy >= Privacy::Sensitive);
    }
    let memory = prove_memory(&store.reader, &story.memory.id).unwrap();
    assert_eq!((memory.run().id, memory.output().event.id), (story.run, story.output.id));
    assert_eq!(memory.event().root, story.trigger.id);
    let correction = prove_correction(&store.reader, &story.correction.id).unwrap();
    assert_eq!(correction.bound().receipt.id, story.receipt.id);
    assert_eq!(correction.event().root, story.first.id);
    assert!(prove_memory(&store.reader, &story.correction.id).is_err());
}

#[test]
fn an_event_that_is_no_proposal_or_lost_its_words_is_none() {
    let World { store, story, .. } = world(&Setting::default());
    let log = || Forged::of(&store);
    breaks(&store.reader, &story.output, Link::Proposal);
    breaks(&log().without(&story.memory), &story.memory, Link::Proposal);
    breaks(
        &log().event(&story.memory, |event| event.payload = Payload::Redacted),
        &story.memory,
        Link::Proposal,
    );
    for wrong in [
        |it: &mut Value| it["publicationEligible"] = json!(true),
        |it: &mut Value| it["proposalState"] = json!("approved"),
        |it: &mut Value| it["more"] = json!(1),
    ] {
        breaks(&log().event(&story.memory, |event| payload(event, wrong)), &story.memory, Link::Proposal);
    }
    for field in ["qualityEligible", "externalExportEligible", "publicationEligible"] {
        let forged = log().event(&story.correction, |event| payload(event, |it| it[field] = json!(true)));
        breaks(&forged, &story.correction, Link::Proposal);
    }
    for field in ["activation", "dataExpansion", "externalActions", "training", "adapterPromotion"] {
        let forged =
            log().event(&story.focus, |event| payload(event, |it| it["authority"][field] = json!(true)));
        breaks(&forged, &story.focus, Link::Proposal);
    }
}

#[test]
fn only_the_agent_itself_writes_it_where_its_settlements_go() {
    let World { store, story, .. } = world(&Setting::default());
    for proposal in [&story.memory, &story.correction, &story.focus] {
        let log = || Forged::of(&store);
        let other = SourceId::parse("agent:other").unwrap();
        breaks(&log().event(proposal, |event| event.source = other), proposal, Link::Author);
        let person = Actor::ours(ActorKind::Person, "uid:7");
        breaks(&log().event(proposal, |event| event.actor = person), proposal, Link::Author);
        let later = Actor::ours(ActorKind::Agent, "stream@19");
        breaks(&log().event(proposal, |event| event.actor = later), proposal, Link::Author);
        breaks(&log().event(proposal, |event| event.privacy = Privacy::Private), proposal, Link::Author);
    }
}

#[test]
fn it_hangs_on_the_output_its_kind_hangs_on() {
    let World { store, story, .. } = world(&Setting::default());
    let log = || Forged::of(&store);
    let onto = |id: EventId| move |event: &mut Event| event.parents = vec![id];
    breaks(&log().event(&story.memory, onto(story.reply.id)), &story.memory, Link::Parent);
    breaks(&log().event(&story.memory, |event| event.parents.clear()), &story.memory, Link::Parent);
    breaks(&log().event(&story.memory, |event| event.root = story.first.id), &story.memory, Link::Parent);
    breaks(&log().event(&story.focus, onto(story.trigger.id)), &story.focus, Link::Parent);
    breaks(&log().event(&story.correction, onto(story.output.id)), &story.correction, Link::Parent);
    breaks(
        &log().event(&story.correction, |event| event.root = story.trigger.id),
        &story.correction,
        Link::Parent,
    );
}

#[test]
fn its_run_is_in_the_log_the_agents_own_and_completed() {
    let World { store, story, .. } = world(&Setting::default());
    let log = || Forged::of(&store);
    let mut gone = log();
    gone.runs.insert(story.run, None);
    breaks(&gone, &story.memory, Link::Run);
    let failed = RunState::Failed { code: "x".to_owned() };
    breaks(&log().run(story.run, |run| run.state = failed), &story.memory, Link::Run);
    breaks(&log().run(story.run, |run| run.state = RunState::Started), &story.memory, Link::Run);
    breaks(&log().run(story.run, |run| run.attempt = 2), &story.memory, Link::Run);
    let other = ConsumerKey::parse("other@1").unwrap();
    breaks(&log().run(story.run, |run| run.consumer = other), &story.memory, Link::Run);
    let elsewhere = Judged::of(&story.reply).unwrap().stamp.run;
    let forged = log().event(&story.memory, |event| {
        payload(event, |it| it["proposer"]["run"] = json!(elsewhere));
    });
    // The run is the agent's and completed, and answered another message in another context.
    breaks(&forged, &story.memory, Link::Snapshot);
}

#[test]
fn its_declaration_is_the_one_the_version_is_bound_to() {
    let World { store, story, .. } = world(&Setting::default());
    let mut log = Forged::of(&store);
    log.registered = Some(None);
    breaks(&log, &story.memory, Link::Fingerprint);
    let mut registered = store.reader.registered(&story.agent).unwrap().unwrap();
    registered.fingerprint = Sha256Hash::of(b"another declaration");
    log.registered = Some(Some(registered));
    breaks(&log, &story.memory, Link::Fingerprint);
    let other = json!(Sha256Hash::of(b"another declaration"));
    let forged = Forged::of(&store).event(&story.correction, |event| {
        payload(event, |it| it["proposer"]["fingerprint"] = other);
    });
    breaks(&forged, &story.correction, Link::Fingerprint);
}

#[test]
fn its_context_is_there_and_byte_for_byte_what_was_sealed() {
    let World { store, story, .. } = world(&Setting::default());
    let with = |change: &dyn Fn(&mut Stored)| {
        let mut log = Forged::of(&store);
        let mut stored = log.stored(&story);
        change(&mut stored);
        log.snapshot = Some(Some(stored));
        log
    };
    breaks(&with(&|stored| stored.version = None), &story.memory, Link::Snapshot);
    breaks(&with(&|stored| stored.bytes = None), &story.memory, Link::Snapshot);
    breaks(&with(&|stored| stored.document.removed = true), &story.memory, Link::Snapshot);
    breaks(&with(&|stored| stored.document.revision = 2), &story.memory, Link::Snapshot);
    breaks(&with(&|stored| stored.document.sha256 = Sha256Hash::of(b"x")), &story.memory, Link::Snapshot);
    let edited = |stored: &mut Stored| {
        let text = String::from_utf8(stored.bytes.clone().unwrap().into_inner()).unwrap();
        stored.bytes = Some(Content::new(text.replace("memory.md", "secret.md").into_bytes()));
    };
    breaks(&with(&edited), &story.memory, Link::Snapshot);
    let mut none = Forged::of(&store);
    none.snapshot = Some(None);
    breaks(&none, &story.focus, Link::Snapshot);
    for (field, value) in [
        ("snapshot", json!(Sha256Hash::of(b"another context"))),
        ("provider", json!("elsewhere")),
        ("model", json!("large-1")),
    ] {
        let forged = Forged::of(&store)
            .event(&story.memory, |event| payload(event, |it| it["proposer"][field] = value));
        breaks(&forged, &story.memory, Link::Snapshot);
    }
}

#[test]
fn what_the_declaration_does_not_let_be_proposed_is_not() {
    let World { store, story, .. } = world(&Setting::default());
    for proposal in [&story.memory, &story.correction, &story.focus] {
        breaks(
            &sealed_as(&store, &story, |it| it["proposals"]["kinds"] = json!([])),
            proposal,
            Link::Declared,
        );
        let none = |it: &mut Value| drop(it.as_object_mut().unwrap().remove("proposals"));
        breaks(&sealed_as(&store, &story, none), proposal, Link::Declared);
    }
    let same = sealed_as(&store, &story, |_| {});
    assert!(prove(&same, &story.memory.id).is_ok());
}

#[test]
fn its_trigger_is_that_of_the_run() {
    let World { store, story, .. } = world(&Setting::default());
    let log = || Forged::of(&store);
    let other = json!(story.first.id);
    let forged = log().event(&story.memory, |event| payload(event, |it| it["proposer"]["trigger"] = other));
    breaks(&forged, &story.memory, Link::Trigger);
    breaks(&log().without(&story.trigger), &story.memory, Link::Trigger);
    breaks(&log().event(&story.trigger, |event| event.position += 1), &story.memory, Link::Trigger);
}

#[test]
fn its_output_is_the_one_the_run_settled_and_says_so_itself() {
    let World { store, story, .. } = world(&Setting::default());
    let log = || Forged::of(&store);
    let two = RunState::Completed { outputs: vec![story.output.id, story.reply.id] };
    breaks(&log().run(story.run, |run| run.state = two), &story.memory, Link::Output);
    let none = RunState::Completed { outputs: Vec::new() };
    breaks(&log().run(story.run, |run| run.state = none), &story.memory, Link::Output);
    let other = json!(story.reply.id);
    let forged = log().event(&story.memory, |event| payload(event, |it| it["proposer"]["output"] = other));
    breaks(&forged, &story.memory, Link::Output);
    breaks(&log().without(&story.output), &story.memory, Link::Output);
    let run = json!(Judged::of(&story.reply).unwrap().stamp.run);
    let forged = log().event(&story.output, |event| payload(event, |it| it["stamp"]["run"] = run));
    breaks(&forged, &story.memory, Link::Output);
    let hash = json!(Sha256Hash::of(b"another context"));
    let forged = log().event(&story.output, |event| payload(event, |it| it["snapshot"] = hash));
    breaks(&forged, &story.memory, Link::Output);
    let forged =
        log().event(&story.output, |event| payload(event, |it| it["provenance"]["model"] = json!("x")));
    breaks(&forged, &story.memory, Link::Output);
    breaks(&log().event(&story.output, |event| event.parents.clear()), &story.memory, Link::Output);
}

#[test]
fn the_receipt_of_the_completion_names_it_and_was_written_with_it() {
    let World { store, story, .. } = world(&Setting::default());
    let with = |change: &dyn Fn(&mut Event)| {
        let mut completed = story.completed.clone();
        change(&mut completed);
        Forged { completions: Some(vec![completed]), ..Forged::of(&store) }
    };
    for completions in [Vec::new(), vec![story.completed.clone(), story.completed.clone()]] {
        let forged = Forged { completions: Some(completions), ..Forged::of(&store) };
        breaks(&forged, &story.memory, Link::Receipt);
    }
    let (memory, correction) = (story.memory.id, story.correction.id);
    for proposals in [
        json!([]),
        json!([correction, story.focus.id]),
        json!([memory, memory, correction]),
        json!([memory, correction, story.focus.id, story.output.id]),
        json!([memory, story.output.id]),
    ] {
        let forged = with(&|event| payload(event, |it| it["proposals"] = proposals.clone()));
        breaks(&forged, &story.memory, Link::Receipt);
    }
    let two = json!([story.output.id, story.reply.id]);
    let forged = with(&|event| payload(event, |it| it["outputs"] = two.clone()));
    breaks(&forged, &story.memory, Link::Receipt);
    let forged = with(&|event| payload(event, |it| it["stamp"]["attempt"] = json!(2)));
    breaks(&forged, &story.memory, Link::Receipt);
    breaks(&with(&|event| event.sequence += 1), &story.memory, Link::Receipt);
    let later = Timestamp::from_millis(1);
    breaks(&with(&|event| event.recorded_at = later), &story.memory, Link::Receipt);
    breaks(&with(&|event| event.source = bot()), &story.memory, Link::Receipt);
}

#[test]
fn what_it_is_based_on_was_shown_to_the_model() {
    let World { store, story, .. } = world(&Setting::default());
    let without = |part: &'static str| {
        move |it: &mut Value| {
            let included = it["manifest"]["included"].as_array_mut().unwrap();
            included.retain(|one| one["part"] != part);
        }
    };
    breaks(&sealed_as(&store, &story, without("assistant")), &story.correction, Link::Manifest);
    breaks(&sealed_as(&store, &story, without("current")), &story.memory, Link::Trigger);
    breaks(&sealed_as(&store, &story, |it| it["documents"] = json!([])), &story.memory, Link::Manifest);
    let forged = Forged::of(&store).event(&story.memory, |event| {
        payload(event, |it| it["target"]["revision"] = json!(2));
    });
    breaks(&forged, &story.memory, Link::Manifest);
}

#[test]
fn every_event_it_cites_was_admitted() {
    let World { store, story, .. } = world(&Setting::default());
    let cites = |proposal: &Event, id: EventId| {
        Forged::of(&store).event(proposal, |event| payload(event, |it| it["evidence"] = json!([id])))
    };
    for id in [story.completed.id, story.memory.id, EventId::from_bytes([9; 32])] {
        breaks(&cites(&story.memory, id), &story.memory, Link::Evidence);
        breaks(&cites(&story.correction, id), &story.correction, Link::Evidence);
    }
    breaks(&cites(&story.memory, story.reply.id).without(&story.reply), &story.memory, Link::Evidence);
    let none = sealed_as(&store, &story, |it| it["proposals"]["evidence"] = json!([]));
    breaks(&none, &story.memory, Link::Evidence);
}

#[test]
fn its_target_is_the_one_that_the_context_admitted() {
    let World { store, story, .. } = world(&Setting::default());
    let none = |it: &mut Value| drop(it["proposals"].as_object_mut().unwrap().remove("memory"));
    breaks(&sealed_as(&store, &story, none), &story.memory, Link::Capability);
    for (field, value) in [
        ("revision", json!(7)),
        ("path", json!("secret.md")),
        ("document", json!("doc_other")),
        ("bytes", json!(1)),
    ] {
        let forged = sealed_as(&store, &story, |it| it["proposals"]["memory"][field] = value);
        breaks(&forged, &story.memory, Link::Capability);
    }
    let none = sealed_as(&store, &story, |it| it["proposals"]["correctionTargets"] = json!([]));
    breaks(&none, &story.correction, Link::Capability);
    let receipt = json!(story.output.id);
    let forged = Forged::of(&store).event(&story.correction, |event| {
        payload(event, |it| it["target"]["receipt"] = receipt);
    });
    breaks(&forged, &story.correction, Link::Capability);
}

#[test]
fn what_it_says_is_what_was_recorded() {
    let World { store, story, .. } = world(&Setting::default());
    let log = || Forged::of(&store);
    for (field, value) in [
        ("proposedText", json!("Moved to Paris.")),
        ("textLength", json!(1)),
        ("textSha256", json!(Sha256Hash::of(b"x"))),
    ] {
        let forged = log().event(&story.memory, |event| payload(event, |it| it[field] = value));
        breaks(&forged, &story.memory, Link::Content);
    }
    let forged = log().event(&story.correction, |event| {
        payload(event, |it| it["replacement"]["importance"] = json!("high"));
    });
    breaks(&forged, &story.correction, Link::Content);
    let forged = log().event(&story.focus, |event| {
        payload(event, |it| it["declaration"]["objective"] = json!("Everything."));
    });
    breaks(&forged, &story.focus, Link::Content);
}

#[test]
fn the_reply_it_corrects_was_made_and_delivered_as_it_says() {
    let World { store, story, .. } = world(&Setting::default());
    let log = || Forged::of(&store);
    let run = Judged::of(&story.reply).unwrap().stamp.run;
    let two = RunState::Completed { outputs: vec![story.reply.id, story.output.id] };
    breaks(&log().run(run, |it| it.state = two), &story.correction, Link::Target);
    let failed = RunState::Failed { code: "x".to_owned() };
    breaks(&log().run(run, |it| it.state = failed), &story.correction, Link::Target);
    let mut gone = log();
    gone.runs.insert(run, None);
    breaks(&gone, &story.correction, Link::Target);
    breaks(&log().without(&story.receipt), &story.correction, Link::Target);
    for (field, value) in [
        ("chat", json!(9)),
        ("sender", json!(9)),
        ("bot", json!("telegram:other")),
        ("run", json!(story.run)),
        ("output", json!(story.output.id)),
        ("root", json!(story.trigger.id)),
        ("route", json!("notification")),
    ] {
        let forged = log().event(&story.receipt, |event| payload(event, |it| it["binding"][field] = value));
        breaks(&forged, &story.correction, Link::Target);
    }
    breaks(
        &log().event(&story.first, |event| payload(event, |it| it["chat"] = json!(9))),
        &story.correction,
        Link::Target,
    );
    breaks(
        &log().event(&story.trigger, |event| payload(event, |it| it["chat"] = json!(9))),
        &story.correction,
        Link::Target,
    );
    let hash = json!(Sha256Hash::of(b"another contract"));
    breaks(
        &log().event(&story.reply, |event| payload(event, |it| it["contractHash"] = hash)),
        &story.correction,
        Link::Target,
    );
    breaks(
        &log().event(&story.reply, |event| event.root = story.trigger.id),
        &story.correction,
        Link::Target,
    );
}

#[test]
fn every_link_has_a_code_of_its_own() {
    let codes: std::collections::BTreeSet<&str> = Link::ALL.iter().map(|link| link.code()).collect();
    assert_eq!(codes.len(), Link::ALL.len());
    let World { store, story, .. } = world(&Setting::default());
    let AnyProven::Focus(focus) = prove(&store.reader, &story.focus.id).unwrap() else { panic!("a focus") };
    assert!(!format!("{focus:?}").contains("Watch the beds"));
}
