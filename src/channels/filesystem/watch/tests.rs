use std::fs;
use std::io;

use notify::event::{CreateKind, DataChange, Flag, RemoveKind};

use super::*;

fn selection() -> Selection {
    Selection::new(&[], &[], true).unwrap()
}

fn set(directories: &[&str]) -> BTreeSet<String> {
    directories.iter().map(|&directory| directory.to_owned()).collect()
}

/// A kernel of the test: notes what it is asked, and refuses as told.
#[derive(Default)]
struct Asked {
    log: Vec<String>,
    refuse: Option<fn() -> notify::Error>,
}

struct FakeKernel(Arc<Mutex<Asked>>);

impl Kernel for FakeKernel {
    fn watch(&mut self, directory: &Path) -> notify::Result<()> {
        let mut asked = self.0.lock().unwrap();
        asked.log.push(format!("+{}", directory.display()));
        asked.refuse.map_or(Ok(()), |refuse| Err(refuse()))
    }

    fn unwatch(&mut self, directory: &Path) {
        self.0.lock().unwrap().log.push(format!("-{}", directory.display()));
    }
}

struct Rig {
    watch: Watch,
    hints: Hints,
    ear: Ear,
    asked: Arc<Mutex<Asked>>,
}

fn rig(settings: WatchSettings) -> Rig {
    let asked = Arc::new(Mutex::new(Asked::default()));
    let mut kept = None;
    let (watch, hints) = Watch::with(Path::new("/r"), &selection(), settings, |ear| {
        kept = Some(ear);
        Some(Box::new(FakeKernel(Arc::clone(&asked))))
    });
    Rig { watch, hints, ear: kept.unwrap(), asked }
}

impl Rig {
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap().log)
    }

    fn hear(&self, kind: EventKind, path: &str) {
        self.ear.hear(Ok(Event::new(kind).add_path(path.into())));
    }

    fn codes(&mut self, directories: &[&str]) -> Vec<(&'static str, bool)> {
        let incidents = self.watch.follow(&set(directories));
        incidents.iter().map(|incident| (incident.code, incident.over)).collect()
    }
}

const WRITTEN: EventKind = EventKind::Modify(ModifyKind::Data(DataChange::Any));

