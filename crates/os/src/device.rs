//! Network devices by ioctl (netdevice(7), linux/ethtool.h).
#![allow(unsafe_code)]

use std::{
    io, mem,
    net::UdpSocket,
    os::fd::{AsRawFd, OwnedFd},
};

use crate::check;

/// SIOCETHTOOL (linux/sockios.h).
const SIOCETHTOOL: libc::c_ulong = 0x8946;
/// ETHTOOL_STSO, whose argument is `struct ethtool_value`: the command and a number (linux/ethtool.h).
const ETHTOOL_STSO: u32 = 0x1f;
/// Commands for the features of `ethtool -k`. Their structures consist of 32-bit words (linux/ethtool.h).
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_SFEATURES: u32 = 0x3b;
/// The set of the features' names.
const ETH_SS_FEATURES: u32 = 4;
/// ETH_GSTRING_LEN is 32 bytes.
const NAME_WORDS: usize = 8;
const SIOCGIFTXQLEN: libc::c_ulong = 0x8942;
const SIOCSIFTXQLEN: libc::c_ulong = 0x8943;

/// A socket for device ioctls in the network namespace of the thread that opened it. Nothing is sent through
/// it.
#[derive(Debug)]
pub struct DeviceControl(OwnedFd);

impl DeviceControl {
    /// Opens a socket in this thread's network namespace.
    ///
    /// # Errors
    /// If no socket can be opened.
    pub fn open() -> io::Result<Self> {
        Ok(DeviceControl(UdpSocket::bind("0.0.0.0:0")?.into()))
    }

    /// The MTU of a device, bytes.
    ///
    /// # Errors
    /// If there is no such device.
    pub fn mtu(&self, device: &str) -> io::Result<u32> {
        let mut request = device_request(device);
        self.ioctl(libc::SIOCGIFMTU as libc::c_ulong, &mut request)?;
        // SAFETY: the kernel wrote `ifr_mtu`, a number, into this field of the union.
        Ok(unsafe { request.ifr_ifru.ifru_mtu } as u32)
    }

    /// Length of a device's transmit queue, packets.
    ///
    /// # Errors
    /// If there is no such device.
    pub fn tx_queue_len(&self, device: &str) -> io::Result<i32> {
        let mut request = device_request(device);
        self.ioctl(SIOCGIFTXQLEN, &mut request)?;
        // SAFETY: the kernel wrote `ifr_qlen`, a number, into this field of the union (linux/if.h).
        Ok(unsafe { request.ifr_ifru.ifru_metric })
    }

    /// Sets the length of a device's transmit queue, packets.
    ///
    /// # Errors
    /// If there is no such device, or this user may not change it.
    pub fn set_tx_queue_len(&self, device: &str, packets: i32) -> io::Result<()> {
        let mut request = device_request(device);
        request.ifr_ifru.ifru_metric = packets;
        self.ioctl(SIOCSIFTXQLEN, &mut request)
    }

    /// Turns off segmentation by a device (`ethtool -K DEVICE tso off`): the kernel segments in software.
    ///
    /// # Errors
    /// If the device does not support it, or this user may not change it.
    pub fn turn_off_tso(&self, device: &str) -> io::Result<()> {
        // SAFETY: `struct ethtool_value` consists of two words.
        unsafe { self.ethtool(device, &mut [ETHTOOL_STSO, 0]) }
    }

    /// Turns off features of a device by their names in `ethtool -k`. Names that the kernel does not have,
    /// and features that the device does not have, are ignored.
    ///
    /// # Errors
    /// If there is no such device, or this user may not change it.
    pub fn turn_off_features(&self, device: &str, names: &[&str]) -> io::Result<()> {
        self.set_features(device, names, false)
    }

