//! `document-links`: where a document points, and which of its pointers lead nowhere as far as it can tell itself.
//!
//! The document is read alone: whether another file exists is for whoever knows the whole source. A rename moves the
//! place from which relative paths are read, so a consumer of this transform subscribes to renames too.

use std::collections::BTreeSet;
use std::ops::Range;

use pulldown_cmark::{CowStr, Event, LinkType, Tag, TagEnd};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bounded::Bounded;
use super::markdown::Markdown;
use super::outline::{Outline, slug};
use super::text::{LineText, Shortener, count};
use super::{Derived, Removed, Subject};
use crate::hash::Sha256Hash;
use crate::id::DocumentId;
use crate::payload::TypedPayload;
use crate::registry::Writer;

mod anchors;
mod bare;
mod target;
use anchors::Anchors;
pub use target::LinkClass;
use target::Target;

/// A note with more links is an index; their counts are kept.
pub const LINKS_MAX: usize = 1_000;
/// The bytes of JSON that all links of one output share.
const LINKS_BYTES_MAX: usize = 160 * 1024;
/// Addresses longer than this carry data, not a place.
pub const TARGET_CHARACTERS_MAX: usize = 500;
/// The text of a link is there to be recognised, not to be read.
pub const TEXT_CHARACTERS_MAX: usize = 120;
/// A person who looks at a hundred pointers into nothing has understood.
pub const LOOSE_MAX: usize = 100;
const LOOSE_BYTES_MAX: usize = 16 * 1024;

/// Lists the links of a document, or says that it is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum DocumentLinks {
    /// The document is there.
    Present(Box<Links>),
    /// The document was removed; it points nowhere any more.
    Removed(Removed),
}

impl TypedPayload for DocumentLinks {
    const NAME: &'static str = "stream.thought.derived.document.links";
    const VERSION: u32 = 1;
    const WRITER: Writer = Writer::Settlement;
    const PROMOTED: &'static [&'static str] =
        &["state", "documentId", "path", "revision", "linkCount", "problemCount"];
}

/// Lists the links of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Links {
    /// The document.
    pub document_id: DocumentId,
    /// Its revision.
    pub revision: u64,
    /// Its path in the source.
    pub path: String,
    /// The hash of the content this was derived from.
    pub sha256: Sha256Hash,
    /// How many links and images the document has, omitted ones included.
    pub link_count: u32,
    /// How many of them there are of each class.
    pub classes: ClassCounts,
    /// The links and images, in the order in which they end.
    pub links: Vec<Link>,
    /// How many links are outside or malformed, labels undefined and anchors missing.
    pub problem_count: u32,
    /// Labels of `[text][label]` and `[label][]` that the document does not define.
    pub undefined_labels: Vec<Loose>,
    /// Anchors of the document itself that no heading, block or element has.
    pub missing_anchors: Vec<Loose>,
    /// What did not fit into this output.
    pub omitted: LinksOmitted,
}

/// Counts links by class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClassCounts {
    /// Relative paths inside the source.
    pub internal: u32,
    /// Places in the document itself.
    pub anchor: u32,
    /// Notes by name.
    pub note: u32,
    /// Addresses with a scheme.
    pub external: u32,
    /// Paths from the root.
    pub absolute: u32,
    /// Mail addresses.
    pub mail: u32,
    /// Relative paths above the root.
    pub outside: u32,
    /// Targets that are none.
    pub malformed: u32,
}

/// A link or an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Link {
    /// The line it begins in.
    pub line: u32,
    /// How it is written.
    pub form: LinkForm,
    /// Whether it shows its target (`![…]`) or leads to it.
    pub shows: Shows,
    /// What it points at.
    pub class: LinkClass,
    /// The target as written.
    pub target: String,
    /// The text that stands for it.
    pub text: String,
    /// The path from the root of the source, for `internal` and `absolute`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved: Option<String>,
    /// The place in the target, decoded: what stands behind `#`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fragment: Option<String>,
}

/// How a link is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LinkForm {
    /// `[text](target)`
    Inline,
    /// `[text][label]`, `[label][]` or `[label]`
    Reference,
    /// `<https://example.org>`
    Autolink,
    /// `[[Note]]`
    Wiki,
    /// `https://example.org` in the text
    Bare,
}

/// What a link does with its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Shows {
    /// It leads there.
    Link,
    /// It shows the target in its place.
    Image,
}

