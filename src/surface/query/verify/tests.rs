//! What a version had to process after another was followed.

use thoughtstream_domain::commit::{Commit, Row};
use thoughtstream_domain::declaration::{Catalog, TransformInfo, load_all};
use thoughtstream_domain::event::{Actor, ActorKind, Envelope};
use thoughtstream_domain::id::{ConsumerId, IdempotencyKey};
use thoughtstream_domain::lifecycle::{AdapterRevision, Frame};
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::note::Note;
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_domain::registry::Registry;
use thoughtstream_domain::time::Timestamp;
use thoughtstream_domain::transform::structure::DocumentStructure;
use thoughtstream_store::verify::FindingKind;
use thoughtstream_store::{Options as StoreOptions, Store};

use super::*;

const NOW: Timestamp = Timestamp::from_millis(1);

fn catalog(registry: &Registry) -> Catalog {
    let mut catalog = Catalog::of(registry);
    let info =
        TransformInfo { accepts: [Note::kind().name].into(), emits: [DocumentStructure::kind().name].into() };
    catalog.transforms.insert("echo".to_owned(), info);
    catalog
}

/// Declares a version of the consumer `a`.
fn version(catalog: &Catalog, number: u32, more: &str) -> Declaration {
    subscribing(catalog, number, "kinds: [notes]", more)
}

fn subscribing(catalog: &Catalog, version: u32, subscribe: &str, more: &str) -> Declaration {
    let text = format!(
        "id: a\nversion: {version}\nenabled: true\ndescription: Plays a part, v{version}.\n\
         subscribe: {{ types: [stream.thought.source.note], {subscribe} }}\n\
         runner: {{ kind: deterministic, transform: echo }}\n\
         emit: [stream.thought.derived.document.structure]\n{more}\n"
    );
    let files = [("a.yaml".to_owned(), text.into_bytes())];
    let set = load_all(&files, &|_| Some(Vec::new()), catalog).unwrap();
    set.get(&ConsumerId::parse("a").unwrap()).unwrap().clone()
}

fn registration(declaration: &Declaration, position: u64) -> Row {
    Row::Declaration(Registered {
        consumer: declaration.key().clone(),
        fingerprint: declaration.fingerprint(),
        canonical: declaration.canonical(),
        position,
        at: NOW,
    })
}

fn notes() -> SourceId {
    SourceId::parse("notes:a").unwrap()
}

fn progress(declaration: &Declaration, sequence: u64) -> Row {
    Row::SetProgress { consumer: declaration.key().clone(), source: notes(), sequence }
}

/// Hands `a@1`, which stood at 2 with an execution on 3, over to a second version that begins at `begun`; returns
/// which of the four notes it had to process, and whether the check finds progress in order.
fn handed_over(more: &str, begun: u64) -> (Vec<u64>, bool) {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    Store::create(&data, [7; 16], StoreOptions::default()).unwrap();
    let mut store = Store::open(&data, StoreOptions::default()).unwrap();
    let registry = Registry::shipped();
    store.writer.set_types(registry.hashes()).unwrap();
    let catalog = catalog(&registry);
    let (first, second) = (version(&catalog, 1, ""), version(&catalog, 2, more));
    let mut commit = |rows: Vec<Row>, keys: &[&str]| {
        let appends = keys.iter().map(|key| {
            let actor = Actor::ours(ActorKind::Person, "uid:1");
            let key = IdempotencyKey::parse(key).unwrap();
            let note = Note { text: "x".to_owned(), title: None, tags: Vec::new() };
            note.candidate(Envelope::new(notes(), key, Privacy::Private, actor))
        });
        let commit = Commit { appends: appends.collect(), rows, ..Commit::default() };
        let verdicts = store.writer.apply(&[commit], NOW).unwrap();
        assert!(verdicts[0].placed().is_some(), "{verdicts:?}");
    };
    commit(vec![registration(&first, 0)], &["1", "2", "3", "4"]);
    let events = store.reader.page_after(0, 10).unwrap();
    let frame = Frame {
        consumer: first.key().clone(),
        fingerprint: first.fingerprint(),
        privacy_floor: Privacy::Private,
        incarnation: 1,
        now: NOW,
        adapter: AdapterRevision::deterministic(),
    };
    let mut execution = Execution::fix(&frame, &events[2..3]);
    execution.put_in_line();
    let mut commit = |rows: Vec<Row>| {
        let verdicts = store.writer.apply(&[Commit { rows, ..Commit::default() }], NOW).unwrap();
        assert!(verdicts[0].placed().is_some(), "{verdicts:?}");
    };
    commit(vec![progress(&first, 2), Row::Execution(execution.clone())]);
    execution.state = ExecutionState::Closed { how: Closure::Superseded };
    commit(vec![registration(&second, 4), Row::Execution(execution), progress(&second, begun)]);
    let home = crate::query::proposals::Home::of(None);
    let look =
        Look { reader: &store.reader, live: None, declared: None, catalog: &catalog, now: NOW, home: &home };
    let duties = Duties::of(&look);
    let had = events.iter().filter(|event| duties.has(second.key(), event)).map(|e| e.sequence).collect();
    let matches = |key: &ConsumerKey, event: &Event| key == second.key() && duties.has(key, event);
    let report = check(&store.reader, Options { matches: Some(&matches), ..Options::default() }).unwrap();
    (had, report.findings.iter().all(|finding| finding.kind != FindingKind::Progress))
}

