use super::*;
use crate::commit::Placed;
use crate::event::Candidate;
use crate::hash::ChainHash;
use crate::id::{EventId, IdempotencyKey};
use crate::time::Timestamp;

const BASE: &[u8] = b"---\nid: memory\n---\nLives in Porto.\n";
const RESULT: &[u8] = b"---\nid: memory\n---\nLives in Porto.\nMoved to Lisbon.\n";

fn document(revision: u64, bytes: &[u8]) -> Document {
    let source = documents();
    Document {
        id: DocumentId::named(&source, "memory"),
        source,
        revision,
        path: MEMORY_PATH.to_owned(),
        sha256: Sha256Hash::of(bytes),
        bytes: bytes.len() as u64,
        content_type: "text/markdown".to_owned(),
        named: Some("memory".to_owned()),
        removed: false,
        stat: None,
    }
}

fn recorded() -> (MemoryTarget, Recorded) {
    let base = document(3, BASE);
    let recorded = Recorded {
        current: Some(base.clone()),
        version: Some(base.clone()),
        bytes: Some(Content::new(BASE.to_vec())),
    };
    (target_of(&base), recorded)
}

/// Places a candidate as the log would.
fn placed(candidate: &Candidate, position: u64) -> Event {
    let placed = Placed {
        id: candidate.id(),
        position,
        sequence: position,
        recorded_at: Timestamp::from_millis(1),
        root: candidate.id(),
        depth: 0,
        chain: ChainHash::from_bytes([0; 32]),
    };
    Event::recorded(candidate, &placed)
}

fn file_event(document: &Document, position: u64) -> Event {
    let key = IdempotencyKey::parse(&format!("{}@{}", document.id, document.revision)).unwrap();
    let actor = Actor::ours(ActorKind::Producer, "filesystem");
    let Document { id, revision, path, sha256, bytes, content_type, source, .. } = document.clone();
    let previous_sha256 = Sha256Hash::of(BASE);
    let changed =
        FileChanged { document_id: id, revision, path, bytes, sha256, content_type, previous_sha256 };
    placed(&changed.candidate(Envelope::new(source, key, Privacy::Private, actor)), position)
}

fn binding() -> MaterializationBinding {
    let id = |text: &str| {
        let key = IdempotencyKey::parse(text).unwrap();
        EventId::derive(&documents(), &Materialized::kind().name, &key)
    };
    MaterializationBinding { proposal: id("proposal"), decision: id("decision"), attempt: 1 }
}

fn started() -> MaterializationStarted {
    MaterializationStarted {
        binding: binding(),
        base: recorded().0,
        result_sha256: Sha256Hash::of(RESULT),
        result_bytes: RESULT.len() as u64,
    }
}

fn begun() -> Event {
    let planned = planned();
    let decision = file_event(&document(3, BASE), 7);
    placed(&begin(binding(), &decision, &planned).appends[0], 8)
}

#[test]
fn a_base_is_used_only_if_everything_that_was_recorded_of_it_still_holds() {
    let (target, whole) = recorded();
    assert_eq!(whole.base(&target).unwrap(), BASE);
    let elsewhere = [
        MemoryTarget { source: SourceId::parse("filesystem:notes").unwrap(), ..target.clone() },
        MemoryTarget { path: "other.md".to_owned(), ..target.clone() },
        MemoryTarget { path: "../memory.md".to_owned(), ..target.clone() },
    ];
    for other in elsewhere {
        assert_eq!(whole.base(&other), Err(ReasonCode::OtherTarget));
    }
    let now = document(3, BASE);
    let moved = [
        None,
        Some(document(4, BASE)),
        Some(document(3, RESULT)),
        Some(Document { removed: true, ..now.clone() }),
        Some(Document { path: "old.md".to_owned(), ..now.clone() }),
        Some(Document { id: DocumentId::named(&now.source, "other"), ..now.clone() }),
    ];
    for current in moved {
        let stale = Recorded { current, ..whole.clone() };
        assert_eq!(stale.base(&target), Err(ReasonCode::StaleBase));
    }
    let damaged = [
        Recorded { version: None, ..whole.clone() },
        Recorded { bytes: None, ..whole.clone() },
        Recorded { version: Some(document(3, RESULT)), ..whole.clone() },
        Recorded { version: Some(document(2, BASE)), ..whole.clone() },
        Recorded { version: Some(Document { bytes: 1, ..now.clone() }), ..whole.clone() },
        Recorded {
            version: Some(Document { content_type: "text/plain".to_owned(), ..now }),
            ..whole.clone()
        },
        Recorded { bytes: Some(Content::new(RESULT.to_vec())), ..whole },
    ];
    for recorded in damaged {
        assert_eq!(recorded.base(&target), Err(ReasonCode::BaseDamaged));
    }
}

