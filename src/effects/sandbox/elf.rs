//! The one thing asked of a program's file: which loader it wants.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// The kind of segment that names a program's loader.
const PT_INTERP: u32 = 3;

/// The size of a program header in a 64-bit file.
const PROGRAM_HEADER: usize = 56;

/// Is what a program's file says about its loader.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Loader<'a> {
    /// It needs none.
    Static,
    /// It is loaded by the program at this path.
    At(&'a Path),
}

/// Reads which loader a 64-bit little-endian program wants; `None` for anything else.
pub(super) fn loader(file: &[u8]) -> Option<Loader<'_>> {
    if !file.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let table = usize::try_from(u64::from_le_bytes(*file.get(32..)?.first_chunk()?)).ok()?;
    let size = usize::from(u16::from_le_bytes(*file.get(54..)?.first_chunk()?));
    let count = usize::from(u16::from_le_bytes(*file.get(56..)?.first_chunk()?));
    if size != PROGRAM_HEADER {
        return None;
    }
    for entry in file.get(table..)?.get(..size * count)?.chunks_exact(size) {
        if u32::from_le_bytes(*entry.first_chunk()?) != PT_INTERP {
            continue;
        }
        let offset = usize::try_from(u64::from_le_bytes(*entry.get(8..)?.first_chunk()?)).ok()?;
        let length = usize::try_from(u64::from_le_bytes(*entry.get(32..)?.first_chunk()?)).ok()?;
        let path = file.get(offset..offset.checked_add(length)?)?.strip_suffix(b"\0")?;
        let path = Path::new(OsStr::from_bytes(path));
        return (path.is_absolute() && !path.as_os_str().as_bytes().contains(&0)).then_some(Loader::At(path));
    }
    Some(Loader::Static)
}

/// Reads what a loader lists: the absolute paths of the libraries that a program maps. `None` if one of them
/// was not found.
pub(super) fn listed(text: &str) -> Option<Vec<&Path>> {
    let mut paths = Vec::new();
    for line in text.lines() {
        let (named, found) =
            line.trim().split_once(" => ").map_or((line.trim(), None), |(a, b)| (a, Some(b)));
        let place = found.unwrap_or(named).split(" (0x").next()?.trim();
        if Path::new(place).is_absolute() {
            paths.push(Path::new(place));
        } else if found.is_some() {
            return None;
        }
    }
    Some(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loader_of_a_program_is_read_from_its_file() {
        let file = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let Some(Loader::At(path)) = loader(&file) else { panic!("tests are linked dynamically") };
        assert!(path.exists());
    }

    #[test]
    fn anything_else_is_no_program() {
        let whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(loader(b""), None);
        assert_eq!(loader(b"#!/bin/sh\n"), None);
        for length in [4, 6, 40, 57, 70] {
            assert_eq!(loader(&whole[..length]), None, "{length}");
        }
        let mut wild = whole[..200].to_vec();
        wild[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(loader(&wild), None);
    }

    #[test]
    fn the_list_of_a_loader_is_read_in_both_dialects() {
        let glibc = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\
                     \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let paths = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"].map(Path::new);
        assert_eq!(listed(glibc).unwrap(), paths);
        let musl =
            "\t/lib/ld-musl-x86_64.so.1 (0x7f)\n\tlibc.musl-x86_64.so.1 => /lib/ld-musl-x86_64.so.1 (0x7f)\n";
        assert_eq!(listed(musl).unwrap(), ["/lib/ld-musl-x86_64.so.1"; 2].map(Path::new));
        assert_eq!(listed("\tlibgone.so.1 => not found\n"), None);
    }
}
