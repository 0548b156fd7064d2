//! Events: finding repeats and conflicts, resolving parents, giving places, writing records and indexes.

use thoughtstream_domain::commit::{Commit, Conflict, Placed, Refusal, Verdict};
use thoughtstream_domain::event::{Candidate, Parent, Reference};
use thoughtstream_domain::hash::{Assigned, ChainHash};
use thoughtstream_domain::id::{EventId, IdempotencyKey, SourceId, TypeName};

use super::cache::Head;
use super::{GroupState, Stop};
use crate::codec::be64;
use crate::names::NameKind;
use crate::projection::{self, Indexed};
use crate::record::{self, Facts, Placement};
use crate::rows::{At, RowError, Rows};
use crate::tables::{Table, idempotency_key, position_key};

/// What a candidate's parents say about it. Positions of siblings are filled in when they are written.
pub(super) struct Planned {
    parents: Vec<Found>,
}

#[derive(Clone, Copy)]
enum Found {
    InLog(u64, Facts),
    /// An earlier event of the same commit, by its index.
    Sibling(usize),
}

fn place(position: u64, facts: &Facts, chain: ChainHash) -> Placed {
    Placed {
        id: facts.id,
        position,
        sequence: facts.sequence,
        recorded_at: facts.recorded_at,
        root: facts.root,
        depth: facts.depth,
        chain,
    }
}

