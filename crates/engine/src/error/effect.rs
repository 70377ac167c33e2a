//! The effect of a statement, which decides whether the statement may be sent again.

/// How much of a statement the server may have carried out when it answers with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The statement changes nothing. It can safely be sent again, and nothing can have been
    /// applied.
    Reads,
    /// A write to one partition. The server checks that enough replicas are alive before it begins
    /// the write, so nothing is applied after `Unavailable`.
    Writes,
    /// A logged batch. The server checks that enough replicas of all partitions are alive before it
    /// stores the batch, so nothing is applied after `Unavailable`. `Overloaded` may come after the
    /// server has stored the batch.
    Logged,
    /// A conditional update, or a write to several partitions. The server carries it out in stages.
    /// Even `Unavailable` or `Overloaded` may come from a later stage, after the first stage has
    /// been applied.
    Staged,
}

impl Effect {
    /// Returns the effect of a statement, judged by its words. The first word shows whether the
    /// statement reads, or is a batch. Any other statement counts as a conditional update if it
    /// contains `IF`, and as a write to several partitions if it contains `IN`. A word inside a
    /// string counts too. This mistake is safe, because it only prevents some retries that would be
    /// possible.
    pub(crate) fn of(text: &str) -> Effect {
        const READS: [&str; 5] = ["SELECT", "LIST", "DESCRIBE", "DESC", "USE"];
        const STAGED: [&str; 3] = ["BEGIN", "IF", "IN"];
        let mut words = text_after_comments(text)
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .filter(|word| !word.is_empty());
        let is = |word: &str, names: &[&str]| names.iter().any(|n| n.eq_ignore_ascii_case(word));
        match words.next() {
            Some(first) if is(first, &READS) => Effect::Reads,
            Some(first) if is(first, &STAGED[..1]) => Effect::Staged,
            _ if words.any(|word| is(word, &STAGED[1..]) || ends_in_if(word)) => Effect::Staged,
            _ => Effect::Writes,
        }
    }
}

/// Whether a statement is a conditional write, judged by its words. `IF` inside a string counts
/// too.
pub fn has_condition(text: &str) -> bool {
    is_one_of(text, &["INSERT", "UPDATE", "DELETE", "BEGIN"])
        && text_after_comments(text)
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .any(|word| word.eq_ignore_ascii_case("IF") || ends_in_if(word))
}

/// Whether a statement has a word, in upper or lower case. A word inside a string counts too.
pub(crate) fn has_word(text: &str, word: &str) -> bool {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.into_iter().any(|candidate| candidate.eq_ignore_ascii_case(word))
}

/// Whether a word is a number or the end of a UUID, directly followed by `IF`, such as `1IF`. The
/// server accepts this.
fn ends_in_if(word: &str) -> bool {
    let Some((before, end)) = word.split_at_checked(word.len().saturating_sub(2)) else {
        return false;
    };
    let hex = |part: &str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
    end.eq_ignore_ascii_case("IF")
        && (before.starts_with(|c: char| c.is_ascii_digit()) || before.len() == 12 && hex(before))
}

/// The first word of a statement, after any comments.
pub fn first_word(text: &str) -> &str {
    let text = text_after_comments(text);
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

/// Whether the first word of a statement, in upper or lower case, is one of `words`.
pub fn is_one_of(text: &str, words: &[&str]) -> bool {
    let first = first_word(text);
    words.iter().any(|word| word.eq_ignore_ascii_case(first))
}

/// The text without the comments and spaces at its beginning.
pub(crate) fn text_after_comments(mut text: &str) -> &str {
    loop {
        text = text.trim_start();
        let line = text.strip_prefix("--").or(text.strip_prefix("//"));
        let after_comment = match (line, text.strip_prefix("/*")) {
            (Some(line), _) => line.split_once(['\n', '\r']),
            (_, Some(block)) => block.split_once("*/"),
            (None, None) => return text,
        };
        text = after_comment.map_or("", |(_, after_comment)| after_comment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_recognized() {
        for (text, expected) in [
            ("UPDATE t SET a = 1 WHERE k = 1IF a = 0", true),
            ("INSERT INTO t (k) VALUES (1) IF NOT EXISTS", true),
            ("BEGIN BATCH DELETE FROM t WHERE k = 1 if exists; APPLY BATCH", true),
            ("DELETE FROM t WHERE k IN (1, 2)", false),
            ("CREATE TABLE IF NOT EXISTS t (k int PRIMARY KEY)", false),
            ("UPDATE t SET gif = 1 WHERE k = 1", false),
        ] {
            assert_eq!(has_condition(text), expected, "{text}");
        }
    }

    #[test]
    fn the_effect_is_judged_by_the_words() {
        for (text, effect) in [
            ("SELECT * FROM t", Effect::Reads),
            ("  -- why\n// and\n/* how */ select if FROM t", Effect::Reads),
            ("USE ks", Effect::Reads),
            ("INSERT INTO t (a) VALUES (?)", Effect::Writes),
            ("UPDATE t SET a = 1 WHERE k = 2 IF a = 3", Effect::Staged),
            ("INSERT INTO t (a) VALUES (?) if not exists", Effect::Staged),
            ("BEGIN UNLOGGED BATCH INSERT INTO t (a) VALUES (1); APPLY BATCH", Effect::Staged),
            ("UPDATE t SET wife = 1", Effect::Writes),
            ("UPDATE t SET gif = 1, cif = 2, a1if = 3", Effect::Writes),
            ("DELETE FROM t WHERE k = 1IF EXISTS", Effect::Staged),
            ("DELETE FROM t WHERE k IN (1, 2)", Effect::Staged),
            ("UPDATE t SET a = 1 WHERE \"k\"IN(1, 2)", Effect::Staged),
            ("SELECT * FROM t WHERE k IN (1, 2)", Effect::Reads),
            ("UPDATE t SET inn = 1 WHERE pin = 2", Effect::Writes),
            ("DELETE FROM t WHERE k = a-b-c-d-abcdefABCDEFif EXISTS", Effect::Staged),
            ("-- why\rDELETE FROM t WHERE k = 1", Effect::Writes),
            ("// why\r/* how */BEGIN BATCH APPLY BATCH", Effect::Staged),
            ("-- why\rUPDATE t SET a = 1 WHERE \nlist = 1", Effect::Writes),
            ("/* never ends", Effect::Writes),
            ("", Effect::Writes),
        ] {
            assert_eq!(Effect::of(text), effect, "{text}");
        }
    }
}
