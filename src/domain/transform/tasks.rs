//! `document-tasks`: the checkboxes of a document, open and done, with the dates and priorities people write in them.

use std::ops::Range;

use pulldown_cmark::{Event, Tag, TagEnd};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bounded::Bounded;
use super::day::{Day, DayError};
use super::markdown::Markdown;
use super::outline::{HEADING_CHARACTERS_MAX, Outline};
use super::text::{LineText, Shortener};
use super::{Derived, Removed, Subject};
use crate::hash::Sha256Hash;
use crate::id::DocumentId;
use crate::payload::TypedPayload;
use crate::registry::Writer;

mod marks;
pub use marks::Priority;

/// A list with more tasks than this is an archive; their counts are kept.
pub const TASKS_MAX: usize = 1_000;
/// The bytes of JSON that all tasks of one output share.
const TASKS_BYTES_MAX: usize = 176 * 1024;
/// A task longer than this is told by its beginning and its line.
pub const TASK_CHARACTERS_MAX: usize = 300;
/// A person who looks at a hundred problems has understood.
pub const PROBLEMS_MAX: usize = 100;
const PROBLEMS_BYTES_MAX: usize = 16 * 1024;
/// A date has ten characters; this much of what stands in its place shows the mistake.
pub const FOUND_CHARACTERS_MAX: usize = 32;

/// Lists the tasks of a document, or says that it is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum DocumentTasks {
    /// The document is there.
    Present(Box<Tasks>),
    /// The document was removed, and its tasks with it.
    Removed(Removed),
}

impl TypedPayload for DocumentTasks {
    const NAME: &'static str = "stream.thought.derived.document.tasks";
    const VERSION: u32 = 1;
    const WRITER: Writer = Writer::Settlement;
    const PROMOTED: &'static [&'static str] =
        &["state", "documentId", "path", "revision", "open", "started", "done", "cancelled", "nextDue"];
}

/// Lists the tasks of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tasks {
    /// The document.
    pub document_id: DocumentId,
    /// Its revision.
    pub revision: u64,
    /// Its path in the source.
    pub path: String,
    /// The hash of the content this was derived from.
    pub sha256: Sha256Hash,
    /// How many tasks are open (`[ ]`), omitted ones included.
    pub open: u32,
    /// How many are under way (`[/]`).
    pub started: u32,
    /// How many are done (`[x]`).
    pub done: u32,
    /// How many were given up (`[-]`).
    pub cancelled: u32,
    /// The earliest date by which an open or started task is due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_due: Option<Day>,
    /// The tasks in order.
    pub tasks: Vec<Task>,
    /// Dates that are not clear, by line.
    pub problems: Vec<TaskProblem>,
    /// What did not fit into this output.
    pub omitted: TasksOmitted,
}

/// A checkbox and what stands behind it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Task {
    /// The line of the checkbox.
    pub line: u32,
    /// What the checkbox says.
    pub status: TaskStatus,
    /// The text as one line, with the marks for dates and priority where they stand.
    pub text: String,
    /// The headings above it, outermost first.
    #[schemars(length(max = 6))]
    pub headings: Vec<String>,
    /// The day by which it is due: `@due(2026-01-02)`, `📅 2026-01-02` or `due: 2026-01-02`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due: Option<Day>,
    /// Its priority: `🔺 ⏫ 🔼 🔽 ⏬`, `(A)` to `(C)` in front, `!!!` to `!`, or `priority: high`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
}

/// What a checkbox says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TaskStatus {
    /// `[ ]`
    Open,
    /// `[/]`
    Started,
    /// `[x]`
    Done,
    /// `[-]`
    Cancelled,
}

/// A date that is not clear.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskProblem {
    /// What it is.
    pub kind: TaskProblemKind,
    /// The line of the task.
    pub line: u32,
    /// What stands where the date should.
    pub found: String,
}

/// The kinds of problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TaskProblemKind {
    /// What stands there is no day of the calendar.
    NotADate,
    /// The task names another day further ahead in its text, and that one counts.
    SecondDate,
}

/// What did not fit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TasksOmitted {
    /// Tasks after the last one listed.
    pub tasks: u32,
    /// Problems after the last one listed.
    pub problems: u32,
    /// Texts that end in `…` because they were cut.
    pub texts: u32,
}

impl Derived for DocumentTasks {
    fn present(subject: &Subject, document: &Markdown<'_>) -> Self {
        let mut walk = Walk::new();
        for (event, range) in document.events(|_, _| ()) {
            walk.outline.see(&event, &range, document);
            walk.see(&event, &range, document);
        }
        Self::Present(Box::new(walk.finish(subject)))
    }

