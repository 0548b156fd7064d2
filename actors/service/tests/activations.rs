//! What the service does for an activation, where it cannot do it.

use thoughtstream_domain::activation::{begin, last};
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::payload::activation::{ActivationBegun, Step, StepFacts};
use thoughtstream_domain::payload::system::Operator;

use super::*;

fn begun() -> ActivationBegun {
    ActivationBegun {
        consumer: ConsumerId::parse("document-structure").unwrap(),
        number: 1,
        from: ConsumerKey::parse("document-structure@1").unwrap(),
        to: ConsumerKey::parse("document-structure@2").unwrap(),
        fingerprint: Sha256Hash::of(b"two"),
        source: SourceId::parse("telegram:garden").unwrap(),
        plan: Sha256Hash::of(b"plan"),
        operator: Operator { uid: 7, pid: 8, tty: None },
    }
}

#[tokio::test]
async fn a_bot_that_never_rests_is_not_waited_for_without_end() {
    let bench = Bench::new();
    let service = bench.start(STRUCTURE).await;
    tokio::time::pause();
    // There is no such bot, so nobody says that it rests.
    let source = SourceId::parse("telegram:garden").unwrap();
    let frozen = service.handle().freeze(&source).await;
    assert!(matches!(frozen, Err(ActivateError::Restless(who)) if who == source));
    assert!(service.handle().gate(&source).is_closed(), "whoever goes on finds it closed");
    tokio::time::resume();
    service.stop();
    assert_eq!(service.ended().await, Outcome::Stopped);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_has_begun_or_given_up_is_not_written_over() {
    let bench = Bench::new();
    let service = bench.start(STRUCTURE).await;
    let handle = service.handle();
    handle.record(begin(&begun())).await.unwrap();
    let other = ActivationBegun { to: ConsumerKey::parse("document-structure@3").unwrap(), ..begun() };
    assert!(matches!(handle.record(begin(&other)).await, Err(ActivateError::Conflict)));
    let read = || last(&begun().consumer, |id| handle.reader().event(id)).unwrap().unwrap();
    let early = read().step(Step::Stopped, StepFacts::default());
    assert!(matches!(handle.record(early).await, Err(ActivateError::Refused(_))), "a step has one before it");
    handle.record(read().cancel(begun().operator).unwrap()).await.unwrap();
    let late = read().step(Step::Frozen, StepFacts::default());
    assert!(matches!(handle.record(late).await, Err(ActivateError::Refused(_))), "it was given up");
    service.stop();
    assert_eq!(service.ended().await, Outcome::Stopped);
    drop(service);
    bench.verified();
}
