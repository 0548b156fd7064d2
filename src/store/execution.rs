//! The stored forms of executions and of their attempts.

use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::{ConsumerKey, EventId, ExecutionId, RunId, SourceId};
use thoughtstream_domain::lifecycle::{
    AdapterRevision, Closure, Execution, ExecutionState, Run, RunState, Trigger,
};
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_domain::time::Timestamp;

use crate::codec::{Cursor, Malformed, put_bytes, put_number, put_signed};

/// The version of both forms. An execution in it is one of the runner of transforms, or of a build that knew no other.
const VERSION: u8 = 1;

/// The version of an execution that names the revision of its runner, behind all else.
const WITH_ADAPTER: u8 = 2;

const CLOSURES: [Closure; 8] = [
    Closure::Completed,
    Closure::Failed,
    Closure::Blocked,
    Closure::Abandoned,
    Closure::Skipped,
    Closure::Superseded,
    Closure::Inherited,
    Closure::Unprocessed,
];

fn closure_code(how: Closure) -> u8 {
    match how {
        Closure::Completed => 0,
        Closure::Failed => 1,
        Closure::Blocked => 2,
        Closure::Abandoned => 3,
        Closure::Skipped => 4,
        Closure::Superseded => 5,
        Closure::Inherited => 6,
        Closure::Unprocessed => 7,
    }
}

/// Returns the stored form of an execution; consumer and first position stand in its key as well.
pub(crate) fn write_execution(execution: &Execution) -> Vec<u8> {
    let mut out = Vec::with_capacity(160);
    let names_adapter = execution.adapter != AdapterRevision::default();
    out.push(if names_adapter { WITH_ADAPTER } else { VERSION });
    out.extend_from_slice(execution.id.as_bytes());
    put_bytes(&mut out, execution.consumer.to_string().as_bytes());
    put_bytes(&mut out, execution.source.as_str().as_bytes());
    out.extend_from_slice(execution.fingerprint.as_bytes());
    out.push(execution.privacy.code());
    put_number(&mut out, u64::from(execution.attempts));
    put_number(&mut out, u64::from(execution.failures));
    put_signed(&mut out, execution.since.as_millis());
    put_number(&mut out, execution.triggers.len() as u64);
    for trigger in &execution.triggers {
        out.extend_from_slice(trigger.id.as_bytes());
        put_number(&mut out, trigger.sequence);
        put_number(&mut out, trigger.position);
    }
    match &execution.state {
        ExecutionState::Running => out.push(0),
        ExecutionState::Waiting { at, code } => {
            out.push(1);
            put_signed(&mut out, at.as_millis());
            put_bytes(&mut out, code.as_bytes());
        }
        ExecutionState::Held { code, quarantined } => {
            out.push(if *quarantined { 3 } else { 2 });
            put_bytes(&mut out, code.as_bytes());
        }
        ExecutionState::Closed { how } => {
            out.push(4);
            out.push(closure_code(*how));
        }
    }
    if names_adapter {
        put_bytes(&mut out, execution.adapter.as_str().as_bytes());
    }
    out
}

