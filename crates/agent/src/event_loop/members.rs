//! The members of the mesh: the authority admits new ones and sends the list to all.

use std::{net::IpAddr, time::SystemTime};

use base64::{Engine, engine::general_purpose::STANDARD};
use data_encoding::HEXLOWER_PERMISSIVE;
use reservation::{Now, PointName};
use serde_json::json;

use super::{batch::Batch, state::EventLoop};
use crate::{
    Announcement, Authority, Error, Members, address::host_and_port, audit, frame::Frame, mesh::key_digest,
};

/// Span of the calendar from which a point computes the load that it announces, seconds.
const LOAD_S: u64 = 86_400;

impl EventLoop {
    /// A point has connected: sends its pending results, and the list of members if it missed a change. The
    /// authority gets this point's announcement if it lacks the present one.
    pub(super) fn on_connected(&mut self, now: Now, name: &PointName, ip: IpAddr, batch: &mut Batch) {
        self.rules.set_address(name, ip);
        if self.outbox_due.is_some() {
            self.outbox_due = Some(now.steady);
        }
        if self.is_authority() {
            batch.frames.push((name.clone(), Frame::Members { members: self.members.clone() }));
        } else if *name == self.members.authority {
            self.announce(now, batch);
        }
    }

    /// The present entry of this point in the directory.
    pub(super) fn announcement(&self, now: Now) -> Announcement {
        let busy_share = self.calendar(now, LOAD_S).busy_share;
        Announcement::new(self.config.place.clone(), &self.config.limits, busy_share)
    }

    /// Announces this point, if its entry has changed.
    pub(super) fn announce(&mut self, now: Now, batch: &mut Batch) {
        let announcement = self.announcement(now);
        if self.members.announcement(&self.config.name) == Some(&announcement) {
            return;
        }
        if self.is_authority() {
            let name = self.config.name.clone();
            self.accept_announcement(&name, announcement, batch);
        } else {
            self.send_hello(announcement, batch);
        }
    }

    /// Notifies the authority of the version of the list that this point has, and of its entry.
    pub(super) fn send_hello(&self, announcement: Announcement, batch: &mut Batch) {
        let announcement = Some(Box::new(announcement));
        let hello = Frame::Hello { members: self.members.version, announcement };
        batch.frames.push((self.members.authority.clone(), hello));
    }

    /// Authority: a point has announced itself.
    pub(super) fn on_hello(
        &mut self,
        from: &PointName,
        version: u64,
        announcement: Option<Announcement>,
        batch: &mut Batch,
    ) {
        if !self.is_authority() {
            return;
        }
        if let Some(announcement) = announcement {
            self.accept_announcement(from, announcement, batch);
        }
        if version < self.members.version && !batch.has_announcements {
            batch.frames.push((from.clone(), Frame::Members { members: self.members.clone() }));
        }
    }

    /// Authority: stores an announcement. The list is published once, at the end of the batch, for all its
    /// announcements.
    fn accept_announcement(&mut self, name: &PointName, announcement: Announcement, batch: &mut Batch) {
        match self.members.announce(name, announcement) {
            Ok(has_changed) => batch.has_announcements |= has_changed,
            Err(error) => tracing::warn!("the announcement of {name} is not accepted: {error}"),
        }
    }

    /// Publishes the announcements of a batch.
    pub(super) fn publish_announcements(&mut self, batch: &mut Batch) -> Result<(), Error> {
        if std::mem::take(&mut batch.has_announcements) { self.publish_members(batch) } else { Ok(()) }
    }

    /// Publishes the authority's own address, if it has changed.
    pub(super) fn update_own_address(&mut self, batch: &mut Batch) -> Result<(), Error> {
        let (name, address) = (self.config.name.clone(), self.config.address.clone());
        if self.members.set(name, &address) { self.publish_members(batch) } else { Ok(()) }
    }

