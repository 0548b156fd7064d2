use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use thoughtstream_domain::id::{DocumentId, SourceId};

use super::*;
use crate::filesystem::rules::{Bounds, Selection};
use crate::testing::as_nobody;

/// Long after every file of these tests was written: nothing is restless, everything is still.
const LATER: i64 = i64::MAX;

struct Place {
    dir: tempfile::TempDir,
    notes: PathBuf,
    rules: ScanRules,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let notes = dir.path().join("notes");
        fs::create_dir(&notes).unwrap();
        fs::create_dir(dir.path().join("data")).unwrap();
        for path in [dir.path(), &notes] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let rules =
            ScanRules { selection: Selection::new(&[], &[], true).unwrap(), bounds: Bounds::default() };
        Self { dir, notes, rules }
    }

    fn bounds(mut self, change: impl FnOnce(&mut Bounds)) -> Self {
        change(&mut self.rules.bounds);
        self
    }

    fn write(&self, path: &str, content: &str) -> PathBuf {
        let path = self.notes.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    fn root(&self) -> Root {
        Root::open(&self.notes, &self.dir.path().join("data")).unwrap()
    }

    fn try_scan(&self, root: &Root, now_ns: i64, documents: &[Document]) -> Result<Scan, ScanError> {
        let known = |path: &str| documents.iter().find(|document| document.path == path);
        let input = ScanInput { rules: &self.rules, now_ns, known: &known, named: &|_, _| None };
        scan(root, &input)
    }

    fn scan(&self) -> Scan {
        self.try_scan(&self.root(), LATER, &[]).unwrap()
    }
}

fn paths(scan: &Scan) -> Vec<&str> {
    scan.files.iter().map(|file| file.path.as_str()).collect()
}

fn close(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
}

/// What the log would know after this file was seen.
fn document(file: &FileSeen) -> Document {
    let source = SourceId::parse("filesystem:notes").unwrap();
    Document {
        id: DocumentId::at_first_sight(&source, &file.path, 0),
        source,
        revision: 1,
        path: file.path.clone(),
        sha256: file.sha256,
        bytes: file.stat.size,
        content_type: "text/markdown".to_owned(),
        named: None,
        removed: false,
        stat: Some(file.stat),
    }
}

#[test]
fn files_come_in_the_order_of_their_paths_with_their_hashes() {
    let place = Place::new();
    for path in ["b.md", "a/x.md", "a.md", "a/sub/y.md", "Z.md", "empty"] {
        place.write(path, if path == "empty" { "" } else { path });
    }
    fs::create_dir(place.notes.join("bare")).unwrap();
    let scan = place.scan();
    assert_eq!(paths(&scan), ["Z.md", "a.md", "a/sub/y.md", "a/x.md", "b.md", "empty"]);
    assert!(scan.files[..5].iter().all(|file| file.sha256 == Sha256Hash::of(file.path.as_bytes())));
    assert_eq!(scan.directories, ["", "a", "a/sub", "bare"].map(str::to_owned).into());
    assert_eq!((scan.files_read, scan.withheld.len(), scan.restless.len()), (6, 0, 0));
    assert_eq!(scan, place.scan());
    let without = place.root().without_openat2();
    assert_eq!(scan, place.try_scan(&without, LATER, &[]).unwrap());
}

#[test]
fn hidden_secret_and_unwanted_files_are_not_even_reported() {
    let mut place = Place::new();
    place.rules.selection = Selection::new(&["*.md".to_owned()], &["drafts".to_owned()], true).unwrap();
    for path in [".git/config.md", ".env", "drafts/a.md", "id_rsa", "photo.png", "kept.md"] {
        place.write(path, "x");
    }
    let scan = place.scan();
    assert_eq!(paths(&scan), ["kept.md"]);
    assert_eq!(scan.skipped, SkipReport::default());
    assert_eq!(scan.directories, ["".to_owned()].into());
}

#[test]
fn a_private_key_under_an_innocent_name_is_skipped() {
    let place = Place::new();
    place.write("backup.txt", "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n");
    let scan = place.scan();
    assert!(scan.files.is_empty());
    assert_eq!(
        scan.skipped.shown,
        [Skip { shown: "backup.txt".to_owned(), reason: SkipReason::PrivateKey, bytes: None, owner: None }]
    );
}