    fn removed(removed: Removed) -> Self {
        Self::Removed(removed)
    }
}

#[derive(Debug)]
struct Walk {
    outline: Outline,
    /// Whether the next text is the first of a list item, where a checkbox can stand.
    at_item_start: bool,
    reading: Option<(TaskStatus, u32)>,
    text: LineText,
    /// Open, started, done and cancelled tasks.
    counts: [u32; 4],
    next_due: Option<Day>,
    tasks: Bounded<Task>,
    problems: Bounded<TaskProblem>,
    texts: Shortener,
}

impl Walk {
    fn new() -> Self {
        Self {
            outline: Outline::default(),
            at_item_start: false,
            reading: None,
            text: LineText::default(),
            counts: [0; 4],
            next_due: None,
            tasks: Bounded::new(TASKS_MAX, TASKS_BYTES_MAX),
            problems: Bounded::new(PROBLEMS_MAX, PROBLEMS_BYTES_MAX),
            texts: Shortener::default(),
        }
    }

    fn see(&mut self, event: &Event<'_>, range: &Range<usize>, document: &Markdown<'_>) {
        match event {
            Event::TaskListMarker(checked) => {
                let status = if *checked { TaskStatus::Done } else { TaskStatus::Open };
                self.open(status, document.line(range.start));
            }
            Event::Text(text) => match other_checkbox(text).filter(|_| self.at_item_start) {
                Some((status, rest)) => {
                    self.open(status, document.line(range.start));
                    self.text.push(rest);
                }
                None => self.push(text),
            },
            Event::Code(text) => self.push(text),
            Event::SoftBreak | Event::HardBreak => self.push(" "),
            Event::Start(Tag::Item) => {
                self.close();
                self.at_item_start = true;
            }
            // In a loose list the paragraph stands between the item and its text.
            Event::Start(Tag::Paragraph) if self.at_item_start || self.text.since(0).is_empty() => {}
            Event::Start(tag) if !is_inline(tag) => self.close(),
            Event::End(TagEnd::Item | TagEnd::Paragraph) | Event::Rule => self.close(),
            Event::Start(_)
            | Event::End(_)
            | Event::Html(_)
            | Event::InlineHtml(_)
            | Event::InlineMath(_)
            | Event::DisplayMath(_)
            | Event::FootnoteReference(_) => {}
        }
    }

    fn push(&mut self, text: &str) {
        self.at_item_start = false;
        if self.reading.is_some() {
            self.text.push(text);
        }
    }

    fn open(&mut self, status: TaskStatus, line: u32) {
        self.close();
        self.at_item_start = false;
        self.reading = Some((status, line));
    }

    fn close(&mut self) {
        self.at_item_start = false;
        let Some((status, line)) = self.reading.take() else { return };
        let text = self.text.since(0).to_owned();
        self.text.clear();
        self.counts[status as usize] += 1;
        let due = self.due(&text, line);
        if matches!(status, TaskStatus::Open | TaskStatus::Started) {
            self.next_due = [self.next_due.take(), due.clone()].into_iter().flatten().min();
        }
        if self.tasks.is_full() {
            self.tasks.omit();
            return;
        }
        let texts = &mut self.texts;
        let headings =
            self.outline.path().map(|heading| texts.bound(heading, HEADING_CHARACTERS_MAX)).collect();
        let priority = marks::priority(&text);
        self.tasks.push(Task {
            line,
            status,
            text: texts.bound(&text, TASK_CHARACTERS_MAX),
            headings,
            due,
            priority,
        });
    }

    /// Returns the first day named in `text`, and notes what is not clear about it.
    fn due(&mut self, text: &str, line: u32) -> Option<Day> {
        let mut due: Option<Day> = None;
        for found in marks::due(text) {
            let kind = match Day::parse(found) {
                Ok(day) if due.is_none() => {
                    due = Some(day);
                    continue;
                }
                Ok(day) if due.as_ref() == Some(&day) => continue,
                Ok(_) => TaskProblemKind::SecondDate,
                Err(DayError) => TaskProblemKind::NotADate,
            };
            let found = self.texts.bound(found, FOUND_CHARACTERS_MAX);
            self.problems.push(TaskProblem { kind, line, found });
        }
        due
    }

