//! Subscribed documents: every piece of evidence must agree, and nothing is cut.

use std::collections::BTreeMap;
use std::convert::Infallible;

use crate::commit::Document;
use crate::content::Content;
use crate::hash::Sha256Hash;
use crate::id::{DocumentId, SourceId};
use crate::packet::documents::{
    DocumentFault, Evidence, Library, ResolveError, Subscribed, Subscription, SubscriptionError, resolve,
};
use crate::packet::manifest::{Manifest, Rule};
use crate::privacy::Privacy;

fn source() -> SourceId {
    SourceId::parse("filesystem:me").unwrap()
}

#[derive(Clone, Default)]
struct Shelf {
    now: BTreeMap<String, Document>,
    versions: BTreeMap<(String, u64), Document>,
    blobs: BTreeMap<String, Vec<u8>>,
}

impl Shelf {
    fn put(&mut self, path: &str, bytes: &[u8]) {
        let document = Document {
            source: source(),
            id: DocumentId::at_first_sight(&source(), path, 0),
            revision: 4,
            path: path.to_owned(),
            sha256: Sha256Hash::of(bytes),
            bytes: bytes.len() as u64,
            content_type: "text/markdown".to_owned(),
            named: None,
            removed: false,
            stat: None,
        };
        self.blobs.insert(document.sha256.to_string(), bytes.to_vec());
        self.versions.insert((document.id.to_string(), 4), document.clone());
        self.now.insert(path.to_owned(), document);
    }
}

impl Library for Shelf {
    type Error = Infallible;

    fn current(&mut self, _: &SourceId, path: &str) -> Result<Option<Document>, Infallible> {
        Ok(self.now.get(path).cloned())
    }

    fn version(
        &mut self,
        _: &SourceId,
        id: &DocumentId,
        revision: u64,
    ) -> Result<Option<Document>, Infallible> {
        Ok(self.versions.get(&(id.to_string(), revision)).cloned())
    }

    fn content(&mut self, sha256: &Sha256Hash) -> Result<Option<Content<Vec<u8>>>, Infallible> {
        Ok(self.blobs.get(&sha256.to_string()).cloned().map(Content::new))
    }

    fn privacy(&mut self, _: &SourceId) -> Result<Privacy, Infallible> {
        Ok(Privacy::Sensitive)
    }
}

fn shelf() -> Shelf {
    let mut shelf = Shelf::default();
    shelf.put("identity.md", b"I am.");
    shelf.put("memory.md", "Früher.".as_bytes());
    shelf
}

fn subscription(paths: &[&str], required: bool) -> Subscription {
    Subscription::new(source(), paths.iter().map(ToString::to_string).collect(), required).unwrap()
}

fn resolved(
    shelf: &mut Shelf,
    paths: &[&str],
    required: bool,
    max: usize,
) -> Result<Subscribed, DocumentFault> {
    resolve(shelf, &[subscription(paths, required)], max).map_err(|error| match error {
        ResolveError::Fault(fault) => fault,
        ResolveError::Library(never) => match never {},
    })
}

#[test]
fn documents_are_shown_whole_in_the_order_they_are_named() {
    let found = resolved(&mut shelf(), &["memory.md", "identity.md"], true, 100).unwrap();
    assert_eq!(found.in_words(), ["Document memory.md:\n\nFrüher.", "Document identity.md:\n\nI am."]);
    assert_eq!((found.chars(), found.privacy(), found.references().len()), (12, Privacy::Sensitive, 2));
    assert_eq!(found.references()[0].revision, 4);
}

#[test]
fn a_required_document_that_is_not_there_closes_the_run_and_another_is_named() {
    let missing = DocumentFault::Missing { source_id: source(), index: 1 };
    let fault = resolved(&mut shelf(), &["memory.md", "gone.md"], true, 100).unwrap_err();
    assert_eq!((fault.code(), fault), ("document-missing", missing));
    let mut removed = shelf();
    removed.now.get_mut("memory.md").unwrap().removed = true;
    assert_eq!(resolved(&mut removed, &["memory.md"], true, 100).unwrap_err().code(), "document-missing");
    let found = resolved(&mut shelf(), &["gone.md", "memory.md"], false, 100).unwrap();
    let mut manifest = Manifest::default();
    found.account(&mut manifest);
    assert_eq!((manifest.omitted.len(), manifest.omitted[0].rule), (1, Rule::DocumentMissing));
    assert_eq!(manifest.omitted[0].id, "filesystem:me/gone.md");
    assert_eq!(manifest.included.len(), 1);
}

