use super::*;
use crate::content::Content;
use crate::declaration::{Catalog, load_all};
use crate::event::{Actor, ActorKind, Payload};
use crate::hash::{ChainHash, Sha256Hash};
use crate::id::{EventId, IdempotencyKey, TypeRef};
use crate::registry::Registry;
use crate::time::Timestamp;

/// Compiling the shipped schemas takes most of a test's time, so it is done once.
static CATALOG: std::sync::LazyLock<Catalog> = std::sync::LazyLock::new(|| Catalog::of(&Registry::shipped()));

/// Compiles the `subscribe` of a declaration that reads the types given.
fn subscription(lines: &[&str]) -> Subscription {
    let mut catalog = CATALOG.clone();
    let all: BTreeSet<TypeName> = catalog.types.keys().cloned().collect();
    let any = crate::declaration::TransformInfo { accepts: all.clone(), emits: all };
    catalog.transforms.insert("any".to_owned(), any);
    let text = format!(
        "id: test\nversion: 1\nenabled: true\ndescription: x\nsubscribe:\n  {}\nrunner: {{ kind: deterministic, \
         transform: any }}\nemit: [stream.thought.derived.document.links]\n",
        lines.join("\n  ")
    );
    let loaded = load_all(&[("a.yaml".to_owned(), text.into_bytes())], &|_| None, &catalog);
    let set = loaded.unwrap_or_else(|problems| panic!("{}", crate::yaml::render_all(&problems)));
    set.iter().next().unwrap().subscription().clone()
}

/// Makes an added file as the log would answer it.
fn added() -> Event {
    let source = SourceId::parse("filesystem:notes").unwrap();
    let kind = TypeRef::parse("stream.thought.source.file.added@1").unwrap();
    let key = IdempotencyKey::parse("k").unwrap();
    let id = EventId::derive(&source, &kind.name, &key);
    let payload = br#"{"bytes":120,"contentType":"text/markdown","path":"journal/day.md"}"#;
    Event {
        position: 40,
        id,
        kind,
        source,
        sequence: 7,
        privacy: Privacy::Private,
        actor: Actor::ours(ActorKind::Producer, "filesystem:notes"),
        key,
        occurred_at: Some(Timestamp::parse("2026-02-01T10:00:00Z").unwrap()),
        recorded_at: Timestamp::parse("2026-02-01T10:00:01Z").unwrap(),
        root: id,
        parents: Vec::new(),
        depth: 0,
        address: None,
        external: None,
        correlation: None,
        payload: Payload::Present(Content::new(payload.to_vec().into())),
        payload_sha256: Sha256Hash::of(payload),
        chain: ChainHash::START,
    }
}

const FILES: &str = "types: [stream.thought.source.file.*]";
const NOTES: &str = "sources: [filesystem:notes]";

#[test]
fn a_pattern_names_one_type_or_a_family() {
    let name = |text: &str| TypeName::parse(text).unwrap();
    let family = TypePattern::parse("stream.thought.source.file.*").unwrap();
    assert!(family.takes(&name("stream.thought.source.file.added")));
    assert!(!family.takes(&name("stream.thought.source.file")));
    assert!(!family.takes(&name("stream.thought.source.filed.added")));
    assert!(TypePattern::parse("stream.*").unwrap().takes(&name("stream.thought.run.failed")));
    for bad in ["*", ".*", "stream", "stream.*.file", "stream.thought.*x", "stream..*", "Stream.*", "a.b.**"]
    {
        assert_eq!(TypePattern::parse(bad), None, "{bad}");
    }
    assert_eq!(family.to_string(), "stream.thought.source.file.*");
}

#[test]
fn a_family_stands_for_the_registered_types() {
    let accepted = subscription(&[FILES, NOTES]).accepted_types().clone();
    let names: Vec<&str> = accepted.iter().map(TypeName::as_str).collect();
    assert_eq!(names.len(), 4);
    assert!(names.iter().all(|name| name.starts_with("stream.thought.source.file.")));
}

#[test]
fn sources_and_kinds_add_up() {
    let source = |text: &str| SourceId::parse(text).unwrap();
    let both = subscription(&[FILES, "sources: [notes:me]", "kinds: [filesystem]"]);
    assert!(both.includes(&source("notes:me")) && both.includes(&source("filesystem:anything")));
    assert!(!both.includes(&source("notes:you")) && !both.includes(&source("filesystems:x")));
    let kind = TypeName::parse("stream.thought.source.file.added").unwrap();
    assert!(both.could_match(&kind, &source("filesystem:x")) && !both.could_match(&kind, &source("clock:x")));
}

