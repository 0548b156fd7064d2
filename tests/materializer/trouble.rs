//! What goes wrong after a change was begun: wherever it is known what became of the file, the change ends with a record
//! of why; where nobody can know, it waits.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use nix::errno::Errno;
use nix::libc;
use nix::unistd::geteuid;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use thoughtstream_actors::killpoint::TrapId;
use thoughtstream_domain::commit::Row;
use thoughtstream_domain::content::Content;
use thoughtstream_domain::hash::Sha256Hash;

use super::*;

const BY_HAND: &str = "---\nid: memory\n---\nBy hand.\n";

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

impl Room {
    fn hold(&self, point: KillPoint) -> TrapId {
        self.stage.points.arm(Trap::new(point, KillAction::Hold).of(ACTOR)).unwrap()
    }

    /// Accepts a change, and does something to the folder while the actor is held at a point.
    async fn at(&mut self, point: KillPoint, meddle: impl FnOnce(&Self)) {
        let held = self.hold(point);
        self.accept(Operation::Append, SAID).await;
        self.stage.points.sprung(held).await;
        meddle(self);
        self.stage.points.release(held);
    }

    fn kept(&self) -> Vec<String> {
        self.names().into_iter().filter(|name| name.ends_with(".new")).collect()
    }

    /// Reads what lies beside the document.
    fn beside(&self) -> String {
        let [name] = &self.kept()[..] else { panic!("{:?}", self.names()) };
        std::fs::read_to_string(self.stage.context_root().join(name)).unwrap()
    }

    fn ends(&self) -> (usize, usize, Vec<ReasonCode>) {
        let reader = self.stage.reader();
        (started(&reader), made(&reader).len(), failures(&reader))
    }
}

/// Runs one ignored test of this file by itself, as somebody or somewhere else.
fn elsewhere(mut command: Command, name: &str) {
    let name = format!("materializer::trouble::{name}");
    command.arg(std::env::current_exe().unwrap()).args(["--ignored", "--exact", &name]);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1 passed"), "{text}");
}

#[test]
fn a_step_that_is_refused_ends_the_change_or_waits_where_nobody_can_know() {
    let mut command = Command::new("env");
    if geteuid().is_root() {
        // Only root may pass what a mode forbids.
        command = Command::new("setpriv");
        command.args(["--bounding-set=-dac_override,-dac_read_search"]);
        command.args(["--inh-caps=-dac_override,-dac_read_search"]);
    }
    elsewhere(command, "where_modes_are_minded");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "root passes every mode; the test above runs it as somebody who does not"]
async fn where_modes_are_minded() {
    refused_before_the_exchange().await;
    refused_behind_the_exchange().await;
}

async fn refused_before_the_exchange() {
    // It cannot be read before anything was begun.
    let mut room = Room::with("unread before", BASE).await;
    let proposal = room.proposing.propose(Operation::Append, SAID).await;
    mode(&room.file(), 0o000);
    room.proposing.decide(&proposal, Disposition::Accept).await;
    room.until_ended(1).await;
    assert_eq!(room.ends(), (0, 0, vec![ReasonCode::FileUnfit]));
    mode(&room.file(), 0o600);
    assert_eq!((room.text(), room.names()), (BASE.to_owned(), vec![MEMORY_PATH.to_owned()]));
    room.judge().await;

    // It cannot be read after it was begun and before anything was written: nothing was written.
    let mut room = Room::with("unread at first", BASE).await;
    room.at(KillPoint::MaterializeStartedAfter, |room| mode(&room.file(), 0o000)).await;
    room.until_ended(1).await;
    assert_eq!(room.ends(), (1, 0, vec![ReasonCode::FileUnfit]));
    mode(&room.file(), 0o600);
    assert_eq!((room.text(), room.names()), (BASE.to_owned(), vec![MEMORY_PATH.to_owned()]));
    room.judge().await;

    // The new file cannot be made, or not be exchanged.
    for (point, left) in [(KillPoint::MaterializeFileBefore, 0), (KillPoint::MaterializeExchangeBefore, 1)] {
        let mut room = Room::with("not written", BASE).await;
        room.at(point, |room| mode(&room.stage.context_root(), 0o500)).await;
        room.until_ended(1).await;
        assert_eq!(room.ends(), (1, 0, vec![ReasonCode::WriteFailed]), "{point}");
        mode(&room.stage.context_root(), 0o700);
        assert_eq!((room.text(), room.kept().len()), (BASE.to_owned(), left), "{point}");
        // Whatever is left is in nobody's way.
        room.accept(Operation::Append, SAID).await;
        room.until_ended(2).await;
        assert_eq!(room.text(), format!("{BASE}{SAID}\n"));
        room.judge().await;
    }
}

