//! Fingerprints, versions, differences and the published schema.

use super::*;

#[test]
fn the_fingerprint_is_golden() {
    insta::assert_snapshot!(one(MINIMAL).canonical(), @r#"{"declaration":{"context":{"maxChars":24000,"maxEvents":8},"description":"Identify document structure changes worth re-evaluating.","emit":["stream.thought.derived.document.structure"],"id":"document-structure","interrupted":{"record":"status-unknown","then":"retry"},"lifecycle":"two-commit","onVersionChange":"preserve","policy":{"externalActions":false,"tools":[]},"privacyFloor":"public-source","prompt":"prompts/document-structure.md","retry":{"attempts":5,"exhausted":"quarantine","first":"1s","max":"5m"},"role":"standard","runner":{"kind":"deterministic","transform":"document-structure"},"subscribe":{"batch":{"max":1,"wait":"0s"},"concurrency":1,"privacy":["public-source","private"],"replay":"beginning","sources":["filesystem:charter-fixture"],"types":["stream.thought.source.file.added","stream.thought.source.file.changed"]},"version":1},"format":1,"promptSha256":"00d1896874bd50151aefed37a1edc22fb6f6e51eb5cff1b441097ab5380e88dc"}"#);
    let golden = "6c2e5a23acc3cc2bf2ca1e1549c4ef29891e1af2130f26e30c5678f085087622";
    assert_eq!(one(MINIMAL).fingerprint().to_string(), golden);
}

#[test]
fn formatting_comments_and_enabling_do_not_change_the_fingerprint() {
    let same = "\
---
# Written by hand.
version: 1
id: 'document-structure'
description: \"Identify document structure changes worth re-evaluating.\"
enabled: false
runner: { kind: deterministic, transform: document-structure }
subscribe:
  sources: [ filesystem:charter-fixture ]   # only this one
  types: [stream.thought.source.file.changed, stream.thought.source.file.added]
  privacy: [private, public-source]
  replay: beginning
prompt: prompts/document-structure.md
emit: [stream.thought.derived.document.structure]
";
    assert_eq!(one(same).fingerprint(), one(MINIMAL).fingerprint());
    for (from, to) in [
        ("version: 1", "version: 2"),
        ("maxEvents: 8", "maxEvents: 9"),
        ("filesystem:charter-fixture", "filesystem:other"),
        ("worth re-evaluating", "worth a look"),
        ("  sources:", "  privacy: [private]\n  sources:"),
    ] {
        assert_ne!(one(&MINIMAL.replace(from, to)).fingerprint(), one(MINIMAL).fingerprint(), "{to}");
    }
}

#[test]
fn the_prompt_is_part_of_the_fingerprint() {
    let other = |path: &str| (path == "prompts/document-structure.md").then(|| b"Something else.".to_vec());
    let files = [("a.yaml".to_owned(), MINIMAL.as_bytes().to_vec())];
    let set = load_all(&files, &other, &catalog()).unwrap();
    assert_ne!(set.iter().next().unwrap().fingerprint(), one(MINIMAL).fingerprint());
}

#[test]
fn a_declaration_in_its_own_words_loads_again() {
    for text in [MINIMAL, FULL] {
        let declaration = one(text);
        let written = crate::yaml::write(&declaration.to_json());
        assert_eq!(one(&written).fingerprint(), declaration.fingerprint(), "{written}");
    }
}

#[test]
fn a_bump_changes_the_version_and_nothing_else() {
    let text = "# mine\nid: a   # odd\nversion:   9  # keep\nother: [1,2]\n";
    assert_eq!(bump("a.yaml", text).unwrap(), (text.replace("   9 ", "   10 "), 10));
    assert_eq!(one(&bump("a.yaml", MINIMAL).unwrap().0).version(), 2);
    assert_eq!(bump("a.yaml", "id: a\n").unwrap_err()[0].code.as_str(), "shape.missing-key");
    assert_eq!(bump("a.yaml", "version: '1'\n").unwrap_err()[0].line, 1);
    assert_eq!(
        bump("a.yaml", "version: 1\nversion: 2\n").unwrap_err()[0].code.as_str(),
        "yaml.duplicate-key"
    );
}

#[test]
fn a_difference_names_each_path() {
    let old = one(MINIMAL);
    let new =
        one(&MINIMAL.replace("version: 1", "version: 2").replace("  sources:", "  address: me\n  sources:"));
    let changes = diff(&old.to_json(), &new.to_json());
    assert_eq!(
        serde_json::to_value(changes).unwrap(),
        json!([
            { "path": "subscribe.address", "new": "me" },
            { "path": "version", "old": 1, "new": 2 },
        ])
    );
    assert!(diff(&old.to_json(), &old.to_json()).is_empty());
}

#[test]
fn a_version_is_bound_to_what_was_registered_under_it() {
    let set = load(&[("a.yaml", MINIMAL)]).unwrap();
    let fingerprint = one(MINIMAL).fingerprint();
    let key = |version| ConsumerKey::new(ConsumerId::parse("document-structure").unwrap(), version);
    let check = |registered: &[(u32, Sha256Hash)]| {
        let registered = registered.iter().map(|(version, hash)| (key(*version), *hash)).collect();
        check_registered(&set, &registered)
    };
    assert!(check(&[]).is_empty());
    assert!(check(&[(1, fingerprint)]).is_empty());
    let other = Sha256Hash::of(b"other");
    insta::assert_snapshot!(render_all(&check(&[(1, other)])), @r"
    a.yaml:2:10: the declaration changed, but `document-structure@1` is registered with other content [declaration.changed-without-bump]
      2 | version: 1
        |          ^
      run: thought declaration bump document-structure

    1 problem
    ");
    assert_eq!(codes_of(&check(&[(1, fingerprint), (3, other)])), ["declaration.version-went-back"]);
    let bumped = load(&[("a.yaml", &bump("a.yaml", MINIMAL).unwrap().0)]).unwrap();
    assert!(check_registered(&bumped, &BTreeMap::from([(key(1), other)])).is_empty());
}

/// The schema that editors read, made from the table of keys.
const SCHEMA: &str = include_str!("../../../../schemas/declaration.schema.json");

#[test]
fn the_published_schema_is_the_table_of_keys() {
    let expected = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    assert!(SCHEMA == expected, "write this to schemas/declaration.schema.json:\n{expected}");
}

#[test]
fn the_schema_and_the_reader_agree_on_samples() {
    let validator = jsonschema::validator_for(&serde_json::from_str(SCHEMA).unwrap()).unwrap();
    let fits = |text: &str| {
        let root =
            crate::yaml::read("a.yaml", text.as_bytes(), crate::yaml::Limits::DECLARATION).root.unwrap();
        validator.is_valid(&root.to_json())
    };
    assert!(fits(MINIMAL) && fits(FULL));
    for (from, to) in [
        ("enabled: true", "enabeld: true"),
        ("enabled: true", "enabled: 'true'"),
        ("version: 1", "version: 0"),
        ("version: 1", "version: '1'"),
        ("  sources:", "  source:"),
        ("- filesystem:charter-fixture", "- Filesystem"),
        ("kind: deterministic", "kind: po"),
        ("kind: deterministic", "kind: deterministic\n  model: 1"),
        ("kind: deterministic", "kind: deterministic\n  tier: x"),
        ("tools: []", "tools: [a]"),
        ("externalActions: false", "externalActions: true"),
        ("maxEvents: 8", "maxEvents: 8000"),
        ("prompts/document-structure.md", "prompts/../x.md"),
        ("enabled: true", "enabled: true\nretry: { first: 5 }"),
        ("enabled: true", "enabled: true\nretry: { frist: 5s }"),
        ("enabled: true", "enabled: true\nprivacyFloor: public"),
        ("enabled: true", "enabled: true\naccounting: {}"),
        ("enabled: true", "enabled: true\nonVersionChange: { replay: [] }"),
        ("  sources:", "  replay: { sequence: 0 }\n  sources:"),
        ("  sources:", "  where: { privacy: private }\n  sources:"),
        ("  sources:", "  batch: { max: 0 }\n  sources:"),
    ] {
        let text = MINIMAL.replacen(from, to, 1);
        assert!(!places(&text).is_empty() && !fits(&text), "{to}");
    }
}

#[test]
fn every_code_is_its_own() {
    let all = include_str!("../codes.rs").matches("Code::new(\"").count();
    let names: BTreeSet<&str> = include_str!("../codes.rs")
        .split("Code::new(\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    assert_eq!(names.len(), all);
}

/// The declarations that ship, with their prompts.
const SHIPPED: [(&str, &str, &str); 4] = [
    (
        "document-links",
        include_str!("../../../../declarations/document-links.yaml"),
        include_str!("../../../../prompts/document-links.md"),
    ),
    (
        "document-metadata",
        include_str!("../../../../declarations/document-metadata.yaml"),
        include_str!("../../../../prompts/document-metadata.md"),
    ),
    (
        "document-structure",
        include_str!("../../../../declarations/document-structure.yaml"),
        include_str!("../../../../prompts/document-structure.md"),
    ),
    (
        "document-tasks",
        include_str!("../../../../declarations/document-tasks.yaml"),
        include_str!("../../../../prompts/document-tasks.md"),
    ),
];

#[test]
fn the_shipped_declarations_load() {
    let files: Vec<_> =
        SHIPPED.iter().map(|(id, text, _)| (format!("{id}.yaml"), text.as_bytes().to_vec())).collect();
    let prompts = |path: &str| {
        let found = SHIPPED.iter().find(|(id, _, _)| path == format!("prompts/{id}.md"));
        found.map(|(_, _, prompt)| prompt.as_bytes().to_vec())
    };
    let set =
        load_all(&files, &prompts, &catalog()).unwrap_or_else(|problems| panic!("{}", render_all(&problems)));
    assert_eq!(set.enabled().count(), SHIPPED.len());
}
