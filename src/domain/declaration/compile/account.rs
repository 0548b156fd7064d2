//! Compiling an inference account: the numbers as written, and every fault of the policy at its place.

use super::Compiler;
use crate::accounting::{Amounts, Ceiling, Dimension, Limit, OnExhaustion, Place, Policy, Window};
use crate::declaration::codes;
use crate::yaml::{Node, Span, duration_ms};

impl Compiler<'_> {
    /// Reads the account of a consumer whose runs may take `timeout_ms`.
    pub(super) fn accounting(&mut self, root: &Node, timeout_ms: u64) -> Option<Policy> {
        let node = root.get("accounting")?;
        let (reserve, limits) = (node.get("reserve")?, node.get("limits")?);
        let mut read = Vec::new();
        for limit in limits.items() {
            read.push(self.limit(limit));
        }
        let policy = Policy {
            reserve: Amounts {
                calls: amount(reserve, Dimension::Calls).unwrap_or(1),
                input_tokens: amount(reserve, Dimension::InputTokens)?,
                output_tokens: amount(reserve, Dimension::OutputTokens)?,
                cost_microusd: amount(reserve, Dimension::CostMicrousd),
            },
            lease_ms: duration_ms(node.get("lease")?.text()?)?,
            limits: read.into_iter().collect::<Option<Vec<_>>>()?,
            on_exhaustion: match node.get("onExhaustion").map_or(Some("defer"), Node::text)? {
                "defer" => OnExhaustion::Defer,
                "advance" => OnExhaustion::Advance,
                _ => return None,
            },
        };
        let faults = policy.check(timeout_ms);
        for fault in &faults {
            let problem = self.source.problem(place(node, fault.place), fault.code, fault.message.clone());
            self.problems.push(problem.with_hint(fault.way_out()));
        }
        faults.is_empty().then_some(policy)
    }

    fn limit(&mut self, node: &Node) -> Option<Limit> {
        let (window, length) = (node.get("window")?, node.get("length"));
        let window = match (window.text()?, length) {
            ("rolling", Some(length)) => Window::Rolling { ms: duration_ms(length.text()?)? },
            ("rolling", None) => {
                let message = "a rolling window has a length";
                self.refuse(window.span, codes::ACCOUNTING, message, "add `length: 5m` beside it");
                return None;
            }
            (word @ ("hour" | "day"), None) => {
                if word == "hour" {
                    Window::Hour
                } else {
                    Window::Day
                }
            }
            ("hour" | "day", Some(length)) => {
                let message = "an hour and a day are as long as they are";
                self.refuse(length.span, codes::ACCOUNTING, message, "remove it, or write `window: rolling`");
                return None;
            }
            _ => return None,
        };
        let most = Ceiling {
            calls: amount(node, Dimension::Calls),
            input_tokens: amount(node, Dimension::InputTokens),
            output_tokens: amount(node, Dimension::OutputTokens),
            cost_microusd: amount(node, Dimension::CostMicrousd),
        };
        Some(Limit { window, most })
    }
}

fn amount(node: &Node, dimension: Dimension) -> Option<u64> {
    u64::try_from(node.get(dimension.as_str())?.integer()?).ok()
}

/// Returns where a part of the policy is written, or else what it is a part of.
fn place(accounting: &Node, place: Place) -> Span {
    let limits = accounting.get("limits");
    let limit = |index: usize| limits.and_then(|limits| limits.items().get(index));
    let found = match place {
        Place::Reserve(dimension) => {
            accounting.get("reserve").map(|reserve| reserve.get(dimension.as_str()).unwrap_or(reserve))
        }
        Place::Lease => accounting.get("lease"),
        Place::Limits => limits,
        Place::Window(index) => {
            limit(index).map(|limit| limit.get("length").or(limit.get("window")).unwrap_or(limit))
        }
        Place::Limit(index) => limit(index),
        Place::Most(index, dimension) => {
            limit(index).map(|limit| limit.get(dimension.as_str()).unwrap_or(limit))
        }
    };
    found.map_or(accounting.span, |node| node.span)
}
