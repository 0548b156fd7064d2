//! What the whole store promises, on simulated disks and in real directories.

mod accounts;
mod answers;
mod compaction;
mod conversation;
mod copies;
mod crash;
mod damage;
mod definitions;
mod events;
mod judgments;
mod open;
mod seals;
mod settlement;
mod verification;

use std::sync::Arc;

use thoughtstream_domain::commit::{Commit, Placed, Verdict};
use thoughtstream_domain::event::{Actor, ActorKind, Candidate, Envelope, Parent};
use thoughtstream_domain::id::{IdempotencyKey, SourceId};
use thoughtstream_domain::payload::TypedPayload;
use thoughtstream_domain::payload::note::Note;
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_domain::registry::Registry;
use thoughtstream_domain::time::Timestamp;

use crate::disk::Disk;
use crate::sim::SimDisk;
use crate::{OpenError, Options, Store, create_on};

/// Compiling the shipped schemas takes longer than all the rest of a test.
static REGISTRY: std::sync::LazyLock<Registry> = std::sync::LazyLock::new(Registry::shipped);

/// The random mark of a store, not random here.
const MARK: [u8; 16] = [42; 16];

/// Small, so that a test turns the journal over often.
fn options() -> Options {
    Options { journal_file_bytes: 64 << 10, cache_bytes: 4 << 20, wait_for_lock: std::time::Duration::ZERO }
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn source(text: &str) -> SourceId {
    SourceId::parse(text).unwrap()
}

fn envelope(source_text: &str, key: &str) -> Envelope {
    let actor = Actor::ours(ActorKind::Person, "uid:1000");
    Envelope::new(source(source_text), IdempotencyKey::parse(key).unwrap(), Privacy::Private, actor)
}

fn note_in(envelope: Envelope, text: &str) -> Candidate {
    Note { text: text.to_owned(), title: None, tags: Vec::new() }.candidate(envelope)
}

fn note(key: &str, text: &str) -> Candidate {
    note_in(envelope("notes:desk", key), text)
}

fn child(key: &str, parents: Vec<Parent>) -> Candidate {
    note_in(envelope("notes:desk", key).with_parents(parents), key)
}

fn append(appends: Vec<Candidate>) -> Commit {
    Commit { appends, ..Commit::default() }
}

/// A fresh simulated disk with a store on it.
fn disk() -> SimDisk {
    let disk = SimDisk::new(11);
    create_on(&(Arc::new(disk.clone()) as Arc<dyn Disk>), MARK, options()).unwrap();
    disk
}

fn open(disk: &SimDisk) -> Result<Store, OpenError> {
    let mut store = Store::open_on(Arc::new(disk.clone()), options())?;
    store.writer.set_types(REGISTRY.hashes()).unwrap();
    Ok(store)
}

fn fresh() -> (SimDisk, Store) {
    let disk = disk();
    let store = open(&disk).unwrap();
    (disk, store)
}

fn one(store: &mut Store, commit: &Commit) -> Verdict {
    let mut verdicts = store.writer.apply(std::slice::from_ref(commit), at(1000)).unwrap();
    assert_eq!(verdicts.len(), 1);
    verdicts.remove(0)
}

fn committed(store: &mut Store, commit: &Commit) -> Vec<Placed> {
    let verdict = one(store, commit);
    let Verdict::Committed(placed) = verdict else { panic!("{verdict:?}") };
    placed
}
