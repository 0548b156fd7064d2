//! Says when to look again. Only ever a hint: what changed is found by looking.
//!
//! Each directory that a scan listed is watched by itself, so that ignored ones cost nothing and no link is
//! followed. After new directories were put under watch another look is due, since something may have
//! happened in them between the scan and the watch. Where the kernel's queue overflowed, a watch was lost or
//! no more can be had, the regular scans find what the watcher does not say, more often than otherwise, and
//! an incident says so.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::producer::Incident;
use super::rules::Selection;

/// More vanished paths than this between two scans: every watch is set anew.
const LOST_PATHS_MAX: usize = 4096;

/// What can go wrong with watching: not at all, too many directories, a directory that cannot be, signs that were lost.
pub(super) const WATCH_CODES: [&str; 4] =
    ["watch-unavailable", "watch-limit", "watch-failed", "watch-overflow"];

/// How a source is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchSettings {
    /// A look waits until nothing happened for this long: an editor saves in several steps.
    pub quiet: Duration,
    /// But not longer than this after the first sign: some files never rest.
    pub quiet_max: Duration,
    /// Without any sign a look is due this often.
    pub period: Duration,
    /// The same while the watcher cannot be relied on.
    pub period_unwatched: Duration,
    /// The most directories put under watch; the kernel's own limit is shared with the person's other programs.
    pub directories_max: usize,
}

impl Default for WatchSettings {
    fn default() -> Self {
        Self {
            quiet: Duration::from_millis(300),
            quiet_max: Duration::from_secs(3),
            period: Duration::from_secs(60),
            period_unwatched: Duration::from_secs(10),
            directories_max: 16_384,
        }
    }
}

/// Why a look is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Something happened, and it is quiet now or has gone on for long enough.
    Changed,
    /// The time has come.
    Due,
}

/// What the watching thread has seen since the last scan.
#[derive(Debug, Default)]
struct Signs {
    dirty: bool,
    overflowed: bool,
    failed: bool,
    /// Paths that were removed or renamed: a watch at or below them may be gone.
    lost: BTreeSet<PathBuf>,
    all_lost: bool,
    unwatched: bool,
}

#[derive(Debug, Default)]
struct Shared {
    signs: Mutex<Signs>,
    wake: Notify,
}

impl Shared {
    fn signs(&self) -> MutexGuard<'_, Signs> {
        self.signs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mark_dirty(&self) {
        self.signs().dirty = true;
        self.wake.notify_one();
    }
}

/// Takes in what the kernel says, on the watcher's own thread.
struct Ear {
    shared: Arc<Shared>,
    root: PathBuf,
    selection: Selection,
}

impl Ear {
    fn hear(&self, event: notify::Result<Event>) {
        let mut signs = self.shared.signs();
        match event {
            Err(_) => signs.failed = true,
            Ok(event) if event.need_rescan() => {
                signs.overflowed = true;
                signs.all_lost = true;
            }
            Ok(event) if !self.concerns_us(&event) => return,
            Ok(event) => {
                if matches!(event.kind, EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_))) {
                    signs.lost.extend(event.paths);
                }
                if signs.lost.len() > LOST_PATHS_MAX {
                    signs.all_lost = true;
                    signs.lost.clear();
                }
            }
        }
        signs.dirty = true;
        drop(signs);
        self.shared.wake.notify_one();
    }

    /// Our own scans open and close files: an event that only says so must not cause the next scan.
    fn concerns_us(&self, event: &Event) -> bool {
        let read_only = match event.kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write)) => false,
            EventKind::Access(_) => true,
            EventKind::Any
            | EventKind::Create(_)
            | EventKind::Modify(_)
            | EventKind::Remove(_)
            | EventKind::Other => false,
        };
        !read_only && (event.paths.is_empty() || event.paths.iter().any(|path| self.is_taken(path)))
    }

    fn is_taken(&self, path: &Path) -> bool {
        match path.strip_prefix(&self.root).map(Path::to_str) {
            Ok(Some(below)) => below.is_empty() || self.selection.enters(below),
            // A name that is not text, or a path we do not understand: look rather than miss something.
            Ok(None) | Err(_) => true,
        }
    }
}

