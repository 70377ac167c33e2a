//! Shortens statements for error messages, and removes literals that may be secrets.

use std::ops::Range;

/// The maximum number of characters of a statement in a message.
const SHOWN: usize = 160;

/// The text that replaces a literal in a message.
const HIDDEN: &str = "…";

/// Returns a statement in one line, cut after 160 characters. Its literals are replaced.
pub fn shown(text: &str) -> String {
    // A statement may have megabytes. Only its beginning is shown, so the rest is not processed.
    let text = match text.char_indices().nth(50 * SHOWN) {
        Some((at, _)) => &text[..at],
        None => text,
    };
    // The text after the word `password` may be the password, even without quotes.
    let text = &text[..secret(text).unwrap_or(text.len())];
    let mut out = String::new();
    let mut end = 0;
    for literal in literals(text) {
        out.push_str(&text[end..literal.start]);
        out.push_str(HIDDEN);
        end = literal.end;
    }
    out.push_str(&text[end..]);
    let line = out.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}{HIDDEN}", &line[..at]),
        None => line,
    }
}

/// Returns a message about a statement, with the statement's literals replaced.
pub(crate) fn without_literals(message: &str, text: &str) -> String {
    let hidden = [secret(text), ambiguous(text, &tokens(text).collect::<Vec<_>>())];
    let behind = hidden.into_iter().flatten().min().map_or("", |at| &text[at..]);
    let mut literals: Vec<&str> = tokens(text)
        .map(|literal| &text[literal])
        .chain(behind.split(|c: char| c.is_whitespace() || "=;,'\"".contains(c)))
        .map(|literal| literal.trim_matches(|c| c == '\'' || c == '$'))
        // Literals of one character are kept, because the same character also occurs in the
        // server's own words.
        .filter(|literal| literal.chars().count() > 1)
        .collect();
    literals.sort_by_key(|literal| std::cmp::Reverse(literal.len()));
    literals.dedup();
    literals
        .into_iter()
        .fold(message.to_owned(), |message, literal| message.replace(literal, HIDDEN))
}

/// The codes of errors in which servers quote bound values, or terms that contain values.
const QUOTING: [i32; 2] = [0x1400, 0x2200];
const SYNTAX: i32 = 0x2000;

/// Removes possible values from the server's message about a statement. A message about a syntax
/// error keeps only the position. A message with a code of [`QUOTING`] keeps a quoted text only if
/// the statement has the same text outside its literals. If the statement mentions JSON, a message
/// with such a code loses its whole text, because the quotes can contain JSON documents in many
/// forms. Other messages stay unchanged.
pub(crate) fn without_values(reason: &str, code: Option<i32>, text: &str) -> String {
    if code == Some(SYNTAX) {
        let position =
            reason.strip_prefix("line ").and_then(|after_line| after_line.split(' ').next());
        return position
            .map_or_else(|| HIDDEN.to_owned(), |position| format!("line {position} {HIDDEN}"));
    }
    if !code.is_some_and(|code| QUOTING.contains(&code)) {
        return reason.to_owned();
    }
    if text.to_ascii_lowercase().contains("json") {
        return HIDDEN.to_owned();
    }
    let (mut out, mut unread) = (String::new(), reason);
    let names = shown(text);
    while let Some((before, behind)) = unread.split_once('\'') {
        let (quoted, end) = behind.split_once('\'').unwrap_or((behind, ""));
        let is_name = !quoted.is_empty() && names.contains(quoted);
        out.push_str(before);
        out.push('\'');
        out.push_str(if is_name { quoted } else { HIDDEN });
        out.push('\'');
        unread = end;
    }
    out + unread
}

/// Whether a statement may have a secret, because it has the word `password`.
pub(crate) fn has_secrets(text: &str) -> bool {
    secret(text).is_some()
}

/// The offset at which the first word `password` of a statement ends.
fn secret(text: &str) -> Option<usize> {
    const WORD: &str = "password";
    let is_boundary = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric() && c != '_');
    text.char_indices().map(|(at, _)| at).find_map(|at| {
        let end = at + WORD.len();
        let is = text.get(at..end).is_some_and(|word| word.eq_ignore_ascii_case(WORD))
            && is_boundary(text[..at].chars().next_back())
            && is_boundary(text[end..].chars().next());
        is.then_some(end)
    })
}

