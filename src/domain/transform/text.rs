//! Text taken out of a document: one line, bounded, and counted where it was cut.
//!
//! Lengths are UTF-16 code units, as [`crate::text::characters`] counts them.

/// Marks the place where a text was cut.
const ELLIPSIS: char = '…';

/// Cuts texts to a bound and counts how often it had to.
///
/// The count goes into the `omitted` part of an output, so that nothing is cut in silence.
#[derive(Debug, Default)]
pub(super) struct Shortener {
    shortened: u32,
}

impl Shortener {
    /// Returns `text` with at most `units_max` UTF-16 code units; a cut text ends in `…`.
    pub(super) fn bound(&mut self, text: &str, units_max: usize) -> String {
        // A character has at most one unit per byte of UTF-8, so a short text needs no counting.
        if text.len() <= units_max {
            return text.to_owned();
        }
        let mut used = 0;
        let mut last_fit = 0;
        for (offset, character) in text.char_indices() {
            used += character.len_utf16();
            if used < units_max {
                last_fit = offset + character.len_utf8();
            }
            if used > units_max {
                self.shortened += 1;
                let mut cut = text[..last_fit].trim_end().to_owned();
                cut.push(ELLIPSIS);
                return cut;
            }
        }
        text.to_owned()
    }

    /// Returns how many texts were cut so far.
    pub(super) fn shortened(&self) -> u32 {
        self.shortened
    }
}

/// Gathers pieces of text into one line: runs of white space and control characters become one space.
///
/// Nested parts (an image inside a link inside a heading) share one buffer and remember where they began, so
/// that a thousand nested images cost their length and not its square.
#[derive(Debug, Default)]
pub(super) struct LineText {
    text: String,
    space_pending: bool,
}

impl LineText {
    /// Appends `piece`.
    pub(super) fn push(&mut self, piece: &str) {
        for character in piece.chars() {
            if character.is_whitespace() || character.is_control() {
                self.space_pending = true;
                continue;
            }
            if self.space_pending && !self.text.is_empty() {
                self.text.push(' ');
            }
            self.space_pending = false;
            self.text.push(character);
        }
    }

    /// Returns the place at which the next piece will begin.
    pub(super) fn mark(&self) -> usize {
        self.text.len()
    }

    /// Returns what was gathered since `mark`.
    pub(super) fn since(&self, mark: usize) -> &str {
        self.text.get(mark..).unwrap_or_default().trim_start()
    }

    /// Forgets what was gathered.
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.space_pending = false;
    }
}

/// Returns how many words `text` has: runs of characters between white space.
///
/// Scripts that are written without spaces count as one word a run; the number is a measure of change, not of
/// reading time.
pub(super) fn words(text: &str) -> u32 {
    count(text.split_whitespace().filter(|word| word.chars().any(char::is_alphanumeric)).count())
}

/// Returns `number` as the type in which outputs count.
///
/// A document is at most 4 MiB, so a count of its parts always fits.
pub(super) fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::characters;

    #[test]
    fn a_text_is_cut_in_units_and_the_cut_is_counted() {
        let mut shortener = Shortener::default();
        assert_eq!(shortener.bound("abcd", 4), "abcd");
        assert_eq!(shortener.bound("äöüß", 4), "äöüß");
        assert_eq!(shortener.shortened(), 0);
        assert_eq!(shortener.bound("abcde", 4), "abc…");
        // Each of these has two units, so that only one of them and the mark fit.
        assert_eq!(shortener.bound("😀😀😀", 4), "😀…");
        assert!(characters(&shortener.bound("😀😀😀", 5)) <= 5);
        assert_eq!(shortener.shortened(), 3);
    }

    #[test]
    fn white_space_and_control_characters_become_one_space() {
        let mut line = LineText::default();
        line.push(" a\u{0}\r\n");
        let mark = line.mark();
        line.push("\tb");
        assert_eq!(line.since(0), "a b");
        assert_eq!(line.since(mark), "b");
    }

    #[test]
    fn a_word_has_a_letter_or_a_digit() {
        assert_eq!(words("one — two, 3 …"), 3);
    }
}
