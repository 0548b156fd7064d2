use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Child, Command, Stdio};

use nix::unistd::mkfifo;

use super::*;

const NAME: &str = "service";

fn record_path(dir: &Path) -> PathBuf {
    dir.join("service.owner")
}

fn write_record(dir: &Path, process: ProcessIdentity) -> OwnerRecord {
    let owner = OwnerRecord {
        kind: OwnerKind::Command,
        process,
        since_ms: 17,
        draining: None,
        token: Some(OwnerToken([5; 16])),
    };
    fs::write(record_path(dir), owner.to_text()).unwrap();
    owner
}

/// A process that lives until its standard input is closed.
struct Living(Child);

impl Living {
    fn start() -> Self {
        Self(Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
    }

    fn identity(&self) -> ProcessIdentity {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        let start = stat.rsplit(')').next().unwrap().split_whitespace().nth(19).unwrap().parse().unwrap();
        ProcessIdentity { pid: self.0.id(), start_ticks: start, ..ProcessIdentity::current().unwrap() }
    }
}

impl Drop for Living {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

#[test]
fn a_second_owner_is_told_who_is_first_and_since_when() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(look(dir.path(), NAME).unwrap(), Holding::Free);
    let first = OwnerLock::acquire(dir.path(), NAME, OwnerKind::Service, 1_700_000_000_123).unwrap();
    assert!(first.reclaimed().is_none());
    let error = OwnerLock::acquire(dir.path(), NAME, OwnerKind::Service, 2).unwrap_err();
    let text = error.to_string();
    let LockError::Held { owner, .. } = error else { panic!("{error:?}") };
    assert_eq!(&owner, first.owner());
    assert!(text.contains(&format!("process {} since 1700000000123", std::process::id())), "{text}");
    assert_eq!(look(dir.path(), NAME).unwrap(), Holding::Held(Some(owner)));
    drop(first);
    assert_eq!(look(dir.path(), NAME).unwrap(), Holding::Free);
    assert!(OwnerLock::acquire(dir.path(), NAME, OwnerKind::Service, 3).unwrap().reclaimed().is_none());
}

#[test]
fn another_name_in_the_same_directory_is_another_lock() {
    let dir = tempfile::tempdir().unwrap();
    let _first = OwnerLock::acquire(dir.path(), NAME, OwnerKind::Service, 1).unwrap();
    OwnerLock::acquire(dir.path(), "materializer", OwnerKind::Service, 1).unwrap();
}

#[test]
fn of_many_at_once_exactly_one_becomes_owner() {
    let dir = tempfile::tempdir().unwrap();
    let start = std::sync::Barrier::new(8);
    let results: Vec<_> = std::thread::scope(|scope| {
        let take = || {
            start.wait();
            OwnerLock::acquire(dir.path(), NAME, OwnerKind::Service, 1)
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(take)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    assert!(
        results
            .iter()
            .flat_map(|result| result.as_ref().err())
            .all(|error| matches!(error, LockError::Held { .. } | LockError::HeldByUnknown { .. }))
    );
}

#[test]
fn a_record_of_a_recycled_number_an_earlier_boot_or_a_dead_process_is_reclaimed() {
    let dir = tempfile::tempdir().unwrap();
    let living = Living::start();
    let here = living.identity();
    let dead = {
        let short = Living::start();
        short.identity()
    };
    for (process, presence) in [
        (ProcessIdentity { start_ticks: here.start_ticks + 1, ..here.clone() }, Presence::Recycled),
        (ProcessIdentity { boot: "0000".to_owned(), ..here }, Presence::EarlierBoot),
        (dead, Presence::Gone),
    ] {
        let owner = write_record(dir.path(), process);
        let lock = OwnerLock::acquire(dir.path(), NAME, OwnerKind::Service, 18).unwrap();
        assert_eq!(lock.reclaimed(), Some(&Reclaimed { owner, presence }));
        assert_eq!(lock.owner().since_ms, 18);
    }
}

#[test]
fn a_living_owner_whose_lock_file_was_removed_is_not_robbed() {
    let dir = tempfile::tempdir().unwrap();
    let living = Living::start();
    let owner = write_record(dir.path(), living.identity());
    let error = OwnerLock::acquire(dir.path(), NAME, OwnerKind::Service, 1).unwrap_err();
    assert!(matches!(&error, LockError::OwnerLives { owner: named, .. } if *named == owner), "{error:?}");
    assert_eq!(fs::read_to_string(record_path(dir.path())).unwrap(), owner.to_text());
}

#[test]
fn a_damaged_record_fails_closed_wherever_it_is_cut() {
    let dir = tempfile::tempdir().unwrap();
    let whole = write_record(dir.path(), ProcessIdentity::current().unwrap()).to_text();
    for length in 0..whole.len() {
        fs::write(record_path(dir.path()), &whole[..length]).unwrap();
        let error = OwnerLock::acquire(dir.path(), NAME, OwnerKind::Service, 1).unwrap_err();
        assert!(matches!(error, LockError::Damaged { .. }), "{length}: {error:?}");
        assert_eq!(fs::read(record_path(dir.path())).unwrap(), &whole.as_bytes()[..length]);
    }
    for wrong in [
        whole.replace("pid ", "pid -"),
        whole.replace("start ", "start x"),
        whole.replace("owner 3", "owner 4"),
        whole.replace("owner 3", "owner 2"),
        whole.replace("token 05", "token x"),
        whole.replace("token 05", "token "),
        whole.replace("kind command", "kind materializer"),
        whole.replace("kind command", "kind guest"),
        format!("{whole}more\n"),
        "x".repeat(5000),
    ] {
        fs::write(record_path(dir.path()), wrong).unwrap();
        assert!(matches!(
            OwnerLock::acquire(dir.path(), NAME, OwnerKind::Service, 1),
            Err(LockError::Damaged { .. })
        ));
    }
}

#[test]
fn the_record_of_a_holder_that_cannot_be_believed_is_not_shown() {
    let dir = tempfile::tempdir().unwrap();
    let lock = OwnerLock::acquire(dir.path(), NAME, OwnerKind::Service, 1).unwrap();
    fs::write(record_path(dir.path()), "half").unwrap();
    assert_eq!(look(dir.path(), NAME).unwrap(), Holding::Held(None));
    assert!(matches!(
        OwnerLock::acquire(dir.path(), NAME, OwnerKind::Service, 2),
        Err(LockError::HeldByUnknown { .. })
    ));
    drop(lock);
}

#[test]
fn a_link_a_directory_or_a_pipe_in_place_of_the_lock_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("service.lock");
    symlink(dir.path().join("elsewhere"), &path).unwrap();
    assert!(matches!(
        OwnerLock::acquire(dir.path(), NAME, OwnerKind::Service, 1),
        Err(LockError::NotRegular { .. })
    ));
    assert!(!dir.path().join("elsewhere").exists());
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(matches!(
        OwnerLock::acquire(dir.path(), NAME, OwnerKind::Service, 1),
        Err(LockError::NotRegular { .. })
    ));
    fs::remove_dir(&path).unwrap();
    mkfifo(&path, Mode::S_IRWXU).unwrap();
    assert!(matches!(
        OwnerLock::acquire(dir.path(), NAME, OwnerKind::Service, 1),
        Err(LockError::NotRegular { .. })
    ));
    assert!(matches!(look(dir.path(), NAME), Err(LockError::NotRegular { .. })));
}

#[test]
fn a_lock_ends_with_its_process_and_leaves_a_note_for_the_next() {
    const HOLD: &str = "THOUGHTSTREAM_TEST_HOLD";
    if let Some(dir) = std::env::var_os(HOLD) {
        let lock = OwnerLock::acquire(Path::new(&dir), NAME, OwnerKind::Service, 41).unwrap();
        std::mem::forget(lock);
        std::process::abort();
    }
    let dir = tempfile::tempdir().unwrap();
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["lock::tests::a_lock_ends_with_its_process_and_leaves_a_note_for_the_next", "--exact"])
        .env(HOLD, dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(!status.success());
    let lock = OwnerLock::acquire(dir.path(), NAME, OwnerKind::Service, 42).unwrap();
    let reclaimed = lock.reclaimed().unwrap();
    assert_eq!((reclaimed.owner.since_ms, reclaimed.presence), (41, Presence::Gone));
}

#[test]
fn a_record_says_of_which_kind_its_owner_is() {
    let dir = tempfile::tempdir().unwrap();
    let lock = OwnerLock::acquire(dir.path(), NAME, OwnerKind::Command, 5).unwrap();
    let Err(LockError::Held { owner, .. }) = OwnerLock::acquire(dir.path(), NAME, OwnerKind::Service, 6)
    else {
        panic!("taken twice");
    };
    assert_eq!((owner.kind, owner.since_ms), (OwnerKind::Command, 5));
    drop(lock);
    // Before there were tokens.
    let older = OwnerRecord { token: None, ..owner };
    assert!(older.to_text().starts_with("thoughtstream owner 2\n"));
    assert_eq!(OwnerRecord::from_text(older.to_text().as_bytes()).unwrap(), older);
    // Before there were kinds, a record was believed to be a service's.
    let oldest = older.to_text().replace("owner 2", "owner 1").replace("kind command\n", "");
    let read = OwnerRecord::from_text(oldest.as_bytes()).unwrap();
    assert_eq!(read, OwnerRecord { kind: OwnerKind::Service, ..older.clone() });
    // There never was one without a token that may write elsewhere.
    let never = older.to_text().replace("kind command", "kind materializer");
    assert!(OwnerRecord::from_text(never.as_bytes()).is_err());
}

#[test]
fn whoever_announced_itself_is_seen_until_it_has_its_turn() {
    let dir = tempfile::tempdir().unwrap();
    let first = announce(dir.path(), "coming").unwrap();
    assert!(first.is_some());
    assert!(announce(dir.path(), "coming").unwrap().is_none());
    assert_eq!(look(dir.path(), "coming").unwrap(), Holding::Held(None));
    drop(first);
    assert_eq!(look(dir.path(), "coming").unwrap(), Holding::Free);
}

#[test]
fn many_may_visit_and_none_under_an_owner() {
    let dir = tempfile::tempdir().unwrap();
    let visits = [Visit::begin(dir.path(), NAME).unwrap(), Visit::begin(dir.path(), NAME).unwrap()];
    assert_eq!(look(dir.path(), NAME).unwrap(), Holding::Free, "a visitor owns nothing");
    assert!(!record_path(dir.path()).exists());
    let refused = OwnerLock::acquire(dir.path(), NAME, OwnerKind::Service, 1).unwrap_err();
    assert!(matches!(refused, LockError::HeldByUnknown { .. }), "{refused:?}");
    drop(visits);
    let owner = OwnerLock::acquire(dir.path(), NAME, OwnerKind::Service, 1).unwrap();
    let refused = Visit::begin(dir.path(), NAME).unwrap_err();
    assert!(matches!(refused, LockError::Held { .. }), "{refused:?}");
    drop(owner);
    Visit::begin(dir.path(), NAME).unwrap();
}

#[test]
fn a_visit_minds_the_record_and_leaves_it() {
    let dir = tempfile::tempdir().unwrap();
    let living = Living::start();
    write_record(dir.path(), living.identity());
    let refused = Visit::begin(dir.path(), NAME).unwrap_err();
    assert!(matches!(refused, LockError::OwnerLives { .. }), "{refused:?}");
    drop(living);
    let before = fs::read(record_path(dir.path())).unwrap();
    Visit::begin(dir.path(), NAME).unwrap();
    assert_eq!(fs::read(record_path(dir.path())).unwrap(), before, "the next owner reclaims it");
    fs::write(record_path(dir.path()), "nonsense").unwrap();
    assert!(matches!(Visit::begin(dir.path(), NAME), Err(LockError::Damaged { .. })));
}

#[test]
fn an_owner_on_its_way_out_says_so_and_holds_its_lock() {
    let dir = tempfile::tempdir().unwrap();
    let mut lock = OwnerLock::acquire(dir.path(), NAME, OwnerKind::Service, 17).unwrap();
    let draining = Draining { since_ms: 20, bound_ms: 3_000 };
    lock.drains(draining).unwrap();
    lock.check().unwrap();
    let Holding::Held(Some(owner)) = look(dir.path(), NAME).unwrap() else { panic!("it is held") };
    assert_eq!((owner.draining.as_deref(), owner.since_ms, &owner), (Some(&draining), 17, lock.owner()));
    let text = owner.to_text();
    for cut in 0..text.len() {
        assert!(OwnerRecord::from_text(&text.as_bytes()[..cut]).is_err(), "{cut}");
    }
    drop(lock);
    assert_eq!(look(dir.path(), NAME).unwrap(), Holding::Free);
    let next = OwnerLock::acquire(dir.path(), NAME, OwnerKind::Service, 30).unwrap();
    assert!(next.owner().draining.is_none() && next.reclaimed().is_none());
}
