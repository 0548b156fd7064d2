//! The materializer in its tree: what a person decided is written once or not at all, whatever is killed and whoever
//! else writes.

mod killed;
mod trouble;

use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::PathBuf;

use thoughtstream_actors::killpoint::{KillAction, KillPoint, Trap};
use thoughtstream_actors::supervisor::Outcome;
use thoughtstream_domain::commit::{Commit, Document};
use thoughtstream_domain::event::{Actor, ActorKind, Envelope, Event, Parent};
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::{EventId, IdempotencyKey, SourceId};
use thoughtstream_domain::operate;
use thoughtstream_domain::payload::TypedPayload;
use thoughtstream_domain::payload::materialization::{
    MaterializationBinding, MaterializationFailed, MaterializationStarted, Materialized,
};
use thoughtstream_domain::payload::proposal::{Decidable, Disposition, ProposalDecision};
use thoughtstream_domain::payload::system::Operator;
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_domain::proposal::call::Operation;
use thoughtstream_domain::proposal::capability::MEMORY_PATH;
use thoughtstream_domain::proposal::materialize::{Unexplained, documents, held_as, source};
use thoughtstream_domain::proposal::reason::ReasonCode;
use thoughtstream_domain::proposal::text::ProposedText;
use thoughtstream_domain::time::Timestamp;
use thoughtstream_store::backup::{back_up, restore};
use thoughtstream_store::verify::{Options as VerifyOptions, verify};
use thoughtstream_store::{Reader, Store};
use thoughtstream_testkit::chaos::stage::Stage;
use thoughtstream_testkit::proposed::Proposing;

const BASE: &str = "---\nid: memory\n---\n# Memory\n\nLives in Porto.\n";
const SAID: &str = "Moved to Lisbon.";
const ACTOR: &str = "thoughtstream/materializer";

struct Room {
    stage: Stage,
    proposing: Proposing,
}

/// Reads the memory document's row.
fn document(reader: &Reader) -> Option<Document> {
    reader.document_at(&documents(), MEMORY_PATH).unwrap()
}

/// Reads the events of all materializations, by type.
fn events(reader: &Reader) -> Vec<Event> {
    reader.source_page(&source(), 0, 1_000).unwrap()
}

fn made(reader: &Reader) -> Vec<Materialized> {
    events(reader).iter().filter_map(|event| event.payload_as().ok()).collect()
}

fn failures(reader: &Reader) -> Vec<ReasonCode> {
    let failed = |event: &Event| event.payload_as::<MaterializationFailed>().ok().map(|failed| failed.code);
    events(reader).iter().filter_map(failed).collect()
}

fn started(reader: &Reader) -> usize {
    events(reader).iter().filter(|event| event.payload_as::<MaterializationStarted>().is_ok()).count()
}

impl Room {
    async fn with(context: &str, text: &str) -> Self {
        Self::on(Stage::new(context, &[], false).remembering(text)).await
    }

    /// Starts what is set up, and waits until the document is known.
    async fn on(mut stage: Stage) -> Self {
        stage.start().await;
        stage.until("the document is known", |reader| document(reader).is_some()).await;
        let proposing = Proposing::through(stage.handle()).await;
        Self { stage, proposing }
    }

