//! Documents made to be expensive: much of one thing.
//!
//! None of these may overflow the stack, and none may take time that grows with the square of the size. A test cannot
//! assert the second without a clock; with it, each takes a minute instead of a moment, which nobody overlooks.

use super::*;

/// The size of the plain ones.
const MEBIBYTE: usize = 1 << 20;
/// The size of the many others: enough to tell a square from a line.
const SIZE: usize = 1 << 17;

fn repeated(piece: &str) -> String {
    piece.repeat(SIZE / piece.len())
}

fn holds(name: &str, text: &str) {
    for transform in known() {
        let trigger = trigger("a.md", text.as_bytes());
        match run(transform.name, &trigger, Some(text.as_bytes())) {
            Ok(outputs) => {
                let bytes = canonical::write(&outputs[0].payload).unwrap().len();
                assert!(bytes <= OUTPUT_BYTES_MAX, "{name} {}: {bytes}", transform.name);
            }
            Err(error) => assert_eq!(error.code(), "document-too-deep", "{name}"),
        }
    }
}

#[test]
fn a_mebibyte_of_one_mark() {
    for piece in [">", "[", "*"] {
        holds(piece, &piece.repeat(MEBIBYTE));
    }
}

#[test]
fn one_mark_repeated() {
    for piece in [
        ">", "> ", "[", "![", "*", "*a", "**a_b", "- ", "1. ", "+ ", "`", "<", "<!--", "|", "~", "\\", "\0",
        "\r", "\t",
    ] {
        holds(piece, &repeated(piece));
    }
}

#[test]
fn links_that_never_end() {
    for piece in [
        "[a](", "[a][", "[a][b]", "[[a", "[[a]]", "![[a|", "![a](b", "[a]: ", "[^a][", "https://", "[](#a)",
        "<a id=\"", "a@b.c ",
    ] {
        holds(piece, &repeated(piece));
    }
}

#[test]
fn links_inside_the_text_of_links() {
    let depth = SIZE / 16;
    holds("images", &format!("{}a{}", "![".repeat(depth), "](b)".repeat(depth)));
    holds("brackets", &format!("{}a{}", "[".repeat(depth), "](b)".repeat(depth)));
}

#[test]
fn lines_in_deep_blocks() {
    for deep in [">", "- ", "+ ", "1. ", "> - ", "[^a]: > ", "[^a\\]b]: > "] {
        for lines in ["a\n", "\n", "> a\n", "2. a\n"] {
            holds(
                deep,
                &format!("{}a\n{}", deep.repeat(SIZE / 2 / deep.len()), lines.repeat(SIZE / 2 / lines.len())),
            );
        }
    }
    // The deepest that is let through.
    holds("allowed", &format!("{}a\n{}", ">".repeat(markdown::NESTING_MAX), "a\n".repeat(SIZE / 8)));
}

#[test]
fn many_of_everything() {
    for line in [
        "# a\n",
        "# \u{1}\u{2}\n",
        "- [ ] a 📅 x\n",
        "```a\n",
        "a\n=\n",
        "---\n",
        "|a|\n|-|\n",
        "- [-] @due(1\n",
        "[a]\n",
        "<b id=x>\n",
        "a ^b\n",
    ] {
        holds(line, &repeated(line));
    }
    holds("headings that differ", &(0..SIZE / 10).map(|number| format!("# {number}\n")).collect::<String>());
    holds("escapes in headings", &format!("# {}\n", "\u{7f}\"\\\u{1}").repeat(SIZE / 7));
    holds(
        "languages that differ",
        &(0..SIZE / 16).map(|number| format!("```l{number}\n```\n")).collect::<String>(),
    );
}

#[test]
fn one_line_of_everything() {
    for (front, piece) in [
        ("# ", "a"),
        ("# ", "\"\\"),
        ("- [ ] ", "due: 1 "),
        ("- [ ] ", "!!! "),
        ("[a](", "b/"),
        ("[a](", "../"),
        ("```", "x"),
        ("[[", "a"),
    ] {
        let end = if front == "[a](" {
            ")"
        } else if front == "[[" {
            "]]"
        } else {
            ""
        };
        holds(front, &format!("{front}{}{end}", repeated(piece)));
    }
}

#[test]
fn front_matter_that_never_ends() {
    holds("open", &format!("---\n{}", repeated("a: b\n")));
    holds("closed", &format!("---\n{}---\n# a\n", repeated("a: b\n")));
    holds("flow", &format!("---\n{}\n---\n", repeated("[")));
}
