//! Decides what of a scan may be said now and what has to wait.
//!
//! No actor and no clock: an actor scans ([`look`]), hands the scan to [`FilesystemProducer::step`], commits
//! the changes one after the other and tells each acknowledgement to [`FilesystemProducer::committed`]. A
//! change that was not committed is simply found again by the next step, and an edit made while the service
//! was down by the first one: the documents it starts from are the log's.
//!
//! # When a document counts as removed
//!
//! - Where the scan could not look, never.
//! - If another document lies at its path, at once.
//! - If a directory above it was in motion during the scan, when a second scan misses it too: editors that
//!   save by deleting and creating, and files on the move, are gone for moments only.
//! - If *everything* is missing, or more than the rule's share and at least its number of documents, then the
//!   removals are held as an incident. The default rule believes them when a later scan, at least
//!   [`RemovalRule::second_look_after_ns`] later, misses the same documents; the stricter one waits for a
//!   person. Always a person is asked if the root is another directory than before, and if everything is
//!   missing at the first look after a start: nobody saw it happen, and an unmounted disk looks just so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thoughtstream_domain::commit::{Document, FileStat};
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::{DocumentId, SourceId};

use super::change::ChangeGroup;
use super::diff::{Documents, Duplicate, Matching, matching};
use super::name;
use super::named::frontmatter_id;
use super::root::{Root, RootIdentity, RootIncident};
use super::rules::ScanRules;
use super::scan::{self, Scan, ScanError, ScanInput, Skip, SkipReason, SkipReport};
use super::watch::WATCH_CODES;

/// What a held removal needs before it is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirm {
    /// A later scan that misses the same documents.
    SecondLook,
    /// A person.
    Person,
}

/// When removals are so many that they are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemovalRule {
    /// More than this share of the live documents, in percent …
    pub share_percent_max: u8,
    /// … and at least this many.
    pub documents_min: usize,
    /// What they need then.
    pub confirm: Confirm,
    /// How long after the first look the second one counts.
    pub second_look_after_ns: i64,
}

impl Default for RemovalRule {
    fn default() -> Self {
        Self {
            share_percent_max: 50,
            documents_min: 20,
            confirm: Confirm::SecondLook,
            second_look_after_ns: 30_000_000_000,
        }
    }
}

/// Removals that wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The missing documents.
    pub documents: BTreeSet<DocumentId>,
    /// What they wait for.
    pub confirm: Confirm,
    /// When the scan that missed them began, in nanoseconds since 1970.
    pub since_ns: i64,
}

/// Something outside that is not as it should be, or is so again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incident {
    /// Which, as programs see it.
    pub code: &'static str,
    /// Counts and bounds; no names and no content.
    pub detail: String,
    /// Whether it is over.
    pub over: bool,
}

/// When the next scan is wanted, besides the watcher's and the regular ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LookAgain {
    /// There is no reason.
    NotNeeded,
    /// Removals are held for a second look: after [`RemovalRule::second_look_after_ns`].
    Later,
    /// Something was in motion: within seconds.
    Soon,
}

/// What follows from one scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The changes, to be committed in this order, each acknowledged before the next.
    pub changes: Vec<ChangeGroup>,
    /// Documents whose file looks different though its content is the same; rows, not events.
    pub stats: Vec<(DocumentId, FileStat)>,
    /// What began and what ended.
    pub incidents: Vec<Incident>,
    /// When to scan again.
    pub look_again: LookAgain,
}

/// The documents of a source as the log knows them, cheap to clone for a scan on another thread.
#[derive(Debug, Clone, Default)]
pub struct Known(Arc<KnownDocuments>);

#[derive(Debug, Clone, Default)]
struct KnownDocuments {
    documents: Documents,
    live: BTreeMap<String, DocumentId>,
}

impl Known {
    /// Returns the live document at `path`.
    #[must_use]
    pub fn at(&self, path: &str) -> Option<&Document> {
        self.0.documents.get(self.0.live.get(path)?)
    }

    /// Returns how many documents are live.
    #[must_use]
    pub fn live(&self) -> usize {
        self.0.documents.values().filter(|document| !document.removed).count()
    }

    fn put(&mut self, document: Document) {
        let known = Arc::make_mut(&mut self.0);
        if let Some(before) = known.documents.get(&document.id)
            && known.live.get(&before.path) == Some(&before.id)
        {
            known.live.remove(&before.path);
        }
        if !document.removed {
            known.live.insert(document.path.clone(), document.id.clone());
        }
        known.documents.insert(document.id.clone(), document);
    }

