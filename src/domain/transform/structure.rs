//! `document-structure`: the outline of a document, what is odd about it, and a hash that prose does not move.

use std::collections::BTreeMap;
use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Tag};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bounded::Bounded;
use super::markdown::Markdown;
use super::outline::{HEADING_CHARACTERS_MAX, Heading, Outline};
use super::text::{Shortener, count};
use super::{Derived, Removed, Subject};
use crate::hash::Sha256Hash;
use crate::id::DocumentId;
use crate::payload::TypedPayload;
use crate::registry::Writer;

/// More headings than a long book has; a document with more is a generated one.
pub const HEADINGS_MAX: usize = 1_000;
/// The bytes of JSON that all headings of one output share.
const HEADINGS_BYTES_MAX: usize = 128 * 1024;
/// A person who looks at 200 problems has understood.
pub const PROBLEMS_MAX: usize = 200;
const PROBLEMS_BYTES_MAX: usize = 24 * 1024;
/// More languages than a note about languages shows.
pub const LANGUAGES_MAX: usize = 100;
const LANGUAGES_BYTES_MAX: usize = 16 * 1024;
/// The longest names of languages in use have under twenty characters.
pub const LANGUAGE_CHARACTERS_MAX: usize = 40;

/// Says how a document is built, or that it is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum DocumentStructure {
    /// The document is there.
    Present(Box<Structure>),
    /// The document was removed; what was derived from it holds no longer.
    Removed(Removed),
}

impl TypedPayload for DocumentStructure {
    const NAME: &'static str = "stream.thought.derived.document.structure";
    const VERSION: u32 = 1;
    const WRITER: Writer = Writer::Settlement;
    const PROMOTED: &'static [&'static str] = &[
        "state",
        "documentId",
        "path",
        "revision",
        "structureHash",
        "words",
        "headingCount",
        "problemCount",
    ];
}

/// Says how a document is built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Structure {
    /// The document.
    pub document_id: DocumentId,
    /// Its revision.
    pub revision: u64,
    /// Its path in the source.
    pub path: String,
    /// The hash of the content this was derived from.
    pub sha256: Sha256Hash,
    /// The hash of the outline: front matter or none, headings, code blocks by language, in order. A change of prose
    /// alone keeps it.
    pub structure_hash: Sha256Hash,
    /// The lines of the document.
    pub lines: u32,
    /// The words of the document, code and front matter left out.
    pub words: u32,
    /// The words before the first heading.
    pub preamble_words: u32,
    /// The last line of the front matter, if there is any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub front_matter_end_line: Option<u32>,
    /// How many headings the document has, omitted ones included.
    pub heading_count: u32,
    /// The headings in order; together with `parent` they are a tree.
    pub headings: Vec<Section>,
    /// Other parts, counted.
    pub parts: Parts,
    /// The code blocks by language, sorted by its name; blocks that name none come first.
    pub code: Vec<CodeLanguage>,
    /// How many problems were found, omitted ones included.
    pub problem_count: u32,
    /// What is odd about the outline, by line.
    pub problems: Vec<Problem>,
    /// What did not fit into this output.
    pub omitted: Omitted,
}

/// A heading and the lines of its section.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Section {
    /// The level of the heading, from 1 to 6.
    #[schemars(range(min = 1, max = 6))]
    pub level: u8,
    /// The text of the heading without marks.
    pub text: String,
    /// The name by which a link reaches it; unique in the document.
    pub anchor: String,
    /// The place in this list of the heading whose section it stands in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<u32>,
    /// The line of the heading.
    pub line: u32,
    /// The last line before the next heading of the same or a higher rank.
    pub end_line: u32,
    /// The words between the heading and the next one of any rank.
    pub words: u32,
}

/// Counts of parts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Parts {
    /// Paragraphs; the items of a tight list have none.
    pub paragraphs: u32,
    /// Lists, nested ones included.
    pub lists: u32,
    /// Items of all lists.
    pub list_items: u32,
    /// Tables.
    pub tables: u32,
    /// Block quotes.
    pub quotes: u32,
    /// Code blocks, fenced and indented.
    pub code_blocks: u32,
    /// Blocks of HTML.
    pub html_blocks: u32,
    /// Definitions of footnotes.
    pub footnotes: u32,
    /// Links of all forms but bare addresses.
    pub links: u32,
    /// Images.
    pub images: u32,
}

/// The code blocks of one language.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CodeLanguage {
    /// The first word behind the opening fence, in lower case; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// How many blocks there are.
    pub blocks: u32,
    /// Their lines, fences included.
    pub lines: u32,
}

