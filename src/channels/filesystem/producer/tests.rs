use std::fs;
use std::path::PathBuf;

use thoughtstream_domain::privacy::Privacy;

use super::*;
use crate::filesystem::change::ChangeKind;
use crate::filesystem::rules::{Bounds, Selection};
use crate::testing::as_nobody;

/// Far after every file of these tests was written, in nanoseconds; steps of a minute follow.
const LATER: i64 = i64::MAX / 2;
const MINUTE: i64 = 60_000_000_000;

/// A folder, its producer, and a log that keeps what was committed.
struct World {
    dir: tempfile::TempDir,
    notes: PathBuf,
    root: Root,
    rules: ScanRules,
    producer: FilesystemProducer,
    log: Vec<Document>,
    now_ns: i64,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let notes = dir.path().join("notes");
        fs::create_dir(&notes).unwrap();
        fs::create_dir(dir.path().join("data")).unwrap();
        for path in [dir.path(), &notes] {
            fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        }
        let root = Root::open(&notes, &dir.path().join("data")).unwrap();
        let rules =
            ScanRules { selection: Selection::new(&[], &[], true).unwrap(), bounds: Bounds::default() };
        let producer = FilesystemProducer::resume(source(), [], RemovalRule::default());
        Self { dir, notes, root, rules, producer, log: Vec::new(), now_ns: LATER }
    }

    /// A folder with this many notes, already known.
    fn with_notes(count: usize) -> Self {
        let mut world = Self::new();
        for number in 0..count {
            world.write(&format!("{number:03}.md"), &format!("note {number}"));
        }
        assert_eq!(world.look().changes.len(), count);
        world
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.notes.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn remove(&self, numbers: std::ops::Range<usize>) {
        for number in numbers {
            fs::remove_file(self.notes.join(format!("{number:03}.md"))).unwrap();
        }
    }

    /// Scans, decides, and commits everything, as the actor does.
    fn look(&mut self) -> Step {
        let step = match look(&self.root, &self.rules, &self.producer.known(), self.now_ns) {
            Ok(scan) => self.producer.step(&scan),
            Err(error) => self.producer.step_without_scan(&error),
        };
        self.now_ns += MINUTE;
        for group in &step.changes {
            let commit = group.commit(Privacy::Private, &group.load(&self.root).unwrap());
            assert_eq!(commit.appends.len(), group.changes().len());
            self.producer.committed(group);
            for change in group.changes() {
                self.log.retain(|document| document.id != change.after.id);
                self.log.push(change.after.clone());
            }
        }
        for (id, stat) in &step.stats {
            self.producer.stat_kept(id, *stat);
        }
        step
    }

    /// The service stops and starts again.
    fn restart(&mut self) {
        self.producer = FilesystemProducer::resume(source(), self.log.clone(), RemovalRule::default());
    }

    fn open_again(&mut self) {
        self.root = Root::open(&self.notes, &self.dir.path().join("data")).unwrap();
    }
}

fn source() -> SourceId {
    SourceId::parse("filesystem:notes").unwrap()
}

fn kinds(step: &Step) -> Vec<ChangeKind> {
    step.changes.iter().flat_map(ChangeGroup::changes).map(|change| change.kind).collect()
}

fn codes(step: &Step) -> Vec<(&str, bool)> {
    step.incidents.iter().map(|incident| (incident.code, incident.over)).collect()
}

#[test]
fn a_quiet_folder_yields_nothing_after_the_first_look() {
    let mut world = World::with_notes(3);
    let step = world.look();
    assert_eq!((step.changes.len(), step.stats.len(), step.incidents.len()), (0, 0, 0));
    assert_eq!(step.look_again, LookAgain::NotNeeded);
    assert_eq!(world.producer.known().live(), 3);
}

#[test]
fn what_was_edited_while_the_service_was_down_is_found_at_the_start() {
    let mut world = World::with_notes(4);
    world.restart();
    world.write("000.md", "edited");
    fs::rename(world.notes.join("001.md"), world.notes.join("moved.md")).unwrap();
    world.remove(2..3);
    world.write("new.md", "new");
    let step = world.look();
    use ChangeKind::{Added, Changed, Removed, Renamed};
    assert_eq!(kinds(&step), [Removed, Renamed, Changed, Added]);
    assert_eq!(world.look().changes, []);
}

#[test]
fn a_change_that_was_not_committed_is_found_again() {
    let mut world = World::with_notes(1);
    world.write("000.md", "edited");
    let scan = look(&world.root, &world.rules, &world.producer.known(), world.now_ns).unwrap();
    let first = world.producer.step(&scan);
    assert_eq!(first.changes, world.producer.step(&scan).changes);
    assert_eq!(kinds(&world.look()), [ChangeKind::Changed]);
}