    fn put_stat(&mut self, id: &DocumentId, stat: FileStat) {
        if let Some(document) = Arc::make_mut(&mut self.0).documents.get_mut(id) {
            document.stat = Some(stat);
        }
    }
}

/// Scans `root` against what is known. Blocks on the disk: call it where blocking is allowed.
///
/// # Errors
///
/// As [`scan::scan`].
pub fn look(root: &Root, rules: &ScanRules, known: &Known, now_ns: i64) -> Result<Scan, ScanError> {
    let input = ScanInput { rules, now_ns, known: &|path| known.at(path), named: &frontmatter_id };
    scan::scan(root, &input)
}

/// The state of one source between scans.
#[derive(Debug)]
pub struct FilesystemProducer {
    source: SourceId,
    rule: RemovalRule,
    known: Known,
    /// The root of the last scan after which nothing was held.
    root: Option<RootIdentity>,
    /// What the last scan missed.
    missed: BTreeSet<DocumentId>,
    held: Option<Held>,
    acknowledged: BTreeSet<DocumentId>,
    /// Files whose name is not used: a file that is not read again does not say so again.
    duplicates: BTreeMap<String, Double>,
    incidents: BTreeMap<&'static str, String>,
}

/// Is a file whose name is not used, as it was read last.
#[derive(Debug)]
struct Double {
    name: String,
    sha256: Sha256Hash,
    /// The path of the file that had the name then.
    owner: Option<String>,
}

impl FilesystemProducer {
    /// Starts from the documents the log knows for `source`, removed ones included.
    #[must_use]
    pub fn resume(
        source: SourceId,
        documents: impl IntoIterator<Item = Document>,
        rule: RemovalRule,
    ) -> Self {
        let mut known = Known::default();
        for document in documents {
            known.put(document);
        }
        Self {
            source,
            rule,
            known,
            root: None,
            missed: BTreeSet::new(),
            held: None,
            acknowledged: BTreeSet::new(),
            duplicates: BTreeMap::new(),
            incidents: BTreeMap::new(),
        }
    }

    /// Returns what is known, for the next [`look`].
    #[must_use]
    pub fn known(&self) -> Known {
        self.known.clone()
    }

    /// Returns the removals that wait.
    #[must_use]
    pub fn held(&self) -> Option<&Held> {
        self.held.as_ref()
    }

    /// Returns what the last look skipped, with the files whose id is not used named as well, and who has it.
    #[must_use]
    pub fn report_of(&self, scan: &Scan) -> SkipReport {
        let mut report = scan.skipped.clone();
        if self.duplicates.is_empty() {
            return report;
        }
        let live = self.known.0.documents.values().filter(|document| !document.removed);
        let named = live.filter_map(|document| Some((document.named.as_deref()?, document.path.as_str())));
        let owners: BTreeMap<&str, &str> = named.collect();
        for (path, double) in &self.duplicates {
            // An owner that is as new as its double is not known yet.
            let owner = owners.get(double.name.as_str()).copied().or(double.owner.as_deref());
            let owner = owner.map(|owner| name::shown(owner.as_bytes()));
            let shown = name::shown(path.as_bytes());
            report.add(Skip { shown, reason: SkipReason::DuplicateId, bytes: None, owner });
        }
        report
    }

    /// Lets the held removals pass at the next step, because a person said so. Returns how many.
    pub fn acknowledge_removals(&mut self) -> usize {
        self.acknowledged = self.held.as_ref().map(|held| held.documents.clone()).unwrap_or_default();
        self.acknowledged.len()
    }

    /// Decides what follows from a scan.
    pub fn step(&mut self, scan: &Scan) -> Step {
        let known = self.known.clone();
        let source = self.source.clone();
        let matching = matching(&source, &known.0.documents, scan);
        let mut incidents = Vec::new();
        for code in ROOT_CODES {
            self.report(code, None, &mut incidents);
        }
        let (removals, moving) = self.removals(&matching, scan, known.live());
        let held = self.held.as_ref().map(|held| held_detail(held, known.live()));
        self.report(REMOVALS_HELD, held, &mut incidents);
        self.keep_duplicates(&matching, scan);
        let duplicates = self.duplicates.len();
        let duplicates = (duplicates > 0).then(|| match duplicates {
            1 => "1 file names an id that another file has".to_owned(),
            many => format!("{many} files name an id that another file has"),
        });
        self.report(DUPLICATE_ID, duplicates, &mut incidents);
        for (code, reasons) in SKIP_CODES {
            self.report(code, skip_detail(scan, reasons), &mut incidents);
        }
        let unstable = scan.skipped.counts.contains_key(&SkipReason::Unstable);
        let second_look = self.held.as_ref().is_some_and(|held| held.confirm == Confirm::SecondLook);
        let look_again = if moving || unstable {
            LookAgain::Soon
        } else if second_look {
            LookAgain::Later
        } else {
            LookAgain::NotNeeded
        };
        Step { changes: matching.changes(&removals), stats: matching.stats(), incidents, look_again }
    }

