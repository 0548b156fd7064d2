//! Arguments are read whole or refused, by a code and a place of our own words.

use proptest::prelude::*;

use super::*;
use crate::proposal::call::{ARGUMENTS_BYTES_MAX, Target};

/// Replaces one member.
fn with(mut arguments: Value, pointer: &str, value: Value) -> Value {
    *arguments.pointer_mut(pointer).unwrap() = value;
    arguments
}

fn code(kind: Kind, arguments: &Value) -> CallCode {
    wrong(kind, arguments).0
}

#[test]
fn every_tool_is_read_and_written_again_as_the_same() {
    for kind in Kind::ALL {
        let call = Call::read(kind, &arguments(kind)).unwrap();
        assert_eq!(call.kind(), kind);
        assert_eq!(call.arguments(), arguments(kind));
        let text = serde_json::to_string(&call).unwrap();
        assert_eq!(serde_json::from_str::<Call>(&text).unwrap(), call);
    }
}

#[test]
fn three_calls_of_three_kinds_are_read_in_any_order() {
    let texts: Vec<(&str, String)> =
        Kind::ALL.into_iter().rev().map(|kind| (kind.tool(), arguments(kind).to_string())).collect();
    let called = texts.iter().map(|(tool, text)| (*tool, text.as_str()));
    let calls = Calls::of(called, &capability().for_worker()).unwrap();
    assert_eq!(calls.kinds(), Kind::ALL.into());
    let again: Calls = serde_json::from_str(&serde_json::to_string(&calls).unwrap()).unwrap();
    assert_eq!(again, calls);
    assert_eq!(calls.check(&capability().for_worker()), Ok(()));
}

#[test]
fn more_than_three_calls_one_kind_twice_and_unknown_tools_refuse_all() {
    let admitted = capability().for_worker();
    let (memory, correction, focus) = (memory().to_string(), correction().to_string(), focus().to_string());
    let good = [
        ("request_memory_change", memory.as_str()),
        ("submit_correction", &correction),
        ("propose_focus", &focus),
    ];
    let of = |called: &[(&str, &str)]| {
        let error = Calls::of(called.iter().copied(), &admitted).unwrap_err();
        (error.index, error.misfit.code)
    };
    assert_eq!(of(&[good[0], good[1], good[2], good[0]]), (3, CallCode::TooManyCalls));
    assert_eq!(of(&[good[0], good[1], good[0]]), (2, CallCode::SameKindTwice));
    assert_eq!(of(&[good[0], ("write_file", "{}")]), (1, CallCode::UnknownTool));
    assert_eq!(of(&[good[0], ("memory-change", &memory)]), (1, CallCode::UnknownTool));
    let twice = serde_json::to_string(&vec![Call::read(Kind::MemoryChange, &super::memory()).unwrap(); 2]);
    assert!(serde_json::from_str::<Calls>(&twice.unwrap()).is_err());
}

#[test]
fn a_tool_that_is_not_offered_is_not_read() {
    let without = |change: fn(&mut ProposalCapability)| {
        let mut capability = capability();
        change(&mut capability);
        capability.for_worker()
    };
    for (kind, admitted) in [
        (Kind::MemoryChange, without(|admitted| admitted.memory = None)),
        (Kind::SelfCorrection, without(|admitted| admitted.correction_targets.clear())),
        (
            Kind::FocusDeclaration,
            without(|admitted| admitted.kinds.retain(|kind| *kind != Kind::FocusDeclaration)),
        ),
    ] {
        assert!(!admitted.kinds.contains(&kind));
        let text = arguments(kind).to_string();
        let error = Calls::of([(kind.tool(), text.as_str())], &admitted).unwrap_err();
        assert_eq!(error.misfit.code, CallCode::NotOffered);
        let call = Call::read(kind, &arguments(kind)).unwrap();
        assert_eq!(call.check(&admitted).unwrap_err().code, CallCode::NotOffered);
    }
}

#[test]
fn text_that_is_not_one_object_is_refused() {
    let admitted = capability().for_worker();
    let of = |text: &str| Calls::of([(Kind::MemoryChange.tool(), text)], &admitted).unwrap_err().misfit.code;
    let twice = r#"{"operation":"append","operation":"append"}"#;
    assert_eq!(of(twice), CallCode::DuplicateMember);
    assert_eq!(of(""), CallCode::NotJson);
    assert_eq!(of("```json\n{}\n```"), CallCode::NotJson);
    assert_eq!(of(&format!("{} {}", memory(), memory())), CallCode::NotJson);
    assert_eq!(of("[]"), CallCode::WrongType);
    assert_eq!(of("null"), CallCode::WrongType);
    assert_eq!(of(&format!("{}{}", " ".repeat(ARGUMENTS_BYTES_MAX), memory())), CallCode::TooLarge);
}

