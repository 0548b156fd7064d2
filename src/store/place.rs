//! What a row is called: in `verify`, and by whoever meets one that is not what was written.

use thoughtstream_domain::id::RunId;

use crate::account::account_of;
use crate::codec::{be32, be64};
use crate::names::Names;
use crate::tables::Table;

/// Names a row by its table and what its key says.
pub(crate) fn of(table: Table, key: &[u8], names: &Names) -> String {
    let said = match table {
        Table::Controls | Table::Declarations | Table::Definitions => text(key),
        Table::Documents => key.get(4..).and_then(text),
        Table::Versions => version(key),
        Table::Heads => number(key, 0).map(|source| name(names.source(source), source)),
        Table::Sequences => sequence(key, names),
        Table::Types => {
            let kind = number(key, 0).map(|kind| name(names.kind(kind), kind));
            let place = key.get(4..).and_then(|rest| sequence(rest, names));
            kind.zip(place).map(|(kind, place)| format!("{kind} {place}"))
        }
        Table::Progress => lane(key, names),
        Table::Claims => {
            lane(key, names).zip(long(key, 8)).map(|(lane, sequence)| format!("{lane} {sequence}"))
        }
        Table::Executions | Table::Unsettled => {
            number(key, 0).zip(long(key, 4)).map(|(consumer, position)| format!("{consumer}/{position}"))
        }
        Table::Runs | Table::Open => {
            let place = number(key, 0).zip(long(key, 4)).zip(number(key, 12));
            place.map(|((consumer, position), attempt)| format!("{consumer}/{position}/{attempt}"))
        }
        Table::Entries | Table::Leases => {
            let run = key.last_chunk().map(|id| RunId::from_bytes(*id));
            account_of(key).zip(run).map(|(account, run)| format!("{account} {run}"))
        }
        Table::Tallies => account_of(key).map(|account| account.to_string()),
        Table::Events => long(key, 0).map(|position| position.to_string()),
        Table::Meta
        | Table::Keys
        | Table::Ids
        | Table::Children
        | Table::Names
        | Table::Numbers
        | Table::RunIds
        | Table::Paths
        | Table::Blobs
        | Table::Correlated => None,
    };
    format!("{} {}", table.name(), said.unwrap_or_else(|| format!("{key:02x?}")))
}

fn text(key: &[u8]) -> Option<String> {
    std::str::from_utf8(key).ok().map(str::to_owned)
}

fn number(key: &[u8], at: usize) -> Option<u32> {
    be32(key.get(at..at + 4)?).ok()
}

fn long(key: &[u8], at: usize) -> Option<u64> {
    be64(key.get(at..at + 8)?).ok()
}

fn name(name: Option<impl std::fmt::Display>, number: u32) -> String {
    name.map_or_else(|| number.to_string(), |name| name.to_string())
}

fn sequence(key: &[u8], names: &Names) -> Option<String> {
    let (source, sequence) = number(key, 0).zip(long(key, 4))?;
    Some(format!("{} {sequence}", name(names.source(source), source)))
}

fn lane(key: &[u8], names: &Names) -> Option<String> {
    let (consumer, source) = number(key, 0).zip(number(key, 4))?;
    Some(format!("{} {}", name(names.consumer(consumer), consumer), name(names.source(source), source)))
}

fn version(key: &[u8]) -> Option<String> {
    let (id, revision) = key.get(4..)?.split_last_chunk::<8>()?;
    Some(format!("{} {}", text(id.strip_suffix(&[0])?)?, u64::from_be_bytes(*revision)))
}
