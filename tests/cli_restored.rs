//! A log made from a copy: what the copy does not know to be done may have been done since, and waits for a person.

use crate::cli_remembering::{MEMORY, Stage};

const WRITTEN: &str = "stream.thought.agent.memory-change.materialized";

#[test]
fn what_was_due_in_a_copy_is_neither_sent_nor_written_before_a_person_says_so() {
    for (out, back) in [("backup", "restore"), ("export", "import")] {
        let stage = Stage::new();
        let world = &stage.world;
        let service = stage.serve();
        stage.say("remember that I moved to Lisbon");
        stage.until_sent(1);
        let proposal = stage.of(MEMORY)[0]["id"].as_str().unwrap().to_owned();
        // One reply is settled and not claimed, one accepted change not begun.
        world.thought(&["rehearsal", "arm", "delivery.claim.before", "hold"]).expect(0);
        stage.say("beans?");
        let completed = "stream.thought.run.completed";
        world.until(&["status", "--json"], |_| stage.of(completed).len() == 2);
        service.kill();
        let deliveries = world.thought(&["delivery", "list", "--json"]).expect(0);
        assert_eq!(deliveries.lines().len(), 1, "the second is not claimed: {}", deliveries.stdout);
        world.thought(&["proposal-decision", &proposal, "accept"]).expect(0);
        let copy = world.base().join("copy").display().to_string();
        world.thought(&[out, &copy, "--acknowledge-sensitive"]).expect(0);
        std::fs::rename(&world.data, world.base().join("before")).unwrap();
        let made = world.thought(&[back, &copy]).expect(0).stdout;
        assert!(made.contains("nothing that was due is sent or written"), "{made}");

        let service = world.serve(&[]);
        let waiting = world.until(&["inbox", "--json"], |answer| {
            let kinds =
                answer.lines().iter().map(|one| one["kind"].to_string()).collect::<Vec<_>>().join(" ");
            kinds.contains("effects-held") && kinds.contains("delivery-unconfirmed")
        });
        let of = |kind: &str| waiting.lines().into_iter().find(|one| one["kind"] == kind).unwrap();
        let (held, unconfirmed) = (of("effects-held"), of("delivery-unconfirmed"));
        assert_eq!(held["command"], "thought consumer resume materializer");
        assert!(unconfirmed["why"].as_str().unwrap().starts_with("restored"), "{unconfirmed}");
        let delivery = unconfirmed["id"].as_str().unwrap();
        assert_eq!(unconfirmed["ways"][1], format!("thought delivery resend {delivery}"));
        // Whoever writes has looked, and says what it waits for.
        world.until(&["tree", "--json"], |answer| answer.stdout.contains("\"restored\""));
        assert_eq!(stage.rehearsal.sent_messages().len(), 1);
        assert!(!stage.memory().contains("Lisbon"));

        world.thought(&["consumer", "resume", "materializer"]).expect(0);
        world.until(&["event", "list", "--type", WRITTEN, "--json"], |answer| answer.lines().len() == 1);
        assert!(stage.memory().contains("Lives in Lisbon."));
        world.thought(&["delivery", "resend", delivery]).expect(0);
        stage.until_sent(2);
        assert_eq!(stage.rehearsal.sent_messages().len(), 2);
        assert_eq!(service.stop(), 0);
        world.thought(&["verify"]).expect(0);
    }
}
