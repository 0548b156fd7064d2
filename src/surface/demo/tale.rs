//! How a demonstration tells what happens: as prose while it goes on, or as one JSON value when it is over.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;

/// Tells a person or a program, never both.
pub(super) struct Tale<'a> {
    out: &'a mut Out,
    /// What a program is told, by name; none if a person is told.
    facts: Option<Map<String, Value>>,
}

impl<'a> Tale<'a> {
    /// Begins to tell on `out`.
    pub(super) fn new(out: &'a mut Out, json: bool) -> Self {
        Self { out, facts: json.then(Map::new) }
    }

    /// Says whether there is somebody who can be asked.
    pub(super) fn has_a_viewer(&self) -> bool {
        use std::io::IsTerminal as _;
        self.facts.is_none() && self.out.is_terminal() && std::io::stdin().is_terminal()
    }

    /// Writes a line for a person.
    pub(super) fn line(&mut self, text: &str) -> Result<(), Failure> {
        if self.facts.is_none() {
            self.out.line(text)?;
        }
        Ok(())
    }

    /// Writes a text for a person.
    pub(super) fn text(&mut self, text: &str) -> Result<(), Failure> {
        if self.facts.is_none() {
            self.out.text(text)?;
        }
        Ok(())
    }

    /// Lets a person see what was written so far.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        Ok(self.out.flush()?)
    }

    /// Says something beside what is told.
    pub(super) fn remark(&mut self, text: &str) {
        self.out.remark(text);
    }

    /// Keeps a fact for a program.
    pub(super) fn fact<T: Serialize + ?Sized>(&mut self, name: &str, fact: &T) -> Result<(), Failure> {
        if let Some(facts) = &mut self.facts {
            let value = serde_json::to_value(fact).map_err(|error| {
                Failure::new(Exit::Bug, "demo.fact", "a fact cannot be written").because(&error)
            })?;
            facts.insert(name.to_owned(), value);
        }
        Ok(())
    }

    /// Ends: a program is told everything now.
    pub(super) fn close(self) -> Result<(), Failure> {
        if let Some(facts) = self.facts {
            self.out.json(&facts)?;
        }
        Ok(())
    }
}
