use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::process::Command;

use nix::unistd::{geteuid, mkfifo};

use super::*;
use crate::process::{Presence, ProcessIdentity};

const LOCK: &str = ".owner-of-this";
const DRAFT: &str = ".draft";
const READY: &str = ".ready";

struct Place {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        // What a temporary directory is called may lead through a link.
        let path = dir.path().canonicalize().unwrap().join("root");
        fs::create_dir(&path).unwrap();
        Self { _dir: dir, path }
    }

    fn with(text: &str) -> (Self, PinnedRoot) {
        let place = Self::new();
        fs::write(place.file(), text).unwrap();
        let root = PinnedRoot::open(&place.path).unwrap();
        (place, root)
    }

    fn file(&self) -> PathBuf {
        self.path.join("memory.md")
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.path).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn record(&self) -> PathBuf {
        self.path.join(format!("{LOCK}.owner"))
    }
}

fn found(text: &str) -> Found {
    Found::File(Sha256Hash::of(text.as_bytes()))
}

#[test]
fn a_root_is_a_real_directory_and_no_part_of_the_way_is_a_link() {
    let place = Place::new();
    let parent = place.path.parent().unwrap();
    PinnedRoot::open(&place.path).unwrap().check().unwrap();
    symlink(&place.path, parent.join("link")).unwrap();
    fs::create_dir(place.path.join("deep")).unwrap();
    for path in ["link", "link/", "link/.", "link/deep"] {
        let refused = PinnedRoot::open(&parent.join(path)).unwrap_err();
        assert!(
            matches!(refused, PinError::Link { .. } | PinError::NotADirectory { .. }),
            "{path}: {refused:?}"
        );
    }
    let through = PinnedRoot::open(&parent.join("link/deep")).unwrap_err();
    assert!(matches!(through, PinError::Link { .. }), "{through:?}");
    fs::write(place.file(), "").unwrap();
    assert!(matches!(PinnedRoot::open(&place.file()), Err(PinError::NotADirectory { .. })));
    assert!(matches!(PinnedRoot::open(&place.path.join("no")), Err(PinError::Missing { .. })));
    assert!(matches!(PinnedRoot::open(Path::new("relative")), Err(PinError::Missing { .. })));
    // A magic link of the kernel is one too.
    assert!(matches!(
        PinnedRoot::open(Path::new("/proc/self/cwd")),
        Err(PinError::Link { .. } | PinError::NotADirectory { .. })
    ));
}

#[test]
fn a_root_whose_path_leads_elsewhere_is_noticed_and_never_followed() {
    let (place, root) = Place::with("old");
    let aside = place.path.with_file_name("aside");
    fs::rename(&place.path, &aside).unwrap();
    assert!(matches!(root.check(), Err(PinError::Missing { .. })));
    symlink(&aside, &place.path).unwrap();
    assert!(matches!(root.check(), Err(PinError::Link { .. } | PinError::NotADirectory { .. })));
    fs::remove_file(&place.path).unwrap();
    fs::create_dir(&place.path).unwrap();
    assert!(matches!(root.check(), Err(PinError::Replaced { .. })));
    // What is done goes to the directory that was opened.
    root.prepare(DRAFT, READY, b"new").unwrap();
    root.exchange("memory.md", READY).unwrap();
    assert_eq!(fs::read_to_string(aside.join("memory.md")).unwrap(), "new");
    assert!(place.names().is_empty());
}