    /// Stores the list, applies it and sends it to all.
    pub(super) fn publish_members(&mut self, batch: &mut Batch) -> Result<(), Error> {
        self.members.write(&self.config.state)?;
        self.apply_members(batch);
        for member in &self.members.members {
            if member.name != self.config.name {
                batch.frames.push((member.name.clone(), Frame::Members { members: self.members.clone() }));
            }
        }
        Ok(())
    }

    fn apply_members(&mut self, batch: &mut Batch) {
        self.network.set_members(&self.members);
        self.rules.set_members(&self.members);
        // Tests to each point of the mesh.
        self.set_tasks(self.now(), batch);
    }

    /// Applies a list that the authority has sent, if it is newer.
    pub(super) fn on_members(
        &mut self,
        from: &PointName,
        members: Members,
        batch: &mut Batch,
    ) -> Result<(), Error> {
        let is_newer = members.version > self.members.version;
        if *from != self.members.authority || members.authority != *from || !is_newer || self.is_authority() {
            return Ok(());
        }
        members.write(&self.config.state)?;
        self.members = members;
        self.apply_members(batch);
        Ok(())
    }

    /// Handles the request of a new point with an invitation for a certificate.
    pub(super) fn on_join(
        &mut self,
        invitation: &str,
        ip: IpAddr,
        frame: Frame,
        batch: &mut Batch,
    ) -> Result<Frame, Error> {
        let refused = |text: String| Ok(Frame::Refused { text });
        let Frame::Join { public_key, address, port } = frame else { return refused("no request".into()) };
        let Some(authority) = Authority::open(&self.config.state).filter(|_| self.is_authority()) else {
            return refused(format!("{} is not the authority of the mesh", self.config.name));
        };
        let address = address.unwrap_or_else(|| match ip {
            IpAddr::V4(ip) => format!("{ip}:{port}"),
            IpAddr::V6(ip) => format!("[{ip}]:{port}"),
        });
        if host_and_port(&address).is_none() {
            return refused(format!("{address:?} is not an address of the form HOST:PORT"));
        }
        let Ok(public_key) = HEXLOWER_PERMISSIVE.decode(public_key.as_bytes()) else {
            return refused("its key is not hexadecimal".into());
        };
        let is_member = |name: &str| self.members.address(&name.into()).is_some();
        let checked = authority.check_invitation(invitation, &public_key, SystemTime::now(), is_member);
        let acceptable = match checked {
            Ok(acceptable) => acceptable,
            Err(error @ Error::Refused(_)) => return refused(error.to_string()),
            Err(error) => return Err(error),
        };
        let name = acceptable.name().to_owned();
        tracing::info!("{name} at {address} has joined");
        let details = json!({ "point": name, "address": address, "ip": ip });
        audit::append(&self.config.state, &format!("invitation {invitation}"), "join", details)?;
        if self.members.admit(name.as_str().into(), &address, &key_digest(&public_key)) {
            self.publish_members(batch)?;
        }
        let certificate = STANDARD.encode(authority.redeem(acceptable)?);
        Ok(Frame::Joined { certificate, members: self.members.clone() })
    }

    /// Removes a member.
    pub(super) fn expel(&mut self, name: &str, batch: &mut Batch) -> Result<(), Error> {
        if !self.is_authority() {
            let text = format!("only the authority of the mesh, {}, removes points", self.members.authority);
            return Err(Error::Refused(text));
        }
        let name = PointName(name.into());
        if name == self.config.name {
            return Err(Error::Refused("the authority itself cannot be removed".into()));
        }
        if self.members.address(&name).is_none() {
            return Err(Error::Refused(format!("{name} is not a member of the mesh")));
        }
        // Invitations are deleted first: with one, an expelled point could join again.
        if let Some(authority) = Authority::open(&self.config.state) {
            authority.delete_invitations(&name.0)?;
        }
        self.members.remove(&name);
        self.publish_members(batch)
    }
}
