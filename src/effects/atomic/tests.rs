use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use nix::unistd::mkfifo;

use super::*;
use crate::testing::as_nobody;

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_file_is_replaced_whole_with_its_mode() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.yaml");
    replace(&path, b"first", 0o600).unwrap();
    assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"first".to_vec(), 0o600));
    replace(&path, b"second", 0o644).unwrap();
    assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"second".to_vec(), 0o644));
    assert_eq!(names(dir.path()), ["config.yaml"]);
}

#[test]
fn a_new_file_never_replaces_anything() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("backup");
    create(&path, b"first", 0o600).unwrap();
    assert!(matches!(create(&path, b"second", 0o600), Err(WriteError::Exists { .. })));
    assert!(matches!(create_empty(&path, 0o600), Err(WriteError::Exists { .. })));
    assert_eq!(fs::read(&path).unwrap(), b"first");

    let dangling = dir.path().join("dangling");
    symlink("nowhere", &dangling).unwrap();
    assert!(matches!(create(&dangling, b"x", 0o600), Err(WriteError::Exists { .. })));
    assert!(matches!(create_empty(&dangling, 0o600), Err(WriteError::Exists { .. })));
    assert_eq!(names(dir.path()), ["backup", "dangling"]);

    create_empty(&dir.path().join("stream"), 0o600).unwrap().write_all(b"x").unwrap();
    assert_eq!(mode(&dir.path().join("stream")), 0o600);
}

#[test]
fn a_link_is_neither_followed_nor_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("target");
    fs::write(&target, "precious").unwrap();
    let link = dir.path().join("link");
    symlink(&target, &link).unwrap();
    assert!(matches!(replace(&link, b"x", 0o600), Err(WriteError::NotRegular { .. })));
    assert!(matches!(read(&link, 100), Err(ReadError::NotRegular { .. })));
    assert_eq!(fs::read(&target).unwrap(), b"precious");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
}

#[test]
fn reading_a_pipe_a_socket_or_a_directory_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    let socket = dir.path().join("socket");
    std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for path in [pipe.as_path(), &socket, dir.path()] {
        assert!(matches!(read(path, 100), Err(ReadError::NotRegular { .. })), "{}", path.display());
    }
    assert!(matches!(replace(&pipe, b"x", 0o600), Err(WriteError::NotRegular { .. })));
}

#[test]
fn reading_tells_missing_large_and_forbidden_apart() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let path = dir.path().join("file");
    assert!(matches!(read(&path, 4), Err(ReadError::Missing { .. })));
    fs::write(&path, "four").unwrap();
    assert_eq!(read(&path, 4).unwrap(), b"four");
    assert!(matches!(read(&path, 3), Err(ReadError::TooLarge { bytes_max: 3, .. })));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o0)).unwrap();
    let error = as_nobody(|| read(&path, 4)).unwrap_err();
    let ReadError::Io { source, .. } = error else { panic!("{error:?}") };
    assert_eq!(source.kind(), io::ErrorKind::PermissionDenied);
}

#[test]
fn a_failed_write_leaves_the_old_file_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.yaml");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let error = as_nobody(|| replace(&path, b"new", 0o600)).unwrap_err();
    assert!(matches!(error, WriteError::Io { step: "create", .. }), "{error:?}");
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(names(dir.path()), ["config.yaml"]);
}

#[test]
fn a_name_left_by_a_crash_is_stepped_over() {
    let dir = tempfile::tempdir().unwrap();
    let place_path = dir.path().join("file");
    let place = Place::open(&place_path).unwrap();
    let (_, first) = place.create_temporary().unwrap();
    let (_, second) = place.create_temporary().unwrap();
    assert_ne!(first.name(), second.name());
    drop((first, second));
    assert!(names(dir.path()).is_empty());
}

#[test]
fn removing_is_done_once_and_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, "x").unwrap();
    remove(&path).unwrap();
    remove(&path).unwrap();
    assert!(names(dir.path()).is_empty());
    assert!(matches!(remove(Path::new("/")), Err(WriteError::NotAFileName { .. })));
}