#[test]
fn a_file_is_read_whole_within_a_bound_and_nothing_else_is() {
    let (place, root) = Place::with("four");
    let file = root.read("memory.md", 4).unwrap();
    assert_eq!((file.bytes.reveal().as_slice(), file.sha256), (&b"four"[..], Sha256Hash::of(b"four")));
    assert!(!format!("{file:?}").contains("four"), "content never prints");
    assert!(matches!(root.read("memory.md", 3), Err(FileError::TooLarge { bytes_max: 3 })));
    assert_eq!(root.find("memory.md", 3).unwrap(), Found::Other);
    assert_eq!(root.find("none", 3).unwrap(), Found::Nothing);
    fs::write(place.path.with_file_name("secret"), "secret").unwrap();
    symlink("memory.md", place.path.join("inside")).unwrap();
    symlink("../secret", place.path.join("outside")).unwrap();
    symlink("nowhere", place.path.join("dangling")).unwrap();
    for name in ["inside", "outside", "dangling", "../secret", "..", ".", "", "/etc/passwd", "a/../memory.md"]
    {
        assert!(matches!(root.read(name, 100), Err(FileError::Link)), "{name}");
    }
    mkfifo(&place.path.join("pipe"), Mode::S_IRWXU).unwrap();
    fs::create_dir(place.path.join("directory")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(place.path.join("socket")).unwrap();
    for name in ["pipe", "directory", "socket"] {
        assert!(matches!(root.read(name, 100), Err(FileError::NotRegular)), "{name}");
        assert_eq!(root.find(name, 100).unwrap(), Found::Other);
    }
}

#[test]
fn a_new_file_is_whole_private_and_only_where_nothing_was() {
    let (place, root) = Place::with("old");
    root.prepare(DRAFT, READY, b"new").unwrap();
    assert_eq!(place.names(), [READY, "memory.md"]);
    assert_eq!(fs::metadata(place.path.join(READY)).unwrap().mode() & 0o7777, 0o600);
    assert!(matches!(root.prepare(DRAFT, READY, b"newer"), Err(FileError::Exists)));
    assert_eq!(root.find(READY, 10).unwrap(), found("new"));
    assert_eq!(place.names(), [READY, "memory.md"], "a refused attempt leaves nothing");
    root.remove(READY).unwrap();
    root.remove(READY).unwrap();
    // What an interrupted attempt left is a part of ours, and never in the way.
    fs::write(place.path.join(DRAFT), "ne").unwrap();
    root.prepare(DRAFT, READY, b"new").unwrap();
    assert_eq!(
        (root.find(READY, 10).unwrap(), root.find(DRAFT, 10).unwrap()),
        (found("new"), Found::Nothing)
    );
}

#[test]
fn an_exchange_loses_nothing_whatever_was_in_the_place() {
    let (place, root) = Place::with("base");
    let held = root.read("memory.md", 100).unwrap();
    root.prepare(DRAFT, READY, b"result").unwrap();
    // Swapped by an editor between the look and the exchange.
    fs::write(place.path.join("editor"), "by hand").unwrap();
    fs::rename(place.path.join("editor"), place.file()).unwrap();
    root.exchange("memory.md", READY).unwrap();
    let out = root.find(READY, 100).unwrap();
    assert_eq!((root.find("memory.md", 100).unwrap(), &out), (found("result"), &found("by hand")));
    assert_ne!(out, Found::File(held.sha256), "what came out is not what was seen");
    root.exchange("memory.md", READY).unwrap();
    assert_eq!(fs::read_to_string(place.file()).unwrap(), "by hand");
    assert_eq!(root.find(READY, 100).unwrap(), found("result"));
    // Also a link or a directory comes out as it is, and goes back.
    fs::remove_file(place.file()).unwrap();
    symlink("../secret", place.file()).unwrap();
    root.exchange("memory.md", READY).unwrap();
    assert_eq!(root.find(READY, 100).unwrap(), Found::Other);
    root.exchange("memory.md", READY).unwrap();
    assert!(fs::symlink_metadata(place.file()).unwrap().is_symlink());
    // Nothing in the place is an error, and nothing is lost.
    fs::remove_file(place.file()).unwrap();
    assert!(matches!(root.exchange("memory.md", READY), Err(FileError::Missing)));
    assert_eq!(place.names(), [READY]);
    assert!(matches!(root.exchange("../secret", READY), Err(FileError::Link)));
}

#[test]
fn a_file_is_closed_to_others() {
    let (place, root) = Place::with("old");
    fs::set_permissions(place.file(), fs::Permissions::from_mode(0o644)).unwrap();
    root.close_to_others("memory.md").unwrap();
    assert_eq!(root.read("memory.md", 10).unwrap().mode, 0o600);
    symlink("memory.md", place.path.join("link")).unwrap();
    assert!(matches!(root.close_to_others("link"), Err(FileError::Link)));
    assert!(matches!(root.close_to_others("."), Err(FileError::Link)));
}

/// Becomes the owner of a root, after a look that writes nothing has said whether that is possible and why not.
fn own(root: &PinnedRoot) -> Result<OwnerLock, LockError> {
    let lies = || {
        let entries = fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap());
        let mut all: Vec<_> = entries
            .map(|entry| (entry.file_name(), fs::symlink_metadata(entry.path()).unwrap().modified().unwrap()))
            .collect();
        all.sort();
        all
    };
    let before = lies();
    let could = root.could_own(LOCK);
    assert_eq!(lies(), before);
    let owned = root.own(LOCK, 8);
    let word = |error: &LockError| format!("{error:?}").split([' ', '{', '(']).next().map(str::to_owned);
    assert_eq!(could.err().as_ref().map(word), owned.as_ref().err().map(word));
    owned
}

