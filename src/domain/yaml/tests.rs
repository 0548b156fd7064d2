use proptest::prelude::*;

use super::*;

fn reading(text: &str) -> Reading {
    read("a.yaml", text.as_bytes(), Limits::DECLARATION)
}

/// Returns `line:column code` of every problem.
fn places(text: &str) -> Vec<String> {
    reading(text)
        .problems
        .iter()
        .map(|problem| format!("{}:{} {}", problem.line, problem.column, problem.code))
        .collect()
}

fn json(text: &str) -> serde_json::Value {
    let reading = reading(text);
    assert!(reading.problems.is_empty(), "{text}\n{}", render_all(&reading.problems));
    reading.root.unwrap().to_json()
}

#[test]
fn the_subset_is_read() {
    let text = "\
---
# a comment
id: document-structure   # another
version: 1
enabled: true
ratio: 0.5
empty:
nothing: null
plain: some words
  that go on
quoted: \"a: \\\"b\\\" \\u00e9\"
single: 'it''s'
url: http://example.org/a#b
types:
  - one
  - two
same:
- x
-
  w
nested:
- a: 1
  b: [x, 'y', \"z\"]
- - deep
  - er
flow: { key: value, list: [1, 2,
  3], }
literal: |
  line one

    indented
  line two
folded: >-
  one
  two

  three
";
    let expected = serde_json::json!({
        "id": "document-structure", "version": 1, "enabled": true, "ratio": 0.5, "empty": null, "nothing": null,
        "plain": "some words that go on", "quoted": "a: \"b\" é", "single": "it's",
        "url": "http://example.org/a#b", "types": ["one", "two"], "same": ["x", "w"],
        "nested": [{"a": 1, "b": ["x", "y", "z"]}, ["deep", "er"]],
        "flow": {"key": "value", "list": [1, 2, 3]},
        "literal": "line one\n\n  indented\nline two\n", "folded": "one two\nthree",
    });
    assert_eq!(json(text), expected);
}

#[test]
fn keys_and_values_keep_their_places() {
    let reading = reading("é: x\nsub:\n  - key:  'v'\n");
    let root = reading.root.unwrap();
    let entry = &root.get("sub").unwrap().items()[0].entries()[0];
    assert_eq!((entry.key_span.line, entry.key_span.column, entry.key_span.length), (3, 5, 3));
    assert_eq!((entry.node.span.line, entry.node.span.column, entry.node.span.length), (3, 11, 3));
    assert_eq!(root.get("é").unwrap().span.column, 4);
}

#[test]
fn hand_49_yaml_that_means_something_else() {
    let text = "\
enabled: on
id: no
version: 1.0
limit: 12345678901234567890
mode: 0o17
size: 1_000
base: &base
  a: 1
merged:
  <<: *base
  b: 2
id: again
maybe: ~
\tindented: by a tab
ratio: .nan
";
    assert_eq!(
        places(text),
        [
            "1:10 yaml.ambiguous",
            "2:5 yaml.ambiguous",
            "4:8 yaml.ambiguous",
            "5:7 yaml.ambiguous",
            "6:7 yaml.ambiguous",
            "7:7 yaml.anchor",
            "10:3 yaml.merge-key",
            "12:1 yaml.duplicate-key",
            "13:8 yaml.ambiguous",
            "14:1 yaml.tab",
            "15:8 yaml.ambiguous",
        ]
    );
    insta::assert_snapshot!(render_all(&reading("enabled: on\nid: a\nid: b\n").problems), @r#"
    a.yaml:1:10: `on` is a boolean to some readers and text to others [yaml.ambiguous]
      1 | enabled: on
        |          ^^
      write `true`, or quote it if text is meant: "on"

    a.yaml:3:1: this key is already in the map [yaml.duplicate-key]
      3 | id: b
        | ^^
      it was first set on line 2, column 1

    2 problems
    "#);
}

#[test]
fn each_refusal_has_its_place() {
    for (text, expected) in [
        ("a: *x\n", "1:4 yaml.alias"),
        ("a: !!str x\n", "1:4 yaml.tag"),
        ("a: [!x b]\n", "1:5 yaml.tag"),
        ("&a b: c\n", "1:1 yaml.anchor"),
        ("? a\n", "1:1 yaml.key"),
        ("1: a\n", "1:1 yaml.key"),
        ("on: a\n", "1:1 yaml.ambiguous"),
        ("[a]: b\n", "1:4 yaml.syntax"),
        ("a: b: c\n", "1:5 yaml.syntax"),
        ("a: - b\n", "1:4 yaml.syntax"),
        ("a: @b\n", "1:4 yaml.syntax"),
        ("a: 'b\n", "1:4 yaml.syntax"),
        ("a: 'b\nc: d\n", "1:4 yaml.syntax"),
        ("a: \"\\q\"\n", "1:5 yaml.escape"),
        ("a: \"\\u0007\"\n", "1:5 yaml.escape"),
        ("a: \"b\" c\n", "1:8 yaml.syntax"),
        ("a: [b\n", "1:4 yaml.syntax"),
        ("a: [b}\n", "1:6 yaml.syntax"),
        ("a: {b}\n", "1:5 yaml.syntax"),
        ("a: {b: 1, b: 2}\n", "1:11 yaml.duplicate-key"),
        ("a: {b:1}\n", "1:5 yaml.syntax"),
        ("a: [b: c]\n", "1:6 yaml.syntax"),
        ("a:\n  b: 1\n c: 2\n", "3:2 yaml.indentation"),
        ("a: 1\n  b: 2\n", "2:4 yaml.syntax"),
        ("a: 1 # x\n  b: 2\n", "2:3 yaml.indentation"),
        ("a\n", ""),
        ("a: 1\nwords\n", "2:1 yaml.syntax"),
        ("a: 1\n- b\n", "2:1 yaml.syntax"),
        ("- a\nb: 1\n", "2:1 yaml.indentation"),
        ("a: b\tc\n", "1:5 yaml.tab"),
        ("a:\tb\n", "1:3 yaml.tab"),
        ("a: 1\n---\nb: 2\n", "2:1 yaml.second-document"),
        ("a: 1\n...\n", "2:1 yaml.second-document"),
        ("%YAML 1.2\n---\na: 1\n", "1:1 yaml.directive"),
        ("\u{feff}a: 1\n", "1:1 yaml.byte-order-mark"),
        ("a: \u{7}\n", "1:4 yaml.character"),
        ("a: \0\n", "1:4 yaml.character"),
        ("a: b\rc: d\n", "1:5 yaml.character"),
        ("a: \u{2028}\n", "1:4 yaml.character"),
        ("a: |\n     \n  b\n", "1:4 yaml.indentation"),
    ] {
        assert_eq!(places(text).join(", "), expected, "{text:?}");
    }
}

#[test]
fn reading_goes_on_after_each_problem() {
    let text = "\
a: on
b:
  c: *x
  d: [1, 2
e: yes
f:
\tg: 1
h: {i: no, j: ~}
k: 'open
l: 0x10
";
    assert_eq!(
        places(text),
        [
            "1:4 yaml.ambiguous",
            "3:6 yaml.alias",
            "5:2 yaml.syntax",
            "7:1 yaml.tab",
            "8:8 yaml.ambiguous",
            "8:15 yaml.ambiguous",
            "9:4 yaml.syntax",
            "10:4 yaml.ambiguous",
        ]
    );
}

#[test]
fn a_binary_or_foreign_text_is_refused_at_the_first_bad_byte() {
    let problems = read("a.yaml", b"a: 1\nb: \xff\xfe\n", Limits::DECLARATION).problems;
    assert_eq!((problems[0].line, problems[0].column, problems[0].code), (2, 4, codes::NOT_UTF8));
    let binary: Vec<u8> = (0..=127).collect();
    let problems = read("a.yaml", &binary, Limits::DECLARATION).problems;
    assert_eq!(problems.len(), 5);
    assert!(problems.iter().all(|problem| problem.code == codes::CHARACTER));
}

#[test]
fn a_huge_text_is_refused_by_its_size() {
    let problems = read("a.yaml", &vec![b'#'; 64 * 1024 + 1], Limits::DECLARATION).problems;
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].code, codes::TOO_LARGE);
}

#[test]
fn an_empty_text_is_nothing() {
    for text in ["", "\n\n", "# only a comment", "---\n", "  \n"] {
        assert_eq!(json(text), serde_json::Value::Null, "{text:?}");
    }
}

#[test]
fn deep_nesting_is_refused_before_anything_parses_it() {
    let full = Limits::DECLARATION.bytes_max;
    for (text, expected) in [
        ("[".repeat(full), "1:17 yaml.too-deep"),
        ("{a: ".repeat(full / 4), "1:65 yaml.too-deep"),
        ("- ".repeat(full / 2), "1:65 yaml.too-deep"),
        (format!("a: {}1{}\n", "[".repeat(17), "]".repeat(17)), "1:20 yaml.too-deep"),
        ((0..40).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect(), "25:25 yaml.too-deep"),
        ("- ".repeat(25), "1:49 yaml.too-deep"),
    ] {
        assert_eq!(places(&text).join(", "), expected, "{}", &text[..20]);
    }
    assert!(places(&format!("a: {}1{}\n", "[".repeat(16), "]".repeat(16))).is_empty());
}

#[test]
fn brackets_in_text_are_only_text() {
    assert_eq!(json(&format!("a: \"{}\"\n", "[".repeat(200)))["a"].as_str().unwrap().len(), 200);
}

#[test]
fn a_hopeless_text_ends_the_report() {
    let problems = reading(&"a: on\n".repeat(5_000)).problems;
    assert_eq!(problems.len(), Limits::PROBLEMS_MAX + 1);
    assert!(problems.iter().any(|problem| problem.code == codes::MORE));
}

/// Pieces that texts are glued from: most texts made of them are nonsense, which is the point.
fn piece() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "a", "b", "key", "on", "1", "-1", "0.5", "1e3", "~", "null", "true", "x y", "é", "-", "- ", "--",
        ": ", ":", ":\n", "\n", "\n", "\n", "\n\n", " ", "  ", "    ", "\n  ", "\n    ", "\n- ", "\n  - ",
        "?", "? ", "[", "]", "{", "}", ", ", ",", "'", "\"", "''", "\\", "\\n", "#", " #", " # c\n", "|",
        ">", "|-\n", ">+\n", "|2\n", ">\n", "&a ", "*a", "!t ", "<<", "%", "@", "`", "=", "---\n", "...\n",
        "\r\n", "\t", "a: b", "a: ", "c: d\n",
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// The two readers never differ: whatever the marked reader accepts, `serde_yaml` reads as the same tree.
    #[test]
    fn the_marked_reader_and_serde_yaml_agree(pieces in prop::collection::vec(piece(), 0..24)) {
        let text: String = pieces.concat();
        let reading = reading(&text);
        prop_assert!(
            reading.problems.iter().all(|problem| problem.code != codes::DISAGREEMENT),
            "{text:?}\n{}", render_all(&reading.problems)
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// No text makes the reader panic, and each problem renders on known lines.
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let reading = read("a.yaml", &bytes, Limits::DECLARATION);
        for problem in &reading.problems {
            prop_assert!(problem.render().lines().count() <= 5);
        }
    }

    /// What `serde_yaml` writes is read back as the same value, unless it holds something the rule refuses.
    #[test]
    fn a_written_tree_is_read_back(tree in tree()) {
        let text = serde_yaml::to_string(&tree).unwrap();
        let reading = reading(&text);
        prop_assert!(reading.problems.is_empty(), "{text}\n{}", render_all(&reading.problems));
        prop_assert_eq!(reading.root.unwrap().to_json(), tree);
    }

    /// What we write is read back as the same value, by both readers, and shows no terminal anything hostile.
    #[test]
    fn what_is_written_here_is_read_back(tree in written()) {
        let text = write(&tree);
        let reading = reading(&text);
        prop_assert!(reading.problems.is_empty(), "{text}\n{}", render_all(&reading.problems));
        prop_assert_eq!(reading.root.unwrap().to_json(), tree);
        prop_assert!(!text.chars().any(|c| c != '\n' && crate::text::is_hostile(c)), "{text}");
    }
}

#[test]
fn a_word_with_two_meanings_is_written_in_quotes() {
    let value = serde_json::json!({ "thinkingLevel": "off", "on": "1:30", "type": "a.b.c@1", "path": "notes/a.md",
        "empty": "", "lines": "One.\nTwo: three.\n", "cut": "a\n\n", "list": [["x"], {}, []], "mark": "a\u{202e}b" });
    insta::assert_snapshot!(write(&value), @r#"
    cut: "a\n\n"
    empty: ""
    lines: |
      One.
      Two: three.
    list:
      - - x
      - {}
      - []
    mark: "a\U0000202Eb"
    "on": "1:30"
    path: notes/a.md
    thinkingLevel: "off"
    type: a.b.c@1
    "#);
}

/// Trees whose texts are any that a file of ours can hold.
fn written() -> impl Strategy<Value = serde_json::Value> {
    let text = || {
        prop_oneof![
            "[ -~]{0,12}",
            "(on|off|yes|no|~|null|true|0x1f|1_000|1:30|1e3|\\.5|-|=|<<|2026-11-30|\\+1)",
            "[ -~\n\tä😀\u{202e}\u{200b}\u{2028}\u{feff}\u{e0041}\u{ad}\r]{0,16}",
            "[ a-z#:-]{0,6}\n[ a-z#:-]{0,6}\n{0,2}[ a-z]{0,3}\n{0,2}",
        ]
    };
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(serde_json::Value::from),
        any::<i32>().prop_map(serde_json::Value::from),
        text().prop_map(serde_json::Value::from),
    ];
    leaf.prop_recursive(5, 40, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
            prop::collection::btree_map(text(), inner, 0..4)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
    .prop_filter("null alone is an empty document", |tree| !tree.is_null())
}

/// Trees of values that every reader reads alike.
fn tree() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(serde_json::Value::from),
        (-1_000_000_i64..1_000_000).prop_map(serde_json::Value::from),
        "[a-z]{2,8}( [a-z:#'\"-]{1,6}){1,3}".prop_map(serde_json::Value::from),
        "[ -~]{0,12}"
            .prop_filter("words with two meanings are written unquoted", |word| scalar::resolve(word)
                == Ok(scalar::Plain::Text))
            .prop_map(serde_json::Value::from),
        "[a-zé]{0,5}\n[ a-z]{0,5}\n{0,2}[a-z]{0,3}".prop_map(serde_json::Value::from),
    ];
    let keyed = |inner| prop::collection::btree_map("key_[a-z]{0,6}", inner, 1..4);
    leaf.prop_recursive(5, 40, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..4).prop_map(serde_json::Value::from),
            keyed(inner).prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
    .prop_filter("null alone is an empty document", |tree| !tree.is_null())
}
/// The longest texts that are read, one for each way in which a careless reader would look at them twice.
#[test]
fn a_text_of_the_greatest_length_is_read_or_refused() {
    let n = Limits::DECLARATION.bytes_max - 100;
    let numbered = |count: usize, line: &str| -> String {
        (0..count).map(|at| line.replace('N', &format!("{at:05}"))).collect()
    };
    for (text, accepted) in [
        (numbered(n / 10, "kN: 1\n"), true),
        (format!("a: {{{}}}", numbered(n / 12, "kN: 1, ")), true),
        (format!("a: [{}]", "b, ".repeat(n / 3)), true),
        (format!("a: {}", "word ".repeat(n / 5)), true),
        (format!("a: b\n{}", "  c\n".repeat(n / 4)), true),
        (format!("a: \"{}\"", "\\n".repeat(n / 2)), true),
        (format!("a: \"{}\"", "b\n  ".repeat(n / 4)), true),
        (format!("a: |\n{}", "  b\n".repeat(n / 4)), true),
        (format!("a: b\n{}c: d\n", "\n".repeat(n)), true),
        (format!("a:\n  b:\n    c:\n{}d: e\n", "#\n".repeat(n / 2)), true),
        ("-\n".repeat(n / 2), true),
        ("a: \"x\n".repeat(n / 7), false),
        ("a: [\n".repeat(n / 5), false),
        (format!("a: {}", "b:".repeat(n / 2)), false),
        (format!("a: [{}]", "é: ".repeat(n / 4)), false),
    ] {
        let problems = reading(&text).problems;
        assert_eq!(problems.is_empty(), accepted, "{}\n{}", &text[..20], render_all(&problems));
        assert!(problems.len() <= Limits::PROBLEMS_MAX + 1);
    }
}