#[test]
fn a_root_that_vanishes_is_an_incident_and_removes_nothing() {
    let mut world = World::with_notes(3);
    let aside = world.dir.path().join("aside");
    fs::rename(&world.notes, &aside).unwrap();
    let step = world.look();
    assert_eq!((step.changes.len(), codes(&step)), (0, vec![("root-missing", false)]));
    assert_eq!(codes(&world.look()), []);
    fs::create_dir(&world.notes).unwrap();
    assert_eq!(codes(&world.look()), [("root-missing", true), ("root-replaced", false)]);
    fs::remove_dir(&world.notes).unwrap();
    fs::rename(&aside, &world.notes).unwrap();
    let step = world.look();
    assert_eq!((step.changes.len(), codes(&step)), (0, vec![("root-replaced", true)]));
}

#[test]
fn another_directory_in_place_of_the_root_removes_nothing_before_a_person_says_so() {
    let mut world = World::with_notes(3);
    fs::rename(&world.notes, world.dir.path().join("aside")).unwrap();
    fs::create_dir(&world.notes).unwrap();
    world.write("000.md", "note 0");
    world.write("other.md", "other");
    world.open_again();
    let step = world.look();
    assert_eq!((kinds(&step), codes(&step)), (vec![ChangeKind::Added], vec![("removals-held", false)]));
    for _ in 0..3 {
        assert_eq!(world.look().changes, []);
    }
    assert_eq!(world.producer.acknowledge_removals(), 2);
    let step = world.look();
    assert_eq!(kinds(&step), [ChangeKind::Removed, ChangeKind::Removed]);
    assert_eq!(codes(&step), [("removals-held", true)]);
}

#[test]
fn an_empty_folder_at_the_start_waits_for_a_person_or_its_files() {
    let mut world = World::with_notes(2);
    world.restart();
    world.remove(0..2);
    for _ in 0..3 {
        let step = world.look();
        assert_eq!((step.changes.len(), step.look_again), (0, LookAgain::NotNeeded));
    }
    assert_eq!(world.producer.held().unwrap().confirm, Confirm::Person);
    world.write("000.md", "note 0");
    world.write("001.md", "note 1");
    let step = world.look();
    assert_eq!((step.changes.len(), codes(&step)), (0, vec![("removals-held", true)]));
}

#[test]
fn a_folder_emptied_before_our_eyes_is_believed_at_the_second_look() {
    let mut world = World::with_notes(2);
    world.remove(0..2);
    let step = world.look();
    assert_eq!((step.changes.len(), step.look_again), (0, LookAgain::Later));
    assert_eq!(step.incidents[0].detail, "2 of 2 documents are missing; a later scan has to confirm it");
    assert_eq!(kinds(&world.look()), [ChangeKind::Removed, ChangeKind::Removed]);
}

#[test]
fn few_removals_pass_and_many_are_held() {
    let mut world = World::with_notes(40);
    world.remove(0..20);
    assert_eq!(world.look().changes.len(), 20, "half is not more than half");
    world.remove(20..39);
    assert_eq!(world.look().changes.len(), 19, "19 are fewer than 20");

    let mut world = World::with_notes(40);
    world.remove(0..21);
    world.write("030.md", "an edit goes through all the while");
    assert_eq!(kinds(&world.look()), [ChangeKind::Changed]);
    assert_eq!(world.look().changes.len(), 21);
}

#[test]
fn a_second_look_too_early_or_with_other_documents_missing_does_not_confirm() {
    let mut world = World::with_notes(40);
    world.remove(0..25);
    world.look();
    world.now_ns -= MINUTE - 1_000_000_000;
    assert_eq!(world.look().changes, [], "one second later");
    world.now_ns -= MINUTE;
    world.remove(25..30);
    assert_eq!(world.look().changes, [], "more are missing: the wait starts again");
    world.now_ns -= MINUTE;
    assert_eq!(world.look().changes, []);
    assert_eq!(world.look().changes.len(), 30);
}

#[test]
fn a_strict_rule_waits_for_a_person() {
    let mut world = World::with_notes(25);
    world.producer.rule.confirm = Confirm::Person;
    world.remove(0..24);
    for _ in 0..3 {
        assert_eq!(world.look().changes, []);
    }
    assert_eq!(world.producer.acknowledge_removals(), 24);
    world.remove(24..25);
    assert_eq!(world.look().changes, [], "the person did not see this one");
    world.producer.acknowledge_removals();
    assert_eq!(world.look().changes.len(), 25);
}

