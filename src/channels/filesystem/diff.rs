//! What changed between what the log knows and what a scan saw, with stable identities.
//!
//! Pure: the same documents and the same scan give the same changes. Documents and files are paired by the
//! strongest evidence first:
//!
//! 1. the same path and the same bytes: nothing happened;
//! 2. the id the frontmatter names: the same document, wherever it is and whatever else changed;
//! 3. the same bytes at another path: a rename. Where several have the same bytes, the same inode is taken
//!    first, then the same file name, then the order of paths. An empty file proves nothing by its bytes; it
//!    is known again only by its inode and modification time;
//! 4. the same path: a change, unless both name themselves differently.
//!
//! What is left is added or missing. A file that names an id which another file has better right to is a
//! duplicate: it gets, or keeps, an identity of its own. A file that names the id of a removed document, or
//! lies at its old path with its old bytes, is that document again.
//!
//! Changes come in an order in which no path ever has two documents: removals, renames with the place made
//! free first, then the others by path. A ring of renames has no such order and is one commit. Each prefix
//! leaves a state from which the rest is found again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use thoughtstream_domain::commit::{Document, FileStat};
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::{DocumentId, SourceId};

use super::change::{ChangeGroup, ChangeKind, DocumentChange};
use super::name::content_type;
use super::read::{same_state, was_still};
use super::scan::{FileSeen, Scan};

/// The documents of one source, removed ones included.
pub type Documents = BTreeMap<DocumentId, Document>;

/// Two files that name the same id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duplicate {
    /// The id.
    pub name: String,
    /// The path of the file that keeps the name; absent if its owner was not looked at.
    pub owner: Option<String>,
    /// The path of the file whose name is not used.
    pub other: String,
}

/// A live document without a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missing {
    /// Another document lies at its path now, so it certainly is not there any more.
    pub displaced: bool,
    /// A directory above its path was in motion during the scan.
    pub restless: bool,
}

/// Which document is which file.
#[derive(Debug)]
pub struct Matching<'a> {
    source: &'a SourceId,
    documents: &'a Documents,
    /// Each file with its document, if it has one, and the name it may use.
    files: Vec<Match<'a>>,
    /// The live documents without a file, those withheld by the scan left out.
    pub missing: BTreeMap<DocumentId, Missing>,
    /// The files whose name is not used.
    pub duplicates: BTreeSet<Duplicate>,
}

#[derive(Debug, Clone, Copy)]
struct Match<'a> {
    file: &'a FileSeen,
    name: Option<&'a str>,
    document: Option<&'a Document>,
}

/// Pairs the documents of `source` with the files of a scan.
#[must_use]
pub fn matching<'a>(source: &'a SourceId, documents: &'a Documents, scan: &'a Scan) -> Matching<'a> {
    let mut pairing = Pairing::new(documents, scan);
    pairing.by_path_and_bytes();
    pairing.by_name();
    pairing.by_bytes();
    pairing.by_path();
    pairing.removed_before();
    pairing.finish(source, documents, scan)
}

struct Pairing<'a> {
    files: Vec<Match<'a>>,
    /// The live documents without a file that the scan could have seen.
    free: BTreeMap<&'a DocumentId, &'a Document>,
    /// The live documents that lie where the scan could not look.
    withheld: BTreeMap<&'a DocumentId, &'a Document>,
    removed: BTreeMap<&'a DocumentId, &'a Document>,
    duplicates: BTreeSet<Duplicate>,
}

impl<'a> Pairing<'a> {
    fn new(documents: &'a Documents, scan: &'a Scan) -> Self {
        let (removed, live): (BTreeMap<_, _>, BTreeMap<_, _>) =
            documents.iter().partition(|(_, document)| document.removed);
        let (withheld, free) = live.into_iter().partition(|(_, document)| scan.withholds(&document.path));
        let files = scan.files.iter().map(|file| Match { file, name: file.named.as_deref(), document: None });
        Self { files: files.collect(), free, withheld, removed, duplicates: BTreeSet::new() }
    }

    fn pair(&mut self, index: usize, document: &'a Document) {
        self.files[index].document = Some(document);
        self.free.remove(&document.id);
    }

