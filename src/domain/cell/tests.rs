mod calls;

use proptest::prelude::*;

use super::exchange::{Breach, Exchange};
use super::frame::{FrameError, FromWorker, Gather, REQUEST_FRAME_BYTES_MAX, ToWorker, decode, encode};
use super::*;

const REQUEST: &str = r#"{"model":"m","n":1e2, "x":[1 ,2]}"#;

fn run(byte: u8) -> RunId {
    RunId::from_bytes([byte; 20])
}

fn packet() -> Packet {
    Packet::new(run(1), Request::parse(REQUEST.to_owned()).unwrap())
}

fn ask() -> FromWorker {
    FromWorker::Ask(Ask { version: VERSION, run: run(1), request: packet().request })
}

fn text(text: &str) -> Part {
    Part::Text { text: Content::new(text.to_owned()) }
}

fn answer() -> Outcome {
    let call = |text: &str| Content::new(text.to_owned());
    let thinking = Part::Thinking { bytes: 7, sha256: Sha256Hash::of(b"hm") };
    let tool = Part::ToolCall { id: call("1"), name: call("look"), arguments: call("{\"a\":1") };
    let parts = vec![thinking, text("Good day 😀"), tool];
    Outcome::Answered(Answer { parts, stop: StopReason::Stop })
}

fn result() -> CellResult {
    CellResult::of(Told::new(run(1), answer()), None)
}

fn frame(message: &FromWorker) -> Vec<u8> {
    encode(message, REQUEST_FRAME_BYTES_MAX).unwrap()
}

/// Brings a conversation to where the answer is out.
fn answered() -> Exchange {
    let (mut exchange, _) = Exchange::begin(packet()).unwrap();
    exchange.heard(&frame(&ask())).unwrap().unwrap();
    exchange.told(answer()).unwrap();
    exchange
}

#[test]
fn a_conversation_in_order_gives_the_final_parts_and_counts_the_rest() {
    let (mut exchange, first) = Exchange::begin(packet()).unwrap();
    let ToWorker::Packet(read) = decode(&first[4..]).unwrap() else { panic!("no packet") };
    assert_eq!(read, packet());
    assert_eq!(read.request.as_json(), REQUEST, "the request is passed on byte for byte");
    let asked = exchange.heard(&frame(&ask())).unwrap().unwrap();
    assert_eq!(asked.as_json(), REQUEST);
    let told = exchange.told(answer()).unwrap();
    let ToWorker::Told(told) = decode(&told[4..]).unwrap() else { panic!("no answer") };
    let made = CellResult::of(told, None);
    assert!(exchange.heard(&frame(&FromWorker::Result(made))).unwrap().is_none());
    assert!(exchange.is_concluded());
    let result = exchange.closed().unwrap();
    let Outcome::Answered(Answer { parts, stop }) = result.outcome else { panic!("refused") };
    assert_eq!((parts.len(), stop), (2, StopReason::Stop));
    assert_eq!(parts[0], text("Good day 😀"));
    let counts =
        Counts { text_parts: 1, text_characters: 11, thinking_parts: 1, thinking_bytes: 7, tool_calls: 1 };
    assert_eq!(result.counts, counts);
}

#[test]
fn what_a_provider_answered_is_told_without_who_and_how_much() {
    let content = |text: &str| Content::new(text.to_owned());
    let (bytes, sha256) = (7, Sha256Hash::of(b"hm"));
    let call =
        AnswerPart::ToolCall { id: "1".to_owned(), name: "look".to_owned(), arguments: content("{\"a\":1") };
    let parts = vec![AnswerPart::Thinking { bytes, sha256 }, AnswerPart::Text(content("Good day 😀")), call];
    let (usage, model) = (provider::Usage::default(), "m".to_owned());
    let answered = provider::Answer { parts, stop: StopReason::Stop, usage, model };
    assert_eq!(Outcome::Answered(Answer::from(&answered)), answer());
    for code in ProviderCode::ALL {
        assert_eq!(Code::parse(code.as_str()).unwrap(), Code::from(*code));
    }
}

#[test]
fn a_refusal_comes_back_as_the_same_refusal() {
    let (mut exchange, _) = Exchange::begin(packet()).unwrap();
    exchange.heard(&frame(&ask())).unwrap().unwrap();
    let refused = Outcome::Refused(Code::parse("provider-busy").unwrap());
    exchange.told(refused.clone()).unwrap();
    let result = CellResult::of(Told::new(run(1), refused.clone()), None);
    exchange.heard(&frame(&FromWorker::Result(result))).unwrap();
    assert_eq!(exchange.closed().unwrap().outcome, refused);
}

