//! The stored form of an event: a compact header, then the payload as it came.
//!
//! Names are numbers of the log's own table; everything else stands in the record, so that one read gives the
//! whole event. The first byte is the form's version: golden bytes of each version stay in the tests.

use thoughtstream_domain::content::Content;
use thoughtstream_domain::event::{Actor, ActorKind, Candidate, Event, Payload, Reference};
use thoughtstream_domain::hash::{Assigned, ChainHash, Sha256Hash};
use thoughtstream_domain::id::{EventId, IdempotencyKey, TypeRef};
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_domain::time::Timestamp;

use crate::codec::{Cursor, Malformed, put_bytes, put_number, put_signed};
use crate::names::Names;

/// The version of the form written now.
const VERSION: u8 = 1;

const HAS_OCCURRED: u8 = 1;
const HAS_ADDRESS: u8 = 1 << 1;
const HAS_EXTERNAL: u8 = 1 << 2;
const HAS_CORRELATION: u8 = 1 << 3;
const REDACTED: u8 = 1 << 4;

/// What the writer adds to a candidate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placement<'a> {
    pub(crate) source: u32,
    pub(crate) kind: u32,
    pub(crate) assigned: Assigned,
    pub(crate) chain: ChainHash,
    /// The positions of the candidate's parents, in the same order.
    pub(crate) parents: &'a [u64],
}

/// What a child needs to know of its parent, and an index of its event; read without the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) id: EventId,
    pub(crate) source: u32,
    pub(crate) sequence: u64,
    pub(crate) privacy: Privacy,
    pub(crate) recorded_at: Timestamp,
    pub(crate) root: EventId,
    pub(crate) depth: u32,
}

/// What a record's header says, borrowed from a candidate or an event.
struct Header<'a> {
    id: &'a EventId,
    version: u32,
    source: u32,
    kind: u32,
    assigned: Assigned,
    privacy: Privacy,
    actor: &'a Actor,
    key: &'a IdempotencyKey,
    occurred_at: Option<Timestamp>,
    references: [&'a Option<Reference>; 3],
    payload_sha256: &'a Sha256Hash,
    chain: &'a ChainHash,
    redacted: bool,
}

impl Header<'_> {
    fn write<'p>(&self, out: &mut Vec<u8>, parents: impl ExactSizeIterator<Item = (&'p EventId, u64)>) {
        let flag = |present: bool, bit: u8| if present { bit } else { 0 };
        let [address, external, correlation] = self.references;
        out.push(VERSION);
        out.push(
            flag(self.occurred_at.is_some(), HAS_OCCURRED)
                | flag(address.is_some(), HAS_ADDRESS)
                | flag(external.is_some(), HAS_EXTERNAL)
                | flag(correlation.is_some(), HAS_CORRELATION)
                | flag(self.redacted, REDACTED),
        );
        // What a parent look-up needs comes first.
        out.extend_from_slice(self.id.as_bytes());
        put_number(out, u64::from(self.source));
        put_number(out, self.assigned.sequence);
        out.push(self.privacy.code() << 4 | self.actor.kind.code());
        put_signed(out, self.assigned.recorded_at.as_millis());
        put_number(out, u64::from(self.assigned.depth));
        if self.assigned.depth > 0 {
            out.extend_from_slice(self.assigned.root.as_bytes());
        }
        put_number(out, u64::from(self.kind));
        put_number(out, u64::from(self.version));
        put_bytes(out, self.actor.id.as_str().as_bytes());
        put_bytes(out, self.key.as_str().as_bytes());
        if let Some(at) = self.occurred_at {
            put_signed(out, at.as_millis());
        }
        put_number(out, parents.len() as u64);
        for (id, position) in parents {
            out.extend_from_slice(id.as_bytes());
            put_number(out, position);
        }
        for reference in self.references.into_iter().flatten() {
            put_bytes(out, reference.as_str().as_bytes());
        }
        out.extend_from_slice(self.payload_sha256.as_bytes());
        out.extend_from_slice(self.chain.as_bytes());
    }
}

