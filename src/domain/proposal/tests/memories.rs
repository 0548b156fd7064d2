//! A memory change is the frozen document and what was accepted, or a code.

use proptest::prelude::*;

use super::*;
use crate::proposal::call::Operation;
use crate::proposal::memory::{Changed, append, change, identity, normalized};
use crate::proposal::reason::ReasonCode;

const BASE: &str = "---\nid: memory\ntags: [me]\n---\n# Memory\n\n- Likes tea.\n";
const LIMIT: u64 = 1 << 16;

fn named(base: &[u8]) -> MemoryTarget {
    MemoryTarget { sha256: Sha256Hash::of(base), bytes: base.len() as u64, ..capability().memory.unwrap() }
}

fn changed(base: &str, operation: Operation, text: &str) -> Result<Changed, ReasonCode> {
    change(&named(base.as_bytes()), base.as_bytes(), operation, text, LIMIT)
}

fn text_of(changed: &Changed) -> String {
    String::from_utf8(changed.bytes.reveal().clone()).unwrap()
}

#[test]
fn appending_keeps_the_document_and_adds_lines() {
    let made = changed(BASE, Operation::Append, "\r\n\n - Lives in Lisbon.\r\n- Has a cat. \n\n").unwrap();
    assert_eq!(text_of(&made), format!("{BASE} - Lives in Lisbon.\n- Has a cat.\n"));
    assert_eq!((made.sha256, made.id.as_str()), (Sha256Hash::of(made.bytes.reveal()), "memory"));
    let open = BASE.trim_end();
    assert_eq!(text_of(&changed(open, Operation::Append, "x").unwrap()), format!("{open}\nx\n"));
    let windows = BASE.replace('\n', "\r\n");
    let made = changed(&windows, Operation::Append, "a\nb").unwrap();
    assert_eq!(text_of(&made), format!("{windows}a\r\nb\r\n"));
    let bare = "---\nid: memory\n---";
    assert_eq!(text_of(&changed(bare, Operation::Append, "x").unwrap()), format!("{bare}\nx\n"));
}

#[test]
fn replacing_takes_the_text_as_it_is() {
    let text = "---\ntags: []\nid: \"memory\"\n---\nNew.\r\n\n";
    assert_eq!(text_of(&changed(BASE, Operation::ReplaceDocument, text).unwrap()), text);
}

#[test]
fn a_document_keeps_its_one_identity() {
    let replace = |text: &str| changed(BASE, Operation::ReplaceDocument, text).unwrap_err();
    for (text, code) in [
        ("# No frontmatter\n", ReasonCode::FrontmatterMissing),
        ("---\nid: memory\nno end\n", ReasonCode::FrontmatterMissing),
        ("\u{feff}---\nid: memory\n---\n", ReasonCode::FrontmatterMissing),
        ("\n---\nid: memory\n---\n", ReasonCode::FrontmatterMissing),
        ("---\nid: memory\nid: memory\n---\n", ReasonCode::IdTwice),
        ("---\nid: memory\n\"id\": other\n---\n", ReasonCode::IdTwice),
        ("---\nid: memory\nx: 1\nx: 2\n---\n", ReasonCode::FrontmatterMalformed),
        ("---\nid: [memory\n---\n", ReasonCode::FrontmatterMalformed),
        ("---\n- id: memory\n---\n", ReasonCode::FrontmatterMalformed),
        ("---\n---\n", ReasonCode::FrontmatterMalformed),
        ("---\nid: &a memory\n---\n", ReasonCode::FrontmatterMalformed),
        ("---\ntitle: memory\n---\n", ReasonCode::IdMissing),
        ("---\nmeta: { id: memory }\n---\n", ReasonCode::IdMissing),
        ("---\nid:\n---\n", ReasonCode::IdMissing),
        ("---\nid: \"\"\n---\n", ReasonCode::IdMissing),
        ("---\nid: \" \"\n---\n", ReasonCode::IdMissing),
        ("---\nid: [memory]\n---\n", ReasonCode::IdMissing),
        ("---\nid: \"mem\\u202eory\"\n---\n", ReasonCode::IdMissing),
        ("---\nid: Memory\n---\n", ReasonCode::IdChanged),
        ("---\nid: other\n---\n", ReasonCode::IdChanged),
    ] {
        assert_eq!(replace(text), code, "{text:?}");
        // A base without an identity cannot be changed either.
        if code != ReasonCode::IdChanged {
            assert_eq!(changed(text, Operation::Append, "x"), Err(code), "{text:?}");
        }
    }
    assert_eq!(identity("---\nid: 42\n---\n").unwrap(), "42");
}

#[test]
fn the_base_is_exactly_the_frozen_version() {
    let target = named(BASE.as_bytes());
    let moved = BASE.replace("tea", "mud");
    let of = |base: &str, target: &MemoryTarget| {
        change(target, base.as_bytes(), Operation::Append, "x", LIMIT).unwrap_err()
    };
    assert_eq!(of(&moved, &target), ReasonCode::BaseDamaged);
    assert_eq!(of(BASE, &MemoryTarget { bytes: 3, ..target.clone() }), ReasonCode::BaseDamaged);
    assert_eq!(of("", &target), ReasonCode::BaseDamaged);
    let latin = b"---\nid: memory\n---\ncaf\xe9";
    assert_eq!(change(&named(latin), latin, Operation::Append, "x", LIMIT), Err(ReasonCode::NotText));
    assert_eq!(changed(BASE, Operation::Append, "a\0b").unwrap_err(), ReasonCode::NotText);
}

#[test]
fn a_result_has_a_limit_and_is_something_new() {
    let room = (BASE.len() + "x\n".len()) as u64;
    let target = named(BASE.as_bytes());
    let of = |limit| change(&target, BASE.as_bytes(), Operation::Append, "x", limit);
    assert!(of(room).is_ok());
    assert_eq!(of(room - 1), Err(ReasonCode::TooLarge));
    assert_eq!(changed(BASE, Operation::ReplaceDocument, BASE), Err(ReasonCode::Unchanged));
    // White space alone adds nothing, also where the last line has no end.
    for text in [" ", "\n\r\n\t"] {
        assert_eq!(changed(BASE, Operation::Append, text), Err(ReasonCode::Unchanged), "{text:?}");
        assert_eq!(append("no end", text), "no end");
    }
    // A control character is text like any other, but for the one that no text holds.
    let made = changed(BASE, Operation::Append, "\u{1b}[2J\u{9b}").unwrap();
    assert!(text_of(&made).ends_with("\u{1b}[2J\u{9b}\n"));
}

#[test]
fn a_changed_document_does_not_print() {
    let made = changed(BASE, Operation::Append, "hunter2").unwrap();
    assert!(!format!("{made:?}").contains("hunter2"));
}

proptest! {
    #[test]
    fn appending_never_touches_what_was_there(text in "(.|\r|\n|\r\n){1,60}", body in "(.|\n){0,60}") {
        prop_assume!(!text.trim().is_empty());
        let base = format!("---\nid: memory\n---\n{body}");
        let made = changed(&base, Operation::Append, &text);
        if base.contains('\0') || text.contains('\0') {
            prop_assert_eq!(made, Err(ReasonCode::NotText));
            return Ok(());
        }
        let made = made.unwrap();
        let whole = text_of(&made);
        prop_assert!(whole.starts_with(&base) && whole.ends_with('\n'));
        let added = &whole[base.len()..];
        prop_assert_eq!(normalized(added), normalized(&text));
        prop_assert_eq!(append(&base, &normalized(&text)), whole);
    }
}