/// Puts single directories under watch.
trait Kernel: Send + Sync {
    fn watch(&mut self, directory: &Path) -> notify::Result<()>;
    fn unwatch(&mut self, directory: &Path);
}

impl Kernel for RecommendedWatcher {
    fn watch(&mut self, directory: &Path) -> notify::Result<()> {
        Watcher::watch(self, directory, RecursiveMode::NonRecursive)
    }

    fn unwatch(&mut self, directory: &Path) {
        // It fails for a directory that is gone, whose watch went with it.
        Watcher::unwatch(self, directory).ok();
    }
}

/// Keeps the directories of one source under watch. Dropping it ends the watching.
pub struct Watch {
    root: PathBuf,
    settings: WatchSettings,
    shared: Arc<Shared>,
    kernel: Option<Box<dyn Kernel>>,
    watched: BTreeSet<String>,
    open: BTreeSet<&'static str>,
}

/// Waits for the next look at one source.
pub struct Hints {
    settings: WatchSettings,
    shared: Arc<Shared>,
}

impl Watch {
    /// Starts watching for `root`; no directory is under watch before [`Watch::follow`].
    ///
    /// A watcher that cannot be had is no error: [`Watch::follow`] says so, and the regular scans go on.
    #[must_use]
    pub fn start(root: &Path, selection: &Selection, settings: WatchSettings) -> (Self, Hints) {
        Self::with(root, selection, settings, |ear| {
            let config = notify::Config::default().with_follow_symlinks(false);
            let watcher = RecommendedWatcher::new(move |event| ear.hear(event), config);
            watcher.ok().map(|watcher| Box::new(watcher) as Box<dyn Kernel>)
        })
    }

    fn with(
        root: &Path,
        selection: &Selection,
        settings: WatchSettings,
        kernel: impl FnOnce(Ear) -> Option<Box<dyn Kernel>>,
    ) -> (Self, Hints) {
        let shared = Arc::new(Shared::default());
        let root = root.to_owned();
        let ear = Ear { shared: Arc::clone(&shared), root: root.clone(), selection: selection.clone() };
        let kernel = kernel(ear);
        shared.signs().unwatched = kernel.is_none();
        let hints = Hints { settings, shared: Arc::clone(&shared) };
        let watch = Self { root, settings, shared, kernel, watched: BTreeSet::new(), open: BTreeSet::new() };
        (watch, hints)
    }

    /// Watches exactly the directories that a scan listed, as far as that can be had, and says what became
    /// worse or better. To be called after each scan; asks the kernel once for each directory that is new.
    pub fn follow(&mut self, directories: &BTreeSet<String>) -> Vec<Incident> {
        let signs = {
            let mut signs = self.shared.signs();
            let kept = Signs { dirty: signs.dirty, unwatched: signs.unwatched, ..Signs::default() };
            std::mem::replace(&mut *signs, kept)
        };
        self.forget(directories, &signs);
        let (added, refused) = self.add(directories);
        let unwatched = self.kernel.is_none() || refused.is_some();
        self.shared.signs().unwatched = unwatched;
        if added > 0 {
            self.shared.mark_dirty();
        }
        let (watched, wanted) = (self.watched.len(), directories.len());
        let count =
            format!("{watched} of {wanted} directories are watched; the others are scanned regularly");
        let mut incidents = Vec::new();
        let [unavailable, limit, watch_failed, overflow] = WATCH_CODES;
        self.report(unavailable, self.kernel.is_none(), &count, &mut incidents);
        self.report(limit, refused == Some(Refused::Limit), &count, &mut incidents);
        let failed = signs.failed || refused == Some(Refused::Failed);
        self.report(watch_failed, failed, &count, &mut incidents);
        let lost = "notifications were lost; all was scanned";
        self.report(overflow, signs.overflowed, lost, &mut incidents);
        incidents
    }