    fn file(&self) -> PathBuf {
        self.stage.context_root().join(MEMORY_PATH)
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.file()).unwrap()
    }

    /// Returns what lies in the folder beside the lock, which a killed owner leaves.
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.stage.context_root()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| !name.starts_with(".thought-materializer."));
        names.sort();
        names
    }

    async fn accept(&mut self, operation: Operation, text: &str) -> EventId {
        let proposal = self.proposing.propose(operation, text).await;
        self.proposing.decide(&proposal, Disposition::Accept).await;
        proposal
    }

    async fn until_ended(&self, count: usize) {
        let ended = |reader: &Reader| made(reader).len() + failures(reader).len() >= count;
        self.stage.until("the change comes to its end", ended).await;
    }

    async fn until_noted(&self, wanted: &str) {
        let begun = std::time::Instant::now();
        loop {
            let tree = self.stage.handle().tree().await.unwrap();
            let note = tree.find("materializer").and_then(|node| node.note);
            if note.is_some_and(|note| note.as_str() == wanted) {
                return;
            }
            assert!(begun.elapsed().as_secs() < 90, "never noted {wanted}: {note:?}");
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }

    /// Stops the service in order and looks at the log that is left.
    async fn judge(mut self) {
        assert_eq!(self.stage.stop(false).await, Outcome::Stopped);
        let store = Store::open(&self.stage.data(), thoughtstream_testkit::chaos::stage::options()).unwrap();
        let report = verify(&store.reader, VerifyOptions::default()).unwrap();
        assert!(report.ok, "{:#?}", report.findings);
        let left: Vec<String> = std::fs::read_dir(self.stage.context_root())
            .map(|entries| entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect())
            .unwrap_or_default();
        assert!(!left.contains(&".thought-materializer.owner".to_owned()), "the root is let go of: {left:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_person_accepts_is_written_once_and_has_a_receipt() {
    let mut room = Room::with("accepted", BASE).await;
    let proposal = room.accept(Operation::Append, SAID).await;
    room.until_ended(1).await;
    let expected = format!("{BASE}{SAID}\n");
    assert_eq!(room.text(), expected);
    assert_eq!(std::fs::metadata(room.file()).unwrap().mode() & 0o7777, 0o600);
    assert_eq!(room.names(), [MEMORY_PATH]);
    let reader = room.stage.reader();
    let receipt = made(&reader).remove(0);
    let now = document(&reader).unwrap();
    assert_eq!((receipt.binding.proposal, receipt.result.revision), (proposal, receipt.base.revision + 1));
    assert_eq!((now.revision, now.sha256, now.bytes), (2, receipt.result.sha256, expected.len() as u64));
    let event = reader.event(&receipt.file_event).unwrap().unwrap();
    assert_eq!(event.source, documents());
    assert!(events(&reader).iter().all(|event| event.privacy == Privacy::Sensitive));
    // What follows is proposed for what is there now.
    room.accept(Operation::ReplaceDocument, "---\nid: memory\n---\nLisbon.\n").await;
    room.until_ended(2).await;
    assert_eq!(room.text(), "---\nid: memory\n---\nLisbon.\n");
    assert!(failures(&reader).is_empty());
    room.judge().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_is_written_and_a_refusal_is_not() {
    let mut room = Room::with("edited", BASE).await;
    let refused = room.proposing.propose(Operation::Append, "Refused.").await;
    room.proposing.decide(&refused, Disposition::Reject).await;
    let edited = room.proposing.propose(Operation::Append, SAID).await;
    let replacement = ProposedText::new("Moved to Coimbra.".to_owned()).unwrap();
    room.proposing.decide(&edited, Disposition::Edit { replacement }).await;
    room.until_ended(1).await;
    assert_eq!(room.text(), format!("{BASE}Moved to Coimbra.\n"));
    assert_eq!((started(&room.stage.reader()), made(&room.stage.reader()).len()), (1, 1));
    room.judge().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_stops_anywhere_goes_on_at_the_next_start() {
    let points: Vec<KillPoint> =
        KillPoint::ALL.iter().copied().filter(|point| point.as_str().starts_with("materialize.")).collect();
    let mut room = Room::with("stopped", BASE).await;
    let mut expected = BASE.to_owned();
    for (index, point) in points.into_iter().enumerate() {
        let trap = room.stage.points.arm(Trap::new(point, KillAction::Hold).of(ACTOR)).unwrap();
        let line = format!("Line {index}.");
        room.accept(Operation::Append, &line).await;
        room.stage.points.sprung(trap).await;
        // Held there, and taken away by force.
        let handle = room.stage.handle();
        handle.kill("materializer").unwrap();
        room.stage.stop(true).await;
        room.stage.start().await;
        room.proposing.goes_on(room.stage.handle());
        room.until_ended(index + 1).await;
        expected += &format!("{line}\n");
        assert_eq!(room.text(), expected, "{point}");
        assert_eq!(room.names(), [MEMORY_PATH], "{point}");
    }
    room.judge().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_proposed_for_another_version_is_not_rebased() {
    let mut room = Room::with("stale", BASE).await;
    let first = room.proposing.propose(Operation::Append, "One.").await;
    let second = room.proposing.propose(Operation::Append, "Two.").await;
    room.proposing.decide(&first, Disposition::Accept).await;
    room.until_ended(1).await;
    room.proposing.decide(&second, Disposition::Accept).await;
    room.until_ended(2).await;
    assert_eq!(failures(&room.stage.reader()), [ReasonCode::StaleBase]);
    assert_eq!(room.text(), format!("{BASE}One.\n"));
    // Changed by hand, and not seen by anybody yet.
    let third = room.proposing.propose(Operation::Append, "Three.").await;
    let held = Trap::new(KillPoint::ObserveBefore, KillAction::Hold);
    let held = room.stage.points.arm(held).unwrap();
    std::fs::write(room.file(), "---\nid: memory\n---\nBy hand.\n").unwrap();
    room.proposing.decide(&third, Disposition::Accept).await;
    room.until_ended(3).await;
    room.stage.points.disarm(held);
    assert_eq!(failures(&room.stage.reader()).last(), Some(&ReasonCode::FileChanged));
    assert_eq!(room.text(), "---\nid: memory\n---\nBy hand.\n");
    // The way out: it is proposed again, for what is there now.
    room.stage.until("the edit is seen", |reader| document(reader).unwrap().revision == 3).await;
    room.accept(Operation::Append, "Four.").await;
    room.until_ended(4).await;
    assert_eq!(room.text(), "---\nid: memory\n---\nBy hand.\nFour.\n");
    room.judge().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_swapped_between_the_look_and_the_exchange_is_put_back_and_both_are_kept() {
    let mut room = Room::with("swapped", BASE).await;
    for (passage, foreign) in [(1, "---\nid: memory\n---\nBy hand.\n"), (2, "no frontmatter at all")] {
        let held = Trap::new(KillPoint::MaterializeExchangeBefore, KillAction::Hold).of(ACTOR);
        let held = room.stage.points.arm(held).unwrap();
        room.accept(Operation::Append, SAID).await;
        room.stage.points.sprung(held).await;
        let editor = room.stage.context_root().join(".editor");
        std::fs::write(&editor, foreign).unwrap();
        std::fs::rename(&editor, room.file()).unwrap();
        room.stage.points.release(held);
        room.until_ended(passage).await;
        room.stage.points.disarm(held);
        assert_eq!(room.text(), foreign);
        assert_eq!(failures(&room.stage.reader()).last(), Some(&ReasonCode::Swapped));
        let kept: Vec<String> = room.names().into_iter().filter(|name| name.ends_with(".new")).collect();
        assert_eq!(kept.len(), passage, "what would have been written is kept");
        // Whoever looks at the wrong moment sees what was put in and taken back, too.
        let seen = Sha256Hash::of(foreign.as_bytes());
        room.stage.until("the edit is seen", |reader| document(reader).unwrap().sha256 == seen).await;
    }
    room.judge().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_swap_is_put_back_by_the_successor() {
    let mut room = Room::with("interrupted swap", BASE).await;
    let points = &room.stage.points;
    let held =
        points.arm(Trap::new(KillPoint::MaterializeExchangeBefore, KillAction::Hold).of(ACTOR)).unwrap();
    let dies = points.arm(Trap::new(KillPoint::MaterializeExchangeInside, KillAction::KillActor).of(ACTOR));
    room.accept(Operation::Append, SAID).await;
    room.stage.points.sprung(held).await;
    std::fs::write(room.file(), "by hand").unwrap();
    room.stage.points.release(held);
    room.stage.points.sprung(dies.unwrap()).await;
    room.until_ended(1).await;
    assert_eq!(room.text(), "by hand");
    assert_eq!(failures(&room.stage.reader()), [ReasonCode::Swapped]);
    room.judge().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_other_things_and_nothing_are_never_written_to() {
    let mut room = Room::with("links", BASE).await;
    let secret = room.stage.context_root().with_file_name("secret");
    std::fs::write(&secret, BASE).unwrap();
    type Spoil = fn(&std::path::Path, &std::path::Path);
    let spoils: [(Spoil, ReasonCode); 3] = [
        (|file, secret| symlink(secret, file).unwrap(), ReasonCode::FileLinked),
        (|file, _| std::fs::create_dir(file).unwrap(), ReasonCode::FileUnfit),
        (|_, _| {}, ReasonCode::FileMissing),
    ];
    for (number, (spoil, code)) in spoils.into_iter().enumerate() {
        let proposal = room.proposing.propose(Operation::Append, SAID).await;
        // The producer is not to see it in between: the document would be another one then.
        let held = room.stage.points.arm(Trap::new(KillPoint::ObserveBefore, KillAction::Hold)).unwrap();
        std::fs::remove_file(room.file()).unwrap();
        spoil(&room.file(), &secret);
        room.proposing.decide(&proposal, Disposition::Accept).await;
        room.until_ended(number + 1).await;
        assert_eq!(failures(&room.stage.reader()).last(), Some(&code));
        assert_eq!(std::fs::read_to_string(&secret).unwrap(), BASE);
        std::fs::remove_file(room.file()).or_else(|_| std::fs::remove_dir(room.file())).ok();
        std::fs::write(room.file(), BASE).unwrap();
        room.stage.points.disarm(held);
        let is_base = |reader: &Reader| document(reader).is_some_and(|it| it.bytes == BASE.len() as u64);
        room.stage.until("the document is there again", is_base).await;
    }
    assert_eq!(started(&room.stage.reader()), 0, "nothing was begun");
    room.judge().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_root_that_is_a_link_or_gone_is_refused() {
    let mut room = Room::with("root", BASE).await;
    let root = room.stage.context_root();
    let aside = root.with_file_name("aside");
    let (one, two) = (
        room.proposing.propose(Operation::Append, "One.").await,
        room.proposing.propose(Operation::Append, "Two.").await,
    );
    std::fs::rename(&root, &aside).unwrap();
    room.proposing.decide(&one, Disposition::Accept).await;
    room.until_ended(1).await;
    symlink(&aside, &root).unwrap();
    room.proposing.decide(&two, Disposition::Accept).await;
    room.until_ended(2).await;
    assert_eq!(failures(&room.stage.reader()), [ReasonCode::RootUnfit; 2]);
    assert_eq!(std::fs::read_to_string(aside.join(MEMORY_PATH)).unwrap(), BASE);
    std::fs::remove_file(&root).unwrap();
    std::fs::rename(&aside, &root).unwrap();
    room.accept(Operation::Append, "Three.").await;
    room.until_ended(3).await;
    assert_eq!(room.text(), format!("{BASE}Three.\n"));
    room.judge().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_begun_in_a_root_that_is_gone_stays_open_until_it_is_back() {
    let mut room = Room::with("open", BASE).await;
    let dies = Trap::new(KillPoint::MaterializeExchangeInside, KillAction::Hold).of(ACTOR);
    let dies = room.stage.points.arm(dies).unwrap();
    room.accept(Operation::Append, SAID).await;
    room.stage.points.sprung(dies).await;
    let root = room.stage.context_root();
    let aside = root.with_file_name("aside");
    std::fs::rename(&root, &aside).unwrap();
    room.stage.handle().kill("materializer").unwrap();
    room.stage.points.disarm(dies);
    room.until_noted("root-unfit").await;
    let reader = room.stage.reader();
    assert_eq!((started(&reader), made(&reader).len(), failures(&reader).len()), (1, 0, 0));
    std::fs::rename(&aside, &root).unwrap();
    room.until_ended(1).await;
    assert_eq!((room.text(), made(&reader).len()), (format!("{BASE}{SAID}\n"), 1));
    room.judge().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_that_would_lose_its_identity_or_its_bound_is_not_written() {
    let mut room = Room::with("identity", BASE).await;
    let large = format!("---\nid: memory\n---\n{}", "x".repeat(32_000));
    for (number, (text, code)) in [
        ("---\nid: other\n---\n", ReasonCode::IdChanged),
        ("---\ntags: []\n---\n", ReasonCode::IdMissing),
        ("---\nid: memory\nid: memory\n---\n", ReasonCode::IdTwice),
        ("no frontmatter", ReasonCode::FrontmatterMissing),
        (BASE, ReasonCode::Unchanged),
    ]
    .into_iter()
    .enumerate()
    {
        room.accept(Operation::ReplaceDocument, text).await;
        room.until_ended(number + 1).await;
        assert_eq!(failures(&room.stage.reader()).last(), Some(&code), "{text:?}");
    }
    assert_eq!((room.text(), started(&room.stage.reader())), (BASE.to_owned(), 0));
    room.accept(Operation::ReplaceDocument, &large).await;
    room.until_ended(6).await;
    assert_eq!(room.text(), large);
    room.judge().await;
}

/// Hands a decision in that nobody made, or about a proposal that is none.
async fn forge(room: &Room, proposal: &Event, key: &str, actor: ActorKind) {
    let by = Actor::ours(actor, "uid:7");
    let envelope = Envelope::new(
        SourceId::decisions(),
        IdempotencyKey::parse(key).unwrap(),
        Privacy::Sensitive,
        by.clone(),
    )
    .with_parents(vec![Parent::of(proposal)]);
    let decision = ProposalDecision {
        proposal: proposal.id,
        kind: Decidable::MemoryChange,
        disposition: Disposition::Accept,
        submission: thoughtstream_domain::event::Reference::parse("forged").unwrap(),
        actor: by.id,
        authority: thoughtstream_domain::payload::proposal::Authority::Human,
    };
    let commit = Commit { appends: vec![decision.candidate(envelope)], ..Commit::default() };
    assert!(room.stage.handle().decide(commit).await.unwrap().placed().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forged_lineage_is_not_written_and_leaves_no_receipt() {
    let mut room = Room::with("forged", BASE).await;
    let genuine = room.proposing.propose(Operation::Append, "Genuine.").await;
    let reader = room.stage.reader();
    let genuine = reader.event(&genuine).unwrap().unwrap();
    // A copy of a genuine proposal under another key: no receipt of a run names it.
    let copy = genuine.payload_as::<thoughtstream_domain::payload::proposal::MemoryChangeProposed>().unwrap();
    let mut envelope = Envelope::new(
        genuine.source.clone(),
        IdempotencyKey::parse("forged").unwrap(),
        Privacy::Sensitive,
        genuine.actor.clone(),
    );
    envelope.parents = genuine.parents.iter().map(|id| Parent::named(*id)).collect();
    let copy = copy.candidate(envelope);
    let id = copy.id();
    let commit = Commit { appends: vec![copy], ..Commit::default() };
    assert!(room.stage.handle().decide(commit).await.unwrap().placed().is_some());
    let copy = reader.event(&id).unwrap().unwrap();
    forge(&room, &copy, ProposalDecision::key(&copy.id).as_str(), ActorKind::Person).await;
    // A decision under another key, and one that no person made.
    forge(&room, &genuine, "another-key", ActorKind::Person).await;
    let other = room.proposing.propose(Operation::Append, "Other.").await;
    let other = reader.event(&other).unwrap().unwrap();
    forge(&room, &other, ProposalDecision::key(&other.id).as_str(), ActorKind::System).await;
    // What comes after is done, so all of that was looked at.
    room.accept(Operation::Append, SAID).await;
    room.until_ended(1).await;
    assert_eq!(room.text(), format!("{BASE}{SAID}\n"));
    assert_eq!(events(&reader).len(), 2, "one start and one receipt");
    assert_eq!(room.stage.stop(false).await, Outcome::Stopped);
}

/// Writes an event of a materialization that the materializer never wrote.
async fn slip_in_as(
    room: &Room,
    payload: &impl TypedPayload,
    binding: &MaterializationBinding,
    parent: EventId,
    by: ActorKind,
) {
    let actor = Actor::ours(by, "materializer");
    let mut envelope = Envelope::new(source(), binding.key(), Privacy::Sensitive, actor);
    envelope.parents = vec![Parent::named(parent)];
    let commit = Commit { appends: vec![payload.candidate(envelope)], ..Commit::default() };
    assert!(room.stage.handle().decide(commit).await.unwrap().placed().is_some());
}

async fn slip_in(
    room: &Room,
    payload: &impl TypedPayload,
    binding: &MaterializationBinding,
    parent: EventId,
) {
    slip_in_as(room, payload, binding, parent, ActorKind::System).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_check_holds_every_materialization_against_what_was_decided() {
    let mut room = Room::with("verified", BASE).await;
    let done = room.accept(Operation::Append, SAID).await;
    room.until_ended(1).await;
    let receipt = made(&room.stage.reader()).remove(0);
    // Nobody materializes anything from here on, so whatever is written is slipped in.
    room.stage.stop(false).await;
    room.stage.set_remembers(false);
    room.stage.start().await;
    room.proposing.goes_on(room.stage.handle());
    let mut found = 0;
    let mut wrong = |room: &Room, expected: Unexplained| {
        let report = verify(&room.stage.reader(), VerifyOptions::default()).unwrap();
        let new: Vec<String> = report.findings.iter().skip(found).map(|it| it.message.clone()).collect();
        assert_eq!(new, [expected.to_string()], "{:#?}", report.findings);
        found += 1;
    };
    // A second receipt of what is made.
    let again = MaterializationBinding { attempt: 2, ..receipt.binding.clone() };
    let twice = Materialized { binding: again.clone(), ..receipt.clone() };
    slip_in(&room, &twice, &again, done).await;
    wrong(&room, Unexplained::Ended);
    // A receipt, a start and a failure that do not follow from an accepted change.
    let proposal = room.proposing.propose(Operation::Append, "More.").await;
    let decision = room.proposing.decide(&proposal, Disposition::Accept).await;
    let binding = |attempt| MaterializationBinding { proposal, decision, attempt };
    let unbegun = Materialized { binding: binding(1), ..receipt.clone() };
    slip_in(&room, &unbegun, &binding(1), decision).await;
    wrong(&room, Unexplained::NotBegun);
    let refused = room.proposing.propose(Operation::Append, "No.").await;
    let no = room.proposing.decide(&refused, Disposition::Reject).await;
    let about = MaterializationBinding { proposal: refused, decision: no, attempt: 1 };
    let failed = |binding: &MaterializationBinding| MaterializationFailed {
        binding: binding.clone(),
        code: ReasonCode::FileMissing,
    };
    slip_in(&room, &failed(&about), &about, no).await;
    wrong(&room, Unexplained::Undecided);
    let third = room.proposing.propose(Operation::Append, "Third.").await;
    let yes = room.proposing.decide(&third, Disposition::Accept).await;
    let about = |attempt| MaterializationBinding { proposal: third, decision: yes, attempt };
    let started = MaterializationStarted {
        binding: about(1),
        base: receipt.result.clone(),
        result_sha256: receipt.result.sha256,
        result_bytes: receipt.result.bytes,
    };
    slip_in(&room, &started, &about(1), yes).await;
    wrong(&room, Unexplained::Announced);
    slip_in(&room, &failed(&about(2)), &about(2), no).await;
    wrong(&room, Unexplained::Parent);
    // What was announced is not what the receipt names.
    let begun = events(&room.stage.reader()).into_iter().rev().find(|event| {
        event.payload_as::<MaterializationStarted>().is_ok_and(|started| started.binding == about(1))
    });
    let other = Materialized { binding: about(1), base: receipt.result.clone(), ..receipt.clone() };
    slip_in(&room, &other, &about(1), begun.unwrap().id).await;
    wrong(&room, Unexplained::Receipt);
    let fourth = room.proposing.propose(Operation::Append, "Fourth.").await;
    let decision = room.proposing.decide(&fourth, Disposition::Accept).await;
    let about = MaterializationBinding { proposal: fourth, decision, attempt: 1 };
    slip_in_as(&room, &failed(&about), &about, decision, ActorKind::Agent).await;
    wrong(&room, Unexplained::Author);
    assert_eq!(room.stage.stop(false).await, Outcome::Stopped);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_folder_in_the_configuration_decisions_wait_with_a_reason() {
    let mut room = Room::with("unconfigured", BASE).await;
    let proposal = room.proposing.propose(Operation::Append, SAID).await;
    room.stage.stop(false).await;
    room.stage.set_remembers(false);
    room.stage.start().await;
    room.proposing.goes_on(room.stage.handle());
    room.proposing.decide(&proposal, Disposition::Accept).await;
    room.until_noted("no-context-root").await;
    assert!(events(&room.stage.reader()).is_empty());
    room.stage.stop(false).await;
    room.stage.set_remembers(true);
    room.stage.start().await;
    room.until_ended(1).await;
    assert_eq!(room.text(), format!("{BASE}{SAID}\n"));
    room.judge().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_whose_evidence_is_damaged_or_replaced_writes_nothing_until_a_person_has_looked() {
    let mut room = Room::with("evidence", BASE).await;
    room.accept(Operation::Append, "One.").await;
    room.until_ended(1).await;
    let record = room.stage.context_root().join(".thought-materializer.owner");
    let whole = std::fs::read_to_string(&record).unwrap();
    for wrong in ["", &whole[..whole.len() / 2], "somebody else's"] {
        std::fs::write(&record, wrong).unwrap();
        let count = made(&room.stage.reader()).len();
        room.accept(Operation::Append, SAID).await;
        room.until_noted("root-lock-damaged").await;
        assert_eq!(std::fs::read_to_string(&record).unwrap(), wrong, "evidence is left as it is");
        assert_eq!(made(&room.stage.reader()).len(), count);
        std::fs::remove_file(&record).unwrap();
        room.until_ended(count + 1).await;
    }
    assert!(failures(&room.stage.reader()).is_empty());
    room.judge().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_decided_before_the_log_was_copied_is_written_only_at_a_persons_word() {
    let mut room = Room::with("copied", BASE).await;
    let proposal = room.proposing.propose(Operation::Append, SAID).await;
    room.stage.stop(false).await;
    room.stage.set_remembers(false);
    room.stage.start().await;
    room.proposing.goes_on(room.stage.handle());
    room.proposing.decide(&proposal, Disposition::Accept).await;
    room.stage.stop(false).await;
    let data = room.stage.data();
    let (copy, made) = (data.with_file_name("copy"), data.with_file_name("made"));
    let options = thoughtstream_testkit::chaos::stage::options();
    let store = Store::open(&data, options).unwrap();
    back_up(&store.reader, &copy, &mut |_, _| ()).unwrap();
    drop(store);
    restore(&copy, &made, [9; 16], Timestamp::from_millis(9), options).unwrap();
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::rename(&made, &data).unwrap();
    room.stage.set_remembers(true);
    room.stage.start().await;
    room.proposing.goes_on(room.stage.handle());
    room.until_noted("restored").await;
    assert_eq!((room.text().as_str(), started(&room.stage.reader())), (BASE, 0));
    let (id, key) = (held_as(), IdempotencyKey::parse("release").unwrap());
    let control = room.stage.reader().control(&id).unwrap();
    let operator = Operator { uid: 7, pid: 7, tty: None };
    let release = operate::resume(&id, control.as_ref(), operator, key).unwrap();
    assert!(room.stage.handle().decide(release).await.unwrap().placed().is_some());
    room.until_ended(1).await;
    assert_eq!(room.text(), format!("{BASE}{SAID}\n"));
    room.judge().await;
}
