//! A file of key pairs.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{Access, Account, KeyPair};

/// Why a file of keys cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct KeysFileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: KeysFileProblem,
}

/// What is wrong with a file of keys. Nothing of a line is shown: it may be a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeysFileProblem {
    /// It cannot be read.
    #[error("cannot read the keys: {0}")]
    Read(io::Error),
    /// Others than its owner can read or change it.
    #[error(
        "the file with the keys has mode {mode:04o}, so others than its owner can use it: chmod 600"
    )]
    Mode {
        /// Its permissions.
        mode: u32,
    },
    /// A line is no pair of keys.
    #[error("line {line} is not \"ACCESS_KEY_ID SECRET\" or \"ACCESS_KEY_ID SECRET read-only\"")]
    Line {
        /// Counted from 1.
        line: usize,
    },
    /// Every line is empty or a comment.
    #[error("there are no keys in it: write lines \"ACCESS_KEY_ID SECRET [read-only]\"")]
    Empty,
}

/// Reads the accounts from a file that only its owner can use. A line is an access key id, its secret
/// and, perhaps, `read-only`, with blanks between; empty lines and lines that begin with `#` are
/// skipped.
pub fn read_keys_file(path: &Path) -> Result<Vec<Account>, KeysFileError> {
    let failed = |problem| KeysFileError { path: path.to_owned(), problem };
    let read = |error| failed(KeysFileProblem::Read(error));
    let mode = fs::metadata(path).map_err(read)?.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(failed(KeysFileProblem::Mode { mode }));
    }
    parse(&fs::read_to_string(path).map_err(read)?).map_err(failed)
}

fn parse(text: &str) -> Result<Vec<Account>, KeysFileProblem> {
    let mut accounts = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (id, secret, access) = match words[..] {
            [] => continue,
            [first, ..] if first.starts_with('#') => continue,
            [id, secret] => (id, secret, Access::ReadWrite),
            [id, secret, "read-only"] => (id, secret, Access::ReadOnly),
            _ => return Err(KeysFileProblem::Line { line: index + 1 }),
        };
        let keys = KeyPair { access_key_id: id.to_owned(), secret_access_key: secret.to_owned() };
        if !keys.is_usable() {
            return Err(KeysFileProblem::Line { line: index + 1 });
        }
        accounts.push(Account { keys, access });
    }
    if accounts.is_empty() { Err(KeysFileProblem::Empty) } else { Ok(accounts) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_pairs_and_some_can_only_read() {
        let accounts = parse("# team\n\nAKIA1 s3/cret+=\n  AKIA2\tother read-only \n").unwrap();
        let seen: Vec<_> = accounts
            .iter()
            .map(|account| (account.keys.access_key_id.as_str(), account.access))
            .collect();
        assert_eq!(seen, [("AKIA1", Access::ReadWrite), ("AKIA2", Access::ReadOnly)]);
        assert_eq!(accounts[0].keys.secret_access_key, "s3/cret+=");
    }

    #[test]
    fn a_line_that_is_no_pair_is_named_by_its_number_alone() {
        for wrong in ["hush", "AKIA hush readonly", "a/b hush", "AKIA hush read-only x"] {
            let problem = parse(&format!("AKIA1 x\n{wrong}\n")).unwrap_err().to_string();
            assert!(problem.starts_with("line 2 ") && !problem.contains("hush"), "{problem}");
        }
        assert!(matches!(parse("# nothing\n"), Err(KeysFileProblem::Empty)));
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "AKIA hush\n").unwrap();
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o640)).unwrap();
        let error = read_keys_file(file.path()).unwrap_err().to_string();
        assert!(error.contains("0640") && error.contains("chmod 600"), "{error}");
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(read_keys_file(file.path()).unwrap().len(), 1);
    }
}
