//! Reads a tool's arguments by hand: every member is there, none besides, each within its bounds.
//!
//! What is wrong is said by a code and by the names that the tool itself has. The names and values that a model made
//! up are told nowhere.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::call::{ARGUMENTS_BYTES_MAX, CallCode, Misfit};
use super::text::{Bounded, BoundsError};
use crate::canonical::{self, JsonFault};
use crate::id::EventId;

/// Is one object of the arguments, and where it stands.
pub(super) struct Fields<'a> {
    map: &'a Map<String, Value>,
    at: String,
}

/// Reads arguments as one JSON value.
pub(super) fn parse(text: &str) -> Result<Value, Misfit> {
    canonical::parse(text.as_bytes(), ARGUMENTS_BYTES_MAX).map_err(|error| {
        Misfit::whole(match error.fault() {
            JsonFault::TooLarge => CallCode::TooLarge,
            JsonFault::DuplicateKey => CallCode::DuplicateMember,
            JsonFault::NotUtf8
            | JsonFault::TooDeep
            | JsonFault::Number
            | JsonFault::CutOff
            | JsonFault::Syntax => CallCode::NotJson,
        })
    })
}

impl<'a> Fields<'a> {
    /// Takes an object that has no members but the known ones.
    pub(super) fn of(value: &'a Value, at: &str, known: &[&str]) -> Result<Self, Misfit> {
        let map = value.as_object().ok_or_else(|| Misfit::new(CallCode::WrongType, at))?;
        if map.keys().any(|key| !known.contains(&key.as_str())) {
            return Err(Misfit::new(CallCode::UnknownMember, at));
        }
        Ok(Self { map, at: at.to_owned() })
    }

    /// Returns the place of a member.
    pub(super) fn place(&self, name: &str) -> String {
        format!("{}/{name}", self.at)
    }

    /// Says what is wrong with a member.
    pub(super) fn misfit(&self, code: CallCode, name: &str) -> Misfit {
        Misfit::new(code, &self.place(name))
    }

    /// Returns a member that may be absent. A null is not absent: it is of another type.
    pub(super) fn optional(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name)
    }

    /// Returns a member.
    pub(super) fn required(&self, name: &str) -> Result<&'a Value, Misfit> {
        self.optional(name).ok_or_else(|| self.misfit(CallCode::MissingMember, name))
    }

    /// Reads a member that is an object of its own.
    pub(super) fn object(&self, name: &str, known: &[&str]) -> Result<Self, Misfit> {
        Self::of(self.required(name)?, &self.place(name), known)
    }

    /// Reads a bounded text.
    pub(super) fn text<const MAX: usize>(&self, name: &str) -> Result<Bounded<MAX>, Misfit> {
        bounded(self.required(name)?, &self.place(name))
    }

    /// Reads a word that `parse` knows.
    pub(super) fn word<T>(
        &self,
        name: &str,
        code: CallCode,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<T, Misfit> {
        word(self.required(name)?, &self.place(name), code, parse)
    }

    /// Reads a whole number within a range.
    pub(super) fn number(&self, name: &str, range: RangeInclusive<u64>) -> Result<u64, Misfit> {
        let value = self.required(name)?;
        if !value.is_number() {
            return Err(self.misfit(CallCode::WrongType, name));
        }
        let number = value.as_u64().filter(|number| range.contains(number));
        number.ok_or_else(|| self.misfit(CallCode::OutOfRange, name))
    }

    /// Reads a list of a bounded length whose items are all different.
    pub(super) fn list<T: PartialEq>(
        &self,
        name: &str,
        length: RangeInclusive<usize>,
        read: impl Fn(&'a Value, &str) -> Result<T, Misfit>,
    ) -> Result<Vec<T>, Misfit> {
        let items = self.required(name)?.as_array();
        let items = items.ok_or_else(|| self.misfit(CallCode::WrongType, name))?;
        if items.len() > *length.end() {
            return Err(self.misfit(CallCode::TooMany, name));
        }
        if items.len() < *length.start() {
            return Err(self.misfit(CallCode::TooFew, name));
        }
        let mut list = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let at = format!("{}/{index}", self.place(name));
            let item = read(item, &at)?;
            if list.contains(&item) {
                return Err(Misfit::new(CallCode::Repeated, &at));
            }
            list.push(item);
        }
        Ok(list)
    }

    /// Reads a list of different event ids.
    pub(super) fn events(&self, name: &str, most: usize) -> Result<Vec<EventId>, Misfit> {
        self.list(name, 0..=most, |item, at| {
            word(item, at, CallCode::NotAnId, |text| EventId::parse(text).ok())
        })
    }
}

/// Reads a bounded text.
pub(super) fn bounded<const MAX: usize>(value: &Value, at: &str) -> Result<Bounded<MAX>, Misfit> {
    let text = value.as_str().ok_or_else(|| Misfit::new(CallCode::WrongType, at))?;
    Bounded::new(text.to_owned()).map_err(|error| {
        let code = match error {
            BoundsError::Empty => CallCode::Blank,
            BoundsError::TooLong { .. } => CallCode::TooLong,
        };
        Misfit::new(code, at)
    })
}

/// Reads a word that `parse` knows.
pub(super) fn word<T>(
    value: &Value,
    at: &str,
    code: CallCode,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<T, Misfit> {
    let text = value.as_str().ok_or_else(|| Misfit::new(CallCode::WrongType, at))?;
    parse(text).ok_or_else(|| Misfit::new(code, at))
}