/// Plans the change that all of these tests are about.
fn planned() -> Planned {
    let text = ProposedText::new("Moved to Lisbon.".to_owned()).unwrap();
    Planned::of(&recorded().0, BASE, Operation::Append, &text, 1_000).unwrap()
}

#[test]
fn what_is_planned_is_what_was_announced_or_something_else() {
    let (target, planned) = (recorded().0, planned());
    assert_eq!(planned.bytes().reveal(), RESULT);
    assert!(planned.is(&started()));
    assert!(!planned.is(&MaterializationStarted { result_bytes: 1, ..started() }));
    assert!(!planned.is(&MaterializationStarted { result_sha256: target.sha256, ..started() }));
    let base = MemoryTarget { revision: 2, ..target };
    assert!(!planned.is(&MaterializationStarted { base, ..started() }));
    assert!(!format!("{planned:?}").contains("Lisbon"));
}

#[test]
fn every_state_of_the_two_names_has_one_answer() {
    let file = |bytes: &[u8]| Lies::File(Sha256Hash::of(bytes));
    let (base, result, foreign, other) =
        (file(BASE), file(RESULT), file(b"by hand"), file(b"by another hand"));
    let foreign_now = |code, spare| Standing::Foreign { code, spare };
    use ReasonCode::{FileChanged, FileMissing, FileUnfit, Swapped};
    for (place, beside, expected) in [
        (base, Lies::Nothing, Standing::Untouched),
        (base, result, Standing::Untouched),
        (result, base, Standing::Written),
        (result, Lies::Nothing, Standing::Written),
        (result, result, Standing::Written),
        (result, foreign, Standing::SwapBack),
        (result, Lies::Other, Standing::SwapBack),
        // Put back by hand after it was written.
        (base, base, foreign_now(FileChanged, true)),
        (base, foreign, foreign_now(Swapped, false)),
        (base, Lies::Other, foreign_now(Swapped, false)),
        // Changed by hand before, or after.
        (foreign, Lies::Nothing, foreign_now(FileChanged, false)),
        (foreign, result, foreign_now(FileChanged, false)),
        (foreign, base, foreign_now(FileChanged, true)),
        (foreign, other, foreign_now(Swapped, false)),
        (Lies::Other, Lies::Nothing, foreign_now(FileChanged, false)),
        (Lies::Other, base, foreign_now(FileChanged, true)),
        (Lies::Nothing, Lies::Nothing, foreign_now(FileMissing, false)),
        (Lies::Nothing, result, foreign_now(FileMissing, false)),
        (Lies::Nothing, foreign, foreign_now(Swapped, false)),
        // What cannot be read: the other of the two tells what became of the file, or nobody can.
        (Lies::Unread, Lies::Nothing, Standing::Unknown),
        (Lies::Unread, Lies::Unread, Standing::Unknown),
        (Lies::Unread, result, foreign_now(FileUnfit, false)),
        (Lies::Unread, base, foreign_now(FileUnfit, false)),
        (Lies::Unread, foreign, foreign_now(Swapped, false)),
        (result, Lies::Unread, Standing::SwapBack),
        (base, Lies::Unread, foreign_now(Swapped, false)),
        (foreign, Lies::Unread, foreign_now(Swapped, false)),
        (Lies::Nothing, Lies::Unread, foreign_now(Swapped, false)),
    ] {
        assert_eq!(standing(&started(), OnDisk { place, beside }), expected, "{place:?} {beside:?}");
    }
}