/// Something about the outline that is worth a second look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Problem {
    /// What it is.
    pub kind: ProblemKind,
    /// The line of the heading or block it is about.
    pub line: u32,
    /// The line of the heading it disagrees with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_line: Option<u32>,
}

/// The kinds of problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProblemKind {
    /// A heading is more than one level below the heading before it.
    SkippedLevel,
    /// A heading has the text of an earlier one in the same section.
    DuplicateHeading,
    /// A section has neither content nor a section of its own.
    EmptySection,
    /// A heading has no text.
    EmptyHeading,
    /// There is a heading of the first level before this one.
    SeveralTitles,
    /// A code fence is opened and never closed, so that the rest of its block counts as code.
    UnclosedCode,
}

/// What did not fit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Omitted {
    /// Headings after the last one listed.
    pub headings: u32,
    /// Problems after the last one listed.
    pub problems: u32,
    /// Languages after the last one listed.
    pub languages: u32,
    /// Texts that end in `…` because they were cut.
    pub texts: u32,
}

impl Derived for DocumentStructure {
    fn present(subject: &Subject, document: &Markdown<'_>) -> Self {
        let mut walk = Walk::default();
        for (event, range) in document.events(|_, _| ()) {
            walk.see(&event, &range, document);
        }
        Self::Present(Box::new(walk.finish(subject, document)))
    }

    fn removed(removed: Removed) -> Self {
        Self::Removed(removed)
    }
}

#[derive(Debug, Default)]
struct Walk {
    outline: Outline,
    parts: Parts,
    code: BTreeMap<Option<String>, (u32, u32)>,
    /// Lines of code blocks that are never closed.
    unclosed: Vec<u32>,
    /// What the structure hash covers: one line a part.
    shape: String,
    texts: Shortener,
}

impl Walk {
    fn see(&mut self, event: &Event<'_>, range: &Range<usize>, document: &Markdown<'_>) {
        let before = self.outline.headings().len();
        self.outline.see(event, range, document);
        if let Some(heading) = self.outline.headings().get(before) {
            // The text has no line ends, so that lines cannot run into each other.
            self.shape.push_str(&format!("heading {} {}\n", heading.level, heading.text));
        }
        if let Event::Start(tag) = event {
            self.count_part(tag);
            if let Tag::CodeBlock(kind) = tag {
                self.see_code(kind, range, document);
            }
        }
    }

    fn count_part(&mut self, tag: &Tag<'_>) {
        let parts = &mut self.parts;
        let number = match tag {
            Tag::Paragraph => &mut parts.paragraphs,
            Tag::List(_) => &mut parts.lists,
            Tag::Item => &mut parts.list_items,
            Tag::Table(_) => &mut parts.tables,
            Tag::BlockQuote(_) => &mut parts.quotes,
            Tag::CodeBlock(_) => &mut parts.code_blocks,
            Tag::HtmlBlock => &mut parts.html_blocks,
            Tag::FootnoteDefinition(_) => &mut parts.footnotes,
            Tag::Link { .. } => &mut parts.links,
            Tag::Image { .. } => &mut parts.images,
            Tag::Heading { .. }
            | Tag::DefinitionList
            | Tag::DefinitionListTitle
            | Tag::DefinitionListDefinition
            | Tag::TableHead
            | Tag::TableRow
            | Tag::TableCell
            | Tag::Emphasis
            | Tag::Strong
            | Tag::Strikethrough
            | Tag::Superscript
            | Tag::Subscript
            | Tag::MetadataBlock(_) => return,
        };
        *number += 1;
    }

    fn see_code(&mut self, kind: &CodeBlockKind<'_>, range: &Range<usize>, document: &Markdown<'_>) {
        let language = match kind {
            CodeBlockKind::Fenced(info) => {
                info.split([' ', '\t', ',', '{']).next().filter(|word| !word.is_empty())
            }
            CodeBlockKind::Indented => None,
        };
        let language = language.map(|word| self.texts.bound(&word.to_lowercase(), LANGUAGE_CHARACTERS_MAX));
        self.shape.push_str(&format!("code {}\n", language.as_deref().unwrap_or_default()));
        let text = document.slice(range.clone());
        let (first, last) = (document.line(range.start), document.line(range.start + text.trim_end().len()));
        if matches!(kind, CodeBlockKind::Fenced(_)) && !is_closed(text) {
            self.unclosed.push(first);
        }
        let (blocks, lines) = self.code.entry(language).or_default();
        *blocks += 1;
        *lines += last - first + 1;
    }

