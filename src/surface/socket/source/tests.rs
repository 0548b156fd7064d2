use serde_json::json;

use super::*;
use crate::socket::Hello;

fn said(value: serde_json::Value) -> Option<Said> {
    serde_json::from_value(value).ok()
}

#[test]
fn a_producer_has_the_words_of_its_part_and_no_others() {
    assert_eq!(said(json!("alive")), Some(Said::Alive));
    assert_eq!(said(json!({ "documents": null })), Some(Said::Documents(None)));
    let standing = json!({ "standing": { "documents": 1, "looks": 2, "incidents": 0 } });
    assert!(matches!(said(standing), Some(Said::Standing(Standing { documents: 1, .. }))));
    for stranger in [
        json!({ "operate": "reload" }),
        json!({ "operate": { "stop": null } }),
        json!({ "ask": "inbox" }),
        json!({ "submit": { "payload": {} } }),
        json!({ "commit": { "appends": [] } }),
        json!({ "documents": null, "offer": null }),
        json!({ "documents": "evt_x" }),
        json!({ "standing": { "documents": 1, "looks": 2, "incidents": 0, "note": "well" } }),
        json!({ "incident": { "code": "x", "detail": "", "over": false, "look": 1, "subject": "log" } }),
        json!({ "looked": { "number": 1, "whole": true, "source": "filesystem:mail" } }),
        json!({ "offer": { "source": "filesystem:notes", "privacy": "secret", "changes": [] } }),
    ] {
        assert_eq!(said(stranger.clone()), None, "{stranger}");
    }
}

#[test]
fn an_operators_greeting_is_no_producers() {
    let greeting = serde_json::to_string(&Hello::ours()).unwrap();
    assert!(serde_json::from_str::<Producing>(&greeting).is_err());
}

#[test]
fn a_producers_greeting_names_what_it_was_told() {
    let text = "sources:\n  - filesystem: notes\n    root: /notes\n    producerOnly: true\n";
    let config = crate::config::parse("config.yaml", text.as_bytes(), None).unwrap();
    let told = Producing::of(&config.folders[0]);
    let value = serde_json::to_value(&told).unwrap();
    assert_eq!((&value["source"], &value["root"]), (&json!("filesystem:notes"), &json!("/notes")));
    assert_eq!(value["privacy"], "private");
    let mut more = value.clone();
    more["credential"] = "x".into();
    assert!(serde_json::from_value::<Producing>(more).is_err());
    assert_eq!(serde_json::from_value::<Producing>(value).unwrap(), told);
}
