//! The secrets that a responder accepts: one for all clients, or one with a name for each. Their file is read again
//! when it has changed.

use std::path::Path;
use std::sync::{Mutex, PoisonError, RwLock};

use crate::auth;
use crate::name::Name;
use crate::secret::{self, Secret};
use crate::secret_file::{FileError, FileState, Place, lines};

/// The accepted secrets.
pub struct Keyring {
    /// That is looked at again; a pipe is read once.
    place: Option<Place>,
    secrets: RwLock<Vec<Secret>>,
    seen: Mutex<Seen>,
}

/// States of the file.
struct Seen {
    /// When it was read.
    read: Option<FileState>,
    /// When it was last looked at.
    last: Option<FileState>,
}

impl Keyring {
    /// Reads secrets: one, or several lines with a name and a secret each.
    ///
    /// # Errors
    /// A message that names the line.
    pub fn new(text: &str) -> Result<Keyring, String> {
        Ok(Keyring {
            place: None,
            secrets: RwLock::new(secrets(text)?),
            seen: Mutex::new(Seen {
                read: None,
                last: None,
            }),
        })
    }

    /// Reads the secrets in this file; without one those in the file of `WHYDROP_SECRET_FILE`, or in `WHYDROP_SECRET`
    /// itself.
    ///
    /// # Errors
    /// The file is not safe or cannot be read, or a line is invalid.
    pub fn read(path: Option<&Path>) -> Result<Option<Keyring>, FileError> {
        let Some(place) = Place::find(path) else {
            return Ok(None);
        };
        let (secrets, state) = secrets_in(&place)?;
        Ok(Some(Keyring {
            place: state.map(|_| place),
            secrets: RwLock::new(secrets),
            seen: Mutex::new(Seen {
                read: state,
                last: state,
            }),
        }))
    }

    /// Reads the file again if it has changed, and has not changed further since the last call. Returns a line that
    /// says so. The earlier secrets stay if it has an error.
    pub(crate) fn refresh(&self) -> Option<String> {
        let Some(place @ Place::File(path)) = &self.place else {
            return None;
        };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = FileState::now(path);
        let is_settled = now == seen.last;
        seen.last = now;
        if now == seen.read || !is_settled {
            return None;
        }
        Some(match secrets_in(place) {
            Ok((secrets, state)) => {
                seen.read = state;
                seen.last = state;
                let mut current = self.secrets.write().unwrap_or_else(PoisonError::into_inner);
                let changes = changes(&current, &secrets);
                *current = secrets;
                format!("{place} was read again: {changes}")
            }
            Err(error) => {
                seen.read = now;
                format!("{error}; the earlier secrets stay valid")
            }
        })
    }

    /// The secret with this name. An unknown name gets a random key, which no client has, for the same work and answer
    /// as a wrong secret.
    pub(crate) fn secret(&self, name: Name) -> Secret {
        let unknown = Secret::of_key(name, auth::nonce());
        self.secrets()
            .iter()
            .fold(unknown, |found, secret| match secret.name() == name {
                true => secret.clone(),
                false => found,
            })
    }

    /// True unless the secret was removed or replaced.
    pub(crate) fn accepts(&self, secret: &Secret) -> bool {
        let known = self.secrets();
        known.iter().any(|one| is_same(one, secret))
    }

    /// The names; none if there is one secret for all clients.
    pub fn names(&self) -> Vec<Name> {
        let names = self.secrets().iter().map(Secret::name).collect::<Vec<_>>();
        names.into_iter().filter(|name| !name.is_empty()).collect()
    }

    /// The clients that are served, in words.
    pub fn clients(&self) -> String {
        match self.names().len() {
            0 => "clients with the secret".to_owned(),
            1 => "the client with the secret".to_owned(),
            number => format!("{number} clients with secrets"),
        }
    }