#[test]
fn links_pipes_and_sockets_are_named_and_never_opened() {
    let place = Place::new();
    place.write("real.md", "x");
    fs::write(place.dir.path().join("data/secret.md"), "s").unwrap();
    symlink("real.md", place.notes.join("link.md")).unwrap();
    symlink(place.dir.path().join("data"), place.notes.join("out")).unwrap();
    symlink(".", place.notes.join("loop")).unwrap();
    mkfifo(&place.notes.join("pipe.md"), Mode::S_IRWXU).unwrap();
    std::os::unix::net::UnixListener::bind(place.notes.join("socket.md")).unwrap();
    let scan = place.scan();
    assert_eq!(paths(&scan), ["real.md"]);
    assert_eq!(scan.skipped.counts, [(SkipReason::Link, 3), (SkipReason::NotRegular, 2)].into());
    assert!(scan.withheld.is_empty());
}

#[test]
fn hostile_names_are_reported_in_a_safe_spelling_and_long_ones_are_taken() {
    let place = Place::new();
    let long = format!("{}.md", "l".repeat(252));
    place.write(&long, "x");
    for name in [&b"new\nline.md"[..], b"esc\x1b[2J.md", "bidi\u{202e}dm.md".as_bytes(), b"latin\xe9.md"] {
        fs::write(place.notes.join(OsStr::from_bytes(name)), "x").unwrap();
    }
    fs::create_dir(place.notes.join(OsStr::from_bytes(b"dir\xff"))).unwrap();
    fs::write(place.notes.join(OsStr::from_bytes(b"dir\xff/a.md")), "x").unwrap();
    let scan = place.scan();
    assert_eq!(paths(&scan), [long]);
    let mut shown: Vec<&str> = scan.skipped.shown.iter().map(|skip| skip.shown.as_str()).collect();
    shown.sort_unstable();
    assert_eq!(
        shown,
        ["bidi\\u{202e}dm.md", "dir\\xff", "esc\\u{1b}[2J.md", "latin\\xe9.md", "new\\nline.md"]
    );
    assert_eq!(scan.skipped.counts, [(SkipReason::NameNotUtf8, 2), (SkipReason::NameHostile, 3)].into());
}

#[test]
fn what_may_not_be_read_is_withheld_not_missing() {
    let place = Place::new();
    place.write("open.md", "x");
    close(&place.write("locked.md", "x"));
    place.write("closed/a.md", "x");
    close(&place.notes.join("closed"));
    place.write("listable/b.md", "x");
    fs::set_permissions(place.notes.join("listable"), fs::Permissions::from_mode(0o744)).unwrap();
    let scan = as_nobody(|| place.scan());
    assert_eq!(paths(&scan), ["open.md"]);
    assert_eq!(scan.skipped.counts, [(SkipReason::Denied, 3)].into());
    for path in ["locked.md", "closed", "closed/a.md", "closed/never/seen.md", "listable/b.md"] {
        assert!(scan.withholds(path), "{path}");
    }
    for path in ["open.md", "closed.md", "listable/c.md", "gone.md"] {
        assert!(!scan.withholds(path), "{path}");
    }
}

#[test]
fn an_unreadable_root_is_an_incident() {
    let place = Place::new();
    place.write("a.md", "x");
    let root = place.root();
    close(&place.notes);
    let incident = as_nobody(|| place.try_scan(&root, LATER, &[])).unwrap_err();
    assert_eq!(incident, ScanError::Root(RootIncident::Unreadable(Errno::EACCES)));
}

