//! JSON from outside, read strictly, and JSON of ours, written canonically (RFC 8785).

use std::fmt;

use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The deepest nesting read from outside; deeper text is refused before it can exhaust a stack.
pub const DEPTH_MAX: usize = 64;

/// Says why a text is not JSON that this program accepts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// The text is larger than its bound.
    #[error("{bytes} bytes are more than the {bytes_max} allowed")]
    TooLarge {
        /// How large it is.
        bytes: usize,
        /// How large it may be.
        bytes_max: usize,
    },
    /// The text is not UTF-8.
    #[error("not UTF-8 after byte {valid_up_to}")]
    NotUtf8 {
        /// How many bytes are well formed.
        valid_up_to: usize,
    },
    /// The text is not JSON, or has a key twice, or is nested too deeply.
    #[error("line {line}, column {column}: {what}")]
    Malformed {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// What was found there; no content of the text.
        what: String,
    },
}

/// Is the kind of a [`JsonError`], for code that classifies instead of showing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonFault {
    /// Larger than its bound.
    TooLarge,
    /// Not UTF-8.
    NotUtf8,
    /// Nested deeper than [`DEPTH_MAX`].
    TooDeep,
    /// A key stands twice in one object.
    DuplicateKey,
    /// A number that JSON does not have, or that is not finite.
    Number,
    /// The text ends inside a value.
    CutOff,
    /// Anything else that is not JSON.
    Syntax,
}

impl JsonError {
    /// Returns the kind of the error.
    #[must_use]
    pub fn fault(&self) -> JsonFault {
        match self {
            Self::TooLarge { .. } => JsonFault::TooLarge,
            Self::NotUtf8 { .. } => JsonFault::NotUtf8,
            Self::Malformed { what, .. } => match what.as_str() {
                TWICE => JsonFault::DuplicateKey,
                DEEP => JsonFault::TooDeep,
                NUMBER => JsonFault::Number,
                CUT_OFF => JsonFault::CutOff,
                _ => JsonFault::Syntax,
            },
        }
    }
}

/// Reads JSON strictly: one value, UTF-8, no key twice in an object, bounded depth and size.
///
/// # Errors
/// [`JsonError`] with the place.
pub fn parse(bytes: &[u8], bytes_max: usize) -> Result<Value, JsonError> {
    parse_around(bytes, bytes_max, 0)
}

/// Reads JSON as [`parse`] does, where a value of others lies inside a frame of ours: so many levels deep, and by itself
/// no deeper than [`DEPTH_MAX`].
///
/// # Errors
/// [`JsonError`] with the place.
pub fn parse_around(bytes: &[u8], bytes_max: usize, levels: usize) -> Result<Value, JsonError> {
    if bytes.len() > bytes_max {
        return Err(JsonError::TooLarge { bytes: bytes.len(), bytes_max });
    }
    let text = std::str::from_utf8(bytes).map_err(|e| JsonError::NotUtf8 { valid_up_to: e.valid_up_to() })?;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = Strict { depth: DEPTH_MAX + levels }
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value))
        .map_err(|e| JsonError::Malformed { line: e.line(), column: e.column(), what: describe(&e) })?;
    Ok(value)
}

/// Names the kind of a parse error without the text that caused it.
fn describe(error: &serde_json::Error) -> String {
    let message = error.to_string();
    if message.starts_with(TWICE) {
        return TWICE.to_owned();
    }
    if message.starts_with(DEEP) {
        return DEEP.to_owned();
    }
    // The only place where the words of the library are read; a test holds each of them.
    if message.starts_with("invalid number") || message.starts_with("number out of range") {
        return NUMBER.to_owned();
    }
    match error.classify() {
        serde_json::error::Category::Eof => CUT_OFF.to_owned(),
        serde_json::error::Category::Io
        | serde_json::error::Category::Syntax
        | serde_json::error::Category::Data => "not JSON".to_owned(),
    }
}

const TWICE: &str = "a key stands twice in one object";
const DEEP: &str = "nested deeper than 64 levels";
const NUMBER: &str = "a number that JSON does not have";
const CUT_OFF: &str = "the text ends inside a value";

