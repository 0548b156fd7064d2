//! `document-metadata`: what a document says about itself, in its front matter and in the tags of its text.

use std::collections::BTreeSet;
use std::ops::Range;

use pulldown_cmark::{Event, Tag, TagEnd};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bounded::Bounded;
use super::day::Day;
use super::markdown::Markdown;
use super::outline::{HEADING_CHARACTERS_MAX, Outline};
use super::text::Shortener;
use super::{Derived, Removed, Subject};
use crate::hash::Sha256Hash;
use crate::id::DocumentId;
use crate::payload::TypedPayload;
use crate::registry::Writer;
use crate::yaml::{Node, Problem, Reading, Value};

/// More tags than this are no tags.
pub const TAGS_MAX: usize = 200;
/// More names than this nobody has.
pub const ALIASES_MAX: usize = 100;
/// Front matter is at most 16 KiB, so this is a key in every third line.
pub const KEYS_MAX: usize = 200;
/// As many as the reader of front matter reports itself.
pub const PROBLEMS_MAX: usize = 100;
/// The bytes of JSON that each of the lists may take.
const LIST_BYTES_MAX: usize = 32 * 1024;
/// A name longer than this is a sentence.
pub const NAME_CHARACTERS_MAX: usize = 100;
/// A message of the reader has one or two sentences.
pub const MESSAGE_CHARACTERS_MAX: usize = 300;

/// Says what a document says about itself, or that it is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum DocumentMetadata {
    /// The document is there.
    Present(Box<Metadata>),
    /// The document was removed.
    Removed(Removed),
}

impl TypedPayload for DocumentMetadata {
    const NAME: &'static str = "stream.thought.derived.document.metadata";
    const VERSION: u32 = 1;
    const WRITER: Writer = Writer::Settlement;
    const PROMOTED: &'static [&'static str] =
        &["state", "documentId", "path", "revision", "title", "tags", "problemCount"];
}

/// Says what a document says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Metadata {
    /// The document.
    pub document_id: DocumentId,
    /// Its revision.
    pub revision: u64,
    /// Its path in the source.
    pub path: String,
    /// The hash of the content this was derived from.
    pub sha256: Sha256Hash,
    /// What to call it.
    pub title: String,
    /// Where the title comes from.
    pub title_from: TitleFrom,
    /// The tags of the front matter (`tags`, `tag`) and of the text (`#tag`), sorted, without `#`.
    pub tags: Vec<String>,
    /// Its other names (`aliases`, `alias`), in order.
    pub aliases: Vec<String>,
    /// The day it was made (`created` or `date`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Day>,
    /// The day it was last changed by its own account (`updated` or `modified`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated: Option<Day>,
    /// All keys at the top of the front matter, in order.
    pub keys: Vec<String>,
    /// How many problems were found, omitted ones included.
    pub problem_count: u32,
    /// What is wrong with the front matter, by line.
    pub problems: Vec<MetadataProblem>,
    /// What did not fit into this output.
    pub omitted: MetadataOmitted,
}

/// Where a title comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TitleFrom {
    /// The `title` of the front matter.
    FrontMatter,
    /// The first heading of the first level.
    Heading,
    /// The name of the file without its ending.
    FileName,
}

/// Something in the front matter that could not be read as it was meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MetadataProblem {
    /// The line in the file.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
    /// The stable code.
    #[schemars(length(max = 64))]
    pub code: String,
    /// What is wrong, in a sentence.
    pub message: String,
}

/// What did not fit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MetadataOmitted {
    /// Tags after the last one listed.
    pub tags: u32,
    /// Aliases after the last one listed.
    pub aliases: u32,
    /// Keys after the last one listed.
    pub keys: u32,
    /// Problems after the last one listed.
    pub problems: u32,
    /// Texts that end in `…` because they were cut.
    pub texts: u32,
}

impl Derived for DocumentMetadata {
    fn present(subject: &Subject, document: &Markdown<'_>) -> Self {
        let mut outline = Outline::default();
        let mut tags = Tags::default();
        for (event, range) in document.events(|_, _| ()) {
            outline.see(&event, &range, document);
            tags.see(&event, &range, document);
        }
        let reading = document.front_matter();
        Self::Present(Box::new(metadata(subject, reading.as_ref(), &outline, tags.found)))
    }

    fn removed(removed: Removed) -> Self {
        Self::Removed(removed)
    }
}