#[test]
fn each_clause_decides() {
    assert!(subscription(&[FILES, NOTES]).matches(&added()));
    for (lines, holds) in [
        (vec!["types: [stream.thought.source.file.changed]", NOTES], false),
        (vec![FILES, "sources: [filesystem:other]"], false),
        (vec![FILES, NOTES, "privacy: [public-source]"], false),
        (vec![FILES, NOTES, "address: me"], false),
        (vec![FILES, NOTES, "where: { payload.path: journal/day.md }"], true),
        (vec![FILES, NOTES, "where: { payload.path: journal/ }"], false),
        (vec![FILES, NOTES, "where: { payload.path: { prefix: journal/ } }"], true),
        (vec![FILES, NOTES, "where: { payload.path: [a, journal/day.md] }"], true),
        (vec![FILES, NOTES, "where: { payload.bytes: 120 }"], true),
        (vec![FILES, NOTES, "where: { payload.bytes: { min: 120, max: 120 } }"], true),
        (vec![FILES, NOTES, "where: { payload.bytes: { min: 119.5 } }"], true),
        (vec![FILES, NOTES, "where: { payload.bytes: { max: 119.5 } }"], false),
        (vec![FILES, NOTES, "where: { payload.bytes: { min: 121 } }"], false),
        (vec![FILES, NOTES, "where: { payload.sha256: x }"], false),
        (vec![FILES, NOTES, "where: { actor.kind: producer, depth: 0, version: 1 }"], true),
        (vec![FILES, NOTES, "where: { actor.kind: person }"], false),
        (vec![FILES, NOTES, "where: { occurredAt: { min: 2026-02-01T11:00:00+01:00 } }"], true),
        (vec![FILES, NOTES, "where: { occurredAt: { min: 2026-02-01T10:00:01Z } }"], false),
        (vec![FILES, NOTES, "where: { correlation: x }"], false),
        // Where to start is no part of matching.
        (vec![FILES, NOTES, "replay: { sequence: 100 }"], true),
    ] {
        let subscription = subscription(&lines);
        assert_eq!(subscription.matches(&added()), holds, "{lines:?}");
        let explained = subscription.explain(&added(), Some(0));
        let explained = explained.iter().filter(|clause| clause.name != "replay").all(|clause| clause.holds);
        assert_eq!(explained, holds, "the explanation of {lines:?} agrees");
    }
}

#[test]
fn one_item_of_a_list_is_enough() {
    let tags = subscription(&[
        "types: [stream.thought.source.note]",
        "kinds: [notes]",
        "where: { payload.tags: home }",
    ]);
    let note = |payload: &str| Event {
        kind: TypeRef::parse("stream.thought.source.note@1").unwrap(),
        source: SourceId::parse("notes:me").unwrap(),
        payload: Payload::Present(Content::new(payload.as_bytes().into())),
        ..added()
    };
    assert!(tags.matches(&note(r#"{"tags":["work","home"],"text":"x"}"#)));
    assert!(!tags.matches(&note(r#"{"tags":["homes"],"text":"x"}"#)));
    assert!(!tags.matches(&note(r#"{"text":"x"}"#)));
}

#[test]
fn an_address_must_be_the_declared_one() {
    let addressed = subscription(&[FILES, NOTES, "address: me"]);
    let to = |address: &str| Event { address: Some(Reference::parse(address).unwrap()), ..added() };
    assert!(addressed.matches(&to("me")) && !addressed.matches(&to("you")));
    assert!(subscription(&[FILES, NOTES]).matches(&to("you")));
}

#[test]
fn a_long_chain_of_derivations_ends() {
    let subscription = subscription(&[FILES, NOTES]);
    assert!(subscription.matches(&Event { depth: DEPTH_MAX, ..added() }));
    assert!(!subscription.matches(&Event { depth: DEPTH_MAX + 1, ..added() }));
}

#[test]
fn a_redacted_payload_fulfils_no_condition() {
    let redacted = Event { payload: Payload::Redacted, ..added() };
    assert!(subscription(&[FILES, NOTES]).matches(&redacted));
    let with = subscription(&[FILES, NOTES, "where: { payload.bytes: 120 }"]);
    assert!(!with.matches(&redacted));
    let clause =
        with.explain(&redacted, None).into_iter().find(|clause| clause.name == "payload.bytes").unwrap();
    assert_eq!((clause.found.as_str(), clause.holds), ("redacted", false));
}

#[test]
fn an_explanation_names_every_clause() {
    let lines = [
        FILES,
        "sources: [filesystem:work]",
        "kinds: [notes]",
        "address: me",
        "where: { payload.path: { prefix: work/ }, payload.bytes: { max: 200 } }",
        "replay: now",
    ];
    let clauses = subscription(&lines).explain(&added(), Some(40));
    let shown: Vec<String> = clauses
        .iter()
        .map(|c| {
            format!(
                "{} {}: wanted {}, found {}",
                if c.holds { "yes" } else { "no " },
                c.name,
                c.wanted,
                c.found
            )
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    yes types: wanted stream.thought.source.file.*, found stream.thought.source.file.added@1
    no  source: wanted filesystem:work, notes:*, found filesystem:notes
    yes privacy: wanted public-source, private, found private
    no  address: wanted me, found none
    yes payload.bytes: wanted {"max":200}, found 120
    no  payload.path: wanted {"prefix":"work/"}, found "journal/day.md"
    yes depth: wanted at most 32, found 0
    no  replay: wanted behind position 40, found position 40
    "#);
}

#[test]
fn a_found_value_cannot_move_the_cursor() {
    let payload = "{\"path\":\"a\\u001b[2J\u{202e}\"}";
    let event = Event { payload: Payload::Present(Content::new(payload.as_bytes().into())), ..added() };
    let clauses = subscription(&[FILES, NOTES, "where: { payload.path: x }"]).explain(&event, None);
    assert!(clauses.iter().all(|clause| !clause.found.chars().any(crate::text::is_hostile)));
}