/// Appends the record of a candidate.
pub(crate) fn write(out: &mut Vec<u8>, candidate: &Candidate, placement: &Placement<'_>) {
    let envelope = candidate.envelope();
    let header = Header {
        id: &candidate.id(),
        version: candidate.kind().version,
        source: placement.source,
        kind: placement.kind,
        assigned: placement.assigned,
        privacy: envelope.privacy,
        actor: &envelope.actor,
        key: &envelope.key,
        occurred_at: envelope.occurred_at,
        references: [&envelope.address, &envelope.external, &envelope.correlation],
        payload_sha256: candidate.payload_sha256(),
        chain: &placement.chain,
        redacted: false,
    };
    let ids = envelope.parents.iter().map(|parent| &parent.id);
    header.write(out, ids.zip(placement.parents.iter().copied()));
    out.extend_from_slice(candidate.payload().reveal());
}

/// Returns the record of an event that was read before, here or elsewhere.
pub(crate) fn write_stored(stored: &Stored) -> Vec<u8> {
    let event = &stored.event;
    let header = Header {
        id: &event.id,
        version: event.kind.version,
        source: stored.source,
        kind: stored.kind,
        assigned: event.assigned(),
        privacy: event.privacy,
        actor: &event.actor,
        key: &event.key,
        occurred_at: event.occurred_at,
        references: [&event.address, &event.external, &event.correlation],
        payload_sha256: &event.payload_sha256,
        chain: &event.chain,
        redacted: event.payload == Payload::Redacted,
    };
    let mut out = Vec::with_capacity(512);
    header.write(&mut out, event.parents.iter().zip(stored.parents.iter().copied()));
    if let Payload::Present(content) = &event.payload {
        out.extend_from_slice(content.reveal());
    }
    out
}

struct Start {
    flags: u8,
    actor: ActorKind,
    facts: Facts,
}

fn read_start(cursor: &mut Cursor<'_>) -> Result<Start, Malformed> {
    if cursor.byte()? != VERSION {
        return Err(cursor.malformed());
    }
    let flags = cursor.byte()?;
    let id = EventId::from_bytes(cursor.array()?);
    let source = cursor.number32()?;
    let sequence = cursor.number()?;
    let codes = cursor.byte()?;
    let privacy = Privacy::from_code(codes >> 4).ok_or(cursor.malformed())?;
    let actor = ActorKind::from_code(codes & 0xf).ok_or(cursor.malformed())?;
    let recorded_at = Timestamp::from_millis(cursor.signed()?);
    let depth = cursor.number32()?;
    let root = if depth > 0 { EventId::from_bytes(cursor.array()?) } else { id };
    Ok(Start { flags, actor, facts: Facts { id, source, sequence, privacy, recorded_at, root, depth } })
}

/// Reads what a child needs to know.
pub(crate) fn read_facts(record: &[u8]) -> Result<Facts, Malformed> {
    Ok(read_start(&mut Cursor::new(record))?.facts)
}

/// Reads the numbers of a record's source and type.
pub(crate) fn read_numbers(record: &[u8]) -> Result<(u32, u32), Malformed> {
    let mut cursor = Cursor::new(record);
    let start = read_start(&mut cursor)?;
    Ok((start.facts.source, cursor.number32()?))
}

/// Is an event with the positions of its parents and the numbers of its names, as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) event: Event,
    pub(crate) source: u32,
    pub(crate) kind: u32,
    pub(crate) parents: Vec<u64>,
}

impl Stored {
    /// Says whether the payload has the hash that was recorded with the event; what was erased has none to compare.
    pub(crate) fn has_recorded_payload(&self) -> bool {
        match &self.event.payload {
            Payload::Present(content) => Sha256Hash::of(content.reveal()) == self.event.payload_sha256,
            Payload::Redacted => true,
            Payload::Damaged => false,
        }
    }
}

