//! Commands that a person types into a chat: `/name`, `/name@bot`, and what stands behind them.

/// The command behind which a person describes a focus.
pub const FOCUS: &str = "focus";

/// Says whether a text is exactly this command, alone.
#[must_use]
pub fn is_exactly(text: &str, name: &str, bot: Option<&str>) -> bool {
    argument(text, name, bot) == Some("") && !text.ends_with(char::is_whitespace)
}

/// Returns what stands behind this command, without the white space around it; `None` if the text is another
/// command, one for another bot, or none. Telegram's user names do not tell capitals from small letters.
#[must_use]
pub fn argument<'t>(text: &'t str, name: &str, bot: Option<&str>) -> Option<&'t str> {
    let rest = text.strip_prefix('/')?.strip_prefix(name)?;
    let (head, argument) = rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len()));
    let ours = match head.strip_prefix('@') {
        Some(addressed) => bot.is_some_and(|bot| bot.eq_ignore_ascii_case(addressed)),
        None => head.is_empty(),
    };
    ours.then(|| argument.trim())
}

/// Says whether a text describes a focus: the command for this bot with something behind it.
#[must_use]
pub fn describes_focus(text: &str, bot: Option<&str>) -> bool {
    argument(text, FOCUS, bot).is_some_and(|description| !description.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_for_this_bot_and_has_an_argument() {
        let bot = Some("Garden_bot");
        assert_eq!(argument("/correct  it is 5 \n", "correct", bot), Some("it is 5"));
        assert_eq!(argument("/correct", "correct", bot), Some(""));
        assert_eq!(argument("/correct@garden_BOT x", "correct", bot), Some("x"));
        assert_eq!(argument("/correct\nx", "correct", None), Some("x"));
        for none in ["correct x", " /correct x", "/correction", "/correct@other x", "/Correct x", "/", ""] {
            assert_eq!(argument(none, "correct", bot), None, "{none}");
        }
        assert_eq!(argument("/correct@garden_bot x", "correct", None), None);
    }

    #[test]
    fn a_focus_is_described_behind_the_command() {
        let bot = Some("b");
        for described in ["/focus beans", "/focus@B the beans\nand the peas", "/focus\tx"] {
            assert!(describes_focus(described, bot), "{described}");
        }
        for other in ["/focus", "/focus ", "/focus@b", "/focus@c x", "/focused x", "focus x", "x /focus y"] {
            assert!(!describes_focus(other, bot), "{other}");
        }
    }

    #[test]
    fn exactly_means_alone() {
        assert!(is_exactly("/help", "help", None) && is_exactly("/help@b", "help", Some("b")));
        for other in ["/help ", "/help me", "/helpful", "/help@c", "help"] {
            assert!(!is_exactly(other, "help", Some("b")), "{other}");
        }
    }
}
