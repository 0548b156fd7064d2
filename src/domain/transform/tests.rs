//! What holds for every transform, whatever it derives.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use crate::canonical;
use crate::registry::Registry;

mod bombs;
mod notes;

pub(super) fn trigger(path: &str, content: &[u8]) -> Trigger {
    Trigger {
        change: Change::Present { sha256: Sha256Hash::of(content), content_type: "text/markdown".into() },
        document_id: DocumentId::parse("doc_example").unwrap(),
        revision: 1,
        path: path.to_owned(),
    }
}

/// Derives the output of the type `D` from a document in `notes/a.md`.
pub(super) fn present<D: TypedPayload>(text: &str) -> D {
    let transform = KNOWN.iter().find(|transform| (transform.kind)() == D::kind()).unwrap();
    let outputs =
        run(transform.name, &trigger("notes/a.md", text.as_bytes()), Some(text.as_bytes())).unwrap();
    D::deserialize(&outputs[0].payload).unwrap()
}

/// The schemas of the outputs, in the order of the table.
static VALIDATORS: LazyLock<Vec<jsonschema::Validator>> = LazyLock::new(|| {
    let registry = Registry::shipped();
    let schema = |kind: TypeRef| registry.get(&kind).unwrap().schema().clone();
    known().iter().map(|transform| jsonschema::validator_for(&schema((transform.kind)())).unwrap()).collect()
});

/// Runs every transform on `content` and checks what each output promises.
pub(super) fn check_all(content: &[u8]) -> Result<(), TransformError> {
    for (transform, validator) in known().iter().zip(VALIDATORS.iter()) {
        let trigger = trigger("notes/a.md", content);
        let outputs = run(transform.name, &trigger, Some(content))?;
        assert_eq!(outputs, run(transform.name, &trigger, Some(content))?, "{}", transform.name);
        assert_eq!(outputs.len(), 1);
        let Output { kind, payload } = &outputs[0];
        let bytes = canonical::write(payload).unwrap();
        assert!(bytes.len() <= OUTPUT_BYTES_MAX, "{}: {} bytes", transform.name, bytes.len());
        assert_eq!(*kind, (transform.kind)());
        let errors: Vec<String> = validator.iter_errors(payload).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{}: {errors:?}", transform.name);
    }
    Ok(())
}

#[test]
fn the_table_is_sorted_and_names_registered_types() {
    assert!(known().is_sorted_by_key(|transform| transform.name));
    let registry = Registry::shipped();
    for transform in known() {
        for name in transform.emits.iter().chain(transform.accepts) {
            assert!(registry.resolve(name).is_ok(), "{name}");
        }
        assert_eq!(find(transform.name).map(|found| found.name), Some(transform.name));
        let outputs =
            run(transform.name, &trigger("a.md", b"- [ ] @due(2026-01-02)"), Some(b"- [ ] @due(2026-01-02)"));
        for promoted in registry.get(&(transform.kind)()).unwrap().promoted() {
            assert!(outputs.as_ref().unwrap()[0].payload.get(promoted).is_some(), "{promoted}");
        }
    }
    assert_eq!(run("document-x", &trigger("a.md", b""), Some(b"")), Err(TransformError::Unknown));
}

#[test]
fn a_trigger_is_read_from_every_file_event_and_nothing_else() {
    let hash = Sha256Hash::of(b"");
    let common = serde_json::json!({
        "documentId": "doc_a", "revision": 3, "path": "a.md", "bytes": 0, "sha256": hash, "contentType": "text/markdown",
    });
    let with = |more: Value| {
        let mut payload = common.clone();
        payload.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        payload
    };
    let present = Change::Present { sha256: hash, content_type: "text/markdown".into() };
    let removed =
        serde_json::json!({"documentId": "doc_a", "revision": 3, "path": "a.md", "previousSha256": hash});
    for (kind, payload, change) in [
        (FileAdded::kind(), common.clone(), present.clone()),
        (FileChanged::kind(), with(serde_json::json!({"previousSha256": hash})), present.clone()),
        (
            FileRenamed::kind(),
            with(serde_json::json!({"previousSha256": hash, "previousPath": "b.md"})),
            present,
        ),
        (FileRemoved::kind(), removed, Change::Removed),
    ] {
        let trigger = Trigger::read(&kind, &payload).unwrap();
        assert_eq!((trigger.change, trigger.path.as_str(), trigger.revision), (change, "a.md", 3), "{kind}");
    }
    let other = TypeRef::parse("stream.thought.source.file.added@2").unwrap();
    assert_eq!(Trigger::read(&other, &common), Err(TransformError::WrongTrigger { kind: other }));
    assert!(Trigger::read(&FileAdded::kind(), &Value::Null).is_err());
}