#[test]
fn a_root_has_one_owner_who_notices_that_it_is_robbed() {
    let (place, root) = Place::with("old");
    let lock = root.own(LOCK, 7).unwrap();
    lock.check().unwrap();
    assert_eq!(lock.owner().kind, OwnerKind::Materializer);
    for name in [format!("{LOCK}.lock"), format!("{LOCK}.owner")] {
        assert_eq!(fs::metadata(place.path.join(name)).unwrap().mode() & 0o7777, 0o600);
    }
    // Whoever owns it already could own it.
    root.could_own(LOCK).unwrap();
    let refused = PinnedRoot::open(&place.path).unwrap().own(LOCK, 8).unwrap_err();
    let LockError::Held { owner, .. } = refused else { panic!("{refused:?}") };
    assert_eq!(&owner, lock.owner());
    // The same words with another token are another's.
    let text = fs::read_to_string(place.record()).unwrap();
    let token = lock.owner().token.unwrap().to_string();
    let others: String = token.chars().rev().collect();
    for wrong in [text.replace(&token, &others), text[..40].to_owned(), String::new()] {
        fs::write(place.record(), wrong).unwrap();
        assert!(matches!(lock.check(), Err(LockError::Replaced { .. })));
    }
    fs::write(place.record(), &text).unwrap();
    lock.check().unwrap();
    let name = place.path.join(format!("{LOCK}.lock"));
    fs::rename(&name, place.path.join("elsewhere")).unwrap();
    assert!(matches!(lock.check(), Err(LockError::Replaced { .. })));
    fs::write(&name, "").unwrap();
    assert!(matches!(lock.check(), Err(LockError::Replaced { .. })));
    drop(lock);
    assert!(place.record().exists(), "what is left behind after a robbery is evidence");
}

#[test]
fn an_owner_lets_go_when_it_ends_and_finds_its_root_wherever_it_was_moved() {
    let (place, root) = Place::with("old");
    let lock = root.own(LOCK, 7).unwrap();
    drop(root);
    let aside = place.path.with_file_name("aside");
    fs::rename(&place.path, &aside).unwrap();
    lock.check().unwrap();
    drop(lock);
    assert!(!aside.join(format!("{LOCK}.owner")).exists());
    PinnedRoot::open(&aside).unwrap().own(LOCK, 8).unwrap();
}