#[test]
fn members_that_are_missing_unknown_or_of_another_type_are_refused() {
    for kind in Kind::ALL {
        let good = arguments(kind);
        for name in good.as_object().unwrap().keys() {
            let mut bad = good.clone();
            bad.as_object_mut().unwrap().remove(name);
            assert_eq!(wrong(kind, &bad), (CallCode::MissingMember, format!("/{name}")));
            bad[name] = Value::Null;
            assert_eq!(code(kind, &bad), CallCode::WrongType, "{kind} {name}");
        }
        let mut bad = good;
        bad["path"] = "/etc/passwd".into();
        assert_eq!(wrong(kind, &bad), (CallCode::UnknownMember, String::new()));
    }
}

#[test]
fn nothing_that_selects_a_path_a_version_or_a_destination_is_a_member() {
    let names = ["path", "source", "document", "document_id", "version", "sha256", "root", "destination"];
    for kind in [Kind::MemoryChange, Kind::SelfCorrection] {
        for name in names {
            let mut bad = arguments(kind);
            bad[name] = "memory.md".into();
            assert_eq!(code(kind, &bad), CallCode::UnknownMember, "{name}");
        }
    }
}

#[test]
fn texts_are_bounded_in_utf_16_units() {
    let long = |units: usize| Value::from("😀".repeat(units / 2) + &"a".repeat(units % 2));
    for (kind, at, most) in [
        (Kind::MemoryChange, "/proposed_text", 32_768),
        (Kind::MemoryChange, "/reason", 1_000),
        (Kind::SelfCorrection, "/replacement", 4_096),
        (Kind::SelfCorrection, "/reason", 1_000),
        (Kind::FocusDeclaration, "/declaration/objective", 1_000),
        (Kind::FocusDeclaration, "/declaration/scope/includes/0", 200),
    ] {
        assert!(read(kind, &with(arguments(kind), at, long(most))).is_ok(), "{at}");
        let bad = with(arguments(kind), at, long(most + 1));
        assert_eq!(wrong(kind, &bad), (CallCode::TooLong, at.to_owned()));
        let bad = with(arguments(kind), at, "".into());
        assert_eq!(wrong(kind, &bad), (CallCode::Blank, at.to_owned()));
        // What the tool's schema admits is admitted.
        for text in [" \n", "\u{1b}[2J\0"] {
            assert!(read(kind, &with(arguments(kind), at, text.into())).is_ok(), "{at} {text:?}");
        }
    }
}

#[test]
fn the_longest_text_fits_however_it_is_escaped() {
    let escaped = "\\u00e9".repeat(32_768);
    let text = memory().to_string().replace("Lives in Lisbon.", &escaped);
    assert!(Call::parse(Kind::MemoryChange, &text).is_ok());
}

#[test]
fn evidence_is_a_short_list_of_different_admitted_events() {
    for (kind, at) in [
        (Kind::MemoryChange, "/evidence_event_ids"),
        (Kind::SelfCorrection, "/evidence_event_ids"),
        (Kind::FocusDeclaration, "/declaration/lineage/evidence"),
    ] {
        let of = |ids: Value| read(kind, &with(arguments(kind), at, ids)).map_err(|e| e.misfit);
        let refused = |ids: Value| of(ids).map_err(|misfit| (misfit.code, misfit.at)).unwrap_err();
        assert!(of(json!([])).is_ok() && of(json!([event(10), event(22)])).is_ok());
        assert_eq!(refused(json!([event(10), event(10)])), (CallCode::Repeated, format!("{at}/1")));
        assert_eq!(refused(json!([event(10), event(99)])), (CallCode::NotAdmitted, format!("{at}/1")));
        for bad in ["latest", "evt_", "memory.md", ""] {
            assert_eq!(refused(json!([bad])), (CallCode::NotAnId, format!("{at}/0")));
        }
        assert_eq!(refused(json!([7])), (CallCode::WrongType, format!("{at}/0")));
        let many: Vec<EventId> = (0..=16).map(event).collect();
        assert_eq!(refused(json!(many)), (CallCode::TooMany, at.to_owned()));
    }
}