/// Reads which event of which source a record is, and its link, without building anything.
pub(crate) fn read_link(record: &[u8]) -> Result<(u32, u64, ChainHash), Malformed> {
    let mut cursor = Cursor::new(record);
    let Start { flags, facts, .. } = read_start(&mut cursor)?;
    // Type, version, actor, key.
    cursor.number32()?;
    cursor.number32()?;
    cursor.bytes()?;
    cursor.bytes()?;
    if flags & HAS_OCCURRED != 0 {
        cursor.signed()?;
    }
    for _ in 0..cursor.number()? {
        cursor.array::<32>()?;
        cursor.number()?;
    }
    for bit in [HAS_ADDRESS, HAS_EXTERNAL, HAS_CORRELATION] {
        if flags & bit != 0 {
            cursor.bytes()?;
        }
    }
    cursor.array::<32>()?;
    Ok((facts.source, facts.sequence, ChainHash::from_bytes(cursor.array()?)))
}

/// Reads a whole record, and leaves it to the caller whether it is what was recorded: whoever acts on it or shows it
/// goes through [`View::held`](crate::reader::View::held).
pub(crate) fn read(position: u64, record: &[u8], names: &Names) -> Result<Stored, Malformed> {
    let mut cursor = Cursor::new(record);
    let Start { flags, actor, facts } = read_start(&mut cursor)?;
    let kind = cursor.number32()?;
    let version = cursor.number32()?;
    let name = names.kind(kind).ok_or(cursor.malformed())?;
    let source = names.source(facts.source).ok_or(cursor.malformed())?;
    let actor = Actor { kind: actor, id: reference(&mut cursor)? };
    let key = IdempotencyKey::parse(cursor.text()?).map_err(|_| cursor.malformed())?;
    let occurred_at = if flags & HAS_OCCURRED == 0 { None } else { Some(cursor.signed()?) };
    let count = cursor.number()?;
    let mut parents = Vec::new();
    let mut positions = Vec::new();
    for _ in 0..count {
        parents.push(EventId::from_bytes(cursor.array()?));
        positions.push(cursor.number()?);
    }
    let mut optional = |bit: u8| (flags & bit != 0).then(|| reference(&mut cursor)).transpose();
    let (address, external, correlation) =
        (optional(HAS_ADDRESS)?, optional(HAS_EXTERNAL)?, optional(HAS_CORRELATION)?);
    let payload_sha256 = Sha256Hash::from_bytes(cursor.array()?);
    let chain = ChainHash::from_bytes(cursor.array()?);
    let payload = if flags & REDACTED == 0 {
        Payload::Present(Content::new(cursor.rest().into()))
    } else {
        cursor.end()?;
        Payload::Redacted
    };
    let event = Event {
        position,
        id: facts.id,
        kind: TypeRef::new(name, version),
        source,
        sequence: facts.sequence,
        privacy: facts.privacy,
        actor,
        key,
        occurred_at: occurred_at.map(Timestamp::from_millis),
        recorded_at: facts.recorded_at,
        root: facts.root,
        parents,
        depth: facts.depth,
        address,
        external,
        correlation,
        payload,
        payload_sha256,
        chain,
    };
    Ok(Stored { event, source: facts.source, kind, parents: positions })
}

fn reference(cursor: &mut Cursor<'_>) -> Result<Reference, Malformed> {
    let at = cursor.malformed();
    Reference::parse(cursor.text()?).map_err(|_| at)
}

