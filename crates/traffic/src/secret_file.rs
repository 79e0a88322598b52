//! The file or variable from which secrets are read, and the refusal of a file that others can read or change.

use std::env;
use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const VARIABLE: &str = "WHYDROP_SECRET";
const FILE_VARIABLE: &str = "WHYDROP_SECRET_FILE";
/// Room for some 800 secrets with names.
const LARGEST_BYTES: usize = 64 << 10;
/// The bits of a mode that are permissions.
const PERMISSIONS: u32 = 0o7777;

/// A file from which no secret was read.
#[derive(Debug)]
pub enum FileError {
    /// It is not safe, or is no text; the message says what to do.
    Refused(String),
    /// A line has no valid secret; the message names the line.
    Invalid(String),
    /// It cannot be read.
    Unreadable { path: PathBuf, reason: io::Error },
}

impl FileError {
    /// The words for this error; those of an unreadable file do not name it.
    pub fn words(&self) -> String {
        match self {
            FileError::Refused(message) | FileError::Invalid(message) => message.clone(),
            FileError::Unreadable { reason, .. } => {
                let words = reason.to_string();
                let words = words.split(" (os error").next().unwrap_or(&words);
                format!(
                    "{words}; expected the file of the secret (--secret-file or {FILE_VARIABLE})"
                )
            }
        }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let FileError::Unreadable { path, .. } = self {
            write!(formatter, "{}: ", path.display())?;
        }
        formatter.write_str(&self.words())
    }
}

/// A place of secrets.
pub enum Place {
    File(PathBuf),
    /// The text of the variable itself.
    Variable(String),
}

impl Place {
    /// Returns this file; without one that of `WHYDROP_SECRET_FILE`, or `WHYDROP_SECRET` itself.
    pub fn find(path: Option<&Path>) -> Option<Place> {
        let named = || {
            env::var_os(FILE_VARIABLE)
                .filter(|name| !name.is_empty())
                .map(PathBuf::from)
        };
        if let Some(path) = path.map(Path::to_path_buf).or_else(named) {
            return Some(Place::File(path));
        }
        let text = env::var_os(VARIABLE)?.to_string_lossy().into_owned();
        lines(&text).next()?;
        Some(Place::Variable(text))
    }

    /// # Errors
    /// The file cannot be read, others can read or change it, or it has no secret.
    pub fn read(&self) -> Result<Content, FileError> {
        match self {
            Place::File(path) => read(path),
            Place::Variable(text) => Ok(Content {
                text: text.clone(),
                state: None,
            }),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File(path) => path.display().fmt(formatter),
            Place::Variable(_) => formatter.write_str(VARIABLE),
        }
    }
}

/// The text of a place.
#[derive(Debug)]
pub struct Content {
    pub text: String,
    /// `None`: not of a regular file.
    pub state: Option<FileState>,
}

/// Facts that change when a file is written, replaced, or gets another mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileState {
    inode: (u64, u64),
    bytes: u64,
    changed: (i64, i64),
}