    /// Returns the unpaired files in path order.
    fn unpaired(&self) -> impl Iterator<Item = (usize, &Match<'a>)> {
        self.files.iter().enumerate().filter(|(_, file)| file.document.is_none())
    }

    fn by_path_and_bytes(&mut self) {
        let mut at: BTreeMap<&str, Vec<&'a Document>> = BTreeMap::new();
        for document in self.free.values() {
            at.entry(&document.path).or_default().push(document);
        }
        for index in 0..self.files.len() {
            let file = self.files[index].file;
            let here = at.get(file.path.as_str()).map_or(&[][..], Vec::as_slice);
            if let Some(document) = here.iter().find(|document| document.sha256 == file.sha256) {
                self.pair(index, document);
            }
        }
    }

    /// Gives each name to one file, pairs that with the document of this name, and takes the name away from
    /// all others.
    fn by_name(&mut self) {
        let mut files: BTreeMap<&'a str, Vec<usize>> = BTreeMap::new();
        for (index, file) in self.files.iter().enumerate() {
            if let Some(name) = file.name {
                files.entry(name).or_default().push(index);
            }
        }
        let mut free: BTreeMap<&'a str, &'a Document> = BTreeMap::new();
        for document in self.free.values() {
            if let Some(name) = &document.named {
                free.entry(name).or_insert(document);
            }
        }
        let withheld: BTreeSet<&'a str> =
            self.withheld.values().filter_map(|document| document.named.as_deref()).collect();
        for (name, files) in files {
            let document = free.get(name).copied();
            let owner = self.owner(name, &files, document, withheld.contains(name));
            for &other in files.iter().filter(|&&index| Some(index) != owner) {
                self.files[other].name = None;
                self.duplicates.insert(Duplicate {
                    name: name.to_owned(),
                    owner: owner.map(|owner| self.files[owner].file.path.clone()),
                    other: self.files[other].file.path.clone(),
                });
            }
            if let (Some(owner), Some(document)) = (owner, document)
                && self.files[owner].document.is_none()
            {
                self.pair(owner, document);
            }
        }
    }

    /// Returns the file that has the best right to a name, if any may have it.
    fn owner(
        &self,
        name: &str,
        files: &[usize],
        document: Option<&'a Document>,
        withheld: bool,
    ) -> Option<usize> {
        let owns =
            |index: &usize| self.files[*index].document.is_some_and(|d| d.named.as_deref() == Some(name));
        if let Some(&owner) = files.iter().find(|index| owns(index)) {
            return Some(owner);
        }
        if withheld {
            return None;
        }
        // A file that already is another document has the weakest right.
        files.iter().copied().min_by_key(|&index| {
            let Match { file, document: paired, .. } = self.files[index];
            let elsewhere = document.is_none_or(|document| document.path != file.path);
            let changed = document.is_none_or(|document| document.sha256 != file.sha256);
            (paired.is_some(), elsewhere, changed, index)
        })
    }

    fn by_bytes(&mut self) {
        for evidence in [Evidence::Inode, Evidence::FileName, Evidence::Bytes] {
            let mut waiting: BTreeMap<_, VecDeque<&'a Document>> = BTreeMap::new();
            let mut documents: Vec<&'a Document> = self.free.values().copied().collect();
            documents.sort_by_key(|document| (&document.path, &document.id));
            for document in documents {
                let key =
                    evidence.key(&document.sha256, &document.path, document.bytes, document.stat.as_ref());
                if let Some(key) = key {
                    waiting.entry(key).or_default().push_back(document);
                }
            }
            let unpaired: Vec<usize> = self.unpaired().map(|(index, _)| index).collect();
            for index in unpaired {
                let file = self.files[index].file;
                let key = evidence.key(&file.sha256, &file.path, file.stat.size, Some(&file.stat));
                let document = key.and_then(|key| waiting.get_mut(&key)).and_then(VecDeque::pop_front);
                if let Some(document) = document {
                    self.pair(index, document);
                }
            }
        }
    }

