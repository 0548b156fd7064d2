//! What `/help` answers: a fixed text under a version, given without asking a model.
//!
//! The command stays a turn of the conversation and its answer an ordinary output: it is settled, delivered and
//! remembered like any other. Only nobody is asked, so nothing is reserved or spent.

use crate::slash;

/// The version of the text; a test holds each version to its hash, so that a changed text needs the next one.
pub const VERSION: u32 = 1;

/// The name of the command, as traces name it.
pub const COMMAND: &str = "help";

const TEXT: &str = "\
Write to me as you would to a person; I answer here. A photo works too, with or without words.

Commands
/help: this text
/correct TEXT: as a reply to one of my messages, says what it should have been. Only the correction is used \
from then on; what I sent stays on record.

Feedback
A thumbs-up or thumbs-down on one of my messages is kept as a judgment of it.

Looking inside
On the machine where I run, thought tree shows what is alive, thought inbox what waits for you, and \
thought why ID the one fact that holds a thing up.

Documentation
thought --help lists every command, and the README that came with the program explains them.";

/// Is the fixed answer, as far as it differs from any other conversation's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HelpAnswer {
    /// The text of the reply.
    pub summary: &'static str,
    /// The version of the text, for the trace.
    pub version: u32,
}

/// Answers a message that is exactly the command, addressed to nobody or to `bot`; `None` for any other text.
#[must_use]
pub fn answer(text: &str, bot: Option<&str>) -> Option<HelpAnswer> {
    slash::is_exactly(text, COMMAND, bot).then_some(HelpAnswer { summary: TEXT, version: VERSION })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Sha256Hash;

    /// The hash of each version's text, from version 1.
    const HASHES: [&str; 1] = ["5bca8f8d81a185110276210013b083b39cb7005bca951e2ea187a72f9e383084"];

    #[test]
    fn a_version_keeps_its_text() {
        let hash = Sha256Hash::of(TEXT.as_bytes()).to_string();
        assert_eq!(HASHES.len(), VERSION as usize, "a new version adds its hash");
        assert_eq!(HASHES.last(), Some(&hash.as_str()), "a changed text is a new version");
    }

    #[test]
    fn only_the_exact_command_is_answered() {
        assert!(answer("/help", None).is_some() && answer("/help@me_bot", Some("me_bot")).is_some());
        for other in ["/help me", "help", "/help@other", "/HELP", "please /help"] {
            assert_eq!(answer(other, Some("me_bot")), None, "{other}");
        }
        assert!(crate::text::characters(TEXT) <= 4096);
    }
}