#[test]
fn a_removal_gives_a_tombstone_that_fits_the_type() {
    let registry = Registry::shipped();
    for transform in known() {
        let trigger = Trigger { change: Change::Removed, ..trigger("a.md", b"") };
        let outputs = run(transform.name, &trigger, None).unwrap();
        let expected = serde_json::json!({"state": "removed", "documentId": "doc_example", "revision": 1, "path": "a.md"});
        assert_eq!(outputs[0].payload, expected);
        let schema = registry.get(&outputs[0].kind).unwrap().schema();
        assert!(jsonschema::is_valid(schema, &expected));
        let mut more = expected.clone();
        more["x"] = 1.into();
        assert!(
            !jsonschema::is_valid(schema, &more),
            "the schema of {} takes unknown fields",
            transform.name
        );
    }
}

#[test]
fn a_file_that_is_not_markdown_gives_no_output() {
    let png = b"\x89PNG\r\n\x1a\n\0";
    for transform in known() {
        let mut trigger = trigger("photo.png", png);
        trigger.change = Change::Present { sha256: Sha256Hash::of(png), content_type: "image/png".into() };
        assert_eq!(run(transform.name, &trigger, None), Ok(Vec::new()));
        trigger.path = "photo.MD".into();
        assert_eq!(run(transform.name, &trigger, Some(png)), Err(TransformError::NotUtf8 { offset: 0 }));
    }
}

#[test]
fn only_the_version_that_the_event_names_is_read() {
    let trigger = trigger("a.md", b"one");
    assert_eq!(run("document-tasks", &trigger, None), Err(TransformError::Missing));
    assert_eq!(run("document-tasks", &trigger, Some(b"two")), Err(TransformError::OtherVersion));
}

#[test]
fn every_error_has_a_code_of_its_own_and_shows_no_content() {
    let large = vec![b'a'; markdown::DOCUMENT_BYTES_MAX + 1];
    let deep = ">".repeat(markdown::NESTING_MAX + 1);
    let code = |content: &[u8]| check_all(content).unwrap_err().code();
    assert_eq!(code(&large), "document-too-large");
    assert_eq!(code(b"secret \xff"), "document-not-utf8");
    assert_eq!(
        code("a\0b".encode_utf16().flat_map(u16::to_le_bytes).chain([0xff]).collect::<Vec<_>>().as_slice()),
        "document-not-utf8"
    );
    assert_eq!(code(deep.as_bytes()), "document-too-deep");
    assert!(!format!("{:?} {0}", check_all(b"secret \xff").unwrap_err()).contains("secret"));
}

#[test]
fn odd_text_is_read_like_any_other() {
    for text in [
        "",
        "\n",
        "\r",
        "\0",
        "\u{feff}",
        "---",
        "---\n---",
        "---\n...\n",
        "# \u{202e}evil\u{0}\u{1b}[2J",
        "[\u{0}](\u{0})",
        "# a\r\n- [ ] b\r\n",
        "no line end",
        "\u{2028}# a",
        "- [ ]",
        "- [x]\n",
        "[[]]",
        "[[|]]",
        "![[]]",
        "[](<>)",
        "[a]: \n[a]",
    ] {
        assert_eq!(check_all(text.as_bytes()), Ok(()), "{text:?}");
    }
}

/// Pieces that mean something in Markdown or in what the transforms look for.
fn piece() -> impl Strategy<Value = String> {
    const PIECES: [&str; 48] = [
        "# ",
        "### ",
        "\n",
        "\n\n",
        "\r\n",
        "\r",
        "---\n",
        "- ",
        "  - ",
        "1. ",
        "- [ ] ",
        "- [x] ",
        "- [-] ",
        "[/] ",
        "> ",
        "    ",
        "```",
        "~~~rust\n",
        "`",
        "*",
        "**",
        "_",
        "[",
        "]",
        "(",
        ")",
        "[[",
        "]]",
        "|",
        "![",
        "[a]: b\n",
        "[a][b]",
        "[^1]",
        "[^1]: ",
        "<a id=\"x\">",
        "<!--",
        "-->",
        "#a",
        "../",
        "%2e%2e/",
        "%ff",
        "https://e.org/(a",
        "mailto:a@b",
        "@due(2026-01-02)",
        "📅",
        "due: 2026-13-01",
        "^block",
        "\u{202e}\0",
    ];
    prop_oneof![
        4 => prop::sample::select(&PIECES[..]).prop_map(str::to_owned),
        1 => "[a-zäß😀 ]{0,6}",
        1 => any::<char>().prop_map(String::from),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_text_gives_one_bounded_output_twice_the_same(pieces in prop::collection::vec(piece(), 0..60)) {
        let result = check_all(pieces.concat().as_bytes());
        let refused_for_depth = matches!(result, Err(TransformError::TooDeep { .. }));
        prop_assert!(refused_for_depth || result == Ok(()), "{:?}", result);
    }

    #[test]
    fn any_bytes_give_an_output_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        match check_all(&bytes) {
            Ok(()) | Err(TransformError::NotUtf8 { .. }) => {}
            Err(other) => prop_assert!(false, "{other:?}"),
        }
    }
}
