//! A group is answered when it is durable, before it is shown: what whoever is answered may count on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use thoughtstream_domain::commit::Precondition;
use thoughtstream_domain::id::ConsumerKey;

use super::crash::check_sound;
use super::*;
use crate::WriteError;
use crate::sim::{Fault, Loss};

/// Longer than any look takes that nobody holds up.
const A_LOOK: Duration = Duration::from_millis(100);

fn apply(store: &mut Store, commit: Commit, answer: &mut dyn FnMut(Vec<Verdict>)) {
    store.writer.apply_answering(&[commit], at(1000), &mut || Ok(()), answer).unwrap();
}

#[test]
fn whoever_looks_once_an_answer_is_given_finds_it() {
    let (_, mut store) = fresh();
    let reader = store.reader.clone();
    let mut looking = None;
    apply(&mut store, append(vec![note("a", "one")]), &mut |verdicts| {
        let placed = verdicts[0].placed().unwrap()[0];
        let (tell, told) = mpsc::channel();
        let reader = reader.clone();
        let look = thread::spawn(move || {
            let found = reader.event_at(placed.position).unwrap().map(|event| event.id);
            tell.send(found).unwrap();
        });
        assert!(told.recv_timeout(A_LOOK).is_err(), "it looked although redb has not got it yet");
        looking = Some((look, told, placed.id));
    });
    let (look, told, id) = looking.unwrap();
    assert_eq!(told.recv().unwrap(), Some(id));
    look.join().unwrap();
}

#[test]
fn what_is_answered_stands_if_the_power_is_cut_at_that_moment() {
    for loss in [Loss::All, Loss::None] {
        let (disk, mut store) = fresh();
        committed(&mut store, &append(vec![note("before", "there")]));
        let mut image = None;
        apply(&mut store, append(vec![note("a", "one")]), &mut |verdicts| {
            image = Some((disk.image(loss), verdicts[0].placed().unwrap()[0]));
        });
        let (image, placed) = image.unwrap();
        let store = open(&image).unwrap();
        check_sound(&store, "after the power cut");
        assert_eq!(store.reader.event_at(placed.position).unwrap().map(|event| event.id), Some(placed.id));
    }
}

#[test]
fn a_writer_that_dies_while_it_answers_loses_nothing_and_lets_everyone_look() {
    for closes in [false, true] {
        let (disk, mut store) = fresh();
        let commit = append(vec![note("a", "one")]);
        let dies = catch_unwind(AssertUnwindSafe(|| {
            apply(&mut store, commit.clone(), &mut |_| panic!("as told"));
        }));
        assert!(dies.is_err());
        assert!(store.writer.has_failed(), "the journal knows more than redb does");
        assert_eq!(store.reader.last_position().unwrap(), 0, "nobody is held up, and nobody was answered");
        store.writer.apply(std::slice::from_ref(&commit), at(1000)).unwrap_err();
        let mut store = if closes {
            store.writer.close().unwrap_err();
            drop(store);
            open(&disk).unwrap()
        } else {
            store.writer.reopen().unwrap();
            store
        };
        let Verdict::AlreadyCommitted(placed) = one(&mut store, &commit) else { panic!("it was durable") };
        assert_eq!(placed[0].position, 1);
        check_sound(&store, "after it was opened again");
    }
}

#[test]
fn a_writer_that_dies_before_a_group_is_durable_forgets_what_it_had_noted_of_it() {
    let (_, mut store) = fresh();
    let commit = append(vec![note("a", "one")]);
    let dies = catch_unwind(AssertUnwindSafe(|| {
        let mut inside = || panic!("as told");
        store.writer.apply_answering(std::slice::from_ref(&commit), at(1000), &mut inside, &mut |_| {})
    }));
    assert!(dies.is_err());
    assert!(store.writer.has_failed());
    store.writer.reopen().unwrap();
    assert!(one(&mut store, &commit).placed().is_some());
    assert_eq!(store.reader.last_position().unwrap(), 1);
    check_sound(&store, "after it was opened again");
}

#[test]
fn every_group_is_answered_once_whatever_way_it_takes() {
    let (_, mut store) = fresh();
    let huge = "x".repeat(96 << 10);
    // New, already there, larger than the journal takes, and refused.
    let refused = Commit {
        preconditions: vec![Precondition::ProgressIs {
            consumer: ConsumerKey::parse("links@1").unwrap(),
            source: source("notes:desk"),
            sequence: 7,
        }],
        ..append(vec![note("c", "three")])
    };
    let commits = [
        append(vec![note("a", "one")]),
        append(vec![note("a", "one")]),
        append(vec![note("b", &huge)]),
        refused,
    ];
    let mut answers = Vec::new();
    for commit in commits {
        apply(&mut store, commit, &mut |verdicts| answers.push(verdicts));
    }
    assert!(
        matches!(
            &answers.concat()[..],
            [Verdict::Committed(_), Verdict::AlreadyCommitted(_), Verdict::Committed(_), Verdict::Refused(_)]
        ),
        "{answers:?}"
    );
}

/// redb keeps nothing in memory here, so it fails as soon as its file does.
#[test]
fn whoever_looks_when_redb_could_not_take_what_was_answered_waits_until_the_log_is_open_again() {
    let disk = disk();
    let mut store = Store::open_on(Arc::new(disk.clone()), Options { cache_bytes: 0, ..options() }).unwrap();
    store.writer.set_types(REGISTRY.hashes()).unwrap();
    let reader = store.reader.clone();
    let mut answered = None;
    apply(&mut store, append(vec![note("a", &"x".repeat(40 << 10))]), &mut |verdicts| {
        answered = Some(verdicts[0].placed().unwrap()[0]);
        (0..1000).for_each(|later| disk.plan(disk.operations() + later, Fault::NoSpace));
    });
    let placed = answered.unwrap();
    assert!(store.writer.has_failed(), "redb had no room");
    let (tell, told) = mpsc::channel();
    let look = thread::spawn(move || {
        let found = reader.event_at(placed.position).unwrap().map(|event| event.id);
        tell.send(found).unwrap();
    });
    assert!(told.recv_timeout(A_LOOK).is_err(), "it looked although redb has not got it yet");
    // Upkeep is what says so to whoever drives the writer, and not first the next commit.
    assert!(matches!(store.writer.maybe_checkpoint(std::time::Instant::now()), Err(WriteError::MustReopen)));
    (0..2000).for_each(|later| disk.forget(disk.operations() + later));
    store.writer.reopen().unwrap();
    assert_eq!(told.recv().unwrap(), Some(placed.id));
    look.join().unwrap();
}