    /// Decides what follows from a scan that came to no result: an incident, and no change.
    pub fn step_without_scan(&mut self, error: &ScanError) -> Step {
        let mut incidents = Vec::new();
        let code = error_code(error);
        for other in ROOT_CODES.into_iter().filter(|other| *other != code) {
            self.report(other, None, &mut incidents);
        }
        self.report(code, Some(error.to_string()), &mut incidents);
        Step { changes: Vec::new(), stats: Vec::new(), incidents, look_again: LookAgain::NotNeeded }
    }

    /// Takes over changes that the log has acknowledged.
    pub fn committed(&mut self, group: &ChangeGroup) {
        for change in group.changes() {
            self.known.put(change.after.clone());
        }
    }

    /// Takes over what a document's file looks like.
    pub fn stat_kept(&mut self, id: &DocumentId, stat: FileStat) {
        self.known.put_stat(id, stat);
    }

    fn keep_duplicates(&mut self, matching: &Matching<'_>, scan: &Scan) {
        let seen: BTreeMap<&str, &Sha256Hash> =
            scan.files.iter().map(|file| (file.path.as_str(), &file.sha256)).collect();
        let owned: BTreeSet<&str> = matching.names().collect();
        self.duplicates.retain(|path, double| {
            seen.get(path.as_str()) == Some(&&double.sha256) && owned.contains(double.name.as_str())
        });
        for duplicate in &matching.duplicates {
            if let Some(&&sha256) = seen.get(duplicate.other.as_str()) {
                let Duplicate { name, owner, other } = duplicate.clone();
                self.duplicates.insert(other, Double { name, sha256, owner });
            }
        }
    }

    /// Returns the removals to believe, and whether others wait for things to come to rest.
    fn removals(
        &mut self,
        matching: &Matching<'_>,
        scan: &Scan,
        live: usize,
    ) -> (BTreeSet<DocumentId>, bool) {
        let another_root = self.root.is_some_and(|root| root != scan.root);
        let (mut certain, mut asked, mut moving) = (BTreeSet::new(), BTreeSet::new(), 0);
        for (id, missing) in &matching.missing {
            if missing.displaced {
                certain.insert(id.clone());
            } else if missing.restless && !self.missed.contains(id) {
                moving += 1;
            } else {
                asked.insert(id.clone());
            }
        }
        self.missed = matching.missing.keys().cloned().collect();
        let missing = asked.len() + moving;
        let confirm = if asked.is_empty() {
            None
        } else if another_root || (scan.files.is_empty() && self.root.is_none()) {
            Some(Confirm::Person)
        } else if scan.files.is_empty() || self.is_mass(missing, live) {
            Some(self.rule.confirm)
        } else {
            None
        };
        let confirm = confirm.filter(|&confirm| !self.is_confirmed(confirm, &asked, scan));
        match confirm {
            None => {
                certain.append(&mut asked);
                self.held = None;
                self.acknowledged.clear();
                if moving == 0 {
                    self.root = Some(scan.root);
                }
            }
            Some(confirm) => self.hold(asked, confirm, scan.began_ns),
        }
        (certain, moving > 0)
    }

    fn is_mass(&self, missing: usize, live: usize) -> bool {
        let share = u128::from(self.rule.share_percent_max) * live as u128;
        missing >= self.rule.documents_min && missing as u128 * 100 > share
    }

    fn is_confirmed(&self, confirm: Confirm, asked: &BTreeSet<DocumentId>, scan: &Scan) -> bool {
        if asked.is_subset(&self.acknowledged) {
            return true;
        }
        confirm == Confirm::SecondLook
            && self.held.as_ref().is_some_and(|held| {
                let waited_ns = scan.began_ns.saturating_sub(held.since_ns);
                asked.is_subset(&held.documents) && waited_ns >= self.rule.second_look_after_ns
            })
    }