#[derive(Clone, Copy)]
struct Strict {
    depth: usize,
}

impl Strict {
    fn deeper<E: de::Error>(self) -> Result<Self, E> {
        self.depth.checked_sub(1).map(|depth| Self { depth }).ok_or_else(|| E::custom(DEEP))
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;
    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("not a finite number"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(inner)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(de::Error::custom(TWICE));
            }
            map.insert(key, access.next_value_seed(inner)?);
        }
        Ok(Value::Object(map))
    }
}

/// Says why a value has no canonical form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a whole number beyond 2^53 has no exact canonical form: write it as a string")]
pub struct CanonicalError;

/// Writes a value as RFC 8785 canonical JSON.
///
/// # Errors
/// [`CanonicalError`] for a whole number that a double cannot hold exactly, which the RFC would round.
pub fn write(value: &Value) -> Result<Vec<u8>, CanonicalError> {
    if !is_exact(value) {
        return Err(CanonicalError);
    }
    let mut out = Vec::with_capacity(256);
    put(&mut out, value)?;
    Ok(out)
}

/// Appends the canonical form. Written out here because every event passes through it: the general
/// canonicalizer buffers each object and string on its way, and only its float format is hard to get right.
fn put(out: &mut Vec<u8>, value: &Value) -> Result<(), CanonicalError> {
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => put_plain(out, value)?,
        Value::Number(number) if number.is_f64() => {
            out.extend(serde_json_canonicalizer::to_vec(value).map_err(|_| CanonicalError)?);
        }
        Value::Number(_) => put_plain(out, value)?,
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                put(out, item)?;
            }
            out.push(b']');
        }
        Value::Object(map) => {
            let mut entries: Vec<(&String, &Value)> = map.iter().collect();
            // UTF-16 order, which is byte order as long as there is nothing beyond ASCII.
            if entries.iter().all(|(key, _)| key.is_ascii()) {
                entries.sort_unstable_by_key(|(key, _)| *key);
            } else {
                entries.sort_unstable_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            }
            out.push(b'{');
            for (index, (key, value)) in entries.into_iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                put_plain(out, key)?;
                out.push(b':');
                put(out, value)?;
            }
            out.push(b'}');
        }
    }
    Ok(())
}

/// Appends what plain and canonical JSON write alike: literals, whole numbers, and strings, whose escapes
/// are the shortest ones, in lower case.
fn put_plain(out: &mut Vec<u8>, value: &(impl serde::Serialize + ?Sized)) -> Result<(), CanonicalError> {
    serde_json::to_writer(out, value).map_err(|_| CanonicalError)
}

/// Writes a type of ours, whose numbers are known to be exact, as canonical JSON.
///
/// # Errors
/// [`CanonicalError`] if the type does not serialise to exact JSON.
pub fn write_type<T: serde::Serialize>(value: &T) -> Result<Vec<u8>, CanonicalError> {
    write(&serde_json::to_value(value).map_err(|_| CanonicalError)?)
}

/// The largest whole number that a double holds together with all smaller ones.
const EXACT_MAX: u64 = 1 << 53;