#[test]
fn nothing_foreign_is_ever_given_up() {
    let file = |bytes: &[u8]| Lies::File(Sha256Hash::of(bytes));
    let foreign = [file(b"by hand"), Lies::Other, Lies::Unread];
    let all = [file(BASE), file(RESULT), Lies::Nothing].into_iter().chain(foreign);
    for place in all.clone() {
        for beside in all.clone() {
            let then = standing(&started(), OnDisk { place, beside });
            // Written and Untouched drop what stands beside; so does a spare copy. A new file is put over the place
            // only where the base is.
            let drops = matches!(then, Standing::Written | Standing::Untouched)
                || matches!(then, Standing::Foreign { spare: true, .. });
            assert!(!drops || !foreign.contains(&beside), "{place:?} {beside:?} {then:?}");
            assert!(then != Standing::Untouched || place == file(BASE));
        }
    }
}

#[test]
fn a_receipt_needs_the_version_the_pointer_the_bytes_and_the_event() {
    let now = document(4, RESULT);
    let whole = Seen {
        current: Some(now.clone()),
        version: Some(now.clone()),
        bytes: Some(Content::new(RESULT.to_vec())),
        event: Some(file_event(&now, 9)),
    };
    let (result, event) = verified(&started(), &whole).unwrap();
    assert_eq!((result.revision, result.sha256, event.position), (4, Sha256Hash::of(RESULT), 9));
    let elsewhere = [
        None,
        Some(document(3, RESULT)),
        Some(document(4, b"by hand")),
        Some(Document { removed: true, ..now.clone() }),
        Some(Document { path: "moved.md".to_owned(), ..now.clone() }),
        Some(Document { id: DocumentId::named(&now.source, "other"), ..now.clone() }),
        Some(Document { bytes: 1, ..now.clone() }),
    ];
    for current in elsewhere {
        let seen = Seen { current, ..whole.clone() };
        assert_eq!(verified(&started(), &seen).map(drop), Err(ReasonCode::ScanDiffers));
    }
    let wrong = [
        Seen { version: None, ..whole.clone() },
        Seen { version: Some(document(5, RESULT)), ..whole.clone() },
        Seen { version: Some(document(4, BASE)), ..whole.clone() },
        Seen { bytes: None, ..whole.clone() },
        Seen { bytes: Some(Content::new(BASE.to_vec())), ..whole.clone() },
        Seen { event: None, ..whole.clone() },
        Seen { event: Some(file_event(&document(5, RESULT), 9)), ..whole.clone() },
        Seen { event: Some(file_event(&document(4, BASE), 9)), ..whole.clone() },
        Seen { event: Some(begun()), ..whole.clone() },
    ];
    for seen in wrong {
        assert_eq!(verified(&started(), &seen).map(drop), Err(ReasonCode::ReceiptFailed));
    }
}

#[test]
fn the_events_of_one_attempt_exclude_each_other_and_say_how_far_it_is() {
    let decision = file_event(&document(3, BASE), 7);
    let planned = planned();
    let begin = begin(binding(), &decision, &planned);
    assert!(matches!(&begin.preconditions[..], [
        Precondition::DocumentIs { revision: Some(3), .. }, Precondition::KeyUnused { types, .. }] if types.len() == 2));
    let event = placed(&begin.appends[0], 8);
    assert_eq!((event.privacy, event.parents.as_slice()), (Privacy::Sensitive, &[decision.id][..]));
    assert_eq!(Stage::of(&[]), Stage::Waiting);
    assert_eq!(Stage::of(std::slice::from_ref(&event)), Stage::Begun(Box::new(event.clone()), started()));

    let seen = file_event(&document(4, RESULT), 9);
    let made = receipt((&event, &started()), target_of(&document(4, RESULT)), &seen);
    let failed = failure(binding(), &event, ReasonCode::NoSpace);
    for (commit, against) in
        [(&made, MaterializationFailed::kind().name), (&failed, Materialized::kind().name)]
    {
        let excludes = commit.preconditions.iter().any(|condition| {
            matches!(condition, Precondition::KeyUnused { types, key, .. } if *types == [against.clone()] && *key == binding().key())
        });
        assert!(excludes);
    }
    let (made, failed) = (placed(&made.appends[0], 10), placed(&failed.appends[0], 10));
    assert!(matches!(Stage::of(&[event.clone(), made]), Stage::Done(made) if made.result.revision == 4));
    assert_eq!(Stage::of(&[event, failed]), Stage::Failed { attempt: 1, code: ReasonCode::NoSpace });
}