#[test]
fn everything_else_before_the_answer_is_one_breach() {
    let other = |version, run| FromWorker::Ask(Ask { version, run, request: packet().request });
    let second = [frame(&ask()), frame(&ask())].concat();
    let early = [frame(&ask()), frame(&FromWorker::Result(result()))].concat();
    let unknown = br#"{"ask":{"version":2,"run":"run_aeaqcaibaeaqcaibaeaqcaibaeaqcaib","request":1,"x":1}}"#;
    let cases = [
        (frame(&FromWorker::Result(result())), Breach::EarlyResult),
        (second, Breach::SecondAsk),
        (early, Breach::EarlyResult),
        (frame(&other(1, run(1))), Breach::Version),
        (frame(&other(3, run(1))), Breach::Version),
        (frame(&other(VERSION, run(2))), Breach::OtherRun),
        (vec![255; 4], Breach::Oversize),
        (encode(&"ask", 100).unwrap(), Breach::Malformed),
        ([&[0, 0, 0, 2][..], b"{}"].concat(), Breach::Malformed),
        ([&[0, 0, 0, 0][..]].concat(), Breach::Malformed),
        ([&u32::try_from(unknown.len()).unwrap().to_be_bytes()[..], unknown].concat(), Breach::Malformed),
    ];
    for (bytes, breach) in cases {
        let (mut exchange, _) = Exchange::begin(packet()).unwrap();
        assert_eq!(exchange.heard(&bytes), Err(breach));
    }
    let (mut exchange, _) = Exchange::begin(packet()).unwrap();
    assert_eq!(exchange.heard(b"\0\0"), Ok(None));
    assert_eq!(exchange.closed(), Err(Breach::EndedEarly));
}

#[test]
fn everything_else_after_the_answer_is_one_breach() {
    let lied = |change: &dyn Fn(&mut CellResult)| {
        let mut result = result();
        change(&mut result);
        frame(&FromWorker::Result(result))
    };
    let outcome = |parts| Outcome::Answered(Answer { parts, stop: StopReason::Stop });
    let good = lied(&|_| ());
    let cases = [
        (frame(&ask()), Breach::SecondAsk),
        (lied(&|result| result.outcome = outcome(vec![text("Good night")])), Breach::Invented),
        (lied(&|result| result.outcome = outcome(Vec::new())), Breach::Invented),
        (lied(&|result| result.outcome = answer()), Breach::Invented),
        (lied(&|result| result.counts.tool_calls = 0), Breach::Invented),
        (lied(&|result| result.run = run(2)), Breach::OtherRun),
        (lied(&|result| result.version = 0), Breach::Version),
        ([good.clone(), vec![0]].concat(), Breach::Trailing),
        ([good.clone(), good.clone()].concat(), Breach::Trailing),
        (u32::try_from(ANSWER_BYTES_MAX + 1).unwrap().to_be_bytes().to_vec(), Breach::Oversize),
    ];
    for (bytes, breach) in cases {
        assert_eq!(answered().heard(&bytes), Err(breach), "{breach:?}");
    }
    let mut exchange = answered();
    exchange.heard(&good).unwrap();
    assert_eq!(exchange.heard(b"x"), Err(Breach::Trailing));
    assert_eq!(answered().closed(), Err(Breach::EndedEarly));
}

#[test]
fn what_does_not_fit_is_not_sent() {
    let long = "x".repeat(ANSWER_BYTES_MAX);
    let (mut exchange, _) = Exchange::begin(packet()).unwrap();
    exchange.heard(&frame(&ask())).unwrap();
    let outcome = Outcome::Answered(Answer { parts: vec![text(&long)], stop: StopReason::Stop });
    assert_eq!(exchange.told(outcome), Err(FrameError::Oversize));
    assert_eq!(Request::parse("x".repeat(REQUEST_BYTES_MAX + 1)), Err(RequestError));
    assert_eq!(Request::parse("{} {}".to_owned()), Err(RequestError));
    let widest = format!("\"{}\"", "x".repeat(REQUEST_BYTES_MAX - 2));
    assert!(Exchange::begin(Packet::new(run(1), Request::parse(widest).unwrap())).is_ok());
}

#[test]
fn nothing_that_is_said_is_printed() {
    let (mut exchange, _) = Exchange::begin(packet()).unwrap();
    exchange.heard(&frame(&ask())).unwrap();
    exchange.told(answer()).unwrap();
    let printed = format!("{exchange:?} {:?} {:?} {:?}", packet(), ask(), answer());
    for content in ["model", "Good day", "look"] {
        assert!(!printed.contains(content), "{content}");
    }
}

#[test]
fn a_frame_has_its_golden_bytes() {
    let golden = [
        &[0, 0, 0, 110][..],
        br#"{"ask":{"version":2,"run":"run_aeaqcaibaeaqcaibaeaqcaibaeaqcaib","request":{"model":"m","n":1e2, "x":[1 ,2]}}}"#,
    ];
    assert_eq!(String::from_utf8_lossy(&frame(&ask())), String::from_utf8_lossy(&golden.concat()));
    let codes: std::collections::BTreeSet<&str> = Breach::ALL.iter().map(|breach| breach.code()).collect();
    assert_eq!(codes.len(), Breach::ALL.len());
}

proptest! {
    #[test]
    fn pieces_of_any_size_make_the_same_frames(
        frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6),
        sizes in prop::collection::vec(1_usize..9, 1..8),
    ) {
        let mut bytes = Vec::new();
        for frame in &frames {
            bytes.extend_from_slice(&u32::try_from(frame.len()).unwrap().to_be_bytes());
            bytes.extend_from_slice(frame);
        }
        let (mut gather, mut found, mut rest) = (Gather::default(), Vec::new(), &bytes[..]);
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, after) = rest.split_at((*size).min(rest.len()));
            rest = after;
            gather.push(piece);
            while let Some(frame) = gather.next(40).unwrap() {
                found.push(frame);
            }
        }
        prop_assert_eq!(found, frames);
        prop_assert!(gather.is_empty());
    }

    #[test]
    fn no_bytes_make_the_parent_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for mut exchange in [Exchange::begin(packet()).unwrap().0, answered()] {
            prop_assert!(exchange.heard(&bytes).is_err() || !exchange.is_concluded());
        }
    }
}