impl GroupState<'_> {
    /// Looks the commit's events up: a verdict if they are there, nothing if none is.
    pub(super) fn look_up(&mut self, rows: &mut Rows<'_>, commit: &Commit) -> Result<(), Stop> {
        let mut placed = Vec::new();
        let mut missing = false;
        let mut lone = None;
        for (index, candidate) in commit.appends.iter().enumerate() {
            if commit.appends[..index].iter().any(|earlier| earlier.id() == candidate.id()) {
                return Err(Refusal::Row {
                    index,
                    found: format!("{} stands twice in the commit", candidate.id()),
                }
                .into());
            }
            let Some(position) = self.find(rows, candidate)? else {
                missing = true;
                continue;
            };
            let (stored, place) = self.stored(rows, position)?;
            if stored != *candidate.digest() {
                let offered = Some(*candidate.digest());
                return Err(Stop::Verdict(Verdict::Conflict(Conflict {
                    id: candidate.id(),
                    stored,
                    offered,
                })));
            }
            lone.get_or_insert((candidate.id(), stored));
            placed.push(place);
        }
        match (missing, lone) {
            (true, Some((id, stored))) => {
                Err(Stop::Verdict(Verdict::Conflict(Conflict { id, stored, offered: None })))
            }
            (false, Some(_)) => Err(Stop::Verdict(Verdict::AlreadyCommitted(placed))),
            (true | false, None) => Ok(()),
        }
    }

    fn find(&mut self, rows: &mut Rows<'_>, candidate: &Candidate) -> Result<Option<u64>, RowError> {
        let envelope = candidate.envelope();
        self.find_key(rows, &envelope.source, &candidate.kind().name, &envelope.key)
    }

    /// Returns the position of the event of a type that stands in a source under a key.
    pub(super) fn find_key(
        &mut self,
        rows: &mut Rows<'_>,
        source: &SourceId,
        kind: &TypeName,
        key: &IdempotencyKey,
    ) -> Result<Option<u64>, RowError> {
        let source_number = self.cache.number(rows, NameKind::Source, source.as_str())?;
        let kind_number = self.cache.number(rows, NameKind::Type, kind.as_str())?;
        let (Some(source_number), Some(kind_number)) = (source_number, kind_number) else { return Ok(None) };
        let found =
            rows.read(Table::Keys, &idempotency_key(source_number, kind_number, key.as_str()), be64)?;
        found.transpose().at(Table::Keys, format_args!("{source} {kind}"))
    }

    fn stored(&mut self, rows: &mut Rows<'_>, position: u64) -> Result<(ChainHash, Placed), RowError> {
        let record = rows.get(Table::Events, &position_key(position))?;
        let record = record.ok_or_else(|| RowError::damaged(Table::Events, position))?;
        let facts = record::read_facts(&record).at(Table::Events, position)?;
        let names = self.names_of(rows, &record, position)?;
        let stored = record::read(position, &record, &names).at(Table::Events, position)?;
        let placed = place(position, &facts, stored.event.chain);
        Ok((stored.event.digest(), placed))
    }

    /// Refuses types that are not registered with this log.
    pub(super) fn check_types(&self, commit: &Commit) -> Result<(), Refusal> {
        let unknown = commit.appends.iter().find(|candidate| !self.types.contains_key(candidate.kind()));
        match unknown {
            Some(candidate) => Err(Refusal::UnknownType { kind: candidate.kind().clone() }),
            None => Ok(()),
        }
    }

    /// Finds every parent and checks that privacy never gets weaker.
    pub(super) fn plan(&mut self, rows: &mut Rows<'_>, commit: &Commit) -> Result<Vec<Planned>, Stop> {
        let mut planned = Vec::with_capacity(commit.appends.len());
        for (index, candidate) in commit.appends.iter().enumerate() {
            let mut parents = Vec::with_capacity(candidate.envelope().parents.len());
            for parent in &candidate.envelope().parents {
                let earlier = &commit.appends[..index];
                let found = self.find_parent(rows, earlier, parent)?;
                let found = found.ok_or(Refusal::UnknownParent { parent: parent.id })?;
                let privacy = match found {
                    Found::InLog(_, facts) => facts.privacy,
                    Found::Sibling(index) => earlier[index].envelope().privacy,
                };
                if candidate.envelope().privacy < privacy {
                    let (event, parent) = (candidate.id(), parent.id);
                    return Err(Refusal::PrivacyLowered { event, parent }.into());
                }
                parents.push(found);
            }
            planned.push(Planned { parents });
        }
        Ok(planned)
    }

    fn find_parent(
        &mut self,
        rows: &mut Rows<'_>,
        earlier: &[Candidate],
        parent: &Parent,
    ) -> Result<Option<Found>, RowError> {
        if let Some(position) = parent.position {
            let facts = self.cache.facts(rows, position)?.filter(|facts| facts.id == parent.id);
            return Ok(facts.map(|facts| Found::InLog(position, facts)));
        }
        if let Some(index) = earlier.iter().position(|candidate| candidate.id() == parent.id) {
            return Ok(Some(Found::Sibling(index)));
        }
        let Some(position) = self.cache.position_of(rows, &parent.id)? else { return Ok(None) };
        let facts = self.cache.facts(rows, position)?.filter(|facts| facts.id == parent.id);
        Ok(facts.map(|facts| Found::InLog(position, facts)))
    }

    /// Writes the commit's events; everything was checked.
    pub(super) fn write_events(
        &mut self,
        rows: &mut Rows<'_>,
        commit: &Commit,
        planned: &[Planned],
    ) -> Result<Vec<Placed>, RowError> {
        let mut written: Vec<(u64, Facts, ChainHash)> = Vec::with_capacity(planned.len());
        for (candidate, planned) in commit.appends.iter().zip(planned) {
            let parents = planned.parents.iter().map(|found| match found {
                Found::InLog(position, facts) => (*position, *facts),
                Found::Sibling(index) => (written[*index].0, written[*index].1),
            });
            let parents: Vec<(u64, Facts)> = parents.collect();
            written.push(self.write_event(rows, candidate, &parents)?);
        }
        Ok(written.iter().map(|(position, facts, chain)| place(*position, facts, *chain)).collect())
    }

    fn write_event(
        &mut self,
        rows: &mut Rows<'_>,
        candidate: &Candidate,
        parents: &[(u64, Facts)],
    ) -> Result<(u64, Facts, ChainHash), RowError> {
        let envelope = candidate.envelope();
        let source = self.cache.names.number(rows, NameKind::Source, envelope.source.as_str())?;
        let kind = self.cache.names.number(rows, NameKind::Type, candidate.kind().name.as_str())?;
        let head = self.cache.head(rows, source)?;
        let id: EventId = candidate.id();
        let assigned = Assigned {
            sequence: head.sequence + 1,
            recorded_at: self.now.max(self.cache.last.recorded_at),
            root: parents.first().map_or(id, |(_, facts)| facts.root),
            depth: parents.iter().map(|(_, facts)| facts.depth + 1).max().unwrap_or(0),
        };
        let position = self.cache.last.position + 1;
        let chain = head.chain.link(candidate.digest(), &assigned);
        let positions: Vec<u64> = parents.iter().map(|(position, _)| *position).collect();
        let mut bytes = Vec::with_capacity(512 + candidate.payload().reveal().len());
        record::write(
            &mut bytes,
            candidate,
            &Placement { source, kind, assigned, chain, parents: &positions },
        );
        let at = position_key(position);
        rows.put(Table::Events, &at, &bytes);
        let indexed = Indexed {
            position,
            id: id.as_bytes(),
            source,
            kind,
            sequence: assigned.sequence,
            key: envelope.key.as_str(),
            parents: &positions,
            correlation: envelope.correlation.as_ref().map(Reference::as_str),
            chain,
        };
        projection::put_event(rows, &indexed)?;
        self.heads.follow(&indexed);
        self.define(rows, candidate)?;
        let facts = Facts {
            id,
            source,
            sequence: assigned.sequence,
            privacy: envelope.privacy,
            recorded_at: assigned.recorded_at,
            root: assigned.root,
            depth: assigned.depth,
        };
        self.cache.set_head(source, Head { sequence: assigned.sequence, chain, position });
        self.cache.last = super::cache::Last { position, recorded_at: assigned.recorded_at };
        self.cache.remember(position, facts);
        Ok((position, facts, chain))
    }

    /// Stores the hash of the definition that a type is written with.
    fn define(&mut self, rows: &mut Rows<'_>, candidate: &Candidate) -> Result<(), RowError> {
        let kind = candidate.kind();
        if !self.cache.defines(kind) {
            return Ok(());
        }
        let name = kind.to_string();
        let Some(hashes) = self.types.get(kind) else { return Ok(()) };
        let current = hashes.current.as_bytes();
        if rows.get(Table::Definitions, name.as_bytes())?.is_none_or(|stored| stored != current) {
            rows.put(Table::Definitions, name.as_bytes(), current);
        }
        Ok(())
    }
}
