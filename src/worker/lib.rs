//! How a model is asked, from inside the sandbox: packet in, one request, result out.
//!
//! It knows the messages of [`thoughtstream_domain::cell`] and nothing else: no key, no address, no file. What
//! surrounds it (namespaces, limits, a first filter of system calls) was put there before it started; it only
//! gives up the rest ([`confine`]).

pub mod confine;

use std::io::{Read, Write};

use thoughtstream_domain::cell::frame::{
    FrameError, FromWorker, Gather, PACKET_FRAME_BYTES_MAX, REQUEST_FRAME_BYTES_MAX, ToWorker, decode, encode,
};
use thoughtstream_domain::cell::{Ask, CellResult, Packet, Told, VERSION};

/// Read at once; a pipe gives no more.
const CHUNK: usize = 64 << 10;

/// Says why a worker gave no result.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The other side could not be read or written.
    #[error("the parent is gone")]
    Gone(#[source] std::io::Error),
    /// The other side closed too early.
    #[error("the parent closed before it had said everything")]
    Closed,
    /// A frame is none.
    #[error("the parent's frame is none of this protocol")]
    Frame(#[from] FrameError),
    /// A message came where another one was due, or of another version or run.
    #[error("the parent said something else than was due")]
    Unexpected,
}

impl WorkerError {
    /// Returns the exit code that stands for it.
    #[must_use]
    pub const fn exit(&self) -> u8 {
        match self {
            Self::Gone(_) | Self::Closed => 4,
            Self::Frame(_) | Self::Unexpected => 1,
        }
    }
}

/// Reads a packet, asks once, and writes what was answered as the run's result: the final parts as they are, and
/// which calls among them it captured. It asks nothing after that, whatever a model wants to have called.
///
/// # Errors
/// [`WorkerError`]; nothing was written then that could pass for a result.
pub fn run(input: &mut impl Read, output: &mut impl Write) -> Result<(), WorkerError> {
    let mut gather = Gather::default();
    let packet = match receive(input, &mut gather, PACKET_FRAME_BYTES_MAX)? {
        ToWorker::Packet(packet) if packet.version == VERSION => packet,
        ToWorker::Packet(_) | ToWorker::Told(_) => return Err(WorkerError::Unexpected),
    };
    let Packet { run, answer_bytes_max, proposals, request, .. } = packet;
    let ask = FromWorker::Ask(Ask { version: VERSION, run, request });
    send(output, &encode(&ask, REQUEST_FRAME_BYTES_MAX)?)?;
    drop(ask);
    let told: Told = match receive(input, &mut gather, answer_bytes_max)? {
        ToWorker::Told(told) if told.version == VERSION && told.run == run => told,
        ToWorker::Told(_) | ToWorker::Packet(_) => return Err(WorkerError::Unexpected),
    };
    let result = FromWorker::Result(CellResult::of(told, proposals.as_ref()));
    send(output, &encode(&result, answer_bytes_max)?)
}

fn receive(input: &mut impl Read, gather: &mut Gather, bytes_max: usize) -> Result<ToWorker, WorkerError> {
    let mut chunk = vec![0; CHUNK];
    loop {
        if let Some(frame) = gather.next(bytes_max)? {
            return Ok(decode(&frame)?);
        }
        match input.read(&mut chunk) {
            Ok(0) => return Err(WorkerError::Closed),
            Ok(length) => gather.push(&chunk[..length]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(WorkerError::Gone(error)),
        }
    }
}

fn send(output: &mut impl Write, frame: &[u8]) -> Result<(), WorkerError> {
    output.write_all(frame).and_then(|()| output.flush()).map_err(WorkerError::Gone)
}

#[cfg(test)]
mod tests {
    use thoughtstream_domain::cell::exchange::Exchange;
    use thoughtstream_domain::cell::{Answer, Code, Outcome, Part, Request};
    use thoughtstream_domain::content::Content;
    use thoughtstream_domain::hash::Sha256Hash;
    use thoughtstream_domain::id::RunId;
    use thoughtstream_domain::provider::StopReason;

    use super::*;

    fn packet() -> Packet {
        let request = Request::parse(r#"{"model":"m"}"#.to_owned()).unwrap();
        Packet::new(RunId::from_bytes([7; 20]), request)
    }

    fn answer() -> Outcome {
        let text = |text: &str| Content::new(text.to_owned());
        let parts = vec![
            Part::Thinking { bytes: 2, sha256: Sha256Hash::of(b"hm") },
            Part::Text { text: text("Good day") },
        ];
        Outcome::Answered(Answer { parts, stop: StopReason::Stop })
    }

    /// Returns what the parent writes in an undisturbed run.
    fn said(outcome: Outcome) -> Vec<u8> {
        let (mut exchange, mut bytes) = Exchange::begin(packet()).unwrap();
        bytes.extend(exchange.told(outcome).unwrap());
        bytes
    }

    #[test]
    fn it_asks_once_and_repeats_the_final_parts() {
        for outcome in [answer(), Outcome::Refused(Code::parse("provider-busy").unwrap())] {
            let mut output = Vec::new();
            run(&mut &said(outcome.clone())[..], &mut output).unwrap();
            let (mut exchange, _) = Exchange::begin(packet()).unwrap();
            let asked = u32::from_be_bytes(*output.first_chunk().unwrap()) as usize + 4;
            let request = exchange.heard(&output[..asked]).unwrap().unwrap();
            assert_eq!(request.as_json(), r#"{"model":"m"}"#);
            exchange.told(outcome.clone()).unwrap();
            exchange.heard(&output[asked..]).unwrap();
            let result = exchange.closed().unwrap();
            assert_eq!(result, CellResult::of(Told::new(packet().run, outcome), None));
        }
    }

    #[test]
    fn without_an_answer_there_is_no_result() {
        let whole = said(answer());
        let first = u32::from_be_bytes(*whole.first_chunk().unwrap()) as usize + 4;
        let told = |change: &dyn Fn(&mut Told)| {
            let mut told = Told::new(packet().run, answer());
            change(&mut told);
            [&whole[..first], &encode(&ToWorker::Told(told), 1 << 20).unwrap()].concat()
        };
        let cases = [
            whole[..first].to_vec(),
            whole[..whole.len() - 1].to_vec(),
            [&whole[..first], &whole[..first]].concat(),
            told(&|told| told.version = 1),
            told(&|told| told.run = RunId::from_bytes([8; 20])),
            [&whole[..first], &[255; 8][..]].concat(),
        ];
        for bytes in cases {
            let mut output = Vec::new();
            run(&mut &bytes[..], &mut output).unwrap_err();
            assert_eq!(output.len(), u32::from_be_bytes(*output.first_chunk().unwrap()) as usize + 4);
        }
    }

    #[test]
    fn a_packet_of_another_version_is_asked_nothing() {
        for version in [1, 3] {
            let strange = Packet { version, ..packet() };
            let bytes = encode(&ToWorker::Packet(strange), 1 << 20).unwrap();
            let mut output = Vec::new();
            assert!(matches!(run(&mut &bytes[..], &mut output), Err(WorkerError::Unexpected)));
            assert!(output.is_empty());
        }
    }
}