/// Returns the record with its payload erased; the header, and so the chain, stays as it was.
pub(crate) fn redact(record: &[u8], names: &Names) -> Result<Vec<u8>, Malformed> {
    let stored = read(0, record, names)?;
    let payload = match &stored.event.payload {
        Payload::Present(content) => content.reveal().len(),
        Payload::Redacted | Payload::Damaged => 0,
    };
    let mut out = record[..record.len() - payload].to_vec();
    out[1] |= REDACTED;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use data_encoding::HEXLOWER;
    use thoughtstream_domain::event::{Envelope, Parent};
    use thoughtstream_domain::id::SourceId;
    use thoughtstream_domain::payload::TypedPayload;
    use thoughtstream_domain::payload::note::Note;

    use super::*;
    use crate::names::NameKind;

    fn names() -> Names {
        let names = Names::default();
        assert!(
            names.learn(NameKind::Source, 7, "notes:desk") && names.learn(NameKind::Type, 300, Note::NAME)
        );
        names
    }

    fn candidate(full: bool) -> Candidate {
        let actor = Actor::ours(ActorKind::Person, "uid:1000");
        let source = SourceId::parse("notes:desk").unwrap();
        let key = IdempotencyKey::parse("2026-11-29/1").unwrap();
        let mut envelope = Envelope::new(source, key, Privacy::Sensitive, actor);
        if full {
            envelope.occurred_at = Some(Timestamp::from_millis(-1));
            envelope.parents = vec![Parent::named(EventId::from_bytes([3; 32]))];
            envelope.address = Some(Reference::parse("links").unwrap());
            envelope.external = Some(Reference::parse("outside").unwrap());
            envelope.correlation = Some(Reference::parse("group").unwrap());
        }
        Note { text: "hello".to_owned(), title: None, tags: Vec::new() }.candidate(envelope)
    }

    fn record(full: bool) -> Vec<u8> {
        let candidate = candidate(full);
        let (root, depth) = if full { (EventId::from_bytes([2; 32]), 4) } else { (candidate.id(), 0) };
        let recorded_at = Timestamp::from_millis(1_764_452_608_000);
        let assigned = Assigned { sequence: 129, recorded_at, root, depth };
        let parents: &[u64] = if full { &[70_000] } else { &[] };
        let chain = ChainHash::from_bytes([5; 32]);
        let mut out = Vec::new();
        write(&mut out, &candidate, &Placement { source: 7, kind: 300, assigned, chain, parents });
        out
    }

    /// Golden bytes of version 1: if these change, stored logs cannot be read any more. A new form gets a new
    /// version beside it.
    const GOLDEN: [&str; 2] = [
        "0100e8a18b2ceb4c75710691006606611190aac5859e73bc24d740c517c7d47628aa0781012380a09199da6600\
         ac0201087569643a313030300c323032362d31312d32392f3100cbbbdcd27692344de5dbab3abcaba413fb0f45\
         307267de7081401576df1cb1760505050505050505050505050505050505050505050505050505050505050505\
         7b2274657874223a2268656c6c6f227d",
        "010fe8a18b2ceb4c75710691006606611190aac5859e73bc24d740c517c7d47628aa0781012380a09199da6604\
         0202020202020202020202020202020202020202020202020202020202020202ac0201087569643a313030300c\
         323032362d31312d32392f31010103030303030303030303030303030303030303030303030303030303030303\
         03f0a204056c696e6b73076f7574736964650567726f7570cbbbdcd27692344de5dbab3abcaba413fb0f453072\
         67de7081401576df1cb17605050505050505050505050505050505050505050505050505050505050505057b22\
         74657874223a2268656c6c6f227d",
    ];

    #[test]
    fn the_stored_form_never_changes_silently() {
        for (full, golden) in [false, true].into_iter().zip(GOLDEN) {
            let bytes = record(full);
            assert_eq!(HEXLOWER.encode(&bytes), golden);
            let stored = read(9, &HEXLOWER.decode(golden.as_bytes()).unwrap(), &names()).unwrap();
            let candidate = candidate(full);
            assert_eq!(stored.event.id, candidate.id());
            assert_eq!(stored.event.digest(), *candidate.digest());
            assert_eq!((stored.event.sequence, stored.event.position), (129, 9));
            let link = (stored.source, stored.event.sequence, stored.event.chain);
            assert_eq!(read_link(&bytes).unwrap(), link);
            assert_eq!(write_stored(&stored), bytes);
        }
    }

    #[test]
    fn a_header_stays_small() {
        for full in [false, true] {
            let header = record(full).len() - candidate(full).payload().reveal().len();
            assert!(header <= 300, "{header} bytes");
        }
    }

    #[test]
    fn a_record_cut_anywhere_is_malformed_and_never_another_event() {
        let bytes = record(true);
        let header = bytes.len() - candidate(true).payload().reveal().len();
        for length in 0..header {
            assert!(read(9, &bytes[..length], &names()).is_err(), "{length}");
            assert!(read_link(&bytes[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn redacting_twice_is_redacting_once() {
        let once = redact(&record(true), &names()).unwrap();
        assert_eq!(read(9, &once, &names()).unwrap().event.payload, Payload::Redacted);
        assert_eq!(redact(&once, &names()).unwrap(), once);
    }
}
