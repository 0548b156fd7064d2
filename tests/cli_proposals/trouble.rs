//! Deciding while others decide, while the power goes, and after something behind a decision is gone.

use serde_json::{Value, json};
use thoughtstream_testkit::proposals::{Setting, correct_again};

use super::{Desk, says_nothing};

#[test]
fn two_who_decide_at_once_from_two_terminals_get_one_decision() {
    let desk = Desk::new(&Setting::default());
    let running = desk.world.serve(&[]);
    let words = ["accept", "reject", "accept", "reject"];
    for id in [desk.memory(), desk.correction()] {
        let deciders = words.map(|word| ["proposal-decision", &id, word]);
        let answers = desk.world.at_once(&deciders.each_ref().map(|decider| &decider[..]));
        let stands = desk.one(&id)["decision"]["disposition"].as_str().unwrap().to_owned();
        let mut made = 0;
        for (word, answer) in words.iter().zip(answers) {
            if **word == stands {
                let answer = answer.expect(0);
                made += usize::from(!answer.stdout.starts_with("already"));
            } else {
                assert!(answer.expect(1).stderr.contains("proposal.decided"));
            }
        }
        // Whose process wrote it knows; those who came to say the same are told that it stands.
        assert_eq!(made, 1, "{stands}");
    }
    assert_eq!(desk.decisions().len(), 2);
    assert!(desk.judgments().len() <= 1);
    assert_eq!(running.stop(), 0);
    desk.verify();
}

#[test]
fn a_correction_that_is_accepted_while_a_person_corrects_the_same_reply_is_not_overlooked() {
    for _ in 0..5 {
        let desk = Desk::new(&Setting::default());
        let running = desk.world.serve(&[]);
        let right = json!({ "summary": "In Porto.", "tags": [], "importance": "normal", "confidence": 0.5 });
        std::fs::write(desk.world.base().join("right.json"), right.to_string()).unwrap();
        let reply: Value = desk.story.reply.payload_value().unwrap();
        let (run, correction) = (reply["stamp"]["run"].as_str().unwrap().to_owned(), desk.correction());
        let answers = desk.world.at_once(&[
            &["judge", &run, "--correct", "right.json"],
            &["proposal-decision", &correction, "accept"],
        ]);
        // Whoever comes second knows of the first.
        let (by_command, accepted) = (&answers[0], &answers[1]);
        assert_eq!(accepted.code, 0, "{accepted:?}");
        assert_eq!(by_command.code == 0, accepted.stdout.contains("contradicts another"), "{answers:?}");
        assert_eq!(by_command.code == 1, by_command.stderr.contains("judgment.contradicts"), "{answers:?}");
        assert_eq!(running.stop(), 0);
        desk.verify();
    }
}

#[test]
fn a_decision_survives_a_power_cut_at_every_point_of_its_own_and_what_follows_is_made_up_for() {
    survives(["proposal.decision.before", "proposal.decision.inside", "proposal.decision.after"]);
}

#[test]
fn a_decision_survives_a_power_cut_at_every_point_of_what_follows_which_is_made_up_for() {
    survives(["proposal.projection.before", "proposal.projection.inside", "proposal.projection.after"]);
}

fn survives(points: [&str; 3]) {
    for point in points {
        let desk = Desk::rehearsal();
        let correction = desk.correction();
        let running = desk.world.serve(&[]);
        desk.world.thought(&["rehearsal", "arm", point, "abort-process"]).expect(0);
        let cut = desk.decide(&correction, &["accept"]);
        assert!([4, 5].contains(&cut.code), "{point}: {cut:?}");
        assert_ne!(running.wait(), 0, "{point}");
        let decided = desk.decisions().len();
        assert!(decided <= 1 && (decided == 1 || point.starts_with("proposal.decision.")), "{point}");
        if point == "proposal.decision.after" || point == "proposal.projection.before" {
            assert_eq!(desk.one(&correction)["state"], "unprojected", "{point}");
            let command = desk.inbox().iter().map(|row| row["command"].to_string()).collect::<String>();
            assert!(command.contains("thought proposal-project evt_"), "{command}");
            assert!(desk.judgments().is_empty(), "{point}");
        }
        desk.verify();
        // Half of what was cut off is made up for by a service, half without one.
        let running = point.ends_with("after").then(|| desk.world.serve(&[]));
        desk.world.thought(&["proposal-project"]).expect(0);
        desk.decide(&correction, &["accept"]).expect(0);
        assert_eq!(desk.one(&correction)["state"], "projected", "{point}");
        assert_eq!((desk.decisions().len(), desk.judgments().len()), (1, 1), "{point}");
        if let Some(running) = running {
            assert_eq!(running.stop(), 0);
        }
        desk.verify();
    }
}

#[test]
fn a_correction_that_cannot_be_projected_keeps_no_other_from_its_judgment() {
    for serves in [false, true] {
        let desk = Desk::rehearsal();
        let first = desk.correction();
        let second = Desk::written(&desk.world, |store| correct_again(store, &desk.story, "In Lisbon."));
        let second = second.id.to_string();
        for id in [&first, &second] {
            let running = desk.world.serve(&[]);
            desk.world.thought(&["rehearsal", "arm", "proposal.decision.after", "abort-process"]).expect(0);
            let cut = desk.decide(id, &["accept"]);
            assert!([4, 5].contains(&cut.code), "{cut:?}");
            assert_ne!(running.wait(), 0);
            assert_eq!(desk.one(id)["state"], "unprojected");
        }
        assert!(desk.judgments().is_empty());
        desk.world.thought(&["event", "redact", &first, "--reason", "not mine"]).expect(0);
        let running = serves.then(|| desk.world.serve(&[]));
        for _ in 0..2 {
            let told = desk.world.thought(&["proposal-project"]).expect(1);
            assert!(told.stderr.contains("proposal.left") && told.stderr.contains(&first), "{told:?}");
            assert!(told.stderr.contains("proposal.lineage") && !told.stderr.contains(&second), "{told:?}");
            says_nothing(&told);
            assert_eq!((desk.judgments().len(), &desk.one(&second)["state"]), (1, &json!("projected")));
        }
        // What is named is answered for itself.
        assert!(
            desk.world.thought(&["proposal-project", &first]).expect(1).stderr.contains("proposal.lineage")
        );
        desk.world.thought(&["proposal-project", &second]).expect(0);
        if let Some(running) = running {
            assert_eq!(running.stop(), 0);
        }
    }
}
