//! The id a Markdown file's frontmatter names.

use thoughtstream_domain::text::is_hostile;
use thoughtstream_domain::yaml::{self, Limits, Value, codes};

use super::name::content_type;

/// A longer id is a mistake, not an id.
const NAME_BYTES_MAX: usize = 256;

/// Frontmatter may have this many bytes, fences included; what ends later has no id for us.
const HEAD_BYTES_MAX: usize = Limits::FRONTMATTER.bytes_max + 64;

/// Returns the `id` in the frontmatter of a Markdown file: text or a whole number, on a line without problems.
///
/// Problems with other keys do not matter here; a key that stands twice does, since nobody knows which one
/// counts.
#[must_use]
pub fn frontmatter_id(path: &str, content: &[u8]) -> Option<String> {
    if content_type(path) != "text/markdown" || !content.starts_with(b"---") {
        return None;
    }
    let head = &content[..content.len().min(HEAD_BYTES_MAX)];
    let text = head.utf8_chunks().next()?.valid();
    let reading = yaml::frontmatter("frontmatter", text, Limits::FRONTMATTER)?.reading;
    let root = reading.root?;
    let entry = root.entry("id")?;
    let doubtful = reading
        .problems
        .iter()
        .any(|problem| problem.code == codes::DUPLICATE_KEY || problem.line == entry.key_span.line);
    if doubtful {
        return None;
    }
    let name = match &entry.node.value {
        Value::Text(text, _) => text.trim().to_owned(),
        Value::Integer(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Float(_) | Value::List(_) | Value::Map(_) | Value::Refused => {
            return None;
        }
    };
    is_name(&name).then_some(name)
}

/// Says whether a text may be the id that a frontmatter names.
pub(crate) fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= NAME_BYTES_MAX && !text.chars().any(is_hostile)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(content: &str) -> Option<String> {
        frontmatter_id("note.md", content.as_bytes())
    }

    #[test]
    fn text_and_whole_numbers_are_ids() {
        assert_eq!(id("---\nid: plan-2026\n---\n# Plan\n").as_deref(), Some("plan-2026"));
        assert_eq!(id("---\ntitle: x\nid: \"quoted id\"\n---\n").as_deref(), Some("quoted id"));
        assert_eq!(id("---\nid: 42\n---\n").as_deref(), Some("42"));
    }

    #[test]
    fn what_is_no_id_is_none() {
        for content in [
            "",
            "# Title\n",
            "---\ntitle: x\n---\n",
            "---\nid:\n---\n",
            "---\nid: \"\"\n---\n",
            "---\nid: [a]\n---\n",
            "---\nid: a\nid: b\n---\n",
            "---\nid: \"a\\u202eb\"\n---\n",
            "---\nid: no end\n",
        ] {
            assert_eq!(id(content), None, "{content:?}");
        }
        assert_eq!(id(&format!("---\nid: {}\n---\n", "x".repeat(300))), None);
        assert_eq!(frontmatter_id("note.txt", b"---\nid: a\n---\n"), None);
    }

    #[test]
    fn a_body_that_is_no_text_does_not_hide_the_id() {
        assert_eq!(frontmatter_id("note.md", b"---\nid: a\n---\n\xff\xfe").as_deref(), Some("a"));
        assert_eq!(frontmatter_id("note.md", b"---\nid: \xff\n---\n"), None);
    }

    #[test]
    fn a_flood_of_brackets_costs_nothing() {
        let content = format!("---\nid: {}\n---\n", "[".repeat(4 << 20));
        assert_eq!(id(&content), None);
    }
}