    /// Turns features of a device on or off by their names in `ethtool -k`. Names that the kernel does not
    /// have, and features that the device does not have, are ignored.
    ///
    /// # Errors
    /// If there is no such device, or this user may not change it.
    pub fn set_features(&self, device: &str, names: &[&str], is_on: bool) -> io::Result<()> {
        let known = self.feature_names(device)?;
        // ETHTOOL_SFEATURES: the number of blocks, and for each block of 32 features those to change and
        // their new values.
        let blocks = known.len().div_ceil(32);
        let mut words = vec![0; 2 + 2 * blocks];
        words[..2].copy_from_slice(&[ETHTOOL_SFEATURES, blocks as u32]);
        for (index, name) in known.iter().enumerate() {
            if names.contains(&name.as_str()) {
                let (changed, bit) = (2 + index / 32 * 2, 1 << (index % 32));
                words[changed] |= bit;
                words[changed + 1] |= if is_on { bit } else { 0 };
            }
        }
        // SAFETY: the structure has as many blocks as it states.
        unsafe { self.ethtool(device, &mut words) }
    }

    /// The names of all features that the kernel has, in the order of their numbers.
    fn feature_names(&self, device: &str) -> io::Result<Vec<String>> {
        let [low, high]: [u32; 2] = words_of(1u64 << ETH_SS_FEATURES);
        let mut info = [ETHTOOL_GSSET_INFO, 0, low, high, 0];
        // SAFETY: the reply has one number, because the mask has one bit.
        unsafe { self.ethtool(device, &mut info)? };
        let count = info[4] as usize;
        let mut strings = vec![0; 3 + NAME_WORDS * count];
        strings[..3].copy_from_slice(&[ETHTOOL_GSTRINGS, ETH_SS_FEATURES, info[4]]);
        // SAFETY: there is space for `count` names, the kernel's number of names.
        unsafe { self.ethtool(device, &mut strings)? };
        let name = |words: &[u32]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
            String::from_utf8_lossy(text).into_owned()
        };
        Ok(strings[3..].chunks(NAME_WORDS).map(name).collect())
    }

    /// Runs an ethtool command on `device`. The first word of `words` is the command; the kernel writes its
    /// structure over `words`.
    ///
    /// # Safety
    /// `words` is at least as large as the structure of the command (linux/ethtool.h).
    ///
    /// # Errors
    /// If the device or its driver does not support the command.
    pub unsafe fn ethtool(&self, device: &str, words: &mut [u32]) -> io::Result<()> {
        let mut request = device_request(device);
        request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
        self.ioctl(SIOCETHTOOL, &mut request)
    }

    fn ioctl(&self, number: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
        // SAFETY: the request, and the buffer it points to, live during the call; callers of `ethtool`
        // guarantee the buffer's size, and the other requests have none.
        check(unsafe { libc::ioctl(self.0.as_raw_fd(), number as _, &raw mut *request) }).map(drop)
    }
}

/// The two words of a number, in the order of this machine.
fn words_of(number: u64) -> [u32; 2] {
    let bytes = number.to_ne_bytes();
    let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    [word(0), word(4)]
}

/// An ioctl request for `device`.
fn device_request(device: &str) -> libc::ifreq {
    // SAFETY: ifreq consists of plain numbers, for which zero is valid.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    // The last byte remains zero (end of string).
    let max_length = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name[..max_length].iter_mut().zip(device.bytes()) {
        *to = from as libc::c_char;
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_device_has_an_mtu() {
        let control = DeviceControl::open().unwrap();
        assert!(control.mtu("lo").unwrap() >= 1500);
        assert!(control.mtu("no-such-device").is_err());
    }

    #[test]
    fn the_kernels_features_have_names() {
        let names = DeviceControl::open().unwrap().feature_names("lo").unwrap();
        for name in ["tx-udp-segmentation", "tx-tcp-segmentation", "tx-generic-segmentation"] {
            assert!(names.iter().any(|known| known == name), "{name}: {names:?}");
        }
        assert_eq!(words_of(1 << 4).iter().filter(|word| **word == 16).count(), 1);
    }
}
