//! Says what the target of a link is: by its text and the path of the document it stands in.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a link points at, as far as the document alone can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LinkClass {
    /// A path relative to the document that stays inside the source; `path` is the result.
    Internal,
    /// A place in the document itself.
    Anchor,
    /// A note named as `[[Name]]`; whoever knows all names of the source can resolve it.
    Note,
    /// An address with a scheme, or one that begins with `//`.
    External,
    /// A path from the root (`/notes/a.md`); `path` reads it from the root of the source.
    Absolute,
    /// A mail address.
    Mail,
    /// A relative path that climbs above the root of the source.
    Outside,
    /// No target at all, or a relative path that does not decode to one.
    Malformed,
}

/// A target taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) class: LinkClass,
    /// The path from the root of the source, without `.` and `..`.
    pub(super) path: Option<String>,
    /// The part after `#`, decoded.
    pub(super) fragment: Option<String>,
}

impl Target {
    fn new(class: LinkClass) -> Self {
        Self { class, path: None, fragment: None }
    }
}

/// Takes the destination of a Markdown link apart, in the document at `document_path`.
pub(super) fn of_destination(destination: &str, document_path: &str) -> Target {
    let destination = destination.trim();
    if destination.is_empty() {
        return Target::new(LinkClass::Malformed);
    }
    if let Some(scheme) = scheme(destination) {
        return Target::new(match scheme.to_ascii_lowercase().as_str() {
            "mailto" => LinkClass::Mail,
            // One letter is a drive of another system, and a path from its root.
            drive if drive.len() == 1 => LinkClass::Absolute,
            _ => LinkClass::External,
        });
    }
    if destination.starts_with("//") {
        return Target::new(LinkClass::External);
    }
    let (location, fragment) = match destination.split_once('#') {
        Some((location, fragment)) => (location, Some(fragment)),
        None => (destination, None),
    };
    let fragment = fragment.map(|fragment| decode(fragment).unwrap_or_else(|| fragment.to_owned()));
    let location = location.split_once('?').map_or(location, |(path, _)| path);
    let (class, path) = match location.strip_prefix('/') {
        _ if location.is_empty() => (LinkClass::Anchor, None),
        Some(from_root) => located(LinkClass::Absolute, from_root, ""),
        None => located(LinkClass::Internal, location, parent(document_path)),
    };
    Target { class, path, fragment }
}

/// Returns the target of `<someone@example.org>`.
pub(super) fn of_mail() -> Target {
    Target::new(LinkClass::Mail)
}

/// Takes the target of a wiki link apart: `Note`, `Note#Heading`, `#Heading`.
pub(super) fn of_wiki(target: &str) -> Target {
    let (note, fragment) = match target.split_once('#') {
        Some((note, fragment)) => (note.trim(), Some(fragment.trim().to_owned())),
        None => (target.trim(), None),
    };
    let class = match (note.is_empty(), &fragment) {
        (false, _) => LinkClass::Note,
        (true, Some(_)) => LinkClass::Anchor,
        (true, None) => LinkClass::Malformed,
    };
    Target { class, path: None, fragment }
}

fn located(class: LinkClass, location: &str, base: &str) -> (LinkClass, Option<String>) {
    match resolve(location, base) {
        Ok(path) => (class, Some(path)),
        Err(class) => (class, None),
    }
}

/// Joins `location` to the folder `base` and removes `.` and `..`.
///
/// Segments are decoded after the split, so that an encoded slash cannot make a new segment; an encoded `..` climbs
/// as a written one does, because that is how whoever opens the link will read it.
fn resolve(location: &str, base: &str) -> Result<String, LinkClass> {
    let mut segments: Vec<String> =
        base.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
    for segment in location.split('/') {
        let segment = decode(segment).ok_or(LinkClass::Malformed)?;
        match segment.as_str() {
            "" | "." => {}
            ".." => {
                segments.pop().ok_or(LinkClass::Outside)?;
            }
            name if name.contains(['/', '\0']) => return Err(LinkClass::Malformed),
            _ => segments.push(segment),
        }
    }
    Ok(segments.join("/"))
}