impl FileState {
    fn of(metadata: &Metadata) -> Option<FileState> {
        metadata.is_file().then(|| FileState {
            inode: (metadata.dev(), metadata.ino()),
            bytes: metadata.size(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }

    /// The state now; `None` if there is no such file.
    pub fn now(path: &Path) -> Option<FileState> {
        FileState::of(&std::fs::metadata(path).ok()?)
    }
}

/// The lines with secrets, with their numbers: not the empty ones, and not the comments, which begin with `#`.
pub fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(place, line)| (place + 1, line.trim_ascii()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// Reads the secret of a client from this file; without one from that of `WHYDROP_SECRET_FILE`, or from
/// `WHYDROP_SECRET` itself. It may have a name before it.
///
/// # Errors
/// As for [`Place::read`], or there are several secrets.
pub fn shared_secret(path: Option<&Path>) -> Result<Option<String>, FileError> {
    let Some(place) = Place::find(path) else {
        return Ok(None);
    };
    let text = place.read()?.text;
    let found: Vec<_> = lines(&text).collect();
    if let &[_, (number, _), ..] = found.as_slice() {
        return Err(FileError::Refused(format!(
            "{place}, line {number}: a further secret; expected one: the file with all of them is for the responder, and \
             each client has its own line in a file of its own"
        )));
    }
    Ok(found.first().map(|(_, line)| (*line).to_owned()))
}

fn read(path: &Path) -> Result<Content, FileError> {
    let unreadable = |reason| FileError::Unreadable {
        path: path.to_path_buf(),
        reason,
    };
    let file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    // SAFETY: takes nothing and always succeeds.
    let user = unsafe { libc::geteuid() };
    refuse_unsafe(path, &metadata, user)?;
    let mut content = Vec::new();
    file.take(LARGEST_BYTES as u64 + 1)
        .read_to_end(&mut content)
        .map_err(unreadable)?;
    let refused = |problem: String| {
        let command = format!("whydrop secret -o {}", quoted(path));
        FileError::Refused(format!(
            "{}: {problem}; make a secret with: {command}",
            path.display()
        ))
    };
    if content.len() > LARGEST_BYTES {
        return Err(refused(format!("more than {LARGEST_BYTES} bytes")));
    }
    let text = String::from_utf8(content).map_err(|_| refused("not UTF-8 text".to_owned()))?;
    if lines(&text).next().is_none() {
        return Err(refused("holds no secret".to_owned()));
    }
    Ok(Content {
        text,
        state: FileState::of(&metadata),
    })
}

/// Refuses a regular file that others can read or change.
///
/// In a file of another user the bits of the group may be those of an access list, as systemd sets one on credentials.
fn refuse_unsafe(path: &Path, metadata: &Metadata, user: u32) -> Result<(), FileError> {
    let others = if metadata.uid() == user { 0o077 } else { 0o007 };
    if !metadata.is_file() || metadata.mode() & others == 0 {
        return Ok(());
    }
    Err(FileError::Refused(format!(
        "{}: other users can read or change the secret (mode {:04o}); run: chmod 600 {}",
        path.display(),
        metadata.mode() & PERMISSIONS,
        quoted(path)
    )))
}

/// Quotes a path for a shell, if it needs that.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || "@%+=:,./-_".contains(character);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', "'\"'\"'"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const GOOD: &str = "a secret of some length";

    /// A file in a folder of its own, removed at the end.
    struct Written(PathBuf);

    impl Written {
        fn new(name: &str, content: &[u8], mode: u32) -> Written {
            let folder = env::temp_dir().join(format!("whydrop-{name}-{}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            let path = folder.join("the secret");
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            Written(path)
        }
    }

    impl Drop for Written {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(self.0.parent().unwrap());
        }
    }

    fn refusal<T: fmt::Debug>(result: Result<T, FileError>) -> String {
        match result {
            Err(FileError::Refused(message)) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_file_that_others_can_read_or_change_is_refused_with_the_command_that_corrects_it() {
        for mode in [0o604, 0o602, 0o640, 0o620, 0o644, 0o666] {
            let file = Written::new("open", GOOD.as_bytes(), mode);
            let message = refusal(read(&file.0));
            assert!(
                message.contains(&format!("chmod 600 '{}'", file.0.display())),
                "{message}"
            );
            assert!(message.contains(&format!("mode {mode:04o}")), "{message}");
        }
        let file = Written::new("closed", GOOD.as_bytes(), 0o400);
        assert_eq!(read(&file.0).unwrap().text, GOOD);
    }

    #[test]
    fn a_group_may_read_the_file_of_another_user() {
        let file = Written::new("group", GOOD.as_bytes(), 0o440);
        let metadata = fs::metadata(&file.0).unwrap();
        let other = metadata.uid() + 1;
        assert!(refuse_unsafe(&file.0, &metadata, other).is_ok());
        assert!(refuse_unsafe(&file.0, &metadata, metadata.uid()).is_err());
        fs::set_permissions(&file.0, fs::Permissions::from_mode(0o444)).unwrap();
        assert!(refuse_unsafe(&file.0, &fs::metadata(&file.0).unwrap(), other).is_err());
    }

    #[test]
    fn a_file_without_a_secret_is_refused_with_the_command_that_makes_one() {
        for (name, content) in [
            ("binary", vec![0xff; 20]),
            ("large", vec![b'a'; 70_000]),
            ("empty", b" \n".to_vec()),
            ("comment", b"# alice\n".to_vec()),
        ] {
            let file = Written::new(name, &content, 0o600);
            assert!(refusal(read(&file.0)).contains("whydrop secret -o '"));
        }
    }

    #[test]
    fn a_file_that_does_not_exist_is_named_without_the_number_of_the_error() {
        let message = read(Path::new("/no/such/file")).unwrap_err().to_string();
        let expected = "/no/such/file: No such file or directory; expected";
        assert!(message.starts_with(expected), "{message}");
    }

    #[test]
    fn a_client_has_one_secret_with_or_without_comments_and_white_space_around_it() {
        let one = Written::new(
            "one",
            format!("# of alice\n\n \t{GOOD} \r\n").as_bytes(),
            0o600,
        );
        assert_eq!(shared_secret(Some(&one.0)).unwrap().as_deref(), Some(GOOD));
        let many = Written::new("many", format!("{GOOD}\n\n{GOOD}\n").as_bytes(), 0o600);
        let message = refusal(shared_secret(Some(&many.0)));
        assert!(message.contains("line 3: a further secret"), "{message}");
    }

    #[test]
    fn a_path_is_quoted_where_a_shell_needs_it() {
        for (path, expected) in [
            ("/etc/a-b", "/etc/a-b"),
            ("a b", "'a b'"),
            ("it's", "'it'\"'\"'s'"),
        ] {
            assert_eq!(quoted(Path::new(path)), expected);
        }
    }
}
