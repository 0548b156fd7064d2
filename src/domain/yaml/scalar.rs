//! The reading rule for unquoted words: what every YAML reader reads alike is read, the rest is refused.
//!
//! | written | read as |
//! | --- | --- |
//! | `true`, `false` | a boolean |
//! | `null`, or nothing | null |
//! | `0`, `-7`, `120` (no sign `+`, no leading zero, at most 2^53 − 1) | an integer |
//! | `0.5`, `-12.25` (digits on both sides, exact) | a number with a fraction |
//! | a word that YAML 1.1, YAML 1.2 or JSON would read in another way (`on`, `no`, `~`, `0o17`, `1_000`, `1e3`, `.5`, `1:30`, `.nan`) | refused |
//! | anything else, dates included | text |
//!
//! In quotes everything is text.

/// The largest whole number that JSON carries without loss.
pub const INTEGER_MAX: i64 = (1 << 53) - 1;

/// What an unquoted word means.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Plain {
    Null,
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text,
}

/// Why an unquoted word has no single meaning, and the way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Doubt {
    pub(super) message: String,
    pub(super) hint: String,
}

/// Reads an unquoted word by the rule above.
pub(super) fn resolve(word: &str) -> Result<Plain, Doubt> {
    match word {
        "" | "null" => return Ok(Plain::Null),
        "true" => return Ok(Plain::Bool(true)),
        "false" => return Ok(Plain::Bool(false)),
        "~" | "Null" | "NULL" => {
            return Err(doubt(word, "null to some readers and text to others", "null"));
        }
        "=" => return Err(doubt(word, "a special value to some readers and text to others", "\"=\"")),
        _ => {}
    }
    if let Some(meaning) = truth(word) {
        let other = "a boolean to some readers and text to others";
        return Err(doubt(word, other, if meaning { "true" } else { "false" }));
    }
    if is_not_finite(word) {
        let hint = format!("a number must be finite; if it is text, quote it: \"{word}\"");
        return Err(Doubt { message: format!("`{word}` is not a finite number"), hint });
    }
    if !looks_like_a_number(word) {
        return Ok(Plain::Text);
    }
    number(word)
}

/// Says that `word` has two meanings, and how to write the probable one.
fn doubt(word: &str, meanings: &str, instead: &str) -> Doubt {
    let quoted = format!("\"{word}\"");
    let hint = if instead == quoted {
        format!("quote it: {quoted}")
    } else {
        format!("write `{instead}`, or quote it if text is meant: {quoted}")
    };
    Doubt { message: format!("`{word}` is {meanings}"), hint }
}

/// Returns the truth value that some YAML reader gives to `word`.
fn truth(word: &str) -> Option<bool> {
    match word {
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "True" | "TRUE" => Some(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}

fn is_not_finite(word: &str) -> bool {
    let unsigned = word.strip_prefix(['-', '+']).unwrap_or(word);
    matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(word, ".nan" | ".NaN" | ".NAN")
}

/// Tells whether any YAML reader could take `word` for a number.
fn looks_like_a_number(word: &str) -> bool {
    let unsigned = word.strip_prefix(['-', '+']).unwrap_or(word);
    let prefixed =
        ["0x", "0o", "0b", "0X", "0O", "0B"].iter().find_map(|prefix| unsigned.strip_prefix(prefix));
    if let Some(digits) = prefixed {
        return !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'_');
    }
    let first = unsigned.bytes().next();
    if !first.is_some_and(|byte| byte.is_ascii_digit() || byte == b'.') {
        return false;
    }
    is_decimal(unsigned) || is_base_sixty(unsigned)
}

/// Recognises `12`, `1_000`, `1.`, `.5`, `1.5e-3`: any decimal that a reader could accept.
fn is_decimal(unsigned: &str) -> bool {
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let has_digit = mantissa.bytes().any(|byte| byte.is_ascii_digit());
    let exponent_reads = exponent.is_none_or(|text| {
        let text = text.strip_prefix(['-', '+']).unwrap_or(text);
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
    });
    has_digit && digits(whole) && digits(fraction) && exponent_reads
}

/// Recognises `1:30` and `190:20:30.15`, which YAML 1.1 counts in sixties.
fn is_base_sixty(unsigned: &str) -> bool {
    let whole = unsigned.split_once('.').map_or(unsigned, |(whole, _)| whole);
    let fraction = &unsigned[whole.len()..];
    let mut parts = whole.split(':');
    let digits = |text: &str| {
        text.bytes().next().is_some_and(|byte| byte.is_ascii_digit())
            && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_')
    };
    let first = parts.next().is_some_and(digits);
    let mut count = 0;
    let sixties = parts.all(|part| {
        count += 1;
        let short = part.len() == 1 || (part.len() == 2 && part.as_bytes()[0] < b'6');
        short && part.bytes().all(|byte| byte.is_ascii_digit())
    });
    let fraction = fraction.bytes().skip(1).all(|byte| byte.is_ascii_digit() || byte == b'_');
    first && sixties && count > 0 && fraction
}

/// Reads a word that looks like a number, if it is written in the one way that all readers share.
fn number(word: &str) -> Result<Plain, Doubt> {
    let digits = word.strip_prefix('-').unwrap_or(word);
    let (whole, fraction) = match digits.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (digits, None),
    };
    let decimal = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let canonical =
        decimal(whole) && (whole == "0" || !whole.starts_with('0')) && fraction.is_none_or(decimal);
    if !canonical {
        return Err(other_spelling(word));
    }
    let Some(fraction) = fraction else { return integer(word) };
    let value: f64 = word.parse().map_err(|_| other_spelling(word))?;
    if value == 0.0 && word.starts_with('-') {
        return Err(doubt(word, "a negative zero", "0.0"));
    }
    if !is_exact(whole, fraction, value) {
        let message = format!("`{word}` has more digits than a number keeps");
        return Err(Doubt { message, hint: format!("shorten it, or quote it: \"{word}\"") });
    }
    Ok(Plain::Float(value))
}