async fn refused_behind_the_exchange() {
    // What came out cannot be removed: it is written all the same, and the copy stays.
    let mut room = Room::with("not cleared", BASE).await;
    room.at(KillPoint::MaterializeExchangeInside, |room| mode(&room.stage.context_root(), 0o500)).await;
    room.until_ended(1).await;
    assert_eq!(room.ends(), (1, 1, vec![]));
    mode(&room.stage.context_root(), 0o700);
    assert_eq!((room.text(), room.beside()), (format!("{BASE}{SAID}\n"), BASE.to_owned()));
    room.judge().await;

    // What came out cannot be read, so nobody knows that it is the base: it is put back.
    let mut room = Room::with("came out unread", BASE).await;
    room.at(KillPoint::MaterializeExchangeInside, |room| {
        mode(&room.stage.context_root().join(&room.kept()[0]), 0o000);
    })
    .await;
    room.until_ended(1).await;
    assert_eq!(room.ends(), (1, 0, vec![ReasonCode::Swapped]));
    mode(&room.file(), 0o600);
    assert_eq!((room.text(), room.beside()), (BASE.to_owned(), format!("{BASE}{SAID}\n")));
    room.judge().await;

    // What was put in the place cannot be read: the base beside it says that they were exchanged.
    let mut room = Room::with("written unread", BASE).await;
    room.at(KillPoint::MaterializeExchangeInside, |room| mode(&room.file(), 0o000)).await;
    room.until_ended(1).await;
    assert_eq!(room.ends(), (1, 0, vec![ReasonCode::FileUnfit]));
    mode(&room.file(), 0o600);
    assert_eq!((room.text(), room.beside()), (format!("{BASE}{SAID}\n"), BASE.to_owned()));
    room.judge().await;

    // Something else came out, and cannot be put back: both are kept, and that is said.
    let mut room = Room::with("not put back", BASE).await;
    let held = room.hold(KillPoint::MaterializeExchangeInside);
    room.at(KillPoint::MaterializeExchangeBefore, |room| std::fs::write(room.file(), BY_HAND).unwrap()).await;
    room.stage.points.sprung(held).await;
    mode(&room.stage.context_root(), 0o500);
    room.stage.points.release(held);
    room.until_ended(1).await;
    assert_eq!(room.ends(), (1, 0, vec![ReasonCode::Swapped]));
    mode(&room.stage.context_root(), 0o700);
    assert_eq!((room.text(), room.beside()), (format!("{BASE}{SAID}\n"), BY_HAND.to_owned()));
    room.judge().await;

    // A successor that can read nothing waits, and goes on once it can.
    let mut room = Room::with("unknown", BASE).await;
    let held = room.hold(KillPoint::MaterializeExchangeAfter);
    room.accept(Operation::Append, SAID).await;
    room.stage.points.sprung(held).await;
    mode(&room.file(), 0o000);
    room.stage.handle().kill("materializer").unwrap();
    room.stage.points.disarm(held);
    room.until_noted("file-unfit").await;
    assert_eq!(room.ends(), (1, 0, vec![]));
    mode(&room.file(), 0o600);
    room.until_ended(1).await;
    assert_eq!((room.ends(), room.text()), ((1, 1, vec![]), format!("{BASE}{SAID}\n")));
    room.judge().await;
}

