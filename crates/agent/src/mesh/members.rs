//! The members of a mesh: names, addresses and announcements. The authority's point changes the list and
//! sends it to all others.

use std::path::{Path, PathBuf};

use reservation::PointName;
use serde::{Deserialize, Serialize};

use crate::{Announcement, Error, files, framing::MAX_FRAME_BYTES};

/// Part of a frame that is reserved for the new point's certificate, which accompanies the list.
const FRAME_RESERVE_BYTES: usize = 16 * 1024;

/// A point of the mesh.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// Its name.
    pub name: PointName,
    /// Where it listens, `HOST:PORT`.
    pub address: String,
    /// The digest of its public key (`key_digest`); absent if it joined with an earlier version. A
    /// certificate of the same name with another key is that of an expelled point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Its entry in the directory; `None` until it has announced itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub announcement: Option<Announcement>,
}

impl Member {
    /// Whether a certificate of its name with this key is valid.
    pub(crate) fn has_key(&self, digest: Option<&str>) -> bool {
        self.key.is_none() || self.key.as_deref() == digest
    }
}

/// The members of a mesh.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Members {
    /// Number of changes of the list.
    pub version: u64,
    /// The point with the authority; only its lists are accepted.
    pub authority: PointName,
    /// The members, by name.
    pub members: Vec<Member>,
}

impl Members {
    /// A mesh of one point.
    pub fn of_one(name: PointName, address: &str) -> Self {
        let members =
            vec![Member { name: name.clone(), address: address.into(), key: None, announcement: None }];
        Members { version: 1, authority: name, members }
    }

    /// The list in a state directory.
    ///
    /// # Errors
    /// If the list is missing or damaged.
    pub fn open(state: &Path) -> Result<Self, Error> {
        Members::parse(&files::read(&Members::path(state))?, state)
    }

    /// The file in a state directory.
    pub(crate) fn path(state: &Path) -> PathBuf {
        state.join("members.json")
    }

    /// The list in the text of that file.
    pub(crate) fn parse(text: &str, state: &Path) -> Result<Self, Error> {
        let members = serde_json::from_str(text);
        members.map_err(|error| files::failed("read", &Members::path(state))(error.into()))
    }

    /// Writes the list.
    ///
    /// # Errors
    /// If the list cannot be written.
    pub fn write(&self, state: &Path) -> Result<(), Error> {
        let path = Members::path(state);
        let text = serde_json::to_vec_pretty(self).map_err(|e| files::failed("write", &path)(e.into()))?;
        files::replace(&path, &text)
    }

    /// The address of a member.
    pub fn address(&self, name: &PointName) -> Option<&str> {
        self.members.iter().find(|member| member.name == *name).map(|member| member.address.as_str())
    }

    /// The announcement of a member.
    pub fn announcement(&self, name: &PointName) -> Option<&Announcement> {
        self.members.iter().find(|member| member.name == *name)?.announcement.as_ref()
    }

    /// Adds a member, or changes its address. Returns whether something changed.
    pub fn set(&mut self, name: PointName, address: &str) -> bool {
        self.change(name, address, None)
    }

    /// Adds a member that has joined with this key, or replaces it; whether something changed.
    pub(crate) fn admit(&mut self, name: PointName, address: &str, digest: &str) -> bool {
        self.change(name, address, Some(digest))
    }

    fn change(&mut self, name: PointName, address: &str, key: Option<&str>) -> bool {
        match self.members.iter_mut().find(|member| member.name == name) {
            Some(known) => {
                let key = key.map(str::to_owned).or(known.key.clone());
                if known.address == address && known.key == key {
                    return false;
                }
                (known.address, known.key) = (address.into(), key);
            }
            None => {
                let (address, key) = (address.into(), key.map(str::to_owned));
                self.members.push(Member { name, address, key, announcement: None });
                self.members.sort_by(|a, b| a.name.cmp(&b.name));
            }
        }
        self.version += 1;
        true
    }

