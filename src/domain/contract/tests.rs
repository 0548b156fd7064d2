use proptest::prelude::*;
use serde_json::json;

use super::*;

const GOOD: &str = r#"{"summary":"The bed is dry","tags":["garden"],"importance":"high","confidence":0.75}"#;

fn verdict(mode: Mode, parts: &[FinalPart], stop: Stop) -> Result<Accepted, Box<Rejection>> {
    judge(&Contract::observation(), mode, parts, stop)
}

fn strict(text: impl Into<Vec<u8>>) -> Result<Accepted, Box<Rejection>> {
    verdict(Mode::StrictJson, &[FinalPart::text(text)], Stop::End)
}

fn talk(text: &str) -> Result<Accepted, Box<Rejection>> {
    verdict(Mode::ConversationText, &[FinalPart::text(text)], Stop::End)
}

/// Shows a verdict as `class: code path, …`.
fn shown(verdict: Result<Accepted, Box<Rejection>>) -> String {
    match verdict {
        Ok(accepted) => {
            format!("accepted {}", String::from_utf8(accepted.canonical.into_inner().into()).unwrap())
        }
        Err(rejection) => {
            let issues = rejection.issues.iter().map(|i| {
                format!(" {}{}{}", i.code.as_str(), if i.path.is_empty() { "" } else { " " }, i.path)
            });
            format!(
                "{}:{}",
                rejection.code().trim_start_matches("output."),
                issues.collect::<Vec<_>>().join(",")
            )
        }
    }
}

/// The observation with one member replaced, or taken out.
fn with(name: &str, value: Value) -> String {
    let mut whole: Value = serde_json::from_str(GOOD).unwrap();
    if value.is_null() {
        whole.as_object_mut().unwrap().remove(name);
    } else {
        whole[name] = value;
    }
    whole.to_string()
}

#[test]
fn the_whole_text_is_the_value() {
    assert_eq!(
        shown(strict(GOOD)),
        r#"accepted {"confidence":0.75,"importance":"high","summary":"The bed is dry","tags":["garden"]}"#
    );
    // Blanks around a value are part of JSON.
    assert_eq!(shown(strict(format!("\n  {GOOD}\r\n\t"))), shown(strict(GOOD)));
    let accepted = strict(GOOD).unwrap();
    assert_eq!(accepted.sha256, Sha256Hash::of(accepted.canonical.reveal()));
    assert_eq!((accepted.contract, accepted.contract_hash), {
        let contract = Contract::observation();
        (contract.kind().clone(), *contract.hash())
    });
}

#[test]
fn what_is_not_one_value_is_refused_by_kind() {
    for (text, said) in [
        (format!("```json\n{GOOD}\n```"), "json: fenced"),
        (format!("~~~\n{GOOD}\n~~~"), "json: fenced"),
        (format!("Here you are:\n```json\n{GOOD}\n```"), "json: prose-before"),
        (format!("the answer is {GOOD}"), "json: prose-before"),
        (format!("<think>it is dry</think>{GOOD}"), "json: thinking-tag"),
        (format!(" <Thinking>\n{GOOD}"), "json: thinking-tag"),
        (format!("{GOOD}{GOOD}"), "json: several-values"),
        (format!("{GOOD}\n{GOOD}"), "json: several-values"),
        (format!("{GOOD},{GOOD}"), "json: several-values"),
        (format!("{GOOD}\n{{\"summary\":"), "json: several-values"),
        (format!("{GOOD}\nI hope this helps."), "json: trailing-text"),
        (format!("{GOOD}\n```"), "json: trailing-text"),
        (format!("{GOOD}\u{a0}"), "json: not-json"),
        (GOOD[..GOOD.len() - 1].to_owned(), "json: cut-off"),
        (GOOD[..20].to_owned(), "json: cut-off"),
        ("The bed is dry.".to_owned(), "json: not-json"),
        (String::new(), "json: empty"),
        (" \n".to_owned(), "json: empty"),
        (format!("\u{feff}{GOOD}"), "json: prose-before"),
        (GOOD.replace('"', "'"), "json: not-json"),
        (GOOD.replace(":0.75", ":0.75,"), "json: not-json"),
        (GOOD.replace("0.75", "NaN"), "json: not-json"),
        (GOOD.replace("0.75", "00.75"), "json: invalid-number"),
        (GOOD.replace("0.75", "0.7.5"), "json: not-json"),
        (GOOD.replace("0.75", "1e999"), "json: invalid-number"),
        (GOOD.replace("The bed", "\\ud800"), "json: not-json"),
        (GOOD.replace("\"tags\"", "\"summary\":\"x\",\"tags\""), "json: duplicate-key"),
        (format!("{}1{}", "[".repeat(65), "]".repeat(65)), "json: too-deep"),
        ("[".repeat(60_000), "json: too-deep"),
        (" ".repeat(JSON_BYTES_MAX + 1), "json: too-large"),
    ] {
        assert_eq!(shown(strict(text.clone())), said, "{text:.80}");
    }
    assert_eq!(shown(strict(*b"{\"summary\":\"\xff\"}")), "json: not-utf-8");
}