fn metadata(
    subject: &Subject,
    reading: Option<&Reading>,
    outline: &Outline,
    mut tags: BTreeSet<String>,
) -> Metadata {
    let mut front = Front::new(reading);
    let mut texts = Shortener::default();
    let (title, title_from) = title(&front, outline, &subject.path);
    tags.extend(front.words(&["tags", "tag"]).into_iter().map(|tag| tag.trim_start_matches('#').to_owned()));
    tags.remove("");
    let (tags, omitted_tags) = names(tags.iter().map(String::as_str), TAGS_MAX, &mut texts);
    let aliases = front.texts(&["aliases", "alias"]);
    let (aliases, omitted_aliases) = names(aliases.into_iter(), ALIASES_MAX, &mut texts);
    let keys = front.root.map(Node::entries).unwrap_or_default().iter().map(|entry| entry.key.as_str());
    let (keys, omitted_keys) = names(keys, KEYS_MAX, &mut texts);
    let created = front.day(&["created", "date"]);
    let updated = front.day(&["updated", "modified"]);
    let problem_count = super::text::count(front.problems.len());
    let mut problems = Bounded::new(PROBLEMS_MAX, LIST_BYTES_MAX);
    front.problems.sort_by_key(|problem| (problem.line, problem.column));
    problems.extend(front.problems.into_iter().map(|problem| MetadataProblem {
        message: texts.bound(&problem.message, MESSAGE_CHARACTERS_MAX),
        ..problem
    }));
    let (problems, omitted_problems) = problems.finish();
    Metadata {
        document_id: subject.document_id.clone(),
        revision: subject.revision,
        path: subject.path.clone(),
        sha256: subject.sha256,
        title: texts.bound(&title, HEADING_CHARACTERS_MAX),
        title_from,
        tags,
        aliases,
        created,
        updated,
        keys,
        problem_count,
        problems,
        omitted: MetadataOmitted {
            tags: omitted_tags,
            aliases: omitted_aliases,
            keys: omitted_keys,
            problems: omitted_problems,
            texts: texts.shortened(),
        },
    }
}

fn title(front: &Front<'_>, outline: &Outline, path: &str) -> (String, TitleFrom) {
    if let Some(title) = front.texts(&["title"]).into_iter().find(|title| !title.trim().is_empty()) {
        return (title.trim().to_owned(), TitleFrom::FrontMatter);
    }
    let heading = outline.headings().iter().find(|heading| heading.level == 1 && !heading.text.is_empty());
    if let Some(heading) = heading {
        return (heading.text.clone(), TitleFrom::Heading);
    }
    let name = path.rsplit('/').next().unwrap_or(path);
    let name = name.rsplit_once('.').map_or(name, |(name, _)| if name.is_empty() { path } else { name });
    (name.to_owned(), TitleFrom::FileName)
}

fn names<'n>(names: impl Iterator<Item = &'n str>, max: usize, texts: &mut Shortener) -> (Vec<String>, u32) {
    let mut list = Bounded::new(max, LIST_BYTES_MAX);
    for name in names {
        if list.is_full() {
            list.omit();
        } else {
            list.push(texts.bound(name, NAME_CHARACTERS_MAX));
        }
    }
    list.finish()
}

/// The front matter with what is wrong in it.
struct Front<'r> {
    root: Option<&'r Node>,
    problems: Vec<MetadataProblem>,
}

impl<'r> Front<'r> {
    fn new(reading: Option<&'r Reading>) -> Self {
        let root = reading.and_then(|reading| reading.root.as_ref());
        let problems = reading.map(|reading| reading.problems.iter().map(of_reader).collect());
        let mut front = Self { root, problems: problems.unwrap_or_default() };
        if let Some(node) = root
            && !matches!(node.value, Value::Map(_) | Value::Null | Value::Refused)
        {
            front.add(node, "metadata.no-map", "front matter is a list of `key: value` lines");
        }
        front
    }

    /// Returns the first of `keys` that is there.
    fn get(&self, keys: &[&str]) -> Option<&'r Node> {
        keys.iter().find_map(|key| self.root.and_then(|root| root.get(key)))
    }

    /// Returns the texts under the first of `keys` that is there: one text, or a list of them.
    fn texts(&self, keys: &[&str]) -> Vec<&'r str> {
        let Some(node) = self.get(keys) else { return Vec::new() };
        node.text().into_iter().chain(node.items().iter().filter_map(Node::text)).collect()
    }

    /// Like [`Front::texts`], but one text is a list of words between commas or spaces.
    fn words(&mut self, keys: &[&str]) -> Vec<&'r str> {
        let Some(node) = self.get(keys) else { return Vec::new() };
        for other in std::iter::once(node).chain(node.items()) {
            if !matches!(other.value, Value::Text(..) | Value::List(_) | Value::Null | Value::Refused) {
                self.add(other, "metadata.tag", "a tag is a word; quote it if it looks like a number");
            }
        }
        match node.text() {
            Some(text) => text.split([',', ' ']).collect(),
            None => node.items().iter().filter_map(Node::text).collect(),
        }
    }

    fn day(&mut self, keys: &[&str]) -> Option<Day> {
        let node = self.get(keys).filter(|node| !matches!(node.value, Value::Null | Value::Refused))?;
        // A time may follow the day; it is no part of what is derived.
        let day = node.text().and_then(|text| text.split(['T', ' ']).next()).map(Day::parse);
        match day {
            Some(Ok(day)) => Some(day),
            Some(Err(_)) | None => {
                self.add(node, "metadata.day", "a day is written as 2026-01-31");
                None
            }
        }
    }

    fn add(&mut self, node: &Node, code: &str, message: &str) {
        let (line, column) = (node.span.line, node.span.column);
        self.problems.push(MetadataProblem {
            line,
            column,
            code: code.to_owned(),
            message: message.to_owned(),
        });
    }
}