    /// Replaces the announcement of a member; whether something changed.
    ///
    /// # Errors
    /// If the announcement exceeds the maxima, or the list would be longer than a frame.
    pub fn announce(&mut self, name: &PointName, announcement: Announcement) -> Result<bool, Error> {
        announcement.check()?;
        let Some(index) = self.members.iter().position(|member| member.name == *name) else {
            return Ok(false);
        };
        if self.members[index].announcement.as_ref() == Some(&announcement) {
            return Ok(false);
        }
        let before = self.members[index].announcement.replace(announcement);
        if !self.fits_frame() {
            self.members[index].announcement = before;
            return Err(Error::Refused("the list of members would be longer than a frame".into()));
        }
        self.version += 1;
        Ok(true)
    }

    fn fits_frame(&self) -> bool {
        serde_json::to_vec(self).is_ok_and(|bytes| bytes.len() <= MAX_FRAME_BYTES - FRAME_RESERVE_BYTES)
    }

    /// Removes a member. Returns whether it was one.
    pub fn remove(&mut self, name: &PointName) -> bool {
        let before = self.members.len();
        self.members.retain(|member| member.name != *name);
        self.version += u64::from(self.members.len() < before);
        self.members.len() < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Place;

    #[test]
    fn changes_count_and_the_list_is_read_as_written() {
        let mut members = Members::of_one("a".into(), "192.0.2.1:4862");
        assert!(members.set("b".into(), "192.0.2.2:4862") && !members.set("b".into(), "192.0.2.2:4862"));
        assert_eq!(members.version, 2);
        let state = tempfile::tempdir().unwrap();
        members.write(state.path()).unwrap();
        assert_eq!(Members::open(state.path()).unwrap(), members);
        assert!(members.remove(&"b".into()) && !members.remove(&"b".into()));
        assert_eq!((members.version, members.address(&"b".into())), (3, None));
        // A key remains when the address changes, and is replaced when the point joins again.
        assert!(
            members.admit("b".into(), "192.0.2.2:4862", "aa") && members.set("b".into(), "192.0.2.3:4862")
        );
        assert!(!members.admit("b".into(), "192.0.2.3:4862", "aa"));
        let key = |members: &Members| members.members[1].key.clone();
        assert_eq!(key(&members).as_deref(), Some("aa"));
        assert!(members.admit("b".into(), "192.0.2.3:4862", "bb") && members.members[1].has_key(Some("bb")));
        assert!(!members.members[1].has_key(Some("aa")) && !members.members[1].has_key(None));
        members.write(state.path()).unwrap();
        assert_eq!(key(&Members::open(state.path()).unwrap()).as_deref(), Some("bb"));
        // Of an earlier version.
        let old: Member = serde_json::from_str(r#"{"name":"c","address":"c:1"}"#).unwrap();
        assert!(old.has_key(Some("aa")));
    }

    #[test]
    fn announcements_are_kept_when_the_address_changes_and_their_size_is_limited() {
        let mut members = Members::of_one("a".into(), "192.0.2.1:4862");
        let announcement = Announcement { busy_share: 0.1, ..Announcement::default() };
        assert!(members.announce(&"a".into(), announcement.clone()).unwrap());
        assert!(!members.announce(&"a".into(), announcement.clone()).unwrap(), "nothing has changed");
        assert!(!members.announce(&"z".into(), announcement.clone()).unwrap(), "it is not a member");
        assert!(members.set("a".into(), "192.0.2.9:4862"));
        assert_eq!((members.announcement(&"a".into()), members.version), (Some(&announcement), 3));
        let long = Announcement { capabilities: vec!["x".repeat(1000)], ..Announcement::default() };
        assert!(members.announce(&"a".into(), long).is_err());
        // A list as earlier versions wrote it.
        let old = r#"{"version":1,"authority":"a","members":[{"name":"a","address":"a:1"}]}"#;
        assert_eq!(Members::parse(old, Path::new("")).unwrap(), Members::of_one("a".into(), "a:1"));
        // More announcements than fit into a frame: the list is unchanged.
        let large = Announcement {
            place: Place { networks: vec!["n".repeat(64); 32], ..Place::default() },
            ..Announcement::default()
        };
        let names: Vec<PointName> = (0..1000).map(|number| format!("p{number}").as_str().into()).collect();
        for name in &names {
            members.set(name.clone(), "192.0.2.1:4862");
        }
        let refused = names.iter().find(|name| members.announce(name, large.clone()).is_err()).unwrap();
        assert_eq!(members.announcement(refused), None);
        assert!(members.fits_frame());
    }
}
