//! Addresses that stand in the text without any mark; renderers make links of them, the parser does not.

/// Characters that end an address, whatever follows.
const ENDS: [char; 7] = ['<', '>', '"', '`', '|', '“', '”'];

/// Characters that belong to the sentence when they stand at the end of an address.
const SENTENCE: [char; 10] = ['?', '!', '.', ',', ':', ';', '*', '_', '~', '\''];

/// Returns every `http://` and `https://` address of `text`, without the punctuation behind it.
pub(super) fn addresses(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let at = rest.find("http")?;
            let in_word = rest[..at].ends_with(char::is_alphanumeric);
            let candidate = &rest[at..];
            let Some(scheme) =
                ["https://", "http://"].into_iter().find(|scheme| candidate.starts_with(scheme))
            else {
                rest = &candidate["http".len()..];
                continue;
            };
            let end = candidate.find(|c: char| c.is_whitespace() || c.is_control() || ENDS.contains(&c));
            let (whole, after) = candidate.split_at(end.unwrap_or(candidate.len()));
            rest = after;
            let address = without_sentence(whole);
            if !in_word && address.len() > scheme.len() {
                return Some(address);
            }
        }
    })
}

/// Removes the punctuation of the sentence from the end, and closing brackets that were opened before the address.
fn without_sentence(address: &str) -> &str {
    let mut unopened =
        address.matches([')', ']']).count().saturating_sub(address.matches(['(', '[']).count());
    let mut kept = address;
    while let Some(last) = kept.chars().next_back() {
        match last {
            ')' | ']' if unopened > 0 => unopened -= 1,
            last if SENTENCE.contains(&last) => {}
            _ => break,
        }
        kept = &kept[..kept.len() - last.len_utf8()];
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_end_where_the_sentence_goes_on() {
        let text = "See https://example.org/a_b?c=d#e, (http://example.org/x_(y)), https:// and xhttp://no.example. http https://ä.example/ü!";
        let found: Vec<&str> = addresses(text).collect();
        assert_eq!(
            found,
            ["https://example.org/a_b?c=d#e", "http://example.org/x_(y)", "https://ä.example/ü"]
        );
    }
}