#[test]
fn evidence_that_does_not_agree_closes_the_run_required_or_not() {
    type Break = fn(&mut Shelf, &DocumentId);
    type Change = fn(&mut Document);
    let version = |shelf: &mut Shelf, id: &DocumentId, change: fn(&mut Document)| {
        change(shelf.versions.get_mut(&(id.to_string(), 4)).unwrap());
    };
    let cases: [(Break, Evidence); 3] = [
        (|shelf, _| shelf.versions.clear(), Evidence::Version),
        (|shelf, _| shelf.blobs.clear(), Evidence::Version),
        (|shelf, _| shelf.blobs.values_mut().for_each(|bytes| bytes[0] ^= 1), Evidence::Sha256),
    ];
    let changes: [(Change, Evidence); 6] = [
        (|d| d.source = SourceId::parse("filesystem:other").unwrap(), Evidence::Source),
        (|d| d.revision = 3, Evidence::Identity),
        (|d| d.path = "other.md".to_owned(), Evidence::Path),
        (|d| d.content_type = "text/plain".to_owned(), Evidence::ContentType),
        (|d| d.bytes += 1, Evidence::Bytes),
        (|d| d.sha256 = Sha256Hash::of(b"other"), Evidence::Sha256),
    ];
    for required in [true, false] {
        for (break_it, what) in cases {
            let mut broken = shelf();
            let id = broken.now["identity.md"].id.clone();
            break_it(&mut broken, &id);
            let expected = DocumentFault::Disagrees { source_id: source(), index: 0, what };
            assert_eq!(resolved(&mut broken, &["identity.md"], required, 100).unwrap_err(), expected);
        }
        for (change, what) in changes {
            let mut broken = shelf();
            let id = broken.now["identity.md"].id.clone();
            version(&mut broken, &id, change);
            let fault = resolved(&mut broken, &["identity.md"], required, 100).unwrap_err();
            let expected = DocumentFault::Disagrees { source_id: source(), index: 0, what };
            assert_eq!((fault.code(), fault), ("document-disagrees", expected));
        }
    }
}

#[test]
fn a_document_over_the_ceiling_is_never_cut() {
    let mut large = shelf();
    large.put("large.md", "é".repeat(30_000).as_bytes());
    let fault = resolved(&mut large, &["identity.md", "large.md"], true, 24_000).unwrap_err();
    assert_eq!(fault, DocumentFault::Ceiling { chars: 30_005, chars_max: 24_000 });
    assert_eq!(fault.code(), "document-ceiling");
    let found = resolved(&mut large, &["large.md", "identity.md"], false, 24_000).unwrap();
    assert_eq!((found.references().len(), found.chars()), (1, 5));
}

#[test]
fn bytes_that_are_no_text_are_not_shown() {
    let mut binary = shelf();
    binary.put("picture.md", b"\xff\xd8");
    assert_eq!(resolved(&mut binary, &["picture.md"], true, 100).unwrap_err().code(), "document-not-text");
    assert!(resolved(&mut binary, &["picture.md"], false, 100).unwrap().references().is_empty());
}

#[test]
fn only_plain_relative_paths_of_a_folder_can_be_named() {
    let name = |source: &str, paths: &[&str]| {
        let source = SourceId::parse(source).unwrap();
        Subscription::new(source, paths.iter().map(ToString::to_string).collect(), true).unwrap_err()
    };
    for path in
        ["", "/a.md", "a//b.md", "./a.md", "a/../b.md", "..", "a\\b.md", "*.md", "a?.md", "a\u{0}.md", "a/"]
    {
        assert_eq!(name("filesystem:me", &[path]), SubscriptionError::Path(0), "{path:?}");
    }
    assert_eq!(name("filesystem:me", &["a.md", "b.md", "a.md"]), SubscriptionError::Twice(2));
    assert_eq!(name("telegram:bot", &["a.md"]), SubscriptionError::Source);
    assert_eq!(name("filesystem:me", &[]), SubscriptionError::Count);
    assert!(Subscription::new(source(), vec!["a b/ä (1).md".to_owned()], false).is_ok());
}