    fn secrets(&self) -> std::sync::RwLockReadGuard<'_, Vec<Secret>> {
        self.secrets.read().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_same(one: &Secret, other: &Secret) -> bool {
    one.name() == other.name() && auth::equal(one.key(), other.key())
}

fn secrets_in(place: &Place) -> Result<(Vec<Secret>, Option<FileState>), FileError> {
    let content = place.read()?;
    let secrets = secrets(&content.text)
        .map_err(|problem| FileError::Invalid(format!("{place}, {problem}")))?;
    Ok((secrets, content.state))
}

/// Reads the lines of a text.
fn secrets(text: &str) -> Result<Vec<Secret>, String> {
    let lines: Vec<_> = lines(text).collect();
    let mut found: Vec<(usize, Secret)> = Vec::new();
    for &(number, line) in &lines {
        let secret = if lines.len() > 1 && !secret::has_name(line.as_bytes()) {
            Err(NO_NAME.to_owned())
        } else {
            Secret::new(line.as_bytes()).and_then(|secret| unlike(secret, &found))
        };
        let secret = secret.map_err(|problem| format!("line {number}: {problem}"))?;
        found.push((number, secret));
    }
    if found.is_empty() {
        return Err("line 1: expected a secret".to_owned());
    }
    Ok(found.into_iter().map(|(_, secret)| secret).collect())
}

const NO_NAME: &str = "expected a name and a secret, as `whydrop secret --name NAME` prints them, since there are several lines";

/// Returns a secret that differs from those before it.
fn unlike(secret: Secret, before: &[(usize, Secret)]) -> Result<Secret, String> {
    for (number, one) in before {
        if one.name() == secret.name() {
            let name = secret.name();
            return Err(format!(
                "the name {name} is that of line {number}; expected another one"
            ));
        }
        if auth::equal(one.key(), secret.key()) {
            return Err(format!(
                "the secret is that of line {number}; expected one of its own for each name"
            ));
        }
    }
    Ok(secret)
}

/// Names the secrets that were added, removed and replaced.
fn changes(before: &[Secret], after: &[Secret]) -> String {
    let has_name = |secrets: &[Secret], name: Name| secrets.iter().any(|one| one.name() == name);
    let named = |what: &str, names: Vec<Name>| {
        let names: Vec<_> = names
            .iter()
            .map(|name| match name.is_empty() {
                true => "the one without a name".to_owned(),
                false => name.to_string(),
            })
            .collect();
        (!names.is_empty()).then(|| format!("{what}: {}", names.join(", ")))
    };
    let missing = |from: &[Secret], of: &[Secret]| {
        let names = of.iter().map(Secret::name);
        names.filter(|&name| !has_name(from, name)).collect()
    };
    let is_kept = |secret: &Secret| before.iter().any(|one| is_same(one, secret));
    let replaced = after
        .iter()
        .filter(|one| has_name(before, one.name()) && !is_kept(one))
        .map(Secret::name)
        .collect();
    let parts = [
        named("added", missing(before, after)),
        named("replaced", replaced),
        named("removed", missing(after, before)),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    match parts.is_empty() {
        true => "the same secrets".to_owned(),
        false => parts.join("; "),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::OpenOptionsExt;
    use std::path::PathBuf;

    use super::*;
    use crate::secret::random;

    /// A file of secrets, in a folder of its own, removed at the end.
    struct Written(PathBuf);

    impl Written {
        fn new(name: &str, text: &str) -> Written {
            let folder =
                std::env::temp_dir().join(format!("whydrop-{name}-{}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            let written = Written(folder.join("secrets"));
            written.replace(text);
            written
        }

        /// As editors do it: another file takes its place.
        fn replace(&self, text: &str) {
            let beside = self.0.with_extension("new");
            let mut options = fs::OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600);
            std::io::Write::write_all(&mut options.open(&beside).unwrap(), text.as_bytes())
                .unwrap();
            fs::rename(beside, &self.0).unwrap();
        }
    }

    impl Drop for Written {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(self.0.parent().unwrap());
        }
    }

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    /// The line of a client.
    fn line(name: &str) -> String {
        format!("{name} {}\n", random())
    }

    fn problem(text: &str) -> String {
        Keyring::new(text).err().expect("it is invalid")
    }

    #[test]
    fn each_line_is_a_secret_with_a_name_among_comments_and_empty_lines() {
        let keyring = Keyring::new(&format!("# clients\n\n{} {}", line("a"), line("b"))).unwrap();
        assert_eq!(keyring.names(), [name("a"), name("b")]);
        let of = |text: &str| *keyring.secret(name(text)).key();
        assert_eq!(of("a"), of("a"));
        assert_ne!(of("a"), of("b"));
        // Random, so that nothing matches it.
        assert_ne!(of("c"), of("c"));
        assert!(Keyring::new(&random()).unwrap().names().is_empty());
    }

    #[test]
    fn an_invalid_line_is_named_with_the_expected_one() {
        let (alice, made) = (line("alice"), random());
        for (text, expected) in [
            ("# none\n".to_owned(), "line 1: expected a secret"),
            (
                format!("{alice}{made}\n"),
                "line 2: expected a name and a secret",
            ),
            (
                format!("{alice}bob a chosen secret\n"),
                "line 2: expected a name and a secret",
            ),
            (
                format!("{alice}b/b {made}\n"),
                "line 2: the name 'b/b': expected letters",
            ),
            (
                format!("{alice}bob {}\n", &made[1..]),
                "line 2: expected a name and a secret",
            ),
            (
                format!("{alice}bob {}\n", &made[..30]),
                "line 2: the secret begins with whydrop-",
            ),
            (
                format!("{alice}\n{}", line("alice")),
                "line 3: the name alice is that of line 1",
            ),
            (
                alice.clone() + &alice.replace("alice", "bob"),
                "line 2: the secret is that of line 1",
            ),
        ] {
            let message = problem(&text);
            assert!(message.starts_with(expected), "{message}");
        }
    }

    #[test]
    fn a_changed_file_is_read_again_once_it_has_settled_and_an_invalid_one_changes_nothing() {
        let (alice, bob) = (line("alice"), line("bob"));
        let file = Written::new("keyring", &(alice.clone() + &bob));
        let keyring = Keyring::read(Some(&file.0)).unwrap().unwrap();
        let secret = keyring.secret(name("bob"));
        assert_eq!(keyring.refresh(), None);
        file.replace("alice and nothing else\nbob\n");
        assert_eq!(keyring.refresh(), None);
        let said = keyring.refresh().unwrap();
        assert!(said.contains("secrets, line 1: expected a name"), "{said}");
        assert!(said.ends_with("; the earlier secrets stay valid"), "{said}");
        assert_eq!(keyring.refresh(), None);
        assert!(keyring.accepts(&secret));
        file.replace(&(line("alice") + &line("carol")));
        assert_eq!(keyring.refresh(), None);
        let said = keyring.refresh().unwrap();
        let expected = "was read again: added: carol; replaced: alice; removed: bob";
        assert!(said.ends_with(expected), "{said}");
        assert!(!keyring.accepts(&secret));
        fs::remove_file(&file.0).unwrap();
        assert_eq!(keyring.refresh(), None);
        let said = keyring.refresh().unwrap();
        assert!(said.contains("No such file"), "{said}");
        assert_eq!(keyring.refresh(), None);
        assert_eq!(keyring.names(), [name("alice"), name("carol")]);
    }
}