/// Reads an execution.
pub(crate) fn read_execution(bytes: &[u8]) -> Result<Execution, Malformed> {
    let mut cursor = Cursor::new(bytes);
    let names_adapter = match cursor.byte()? {
        VERSION => false,
        WITH_ADAPTER => true,
        _ => return Err(cursor.malformed()),
    };
    let id = ExecutionId::from_bytes(cursor.array()?);
    let consumer = consumer(&mut cursor)?;
    let source = source(&mut cursor)?;
    let fingerprint = Sha256Hash::from_bytes(cursor.array()?);
    let privacy = Privacy::from_code(cursor.byte()?).ok_or(cursor.malformed())?;
    let (attempts, failures) = (cursor.number32()?, cursor.number32()?);
    let since = Timestamp::from_millis(cursor.signed()?);
    let count = cursor.number()?;
    let mut triggers = Vec::new();
    for _ in 0..count {
        let id = EventId::from_bytes(cursor.array()?);
        triggers.push(Trigger { id, sequence: cursor.number()?, position: cursor.number()? });
    }
    if triggers.is_empty() {
        return Err(cursor.malformed());
    }
    let state = match cursor.byte()? {
        0 => ExecutionState::Running,
        1 => ExecutionState::Waiting {
            at: Timestamp::from_millis(cursor.signed()?),
            code: cursor.text()?.to_owned(),
        },
        code @ (2 | 3) => ExecutionState::Held { code: cursor.text()?.to_owned(), quarantined: code == 3 },
        4 => {
            let how = CLOSURES.get(usize::from(cursor.byte()?)).ok_or(cursor.malformed())?;
            ExecutionState::Closed { how: *how }
        }
        _ => return Err(cursor.malformed()),
    };
    let adapter = if names_adapter {
        let at = cursor.malformed();
        AdapterRevision::parse(cursor.text()?).map_err(|_| at)?
    } else {
        AdapterRevision::default()
    };
    cursor.end()?;
    Ok(Execution {
        id,
        consumer,
        fingerprint,
        source,
        triggers,
        privacy,
        attempts,
        failures,
        state,
        since,
        adapter,
    })
}

/// Returns the stored form of a run.
pub(crate) fn write_run(run: &Run) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    out.push(VERSION);
    out.extend_from_slice(run.id.as_bytes());
    out.extend_from_slice(run.execution.as_bytes());
    put_bytes(&mut out, run.consumer.to_string().as_bytes());
    put_bytes(&mut out, run.source.as_str().as_bytes());
    put_number(&mut out, run.position);
    put_number(&mut out, u64::from(run.attempt));
    put_number(&mut out, run.incarnation);
    put_signed(&mut out, run.received_at.as_millis());
    match run.ended_at {
        Some(at) => {
            out.push(1);
            put_signed(&mut out, at.as_millis());
        }
        None => out.push(0),
    }
    let mut coded = |number: u8, code: &str| {
        out.push(number);
        put_bytes(&mut out, code.as_bytes());
    };
    match &run.state {
        RunState::Failed { code } => coded(3, code),
        RunState::Blocked { code } => coded(4, code),
        RunState::StatusUnknown { code } => coded(5, code),
        RunState::Abandoned { code } => coded(6, code),
        RunState::Received => out.push(0),
        RunState::Started => out.push(1),
        RunState::Completed { outputs } => {
            out.push(2);
            put_number(&mut out, outputs.len() as u64);
            outputs.iter().for_each(|output| out.extend_from_slice(output.as_bytes()));
        }
    }
    out
}

/// Reads a run.
pub(crate) fn read_run(bytes: &[u8]) -> Result<Run, Malformed> {
    let mut cursor = Cursor::new(bytes);
    version(&mut cursor)?;
    let id = RunId::from_bytes(cursor.array()?);
    let execution = ExecutionId::from_bytes(cursor.array()?);
    let consumer = consumer(&mut cursor)?;
    let source = source(&mut cursor)?;
    let position = cursor.number()?;
    let attempt = cursor.number32()?;
    let incarnation = cursor.number()?;
    let received_at = Timestamp::from_millis(cursor.signed()?);
    let ended_at = match cursor.byte()? {
        0 => None,
        1 => Some(Timestamp::from_millis(cursor.signed()?)),
        _ => return Err(cursor.malformed()),
    };
    let state = match cursor.byte()? {
        0 => RunState::Received,
        1 => RunState::Started,
        2 => {
            let count = cursor.number()?;
            let mut outputs = Vec::new();
            for _ in 0..count {
                outputs.push(EventId::from_bytes(cursor.array()?));
            }
            RunState::Completed { outputs }
        }
        3 => RunState::Failed { code: cursor.text()?.to_owned() },
        4 => RunState::Blocked { code: cursor.text()?.to_owned() },
        5 => RunState::StatusUnknown { code: cursor.text()?.to_owned() },
        6 => RunState::Abandoned { code: cursor.text()?.to_owned() },
        _ => return Err(cursor.malformed()),
    };
    cursor.end()?;
    Ok(Run { id, execution, consumer, position, attempt, source, state, received_at, ended_at, incarnation })
}