fn integer(word: &str) -> Result<Plain, Doubt> {
    if word == "-0" {
        return Err(doubt(word, "a negative zero", "0"));
    }
    match word.parse::<i64>() {
        Ok(value) if value.abs() <= INTEGER_MAX => Ok(Plain::Integer(value)),
        Ok(_) | Err(_) => Err(Doubt {
            message: format!("`{word}` is larger than a number can hold exactly (at most {INTEGER_MAX})"),
            hint: format!("use a smaller number, or quote it if text is meant: \"{word}\""),
        }),
    }
}

/// Tells whether the shortest text of `value` has the same digits that were written.
fn is_exact(whole: &str, fraction: &str, value: f64) -> bool {
    let shortest = format!("{}", value.abs());
    let (kept_whole, kept_fraction) = shortest.split_once('.').unwrap_or((&shortest, ""));
    whole == kept_whole && fraction.trim_end_matches('0') == kept_fraction.trim_end_matches('0')
}

/// Refuses a number in a spelling that readers do not share, offering the shared one where it is known.
fn other_spelling(word: &str) -> Doubt {
    let message = format!("`{word}` is a number to some readers and text, or another number, to others");
    let hint = respelled(word).map_or_else(
        || format!("write it with plain decimal digits, or quote it if text is meant: \"{word}\""),
        |instead| format!("write `{instead}`, or quote it if text is meant: \"{word}\""),
    );
    Doubt { message, hint }
}

/// Returns the shared spelling of a number whose meaning is not in doubt, only its form.
fn respelled(word: &str) -> Option<String> {
    let (sign, unsigned) = match word.as_bytes().first()? {
        b'-' => ("-", &word[1..]),
        b'+' => ("", &word[1..]),
        _ => ("", word),
    };
    let bare = unsigned.replace('_', "");
    let radix = match bare.get(..2).unwrap_or_default() {
        "0x" | "0X" => 16,
        "0o" | "0O" => 8,
        "0b" | "0B" => 2,
        _ => 10,
    };
    let instead = if radix == 10 {
        let leading_zero =
            bare.len() > 1 && bare.starts_with('0') && bare.bytes().all(|byte| byte.is_ascii_digit());
        if leading_zero {
            return None;
        }
        let zero_added = if bare.starts_with('.') { format!("0{bare}") } else { bare };
        zero_added.trim_end_matches('.').to_owned()
    } else {
        u64::from_str_radix(&bare[2..], radix).ok()?.to_string()
    };
    let instead = format!("{sign}{instead}");
    let reads = looks_like_a_number(&instead) && instead != word && number(&instead).is_ok();
    reads.then_some(instead)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_readers_share_is_read() {
        for (word, value) in [
            ("true", Plain::Bool(true)),
            ("false", Plain::Bool(false)),
            ("null", Plain::Null),
            ("0", Plain::Integer(0)),
            ("-7", Plain::Integer(-7)),
            ("9007199254740991", Plain::Integer(INTEGER_MAX)),
            ("0.5", Plain::Float(0.5)),
            ("1.0", Plain::Float(1.0)),
            ("-12.250", Plain::Float(-12.25)),
            ("0.1", Plain::Float(0.1)),
        ] {
            assert_eq!(resolve(word), Ok(value), "{word}");
        }
    }

    #[test]
    fn words_and_dates_are_text() {
        for word in [
            "document-structure",
            "2s",
            "1.2.3",
            "10.0.0.1",
            "2026-11-29",
            "2026-11-29T10:00:00Z",
            "onward",
            "nothing",
            "12:99",
            "-x",
            "1a",
            "0xg",
            "e5",
            "filesystem:notes",
            "_1",
            ".",
            "..",
            "-",
            "1e",
            "yEs",
        ] {
            assert_eq!(resolve(word), Ok(Plain::Text), "{word}");
        }
    }

    #[test]
    fn a_word_with_two_meanings_is_refused_with_a_way_out() {
        for (word, instead) in [
            ("on", "write `true`"),
            ("off", "write `false`"),
            ("yes", "write `true`"),
            ("no", "write `false`"),
            ("N", "write `false`"),
            ("True", "write `true`"),
            ("~", "write `null`"),
            ("0o17", "write `15`"),
            ("0x1F", "write `31`"),
            ("0b101", "write `5`"),
            ("1_000", "write `1000`"),
            ("+5", "write `5`"),
            (".5", "write `0.5`"),
            ("5.", "write `5`"),
            ("-0", "write `0`"),
            ("017", "plain decimal digits"),
            ("08", "plain decimal digits"),
            ("1e3", "plain decimal digits"),
            ("1:30", "plain decimal digits"),
            ("190:20:30.15", "plain decimal digits"),
            (".nan", "must be finite"),
            ("-.inf", "must be finite"),
            ("12345678901234567890", "use a smaller number"),
            ("0.1000000000000000055", "shorten it"),
            ("=", "quote it"),
        ] {
            let doubt = resolve(word).unwrap_err();
            assert!(doubt.hint.contains(instead), "{word}: {}", doubt.hint);
            assert!(doubt.hint.contains(&format!("\"{word}\"")), "{word}: {}", doubt.hint);
        }
    }
}