/// A pointer that leads nowhere in its own document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Loose {
    /// The line of the link.
    pub line: u32,
    /// The label or the anchor.
    pub name: String,
}

/// What did not fit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LinksOmitted {
    /// Links after the last one listed.
    pub links: u32,
    /// Undefined labels after the last one listed.
    pub undefined_labels: u32,
    /// Missing anchors after the last one listed.
    pub missing_anchors: u32,
    /// Resolved paths that were too long to list; a part of a path would be another path.
    pub resolved: u32,
    /// Texts that end in `…` because they were cut.
    pub texts: u32,
}

impl Derived for DocumentLinks {
    fn present(subject: &Subject, document: &Markdown<'_>) -> Self {
        let mut undefined = BTreeSet::new();
        let mut walk = Walk::new(&subject.path);
        let on_broken = |label: &str, at| {
            undefined.insert((at, label.to_owned()));
        };
        for (event, range) in document.events(on_broken) {
            walk.outline.see(&event, &range, document);
            walk.see(&event, &range, document);
        }
        let undefined = undefined.into_iter().map(|(at, label)| (document.line(at), label));
        Self::Present(Box::new(walk.finish(subject, undefined)))
    }

    fn removed(removed: Removed) -> Self {
        Self::Removed(removed)
    }
}

/// A link whose text is being read.
#[derive(Debug)]
struct Open {
    line: u32,
    form: LinkForm,
    shows: Shows,
    written: String,
    target: Target,
    /// Where its text begins.
    mark: usize,
}

#[derive(Debug)]
struct Walk<'p> {
    path: &'p str,
    outline: Outline,
    anchors: Anchors,
    open: Vec<Open>,
    text: LineText,
    in_code: bool,
    classes: ClassCounts,
    links: Bounded<Link>,
    /// Places in the document that links name, to be looked up when all are known.
    asked: Vec<(u32, String)>,
    omitted_resolved: u32,
    texts: Shortener,
}

impl<'p> Walk<'p> {
    fn new(path: &'p str) -> Self {
        Self {
            path,
            outline: Outline::default(),
            anchors: Anchors::default(),
            open: Vec::new(),
            text: LineText::default(),
            in_code: false,
            classes: ClassCounts::default(),
            links: Bounded::new(LINKS_MAX, LINKS_BYTES_MAX),
            asked: Vec::new(),
            omitted_resolved: 0,
            texts: Shortener::default(),
        }
    }

    fn see(&mut self, event: &Event<'_>, range: &Range<usize>, document: &Markdown<'_>) {
        let line = document.line(range.start);
        match event {
            Event::Start(Tag::Link { link_type, dest_url, .. }) => {
                self.open(line, *link_type, dest_url, Shows::Link);
            }
            Event::Start(Tag::Image { link_type, dest_url, .. }) => {
                self.open(line, *link_type, dest_url, Shows::Image);
            }
            Event::End(TagEnd::Link | TagEnd::Image) => self.close(),
            Event::Start(Tag::CodeBlock(_)) => self.in_code = true,
            Event::End(TagEnd::CodeBlock) => self.in_code = false,
            Event::Text(text) if !self.in_code => self.see_text(text, line),
            Event::Code(text) if !self.open.is_empty() => self.text.push(text),
            Event::SoftBreak | Event::HardBreak if !self.open.is_empty() => self.text.push(" "),
            Event::Html(html) | Event::InlineHtml(html) => self.anchors.see_html(html),
            Event::Start(_)
            | Event::End(_)
            | Event::Text(_)
            | Event::Code(_)
            | Event::SoftBreak
            | Event::HardBreak
            | Event::InlineMath(_)
            | Event::DisplayMath(_)
            | Event::FootnoteReference(_)
            | Event::TaskListMarker(_)
            | Event::Rule => {}
        }
    }

    fn see_text(&mut self, text: &str, line: u32) {
        self.anchors.see_text(text);
        if !self.open.is_empty() {
            self.text.push(text);
            return;
        }
        for address in bare::addresses(text) {
            let target = target::of_destination(address, self.path);
            let (form, shows) = (LinkForm::Bare, Shows::Link);
            self.add(Open { line, form, shows, written: address.to_owned(), target, mark: 0 }, address);
        }
    }