/// Returns the folder of `path`, or nothing for a file in the root.
fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Returns the scheme of an address: a letter, then letters, digits, `+`, `-` or `.`, then a colon.
fn scheme(destination: &str) -> Option<&str> {
    let (scheme, _) = destination.split_once(':')?;
    let valid = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.chars().all(|character| character.is_ascii_alphanumeric() || "+-.".contains(character));
    valid.then_some(scheme)
}

/// Decodes `%41` and its like; a percent sign that begins no such thing stays as it is.
///
/// Returns nothing if the result is not UTF-8.
pub(super) fn decode(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let value = match (bytes[at], digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => u8::try_from(high * 16 + low).ok(),
            _ => None,
        };
        decoded.push(value.unwrap_or(bytes[at]));
        at += if value.is_some() { 3 } else { 1 };
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(destination: &str) -> (LinkClass, Option<String>, Option<String>) {
        let target = of_destination(destination, "projects/garden/plan.md");
        (target.class, target.path, target.fragment)
    }

    fn class(destination: &str) -> LinkClass {
        read(destination).0
    }

    #[test]
    fn relative_paths_are_read_from_the_folder_of_the_document() {
        let path = |destination| read(destination).1;
        assert_eq!(path("soil.md").as_deref(), Some("projects/garden/soil.md"));
        assert_eq!(path("./a//b/../c.md").as_deref(), Some("projects/garden/a/c.md"));
        assert_eq!(path("../../people/j%C3%B6rg%20k.md").as_deref(), Some("people/jörg k.md"));
        assert_eq!(path("../..").as_deref(), Some(""));
        assert_eq!(path("/people/a.md").as_deref(), Some("people/a.md"));
        assert_eq!(path("50%off.md").as_deref(), Some("projects/garden/50%off.md"));
    }

    #[test]
    fn fragments_and_queries_are_no_part_of_the_path() {
        let (class, path, fragment) = read("soil.md?plain=1#the%20ph");
        assert_eq!((class, path.as_deref()), (LinkClass::Internal, Some("projects/garden/soil.md")));
        assert_eq!(fragment.as_deref(), Some("the ph"));
        assert_eq!(read("#top"), (LinkClass::Anchor, None, Some("top".to_owned())));
    }

    #[test]
    fn a_path_above_the_root_is_outside_however_it_is_written() {
        for destination in ["../../../x.md", "../../%2e%2e/x.md", "/../x", "a/../../../../b"] {
            assert_eq!(class(destination), LinkClass::Outside, "{destination}");
        }
    }

    #[test]
    fn what_does_not_decode_to_a_path_is_malformed() {
        for destination in ["", "  ", "a%2Fb.md", "a%00.md", "%ff.md"] {
            assert_eq!(class(destination), LinkClass::Malformed, "{destination:?}");
        }
    }

    #[test]
    fn addresses_are_told_from_paths() {
        for (destination, expected) in [
            ("https://example.org/a:b", LinkClass::External),
            ("HTTP:x", LinkClass::External),
            ("obsidian://open?vault=a", LinkClass::External),
            ("javascript:void(0)", LinkClass::External),
            ("//example.org/x", LinkClass::External),
            ("MailTo:a@example.org", LinkClass::Mail),
            ("C:\\notes\\a.md", LinkClass::Absolute),
            ("12:30.md", LinkClass::Internal),
            ("a b:c.md", LinkClass::Internal),
        ] {
            assert_eq!(class(destination), expected, "{destination}");
        }
    }

    #[test]
    fn wiki_targets_are_names_and_headings() {
        let note = |target| (of_wiki(target).class, of_wiki(target).fragment);
        assert_eq!(note("Anna Berg"), (LinkClass::Note, None));
        assert_eq!(note("Anna#Birth day"), (LinkClass::Note, Some("Birth day".to_owned())));
        assert_eq!(note("#Plan"), (LinkClass::Anchor, Some("Plan".to_owned())));
        assert_eq!(note(" "), (LinkClass::Malformed, None));
    }
}
