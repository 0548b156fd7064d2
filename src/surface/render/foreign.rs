//! Text from outside in a frame: every line of it stands behind a mark of ours, so that none can pass for ours, what
//! a terminal would not show is spelled out, and what is too long is cut with a word that says so.

use std::fmt::Write as _;

use thoughtstream_domain::text::{characters, printable};

/// So many lines are shown where the whole is not asked for.
pub const LINES_MAX: usize = 40;

/// A line on the screen has at most so many characters behind its mark; a longer one goes on below.
const WIDTH: usize = 96;

/// Stands in front of every line.
const MARK: &str = "  │ ";
/// Stands in front of the rest of a line that was too long.
const MARK_ON: &str = "  ┊ ";

/// Is how much of a text is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// A glance: some lines, and a word about the rest.
    Glance,
    /// All of it.
    Whole,
}

impl Room {
    const fn lines(self) -> usize {
        match self {
            Self::Glance => LINES_MAX,
            Self::Whole => usize::MAX,
        }
    }
}

/// Writes lines that end up in one frame.
#[derive(Debug)]
pub struct Frame {
    text: String,
    left: usize,
    unseen: usize,
}

impl Frame {
    /// Starts a frame with this much room.
    #[must_use]
    pub const fn new(room: Room) -> Self {
        Self { text: String::new(), left: room.lines(), unseen: 0 }
    }

    /// Adds a line with a sign of ours (at most a few characters) in front of it.
    pub fn line(&mut self, sign: &str, line: &str) {
        let printed = printable(line);
        let mut rest = printed.as_str();
        let mut mark = MARK;
        loop {
            let cut = rest.char_indices().nth(WIDTH).map_or(rest.len(), |(at, _)| at);
            let (now, later) = rest.split_at(cut);
            if self.left == 0 {
                self.unseen += characters(rest);
                return;
            }
            self.left -= 1;
            writeln!(self.text, "{mark}{sign}{now}").expect("writing to a String does not fail");
            if later.is_empty() {
                return;
            }
            (rest, mark) = (later, MARK_ON);
        }
    }

    /// Adds a text, line by line.
    pub fn text(&mut self, text: &str) {
        for line in text.split('\n') {
            self.line("", line);
        }
    }

    /// Returns the frame; `more` is the command that shows all of it.
    #[must_use]
    pub fn close(self, more: &str) -> String {
        let Self { mut text, unseen, .. } = self;
        if unseen > 0 {
            writeln!(text, "  … {unseen} more characters: {more}")
                .expect("writing to a String does not fail");
        }
        text
    }
}

/// Returns a text in a frame; `more` is the command that shows all of it.
#[must_use]
pub fn framed(text: &str, room: Room, more: &str) -> String {
    let mut frame = Frame::new(room);
    frame.text(text);
    frame.close(more)
}

#[cfg(test)]
mod tests {
    use thoughtstream_domain::text::is_hostile;

    use super::*;

    /// Texts that want to be taken for something else.
    const HOSTILE: [&str; 8] = [
        "\u{1b}[2J\u{1b}[1;1Haccepted evt_1",
        "right\u{202e}tfel\u{2066}x",
        "zero\u{200b}\u{200d}\u{feff}width",
        "a\r\nWHAT  WHICH  AGE\nproposal-waiting  evt_1\n",
        "\u{3164}\u{115f}\u{2800}",
        "tag\u{e0041}\u{e01ef}",
        "  │ a frame of its own\n  … 9 more characters: thought stop",
        "\u{9b}31mred\u{7}",
    ];

    #[test]
    fn no_line_of_it_stands_without_our_mark() {
        for text in HOSTILE {
            for room in [Room::Glance, Room::Whole] {
                let framed = framed(text, room, "thought inbox show X --full");
                assert!(!framed.chars().any(|c| is_hostile(c) && c != '\n'), "{framed:?}");
                for line in framed.lines() {
                    assert!(line.starts_with(MARK) || line.starts_with(MARK_ON), "{line:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_hidden_is_spelled_out() {
        let shown: Vec<String> = HOSTILE.iter().map(|text| framed(text, Room::Whole, "")).collect();
        insta::assert_snapshot!(shown.concat());
    }

    #[test]
    fn a_long_text_is_cut_and_its_rest_counted() {
        let long = "x".repeat(10_000);
        let glance = framed(&long, Room::Glance, "thought inbox show X --full");
        assert_eq!(glance.lines().count(), LINES_MAX + 1);
        let rest = 10_000 - LINES_MAX * WIDTH;
        assert!(glance.ends_with(&format!("  … {rest} more characters: thought inbox show X --full\n")));
        let whole = framed(&long, Room::Whole, "");
        assert_eq!(whole.matches('x').count(), 10_000);
        assert!(!whole.contains('…'));
    }
}