    fn open(&mut self, line: u32, link_type: LinkType, destination: &CowStr<'_>, shows: Shows) {
        let (form, target) = match link_type {
            LinkType::WikiLink { .. } => (LinkForm::Wiki, target::of_wiki(destination)),
            LinkType::Email => (LinkForm::Autolink, target::of_mail()),
            LinkType::Autolink => (LinkForm::Autolink, target::of_destination(destination, self.path)),
            LinkType::Inline => (LinkForm::Inline, target::of_destination(destination, self.path)),
            LinkType::Reference
            | LinkType::ReferenceUnknown
            | LinkType::Collapsed
            | LinkType::CollapsedUnknown
            | LinkType::Shortcut
            | LinkType::ShortcutUnknown => {
                (LinkForm::Reference, target::of_destination(destination, self.path))
            }
        };
        let written = destination.to_string();
        self.open.push(Open { line, form, shows, written, target, mark: self.text.mark() });
    }

    fn close(&mut self) {
        let Some(open) = self.open.pop() else { return };
        // The text is copied no further than it will be kept, plus what shows that there was more.
        let text: String = self.text.since(open.mark).chars().take(TEXT_CHARACTERS_MAX + 1).collect();
        if self.open.is_empty() {
            self.text.clear();
        }
        self.add(open, &text);
    }

    fn add(&mut self, open: Open, text: &str) {
        let Open { line, form, shows, written, target, .. } = open;
        *self.classes.of(target.class) += 1;
        if let (LinkClass::Anchor, Some(fragment)) = (target.class, &target.fragment) {
            self.asked.push((line, fragment.clone()));
        }
        if self.links.is_full() {
            self.links.omit();
            return;
        }
        let fits = |path: &String| crate::text::characters(path) <= TARGET_CHARACTERS_MAX;
        let had_path = target.path.is_some();
        let resolved = target.path.filter(fits);
        self.omitted_resolved += u32::from(had_path && resolved.is_none());
        let fragment = target.fragment.map(|fragment| self.texts.bound(&fragment, TEXT_CHARACTERS_MAX));
        let text = self.texts.bound(text, TEXT_CHARACTERS_MAX);
        let written = self.texts.bound(&written, TARGET_CHARACTERS_MAX);
        self.links.push(Link {
            line,
            form,
            shows,
            class: target.class,
            target: written,
            text,
            resolved,
            fragment,
        });
    }

    fn finish(mut self, subject: &Subject, undefined: impl Iterator<Item = (u32, String)>) -> Links {
        for heading in self.outline.headings() {
            self.anchors.add(&heading.anchor);
            self.anchors.add(&slug(&heading.text));
        }
        let missing = self.asked.iter().filter(|(_, name)| !self.anchors.has(name));
        let missing = missing.map(|(line, name)| (*line, name.as_str()));
        let (missing_anchors, omitted_anchors) = loose(missing, &mut self.texts);
        let undefined: Vec<(u32, String)> = undefined.collect();
        let undefined = undefined.iter().map(|(line, name)| (*line, name.as_str()));
        let (undefined_labels, omitted_labels) = loose(undefined, &mut self.texts);
        let (links, omitted_links) = self.links.finish();
        let loose_count =
            count(missing_anchors.len() + undefined_labels.len()) + omitted_anchors + omitted_labels;
        Links {
            document_id: subject.document_id.clone(),
            revision: subject.revision,
            path: subject.path.clone(),
            sha256: subject.sha256,
            link_count: count(links.len()) + omitted_links,
            classes: self.classes,
            links,
            problem_count: self.classes.outside + self.classes.malformed + loose_count,
            undefined_labels,
            missing_anchors,
            omitted: LinksOmitted {
                links: omitted_links,
                undefined_labels: omitted_labels,
                missing_anchors: omitted_anchors,
                resolved: self.omitted_resolved,
                texts: self.texts.shortened(),
            },
        }
    }
}

impl ClassCounts {
    fn of(&mut self, class: LinkClass) -> &mut u32 {
        match class {
            LinkClass::Internal => &mut self.internal,
            LinkClass::Anchor => &mut self.anchor,
            LinkClass::Note => &mut self.note,
            LinkClass::External => &mut self.external,
            LinkClass::Absolute => &mut self.absolute,
            LinkClass::Mail => &mut self.mail,
            LinkClass::Outside => &mut self.outside,
            LinkClass::Malformed => &mut self.malformed,
        }
    }
}

