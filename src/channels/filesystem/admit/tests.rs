use std::collections::BTreeMap;
use std::convert::Infallible;

use proptest::prelude::*;
use thoughtstream_domain::content::Content;

use super::*;
use crate::filesystem::rules::{Bounds, Selection};

/// What a log knows of one source.
#[derive(Default)]
struct Known(BTreeMap<DocumentId, Document>);

impl Rows for Known {
    type Error = Infallible;

    fn document(&self, id: &DocumentId) -> Result<Option<Document>, Infallible> {
        Ok(self.0.get(id).cloned())
    }

    fn document_at(&self, path: &str) -> Result<Option<Document>, Infallible> {
        Ok(self.0.values().find(|document| !document.removed && document.path == path).cloned())
    }

    fn confirm(&self, _: &Document) -> Result<(), Infallible> {
        Ok(())
    }
}

impl Known {
    fn of(documents: &[&Document]) -> Self {
        Self(documents.iter().map(|&document| (document.id.clone(), document.clone())).collect())
    }
}

fn source() -> SourceId {
    SourceId::parse("filesystem:notes").unwrap()
}

fn declared() -> Declared {
    let selection = Selection::new(&[], &["drafts/**".to_owned(), "closed".to_owned()], true).unwrap();
    let bounds = Bounds { file_bytes_max: 100, ..Bounds::default() };
    Declared { source: source(), rules: ScanRules { selection, bounds }, privacy: Privacy::Private }
}

fn document(path: &str, revision: u64, content: &str) -> Document {
    let stat = FileStat {
        device: 1,
        inode: 2,
        size: content.len() as u64,
        modified_ns: 3,
        changed_ns: 4,
        read_ns: 5,
    };
    Document {
        id: DocumentId::at_first_sight(&source(), path, 0),
        source: source(),
        revision,
        path: path.to_owned(),
        sha256: Sha256Hash::of(content.as_bytes()),
        bytes: content.len() as u64,
        content_type: content_type(path).to_owned(),
        named: None,
        removed: false,
        stat: Some(stat),
    }
}

fn change(kind: ChangeKind, before: Option<&Document>, after: Document) -> DocumentChange {
    DocumentChange { kind, before: before.cloned(), after }
}

fn added(path: &str, content: &str) -> DocumentChange {
    change(ChangeKind::Added, None, document(path, 1, content))
}

fn removed(before: &Document) -> DocumentChange {
    let after = Document { revision: before.revision + 1, removed: true, stat: None, ..before.clone() };
    change(ChangeKind::Removed, Some(before), after)
}

fn moved(before: &Document, path: &str) -> DocumentChange {
    let after = Document { id: before.id.clone(), ..document(path, before.revision + 1, "") };
    let after = Document { sha256: before.sha256, bytes: before.bytes, stat: before.stat, ..after };
    change(ChangeKind::Renamed, Some(before), after)
}

fn contents(texts: &[&str]) -> Contents {
    let content = |text: &&str| (Sha256Hash::of(text.as_bytes()), Content::new(text.as_bytes().into()));
    texts.iter().map(content).collect()
}

/// Hands changes in, with the contents that the tests write.
fn admit(changes: Vec<DocumentChange>, known: &Known) -> Result<Commit, NotTaken<Infallible>> {
    let contents = contents(&["one", "two", "---\nid: plan\n---\n", &"x".repeat(101)]);
    declared().admit(&ChangeGroup::new(changes), &contents, known)
}

