//! The headings of a document: gathered once, used by every transform that says where something stands.

use std::collections::BTreeMap;
use std::ops::Range;

use pulldown_cmark::{Event, HeadingLevel, Tag, TagEnd};

use super::markdown::Markdown;
use super::text::{LineText, words};

/// A heading longer than this is a paragraph with a mark in front.
pub const HEADING_CHARACTERS_MAX: usize = 200;

/// A heading and the section it opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Heading {
    /// From 1 to 6.
    pub(super) level: u8,
    /// The whole text, without marks.
    pub(super) text: String,
    /// The name by which a link reaches it; unique in the document.
    pub(super) anchor: String,
    /// The line it begins in.
    pub(super) line: u32,
    /// The heading of the section it stands in, by its place in the outline.
    pub(super) parent: Option<usize>,
    /// The words between it and the next heading.
    pub(super) words: u32,
    /// Whether anything but a heading stands between it and the next heading.
    pub(super) has_content: bool,
}

/// Builds the outline while the document is walked.
#[derive(Debug, Default)]
pub(super) struct Outline {
    headings: Vec<Heading>,
    /// The places of the headings whose sections are open, outermost first; at most six.
    open: Vec<usize>,
    slugs: Slugs,
    text: LineText,
    /// The heading that is being read.
    reading: Option<(u8, u32)>,
    in_code: bool,
    /// The words before the first heading.
    preamble_words: u32,
}

impl Outline {
    /// Takes the next event of the walk.
    pub(super) fn see(&mut self, event: &Event<'_>, range: &Range<usize>, document: &Markdown<'_>) {
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                self.reading = Some((level_number(*level), document.line(range.start)));
                self.text.clear();
            }
            Event::End(TagEnd::Heading(_)) => self.close_heading(),
            Event::Text(text) | Event::Code(text) => self.see_text(text),
            Event::SoftBreak | Event::HardBreak => self.text.push(" "),
            Event::Start(tag) => {
                self.in_code |= matches!(tag, Tag::CodeBlock(_));
                self.see_content();
            }
            Event::End(end) => {
                if *end == TagEnd::CodeBlock {
                    self.in_code = false;
                }
            }
            Event::Html(_)
            | Event::InlineHtml(_)
            | Event::InlineMath(_)
            | Event::DisplayMath(_)
            | Event::FootnoteReference(_)
            | Event::TaskListMarker(_)
            | Event::Rule => {}
        }
    }

    /// Returns the texts of the open headings, outermost first.
    pub(super) fn path(&self) -> impl Iterator<Item = &str> {
        self.open.iter().map(|place| self.headings[*place].text.as_str())
    }

    /// Returns all headings seen, in order.
    pub(super) fn headings(&self) -> &[Heading] {
        &self.headings
    }

    /// Returns the number of words before the first heading.
    pub(super) fn preamble_words(&self) -> u32 {
        self.preamble_words
    }

    fn see_text(&mut self, text: &str) {
        if self.reading.is_some() {
            self.text.push(text);
            return;
        }
        if self.in_code {
            return;
        }
        match self.headings.last_mut() {
            Some(heading) => heading.words += words(text),
            None => self.preamble_words += words(text),
        }
    }

    fn see_content(&mut self) {
        if self.reading.is_none()
            && let Some(heading) = self.headings.last_mut()
        {
            heading.has_content = true;
        }
    }

    fn close_heading(&mut self) {
        let Some((level, line)) = self.reading.take() else { return };
        while self.open.last().is_some_and(|place| self.headings[*place].level >= level) {
            self.open.pop();
        }
        let text = self.text.since(0).to_owned();
        let anchor = self.slugs.unique(&text);
        let parent = self.open.last().copied();
        self.open.push(self.headings.len());
        self.headings.push(Heading { level, text, anchor, line, parent, words: 0, has_content: false });
    }
}

fn level_number(level: HeadingLevel) -> u8 {
    match level {
        HeadingLevel::H1 => 1,
        HeadingLevel::H2 => 2,
        HeadingLevel::H3 => 3,
        HeadingLevel::H4 => 4,
        HeadingLevel::H5 => 5,
        HeadingLevel::H6 => 6,
    }
}

/// Makes the anchors of headings unique: the second `plan` becomes `plan-1`.
#[derive(Debug, Default)]
struct Slugs {
    /// How many times each slug was taken or tried as a base.
    taken: BTreeMap<String, u32>,
}

impl Slugs {
    fn unique(&mut self, text: &str) -> String {
        let base = slug(text);
        let Some(&seen) = self.taken.get(&base) else {
            self.taken.insert(base.clone(), 0);
            return base;
        };
        let mut number = seen;
        loop {
            number += 1;
            let candidate = format!("{base}-{number}");
            if !self.taken.contains_key(&candidate) {
                self.taken.insert(base, number);
                self.taken.insert(candidate.clone(), 0);
                return candidate;
            }
        }
    }
}

/// Returns the anchor that common Markdown renderers give a heading: lower case, spaces as hyphens, and of the rest
/// only letters, digits, combining marks, `_` and `-`.
pub(super) fn slug(text: &str) -> String {
    let mut slug = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            ' ' => slug.push('-'),
            '-' | '_' | '\u{300}'..='\u{36f}' => slug.push(character),
            _ if character.is_alphanumeric() => slug.extend(character.to_lowercase()),
            _ => {}
        }
    }
    slug
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outline(text: &str) -> Outline {
        let document = Markdown::read(text.as_bytes()).unwrap();
        let mut outline = Outline::default();
        for (event, range) in document.events(|_, _| ()) {
            outline.see(&event, &range, &document);
        }
        outline
    }

    #[test]
    fn anchors_are_unique_even_against_headings_that_look_like_one() {
        let outline = outline("# Plan\n# Plan\n# Plan-1\n# Plan\n# Ä & `b_c`!\n#\n#\n");
        let anchors: Vec<&str> = outline.headings().iter().map(|heading| heading.anchor.as_str()).collect();
        assert_eq!(anchors, ["plan", "plan-1", "plan-1-1", "plan-2", "ä--b_c", "", "-1"]);
    }

    #[test]
    fn words_belong_to_the_last_heading_and_code_has_none() {
        let outline =
            outline("two words\n\n# A\none\n\n```\nno words here\n```\n## B\n> three *more* `words`\n");
        let counted: Vec<u32> = outline.headings().iter().map(|heading| heading.words).collect();
        assert_eq!((outline.preamble_words(), counted), (2, vec![1, 3]));
    }

    #[test]
    fn the_path_is_that_of_the_innermost_section() {
        let outline = outline("# A\n### B\n## C\n#### D *e*\nF\n===\n");
        assert_eq!(outline.path().collect::<Vec<_>>(), ["F"]);
        let parents: Vec<_> = outline.headings().iter().map(|heading| heading.parent).collect();
        assert_eq!(parents, [None, Some(0), Some(0), Some(2), None]);
        assert_eq!(outline.headings()[3].text, "D e");
    }
}
