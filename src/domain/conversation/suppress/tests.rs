use super::*;
use crate::content::Content;
use crate::conversation::correction::Correction;
use crate::conversation::tests_fixture as fixture;
use crate::privacy::Privacy;

fn id(n: u8) -> EventId {
    EventId::from_bytes([n; 32])
}

fn turn(n: u8, delivered: &str, replacement: Option<&str>) -> AssistantTurn {
    let correction = replacement.map(|text| Correction {
        projection: format!("p{n}"),
        judgment: id(100 + n),
        replacement: Content::new(text.to_owned()),
    });
    AssistantTurn {
        id: id(n),
        root: id(150 + n % 50),
        completion: fixture::reply(usize::from(n), delivered).completion.unwrap(),
        completions: 1,
        bot: fixture::bot(),
        contract: fixture::contract(),
        snapshot: fixture::snapshot(usize::from(n)),
        receipt: id(200 + n % 50),
        delivered: Content::new(delivered.to_owned()),
        correction,
        unfit: None,
        privacy: Privacy::Private,
    }
}

fn authority(turns: &[AssistantTurn]) -> Authority {
    Authority::of(&turns.iter().collect::<Vec<_>>())
}

/// Applies what `turns` give authority over to a text.
fn shown(turns: &[AssistantTurn], text: &str) -> String {
    authority(turns).apply(text).map_or_else(|| text.to_owned(), |(text, _)| text)
}

#[test]
fn a_ritual_word_goes_with_its_short_sentences_and_its_mentions() {
    let turns = [
        turn(1, "Slow. The train leaves at nine.", Some("The train leaves at nine.")),
        turn(2, "Slow again if you want.", None),
    ];
    assert_eq!(shown(&turns, "Slow again if you want."), "");
    assert_eq!(shown(&turns, "You asked why I said \"Slow\" so often."), "You asked why I said so often.");
    assert_eq!(shown(&turns, "SLOW. Then it rained."), "Then it rained.");
    // A longer sentence that begins with it is prose: the mention goes, the sentence stays.
    let long = "Slow trains are what most people here would rather take.";
    assert_eq!(shown(&turns, long), "trains are what most people here would rather take.");
    assert_eq!(
        shown(&turns, "It gets slower, slow-moving and slowly."),
        "It gets slower, slow-moving and slowly."
    );
}

#[test]
fn a_fragment_of_several_words_goes_only_where_it_stands_whole() {
    let turns = [
        turn(1, "Let me sit with that. Four.", Some("Four.")),
        turn(2, "let me SIT with that! It is Tuesday.", None),
    ];
    assert_eq!(shown(&turns, "let me SIT with that! It is Tuesday."), "It is Tuesday.");
    let inside = "Let me sit with that chair over there.";
    assert_eq!(shown(&turns, inside), inside);
}

#[test]
fn nothing_is_suppressed_that_does_not_recur_in_another_reply() {
    let corrected = turn(1, "Noted. Noted. Four.", Some("Four."));
    assert!(authority(std::slice::from_ref(&corrected)).is_empty());
    assert!(
        authority(&[corrected.clone(), turn(2, "I noted it in the long list that we keep.", None)])
            .is_empty()
    );
    assert!(!authority(&[corrected, turn(2, "Noted.", None)]).is_empty());
}

#[test]
fn only_fragments_of_at_most_six_words_are_taken_out() {
    let six = "one two three four five six.";
    let seven = "one two three four five six seven.";
    for (fragment, is_taken) in [(six, true), (seven, false)] {
        let turns = [turn(1, &format!("{fragment} Yes."), Some("Yes.")), turn(2, fragment, None)];
        assert_eq!(!authority(&turns).is_empty(), is_taken, "{fragment}");
    }
}

#[test]
fn what_the_replacement_still_says_is_not_corrected_away() {
    let turns = [turn(1, "Sure. Four", Some("SURE! Five")), turn(2, "Sure.", None)];
    assert!(authority(&turns).is_empty());
}

#[test]
fn without_a_correction_that_counts_there_is_no_authority() {
    let turns = [turn(1, "Slow. Four.", None), turn(2, "Slow.", None), turn(3, "Slow.", None)];
    assert!(authority(&turns).is_empty());
}

#[test]
fn the_numbers_of_a_list_are_no_ritual() {
    let turns = [turn(1, "1. Milk\n2. Bread", Some("Milk\nBread")), turn(2, "1. Nuts\n2. Salt", None)];
    assert!(authority(&turns).is_empty());
}

#[test]
fn marks_and_white_space_around_what_goes_are_not_left_doubled() {
    let turns = [turn(1, "Hmm. Yes.", Some("Yes.")), turn(2, "Hmm.", None)];
    assert_eq!(shown(&turns, "Well, hmm, that one."), "Well, that one.");
    assert_eq!(
        shown(&turns, "Hmm, that one we had before it all began here."),
        "that one we had before it all began here."
    );
    assert_eq!(shown(&turns, "Yes (hmm) it is."), "Yes it is.");
}

#[test]
fn two_mentions_may_share_the_mark_between_them() {
    let turns = [turn(1, "Slow. The train leaves.", Some("The train leaves.")), turn(2, "Slow.", None)];
    let long = "They wrote it as one two three \"slow\"slow\" four five six.";
    assert_eq!(shown(&turns, long), "They wrote it as one two three four five six.");
    let comma = "They wrote it as one two three \"slow\"slow\", four five six.";
    assert_eq!(shown(&turns, comma), "They wrote it as one two three, four five six.");
}

#[test]
fn the_account_names_judgments_and_hashes_and_no_words() {
    let turns = [
        turn(1, "Slow. Four.", Some("Four.")),
        turn(2, "Slow. Let me see.", Some("Five.")),
        turn(3, "Let me see. Slow.", None),
    ];
    let authority = authority(&turns);
    assert_eq!(authority.judgments(), [id(101), id(102)]);
    let expected = ["let me see", "slow"].map(|words| Sha256Hash::of(words.as_bytes()));
    assert_eq!(authority.hashes(), expected);
    assert_eq!(authority.apply("Slow. Let me see. Done."), Some(("Done.".to_owned(), 2)));
    assert_eq!(authority.apply("Done."), None);
}

proptest::proptest! {
    #[test]
    fn a_text_without_the_fragment_is_never_touched(text in "[a-rt-z .!?\n\"é😀]{0,80}") {
        let turns = [turn(1, "Slow. Four.", Some("Four.")), turn(2, "Slow.", None)];
        proptest::prop_assert_eq!(authority(&turns).apply(&text), None);
    }

    #[test]
    fn sentences_are_the_text_cut_in_pieces(text in "[a-c .!?…\n\"'é😀)]{0,60}") {
        let pieces: String = sentences(&text).into_iter().map(|span| text[span].to_owned()).collect();
        proptest::prop_assert_eq!(pieces, text);
    }

    #[test]
    fn what_was_taken_out_is_gone(text in "(slow|Slow|yes|no|[ .,!?\"]){0,40}") {
        let turns = [turn(1, "Slow. Four.", Some("Four.")), turn(2, "Slow.", None)];
        let out = shown(&turns, &text);
        let words = word_spans(&out).into_iter().map(|span| out[span].to_lowercase());
        proptest::prop_assert!(words.into_iter().all(|word| word != "slow"), "{}", out);
    }
}