#[track_caller]
fn unfit(changes: Vec<DocumentChange>, known: &Known) -> Unfit {
    match admit(changes, known) {
        Err(NotTaken::Unfit(unfit)) => unfit,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_a_folder_can_have_is_taken_and_is_the_commit_of_its_group() {
    let one = document("a.md", 1, "one");
    let gone = Document { removed: true, revision: 2, stat: None, ..one.clone() };
    let named = Document {
        id: DocumentId::named(&source(), "plan"),
        named: Some("plan".to_owned()),
        ..document("plan.md", 1, "---\nid: plan\n---\n")
    };
    let second =
        Document { id: DocumentId::at_first_sight(&source(), "a.md", 1), ..document("a.md", 1, "two") };
    let other = document("b.md", 1, "two");
    let now = |path: &str, revision, text| Document { id: one.id.clone(), ..document(path, revision, text) };
    for (changes, known) in [
        (vec![added("a.md", "one")], Known::default()),
        (vec![change(ChangeKind::Added, None, named)], Known::default()),
        // The first document of this path is there, and its id with it.
        (vec![change(ChangeKind::Added, None, second)], Known::of(&[&gone])),
        (vec![change(ChangeKind::Added, Some(&gone), now("a.md", 3, "one"))], Known::of(&[&gone])),
        (vec![change(ChangeKind::Changed, Some(&one), now("a.md", 2, "two"))], Known::of(&[&one])),
        (vec![moved(&one, "deep/er/c.txt")], Known::of(&[&one])),
        (vec![removed(&one)], Known::of(&[&one])),
        (vec![moved(&one, "b.md"), moved(&other, "a.md")], Known::of(&[&one, &other])),
    ] {
        let contents = contents(&["one", "two", "---\nid: plan\n---\n"]);
        let group = ChangeGroup::new(changes);
        let commit = declared().admit(&group, &contents, &known).unwrap();
        assert_eq!(commit, group.commit(Privacy::Private, &contents));
        // It crosses a socket as it is.
        let offer = serde_json::to_string(&Offer::of(&declared(), &group)).unwrap();
        assert_eq!(serde_json::from_str::<Offer>(&offer).unwrap().read(&declared()), Ok(group));
    }
}

#[test]
fn what_is_in_the_log_already_passes_and_what_the_log_knows_otherwise_does_not() {
    let (one, change_of) = (document("a.md", 1, "one"), |text| document("a.md", 2, text));
    let changed = |text| change(ChangeKind::Changed, Some(&one), change_of(text));
    assert!(admit(vec![added("a.md", "one")], &Known::of(&[&one])).is_ok());
    assert!(admit(vec![changed("two")], &Known::of(&[&change_of("two")])).is_ok());
    for (change, known) in [
        (added("a.md", "two"), Known::of(&[&one])),
        (changed("two"), Known::of(&[&change_of("one")])),
        (changed("two"), Known::of(&[&Document { revision: 7, ..one.clone() }])),
        (changed("two"), Known::default()),
        (removed(&one), Known::default()),
    ] {
        assert_eq!(admit(vec![change], &known), Err(NotTaken::Overtaken));
    }
}

#[test]
fn another_source_class_or_type_is_refused_by_name() {
    let other = SourceId::parse("filesystem:mail").unwrap();
    let mut after = added("a.md", "one");
    after.after.source = other.clone();
    assert_eq!(unfit(vec![after], &Known::default()), Unfit::OtherSource);
    let mut before = removed(&document("a.md", 1, "one"));
    before.before.as_mut().unwrap().source = other.clone();
    assert_eq!(unfit(vec![before], &Known::default()), Unfit::OtherSource);

    let offer = || Offer::of(&declared(), &ChangeGroup::new(vec![added("a.md", "one")]));
    let read = |offer: Offer| offer.read(&declared()).unwrap_err();
    assert_eq!(read(Offer { source: other, ..offer() }), Unfit::OtherSource);
    for privacy in [Privacy::PublicSource, Privacy::Sensitive] {
        assert_eq!(read(Offer { privacy, ..offer() }), Unfit::OtherPrivacy);
    }
    for kind in [
        "stream.thought.decision.proposal.accepted@1",
        "stream.thought.source.note@1",
        "stream.thought.source.file.added@2",
        "stream.thought.source.file.added",
        "",
    ] {
        let mut offer = offer();
        offer.changes[0].kind = kind.to_owned();
        assert_eq!(read(offer), Unfit::OtherType, "{kind}");
    }
    let mut large = offer();
    large.changes[0].after.bytes = 101;
    assert_eq!(read(large), Unfit::TooLarge);
    let more = serde_json::to_value(offer()).unwrap();
    for stranger in ["key", "rows", "actor"] {
        let mut more = more.clone();
        more[stranger] = "x".into();
        assert!(serde_json::from_value::<Offer>(more).is_err(), "{stranger}");
    }
}

#[test]
fn paths_outside_the_rules_of_the_source_are_refused() {
    let long = format!("{}.md", "x".repeat(1_024));
    let deep = format!("{}a.md", "d/".repeat(65));
    for path in [
        "",
        "/a.md",
        "a//b.md",
        "a/",
        "../a.md",
        "a/../b.md",
        "./a.md",
        ".env",
        ".ssh/config",
        "id_rsa",
        "drafts/a.md",
        "closed/a.md",
        "a/closed/b.md",
        "a\nb.md",
        "a\u{202e}b.md",
        &long,
        &deep,
    ] {
        assert_eq!(unfit(vec![added(path, "one")], &Known::default()), Unfit::Path, "{path:?}");
    }
    let one = document("a.md", 1, "one");
    assert_eq!(unfit(vec![moved(&one, "drafts/a.md")], &Known::of(&[&one])), Unfit::Path);
    // What lies outside of them by now may still be removed.
    let before = document("drafts/a.md", 1, "one");
    assert!(admit(vec![removed(&before)], &Known::of(&[&before])).is_ok());
}

#[test]
fn a_path_has_one_document_and_a_new_document_the_id_that_follows() {
    let (one, other) = (document("a.md", 1, "one"), document("b.md", 1, "two"));
    let known = Known::of(&[&one, &other]);
    assert_eq!(unfit(vec![moved(&one, "b.md")], &known), Unfit::PathTaken);
    assert_eq!(unfit(vec![moved(&one, "c.md"), moved(&other, "c.md")], &known), Unfit::PathTaken);
    assert_eq!(unfit(vec![removed(&one), removed(&one)], &known), Unfit::DocumentRow);

    let with = |id: DocumentId| {
        let mut forged = added("c.md", "one");
        forged.after.id = id;
        forged
    };
    let of = |path, earlier| DocumentId::at_first_sight(&source(), path, earlier);
    let mail = SourceId::parse("filesystem:mail").unwrap();
    for id in [
        DocumentId::parse("doc_mine").unwrap(),
        of("d.md", 0),
        of("c.md", 1),
        DocumentId::named(&source(), "plan"),
        DocumentId::at_first_sight(&mail, "c.md", 0),
    ] {
        assert_eq!(unfit(vec![with(id)], &Known::default()), Unfit::DocumentId);
    }
    let mut renamed = moved(&one, "c.md");
    renamed.after.id = other.id;
    assert_eq!(unfit(vec![renamed], &known), Unfit::DocumentId);
}

#[test]
fn a_row_follows_from_the_one_before_it() {
    let one = document("a.md", 1, "one");
    let known = Known::of(&[&one]);
    let changed = change(ChangeKind::Changed, Some(&one), document("a.md", 2, "two"));
    assert!(admit(vec![changed.clone()], &known).is_ok());
    let but = |spoil: &dyn Fn(&mut DocumentChange)| {
        let mut change = changed.clone();
        spoil(&mut change);
        unfit(vec![change], &known)
    };
    let spoils: [&dyn Fn(&mut DocumentChange); 12] = [
        &|change| change.after.revision = 3,
        &|change| change.after.revision = 1,
        &|change| change.before.as_mut().unwrap().revision = u64::MAX,
        &|change| change.before = None,
        &|change| change.kind = ChangeKind::Added,
        &|change| change.kind = ChangeKind::Renamed,
        &|change| change.kind = ChangeKind::Removed,
        &|change| change.after.removed = true,
        &|change| change.after.content_type = "text/html".to_owned(),
        &|change| change.after.stat = None,
        &|change| change.after.named = Some("plan".to_owned()),
        // The log knows another content before it.
        &|change| change.before.as_mut().unwrap().sha256 = Sha256Hash::of(b"three"),
    ];
    for (number, spoil) in spoils.into_iter().enumerate() {
        assert_eq!(but(spoil), Unfit::DocumentRow, "{number}");
    }
    // A removal says nothing new.
    let mut other = removed(&one);
    other.after.bytes = 7;
    assert_eq!(unfit(vec![other], &known), Unfit::DocumentRow);
    // Nor does a rename of the same content.
    let mut other = moved(&one, "b.md");
    other.after.bytes = 7;
    other.after.stat.as_mut().unwrap().size = 7;
    assert_eq!(unfit(vec![other], &known), Unfit::DocumentRow);
}

#[test]
fn content_is_what_its_row_says_and_no_larger_than_the_sources_files() {
    let known = Known::default();
    assert_eq!(unfit(vec![added("a.md", "never handed over")], &known), Unfit::Content);
    assert_eq!(unfit(vec![added("a.md", &"x".repeat(101))], &known), Unfit::TooLarge);
    let group = ChangeGroup::new(vec![added("a.md", "one")]);
    for wrong in ["oNe", "one more", ""] {
        let contents = [(Sha256Hash::of(b"one"), Content::new(wrong.as_bytes().into()))].into();
        assert_eq!(declared().admit(&group, &contents, &known), Err(Unfit::Content.into()));
    }
}

#[test]
fn no_changes_too_many_and_strange_incidents_are_refused() {
    let (declared, known) = (declared(), Known::default());
    assert_eq!(unfit(Vec::new(), &known), Unfit::Count);
    assert_eq!(unfit(vec![added("a.md", "one"); GROUP_CHANGES_MAX + 1], &known), Unfit::Count);
    let stat = document("a.md", 1, "one").stat.unwrap();
    let stats = |count| vec![(DocumentId::at_first_sight(&source(), "a.md", 0), stat); count];
    for count in [0, STATS_MAX + 1] {
        assert_eq!(declared.admit_stats(&stats(count)), Err(Unfit::Count));
    }
    assert_eq!(declared.admit_stats(&stats(STATS_MAX)).unwrap().rows.len(), STATS_MAX);

    let incident = |code: &str, detail: &str| declared.incident(code, detail.to_owned(), false);
    assert!(incident("root-missing", "the root is gone").is_ok() && incident("watch-limit", "").is_ok());
    for (code, detail) in [
        ("log-unwritable", ""),
        ("gave-up", ""),
        ("root-missing", "a\nb"),
        ("root-missing", &"x".repeat(513)),
    ] {
        assert_eq!(incident(code, detail), Err(Unfit::Incident), "{code}");
    }
}

#[test]
fn every_code_is_of_the_producers_and_travels_as_itself() {
    for unfit in [
        Unfit::OtherSource,
        Unfit::OtherPrivacy,
        Unfit::OtherType,
        Unfit::Count,
        Unfit::Path,
        Unfit::PathTaken,
        Unfit::DocumentId,
        Unfit::DocumentRow,
        Unfit::Content,
        Unfit::TooLarge,
        Unfit::Incident,
    ] {
        let word = serde_json::to_value(unfit).unwrap();
        assert_eq!(unfit.code(), format!("producer.{}", word.as_str().unwrap()));
        assert_eq!(serde_json::from_value::<Unfit>(word).unwrap(), unfit);
    }
}

proptest! {
    #[test]
    fn no_text_makes_a_path_that_leaves_the_root_or_passes_a_rule(path in ".{0,40}|[a./]{0,12}") {
        let taken = declared().takes(&path);
        let leaves = path.split('/').any(|part| part.is_empty() || part.starts_with('.'));
        prop_assert!(!(taken && leaves), "{path:?}");
    }
}
