//! The commands of a chat that have a fixed answer: a text under a version, given without asking a model.
//!
//! The command stays a turn of the conversation and its answer an ordinary output: it is settled, delivered and
//! remembered like any other. Only nobody is asked, so nothing is reserved or spent.

use crate::slash;

/// What `/help` answers, with what stands between its first command and the last.
macro_rules! help {
    ($between:literal) => {
        concat!(
            "Write to me as you would to a person; I answer here. A photo works too, with or without words.\n\n",
            "Commands\n/help: this text\n",
            $between,
            "/correct TEXT: as a reply to one of my messages, says what it should have been. Only the correction is ",
            "used from then on; what I sent stays on record.\n\n",
            "Feedback\nA thumbs-up or thumbs-down on one of my messages is kept as a judgment of it.\n\n",
            "Looking inside\nOn the machine where I run, thought tree shows what is alive, thought inbox what waits ",
            "for you, and thought why ID the one fact that holds a thing up.\n\n",
            "Documentation\nthought --help lists every command, and the README that came with the program explains ",
            "them."
        )
    };
}

const HELP: &str = help!("");

/// What it answers where a focus can be proposed.
const HELP_WITH_FOCUS: &str = help!(
    "/focus TEXT: I write what you describe down as a proposal for a focus. It does nothing by itself.\n"
);

/// What `/focus` answers when nothing stands behind it.
const FOCUS: &str = "\
A focus is something I could look after over time: what it is about, what it is for, what it would read and what it \
may spend. Describe one behind the command, for example:

/focus keep track of what I sow and tell me what is due in the garden

I then write it down as a proposal. A proposal starts nothing and permits nothing; it stays on record until somebody \
takes it up on the machine where I run.";

/// Is one text that a command is answered with.
struct Fixed {
    command: &'static str,
    version: u32,
    text: &'static str,
    /// Whether it is the answer where a focus can be proposed, or where none can.
    focus: bool,
}

/// Every answer that is given now. A changed text is another version; a test holds each to its hash.
const ANSWERS: [Fixed; 3] = [
    Fixed { command: "help", version: 1, text: HELP, focus: false },
    Fixed { command: "help", version: 2, text: HELP_WITH_FOCUS, focus: true },
    Fixed { command: slash::FOCUS, version: 1, text: FOCUS, focus: true },
];

/// Is the fixed answer, as far as it differs from any other conversation's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedAnswer {
    /// The name of the command, as traces name it.
    pub command: &'static str,
    /// The text of the reply.
    pub summary: &'static str,
    /// The version of the text, for the trace.
    pub version: u32,
}

/// Answers a message that is exactly one of the commands, addressed to nobody or to `bot`; `None` for any other text.
/// `focus` says whether whoever answers may propose a focus; if not, `/focus` is a text like any other.
#[must_use]
pub fn answer(text: &str, bot: Option<&str>, focus: bool) -> Option<FixedAnswer> {
    let fits = |fixed: &&Fixed| fixed.focus == focus && slash::is_exactly(text, fixed.command, bot);
    let Fixed { command, version, text: summary, .. } = ANSWERS.iter().find(fits)?;
    Some(FixedAnswer { command, summary, version: *version })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Sha256Hash;

    /// The hash of each command's and version's text.
    const HASHES: [(&str, u32, &str); 3] = [
        ("help", 1, "5bca8f8d81a185110276210013b083b39cb7005bca951e2ea187a72f9e383084"),
        ("help", 2, "874d53ffd0a97bc2a763277e7d59ff710d19b8b8043d56b1097bb66454c06b8d"),
        ("focus", 1, "3026b85484709b251ce01a9ca6e33cf760dcdcfa16084da247207e293e5f6075"),
    ];

    #[test]
    fn a_version_keeps_its_text() {
        let hashes = ANSWERS.map(|fixed| Sha256Hash::of(fixed.text.as_bytes()).to_string());
        let found: Vec<_> =
            ANSWERS.iter().zip(&hashes).map(|(f, hash)| (f.command, f.version, &hash[..])).collect();
        assert_eq!(found, HASHES, "a changed text is a new version");
    }

    #[test]
    fn only_the_exact_command_is_answered() {
        for focus in [false, true] {
            let answer = |text| answer(text, Some("me_bot"), focus);
            assert!(answer("/help").is_some() && answer("/help@me_bot").is_some());
            for other in
                ["/help me", "help", "/help@other", "/HELP", "please /help", "/focus@other", "/focus x"]
            {
                assert_eq!(answer(other), None, "{other}");
            }
        }
        assert!(ANSWERS.iter().all(|fixed| crate::text::characters(fixed.text) <= 4096));
    }

    #[test]
    fn a_focus_is_spoken_of_only_where_one_can_be_proposed() {
        assert_eq!(answer("/focus", None, false), None);
        let without = answer("/help", None, false).unwrap();
        assert!(without.version == 1 && !without.summary.contains("focus"));
        let with = answer("/help", None, true).unwrap();
        assert!(with.version == 2 && with.summary.contains("/focus TEXT"));
        let focus = answer("/focus@me", Some("me"), true).unwrap();
        assert_eq!((focus.command, focus.version), ("focus", 1));
    }
}