#[test]
fn a_disk_that_fails_behind_the_exchange_is_told_of() {
    elsewhere(Command::new("env"), "where_no_mode_can_be_set");
    elsewhere(Command::new("env"), "where_nothing_can_be_synced");
}

/// Has the kernel refuse a call from now on, in every thread of this process.
fn refuse(call: i64) {
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let failing = SeccompAction::Errno(Errno::EIO as u32);
    let rules = [(call, Vec::new())].into();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, failing, arch).unwrap();
    let program: BpfProgram = filter.try_into().unwrap();
    seccompiler::apply_filter_all_threads(&program).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "its process cannot set modes afterwards; the test above runs it in one of its own"]
async fn where_no_mode_can_be_set() {
    // Whoever may read what a person decided is not known, so the base is put back.
    let mut room = Room::with("mode", BASE).await;
    room.at(KillPoint::MaterializeExchangeInside, |_| refuse(libc::SYS_fchmod)).await;
    room.until_ended(1).await;
    assert_eq!(room.ends(), (1, 0, vec![ReasonCode::WriteFailed]));
    assert_eq!((room.text(), room.names()), (BASE.to_owned(), vec![MEMORY_PATH.to_owned()]));
    room.judge().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "its process cannot sync afterwards; the test above runs it in one of its own"]