fn is_exact(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => true,
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(positive), _) => positive <= EXACT_MAX,
            (None, Some(negative)) => negative.unsigned_abs() <= EXACT_MAX,
            (None, None) => number.as_f64().is_some_and(f64::is_finite),
        },
        Value::Array(items) => items.iter().all(is_exact),
        Value::Object(map) => map.values().all(is_exact),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn what(text: &str) -> String {
        match parse(text.as_bytes(), 1 << 20) {
            Err(JsonError::Malformed { line, column, what }) => format!("{line}:{column} {what}"),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_key_that_stands_twice_is_refused_at_its_place() {
        assert_eq!(what("{\"a\":1,\n \"a\":2}"), format!("2:4 {TWICE}"));
        assert_eq!(what("{\"x\":{\"a\":1,\"a\":2}}"), format!("1:15 {TWICE}"));
    }

    #[test]
    fn nesting_has_a_bound() {
        let ok = format!("{}{}", "[".repeat(DEPTH_MAX), "]".repeat(DEPTH_MAX));
        assert!(parse(ok.as_bytes(), 1 << 20).is_ok());
        let deep = format!("{}{}", "[".repeat(DEPTH_MAX + 1), "]".repeat(DEPTH_MAX + 1));
        assert!(what(&deep).ends_with(DEEP));
        assert!(parse("[".repeat(1 << 20).as_bytes(), 1 << 21).is_err());
    }

    #[test]
    fn only_one_well_formed_value_is_read() {
        for bad in ["", "{", "1 2", "[1,]", "nul", "NaN", "1e400", "\"\\ud800\"", "\u{feff}1"] {
            assert!(parse(bad.as_bytes(), 100).is_err(), "{bad:?}");
        }
        assert_eq!(parse(b"\xff", 100), Err(JsonError::NotUtf8 { valid_up_to: 0 }));
        assert_eq!(parse(b"123", 2), Err(JsonError::TooLarge { bytes: 3, bytes_max: 2 }));
    }

    #[test]
    fn every_kind_of_error_is_told_apart() {
        let deep = "[".repeat(DEPTH_MAX + 1);
        for (text, fault) in [
            (&b"{\"a\":1,\"a\":2}"[..], JsonFault::DuplicateKey),
            (deep.as_bytes(), JsonFault::TooDeep),
            (b"1e400", JsonFault::Number),
            (b"[01]", JsonFault::Number),
            (b"[1.]", JsonFault::Number),
            (b"{\"a\":", JsonFault::CutOff),
            (b"", JsonFault::CutOff),
            (b"NaN", JsonFault::Syntax),
            (b"1 2", JsonFault::Syntax),
            (b"\xff", JsonFault::NotUtf8),
        ] {
            assert_eq!(parse(text, 100).unwrap_err().fault(), fault, "{}", String::from_utf8_lossy(text));
        }
        assert_eq!(parse(b"123", 2).unwrap_err().fault(), JsonFault::TooLarge);
    }

    #[test]
    fn an_error_names_the_place_and_not_the_content() {
        assert!(!format!("{:?}", parse(b"{\"secret\": hunter2}", 100)).contains("hunter2"));
    }

    #[test]
    fn canonical_json_follows_the_rfc() {
        let value = json!({ "numbers": [333_333_333.333_333_3, 1e30, 4.50, 2e-3, 0.000000000000000000000000001],
            "string": "\u{20ac}$\u{000f}\u{000a}A'\u{0042}\u{0022}\u{005c}\\\"/", "literals": [null, true, false] });
        let expected = "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],\"string\":\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}";
        assert_eq!(String::from_utf8(write(&value).unwrap()).unwrap(), expected);
        // Keys sort by UTF-16 code units, not by code points.
        let keys = json!({ "\u{fb33}": 1, "\u{1f600}": 2, "\u{20ac}": 3 });
        assert_eq!(
            String::from_utf8(write(&keys).unwrap()).unwrap(),
            "{\"\u{20ac}\":3,\"\u{1f600}\":2,\"\u{fb33}\":1}"
        );
    }

    /// Any JSON value, floats and odd strings included.
    fn any_json() -> impl proptest::strategy::Strategy<Value = Value> {
        use proptest::prelude::*;
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-(1_i64 << 53)..=(1 << 53)).prop_map(Value::from),
            any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(Value::from),
            ".*".prop_map(Value::from),
            "[\\x00-\\x7f]{0,20}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 64, 8, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                proptest::collection::btree_map(".{0,6}", inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest::proptest! {
        #[test]
        fn our_writer_and_the_general_canonicalizer_agree(value in any_json()) {
            proptest::prop_assume!(is_exact(&value));
            proptest::prop_assert_eq!(write(&value).ok(), serde_json_canonicalizer::to_vec(&value).ok());
        }
    }

    #[test]
    fn a_number_that_would_be_rounded_is_refused() {
        assert!(write(&json!(9_007_199_254_740_992_u64)).is_ok());
        assert_eq!(write(&json!({ "n": [9_007_199_254_740_993_u64] })), Err(CanonicalError));
        assert_eq!(write(&json!(-9_007_199_254_740_993_i64)), Err(CanonicalError));
    }
}