    /// Returns how many directories are under watch.
    #[must_use]
    pub fn watched(&self) -> usize {
        self.watched.len()
    }

    /// Lets go of directories that are not there any more, or whose watch may have gone with a removal or
    /// rename. Before others are added: the kernel knows a directory by its inode, and a renamed one would be
    /// let go under its new name.
    fn forget(&mut self, directories: &BTreeSet<String>, signs: &Signs) {
        let Some(kernel) = &mut self.kernel else { return };
        let root = &self.root;
        self.watched.retain(|directory| {
            let path = root.join(directory);
            let lost = signs.all_lost || path.ancestors().any(|above| signs.lost.contains(above));
            let keep = directories.contains(directory) && !lost;
            if !keep {
                kernel.unwatch(&path);
            }
            keep
        });
    }

    /// Watches what is not watched yet. Returns how many were added, and why it stopped.
    fn add(&mut self, directories: &BTreeSet<String>) -> (usize, Option<Refused>) {
        let Some(kernel) = &mut self.kernel else { return (0, None) };
        let (mut added, mut refused) = (0, None);
        for directory in directories {
            if self.watched.contains(directory) {
                continue;
            }
            if self.watched.len() >= self.settings.directories_max {
                return (added, Some(Refused::Limit));
            }
            match kernel.watch(&self.root.join(directory)) {
                Ok(()) => {
                    added += 1;
                    self.watched.insert(directory.clone());
                }
                Err(error) => match refusal(&error) {
                    // Gone since the scan: the event of its removal, or the next scan, will tell.
                    None => {}
                    Some(Refused::Limit) => return (added, Some(Refused::Limit)),
                    Some(Refused::Failed) => refused = Some(Refused::Failed),
                },
            }
        }
        (added, refused)
    }

    fn report(&mut self, code: &'static str, holds: bool, detail: &str, incidents: &mut Vec<Incident>) {
        let changed = if holds { self.open.insert(code) } else { self.open.remove(code) };
        if changed {
            incidents.push(Incident { code, detail: detail.to_owned(), over: !holds });
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refused {
    Limit,
    Failed,
}

fn refusal(error: &notify::Error) -> Option<Refused> {
    match &error.kind {
        notify::ErrorKind::MaxFilesWatch => Some(Refused::Limit),
        notify::ErrorKind::PathNotFound => None,
        notify::ErrorKind::Io(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        notify::ErrorKind::Io(_)
        | notify::ErrorKind::Generic(_)
        | notify::ErrorKind::WatchNotFound
        | notify::ErrorKind::InvalidConfig(_) => Some(Refused::Failed),
    }
}

impl Hints {
    /// Waits until a look is due, at most for `within` if given, else for the regular period.
    ///
    /// May be dropped and called again at any time; a sign is forgotten only by returning.
    pub async fn next(&mut self, within: Option<Duration>) -> Look {
        let started = Instant::now();
        let period =
            if self.shared.signs().unwatched { self.settings.period_unwatched } else { self.settings.period };
        let due = started + within.map_or(period, |within| within.min(period));
        loop {
            if self.shared.signs().dirty {
                self.settle().await;
                self.shared.signs().dirty = false;
                return Look::Changed;
            }
            tokio::select! {
                () = self.shared.wake.notified() => {}
                () = sleep_until(due) => return Look::Due,
            }
        }
    }

    /// Waits until no sign has come for a while, or signs have come for too long.
    async fn settle(&self) {
        let latest = Instant::now() + self.settings.quiet_max;
        loop {
            let quiet = (Instant::now() + self.settings.quiet).min(latest);
            tokio::select! {
                () = self.shared.wake.notified() => {}
                () = sleep_until(quiet) => return,
            }
            if Instant::now() >= latest {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