    fn finish(mut self, subject: &Subject, document: &Markdown<'_>) -> Structure {
        let headings = self.outline.headings();
        let problems = problems(headings, &self.unclosed);
        let end_lines = end_lines(headings, document.lines());
        let mut sections = Bounded::new(HEADINGS_MAX, HEADINGS_BYTES_MAX);
        for (heading, end_line) in headings.iter().zip(end_lines) {
            if sections.is_full() {
                sections.omit();
                continue;
            }
            sections.push(Section {
                level: heading.level,
                text: self.texts.bound(&heading.text, HEADING_CHARACTERS_MAX),
                anchor: self.texts.bound(&heading.anchor, HEADING_CHARACTERS_MAX),
                parent: heading.parent.map(count),
                line: heading.line,
                end_line,
                words: heading.words,
            });
        }
        let (problem_count, heading_count) = (count(problems.len()), count(headings.len()));
        let words = headings.iter().map(|heading| heading.words).sum::<u32>() + self.outline.preamble_words();
        let mut bounded_problems = Bounded::new(PROBLEMS_MAX, PROBLEMS_BYTES_MAX);
        bounded_problems.extend(problems);
        let mut languages = Bounded::new(LANGUAGES_MAX, LANGUAGES_BYTES_MAX);
        languages.extend(self.code.into_iter().map(|(language, (blocks, lines))| CodeLanguage {
            language,
            blocks,
            lines,
        }));
        let front_matter_end_line = document.front_matter_end_line();
        let front = if front_matter_end_line.is_some() { "front matter\n" } else { "" };
        let (headings, omitted_headings) = sections.finish();
        let (problems, omitted_problems) = bounded_problems.finish();
        let (code, omitted_languages) = languages.finish();
        Structure {
            document_id: subject.document_id.clone(),
            revision: subject.revision,
            path: subject.path.clone(),
            sha256: subject.sha256,
            structure_hash: Sha256Hash::of(format!("{front}{}", self.shape).as_bytes()),
            lines: document.lines(),
            words,
            preamble_words: self.outline.preamble_words(),
            front_matter_end_line,
            heading_count,
            headings,
            parts: self.parts,
            code,
            problem_count,
            problems,
            omitted: Omitted {
                headings: omitted_headings,
                problems: omitted_problems,
                languages: omitted_languages,
                texts: self.texts.shortened(),
            },
        }
    }
}

/// Says whether the text of a fenced block ends with its closing fence.
fn is_closed(block: &str) -> bool {
    let mut lines = block.trim_end().lines();
    let Some(fence) = lines.next().and_then(|line| line.trim_start().chars().next()) else { return false };
    let last = lines.next_back().map(|line| line.trim_start_matches([' ', '\t', '>']).trim_end());
    last.is_some_and(|line| line.len() >= 3 && line.chars().all(|character| character == fence))
}

/// Returns the last line of each section.
fn end_lines(headings: &[Heading], last_line: u32) -> Vec<u32> {
    let mut ends = vec![last_line; headings.len()];
    let mut open: Vec<usize> = Vec::new();
    for (place, heading) in headings.iter().enumerate() {
        while let Some(&inner) = open.last() {
            if headings[inner].level < heading.level {
                break;
            }
            // Two headings can share a line (in a list item in a list item); the section is that line then.
            ends[inner] = heading.line.saturating_sub(1).max(headings[inner].line);
            open.pop();
        }
        open.push(place);
    }
    ends
}