    fn finish(mut self, subject: &Subject) -> Tasks {
        self.close();
        let [open, started, done, cancelled] = self.counts;
        let (tasks, omitted_tasks) = self.tasks.finish();
        let (problems, omitted_problems) = self.problems.finish();
        Tasks {
            document_id: subject.document_id.clone(),
            revision: subject.revision,
            path: subject.path.clone(),
            sha256: subject.sha256,
            open,
            started,
            done,
            cancelled,
            next_due: self.next_due,
            tasks,
            problems,
            omitted: TasksOmitted {
                tasks: omitted_tasks,
                problems: omitted_problems,
                texts: self.texts.shortened(),
            },
        }
    }
}

/// Reads the checkboxes that the parser does not know, in front of the text of a list item.
fn other_checkbox(text: &str) -> Option<(TaskStatus, &str)> {
    for (mark, status) in [("[/]", TaskStatus::Started), ("[-]", TaskStatus::Cancelled)] {
        if let Some(rest) = text.strip_prefix(mark)
            && rest.starts_with(' ')
        {
            return Some((status, rest));
        }
    }
    None
}

fn is_inline(tag: &Tag<'_>) -> bool {
    matches!(
        tag,
        Tag::Emphasis
            | Tag::Strong
            | Tag::Strikethrough
            | Tag::Link { .. }
            | Tag::Image { .. }
            | Tag::Superscript
            | Tag::Subscript
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::tests::present;

    fn tasks(text: &str) -> Tasks {
        match present::<DocumentTasks>(text) {
            DocumentTasks::Present(tasks) => *tasks,
            DocumentTasks::Removed(_) => unreachable!(),
        }
    }

    fn listed(text: &str) -> Vec<(u32, TaskStatus, String)> {
        tasks(text).tasks.into_iter().map(|task| (task.line, task.status, task.text)).collect()
    }

    #[test]
    fn tasks_of_tight_loose_and_nested_lists_are_found() {
        let text = "- [ ] one *two*\n  three\n  - [x] `four`\n- no task\n\n1. [X] five\n\n   more\n2. [ ] [six](x.md)\n\n> * [ ] seven\n";
        use TaskStatus::{Done, Open};
        let expected = [
            (1, Open, "one two three"),
            (3, Done, "four"),
            (6, Done, "five"),
            (9, Open, "six"),
            (11, Open, "seven"),
        ];
        assert_eq!(listed(text), expected.map(|(line, status, text)| (line, status, text.to_owned())));
    }

    #[test]
    fn started_and_cancelled_tasks_are_read_where_a_checkbox_can_stand() {
        let text = "- [/] a\n- [-] b\n\n- [-] c\n- d [-] e\n- [-]f\n\n[-] g\n";
        use TaskStatus::{Cancelled, Started};
        let expected = [(1, Started, "a"), (2, Cancelled, "b"), (4, Cancelled, "c")];
        assert_eq!(listed(text), expected.map(|(line, status, text)| (line, status, text.to_owned())));
    }

    #[test]
    fn code_and_plain_text_hold_no_tasks() {
        assert!(listed("```\n- [ ] a\n```\n\n    - [ ] b\n\n[ ] c\n\n\\- [ ] d\n").is_empty());
    }

    #[test]
    fn headings_and_dates_are_noted() {
        let tasks = tasks(
            "# A\n## B\n- [ ] x @due(2026-03-01)\n- [x] y 📅 2026-01-02 due: 2026-01-02\n- [ ] z due:2026-02-02 📅 2026-02-03\n- [ ] w @due(2026-02-30)\n",
        );
        assert_eq!(tasks.tasks[0].headings, ["A", "B"]);
        let due: Vec<_> = tasks.tasks.iter().map(|task| task.due.as_ref().map(Day::as_str)).collect();
        assert_eq!(due, [Some("2026-03-01"), Some("2026-01-02"), Some("2026-02-02"), None]);
        assert_eq!(tasks.next_due.as_ref().map(Day::as_str), Some("2026-02-02"));
        let problems: Vec<_> = tasks.problems.iter().map(|problem| (problem.line, problem.kind)).collect();
        assert_eq!(problems, [(5, TaskProblemKind::SecondDate), (6, TaskProblemKind::NotADate)]);
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let many = tasks(&"- [ ] a\n".repeat(TASKS_MAX + 5));
        assert_eq!((many.open, many.tasks.len(), many.omitted.tasks), (1_005, TASKS_MAX, 5));
        let long = tasks(&format!("- [ ] {}\n", "a".repeat(TASK_CHARACTERS_MAX + 1)));
        assert_eq!((long.omitted.texts, long.tasks[0].text.chars().count()), (1, TASK_CHARACTERS_MAX));
    }
}