    fn by_path(&mut self) {
        let mut at: BTreeMap<&str, Vec<&'a Document>> = BTreeMap::new();
        for document in self.free.values() {
            at.entry(&document.path).or_default().push(document);
        }
        let unpaired: Vec<usize> = self.unpaired().map(|(index, _)| index).collect();
        for index in unpaired {
            let Match { file, name, .. } = self.files[index];
            let here = at.get(file.path.as_str()).map_or(&[][..], Vec::as_slice);
            let fits = |document: &&&'a Document| match (document.named.as_deref(), name) {
                (_, None) | (None, Some(_)) => true,
                (Some(before), Some(now)) => before == now,
            };
            if let Some(document) = here.iter().find(fits).copied() {
                self.pair(index, document);
            }
        }
    }

    fn removed_before(&mut self) {
        let mut by_name: BTreeMap<&str, &'a Document> = BTreeMap::new();
        let mut by_place: BTreeMap<(&str, _), &'a Document> = BTreeMap::new();
        for document in self.removed.values() {
            match &document.named {
                Some(name) => by_name.entry(name).or_insert(document),
                None => by_place.entry((&document.path, document.sha256)).or_insert(document),
            };
        }
        for Match { file, name, document } in &mut self.files {
            if document.is_none() {
                *document = match name {
                    Some(name) => by_name.remove(name),
                    None => by_place.remove(&(file.path.as_str(), file.sha256)),
                };
            }
        }
    }

    fn finish(self, source: &'a SourceId, documents: &'a Documents, scan: &'a Scan) -> Matching<'a> {
        let visible: BTreeSet<&str> = scan.files.iter().map(|file| file.path.as_str()).collect();
        let missing = self.free.into_iter().map(|(id, document)| {
            let displaced = visible.contains(document.path.as_str());
            (id.clone(), Missing { displaced, restless: scan.is_restless_at(&document.path) })
        });
        Matching {
            source,
            documents,
            missing: missing.collect(),
            files: self.files,
            duplicates: self.duplicates,
        }
    }
}

impl Matching<'_> {
    /// Returns how many files are documents that were live before.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.files.iter().filter(|file| file.document.is_some_and(|document| !document.removed)).count()
    }

    /// Returns the names that files use.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.files.iter().filter_map(|file| file.name)
    }

    /// Returns the changes, in order, counting the documents in `removals` as removed.
    #[must_use]
    pub fn changes(&self, removals: &BTreeSet<DocumentId>) -> Vec<ChangeGroup> {
        let mut taken: BTreeSet<DocumentId> = self.documents.keys().cloned().collect();
        let mut changes: Vec<DocumentChange> =
            removals.iter().filter_map(|id| self.documents.get(id)).map(removal).collect();
        changes.sort_by(|one, other| {
            (&one.after.path, &one.after.id).cmp(&(&other.after.path, &other.after.id))
        });
        let (mut renames, mut others) = (Vec::new(), Vec::new());
        for Match { file, name, document } in &self.files {
            let change = match document {
                Some(before) => change(before, file, *name),
                None => {
                    let id = new_id(self.source, file, *name, &taken);
                    taken.insert(id.clone());
                    Some(addition(self.source, id, file, *name))
                }
            };
            match change {
                Some(change) if change.kind == ChangeKind::Renamed => renames.push(change),
                Some(change) => others.push(change),
                None => {}
            }
        }
        let alone = |change| ChangeGroup::new(vec![change]);
        let removals = changes.into_iter().map(alone);
        removals.chain(in_free_order(renames)).chain(others.into_iter().map(alone)).collect()
    }

    /// Returns the documents whose file looks different though its content is the same, or has come to rest
    /// since it was read.
    #[must_use]
    pub fn stats(&self) -> Vec<(DocumentId, FileStat)> {
        let unchanged = self.files.iter().filter_map(|Match { file, document, .. }| {
            let document = document.filter(|document| {
                !document.removed && document.sha256 == file.sha256 && document.path == file.path
            })?;
            let says_nothing_new = |known: FileStat| {
                same_state(&known, &file.stat) && (was_still(&known) || !was_still(&file.stat))
            };
            (!document.stat.is_some_and(says_nothing_new)).then(|| (document.id.clone(), file.stat))
        });
        unchanged.collect()
    }
}