/// Returns all problems by line.
fn problems(headings: &[Heading], unclosed: &[u32]) -> Vec<Problem> {
    let mut found: Vec<Problem> = unclosed
        .iter()
        .map(|line| Problem { kind: ProblemKind::UnclosedCode, line: *line, other_line: None })
        .collect();
    let mut seen: BTreeMap<(Option<usize>, &str), u32> = BTreeMap::new();
    let mut title: Option<u32> = None;
    for (place, heading) in headings.iter().enumerate() {
        let mut add = |kind, other_line| found.push(Problem { kind, line: heading.line, other_line });
        if let Some(before) = place.checked_sub(1).map(|before| &headings[before])
            && heading.level > before.level + 1
        {
            add(ProblemKind::SkippedLevel, Some(before.line));
        }
        if heading.level == 1 {
            match title {
                Some(line) => add(ProblemKind::SeveralTitles, Some(line)),
                None => title = Some(heading.line),
            }
        }
        if heading.text.is_empty() {
            add(ProblemKind::EmptyHeading, None);
        } else if let Some(&line) = seen.get(&(heading.parent, heading.text.as_str())) {
            add(ProblemKind::DuplicateHeading, Some(line));
        } else {
            seen.insert((heading.parent, heading.text.as_str()), heading.line);
        }
        let opens_section = headings.get(place + 1).is_some_and(|next| next.level > heading.level);
        if !heading.has_content && !opens_section {
            add(ProblemKind::EmptySection, None);
        }
    }
    found.sort_by_key(|problem| problem.line);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::tests::present;

    fn structure(text: &str) -> Structure {
        match present::<DocumentStructure>(text) {
            DocumentStructure::Present(structure) => *structure,
            DocumentStructure::Removed(_) => unreachable!(),
        }
    }

    fn problems_of(text: &str) -> Vec<(ProblemKind, u32, Option<u32>)> {
        structure(text).problems.iter().map(|found| (found.kind, found.line, found.other_line)).collect()
    }

    #[test]
    fn sections_span_to_the_next_heading_of_their_rank() {
        let text = "---\nid: x\n---\nfirst words\n# A\none\n## B\n### C\ntwo\n\n## D\nthree four\n# E\nend\n";
        let structure = structure(text);
        let spans: Vec<_> = structure
            .headings
            .iter()
            .map(|section| (section.line, section.end_line, section.words))
            .collect();
        assert_eq!(spans, [(5, 12, 1), (7, 10, 0), (8, 10, 1), (11, 12, 2), (13, 14, 1)]);
        assert_eq!((structure.front_matter_end_line, structure.lines, structure.words), (Some(3), 14, 7));
        assert_eq!(structure.headings[2].parent, Some(1));
    }

    #[test]
    fn prose_keeps_the_structure_hash_and_headings_move_it() {
        let hash = |text: &str| structure(text).structure_hash;
        let first = hash("# A\n\nSome words.\n\n```rust\nx\n```\n\n## B\n\n- [ ] one\n");
        assert_eq!(
            first,
            hash("# A\r\n\r\nOther *words*, more of them.\n\nAnd more.\n\n~~~rust\ny\n~~~\nB\n---\n")
        );
        for other in [
            "# A\n\n```rust\n```\n## C\n",
            "# A\n\n```rust\n```\n# B\n",
            "# A\n```c\n```\n## B\n",
            "---\n---\n# A\n```rust\n```\n## B\n",
        ] {
            assert_ne!(first, hash(other), "{other:?}");
        }
    }

    #[test]
    fn each_kind_of_problem_is_found_where_it_is() {
        use ProblemKind::{
            DuplicateHeading, EmptyHeading, EmptySection, SeveralTitles, SkippedLevel, UnclosedCode,
        };
        assert_eq!(problems_of("# A\nx\n### B\nx\n"), [(SkippedLevel, 3, Some(1))]);
        assert_eq!(
            problems_of("# A\nx\n## B\nx\n## B\nx\n# C\nx\n## B\nx\n"),
            [(DuplicateHeading, 5, Some(3)), (SeveralTitles, 7, Some(1))]
        );
        assert_eq!(problems_of("# A\n## B\n## C\nx\n"), [(EmptySection, 2, None)]);
        assert_eq!(problems_of("# A\nx\n##\nx\n"), [(EmptyHeading, 3, None)]);
        assert_eq!(problems_of("# A\n````\n```\n# no heading\n"), [(UnclosedCode, 2, None)]);
        assert!(problems_of("## Only\n- > ~~~\n  > a\n  > ~~~\n### Sub\n```\n```\n").is_empty());
    }

    #[test]
    fn code_is_counted_by_language() {
        let structure =
            structure("```Rust,ignore\na\n```\n\n    plain\n\n```rust {x}\n```\n```{.c}\nb\n```\n");
        let code: Vec<_> =
            structure.code.iter().map(|code| (code.language.as_deref(), code.blocks, code.lines)).collect();
        assert_eq!(code, [(None, 2, 4), (Some("rust"), 2, 5)]);
        assert_eq!(structure.parts.code_blocks, 4);
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let many = structure(&"# A\n".repeat(HEADINGS_MAX + 7));
        assert_eq!(
            (many.heading_count, many.headings.len(), many.omitted.headings),
            (1_007, HEADINGS_MAX, 7)
        );
        assert_eq!(many.problem_count, count(many.problems.len()) + many.omitted.problems);
        let long = structure(&format!("# {}\n", "ä".repeat(HEADING_CHARACTERS_MAX + 1)));
        assert_eq!(
            (long.omitted.texts, crate::text::characters(&long.headings[0].text)),
            (2, HEADING_CHARACTERS_MAX)
        );
    }
}