#[test]
fn a_root_swapped_for_a_link_is_an_incident_though_it_leads_to_the_same_files() {
    let place = Place::new();
    place.write("a.md", "x");
    let root = place.root();
    let aside = place.dir.path().join("aside");
    fs::rename(&place.notes, &aside).unwrap();
    assert_eq!(place.try_scan(&root, LATER, &[]), Err(ScanError::Root(RootIncident::Missing)));
    symlink(&aside, &place.notes).unwrap();
    assert_eq!(place.try_scan(&root, LATER, &[]), Err(ScanError::Root(RootIncident::Replaced)));
    fs::remove_file(&place.notes).unwrap();
    fs::create_dir(&place.notes).unwrap();
    assert_eq!(place.try_scan(&root, LATER, &[]), Err(ScanError::Root(RootIncident::Replaced)));
}

#[test]
fn bounds_on_the_whole_end_a_scan_and_bounds_on_one_path_withhold_it() {
    let place = Place::new();
    for path in ["a.md", "b.md", "one/two/three/c.md"] {
        place.write(path, "12345");
    }
    let over = |change: fn(&mut Bounds)| {
        let mut rules = place.rules.clone();
        change(&mut rules.bounds);
        scan(
            &place.root(),
            &ScanInput { rules: &rules, now_ns: LATER, known: &|_| None, named: &|_, _| None },
        )
    };
    assert_eq!(over(|bounds| bounds.files_max = 2), Err(ScanError::TooManyFiles { files_max: 2 }));
    assert_eq!(over(|bounds| bounds.entries_max = 5), Err(ScanError::TooManyEntries { entries_max: 5 }));
    assert_eq!(over(|bounds| bounds.entries_max = 6).unwrap().files.len(), 3);
    for (scan, reason, withheld) in [
        (over(|bounds| bounds.depth_max = 2).unwrap(), SkipReason::TooDeep, "one/two/three/c.md"),
        (over(|bounds| bounds.path_bytes_max = 15).unwrap(), SkipReason::PathTooLong, "one/two/three/c.md"),
    ] {
        assert_eq!(paths(&scan), ["a.md", "b.md"]);
        assert_eq!(scan.skipped.counts, [(reason, 1)].into());
        assert!(scan.withholds(withheld));
    }
    let small = over(|bounds| bounds.file_bytes_max = 4).unwrap();
    assert_eq!((small.files.len(), small.files_read), (0, 0));
    assert_eq!(small.skipped.counts, [(SkipReason::TooLarge, 3)].into());
    assert!(small.withholds("a.md"));
}

#[test]
fn an_unchanged_file_is_not_read_again() {
    let place = Place::new();
    let path = place.write("a.md", "one");
    place.write("b.md", "two");
    let root = place.root();
    let known: Vec<Document> = place.scan().files.iter().map(document).collect();
    let again = place.try_scan(&root, LATER, &known).unwrap();
    assert_eq!((again.files_read, again.files.len()), (0, 2));

    // Other content of the same size at the same modification time: the change time betrays it.
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    fs::write(&path, "ONE").unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    let changed = place.try_scan(&root, LATER, &known).unwrap();
    assert_eq!(changed.files_read, 1);
    assert_eq!(changed.files[0].sha256, Sha256Hash::of(b"ONE"));
}

#[test]
fn a_file_read_in_the_moment_it_was_written_is_read_again() {
    let place = Place::new();
    place.write("a.md", "one");
    let root = place.root();
    let fresh = place.try_scan(&root, 0, &[]).unwrap();
    let known: Vec<Document> = fresh.files.iter().map(document).collect();
    assert_eq!(place.try_scan(&root, LATER, &known).unwrap().files_read, 1);
}

#[test]
fn a_directory_changed_moments_ago_is_restless() {
    let place = Place::new();
    place.write("sub/a.md", "x");
    let scan = place.try_scan(&place.root(), 0, &[]).unwrap();
    assert_eq!(scan.restless, ["", "sub"].map(str::to_owned).into());
    assert!(scan.is_restless_at("sub/gone.md") && scan.is_restless_at("gone.md"));
    assert!(!place.scan().is_restless_at("gone.md"));
}