#[test]
fn a_later_version_has_to_go_on_where_the_one_before_stood() {
    assert_eq!(handed_over("", 2), (vec![3, 4], true));
    // What was taken from the version before counts, though that one has passed it.
    assert_eq!(handed_over("", 3), (vec![3, 4], false));
    assert_eq!(handed_over("", 4), (vec![3, 4], false));
}

#[test]
fn a_later_version_that_begins_anew_has_to_do_everything() {
    let (had, in_order) = handed_over("onVersionChange: new", 0);
    assert_eq!((had, in_order), (vec![1, 2, 3, 4], true));
    let (had, in_order) = handed_over("onVersionChange: { replay: [\"notes:a\"] }", 2);
    assert_eq!((had, in_order), (vec![1, 2, 3, 4], false));
}

/// Lets `a@1` begin with the fourth note and follows it when there are `followed` notes, with a version that would
/// begin with the sixth; returns which of seven notes that one had to process.
fn followed_at(followed: u32) -> Vec<u64> {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    Store::create(&data, [7; 16], StoreOptions::default()).unwrap();
    let mut store = Store::open(&data, StoreOptions::default()).unwrap();
    let registry = Registry::shipped();
    store.writer.set_types(registry.hashes()).unwrap();
    let catalog = catalog(&registry);
    let beginning = |number, sequence: u32| {
        let subscribe = format!("sources: ['notes:a'], replay: {{ sequence: {sequence} }}");
        subscribing(&catalog, number, &subscribe, "")
    };
    let (first, second) = (beginning(1, 4), beginning(2, 6));
    for number in 0..=7 {
        let mut commit = Commit::default();
        if number == 0 {
            commit.rows.push(registration(&first, 0));
        } else {
            let actor = Actor::ours(ActorKind::Person, "uid:1");
            let key = IdempotencyKey::parse(&number.to_string()).unwrap();
            let note = Note { text: "x".to_owned(), title: None, tags: Vec::new() };
            commit.appends.push(note.candidate(Envelope::new(notes(), key, Privacy::Private, actor)));
        }
        if number == followed {
            commit.rows.push(registration(&second, followed.into()));
        }
        let verdicts = store.writer.apply(&[commit], NOW).unwrap();
        assert!(verdicts[0].placed().is_some(), "{verdicts:?}");
    }
    let home = crate::query::proposals::Home::of(None);
    let look =
        Look { reader: &store.reader, live: None, declared: None, catalog: &catalog, now: NOW, home: &home };
    let duties = Duties::of(&look);
    let events = store.reader.page_after(0, 10).unwrap();
    events.iter().filter(|event| duties.has(second.key(), event)).map(|event| event.sequence).collect()
}

#[test]
fn a_version_goes_on_from_the_sequence_that_the_one_before_had_come_to() {
    // Neither had begun: no source, or not as far as the event before the one it was to begin with.
    assert_eq!(followed_at(0), [6, 7]);
    assert_eq!(followed_at(2), [6, 7]);
    assert_eq!(followed_at(3), [4, 5, 6, 7]);
}