fn loose<'n>(names: impl Iterator<Item = (u32, &'n str)>, texts: &mut Shortener) -> (Vec<Loose>, u32) {
    let mut list = Bounded::new(LOOSE_MAX, LOOSE_BYTES_MAX);
    for (line, name) in names {
        if list.is_full() {
            list.omit();
        } else {
            list.push(Loose { line, name: texts.bound(name, TEXT_CHARACTERS_MAX) });
        }
    }
    list.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::tests::present;

    fn links(text: &str) -> Links {
        match present::<DocumentLinks>(text) {
            DocumentLinks::Present(links) => *links,
            DocumentLinks::Removed(_) => unreachable!(),
        }
    }

    #[test]
    fn every_form_of_link_is_found() {
        let text = "[a](b.md) [c][l] [l][] [l]\n<https://e.org> <a@e.org> https://e.org/x\n\n[[Note#Part|alias]] ![[p.png]] ![d](../img/e.png)\n\n[l]: /root.md\n";
        use LinkForm::{Autolink, Bare, Inline, Reference, Wiki};
        let found: Vec<_> =
            links(text).links.into_iter().map(|link| (link.line, link.form, link.shows, link.text)).collect();
        let expected = [
            (1, Inline, Shows::Link, "a"),
            (1, Reference, Shows::Link, "c"),
            (1, Reference, Shows::Link, "l"),
            (1, Reference, Shows::Link, "l"),
            (2, Autolink, Shows::Link, "https://e.org"),
            (2, Autolink, Shows::Link, "a@e.org"),
            (2, Bare, Shows::Link, "https://e.org/x"),
            (4, Wiki, Shows::Link, "alias"),
            (4, Wiki, Shows::Image, "p.png"),
            (4, Inline, Shows::Image, "d"),
        ];
        assert_eq!(found, expected.map(|(line, form, shows, text)| (line, form, shows, text.to_owned())));
    }

    #[test]
    fn an_image_in_a_link_is_part_of_its_text() {
        let links = links("[before ![*alt* `x`](i.png) after](t.md)");
        let found: Vec<_> =
            links.links.iter().map(|link| (link.target.as_str(), link.text.as_str())).collect();
        assert_eq!(found, [("i.png", "alt x"), ("t.md", "before alt x after")]);
    }

    #[test]
    fn links_are_resolved_against_the_document() {
        let links = links("[a](../people/anna.md#work) [b](../../up.md) [c](%ff)");
        let anna = &links.links[0];
        assert_eq!(
            (anna.resolved.as_deref(), anna.fragment.as_deref()),
            (Some("people/anna.md"), Some("work"))
        );
        assert_eq!((links.classes.internal, links.classes.outside, links.classes.malformed), (1, 1, 1));
        assert_eq!((links.problem_count, links.links[1].resolved.as_deref()), (2, None));
    }

    #[test]
    fn labels_and_anchors_that_lead_nowhere_are_listed() {
        let text = "# Plan\n[a](#plan) [b](#plans) [[#Plan]] [[#^x]]\n\n[c][nowhere] [d] text ^y\n\n[e](#^y) `[f](#g)`\n";
        let links = links(text);
        let missing: Vec<_> =
            links.missing_anchors.iter().map(|loose| (loose.line, loose.name.as_str())).collect();
        assert_eq!(missing, [(2, "plans"), (2, "^x")]);
        let undefined: Vec<_> =
            links.undefined_labels.iter().map(|loose| (loose.line, loose.name.as_str())).collect();
        assert_eq!(undefined, [(4, "nowhere")]);
        assert_eq!(links.problem_count, 3);
    }

    #[test]
    fn code_holds_no_links() {
        let links = links("`[a](b)` `https://e.org`\n\n```\n[a](b) https://e.org\n```\n");
        assert_eq!(links.link_count, 0);
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let many = links(&"[a](b.md) ".repeat(LINKS_MAX + 3));
        assert_eq!((many.link_count, many.links.len(), many.omitted.links), (1_003, LINKS_MAX, 3));
        assert_eq!(many.classes.internal, 1_003);
        let long = links(&format!("[a](/{})", "b".repeat(TARGET_CHARACTERS_MAX + 1)));
        assert_eq!(
            (long.omitted.resolved, long.omitted.texts, long.links[0].resolved.as_deref()),
            (1, 1, None)
        );
    }
}
