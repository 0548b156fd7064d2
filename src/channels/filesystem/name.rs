//! Names from outside: which are taken, and how the others are shown.

use thoughtstream_domain::text::{is_hostile, printable};

/// Why a name is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadName {
    /// It is not UTF-8, so no event could carry it.
    NotUtf8,
    /// It holds a control, invisible or reordering character, so a person could not tell what it says.
    Hostile,
}

/// Takes a file name, or says why not.
pub(crate) fn take(name: &[u8]) -> Result<&str, BadName> {
    let name = std::str::from_utf8(name).map_err(|_| BadName::NotUtf8)?;
    if name.chars().any(|c| is_hostile(c) && !is_joiner(c)) { Err(BadName::Hostile) } else { Ok(name) }
}

/// The two joiners are invisible, but words of several languages and many emoji are spelled with them.
const fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}')
}

/// Writes any name so that it can be shown: bytes that are no text become `\xNN`, hostile characters
/// `\u{…}`.
pub(crate) fn shown(name: &[u8]) -> String {
    let mut out = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        out.push_str(&printable(chunk.valid()));
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

/// Returns the media type that a name's ending stands for.
#[must_use]
pub fn content_type(path: &str) -> &'static str {
    let name = path.rsplit('/').next().unwrap_or(path);
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    match ending.as_deref() {
        Some("md" | "markdown" | "mdown") => "text/markdown",
        Some("txt" | "text" | "log") => "text/plain",
        Some("org") => "text/org",
        Some("html" | "htm") => "text/html",
        Some("csv") => "text/csv",
        Some("json") => "application/json",
        Some("yaml" | "yml") => "application/yaml",
        Some("toml") => "application/toml",
        Some("xml") => "application/xml",
        Some("pdf") => "application/pdf",
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("gif") => "image/gif",
        Some("webp") => "image/webp",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_names_are_taken_whatever_their_language_or_length() {
        for name in ["notes.md", "Größe 日本.md", "family 👩‍👩‍👧.md", "می‌خواهم.md", &"x".repeat(255)]
        {
            assert_eq!(take(name.as_bytes()), Ok(name));
        }
    }

    #[test]
    fn hostile_names_are_refused_and_shown_without_harm() {
        for (name, bad, text) in [
            (&b"a\nb.md"[..], BadName::Hostile, "a\\nb.md"),
            (b"\x1b[2Jx", BadName::Hostile, "\\u{1b}[2Jx"),
            ("cod\u{202e}dm.exe".as_bytes(), BadName::Hostile, "cod\\u{202e}dm.exe"),
            (b"caf\xe9.md", BadName::NotUtf8, "caf\\xe9.md"),
            (b"\xff\n\xfe", BadName::NotUtf8, "\\xff\\n\\xfe"),
        ] {
            assert_eq!(take(name), Err(bad));
            assert_eq!(shown(name), text);
        }
    }

    #[test]
    fn the_ending_of_the_last_component_decides_the_media_type() {
        assert_eq!(content_type("a/b.MD"), "text/markdown");
        assert_eq!(content_type("a.md/b"), "application/octet-stream");
        assert_eq!(content_type("plain"), "application/octet-stream");
    }
}