#[test]
fn what_does_not_fit_the_contract_is_refused_by_code_and_path() {
    for (text, said) in [
        (
            "{}".to_owned(),
            "contract: missing-field /summary, missing-field /tags, missing-field /importance, missing-field /confidence",
        ),
        ("null".to_owned(), "contract: wrong-type"),
        (format!("[{GOOD}]"), "contract: wrong-type"),
        (format!("\"{}\"", "x"), "contract: wrong-type"),
        (with("summary", json!("")), "contract: empty /summary"),
        (with("summary", json!(" \n")), "contract: empty /summary"),
        (with("summary", json!(7)), "contract: wrong-type /summary"),
        (with("summary", json!("x".repeat(SUMMARY_CHARACTERS_MAX + 1))), "contract: too-long /summary"),
        (with("tags", json!("garden")), "contract: wrong-type /tags"),
        (with("tags", json!(["a", 1, ""])), "contract: wrong-type /tags/1, empty /tags/2"),
        (with("tags", json!(vec!["a"; TAGS_MAX + 1])), "contract: too-many /tags"),
        (with("tags", json!(["😀".repeat(TAG_CHARACTERS_MAX / 2 + 1)])), "contract: too-long /tags/0"),
        (with("importance", json!("urgent")), "contract: not-allowed /importance"),
        (with("importance", json!("High")), "contract: not-allowed /importance"),
        (with("importance", json!(1)), "contract: wrong-type /importance"),
        (with("confidence", json!(1.000_001)), "contract: out-of-range /confidence"),
        (with("confidence", json!(-0.1)), "contract: out-of-range /confidence"),
        (with("confidence", json!(1_000_000_000_000_000_u64)), "contract: out-of-range /confidence"),
        (with("confidence", json!("0.5")), "contract: wrong-type /confidence"),
        (with("reasoning", json!("because")), "contract: unknown-field"),
        (
            with("recommendation", json!({})),
            "contract: missing-field /recommendation/target, missing-field /recommendation/reason, missing-field /recommendation/proposedAction",
        ),
        (with("recommendation", json!("call")), "contract: wrong-type /recommendation"),
        (GOOD.replace('}', ",\"recommendation\":null}"), "contract: wrong-type /recommendation"),
        (
            with(
                "recommendation",
                json!({ "target": "a", "reason": "b", "proposedAction": "c", "url": "d" }),
            ),
            "contract: unknown-field /recommendation",
        ),
    ] {
        assert_eq!(shown(strict(text.clone())), said, "{text:.80}");
    }
}

#[test]
fn the_bounds_themselves_are_allowed() {
    for text in [
        with("summary", json!("x".repeat(SUMMARY_CHARACTERS_MAX))),
        with("summary", json!("😀".repeat(SUMMARY_CHARACTERS_MAX / 2))),
        with("tags", json!([])),
        with("tags", json!(vec!["t".repeat(TAG_CHARACTERS_MAX); TAGS_MAX])),
        with("confidence", json!(0)),
        with("confidence", json!(1)),
        GOOD.replace("0.75", "-0.0"),
        with(
            "recommendation",
            json!({ "target": "garden", "reason": "it is dry", "proposedAction": "water" }),
        ),
    ] {
        let accepted = strict(text.clone()).unwrap_or_else(|refused| panic!("{refused:?} of {text:.80}"));
        assert!(!String::from_utf8_lossy(accepted.canonical.reveal()).contains("-0"));
    }
}

#[test]
fn the_message_is_one_text_and_nothing_but_thinking_beside_it() {
    let text = || FinalPart::text(GOOD);
    for (parts, said) in [
        (vec![], "parts: no-text"),
        (vec![FinalPart::Thinking], "parts: no-text"),
        (vec![text(), text()], "parts: several-texts"),
        (vec![FinalPart::text(""), text()], "parts: several-texts"),
        (vec![text(), FinalPart::ToolCall], "parts: tool-call"),
        (vec![FinalPart::ToolCall], "parts: tool-call"),
        (vec![text(), FinalPart::Other], "parts: other-part"),
    ] {
        for mode in Mode::ALL {
            assert_eq!(shown(verdict(mode, &parts, Stop::End)), said);
        }
    }
    let thought = verdict(Mode::StrictJson, &[FinalPart::Thinking, text()], Stop::End).unwrap();
    assert_eq!((thought.counts.texts, thought.counts.thinking), (1, 1));
}