#[tokio::test(start_paused = true)]
async fn a_burst_of_signs_is_one_look_after_it_is_quiet() {
    let mut rig = rig(WatchSettings::default());
    let started = Instant::now();
    rig.hear(WRITTEN, "/r/a.md");
    rig.hear(WRITTEN, "/r/a.md");
    assert_eq!(rig.hints.next(None).await, Look::Changed);
    assert_eq!(started.elapsed(), rig.hints.settings.quiet);
    assert_eq!(rig.hints.next(None).await, Look::Due);
    assert_eq!(started.elapsed(), rig.hints.settings.quiet + rig.hints.settings.period);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_never_rests_does_not_put_the_look_off_for_ever() {
    let Rig { mut hints, ear, .. } = rig(WatchSettings::default());
    let started = Instant::now();
    let writer = tokio::spawn(async move {
        loop {
            ear.hear(Ok(Event::new(WRITTEN).add_path("/r/a.md".into())));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    assert_eq!(hints.next(None).await, Look::Changed);
    assert_eq!(started.elapsed(), hints.settings.quiet_max);
    writer.abort();
}

#[tokio::test(start_paused = true)]
async fn a_look_is_due_sooner_if_asked_for_or_if_nothing_is_watched() {
    let mut rig = rig(WatchSettings::default());
    let started = Instant::now();
    assert_eq!(rig.hints.next(Some(Duration::from_secs(2))).await, Look::Due);
    assert_eq!(started.elapsed(), Duration::from_secs(2));

    let (_watch, mut hints) = Watch::with(Path::new("/r"), &selection(), WatchSettings::default(), |_| None);
    let started = Instant::now();
    assert_eq!(hints.next(None).await, Look::Due);
    assert_eq!(started.elapsed(), hints.settings.period_unwatched);
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_given_up_loses_no_sign() {
    let mut rig = rig(WatchSettings::default());
    rig.hear(WRITTEN, "/r/a.md");
    let given_up = tokio::time::timeout(Duration::from_millis(1), rig.hints.next(None)).await;
    assert!(given_up.is_err());
    assert_eq!(rig.hints.next(None).await, Look::Changed);
}

#[tokio::test(start_paused = true)]
async fn reading_and_ignored_files_are_no_sign() {
    let mut rig = rig(WatchSettings::default());
    rig.hear(EventKind::Access(AccessKind::Open(AccessMode::Any)), "/r/a.md");
    rig.hear(EventKind::Access(AccessKind::Close(AccessMode::Read)), "/r/a.md");
    rig.hear(WRITTEN, "/r/.a.md.swp");
    rig.hear(EventKind::Create(CreateKind::File), "/r/sub/.git");
    assert_eq!(rig.hints.next(None).await, Look::Due);
    rig.hear(EventKind::Access(AccessKind::Close(AccessMode::Write)), "/r/a.md");
    assert_eq!(rig.hints.next(None).await, Look::Changed);
    rig.hear(EventKind::Remove(RemoveKind::Folder), "/r");
    assert_eq!(rig.hints.next(None).await, Look::Changed);
}

#[tokio::test(start_paused = true)]
async fn new_watches_are_followed_by_one_more_look() {
    let mut rig = rig(WatchSettings::default());
    assert_eq!(rig.codes(&["", "a"]), []);
    assert_eq!(rig.asked(), ["+/r/", "+/r/a"]);
    assert_eq!(rig.hints.next(None).await, Look::Changed);
    assert_eq!(rig.codes(&["", "a"]), []);
    assert_eq!(rig.asked(), Vec::<String>::new());
    assert_eq!(rig.hints.next(None).await, Look::Due);
}

#[test]
fn a_renamed_directory_is_let_go_before_it_is_watched_under_its_new_name() {
    let mut rig = rig(WatchSettings::default());
    rig.codes(&["", "old", "old/sub"]);
    rig.asked();
    rig.codes(&["", "new", "new/sub"]);
    assert_eq!(rig.asked(), ["-/r/old", "-/r/old/sub", "+/r/new", "+/r/new/sub"]);
}

#[test]
fn a_directory_that_was_removed_and_made_again_is_watched_again() {
    let mut rig = rig(WatchSettings::default());
    rig.codes(&["", "a", "a/sub", "ab"]);
    rig.asked();
    rig.hear(EventKind::Remove(RemoveKind::Folder), "/r/a");
    rig.codes(&["", "a", "a/sub", "ab"]);
    assert_eq!(rig.asked(), ["-/r/a", "-/r/a/sub", "+/r/a", "+/r/a/sub"]);
}

#[tokio::test(start_paused = true)]
async fn an_overflow_is_told_and_every_watch_set_anew() {
    let mut rig = rig(WatchSettings::default());
    rig.codes(&["", "a"]);
    rig.hints.next(None).await;
    rig.asked();
    rig.ear.hear(Ok(Event::new(EventKind::Other).set_flag(Flag::Rescan)));
    assert_eq!(rig.hints.next(None).await, Look::Changed);
    assert_eq!(rig.codes(&["", "a"]), [("watch-overflow", false)]);
    assert_eq!(rig.asked().len(), 4);
    assert_eq!(rig.codes(&["", "a"]), [("watch-overflow", true)]);
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_removals_is_bounded_and_sets_every_watch_anew() {
    let mut rig = rig(WatchSettings::default());
    rig.codes(&["", "a"]);
    rig.asked();
    for number in 0..2 * LOST_PATHS_MAX {
        rig.hear(EventKind::Remove(RemoveKind::File), &format!("/r/{number}"));
    }
    assert!(rig.ear.shared.signs().lost.len() <= LOST_PATHS_MAX);
    rig.codes(&["", "a"]);
    assert_eq!(rig.asked().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn at_the_kernels_limit_scans_come_more_often_until_it_is_over() {
    let mut rig = rig(WatchSettings::default());
    rig.asked.lock().unwrap().refuse = Some(|| notify::Error::new(notify::ErrorKind::MaxFilesWatch));
    assert_eq!(rig.codes(&["", "a"]), [("watch-limit", false)]);
    assert_eq!(rig.asked().len(), 1, "the first refusal ends it");
    let started = Instant::now();
    assert_eq!(rig.hints.next(None).await, Look::Due);
    assert_eq!(started.elapsed(), rig.hints.settings.period_unwatched);
    assert_eq!(rig.codes(&["", "a"]), []);
    rig.asked.lock().unwrap().refuse = None;
    assert_eq!(rig.codes(&["", "a"]), [("watch-limit", true)]);
    assert_eq!(rig.watch.watched(), 2);
}

#[test]
fn our_own_limit_and_other_failures_are_told_apart() {
    let mut rig = rig(WatchSettings { directories_max: 1, ..WatchSettings::default() });
    let incidents = rig.watch.follow(&set(&["", "a"]));
    assert_eq!(incidents.len(), 1);
    assert_eq!(incidents[0].code, "watch-limit");
    assert_eq!(incidents[0].detail, "1 of 2 directories are watched; the others are scanned regularly");

    let mut rig = self::rig(WatchSettings::default());
    rig.asked.lock().unwrap().refuse = Some(|| notify::Error::io(io::ErrorKind::PermissionDenied.into()));
    assert_eq!(rig.codes(&["", "a"]), [("watch-failed", false)]);
    rig.asked.lock().unwrap().refuse = Some(|| notify::Error::new(notify::ErrorKind::PathNotFound));
    assert_eq!(rig.codes(&["", "a"]), [("watch-failed", true)]);
}

#[test]
fn without_a_watcher_it_is_told_once() {
    let (mut watch, _hints) = Watch::with(Path::new("/r"), &selection(), WatchSettings::default(), |_| None);
    assert_eq!(watch.follow(&set(&[""]))[0].code, "watch-unavailable");
    assert_eq!(watch.follow(&set(&[""])), []);
}

/// With the real kernel; every wait ends with an event that was caused before.
#[tokio::test]
async fn the_kernel_tells_of_writes_renames_and_new_directories_and_not_of_reads() {
    let dir = tempfile::tempdir().unwrap();
    let settings = WatchSettings {
        quiet: Duration::from_millis(20),
        period: Duration::from_secs(600),
        period_unwatched: Duration::from_secs(600),
        ..WatchSettings::default()
    };
    let (mut watch, mut hints) = Watch::start(dir.path(), &selection(), settings);
    assert_eq!(watch.follow(&set(&[""])), []);
    assert_eq!(hints.next(None).await, Look::Changed, "the look after a new watch");

    fs::write(dir.path().join("a.md"), "one").unwrap();
    assert_eq!(hints.next(None).await, Look::Changed);
    fs::rename(dir.path().join("a.md"), dir.path().join("b.md")).unwrap();
    assert_eq!(hints.next(None).await, Look::Changed);
    fs::create_dir(dir.path().join("sub")).unwrap();
    assert_eq!(hints.next(None).await, Look::Changed);
    watch.follow(&set(&["", "sub"]));
    assert_eq!(hints.next(None).await, Look::Changed);
    assert_eq!(watch.watched(), 2);
    fs::write(dir.path().join("sub/c.md"), "deep").unwrap();
    assert_eq!(hints.next(None).await, Look::Changed);

    // What the writes still have to say is heard out, so that the silence after reading means something.
    while hints.next(Some(Duration::from_millis(200))).await == Look::Changed {}
    fs::read(dir.path().join("sub/c.md")).unwrap();
    fs::write(dir.path().join(".hidden"), "x").unwrap();
    assert_eq!(hints.next(Some(Duration::from_millis(200))).await, Look::Due);

    fs::remove_dir_all(dir.path().join("sub")).unwrap();
    fs::create_dir(dir.path().join("sub")).unwrap();
    assert_eq!(hints.next(None).await, Look::Changed);
    watch.follow(&set(&["", "sub"]));
    assert_eq!(hints.next(None).await, Look::Changed);
    fs::write(dir.path().join("sub/d.md"), "again").unwrap();
    assert_eq!(hints.next(None).await, Look::Changed);
}