    /// Holds removals; the wait goes on if they are the ones already held, and starts again otherwise.
    fn hold(&mut self, documents: BTreeSet<DocumentId>, confirm: Confirm, now_ns: i64) {
        let since_ns = match &self.held {
            // A clock that was set back must not make the wait longer than it is.
            Some(held) if documents.is_subset(&held.documents) => held.since_ns.min(now_ns),
            Some(_) | None => now_ns,
        };
        self.held = Some(Held { documents, confirm, since_ns });
    }

    /// Tells when an incident begins or ends; one that goes on is not told again.
    fn report(&mut self, code: &'static str, detail: Option<String>, incidents: &mut Vec<Incident>) {
        match detail {
            Some(detail) => {
                if self.incidents.insert(code, detail.clone()).is_none() {
                    incidents.push(Incident { code, detail, over: false });
                }
            }
            None => {
                if let Some(detail) = self.incidents.remove(code) {
                    incidents.push(Incident { code, detail, over: true });
                }
            }
        }
    }
}

/// Scans that come to no result.
const ROOT_CODES: [&str; 7] = [
    "root-missing",
    "root-replaced",
    "root-not-a-directory",
    "root-overlaps-data",
    "root-unreadable",
    "too-many-files",
    "too-many-entries",
];

/// What files say of each other, and documents that are missing.
const MATCHING_CODES: [&str; 2] = [REMOVALS_HELD, DUPLICATE_ID];

/// The code of the incident in which removals wait.
const REMOVALS_HELD: &str = "removals-held";

/// The code of the incident in which several files name one id.
pub const DUPLICATE_ID: &str = "duplicate-id";

fn error_code(error: &ScanError) -> &'static str {
    match error {
        ScanError::Root(RootIncident::Missing) => "root-missing",
        ScanError::Root(RootIncident::Replaced) => "root-replaced",
        ScanError::Root(RootIncident::NotADirectory) => "root-not-a-directory",
        ScanError::Root(RootIncident::OverlapsData) => "root-overlaps-data",
        ScanError::Root(RootIncident::Unreadable(_)) => "root-unreadable",
        ScanError::TooManyFiles { .. } => "too-many-files",
        ScanError::TooManyEntries { .. } => "too-many-entries",
    }
}

/// Skipped files that a person should hear about. Links, pipes and keys are skipped by design, and a file
/// that is being written is read by the next scan.
const SKIP_CODES: [(&str, &[SkipReason]); 3] = [
    (
        "files-unread",
        &[SkipReason::TooLarge, SkipReason::Denied, SkipReason::Unreadable, SkipReason::OtherFilesystem],
    ),
    ("names-refused", &[SkipReason::NameNotUtf8, SkipReason::NameHostile]),
    ("path-bounds", &[SkipReason::PathTooLong, SkipReason::TooDeep]),
];

/// Returns the code of the incident in which a file skipped for `reason` counts, if it counts in any.
#[must_use]
pub fn incident_of_skip(reason: SkipReason) -> Option<&'static str> {
    if reason == SkipReason::DuplicateId {
        return Some(DUPLICATE_ID);
    }
    SKIP_CODES.into_iter().find(|(_, reasons)| reasons.contains(&reason)).map(|(code, _)| code)
}

/// Returns whether the incident `code` is about files that were skipped, which a person can ask for by name.
#[must_use]
pub fn is_about_skips(code: &str) -> bool {
    SKIP_CODES.into_iter().any(|(other, _)| other == code)
}

/// Returns whether the incident `code` is about the folder as a whole: a source has one such incident at a time.
#[must_use]
pub fn is_about_root(code: &str) -> bool {
    ROOT_CODES.contains(&code)
}

/// Finds the incident of this code among those that a folder can have.
#[must_use]
pub fn incident_code(code: &str) -> Option<&'static str> {
    let skips = SKIP_CODES.into_iter().map(|(code, _)| code);
    let all = ROOT_CODES.into_iter().chain(skips).chain(MATCHING_CODES).chain(WATCH_CODES);
    all.into_iter().find(|known| *known == code)
}

fn skip_detail(scan: &Scan, reasons: &[SkipReason]) -> Option<String> {
    let counted = reasons.iter().filter_map(|reason| {
        let count = scan.skipped.counts.get(reason)?;
        Some(format!("{} {count}", reason.code()))
    });
    let counted: Vec<String> = counted.collect();
    (!counted.is_empty()).then(|| counted.join(", "))
}

fn held_detail(held: &Held, live: usize) -> String {
    let missing = held.documents.len();
    let wait = match held.confirm {
        Confirm::SecondLook => "a later scan has to confirm it",
        Confirm::Person => "a person has to confirm it",
    };
    format!("{missing} of {live} documents are missing; {wait}")
}

#[cfg(test)]
mod tests;
