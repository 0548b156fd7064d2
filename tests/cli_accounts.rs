//! Accounts as an operator meets them: what an attempt costs that sent nothing.

use serde_json::Value;
use thoughtstream_channels::rehearsal::{Answer as Reply, Script};

use crate::cli_models::{GOOD, Stage, Terms};

impl Stage {
    /// Changes a text of a configuration file before the service starts.
    pub(crate) fn change(&self, file: &str, from: &str, to: &str) {
        let path = self.world.config.join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{text}");
        std::fs::write(&path, text.replace(from, to)).unwrap();
    }

    fn account(&self) -> Value {
        self.world.thought(&["account", "show", "observer", "--json"]).expect(0).json()
    }

    /// Returns the payloads of the observer's events of a type, oldest first.
    pub(crate) fn payloads(&self, kind: &str) -> Vec<Value> {
        let list = ["event", "list", "--source", "agent:observer", "--type", kind, "--json"];
        let events = self.world.thought(&list).expect(0).lines();
        let shown = |event: &Value| {
            let id = event["id"].as_str().unwrap();
            self.world.thought(&["event", "show", id, "--json"]).expect(0).json()["payload"].clone()
        };
        events.iter().map(shown).collect()
    }
}

#[test]
fn what_was_not_sent_costs_nothing_and_keeps_nothing_from_being_sent() {
    let terms = Terms {
        limits: Some("[{ window: day, calls: 1 }]"),
        more: "retry: { attempts: 3, first: 1ms, max: 1ms }\n",
        ..Terms::default()
    };
    let stage = Stage::new(Script::answering(Reply::text(GOOD)), &terms);
    let there = stage.rehearsal.provider_url.clone();
    stage.change("config.yaml", &there, "http://127.0.0.1:9/v1");
    let service = stage.world.serve(&[]);
    stage.world.append("one", "text").expect(0);
    // One call a day is admitted, and three attempts are made: none of them was a call.
    let runs = stage.until(&["failed", "failed", "failed"]);
    assert_eq!(runs[0]["code"], "connect-failed");
    for failed in stage.payloads("stream.thought.run.failed") {
        assert_eq!((&failed["released"], failed.get("charge")), (&Value::from("not-sent"), None), "{failed}");
    }
    for traced in stage.payloads("stream.thought.run.traced") {
        assert_eq!(traced["providerRequests"], 0);
        assert!(!traced["chunks"].to_string().contains("provider.requested"), "{traced}");
    }
    let account = stage.account();
    assert_eq!((&account["ever"]["used"]["calls"], &account["ever"]["notSent"]), (&0.into(), &3.into()));
    assert_eq!((&account["windows"][0]["fits"], &account["state"]), (&1.into(), &"open".into()));
    let shown = stage.world.thought(&["account", "show", "observer"]).expect(0).stdout;
    assert!(shown.contains("not sent   3 attempts"), "{shown}");
    let list = stage.world.thought(&["account", "list"]).expect(0).stdout;
    assert!(list.lines().last().unwrap().trim_end().ends_with('3'), "{list}");
    let simulated =
        stage.world.thought(&["account", "simulate", "observer", "--calls", "2"]).expect(0).stdout;
    assert!(
        simulated.contains("1 of 2 at once") && simulated.contains("not sent   3 attempts"),
        "{simulated}"
    );
    assert_eq!(service.stop(), 0);
    stage.verify();
    // What is said of it survives a copy and an export.
    let base = stage.world.base();
    let lines = base.join("lines").display().to_string();
    stage.world.thought(&["export", &lines, "--acknowledge-sensitive"]).expect(0);
    let again = base.join("again").display().to_string();
    stage.world.thought(&["import", &lines, "--data", &again]).expect(0);
    stage.world.thought(&["verify", "--data", &again]).expect(0);
    // The one call that a day admits is still there.
    stage.change("config.yaml", "http://127.0.0.1:9/v1", &there);
    let service = stage.world.serve(&[]);
    let held = runs[2]["run"].as_str().or(runs[2]["id"].as_str()).unwrap();
    stage.world.thought(&["consumer", "retry", held]).expect(0);
    stage.until(&["failed", "failed", "failed", "completed"]);
    assert_eq!((stage.requests(), &stage.account()["ever"]["used"]["calls"]), (1, &1.into()));
    assert_eq!(service.stop(), 0);
    stage.verify();
}
