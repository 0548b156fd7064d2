//! Text from outside, counted and shown: one function counts characters, one makes text safe to print.

/// Counts the characters of a text the way the contracts count them: UTF-16 code units.
#[must_use]
pub fn characters(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

/// Says whether a character could move the cursor, hide text or reorder it on a terminal.
#[must_use]
pub const fn is_hostile(c: char) -> bool {
    matches!(c,
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}'            // C0, DEL, C1
        | '\u{61c}' | '\u{200b}'..='\u{200f}'               // zero width and direction marks
        | '\u{2028}'..='\u{202e}'                           // line separators and bidirectional embeddings
        | '\u{2060}'..='\u{206f}' | '\u{feff}'              // invisible operators, isolates, byte order mark
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}' // interlinear, tags, supplementary selectors
        | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' | '\u{2800}' // fillers that look like nothing
        | '\u{34f}' | '\u{17b4}' | '\u{17b5}'            // joiners that show nothing
        | '\u{ad}' | '\u{180b}'..='\u{180f}')
}

/// Writes text for a terminal or a log line: hostile characters become `\u{…}`, the rest stays.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if is_hostile(c) => out.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

/// Like [`printable`], cut after `characters_max` characters with a mark that says so.
#[must_use]
pub fn excerpt(text: &str, characters_max: usize) -> String {
    let shown: String = text.chars().take(characters_max).collect();
    let mut out = printable(&shown);
    if shown.len() < text.len() {
        out.push('…');
    }
    out
}

/// Escapes hostile characters inside JSON text as `\uXXXX`, so that `--json` output is safe on a terminal.
///
/// Serialised JSON has such characters only inside strings, where the escape means the same text.
#[must_use]
pub fn json_printable(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut units = [0; 2];
    for c in json.chars() {
        if is_hostile(c) && c != '\n' {
            for unit in c.encode_utf16(&mut units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_utf_16_code_units() {
        assert_eq!(characters("a😀é"), 4);
    }

    #[test]
    fn nothing_hostile_survives_printing() {
        let hostile = "a\u{1b}[2Jb\u{202e}c\u{9b}d\u{200b}e\nf\u{e0041}";
        assert!(!printable(hostile).chars().any(is_hostile));
        let json = serde_json::to_string(hostile).unwrap();
        let safe = json_printable(&json);
        assert!(!safe.chars().any(is_hostile));
        assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), hostile);
    }

    #[test]
    fn an_excerpt_says_that_it_was_cut() {
        assert_eq!(excerpt("abcdef", 3), "abc…");
        assert_eq!(excerpt("abc", 3), "abc");
    }
}
