//! Patterns for object keys.

use std::fmt;

/// A glob over a whole key: `*` stands for any characters, slashes included, `?` for exactly one.
/// Everything else stands for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyPattern(String);

impl KeyPattern {
    /// `text` must hold no blanks: `?` stands for them.
    pub(super) fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Whether `key` as a whole is what the pattern says. Takes at most the product of both lengths.
    pub(super) fn matches(&self, key: &str) -> bool {
        let mut pattern = self.0.chars();
        let mut rest = key.chars();
        // Where to go on when what follows the latest `*` does not fit: it then stands for one
        // character more.
        let mut retry = None;
        loop {
            let before = rest.clone();
            match (pattern.next(), rest.next()) {
                (Some('*'), _) => {
                    retry = Some((pattern.clone(), before.clone()));
                    rest = before;
                }
                (None, None) => return true,
                (Some('?'), Some(_)) => {}
                (Some(expected), Some(found)) if expected == found => {}
                _ => {
                    let Some((after_star, from)) = &mut retry else { return false };
                    if from.next().is_none() {
                        return false;
                    }
                    pattern = after_star.clone();
                    rest = from.clone();
                }
            }
        }
    }
}

impl fmt::Display for KeyPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition, in the time it takes.
    fn by_definition(pattern: &[char], key: &[char]) -> bool {
        match (pattern, key) {
            ([], []) => true,
            (['*', rest @ ..], _) => {
                by_definition(rest, key) || (!key.is_empty() && by_definition(pattern, &key[1..]))
            }
            (['?', rest @ ..], [_, key @ ..]) => by_definition(rest, key),
            ([expected, rest @ ..], [found, key @ ..]) => {
                expected == found && by_definition(rest, key)
            }
            _ => false,
        }
    }

    #[test]
    fn stars_cross_slashes_and_question_marks_are_one_character() {
        let matches = |pattern, key| KeyPattern::new(pattern).matches(key);
        assert!(matches("*img_3*", "train/img_3_of_9.npz"));
        assert!(!matches("img_3*", "train/img_3_of_9.npz"));
        assert!(matches("ds?a/?.npz", "ds a/ü.npz"));
        assert!(!matches("?", ""));
        assert!(matches("*", ""));
    }

    proptest! {
        #[test]
        fn matching_agrees_with_its_definition(pattern in "[ab*?ü]{0,8}", key in "[abü]{0,8}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            prop_assert_eq!(
                KeyPattern::new(&pattern).matches(&key),
                by_definition(&chars(&pattern), &chars(&key))
            );
        }
    }
}