/// What equal bytes are supported by, strongest first.
#[derive(Debug, Clone, Copy)]
enum Evidence {
    Inode,
    FileName,
    Bytes,
}

/// What a document and a file must have in common to be one.
type EvidenceKey<'a> = (&'a Sha256Hash, Option<(u64, u64, i64)>, Option<&'a str>);

impl Evidence {
    fn key<'a>(
        self,
        sha256: &'a Sha256Hash,
        path: &'a str,
        bytes: u64,
        stat: Option<&FileStat>,
    ) -> Option<EvidenceKey<'a>> {
        match self {
            Self::Inode => stat.map(|stat| (sha256, Some((stat.device, stat.inode, stat.modified_ns)), None)),
            Self::FileName => (bytes > 0).then(|| (sha256, None, Some(base_name(path)))),
            Self::Bytes => (bytes > 0).then_some((sha256, None, None)),
        }
    }
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn new_id(
    source: &SourceId,
    file: &FileSeen,
    name: Option<&str>,
    taken: &BTreeSet<DocumentId>,
) -> DocumentId {
    let named = name.map(|name| DocumentId::named(source, name));
    let unnamed = (0..).map(|earlier| DocumentId::at_first_sight(source, &file.path, earlier));
    named
        .into_iter()
        .chain(unnamed)
        .find(|id| !taken.contains(id))
        .expect("there are more numbers than documents")
}

fn state(source: &SourceId, id: DocumentId, revision: u64, file: &FileSeen, name: Option<&str>) -> Document {
    Document {
        source: source.clone(),
        id,
        revision,
        path: file.path.clone(),
        sha256: file.sha256,
        bytes: file.stat.size,
        content_type: content_type(&file.path).to_owned(),
        named: name.map(str::to_owned),
        removed: false,
        stat: Some(file.stat),
    }
}

fn addition(source: &SourceId, id: DocumentId, file: &FileSeen, name: Option<&str>) -> DocumentChange {
    DocumentChange { kind: ChangeKind::Added, before: None, after: state(source, id, 1, file, name) }
}

fn removal(before: &Document) -> DocumentChange {
    let after = Document { revision: before.revision + 1, removed: true, stat: None, ..before.clone() };
    DocumentChange { kind: ChangeKind::Removed, before: Some(before.clone()), after }
}

fn change(before: &Document, file: &FileSeen, name: Option<&str>) -> Option<DocumentChange> {
    let kind = if before.removed {
        ChangeKind::Added
    } else if before.path != file.path {
        ChangeKind::Renamed
    } else if before.sha256 != file.sha256 {
        ChangeKind::Changed
    } else {
        return None;
    };
    let after = state(&before.source, before.id.clone(), before.revision + 1, file, name);
    Some(DocumentChange { kind, before: Some(before.clone()), after })
}

/// Orders renames so that a document leaves a path before another one arrives there; rings stay together.
fn in_free_order(renames: Vec<DocumentChange>) -> Vec<ChangeGroup> {
    let from = |rename: &DocumentChange| rename.before.as_ref().map(|before| before.path.clone());
    let leaving: BTreeMap<String, usize> =
        renames.iter().enumerate().filter_map(|(index, rename)| Some((from(rename)?, index))).collect();
    let blocker: Vec<Option<usize>> =
        renames.iter().map(|rename| leaving.get(&rename.after.path).copied()).collect();
    let mut renames: Vec<Option<DocumentChange>> = renames.into_iter().map(Some).collect();
    let mut groups = Vec::with_capacity(renames.len());
    for first in 0..renames.len() {
        let (mut chain, mut next) = (Vec::new(), Some(first));
        while let Some(rename) = next.and_then(|index| renames[index].take()) {
            chain.push(rename);
            next = next.and_then(|index| blocker[index]);
        }
        // It ended at a free path, at a place already made free, or where it began.
        let ring = next == Some(first) && !chain.is_empty();
        chain.reverse();
        if ring {
            groups.push(ChangeGroup::new(chain));
        } else {
            groups.extend(chain.into_iter().map(|rename| ChangeGroup::new(vec![rename])));
        }
    }
    groups
}

#[cfg(test)]
mod tests;
