//! The sample notes: what the transforms make of a folder that a person could keep.

use std::collections::BTreeSet;

use super::*;
use crate::transform::links::{LinkClass, Links};

macro_rules! notes {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_bytes!(concat!("../../../../tests/fixtures/notes/", $path)))),*]
    };
}

const NOTES: &[(&str, &[u8])] = notes![
    "README.md",
    "inbox.md",
    "journal/2026-02-27.md",
    "journal/2026-03-02.md",
    "journal/2026-03-09.md",
    "people/anna-berg.md",
    "people/jörg-keller.md",
    "people/mika-tanaka.md",
    "projects/allotment.md",
    "projects/bread-oven.md",
    "projects/reading-group.md",
    "projects/shed-sensor.md",
    "reference/soil.md",
    "reference/sourdough.md",
    "images/beds.svg",
];

fn content(path: &str) -> &'static [u8] {
    NOTES.iter().find(|(name, _)| *name == path).unwrap().1
}

fn payload(transform: &str, path: &str) -> Value {
    run(transform, &trigger(path, content(path)), Some(content(path))).unwrap().remove(0).payload
}

fn links(path: &str) -> Links {
    match serde_json::from_value(payload("document-links", path)).unwrap() {
        DocumentLinks::Present(links) => *links,
        DocumentLinks::Removed(_) => unreachable!(),
    }
}

fn snapshot(transform: &str, path: &str) -> String {
    serde_json::to_string_pretty(&payload(transform, path)).unwrap()
}

#[test]
fn the_outputs_of_three_notes_stay_as_they_are() {
    insta::assert_snapshot!(
        "structure-of-the-shed-sensor",
        snapshot("document-structure", "projects/shed-sensor.md")
    );
    insta::assert_snapshot!("structure-of-the-inbox", snapshot("document-structure", "inbox.md"));
    insta::assert_snapshot!("links-of-the-allotment", snapshot("document-links", "projects/allotment.md"));
    insta::assert_snapshot!(
        "links-of-the-shed-sensor",
        snapshot("document-links", "projects/shed-sensor.md")
    );
    insta::assert_snapshot!(
        "metadata-of-the-allotment",
        snapshot("document-metadata", "projects/allotment.md")
    );
    insta::assert_snapshot!("tasks-of-the-allotment", snapshot("document-tasks", "projects/allotment.md"));
    insta::assert_snapshot!("tasks-of-the-inbox", snapshot("document-tasks", "inbox.md"));
}

#[test]
fn every_note_is_read_and_has_valid_front_matter() {
    for (path, content) in NOTES.iter().filter(|(path, _)| path.ends_with(".md")) {
        assert_eq!(check_all(content), Ok(()), "{path}");
        let text = std::str::from_utf8(content).unwrap();
        if let Some(found) = crate::yaml::frontmatter(path, text, crate::yaml::Limits::FRONTMATTER) {
            assert!(found.reading.problems.is_empty(), "{path}: {:?}", found.reading.problems);
        }
    }
}

#[test]
fn one_link_of_the_notes_is_broken() {
    let mut existing: BTreeSet<String> = BTreeSet::new();
    for (path, _) in NOTES {
        // A link may lead to a folder as well.
        existing.extend(path.match_indices('/').map(|(at, _)| path[..at].to_owned()));
        existing.insert((*path).to_owned());
    }
    let mut broken = Vec::new();
    for (path, _) in NOTES.iter().filter(|(path, _)| path.ends_with(".md")) {
        let links = links(path);
        assert_eq!(links.problem_count, 0, "{path}: {links:?}");
        let internal = links.links.into_iter().filter(|link| link.class == LinkClass::Internal);
        broken.extend(
            internal.filter_map(|link| link.resolved).filter(|resolved| !existing.contains(resolved)),
        );
    }
    assert_eq!(broken, ["reference/seeds.md"]);
}