#[test]
fn the_evidence_of_an_owner_is_believed_only_if_it_is_exactly_right() {
    let (place, root) = Place::with("old");
    let text = {
        let _lock = root.own(LOCK, 7).unwrap();
        fs::read_to_string(place.record()).unwrap()
    };
    let left = |record: &str| {
        fs::write(place.record(), record).unwrap();
        fs::set_permissions(place.record(), fs::Permissions::from_mode(0o600)).unwrap();
        own(&root)
    };
    let here = ProcessIdentity::current().unwrap();
    // From another boot, and of a number that somebody else has now: nobody owns it.
    let earlier = left(&text.replace(&here.boot, "00000000-0000-0000-0000-000000000000")).unwrap();
    assert_eq!(earlier.reclaimed().unwrap().presence, Presence::EarlierBoot);
    drop(earlier);
    let start = format!("start {}\n", here.start_ticks);
    let recycled = left(&text.replace(&start, "start 1\n")).unwrap();
    assert_eq!(recycled.reclaimed().unwrap().presence, Presence::Recycled);
    drop(recycled);
    // Of a process that lives, empty, cut, of a service, of nobody that we know.
    let mut living = Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
    let stat = fs::read_to_string(format!("/proc/{}/stat", living.id())).unwrap();
    let ticks = stat.rsplit(')').next().unwrap().split_whitespace().nth(19).unwrap();
    let lives = text
        .replace(&format!("pid {}\n", here.pid), &format!("pid {}\n", living.id()))
        .replace(&start, &format!("start {ticks}\n"));
    assert!(matches!(left(&lives), Err(LockError::OwnerLives { .. })));
    living.kill().unwrap();
    living.wait().unwrap();
    for wrong in [
        "",
        &text[..text.len() - 1],
        &text[..20],
        "hello\n",
        &text.replace("kind materializer", "kind service"),
    ] {
        assert!(matches!(left(wrong), Err(LockError::Damaged { .. })), "{wrong:?}");
        assert_eq!(fs::read_to_string(place.record()).unwrap(), wrong, "evidence is left as it is");
    }
}

#[test]
fn what_others_may_write_or_own_is_no_evidence() {
    let (place, root) = Place::with("old");
    drop(root.own(LOCK, 7).unwrap());
    let lock = place.path.join(format!("{LOCK}.lock"));
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o666)).unwrap();
    assert!(matches!(own(&root), Err(LockError::Foreign { .. })));
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o600)).unwrap();
    if geteuid().is_root() {
        chown(&lock, Some(65_534), None).unwrap();
        assert!(matches!(own(&root), Err(LockError::Foreign { .. })));
    }
    fs::remove_file(&lock).unwrap();
    symlink("memory.md", &lock).unwrap();
    assert!(own(&root).is_err());
    fs::remove_file(&lock).unwrap();
    symlink("memory.md", place.record()).unwrap();
    assert!(own(&root).is_err());
    assert_eq!(fs::read_to_string(place.file()).unwrap(), "old");
}

#[test]
fn a_full_disk_leaves_the_old_file_and_no_other_wherever_it_is_met() {
    // The disk is mounted in a namespace of its own, which ends with the process.
    let mut command = Command::new("unshare");
    command.args(if geteuid().is_root() { &["-m"][..] } else { &["-rm"] });
    let output = command
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "pinned::tests::on_a_disk_that_fills_up"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1 passed"), "{text}");
}

#[test]
#[ignore = "it needs a disk of its own; the test above runs it on one"]
fn on_a_disk_that_fills_up() {
    let place = Place::new();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=256k,nr_inodes=6,mode=0700", "none"])
        .arg(&place.path)
        .status()
        .unwrap();
    assert!(mounted.success(), "a small disk cannot be mounted here");
    fs::write(place.file(), "old").unwrap();
    let root = PinnedRoot::open(&place.path).unwrap();
    // No room for the bytes.
    let refused = root.prepare(DRAFT, READY, &vec![b'x'; 1 << 20]).unwrap_err();
    assert!(matches!(&refused, FileError::Io { step: "write the new file", .. }), "{refused:?}");
    assert_eq!(place.names(), ["memory.md"]);
    // No room for another name.
    for number in 0.. {
        if fs::write(place.path.join(format!("ballast{number}")), "").is_err() {
            break;
        }
    }
    let names = place.names();
    let refused = root.prepare(DRAFT, READY, b"new").unwrap_err();
    assert!(matches!(&refused, FileError::Io { step: "create the new file", .. }), "{refused:?}");
    assert!(root.own(LOCK, 1).is_err(), "an owner that cannot be recorded is none");
    assert_eq!((place.names(), fs::read_to_string(place.file()).unwrap()), (names, "old".to_owned()));
    fs::remove_file(place.path.join("ballast0")).unwrap();
    root.prepare(DRAFT, READY, b"new").unwrap();
    root.exchange("memory.md", READY).unwrap();
    root.remove(READY).unwrap();
    assert_eq!(fs::read_to_string(place.file()).unwrap(), "new");
}
