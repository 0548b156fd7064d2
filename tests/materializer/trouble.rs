//! What goes wrong after a change was begun: wherever it is known what became of the file, the change ends with a record
//! of why; where nobody can know, it waits.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use nix::unistd::geteuid;
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
