//! Whole files, written so that no reader meets half of one.

use std::fs;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::ser::{PrettyFormatter, Serializer};

use crate::ReportError;

/// Writes `contents` under a temporary name beside `path` and renames it; makes the folder first.
/// The temporary name holds the process number, so two writers never share one.
pub(crate) fn write(path: &Path, contents: &[u8]) -> Result<(), ReportError> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)
            .map_err(|source| ReportError::CreateFolder { path: folder.to_owned(), source })?;
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = fs::write(&temporary, contents).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // What could not become the file is of no use to anyone.
        let _ = fs::remove_file(&temporary);
    }
    written.map_err(ReportError::write(path))
}

/// Writes JSON with the indent of four that DLIO's files have.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), ReportError> {
    let mut json = Vec::new();
    let formatter = PrettyFormatter::with_indent(b"    ");
    value
        .serialize(&mut Serializer::with_formatter(&mut json, formatter))
        .map_err(ReportError::encode(path))?;
    json.push(b'\n');
    write(path, &json)
}

/// Writes JSON on one line: for records that hold every step.
pub(crate) fn write_compact_json(path: &Path, value: &impl Serialize) -> Result<(), ReportError> {
    let mut json = serde_json::to_vec(value).map_err(ReportError::encode(path))?;
    json.push(b'\n');
    write(path, &json)
}

/// Reads a record whose `format_version` must be `supported`. The version is looked at first, so a
/// record from another time is told apart from a damaged one.
pub(crate) fn read_record<T: DeserializeOwned>(
    path: &Path,
    supported: u32,
) -> Result<T, ReportError> {
    #[derive(serde::Deserialize)]
    struct Head {
        format_version: u64,
    }
    let damaged = |source| ReportError::Parse { path: path.to_owned(), source };
    let json = fs::read(path).map_err(ReportError::read(path))?;
    let head: Head = serde_json::from_slice(&json).map_err(damaged)?;
    if head.format_version != u64::from(supported) {
        let (path, found) = (path.to_owned(), head.format_version);
        return Err(ReportError::Version { path, found, supported });
    }
    serde_json::from_slice(&json).map_err(damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_makes_the_folder_and_leaves_no_temporary_file() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/b/c.json");
        write_json(&path, &serde_json::json!({"x": [85.0]})).unwrap();
        write_json(&path, &serde_json::json!({"x": [86.0]})).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, "{\n    \"x\": [\n        86.0\n    ]\n}\n");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn an_error_names_the_path() {
        let root = tempfile::tempdir().unwrap();
        let blocked = root.path().join("file");
        fs::write(&blocked, "").unwrap();
        let error = write(&blocked.join("x.json"), b"").unwrap_err();
        assert!(error.to_string().contains(blocked.to_str().unwrap()), "{error}");
        fs::create_dir(root.path().join("folder")).unwrap();
        let error = write(&root.path().join("folder"), b"").unwrap_err();
        assert!(error.to_string().ends_with("/folder"), "{error}");
    }

    #[test]
    fn a_record_of_another_version_is_not_called_damaged() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("x.json");
        fs::write(&path, "{\"format_version\": 7}").unwrap();
        let error = read_record::<serde_json::Value>(&path, 1).unwrap_err();
        assert!(matches!(error, ReportError::Version { found: 7, supported: 1, .. }), "{error}");
        fs::write(&path, "{\"format_ver").unwrap();
        let error = read_record::<serde_json::Value>(&path, 1).unwrap_err();
        assert!(matches!(error, ReportError::Parse { .. }), "{error}");
    }
}