#[test]
fn a_correction_is_for_an_admitted_output_and_for_no_other_id() {
    let of = |target: Value| {
        let bad = with(correction(), "/target_output", target);
        read(Kind::SelfCorrection, &bad).map_err(|error| error.misfit.code)
    };
    assert!(of(json!(event(20))).is_ok());
    // A receipt and a message may be cited, and are no output.
    for stray in [event(21), event(22), event(99)] {
        assert_eq!(of(json!(stray)), Err(CallCode::NotAdmitted));
    }
    for bad in ["Latest", "latest ", "newest", ""] {
        assert_eq!(of(bad.into()), Err(CallCode::NotAnId));
    }
}

#[test]
fn an_operation_is_one_of_two() {
    for bad in ["delete", "Append", "replace_document", "write"] {
        let bad = with(memory(), "/operation", bad.into());
        assert_eq!(wrong(Kind::MemoryChange, &bad), (CallCode::NotAllowed, "/operation".to_owned()));
    }
}

#[test]
fn what_is_refused_and_what_is_printed_says_nothing_of_the_text() {
    let bad = with(memory(), "/operation", "hunter2".into());
    let error = read(Kind::MemoryChange, &bad).unwrap_err();
    assert!(!format!("{error:?} {error}").contains("hunter2"));
    let mut bad = memory();
    bad["hunter2"] = 1.into();
    let error = read(Kind::MemoryChange, &bad).unwrap_err();
    assert!(!format!("{error:?} {error}").contains("hunter2"));
    for kind in Kind::ALL {
        let text = arguments(kind).to_string().replace("Lisbon", "hunter2").replace("five", "hunter2");
        let call = Call::parse(kind, &text).unwrap();
        assert!(!format!("{call:?}").contains("hunter2"));
    }
}

#[test]
fn every_code_is_a_short_word_of_its_own() {
    let words: BTreeSet<&str> = CallCode::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(words.len(), CallCode::ALL.len());
    for code in CallCode::ALL {
        assert!(crate::cell::Code::parse(code.as_str()).is_ok());
        assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
    }
}

/// Any JSON value that could stand in arguments.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        Just(json!(event(12))),
        Just(json!(event(77))),
        Just("latest".into()),
        Just("append".into()),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-z_]{1,10}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Every place in a value, as a pointer.
fn places(value: &Value, at: String, out: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(name, inner)| places(inner, format!("{at}/{name}"), out));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, inner)| places(inner, format!("{at}/{index}"), out));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    out.push(at);
}

proptest! {
    #[test]
    fn no_text_breaks_the_reader(kind in 0_usize..3, text in ".{0,200}") {
        let refused = Call::parse(Kind::ALL[kind], &text);
        prop_assert!(refused.is_err());
    }

    #[test]
    fn whatever_stands_in_one_place_is_read_whole_or_refused_at_a_place_of_ours(
        kind in 0_usize..3, place in any::<prop::sample::Index>(), value in any_value(),
    ) {
        let kind = Kind::ALL[kind];
        let mut all = Vec::new();
        places(&arguments(kind), String::new(), &mut all);
        let changed = with(arguments(kind), &all[place.index(all.len())], value);
        match Call::parse(kind, &changed.to_string()) {
            // What is read is written again as it was, and only admitted ids pass the check.
            Ok(call) => {
                prop_assert_eq!(call.arguments(), changed);
                let admitted = capability();
                let mut strays = call.evidence().iter().filter(|id| !admitted.evidence.contains(id));
                prop_assert_eq!(call.check(&admitted.for_worker()).is_ok(), strays.next().is_none() && match &call {
                    Call::Correction(call) => match call.target {
                        Target::Latest => true,
                        Target::Output(id) => admitted.correction_targets.iter().any(|target| target.output == id),
                    },
                    Call::Memory(_) | Call::Focus(_) => true,
                });
            }
            Err(misfit) => {
                let own = misfit.at.split('/').skip(1).all(|name| {
                    name.parse::<usize>().is_ok() || all.iter().any(|at| at.ends_with(name))
                        || ["supersedes", "when"].contains(&name)
                });
                prop_assert!(own && misfit.at.len() <= 55, "{}", misfit.at);
            }
        }
    }
}