#[test]
fn a_document_missing_from_a_restless_directory_gets_a_second_chance() {
    let mut world = World::with_notes(3);
    // Now the directory was changed moments before the scan.
    world.now_ns = 0;
    world.remove(0..1);
    let step = world.look();
    assert_eq!((step.changes.len(), step.look_again), (0, LookAgain::Soon));
    world.write("000.md", "saved by delete and create");
    assert_eq!(kinds(&world.look()), [ChangeKind::Changed]);
    world.remove(0..1);
    assert_eq!(world.look().changes, []);
    assert_eq!(kinds(&world.look()), [ChangeKind::Removed]);
}

#[test]
fn a_mass_removal_in_progress_is_not_believed_piece_by_piece() {
    let mut world = World::with_notes(60);
    world.now_ns = 0;
    world.remove(0..20);
    assert_eq!(world.look().look_again, LookAgain::Soon);
    world.remove(20..60);
    assert_eq!(world.look().changes, []);
    assert!(world.producer.held().is_some());
}

#[test]
fn a_folder_that_may_not_be_read_removes_nothing_and_is_told_once() {
    let mut world = World::with_notes(1);
    world.write("closed/a.md", "a");
    world.look();
    let closed = world.notes.join("closed");
    fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
    let step = as_nobody(|| world.look());
    assert_eq!((step.changes.len(), codes(&step)), (0, vec![("files-unread", false)]));
    assert_eq!(step.incidents[0].detail, "denied 1");
    assert_eq!(codes(&as_nobody(|| world.look())), []);
    fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let step = world.look();
    assert_eq!((step.changes.len(), codes(&step)), (0, vec![("files-unread", true)]));
}

#[test]
fn duplicates_hostile_names_and_bounds_are_told() {
    let mut world = World::new();
    world.rules.bounds.depth_max = 1;
    world.write("a.md", "---\nid: one\n---\n");
    world.write("b.md", "---\nid: one\n---\nmore\n");
    world.write("x/y/deep.md", "deep");
    world.write("new\nline.md", "x");
    let step = world.look();
    assert_eq!(kinds(&step), [ChangeKind::Added, ChangeKind::Added]);
    assert_eq!(codes(&step), [("duplicate-id", false), ("names-refused", false), ("path-bounds", false)]);
    assert_eq!(world.look().incidents, []);
    world.write("b.md", "---\nid: two\n---\nmore\n");
    assert_eq!(codes(&world.look()), [("duplicate-id", true)]);
}

#[test]
fn a_file_whose_id_is_not_used_is_told_with_the_one_that_has_it() {
    let mut world = World::new();
    world.write("a.md", "---\nid: one\n---\n");
    world.write("b.md", "---\nid: one\n---\nmore\n");
    let told = |world: &World| {
        let scan = look(&world.root, &world.rules, &world.producer.known(), world.now_ns).unwrap();
        let report = world.producer.report_of(&scan);
        let told: Vec<_> = report.shown.into_iter().map(|skip| (skip.shown, skip.owner)).collect();
        told
    };
    let by = |owner: &str| vec![("b.md".to_owned(), Some(owner.to_owned()))];
    // Before anything is recorded, and after.
    let scan = look(&world.root, &world.rules, &world.producer.known(), world.now_ns).unwrap();
    world.producer.step(&scan);
    assert_eq!(told(&world), by("a.md"));
    world.look();
    assert_eq!(told(&world), by("a.md"));
    // It has another name by now, and is not read again for that.
    fs::rename(world.notes.join("a.md"), world.notes.join("c.md")).unwrap();
    world.look();
    assert_eq!(told(&world), by("c.md"));
}

#[test]
fn a_named_document_is_followed_through_rename_and_change() {
    let mut world = World::new();
    world.write("a.md", "---\nid: one\n---\nfirst\n");
    let id = world.look().changes[0].changes()[0].after.id.clone();
    fs::remove_file(world.notes.join("a.md")).unwrap();
    world.write("sub/b.md", "---\nid: one\n---\nsecond\n");
    let step = world.look();
    assert_eq!((kinds(&step), &step.changes[0].changes()[0].after.id), (vec![ChangeKind::Renamed], &id));
}

#[test]
fn too_many_files_is_an_incident_without_changes() {
    let mut world = World::with_notes(3);
    world.rules.bounds.files_max = 3;
    world.write("one-more.md", "x");
    let step = world.look();
    assert_eq!((step.changes.len(), codes(&step)), (0, vec![("too-many-files", false)]));
    assert_eq!(step.incidents[0].detail, "there are more than 3 files");
}
