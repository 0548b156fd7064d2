//! A dispatcher that dies at any point never delivers twice: one test for each step, because the delays before the
//! new starts add up.

use super::*;

/// The steps, as the points name them.
const STEPS: [&str; 3] = ["claim", "send", "receipt"];

fn points_of(step: &str) -> Vec<KillPoint> {
    let prefix = format!("delivery.{step}.");
    KillPoint::ALL.iter().copied().filter(|point| point.as_str().starts_with(&prefix)).collect()
}

#[test]
fn every_point_is_one_of_a_step_that_is_tried() {
    let all = KillPoint::ALL.iter().filter(|point| point.as_str().starts_with("delivery.")).count();
    assert_eq!((all, STEPS.iter().map(|step| points_of(step).len()).sum()), (9, 9));
}

async fn nothing_is_delivered_twice(step: &str) {
    assert!(STEPS.contains(&step));
    let bench = Bench::new().await;
    let service = bench.start().await;
    let mut turn = 0;
    for point in points_of(step) {
        for action in [KillAction::KillActor, KillAction::Panic, KillAction::Fail] {
            turn += 1;
            let (text, before) = (format!("answer {turn}"), standing(&service));
            let ended = |word: &&str| ["delivered", "unconfirmed"].contains(word);
            let ends = before.iter().filter(|word| ended(word)).count();
            let trap = bench.points.arm(Trap::new(point, action)).unwrap();
            answered(&bench, &service, &text).await;
            bench.points.sprung(trap).await;
            let mut head = service.handle().head();
            while standing(&service).iter().filter(|word| ended(word)).count() == ends {
                head.changed().await.unwrap();
            }
            let end = *standing(&service).iter().rev().find(|word| ended(word)).unwrap();
            let arrived = sent(&bench).iter().filter(|sent| **sent == text).count();
            let context = format!("{point} {action:?}: {end}, {arrived} arrived");
            match point.as_str() {
                // Nothing had begun, and that is known: it is sent after all.
                "delivery.claim.before"
                | "delivery.claim.inside"
                | "delivery.claim.after"
                | "delivery.send.before" => assert_eq!((end, arrived), ("delivered", 1), "{context}"),
                "delivery.send.inside" => assert_eq!((end, arrived), ("unconfirmed", 0), "{context}"),
                "delivery.send.after" | "delivery.receipt.before" => {
                    assert_eq!((end, arrived), ("unconfirmed", 1), "{context}");
                }
                _ => assert_eq!(arrived, 1, "{context}"),
            }
        }
    }
    bench.stop(service).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_it_claims() {
    nothing_is_delivered_twice("claim").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_it_sends() {
    nothing_is_delivered_twice("send").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_it_records_the_end() {
    nothing_is_delivered_twice("receipt").await;
}
