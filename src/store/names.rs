//! The log's own short numbers for names: sources, event types and consumer versions.
//!
//! A name is written once and never changes its number. Reader and writer share one cache of them, filled
//! only with what a finished transaction holds.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use redb::{ReadableTable as _, ReadableTableMetadata as _};
use thoughtstream_domain::id::{ConsumerKey, SourceId, TypeName};

use crate::projection::PutBehind as _;
use crate::reader::ReadTable;
use crate::rows::{RowError, Rows};
use crate::tables::{Table, key};

/// What a name names. The code is part of stored keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum NameKind {
    /// A source.
    Source = 0,
    /// An event type, without its version.
    Type = 1,
    /// A consumer version.
    Consumer = 2,
}

#[derive(Clone, Debug)]
enum Name {
    Source(SourceId),
    Type(TypeName),
    Consumer(ConsumerKey),
}

impl Name {
    fn parse(kind: NameKind, text: &str) -> Option<Self> {
        match kind {
            NameKind::Source => SourceId::parse(text).ok().map(Self::Source),
            NameKind::Type => TypeName::parse(text).ok().map(Self::Type),
            NameKind::Consumer => ConsumerKey::parse(text).ok().map(Self::Consumer),
        }
    }
}

#[derive(Debug, Default)]
struct Maps {
    numbers: BTreeMap<(NameKind, String), u32>,
    names: BTreeMap<(NameKind, u32), Name>,
}

/// The shared cache.
#[derive(Debug, Default)]
pub(crate) struct Names(RwLock<Maps>);

impl Names {
    fn name<T>(&self, kind: NameKind, number: u32, pick: impl Fn(&Name) -> Option<T>) -> Option<T> {
        let maps = self.0.read().unwrap_or_else(PoisonError::into_inner);
        maps.names.get(&(kind, number)).and_then(pick)
    }

    /// Returns the source with this number.
    pub(crate) fn source(&self, number: u32) -> Option<SourceId> {
        self.name(
            NameKind::Source,
            number,
            |name| if let Name::Source(id) = name { Some(id.clone()) } else { None },
        )
    }

    /// Returns the event type with this number.
    pub(crate) fn kind(&self, number: u32) -> Option<TypeName> {
        self.name(
            NameKind::Type,
            number,
            |name| if let Name::Type(id) = name { Some(id.clone()) } else { None },
        )
    }

    /// Returns the consumer version with this number.
    pub(crate) fn consumer(&self, number: u32) -> Option<ConsumerKey> {
        self.name(NameKind::Consumer, number, |name| {
            if let Name::Consumer(id) = name { Some(id.clone()) } else { None }
        })
    }

    /// Returns the number of a name.
    pub(crate) fn number(&self, kind: NameKind, text: &str) -> Option<u32> {
        let maps = self.0.read().unwrap_or_else(PoisonError::into_inner);
        // BTreeMap cannot look a borrowed pair up; names are short and this is not the writer's hot path.
        maps.numbers.get(&(kind, text.to_owned())).copied()
    }

    /// Returns the numbers of all names of a kind, with their text.
    pub(crate) fn all(&self, kind: NameKind) -> Vec<(u32, String)> {
        let maps = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let of_kind =
            maps.numbers.range((kind, String::new())..).take_while(|((found, _), _)| *found == kind);
        of_kind.map(|((_, text), number)| (*number, text.clone())).collect()
    }

    /// Returns the sources that are `wanted`, by name.
    pub(crate) fn sources(&self, wanted: impl Fn(&SourceId) -> bool) -> Vec<(u32, SourceId)> {
        let maps = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let of_kind = maps.numbers.range((NameKind::Source, String::new())..);
        let of_kind = of_kind.take_while(|((kind, _), _)| *kind == NameKind::Source);
        let named = of_kind.filter_map(|(_, number)| match maps.names.get(&(NameKind::Source, *number)) {
            Some(Name::Source(source)) if wanted(source) => Some((*number, source.clone())),
            Some(Name::Source(_) | Name::Type(_) | Name::Consumer(_)) | None => None,
        });
        named.collect()
    }