/// Returns the ranges of the literals. A quote inside a string must be doubled. If the quotes of a
/// string look wrong, as in 'O'Brien', it is unclear where later strings begin and end. In this
/// case the last range extends to the end of the statement.
fn literals(text: &str) -> Vec<Range<usize>> {
    let mut literals: Vec<_> = tokens(text).collect();
    if let Some(start) = ambiguous(text, &literals) {
        literals.retain(|literal| literal.end <= start);
        literals.push(start..text.len());
    }
    literals
}

/// Returns the start of the first doubtful string in single quotes. A string is doubtful if a word
/// follows its closing quote directly. If the last string has no closing quote, all strings are
/// doubtful.
fn ambiguous(text: &str, literals: &[Range<usize>]) -> Option<usize> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut texts = literals.iter().filter(|literal| text[literal.start..].starts_with('\''));
    let is_open = |literal: &Range<usize>| text[literal.clone()].matches('\'').count() % 2 == 1;
    let first = texts.clone().next()?;
    if texts.clone().next_back().is_some_and(is_open) {
        return Some(first.start);
    }
    texts.find(|literal| text[literal.end..].starts_with(is_word)).map(|literal| literal.start)
}

/// Returns the ranges of strings in quotes or dollars, numbers, blobs, UUIDs and durations.
/// Comments count as literals, because they may contain anything. A quoted name is not a literal.
/// An unterminated literal or name extends to the end of the statement, and counts as a literal.
fn tokens(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < text.len() {
            let remaining = &text[at..];
            let start = at;
            let length = |quote: &str| quoted(remaining, quote);
            if remaining.starts_with('\'') {
                at += length("'");
                return Some(start..at);
            } else if remaining.starts_with("$$") {
                at += length("$$");
                return Some(start..at);
            } else if remaining.starts_with('"') {
                at += length("\"");
                if at == text.len() && (remaining.len() == 1 || !remaining.ends_with('"')) {
                    return Some(start..at);
                }
            } else if let Some(end) = comment(remaining) {
                at += end;
                return Some(start..at);
            } else if remaining.starts_with(|c: char| c.is_alphanumeric() || c == '_') {
                let word = |c: char| c.is_alphanumeric() || c == '_';
                let number = remaining.starts_with(|c: char| c.is_ascii_digit());
                // A number may have a point or an exponent, a UUID has hyphens.
                let continues = |c: char| word(c) || (number && (c == '.' || c == '-' || c == '+'));
                let end = remaining.find(|c| !continues(c)).unwrap_or(remaining.len());
                let token_length = if is_uuid(remaining) { 36 } else { end };
                at += token_length;
                if number || is_uuid(remaining) || is_duration(&remaining[..end]) {
                    return Some(start..at);
                }
            } else {
                at += remaining.chars().next().map_or(1, char::len_utf8);
            }
        }
        None
    })
}

/// The length of the comment at the beginning, if there is one.
fn comment(text: &str) -> Option<usize> {
    let end = if text.starts_with("/*") {
        text.find("*/").map(|at| at + 2)
    } else if text.starts_with("--") || text.starts_with("//") {
        text.find(['\n', '\r'])
    } else {
        return None;
    };
    Some(end.unwrap_or(text.len()))
}

/// The length of the quoted text at the beginning. A doubled quote is part of the text.
fn quoted(text: &str, quote: &str) -> usize {
    let mut at = quote.len();
    while let Some(offset) = text[at..].find(quote) {
        at += offset + quote.len();
        if quote.len() > 1 || !text[at..].starts_with(quote) {
            return at;
        }
        at += quote.len();
    }
    text.len()
}

/// Whether a word is a duration in ISO 8601, such as `P1Y2M` or `PT5M`.
fn is_duration(word: &str) -> bool {
    let Some(('P' | 'p', parts)) =
        word.split_at_checked(1).and_then(|(p, parts)| Some((p.chars().next()?, parts)))
    else {
        return false;
    };
    parts.bytes().any(|byte| byte.is_ascii_digit())
        && parts.ends_with(|c: char| "YMWDHSymwdhs".contains(c))
        && parts.chars().all(|c| c.is_ascii_digit() || "YMWDTHSymwdths".contains(c))
}