#[test]
fn a_message_that_was_cut_off_is_refused_even_if_it_is_whole() {
    for mode in Mode::ALL {
        let parts = [FinalPart::text(GOOD)];
        assert_eq!(shown(verdict(mode, &parts, Stop::Length)), "stop: truncated");
        assert_eq!(shown(verdict(mode, &parts, Stop::Other)), "stop: stopped");
    }
}

#[test]
fn a_reply_is_taken_as_it_is() {
    assert_eq!(
        shown(talk("  Water it *today*.\n")),
        r#"accepted {"confidence":0.5,"importance":"normal","summary":"  Water it *today*.\n","tags":["conversation"]}"#
    );
    // Fences and JSON in a reply are what the person gets: nothing is stripped or parsed.
    let fenced = format!("```json\n{GOOD}\n```");
    assert_eq!(talk(&fenced).unwrap().value.summary(), fenced);
    assert_eq!(talk(GOOD).unwrap().value.summary(), GOOD);
}

#[test]
fn a_reply_has_at_most_4096_characters_counted_in_utf_16() {
    for (text, said) in [
        ("x".repeat(4_096), None),
        ("😀".repeat(2_048), None),
        ("é".repeat(4_096), None),
        ("x".repeat(4_097), Some("text: too-long")),
        ("😀".repeat(2_049), Some("text: too-long")),
        ("😀".repeat(4_096), Some("text: too-long")),
        (String::new(), Some("text: empty")),
        (" \n\u{2003}".to_owned(), Some("text: empty")),
        ("<think>hm</think>Yes.".to_owned(), Some("text: thinking-tag")),
    ] {
        match said {
            Some(said) => assert_eq!(shown(talk(&text)), said),
            None => assert_eq!(talk(&text).unwrap().value.summary(), text),
        }
    }
    let bytes = [FinalPart::text(*b"caf\xe9")];
    assert_eq!(shown(verdict(Mode::ConversationText, &bytes, Stop::End)), "text: not-utf-8");
}

#[test]
fn a_rejection_counts_past_its_bound_and_names_no_field_of_the_model() {
    let mut whole: Value = serde_json::from_str(GOOD).unwrap();
    for number in 0..40 {
        whole[format!("hunter{number}")] = json!(1);
    }
    let rejection = strict(whole.to_string()).unwrap_err();
    assert_eq!((rejection.issues.len(), rejection.issue_count), (ISSUES_MAX, 40));
    for text in [format!("{rejection:?}"), serde_json::to_string(&rejection).unwrap()] {
        assert!(!text.contains("hunter"), "{text}");
    }
}

#[test]
fn form_can_be_repaired_and_reaching_for_more_cannot() {
    let refused = |parts: &[FinalPart], stop| verdict(Mode::StrictJson, parts, stop).unwrap_err();
    assert!(refused(&[FinalPart::text("{")], Stop::End).is_repairable());
    assert!(refused(&[FinalPart::text(GOOD)], Stop::Length).is_repairable());
    assert!(!refused(&[FinalPart::text(GOOD)], Stop::Other).is_repairable());
    assert!(!refused(&[FinalPart::ToolCall], Stop::End).is_repairable());
}

#[test]
fn a_correction_replaces_the_display_field_alone() {
    let contract = Contract::observation();
    let value = contract.check(&serde_json::from_str(GOOD).unwrap()).unwrap();
    let corrected = contract.with_display(&value, "The bed is wet").unwrap();
    let expected = GOOD.replace("dry", "wet");
    assert_eq!(corrected, contract.check(&serde_json::from_str(&expected).unwrap()).unwrap());
    let refused = contract.with_display(&value, " ").unwrap_err();
    assert_eq!(refused.to_string(), "/summary: nothing is said where something must be");
}

#[test]
fn an_answer_is_judged_as_the_provider_gave_it() {
    use crate::provider::{Answer, AnswerPart, StopReason, Usage};
    let text = || AnswerPart::Text(Content::new(GOOD.to_owned()));
    let thinking = || AnswerPart::Thinking { bytes: 3, sha256: Sha256Hash::of(b"hm?") };
    let call = || AnswerPart::ToolCall {
        id: "call_1".into(),
        name: "search".into(),
        arguments: Content::new("{}".into()),
    };
    for (parts, stop, said) in [
        (vec![thinking(), text()], StopReason::Stop, "accepted"),
        (vec![text()], StopReason::Length, "stop: truncated"),
        (vec![text()], StopReason::ContentFilter, "stop: stopped"),
        (vec![text()], StopReason::Refusal, "stop: stopped"),
        (vec![text(), call()], StopReason::ToolCalls, "parts: tool-call"),
        (vec![], StopReason::Stop, "parts: no-text"),
    ] {
        let answer = Answer { parts, stop, usage: Usage::default(), model: "small-1".into() };
        let verdict = judge_answer(&Contract::observation(), Mode::StrictJson, &answer);
        assert!(shown(verdict).starts_with(said), "{said}");
    }
}

