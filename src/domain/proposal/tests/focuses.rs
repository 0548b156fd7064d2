//! A focus is one complete declaration; what it names is well formed and nothing more.

use super::*;
use crate::proposal::focus::FocusDeclaration;

fn declaration(change: impl Fn(&mut Value)) -> Value {
    let mut arguments = focus();
    change(&mut arguments["declaration"]);
    arguments
}

fn refused(change: impl Fn(&mut Value)) -> (CallCode, String) {
    let (code, at) = wrong(Kind::FocusDeclaration, &declaration(change));
    (code, at.trim_start_matches("/declaration").to_owned())
}

#[test]
fn a_version_behind_the_first_names_the_one_before_it() {
    let with = |version: u64, before: Option<&str>| {
        declaration(|focus| {
            focus["version"] = version.into();
            if let Some(before) = before {
                focus["lineage"]["supersedes"] = before.into();
            }
        })
    };
    assert!(read(Kind::FocusDeclaration, &with(2, Some("lisbon-move@1"))).is_ok());
    for (version, before) in
        [(1, Some("lisbon-move@1")), (2, None), (3, Some("lisbon-move@1")), (2, Some("another@1"))]
    {
        let (code, at) = wrong(Kind::FocusDeclaration, &with(version, before));
        assert_eq!(code, CallCode::Inconsistent, "{version} {before:?}");
        assert_eq!(at, "/declaration/lineage/supersedes");
    }
}

#[test]
fn every_member_is_there_and_none_besides() {
    for name in FocusDeclaration::MEMBERS {
        let missing = refused(|focus| drop(focus.as_object_mut().unwrap().remove(name)));
        assert_eq!(missing, (CallCode::MissingMember, format!("/{name}")));
    }
    for (place, name) in
        [("", "authority"), ("/budgets", "cost"), ("/retirement", "never"), ("/scope", "all")]
    {
        let stray = refused(|focus| focus.pointer_mut(place).unwrap()[name] = true.into());
        assert_eq!(stray, (CallCode::UnknownMember, place.to_owned()));
    }
}

#[test]
fn every_number_list_and_word_has_its_bounds() {
    let (out, few) = (CallCode::OutOfRange, CallCode::TooFew);
    for (at, bad, code) in [
        ("/version", json!(0), out),
        ("/version", json!(1.5), out),
        ("/version", json!(-1), out),
        ("/version", json!("1"), CallCode::WrongType),
        ("/id", json!("Lisbon Move"), CallCode::NotAnId),
        ("/scope/includes", json!([]), few),
        ("/scope/includes", json!(vec!["x"; 17]), CallCode::TooMany),
        ("/scope/excludes/0", json!(""), CallCode::Blank),
        ("/subscriptions", json!([]), few),
        ("/subscriptions/0/types", json!([]), few),
        ("/subscriptions/0/types/0", json!("*"), CallCode::NotAnId),
        ("/subscriptions/0/sources/0", json!("/etc/passwd"), CallCode::NotAnId),
        ("/budgets/runsPerDay", json!(1_441), out),
        ("/budgets/tokensPerDay", json!(u64::MAX), out),
        ("/requestedPermissions/0", json!("root"), CallCode::NotAllowed),
        ("/retirement/afterDays", json!(367), out),
        ("/retirement/when", json!(null), CallCode::WrongType),
    ] {
        let refused = refused(|focus| *focus.pointer_mut(at).unwrap() = bad.clone());
        assert_eq!(refused, (code, at.to_owned()), "{bad}");
    }
    let twice = refused(|focus| focus["requestedPermissions"] = json!(["notify", "notify"]));
    assert_eq!(twice, (CallCode::Repeated, "/requestedPermissions/1".to_owned()));
}

#[test]
fn its_fingerprint_covers_every_member_and_never_changes_silently() {
    let read = |value: &Value| {
        serde_json::from_value::<FocusDeclaration>(value["declaration"].clone()).unwrap().fingerprint()
    };
    let first = read(&focus());
    assert_eq!(first.to_string(), "484534f01c239529e48f98c5c0a65299c3d029af2719bc7301a4fe0457823900");
    for (at, other) in [
        ("/id", json!("another")),
        ("/lineage/evidence", json!([])),
        ("/scope/excludes", json!([])),
        ("/objective", json!("Something else.")),
        ("/subscriptions/0/sources/0", json!("filesystem:work")),
        ("/budgets/runsPerDay", json!(5)),
        ("/requestedPermissions", json!([])),
        ("/retirement/afterDays", json!(61)),
        ("/retirement/when", json!("it is over")),
    ] {
        let changed = declaration(|focus| *focus.pointer_mut(at).unwrap() = other.clone());
        assert_ne!(read(&changed), first, "{at}");
    }
}