fn of_reader(problem: &Problem) -> MetadataProblem {
    MetadataProblem {
        line: problem.line,
        column: problem.column,
        code: problem.code.as_str().to_owned(),
        message: problem.message.clone(),
    }
}

/// Gathers `#tag` from the text, outside of code.
#[derive(Debug, Default)]
struct Tags {
    found: BTreeSet<String>,
    in_code: bool,
}

impl Tags {
    fn see(&mut self, event: &Event<'_>, range: &Range<usize>, document: &Markdown<'_>) {
        match event {
            Event::Start(Tag::CodeBlock(_)) => self.in_code = true,
            Event::End(TagEnd::CodeBlock) => self.in_code = false,
            Event::Text(text) if !self.in_code => {
                // What stands in front of the piece decides whether its first character begins a word.
                let glued = document.slice(0..range.start).ends_with(|before: char| !before.is_whitespace());
                let skipped = if glued { text.find(char::is_whitespace).unwrap_or(text.len()) } else { 0 };
                self.found.extend(tags(&text[skipped..]).map(str::to_owned));
            }
            Event::Start(_)
            | Event::End(_)
            | Event::Text(_)
            | Event::Code(_)
            | Event::Html(_)
            | Event::InlineHtml(_)
            | Event::InlineMath(_)
            | Event::DisplayMath(_)
            | Event::FootnoteReference(_)
            | Event::SoftBreak
            | Event::HardBreak
            | Event::TaskListMarker(_)
            | Event::Rule => {}
        }
    }
}

/// Returns the tags of `text`: `#` at the start of a word, then letters, digits, `-`, `_` and `/`, not digits alone.
fn tags(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace().filter_map(|word| {
        let name = word.strip_prefix('#')?;
        let end = name.find(|c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_' | '/')));
        let name = name[..end.unwrap_or(name.len())].trim_end_matches('/');
        (!name.is_empty() && name.contains(|c: char| !c.is_ascii_digit())).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::tests::present;

    fn metadata(text: &str) -> Metadata {
        match present::<DocumentMetadata>(text) {
            DocumentMetadata::Present(metadata) => *metadata,
            DocumentMetadata::Removed(_) => unreachable!(),
        }
    }

    fn problems(text: &str) -> Vec<(u32, String)> {
        metadata(text).problems.into_iter().map(|problem| (problem.line, problem.code)).collect()
    }

    #[test]
    fn the_title_is_the_best_there_is() {
        for (text, title, from) in [
            ("---\ntitle: Given\n---\n# Heading\n", "Given", TitleFrom::FrontMatter),
            ("---\ntitle:\n---\n## Sub\n# *The* heading\n", "The heading", TitleFrom::Heading),
            ("## Sub\n", "a", TitleFrom::FileName),
        ] {
            let metadata = metadata(text);
            assert_eq!((metadata.title.as_str(), metadata.title_from), (title, from));
        }
    }

    #[test]
    fn tags_come_from_front_matter_and_text() {
        let metadata = metadata(
            "---\ntags: [b, \"#a\"]\n---\n# H #h\n#c/d, #1 x#no `#no` #e_ü. #2nd\n\n    #no\n\n*#glued* [[#no]]\n",
        );
        assert_eq!(metadata.tags, ["2nd", "a", "b", "c/d", "e_ü", "h"]);
        assert_eq!(super::tags("a #b").collect::<Vec<_>>(), ["b"]);
        let words = super::tests::metadata("---\ntag: x, y z\nalias: One name\n---\n");
        assert_eq!(
            (words.tags, words.aliases),
            (vec!["x".into(), "y".into(), "z".into()], vec!["One name".to_owned()])
        );
    }

    #[test]
    fn days_are_read_and_what_is_none_is_reported_with_its_line() {
        let metadata = metadata("---\ndate: 2026-01-02T10:00\nupdated: soon\ntags: [7]\n---\n");
        assert_eq!(metadata.created.as_ref().map(Day::as_str), Some("2026-01-02"));
        assert_eq!(metadata.keys, ["date", "updated", "tags"]);
        let codes: Vec<_> =
            metadata.problems.iter().map(|problem| (problem.line, problem.code.as_str())).collect();
        assert_eq!(codes, [(3, "metadata.day"), (4, "metadata.tag")]);
    }

    #[test]
    fn invalid_front_matter_is_reported_and_no_failure() {
        assert_eq!(problems("---\na: 1\na: 2\n---\n"), [(3, "yaml.duplicate-key".to_owned())]);
        assert_eq!(problems("---\nx: &a 1\n---\n").first().map(|(line, _)| *line), Some(2));
        assert_eq!(problems("---\n- a\n---\n"), [(2, "metadata.no-map".to_owned())]);
        assert!(problems("---\n---\ntext\n").is_empty());
        assert_eq!(problems(&format!("---\na: {}\n---\n", "x".repeat(20_000)))[0].1, "yaml.too-large");
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let text: String = (0..TAGS_MAX + 9).map(|number| format!("#t{number} ")).collect();
        let metadata = metadata(&text);
        assert_eq!((metadata.tags.len(), metadata.omitted.tags), (TAGS_MAX, 9));
    }
}