fn version(cursor: &mut Cursor<'_>) -> Result<(), Malformed> {
    if cursor.byte()? == VERSION { Ok(()) } else { Err(cursor.malformed()) }
}

fn consumer(cursor: &mut Cursor<'_>) -> Result<ConsumerKey, Malformed> {
    let at = cursor.malformed();
    ConsumerKey::parse(cursor.text()?).map_err(|_| at)
}

fn source(cursor: &mut Cursor<'_>) -> Result<SourceId, Malformed> {
    let at = cursor.malformed();
    SourceId::parse(cursor.text()?).map_err(|_| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn execution(state: ExecutionState) -> Execution {
        Execution {
            id: ExecutionId::from_bytes([1; 20]),
            consumer: ConsumerKey::parse("links@2").unwrap(),
            fingerprint: Sha256Hash::of(b"declaration"),
            source: SourceId::parse("notes:x").unwrap(),
            triggers: vec![Trigger { id: EventId::from_bytes([2; 32]), sequence: 7, position: 300 }],
            privacy: Privacy::Sensitive,
            attempts: 3,
            failures: 1,
            state,
            since: Timestamp::from_millis(-5),
            adapter: AdapterRevision::deterministic(),
        }
    }

    #[test]
    fn every_state_of_an_execution_is_read_back() {
        let code = || "provider".to_owned();
        let mut states = vec![
            ExecutionState::Running,
            ExecutionState::Waiting { at: Timestamp::from_millis(9), code: code() },
            ExecutionState::Held { code: code(), quarantined: false },
            ExecutionState::Held { code: code(), quarantined: true },
        ];
        states.extend(CLOSURES.map(|how| ExecutionState::Closed { how }));
        for state in states {
            let mut execution = execution(state);
            let plain = write_execution(&execution);
            assert_eq!(read_execution(&plain), Ok(execution.clone()));
            execution.adapter = AdapterRevision::observer_cell();
            let named = write_execution(&execution);
            assert_eq!(read_execution(&named), Ok(execution));
            assert_eq!(plain[1..], named[1..plain.len()], "what there was before is as it was");
        }
    }

    #[test]
    fn every_state_of_a_run_is_read_back() {
        let code = || "timeout".to_owned();
        let states = [
            RunState::Received,
            RunState::Started,
            RunState::Completed { outputs: vec![EventId::from_bytes([4; 32]), EventId::from_bytes([5; 32])] },
            RunState::Failed { code: code() },
            RunState::Blocked { code: code() },
            RunState::StatusUnknown { code: code() },
            RunState::Abandoned { code: code() },
        ];
        for state in states {
            let run = Run {
                id: RunId::from_bytes([1; 20]),
                execution: ExecutionId::from_bytes([1; 20]),
                consumer: ConsumerKey::parse("links@2").unwrap(),
                position: 300,
                attempt: 2,
                source: SourceId::parse("notes:x").unwrap(),
                ended_at: (!state.is_open()).then_some(Timestamp::from_millis(77)),
                state,
                received_at: Timestamp::from_millis(70),
                incarnation: 4,
            };
            assert_eq!(read_run(&write_run(&run)), Ok(run));
        }
    }

    /// Golden bytes: a change here is a change of the stored format and needs a new version beside it.
    #[test]
    fn the_form_of_an_execution_never_changes_silently() {
        let bytes = write_execution(&execution(ExecutionState::Closed { how: Closure::Skipped }));
        let hash = Sha256Hash::of(&bytes).to_string();
        assert_eq!(bytes.len(), 111);
        assert_eq!(&hash[..16], "ca923be4d3c501cb");
        let asks = execution(ExecutionState::Closed { how: Closure::Skipped });
        let named = write_execution(&Execution { adapter: AdapterRevision::parse("x-v1").unwrap(), ..asks });
        assert_eq!((named[0], &named[1..111], &named[111..]), (2, &bytes[1..], &b"\x04x-v1"[..]));
    }
}
