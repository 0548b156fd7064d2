//! What a person does meanwhile: gives commands again until they are done, decides, moves versions, and does what the inbox
//! names.

use super::*;

/// A command that is in the way of nothing succeeds long before it was tried so often.
const TRIES_MAX: u32 = 60;

/// Is a command that a person gave, and gives again until it is done.
pub(super) struct Errand {
    arguments: Vec<String>,
    child: Child,
    tries: u32,
    meant: Meant,
}

/// Says when a command is done.
pub(super) enum Meant {
    /// Once this is decided, or somebody has decided otherwise.
    Decide(EventId, Disposition),
    /// However it ends: the way out that the inbox named may be closed by now.
    Try,
}

impl Schedule<'_> {
    pub(super) fn send(&mut self, arguments: Vec<String>, meant: Meant) {
        let child = self.start(&arguments);
        self.errands.push(Errand { arguments, child, tries: 1, meant });
    }

    /// Gives a command of which nothing depends on how it ends.
    pub(super) fn attempt(&mut self, arguments: &[&str]) {
        self.send(arguments.iter().map(|word| (*word).to_owned()).collect(), Meant::Try);
    }

    fn start(&mut self, arguments: &[String]) -> Child {
        self.note(format!("thought {}", arguments.join(" ")));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut command = self.stage.told.world.command(&arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Takes notice of commands that have ended, and gives those again that are not done.
    pub(super) fn see_to_errands(&mut self) {
        for mut errand in std::mem::take(&mut self.errands) {
            if errand.child.try_wait().unwrap().is_none() {
                self.errands.push(errand);
                continue;
            }
            let answer: Answer = errand.child.wait_with_output().unwrap().into();
            self.note(format!("ended with {}: thought {}", answer.code, errand.arguments.join(" ")));
            match &errand.meant {
                Meant::Try => continue,
                Meant::Decide(proposal, disposition) if answer.code == 0 => {
                    let before = self.decided.insert(*proposal, disposition.clone());
                    let same = before.is_none_or(|before| before == *disposition);
                    assert!(same, "{}two were told that they decided about {proposal}", self.told());
                    continue;
                }
                Meant::Decide(..) if answer.stderr.contains("proposal.decided") => continue,
                Meant::Decide(..) => {}
            }
            // Lost, or refused for now, or the service fell while it answered: the same command goes on.
            let goes_on = [1, 4, 5, 70].contains(&answer.code) && errand.tries < TRIES_MAX;
            if !goes_on {
                self.give_up(&format!("thought {}: {answer:?}", errand.arguments.join(" ")));
            }
            std::thread::sleep(LOOK_EVERY);
            errand.child = self.start(&errand.arguments);
            errand.tries += 1;
            self.errands.push(errand);
        }
    }

    /// Does what the inbox names as the way out of what would wait for ever.
    pub(super) fn nurse(&mut self) {
        for row in self.stage.look(Ask::Inbox).unwrap_or_default() {
            let command = row["command"].as_str().unwrap_or_default();
            let id = row["id"].as_str().unwrap_or_default();
            let kind = row["kind"].as_str().unwrap_or_default();
            if kind.starts_with("delivery-") {
                self.reconcile(id);
            } else if command.contains("proposal-project")
                || kind.starts_with("consumer-")
                || kind.starts_with("actor-")
            {
                let words: Vec<&str> = command.trim_start_matches("thought ").split(' ').collect();
                self.attempt(&words);
            } else if kind.starts_with("execution-") || kind == "status-unknown" {
                self.attempt(&["consumer", "retry", id]);
            }
        }
    }

    /// Says of a delivery whose end nobody knows what the chat shows.
    fn reconcile(&mut self, id: &str) {
        let Some(rows) = self.stage.look(Ask::Delivery { id: id.parse().unwrap() }) else { return };
        let Some(output) = rows.first().and_then(|row| row["output"].as_str()?.parse().ok()) else { return };
        let Some(shown) = self.stage.look(Ask::Event { id: output, content: true }) else { return };
        let Some(text) = shown.first().and_then(|event| event["payload"]["observation"]["summary"].as_str())
        else {
            return;
        };
        let arrived = self.stage.told.rehearsal.sent_messages().iter().any(|sent| sent.text.reveal() == text);
        let word = if arrived { "confirm" } else { "resend" };
        self.attempt(&["delivery", word, id]);
    }

    /// Decides about what waits for a decision. Now and then somebody else does so at the same time, in the same way or
    /// another: one decision stands, and whoever is told that they have decided are told the same.
    pub(super) fn decide(&mut self) {
        let Some(rows) = self.stage.look(Ask::Proposals(all_proposals())) else { return };
        let waiting = rows.iter().filter(|row| row["state"] == "waiting" || row["state"] == "stale");
        let waiting = waiting.filter_map(|row| Some((row["id"].as_str()?.to_owned(), row["kind"].clone())));
        for (id, kind) in waiting.collect::<Vec<_>>() {
            // What follows from an acceptance is waited for.
            let leads_on = kind == "memory-change" && self.awaits("materialize.")
                || kind == "self-correction" && self.awaits("proposal.projection.");
            let (disposition, words) = match self.dice.below(if leads_on { 80 } else { 100 }) {
                0..=59 => (Disposition::Accept, vec!["accept"]),
                60..=79 => {
                    let text =
                        format!("As a person has it, number {}.", self.decided.len() + self.errands.len());
                    std::fs::write(self.stage.told.world.base().join(&id), &text).unwrap();
                    let replacement = ProposedText::new(text).unwrap();
                    (Disposition::Edit { replacement }, vec!["edit", "--file", &id])
                }
                80..=94 => (Disposition::Reject, vec!["reject"]),
                _ => continue,
            };
            let proposal = id.parse().unwrap();
            let words = ["proposal-decision", &id].into_iter().chain(words);
            let words: Vec<String> = words.map(str::to_owned).collect();
            match self.dice.below(100) {
                0..=9 => self.send(words.clone(), Meant::Decide(proposal, disposition.clone())),
                10..=19 if !leads_on => {
                    let rival = ["proposal-decision", &id, "reject"].map(str::to_owned).into();
                    self.send(rival, Meant::Decide(proposal, Disposition::Reject));
                }
                _ => {}
            }
            self.send(words, Meant::Decide(proposal, disposition));
        }
    }

    /// Moves whoever answers to the next version, by the same command until it is done.
    pub(super) fn activate(&mut self) {
        let (staged, version) = self.stage.next_version();
        let staged = staged.to_str().unwrap().to_owned();
        let plan = ["activate", CONSUMER, "--json", "--from", &staged].map(str::to_owned);
        let planned = self.until_done(&plan, 0);
        let plan_hash = planned.lines()[0]["confirm"].as_str().unwrap().to_owned();
        let confirmed: Vec<String> = plan.into_iter().chain(["--confirm".to_owned(), plan_hash]).collect();
        let mut done = 0;
        for _ in 0..TRIES_MAX {
            self.arm_for_a_step(done);
            let answer = self.run(&confirmed);
            done = steps(&answer).max(done);
            if answer.code == 0 {
                assert_eq!(self.stage.next_version().1, version + 1, "{}", self.told());
                return;
            }
            if ![1, 4, 5, 70].contains(&answer.code) {
                self.give_up(&format!("{answer:?}"));
            }
            // What stands in the way may wait for a person.
            self.nurse();
        }
        self.give_up("an activation does not come to its end");
    }

    /// Sets the trap of one of the steps that are not done.
    fn arm_for_a_step(&mut self, done: usize) {
        if self.cards.iter().any(|(card, place)| card.step.is_some() && *place == Place::Armed) {
            return;
        }
        let step = |card: &Card| card.step.and_then(|step| Step::ALL.iter().position(|other| *other == step));
        let ahead = (0..self.cards.len()).filter(|at| self.cards[*at].1 != Place::Sprung);
        let ahead = ahead.filter_map(|at| Some((step(&self.cards[at].0).filter(|step| *step >= done)?, at)));
        let Some((step, at)) = ahead.min() else { return };
        if self.set(self.cards[at].0, u32::try_from(step - done + 1).unwrap()) {
            self.cards[at].1 = Place::Armed;
        }
    }

    /// Gives one command and waits for its end, whatever falls meanwhile.
    fn run(&mut self, arguments: &[String]) -> Answer {
        let mut child = self.start(arguments);
        let begun = Instant::now();
        while child.try_wait().unwrap().is_none() {
            self.tend();
            if begun.elapsed() > QUIET_WITHIN {
                self.give_up(&format!("it does not end: thought {}", arguments.join(" ")));
            }
        }
        let answer: Answer = child.wait_with_output().unwrap().into();
        self.note(format!("ended with {}", answer.code));
        self.tend();
        answer
    }

    fn until_done(&mut self, arguments: &[String], code: i32) -> Answer {
        for _ in 0..TRIES_MAX {
            let answer = self.run(arguments);
            if answer.code == code {
                return answer;
            }
            self.nurse();
        }
        self.give_up(&format!("never done: thought {}", arguments.join(" ")));
    }
}

/// Counts the steps of an activation that are known to be done.
fn steps(answer: &Answer) -> usize {
    let lines = answer.stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["kind"] == "step").count()
}