    /// Takes up a name of a finished transaction; answers `false` if the text is no such name.
    pub(crate) fn learn(&self, kind: NameKind, number: u32, text: &str) -> bool {
        let Some(name) = Name::parse(kind, text) else { return false };
        let mut maps = self.0.write().unwrap_or_else(PoisonError::into_inner);
        maps.numbers.insert((kind, text.to_owned()), number);
        maps.names.insert((kind, number), name);
        true
    }

    /// Takes up in one step what the log holds that was opened again. A moment without names would read as a log
    /// without sources, events and progress.
    pub(crate) fn become_like(&self, other: Self) {
        let maps = other.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = maps;
    }
}

/// Tells where names and numbers are not each other's inverse. Everything that is stored under a number belongs to
/// whoever has it, so a log in which they are not must not be written to.
pub(crate) fn astray(
    names: &ReadTable,
    numbers: &ReadTable,
    mut tell: impl FnMut(String, String),
) -> Result<(), RowError> {
    for row in numbers.iter().map_err(RowError::storage)? {
        let (number, text) = row.map_err(RowError::storage)?;
        let (kind, number) = number.value().split_at_checked(1).unwrap_or_default();
        let back = names.get(&key!(kind, text.value())[..]).map_err(RowError::storage)?;
        if back.is_none_or(|back| back.value() != number) {
            let place = format!("{} {number:02x?}", Table::Numbers.name());
            tell(place, "the name does not lead back to its number".to_owned());
        }
    }
    let (forth, back) = (names.len().map_err(RowError::storage)?, numbers.len().map_err(RowError::storage)?);
    if forth != back {
        tell(Table::Names.name().to_owned(), format!("has {forth} rows, not {back}"));
    }
    Ok(())
}

/// The writer's view: the shared cache and the names its transaction has added.
#[derive(Debug, Default)]
pub(crate) struct NewNames {
    /// Known numbers by name, so that the writer needs neither lock nor allocation.
    known: [std::collections::HashMap<std::sync::Arc<str>, u32>; 3],
    next: [Option<u32>; 3],
    added: Vec<(NameKind, u32, std::sync::Arc<str>)>,
}

impl NewNames {
    /// Returns the number of a name if it has one.
    pub(crate) fn find(
        &mut self,
        rows: &mut Rows<'_>,
        kind: NameKind,
        text: &str,
    ) -> Result<Option<u32>, RowError> {
        if let Some(number) = self.known[kind as usize].get(text) {
            return Ok(Some(*number));
        }
        let stored = rows.get(Table::Names, &key!(kind as u8, text))?;
        let Some(stored) = stored else { return Ok(None) };
        let number = crate::codec::be32(&stored).map_err(|_| RowError::damaged(Table::Names, text))?;
        self.known[kind as usize].insert(text.into(), number);
        Ok(Some(number))
    }

    /// Returns the number of a name, giving it one if it is new.
    pub(crate) fn number(
        &mut self,
        rows: &mut Rows<'_>,
        kind: NameKind,
        text: &str,
    ) -> Result<u32, RowError> {
        if let Some(number) = self.find(rows, kind, text)? {
            return Ok(number);
        }
        let next = match self.next[kind as usize] {
            Some(next) => next,
            None => Self::next_free(rows, kind)?,
        };
        rows.put(Table::Names, &key!(kind as u8, text), &next.to_be_bytes());
        rows.put(Table::Numbers, &key!(kind as u8, next), text.as_bytes());
        self.next[kind as usize] = Some(next + 1);
        let text: std::sync::Arc<str> = text.into();
        self.known[kind as usize].insert(text.clone(), next);
        self.added.push((kind, next, text));
        Ok(next)
    }

    fn next_free(rows: &mut Rows<'_>, kind: NameKind) -> Result<u32, RowError> {
        let (from, to) = (key!(kind as u8), key!(kind as u8 + 1));
        let Some((last, _)) = rows.last_in(Table::Numbers, &from, &to)? else { return Ok(1) };
        let number = last.get(1..).map(crate::codec::be32).and_then(Result::ok);
        Ok(number.ok_or_else(|| RowError::damaged(Table::Numbers, kind as u8))? + 1)
    }

    /// Hands what the finished transaction added to the shared cache.
    pub(crate) fn publish(&mut self, names: &Names) {
        for (kind, number, text) in self.added.drain(..) {
            names.learn(kind, number, &text);
        }
    }
}
