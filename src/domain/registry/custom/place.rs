//! Where each value of a JSON text stands, by its JSON pointer.

use std::collections::{BTreeMap, BTreeSet};

/// The byte at which something starts, and how many bytes of it are shown.
pub(super) type Place = (usize, usize);

/// Holds the places of a text.
#[derive(Debug, Default)]
pub(super) struct Places {
    values: BTreeMap<String, Place>,
    /// The keys that stand in their object already.
    pub(super) twice: Vec<Place>,
}

impl Places {
    /// Reads the places of a text that a JSON reader has taken; of any other text they say nothing.
    pub(super) fn of(text: &str) -> Self {
        let mut scan = Scan { text: text.as_bytes(), at: 0, pointer: String::new(), places: Self::default() };
        scan.value();
        scan.places
    }

    /// Returns the place of a value; that of the whole text where there is no such value.
    pub(super) fn find(&self, pointer: &str) -> Place {
        self.values.get(pointer).or_else(|| self.values.get("")).copied().unwrap_or_default()
    }
}

/// Returns a key as a JSON pointer has it.
pub(super) fn token(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

struct Scan<'a> {
    text: &'a [u8],
    at: usize,
    pointer: String,
    places: Places,
}

impl Scan<'_> {
    fn next(&mut self) -> Option<u8> {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn value(&mut self) {
        let first = self.next();
        let start = self.at;
        let length = match first {
            // What holds others is shown by its bracket.
            Some(b'{') => {
                self.object();
                1
            }
            Some(b'[') => {
                self.array();
                1
            }
            Some(b'"') => self.string(),
            Some(_) | None => {
                let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace();
                let rest = self.text.get(start..).unwrap_or_default();
                let length = rest.iter().position(ends).unwrap_or(rest.len());
                self.at += length;
                length
            }
        };
        self.places.values.insert(self.pointer.clone(), (start, length));
    }

    fn object(&mut self) {
        self.at += 1;
        let mut seen = BTreeSet::new();
        loop {
            match self.next() {
                Some(b'"') => {
                    let start = self.at;
                    let length = self.string();
                    let key: String = serde_json::from_slice(&self.text[start..self.at]).unwrap_or_default();
                    // The colon.
                    self.next();
                    self.at += 1;
                    self.below(&token(&key));
                    if !seen.insert(key) {
                        self.places.twice.push((start, length));
                    }
                }
                Some(b',') => self.at += 1,
                Some(_) | None => break self.at += 1,
            }
        }
    }

    fn array(&mut self) {
        self.at += 1;
        let mut index = 0_usize;
        loop {
            match self.next() {
                Some(b']') | None => break self.at += 1,
                Some(b',') => self.at += 1,
                Some(_) => {
                    self.below(&index.to_string());
                    index += 1;
                }
            }
        }
    }

    fn below(&mut self, token: &str) {
        let length = self.pointer.len();
        self.pointer.push('/');
        self.pointer.push_str(token);
        self.value();
        self.pointer.truncate(length);
    }

    /// Passes a text in quotes, and returns its length.
    fn string(&mut self) -> usize {
        let start = self.at;
        self.at += 1;
        while let Some(byte) = self.text.get(self.at) {
            self.at += if *byte == b'\\' { 2 } else { 1 };
            if *byte == b'"' {
                break;
            }
        }
        self.at = self.at.min(self.text.len());
        self.at - start
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn each_value_is_found_and_a_key_that_stands_twice_is_named() {
        let text = r#" { "a": [1, {"b/c": "x\"]"}, [] ], "a": true,
            "d~": {"é": -1.5e3 } } "#;
        let places = Places::of(text);
        let shown = |pointer: &str| {
            let (start, length) = places.find(pointer);
            &text[start..start + length]
        };
        assert_eq!(shown("/a/0"), "1");
        assert_eq!(shown("/a/1/b~1c"), r#""x\"]""#);
        assert_eq!((shown("/a/2"), shown("/a"), shown("")), ("[", "true", "{"));
        assert_eq!(shown("/d~0/é"), "-1.5e3");
        assert_eq!(shown("/nowhere"), "{");
        assert_eq!(places.twice.len(), 1);
        assert!(text[places.twice[0].0..].starts_with("\"a\": true"));
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            ".*".prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((".{0,3}", inner), 0..4)
                    .prop_map(|all| Value::Object(all.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn whatever_json_says_has_its_place(value in json()) {
            let text = serde_json::to_string_pretty(&value).unwrap();
            let places = Places::of(&text);
            for (pointer, (start, length)) in &places.values {
                let found = value.pointer(pointer).unwrap();
                let shown = &text[*start..*start + *length];
                match found {
                    Value::Object(_) => prop_assert_eq!(shown, "{"),
                    Value::Array(_) => prop_assert_eq!(shown, "["),
                    leaf @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => prop_assert_eq!(&serde_json::from_str::<Value>(shown).unwrap(), leaf),
                }
            }
            prop_assert!(places.twice.is_empty());
        }
    }
}
