use proptest::prelude::*;

use super::*;
use crate::filesystem::root::RootIdentity;
use crate::filesystem::scan::SkipReport;

fn source() -> SourceId {
    SourceId::parse("filesystem:notes").unwrap()
}

/// A file as a test writes it down: path, content, inode. `id:x …` is content that names the id `x`.
type Plan<'a> = (&'a str, &'a str, u64);

fn file(&(path, content, inode): &Plan<'_>) -> FileSeen {
    let size = content.len() as u64;
    FileSeen {
        path: path.to_owned(),
        stat: FileStat { device: 1, inode, size, modified_ns: 5, changed_ns: 6, read_ns: 7 },
        sha256: Sha256Hash::of(content.as_bytes()),
        named: content.strip_prefix("id:").map(|rest| rest.split(' ').next().unwrap().to_owned()),
    }
}

fn scan(files: &[Plan<'_>]) -> Scan {
    let mut files: Vec<FileSeen> = files.iter().map(file).collect();
    files.sort_by(|one, other| one.path.cmp(&other.path));
    Scan {
        root: RootIdentity { device: 1, inode: 1 },
        began_ns: 0,
        files,
        directories: BTreeSet::new(),
        withheld: BTreeSet::new(),
        restless: BTreeSet::new(),
        skipped: SkipReport::default(),
        files_read: 0,
    }
}

fn withholding(mut scan: Scan, path: &str) -> Scan {
    scan.withheld.insert(path.to_owned());
    scan
}

/// All changes, with whatever is missing counted as removed.
fn groups(documents: &Documents, scan: &Scan) -> Vec<ChangeGroup> {
    let source = source();
    let matching = matching(&source, documents, scan);
    matching.changes(&matching.missing.keys().cloned().collect())
}

fn flat(groups: &[ChangeGroup]) -> Vec<DocumentChange> {
    groups.iter().flat_map(ChangeGroup::changes).cloned().collect()
}

fn diff(documents: &Documents, scan: &Scan) -> Vec<DocumentChange> {
    flat(&groups(documents, scan))
}

fn apply(documents: &mut Documents, changes: &[DocumentChange]) {
    for change in changes {
        let before = documents.insert(change.after.id.clone(), change.after.clone());
        assert_eq!(before, change.before);
        assert_eq!(change.after.revision, before.map_or(0, |before| before.revision) + 1);
    }
}

/// Takes over what a scan saw.
fn see(documents: &mut Documents, scan: &Scan) {
    let changes = diff(documents, scan);
    apply(documents, &changes);
}

fn known(files: &[Plan<'_>]) -> Documents {
    let mut documents = Documents::new();
    see(&mut documents, &scan(files));
    documents
}

fn id_at(documents: &Documents, path: &str) -> DocumentId {
    let mut live = documents.values().filter(|document| !document.removed && document.path == path);
    let found = live.next().unwrap_or_else(|| panic!("nothing at {path}"));
    assert!(live.next().is_none(), "two documents at {path}");
    found.id.clone()
}

/// Writes changes as a person would tell them, documents named by their path in `before`.
fn told(before: &Documents, changes: &[DocumentChange]) -> Vec<String> {
    let name =
        |change: &DocumentChange| before.get(&change.after.id).map_or("new", |document| &document.path);
    let tell = |change: &DocumentChange| format!("{} {:?} {}", name(change), change.kind, change.after.path);
    changes.iter().map(tell).collect()
}

#[track_caller]
fn check(before: &[Plan<'_>], after: &[Plan<'_>], expected: &[&str]) {
    let mut documents = known(before);
    let start = documents.clone();
    let scan = scan(after);
    let changes = diff(&documents, &scan);
    assert_eq!(told(&start, &changes), expected);
    apply(&mut documents, &changes);
    assert_eq!(diff(&documents, &scan), []);
}

#[test]
fn the_first_scan_adds_everything_in_path_order() {
    check(&[], &[("b", "2", 2), ("a", "1", 1), ("e", "", 3)], &["new Added a", "new Added b", "new Added e"]);
}

#[test]
fn edits_removals_and_additions_are_told_apart() {
    check(
        &[("a", "1", 1), ("b", "2", 2), ("c", "3", 3)],
        &[("a", "1", 1), ("b", "two", 2), ("d", "4", 4)],
        &["c Removed c", "b Changed b", "new Added d"],
    );
}

#[test]
fn a_rename_keeps_identity_by_its_bytes() {
    check(&[("a", "1", 1)], &[("x/a", "1", 9)], &["a Renamed x/a"]);
    check(&[("note.md", "1", 1)], &[("Note.md", "1", 1)], &["note.md Renamed Note.md"]);
}

#[test]
fn a_named_document_keeps_identity_through_rename_and_change_at_once() {
    check(&[("a", "id:n one", 1)], &[("b", "id:n two", 2)], &["a Renamed b"]);
    let mut documents = known(&[("a", "id:n one", 1)]);
    let changes = diff(&documents, &scan(&[("b", "id:n two", 2)]));
    assert!(changes[0].brings_content());
    apply(&mut documents, &changes);
    assert_eq!(id_at(&documents, "b"), DocumentId::named(&source(), "n"));
}

#[test]
fn an_unnamed_document_that_moves_and_changes_is_another_one() {
    check(&[("a", "1", 1)], &[("b", "2", 2)], &["a Removed a", "new Added b"]);
}

#[test]
fn swaps_chains_and_rings_of_renames_are_renames() {
    check(&[("a", "1", 1), ("b", "2", 2)], &[("a", "2", 2), ("b", "1", 1)], &["a Renamed b", "b Renamed a"]);
    check(&[("a", "1", 1), ("b", "2", 2)], &[("b", "1", 1), ("c", "2", 2)], &["b Renamed c", "a Renamed b"]);
    check(
        &[("a", "1", 1), ("b", "2", 2), ("c", "3", 3)],
        &[("b", "1", 1), ("c", "2", 2), ("a", "3", 3)],
        &["b Renamed c", "a Renamed b", "c Renamed a"],
    );
}

#[test]
fn only_a_ring_of_renames_is_one_commit() {
    let before = [("a", "1", 1), ("b", "2", 2), ("c", "3", 3), ("d", "4", 4)];
    let after = scan(&[("b", "1", 1), ("a", "2", 2), ("d", "3", 3), ("e", "4", 4)]);
    let sizes: Vec<usize> =
        groups(&known(&before), &after).iter().map(|group| group.changes().len()).collect();
    assert_eq!(sizes, [2, 1, 1]);
}

#[test]
fn a_rename_over_another_document_removes_that_first() {
    check(&[("a", "1", 1), ("b", "2", 2)], &[("b", "1", 1)], &["b Removed b", "a Renamed b"]);
    check(
        &[("a", "id:n 1", 1), ("b", "id:m 2", 2)],
        &[("b", "id:n changed", 1)],
        &["b Removed b", "a Renamed b"],
    );
}

#[test]
fn a_copy_is_a_new_document_and_a_copy_over_another_changes_that() {
    check(&[("a", "1", 1)], &[("a", "1", 1), ("b", "1", 2)], &["new Added b"]);
    check(&[("a", "1", 1), ("b", "2", 2)], &[("a", "1", 1), ("b", "1", 2)], &["b Changed b"]);
}

#[test]
fn equal_bytes_are_paired_by_inode_then_name_then_order() {
    check(&[("a", "x", 1), ("b", "x", 2)], &[("c", "x", 2), ("d", "x", 1)], &["b Renamed c", "a Renamed d"]);
    check(
        &[("p/a", "x", 1), ("p/b", "x", 2)],
        &[("q/b", "x", 8), ("q/a", "x", 9)],
        &["p/a Renamed q/a", "p/b Renamed q/b"],
    );
    check(&[("a", "x", 1), ("b", "x", 2)], &[("c", "x", 8), ("d", "x", 9)], &["a Renamed c", "b Renamed d"]);
    check(&[("a", "x", 1), ("b", "x", 2)], &[("c", "x", 8)], &["b Removed b", "a Renamed c"]);
}

#[test]
fn an_empty_file_is_known_again_by_its_inode_only() {
    check(&[("a", "", 1)], &[("b", "", 2)], &["a Removed a", "new Added b"]);
    check(&[("a", "", 1)], &[("b", "", 1)], &["a Renamed b"]);
}

#[test]
fn of_two_files_with_one_name_the_known_path_keeps_it() {
    let documents = known(&[("b", "id:n 1", 1)]);
    let scan = scan(&[("a", "id:n 1", 2), ("b", "id:n changed", 1)]);
    let source = source();
    let matching = matching(&source, &documents, &scan);
    assert_eq!(
        matching.duplicates,
        [Duplicate { name: "n".to_owned(), owner: Some("b".to_owned()), other: "a".to_owned() }].into()
    );
    let changes = flat(&matching.changes(&BTreeSet::new()));
    assert_eq!(told(&documents, &changes), ["new Added a", "b Changed b"]);
    assert_eq!(changes[0].after.named, None);
    assert_ne!(changes[0].after.id, DocumentId::named(&source, "n"));
}

#[test]
fn a_duplicate_keeps_its_own_identity_after_the_first_is_gone() {
    let mut documents = known(&[("a", "id:n 1", 1), ("b", "id:n 2", 2)]);
    let second = id_at(&documents, "b");
    see(&mut documents, &scan(&[("b", "id:n 2", 2)]));
    assert_eq!(id_at(&documents, "b"), second);
    see(&mut documents, &scan(&[("c", "id:n 2", 2)]));
    assert_eq!(id_at(&documents, "c"), second);
    see(&mut documents, &scan(&[("c", "id:n 3", 2)]));
    assert_eq!(id_at(&documents, "c"), second);
    assert_eq!(documents[&second].named.as_deref(), Some("n"));
}

#[test]
fn a_document_gains_and_loses_a_name_in_its_place() {
    check(&[("a", "1", 1)], &[("a", "id:n 1", 1)], &["a Changed a"]);
    check(&[("a", "id:n 1", 1)], &[("a", "1", 1)], &["a Changed a"]);
    check(&[("a", "id:n 1", 1)], &[("a", "id:m 1", 1)], &["a Removed a", "new Added a"]);
}

#[test]
fn what_was_not_looked_at_is_neither_missing_nor_moved() {
    let documents = known(&[("dir/a", "1", 1), ("dir/b", "id:n 2", 2), ("c", "3", 3)]);
    let scan = withholding(scan(&[("x", "1", 9), ("y", "id:n other", 8)]), "dir");
    let source = source();
    let matching = matching(&source, &documents, &scan);
    assert_eq!(matching.missing.keys().collect::<Vec<_>>(), [&id_at(&documents, "c")]);
    assert_eq!(
        matching.duplicates,
        [Duplicate { name: "n".to_owned(), owner: None, other: "y".to_owned() }].into()
    );
    assert_eq!(told(&documents, &flat(&matching.changes(&BTreeSet::new()))), ["new Added x", "new Added y"]);
}

#[test]
fn a_removed_document_comes_back_as_itself() {
    for (first, again) in [(("a", "id:n 1", 1), ("z", "id:n 2", 5)), (("a", "1", 1), ("a", "1", 7))] {
        let mut documents = known(&[first]);
        let id = id_at(&documents, "a");
        see(&mut documents, &scan(&[]));
        assert!(documents[&id].removed);
        let changes = diff(&documents, &scan(&[again]));
        assert_eq!((changes.len(), changes[0].kind, changes[0].after.revision), (1, ChangeKind::Added, 3));
        apply(&mut documents, &changes);
        assert_eq!(id_at(&documents, again.0), id);
    }
}

#[test]
fn another_document_at_the_path_of_a_removed_one_has_another_id() {
    let mut documents = known(&[("a", "1", 1)]);
    see(&mut documents, &scan(&[]));
    see(&mut documents, &scan(&[("a", "2", 2)]));
    assert_eq!(documents.len(), 2);
}

#[test]
fn a_touched_file_is_no_change_but_its_state_is_kept() {
    let documents = known(&[("a", "1", 1), ("b", "2", 2)]);
    let scan = scan(&[("a", "1", 7), ("b", "2", 2)]);
    let source = source();
    let matching = matching(&source, &documents, &scan);
    assert_eq!(matching.changes(&BTreeSet::new()), []);
    assert_eq!(matching.stats(), [(id_at(&documents, "a"), scan.files[0].stat)]);
}

#[test]
fn a_file_that_came_to_rest_is_noted_once() {
    let fresh = scan(&[("a", "1", 1)]);
    let mut documents = Documents::new();
    see(&mut documents, &fresh);
    let mut rested = fresh.clone();
    rested.files[0].stat.read_ns = i64::MAX;
    let source = source();
    assert_eq!(matching(&source, &documents, &fresh).stats(), []);
    let noted = matching(&source, &documents, &rested).stats();
    assert_eq!(noted, [(id_at(&documents, "a"), rested.files[0].stat)]);
    documents.values_mut().next().unwrap().stat = Some(noted[0].1);
    assert_eq!(matching(&source, &documents, &rested).stats(), []);
    assert_eq!(matching(&source, &documents, &fresh).stats(), []);
}

#[test]
fn a_displaced_document_is_certainly_gone_and_a_moving_one_is_not() {
    let documents = known(&[("a", "1", 1), ("b", "2", 2), ("d/c", "3", 3)]);
    let mut scan = scan(&[("b", "1", 1)]);
    scan.restless.insert("d".to_owned());
    let source = source();
    let matching = matching(&source, &documents, &scan);
    let (b, c) = (id_at(&documents, "b"), id_at(&documents, "d/c"));
    assert_eq!(matching.missing[&b], Missing { displaced: true, restless: false });
    assert_eq!(matching.missing[&c], Missing { displaced: false, restless: true });
    assert_eq!(matching.kept(), 1);
}

const PATHS: [&str; 7] = ["a", "A", "b", "c", "d/a", "d/b", "e/a"];
const CONTENTS: [&str; 9] = ["", "1", "2", "3", "id:n 1", "id:n 2", "id:m 1", "id:m 2", "id:o 1"];

/// Some of the paths, each with one of the contents and one of few inodes.
fn any_files() -> impl Strategy<Value = Vec<Plan<'static>>> {
    let one = (prop::option::weighted(0.6, 0..CONTENTS.len()), 1..5_u64);
    prop::collection::vec(one, PATHS.len()).prop_map(|choices| {
        let files = PATHS.iter().zip(choices);
        files.filter_map(|(path, (content, inode))| Some((*path, CONTENTS[content?], inode))).collect()
    })
}

fn live(documents: &Documents) -> BTreeMap<&str, (&Sha256Hash, &DocumentId)> {
    let live: Vec<&Document> = documents.values().filter(|document| !document.removed).collect();
    let by_path: BTreeMap<_, _> =
        live.iter().map(|document| (document.path.as_str(), (&document.sha256, &document.id))).collect();
    assert_eq!(by_path.len(), live.len(), "two documents at one path");
    by_path
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, ..ProptestConfig::default() })]

    #[test]
    fn documents_follow_the_files_whatever_happens(states in prop::collection::vec(any_files(), 1..6)) {
        let mut documents = Documents::new();
        for files in &states {
            let scan = scan(files);
            let start = documents.clone();
            let changes = diff(&documents, &scan);
            prop_assert_eq!(&changes, &diff(&documents, &scan));
            apply(&mut documents, &changes);
            let seen: BTreeMap<&str, &Sha256Hash> =
                scan.files.iter().map(|file| (file.path.as_str(), &file.sha256)).collect();
            let now = live(&documents);
            prop_assert_eq!(&seen, &now.iter().map(|(path, (sha256, _))| (*path, *sha256)).collect());
            prop_assert_eq!(diff(&documents, &scan), vec![]);

            // What did not change at its path is the same document still.
            for (path, (sha256, id)) in live(&start) {
                if seen.get(path) == Some(&sha256) {
                    prop_assert_eq!(now[path].1, id);
                }
            }
            // A name that only one file has, and that a live document has, is that document.
            for file in &scan.files {
                let Some(name) = &file.named else { continue };
                let alone = scan.files.iter().filter(|other| other.named.as_ref() == Some(name)).count() == 1;
                let mut owners = start.values().filter(|d| !d.removed && d.named.as_ref() == Some(name));
                if let (true, Some(owner)) = (alone, owners.next()) {
                    let id = now[file.path.as_str()].1;
                    let kept = start.get(id).is_some_and(|d| d.path == file.path && d.sha256 == file.sha256);
                    prop_assert!(id == &owner.id || kept);
                }
            }
            // A name has one live owner.
            let mut names: Vec<&String> =
                documents.values().filter(|d| !d.removed).filter_map(|d| d.named.as_ref()).collect();
            let count = names.len();
            names.sort();
            names.dedup();
            prop_assert_eq!(names.len(), count);
        }
    }

    #[test]
    fn a_crash_between_two_changes_loses_none_of_them(
        states in prop::collection::vec(any_files(), 1..4), after in any_files(), cut in 0..10_usize,
    ) {
        let mut documents = Documents::new();
        for files in &states {
            see(&mut documents, &scan(files));
        }
        let scan = scan(&after);
        let groups = groups(&documents, &scan);
        let mut whole = documents.clone();
        for group in &groups {
            apply(&mut whole, group.changes());
            live(&whole);
        }
        apply(&mut documents, &flat(&groups[..cut.min(groups.len())]));
        see(&mut documents, &scan);
        prop_assert_eq!(live(&documents), live(&whole));
    }
}
