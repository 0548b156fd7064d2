//! The nearest valid spelling of a misspelt word.

/// Returns the candidate nearest to `word`, if one is near enough to be what was meant.
///
/// Near enough is one edit for each three letters, at least one: `enabeld` finds `enabled`, `foo` finds nothing.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// Words beyond this length are not compared: the distance costs the product of both lengths.
    const COMPARED_BYTES_MAX: usize = 256;
    if word.len() > COMPARED_BYTES_MAX {
        return None;
    }
    let folded = word.to_lowercase();
    let reach = (folded.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= COMPARED_BYTES_MAX)
        .map(|candidate| (strsim::osa_distance(&folded, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= reach)
        .min_by_key(|(distance, candidate)| (*distance, *candidate))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_word_finds_the_valid_one() {
        let keys = ["enabled", "externalActions", "tools", "emit"];
        assert_eq!(nearest("enabeld", keys), Some("enabled"));
        assert_eq!(nearest("externalAction", keys), Some("externalActions"));
        assert_eq!(nearest("external_actions", keys), Some("externalActions"));
        assert_eq!(nearest("emits", keys), Some("emit"));
        assert_eq!(nearest("wibble", keys), None);
        assert_eq!(nearest(&"e".repeat(100_000), keys), None);
    }
}