async fn where_nothing_can_be_synced() {
    // It cannot be put back durably either: both are kept, and that is said. The log syncs by another call.
    let mut room = Room::with("sync", BASE).await;
    room.at(KillPoint::MaterializeExchangeInside, |_| refuse(libc::SYS_fsync)).await;
    room.until_ended(1).await;
    assert_eq!(room.ends(), (1, 0, vec![ReasonCode::WriteFailed]));
    assert_eq!((room.text(), room.beside()), (format!("{BASE}{SAID}\n"), BASE.to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_root_that_goes_before_anything_was_written_ends_the_change() {
    let mut room = Room::with("gone", BASE).await;
    let root = room.stage.context_root();
    let aside = root.with_file_name("aside");
    for (point, count) in [(KillPoint::MaterializeStartedAfter, 1), (KillPoint::MaterializeFileBefore, 2)] {
        room.at(point, |_| std::fs::rename(&root, &aside).unwrap()).await;
        room.until_ended(count).await;
        assert_eq!(room.ends(), (count, 0, vec![ReasonCode::RootUnfit; count]), "{point}");
        std::fs::rename(&aside, &root).unwrap();
        assert_eq!((room.text(), room.names()), (BASE.to_owned(), vec![MEMORY_PATH.to_owned()]));
    }
    room.judge().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_found_afterwards_is_what_was_written_or_the_change_fails() {
    // Changed by hand between the exchange and the look at the source.
    let mut room = Room::with("scan differs", BASE).await;
    room.at(KillPoint::MaterializeScanBefore, |room| std::fs::write(room.file(), BY_HAND).unwrap()).await;
    room.until_ended(1).await;
    assert_eq!(room.ends(), (1, 0, vec![ReasonCode::ScanDiffers]));
    assert_eq!(room.text(), BY_HAND);
    room.judge().await;

    // The log has other bytes under the hash of the result than the file.
    let mut room = Room::with("receipt", BASE).await;
    let written = format!("{BASE}{SAID}\n");
    let sha256 = Sha256Hash::of(written.as_bytes());
    let blob = Row::Blob { sha256, bytes: Content::new(b"damaged".as_slice().into()) };
    let planted = Commit { rows: vec![blob], ..Commit::default() };
    room.stage.handle().decide(planted).await.unwrap();
    room.accept(Operation::Append, SAID).await;
    room.until_ended(1).await;
    assert_eq!(room.ends(), (1, 0, vec![ReasonCode::ReceiptFailed]));
    assert_eq!(room.text(), written);
    assert_eq!(room.stage.stop(false).await, Outcome::Stopped);

    // And under that of the base, which was whole when it was proposed.
    let mut room = Room::with("base", BASE).await;
    let proposal = room.proposing.propose(Operation::Append, SAID).await;
    assert_eq!(room.stage.stop(false).await, Outcome::Stopped);
    damage(&room.stage.data(), &Sha256Hash::of(BASE.as_bytes()));
    room.stage.start().await;
    room.proposing.goes_on(room.stage.handle());
    room.proposing.decide(&proposal, Disposition::Accept).await;
    room.until_ended(1).await;
    assert_eq!((room.ends(), room.text()), ((0, 0, vec![ReasonCode::BaseDamaged]), BASE.to_owned()));
    assert_eq!(room.stage.stop(false).await, Outcome::Stopped);
}

/// Puts wrong bytes under a hash into the store of a service that is down.
fn damage(data: &Path, sha256: &Sha256Hash) {
    const BLOBS: redb::TableDefinition<'_, &[u8], &[u8]> = redb::TableDefinition::new("blobs");
    let database = redb::Database::open(data.join("log.redb")).unwrap();
    let write = database.begin_write().unwrap();
    write.open_table(BLOBS).unwrap().insert(&sha256.as_bytes()[..], &b"damaged"[..]).unwrap().unwrap();
    write.commit().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_that_would_pass_the_configured_size_is_not_written() {
    let mut stage = Stage::new("size", &[], false).remembering(BASE);
    let room_for = BASE.len() + SAID.len() + 1;
    stage.set_context_bytes_max(room_for as u64);
    let mut room = Room::on(stage).await;
    room.accept(Operation::Append, &format!("{SAID}!")).await;
    room.until_ended(1).await;
    assert_eq!((room.ends(), room.text()), ((0, 0, vec![ReasonCode::TooLarge]), BASE.to_owned()));
    room.accept(Operation::Append, SAID).await;
    room.until_ended(2).await;
    assert_eq!(room.text().len(), room_for);
    room.judge().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_root_behind_a_link_is_refused() {
    let mut room = Room::with("parent", BASE).await;
    let proposal = room.proposing.propose(Operation::Append, SAID).await;
    let kept = room.stage.context_root().parent().unwrap().to_owned();
    let aside = kept.with_file_name("aside");
    std::fs::rename(&kept, &aside).unwrap();
    symlink(&aside, &kept).unwrap();
    room.proposing.decide(&proposal, Disposition::Accept).await;
    room.until_ended(1).await;
    assert_eq!(room.ends(), (0, 0, vec![ReasonCode::RootUnfit]));
    assert_eq!(room.text(), BASE);
    std::fs::remove_file(&kept).unwrap();
    std::fs::rename(&aside, &kept).unwrap();
    room.judge().await;
}

/// Names the folder to whoever owns it in a process of its own.
const OWNED: &str = "THOUGHTSTREAM_TEST_OWNED";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_process_that_owns_the_root_is_waited_for_and_nothing_is_written() {
    let stage = Stage::new("second", &[], false).remembering(BASE);
    let root = stage.context_root();
    let name = "materializer::trouble::who_owns_the_root_until_it_is_told";
    let mut owner = Command::new(std::env::current_exe().unwrap());
    owner.args(["--ignored", "--exact", name]).env(OWNED, &root);
    let mut owner = owner.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let record = root.join(".thought-materializer.owner");
    let begun = std::time::Instant::now();
    while !record.exists() {
        assert!(begun.elapsed().as_secs() < 60, "nobody owns it");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let mut room = Room::on(stage).await;
    room.until_noted("root-held").await;
    room.accept(Operation::Append, SAID).await;
    room.until_noted("root-held").await;
    assert_eq!((room.ends(), room.text()), ((0, 0, vec![]), BASE.to_owned()));
    // One that dies without letting go is known to be gone.
    owner.kill().unwrap();
    owner.wait().unwrap();
    assert!(record.exists());
    room.until_ended(1).await;
    assert_eq!((room.ends(), room.text()), ((1, 1, vec![]), format!("{BASE}{SAID}\n")));
    room.judge().await;
}

#[test]
#[ignore = "it owns a folder for another process; the test above runs it so"]
fn who_owns_the_root_until_it_is_told() {
    let root = PathBuf::from(std::env::var_os(OWNED).unwrap());
    let root = thoughtstream_effects::pinned::PinnedRoot::open(&root).unwrap();
    let _lock = root.own(".thought-materializer", 1).unwrap();
    std::io::Read::read(&mut std::io::stdin(), &mut [0]).unwrap();
}

#[test]
fn a_full_disk_ends_the_change_wherever_it_is_met() {
    // The disk is mounted in a namespace of its own, which ends with the process.
    let mut command = Command::new("unshare");
    command.args(if geteuid().is_root() { &["-m"][..] } else { &["-rm"] });
    elsewhere(command, "on_a_small_disk");
}

/// Fills a folder with empty files, as many as there is room for.
fn fill_names(root: &Path) -> Vec<PathBuf> {
    let paths = (0..).map(|number| root.join(format!(".ballast{number}")));
    paths.take_while(|path| std::fs::write(path, "").is_ok()).collect()
}

/// Fills a folder with bytes, as many as there is room for.
fn fill_bytes(root: &Path) -> PathBuf {
    let path = root.join(".ballast");
    let mut file = std::fs::File::create(&path).unwrap();
    while std::io::Write::write_all(&mut file, &[b'x'; 512]).is_ok() {}
    path
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it needs a disk of its own; the test above runs it on one"]
async fn on_a_small_disk() {
    let stage = Stage::new("full", &[], false).remembering(BASE);
    let root = stage.context_root();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=64k,nr_inodes=8,mode=0700", "none"])
        .arg(&root)
        .status()
        .unwrap();
    assert!(mounted.success(), "a small disk cannot be mounted here");
    std::fs::write(root.join(MEMORY_PATH), BASE).unwrap();
    let mut room = Room::on(stage).await;
    let large = format!("---\nid: memory\n---\n{}\n", "x".repeat(9_000));
    // No room for the bytes, and none for another name; both are met after the change was begun.
    for (count, names) in [(1, false), (2, true)] {
        let held = room.hold(KillPoint::MaterializeFileBefore);
        room.accept(Operation::ReplaceDocument, &large).await;
        room.stage.points.sprung(held).await;
        let ballast = if names { fill_names(&root) } else { vec![fill_bytes(&root)] };
        room.stage.points.release(held);
        room.until_ended(count).await;
        room.stage.points.disarm(held);
        assert_eq!(room.ends(), (count, 0, vec![ReasonCode::NoSpace; count]), "names {names}");
        ballast.iter().for_each(|path| std::fs::remove_file(path).unwrap());
        assert_eq!((room.text(), room.names()), (BASE.to_owned(), vec![MEMORY_PATH.to_owned()]));
    }
    // No room for the record of an owner: nothing is begun until there is.
    let ballast = {
        room.stage.stop(false).await;
        let ballast = fill_names(&root);
        room.stage.start().await;
        ballast
    };
    room.proposing.goes_on(room.stage.handle());
    room.until_noted("root-lock-failed").await;
    room.accept(Operation::ReplaceDocument, &large).await;
    room.until_noted("root-lock-failed").await;
    assert_eq!(room.ends().0, 2);
    ballast.iter().for_each(|path| std::fs::remove_file(path).unwrap());
    room.until_ended(3).await;
    // An exchange of two names needs no room.
    assert_eq!((room.ends().1, room.text()), (1, large));
    let more = room.hold(KillPoint::MaterializeExchangeBefore);
    room.accept(Operation::Append, SAID).await;
    room.stage.points.sprung(more).await;
    fill_bytes(&root);
    room.stage.points.release(more);
    room.until_ended(4).await;
    assert_eq!((room.ends().1, room.text().ends_with(&format!("{SAID}\n"))), (2, true));
    room.judge().await;
}