#[test]
fn every_issue_has_one_spelling_and_words_of_its_own() {
    let mut words = std::collections::BTreeSet::new();
    for code in IssueCode::ALL {
        assert_eq!(serde_json::to_value(code).unwrap(), json!(code.as_str()));
        assert!(words.insert(code.words()), "{}", code.as_str());
    }
}

#[test]
fn contracts_are_found_by_name_and_by_definition() {
    let contract = Contract::resolve("stream.thought.output.observation").unwrap();
    assert_eq!(contract, Contract::resolve("stream.thought.output.observation@1").unwrap());
    assert_eq!(Contract::exactly(contract.kind(), contract.hash()), Some(contract.clone()));
    assert_eq!(Contract::exactly(contract.kind(), &Sha256Hash::of(b"")), None);
    let refused = Contract::resolve("stream.thought.output.observation@2\u{1b}").unwrap_err().to_string();
    assert!(refused.contains("@1") && !refused.contains('\u{1b}'), "{refused}");
}

#[test]
fn the_definition_hash_never_changes_silently() {
    // Events in logs name it: another value is another contract, and needs another version.
    assert_eq!(
        Contract::observation().hash().to_string(),
        "f5409dd4f16c7c76528d287b61350970a7454ca3d1d2b855a8280146d068477d"
    );
}

/// The published schema, for people and for providers that take one.
const SCHEMA: &str = include_str!("../../../schemas/output-observation.schema.json");

#[test]
fn the_published_schema_is_made_from_the_type() {
    let expected = serde_json::to_string_pretty(Contract::observation().schema()).unwrap() + "\n";
    assert!(SCHEMA == expected, "write this to schemas/output-observation.schema.json:\n{expected}");
}

/// Values near the contract: the right one with members taken out, replaced and added.
fn near() -> impl Strategy<Value = Value> {
    let odd = prop_oneof![
        Just(json!(null)),
        Just(json!("")),
        Just(json!("x")),
        Just(json!(0.5)),
        Just(json!(2)),
        Just(json!([])),
        Just(json!(["a", "b"])),
        Just(json!({})),
        Just(json!("low")),
        Just(json!({"target":"a","reason":"b","proposedAction":"c"})),
        "\\PC{0,70}".prop_map(Value::from),
    ];
    let names =
        prop::sample::select(vec!["summary", "tags", "importance", "confidence", "recommendation", "more"]);
    prop::collection::vec((names, odd, any::<bool>()), 0..3).prop_map(|changes| {
        let mut whole: Value = serde_json::from_str(GOOD).unwrap();
        for (name, value, removed) in changes {
            if removed {
                whole.as_object_mut().unwrap().remove(name);
            } else {
                whole[name] = value;
            }
        }
        whole
    })
}

proptest! {
    #[test]
    fn the_schema_admits_whatever_the_contract_accepts(value in near()) {
        let contract = Contract::observation();
        let validator = jsonschema::validator_for(contract.schema()).unwrap();
        if contract.check(&value).is_ok() {
            prop_assert!(validator.is_valid(&value));
        } else if validator.is_valid(&value) {
            // Two rules that JSON Schema cannot say: UTF-16 length, and that blanks say nothing.
            let issues = contract.check(&value).unwrap_err();
            prop_assert!(issues.into_list().iter().all(|i| matches!(i.code, IssueCode::Empty | IssueCode::TooLong)));
        }
    }

    #[test]
    fn any_bytes_get_a_verdict_that_tells_nothing(bytes in prop::collection::vec(any::<u8>(), 0..400), mode in 0..2_usize) {
        let secret = b"zq7Secret";
        let mut text = bytes;
        text.extend_from_slice(secret);
        let verdict = judge(&Contract::observation(), Mode::ALL[mode], &[FinalPart::text(text)], Stop::End);
        let shown = format!("{verdict:?}");
        prop_assert!(!shown.contains("zq7Secret"));
        if let Err(rejection) = verdict {
            prop_assert!(!serde_json::to_string(&rejection).unwrap().contains("zq7Secret"));
            prop_assert!(rejection.issue_count >= 1);
        }
    }

    #[test]
    fn anything_around_a_good_value_is_refused(before in "\\PC{0,12}", after in "\\PC{0,12}") {
        let blank = |text: &str| text.chars().all(|c| matches!(c, ' ' | '\t' | '\r' | '\n'));
        let verdict = strict(format!("{before}{GOOD}{after}"));
        prop_assert_eq!(verdict.is_ok(), blank(&before) && blank(&after));
    }
}