#[test]
fn a_file_that_moves_during_the_scan_is_seen_once_and_its_directories_are_restless() {
    let place = Place::new();
    place.write("a/first.md", "moving");
    place.write("m.md", "in between");
    fs::create_dir(place.notes.join("z")).unwrap();
    let (from, to) = (place.notes.join("a/first.md"), place.notes.join("z/last.md"));
    let mover = |path: &str, _: &[u8]| {
        if path == "m.md" {
            fs::rename(&from, &to).unwrap();
        }
        None
    };
    let input = ScanInput { rules: &place.rules, now_ns: LATER, known: &|_| None, named: &mover };
    let scan = scan(&place.root(), &input).unwrap();
    assert_eq!(paths(&scan), ["m.md", "z/last.md"]);
    assert!(scan.is_restless_at("a/first.md"));
}

#[test]
fn a_file_that_vanishes_during_the_scan_leaves_its_directory_restless() {
    let place = Place::new();
    place.write("a.md", "x");
    let victim = place.write("b.md", "x");
    let remover = |path: &str, _: &[u8]| {
        if path == "a.md" {
            fs::remove_file(&victim).unwrap();
        }
        None
    };
    let input = ScanInput { rules: &place.rules, now_ns: LATER, known: &|_| None, named: &remover };
    let scan = scan(&place.root(), &input).unwrap();
    assert_eq!(paths(&scan), ["a.md"]);
    assert!(scan.is_restless_at("b.md"));
}

#[test]
fn hard_links_are_two_documents() {
    let place = Place::new();
    let path = place.write("a.md", "x");
    fs::hard_link(path, place.notes.join("b.md")).unwrap();
    assert_eq!(paths(&place.scan()), ["a.md", "b.md"]);
}

#[test]
fn a_file_saved_by_renaming_is_whole_in_every_scan() {
    let place = Place::new();
    let contents = ["short".to_owned(), "long".repeat(50_000)];
    let path = place.write("busy.md", &contents[0]);
    let root = place.root();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let whole = contents.each_ref().map(|content| Sha256Hash::of(content.as_bytes()));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let beside = place.notes.join(".busy.md.swp");
            for content in contents.iter().cycle() {
                if stop.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
                fs::write(&beside, content).unwrap();
                fs::rename(&beside, &path).unwrap();
            }
        });
        for _ in 0..200 {
            let scan = place.try_scan(&root, 0, &[]).unwrap();
            for file in &scan.files {
                assert!(whole.contains(&file.sha256));
            }
            let seen = scan.files.iter().any(|file| file.path == "busy.md");
            assert!(seen || scan.withholds("busy.md") || scan.is_restless_at("busy.md"));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn ten_thousand_files_are_scanned_in_bounded_memory() {
    let place = Place::new().bounds(|bounds| bounds.file_bytes_max = 1 << 20);
    for directory in 0..100 {
        let directory = place.notes.join(format!("d{directory:03}"));
        fs::create_dir(&directory).unwrap();
        for file in 0..100 {
            // Sparse: 640 MB to read, next to nothing on disk.
            fs::File::create(directory.join(format!("{file:03}.md"))).unwrap().set_len(65_536).unwrap();
        }
    }
    let before = resident_kib();
    let scan = place.scan();
    let after = resident_kib();
    assert_eq!((scan.files.len(), scan.files_read), (10_000, 10_000));
    assert!(after < before + 64 * 1024, "{before} KiB before, {after} KiB after");
    assert_eq!(scan.files[1234].path, "d012/034.md");
}

/// The most memory this process has used so far.
fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn many_skips_of_one_reason_do_not_hide_the_names_of_another() {
    let place = Place::new();
    let many = usize::try_from(SKIPPED_SHOWN_MAX).unwrap() + 7;
    for number in 0..many {
        symlink("real.md", place.notes.join(format!("{number:04}.md"))).unwrap();
    }
    fs::write(place.notes.join(OsStr::from_bytes(b"z\xe9.md")), "x").unwrap();
    let scan = place.scan();
    assert_eq!(scan.skipped.counts, [(SkipReason::Link, many as u64), (SkipReason::NameNotUtf8, 1)].into());
    assert_eq!(scan.skipped.shown.len(), many - 7 + 1);
    let last = scan.skipped.shown.last().unwrap();
    assert_eq!((last.shown.as_str(), last.reason), ("z\\xe9.md", SkipReason::NameNotUtf8));
}