fn is_uuid(text: &str) -> bool {
    const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
    let Some(text) = text.get(..36) else { return false };
    let groups = text
        .split('-')
        .map(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(group.len()));
    groups.eq(GROUPS.map(Some))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_replaced_and_names_are_not() {
        for (text, expected) in [
            ("SELECT a, b2 FROM ks.t1 WHERE k = ?", "SELECT a, b2 FROM ks.t1 WHERE k = ?"),
            (
                "INSERT INTO t (a, \"B 'c'\")\n  VALUES (1, 'it''s', 0xCAFE, -1.5e-3)",
                "INSERT INTO t (a, \"B 'c'\") VALUES (…, …, …, -…)",
            ),
            ("CREATE ROLE r WITH PASSWORD = 'hunter2", "CREATE ROLE r WITH PASSWORD"),
            ("ALTER ROLE r /* don't */ WITH PASSWORD = \"x\"", "ALTER ROLE r … WITH PASSWORD"),
            ("SELECT a -- 5\" of '\nFROM t WHERE k = 'secret'", "SELECT a … FROM t WHERE k = …"),
            ("INSERT INTO t (\"a, b) VALUES ('secret')", "INSERT INTO t (…"),
            (
                "SELECT * FROM t WHERE id = f3a1b2c3-0000-1000-8000-00805f9b34fb LIMIT 5",
                "SELECT * FROM t WHERE id = … LIMIT …",
            ),
            ("UPDATE t SET a = $$a 'b' c$$ WHERE k = :k1", "UPDATE t SET a = … WHERE k = :k1"),
            ("SELECT é FROM t WHERE ü = 'ö'", "SELECT é FROM t WHERE ü = …"),
            ("VALUES (1, 'O'Brien', 'secret', 'x')", "VALUES (…, …"),
            ("WHERE v = 'O'Brien' AND token = 'secret'", "WHERE v = …"),
            ("VALUES ('a', 'it' s here', 'secret')", "VALUES (…"),
            ("", ""),
        ] {
            assert_eq!(shown(text), expected);
        }
        let long = format!("SELECT {} FROM t", "column, ".repeat(100));
        assert_eq!(shown(&long).chars().count(), SHOWN + 1);
    }

    #[test]
    fn values_are_removed_from_the_server_s_text() {
        let text = "INSERT INTO t (k, v) VALUES (?, 4711)";
        for (code, text, reason, expected) in [
            (0x2000, text, "line 1:38 mismatched input 'geheim' (...[geheim]", "line 1:38 …"),
            (0x2000, text, "what else", "…"),
            (0x2200, text, "Unable to make int from 'geheim'", "Unable to make int from '…'"),
            (0x2200, text, "Undefined column 'v' in 't', 'x", "Undefined column 'v' in 't', '…'"),
            (0x2200, "INSERT INTO t JSON ?", "geheim", "…"),
            (0x1400, "INSERT INTO t (k) VALUES (fromJson(?))", "geheim", "…"),
            (0x1000, text, "Cannot achieve 'it'", "Cannot achieve 'it'"),
        ] {
            assert_eq!(without_values(reason, Some(code), text), expected);
        }
    }

    #[test]
    fn literals_are_removed_from_the_server_s_text() {
        let text = "CREATE ROLE r WITH PASSWORD = 'hunter2' AND x";
        let message = "line 1:40 no viable alternative at input 'x' (...= ['hunter2'] AND x)";
        assert!(has_secrets(text));
        let hidden = without_literals(message, text);
        assert_eq!(hidden, "line 1:40 no viable alternative at input 'x' (...= ['…'] … x)");
        assert!(!has_secrets("SELECT passwords FROM t"));
        let text = "INSERT INTO t (k, p) VALUES ('O'Brien', 'secret')";
        let message = "line 1:30 mismatched input 'Brien' expecting ')' (...'O'[Brien]', 'secret')";
        let hidden = without_literals(message, text);
        assert!(!hidden.contains("Brien") && !hidden.contains("secret"), "{hidden}");
    }
}
