//! Frontmatter: the YAML between two lines of three dashes at the very top of a Markdown file.

use super::{Limits, Reading, read_below};

/// A Markdown text, split into its frontmatter and its body.
#[derive(Debug, Clone)]
pub struct Frontmatter {
    /// The frontmatter, read; its places count the lines of the whole file.
    pub reading: Reading,
    /// The byte at which the body starts.
    pub body: usize,
}

/// Reads the frontmatter of a Markdown text, or returns nothing when it has none.
///
/// The first line must be exactly `---` (spaces may follow); the frontmatter ends at the next line that is `---` or
/// `...`. A text that never closes it has none: the line is then a rule of the body.
#[must_use]
pub fn frontmatter(name: &str, text: &str, limits: Limits) -> Option<Frontmatter> {
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().filter(|line| line.trim_end() == "---")?;
    let mut end = first.len();
    for line in lines {
        let fence = line.trim_end();
        if fence == "---" || fence == "..." {
            let yaml = &text.as_bytes()[first.len()..end];
            let reading = read_below(name, yaml, limits, 1);
            return Some(Frontmatter { reading, body: end + line.len() });
        }
        end += line.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frontmatter_ends_where_the_body_starts() {
        let text = "---\nid: a\ntags: [x, z]\n---\n# Title\n";
        let found = frontmatter("a.md", text, Limits::FRONTMATTER).unwrap();
        assert_eq!(&text[found.body..], "# Title\n");
        assert!(found.reading.problems.is_empty(), "{:?}", found.reading.problems);
        let root = found.reading.root.unwrap();
        assert_eq!(root.get("id").unwrap().text(), Some("a"));
        assert_eq!(root.get("id").unwrap().span.line, 2);
    }

    #[test]
    fn a_rule_in_the_body_is_no_frontmatter() {
        for text in ["", "# Title\n", "---\nno end\n", "text\n---\na: b\n---\n", " ---\na: b\n---\n"] {
            assert!(frontmatter("a.md", text, Limits::FRONTMATTER).is_none(), "{text:?}");
        }
    }

    #[test]
    fn a_problem_counts_the_lines_of_the_whole_file() {
        let found = frontmatter("a.md", "---\r\nid: no\r\n---\r\n", Limits::FRONTMATTER).unwrap();
        let problem = &found.reading.problems[0];
        assert_eq!((problem.line, problem.column, problem.code.as_str()), (2, 5, "yaml.ambiguous"));
    }

    #[test]
    fn a_long_frontmatter_is_refused_by_its_size() {
        let text = format!("---\na: {}\n---\n", "x".repeat(20_000));
        let found = frontmatter("a.md", &text, Limits::FRONTMATTER).unwrap();
        assert_eq!(found.reading.problems[0].code.as_str(), "yaml.too-large");
    }
}
