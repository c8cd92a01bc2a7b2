//! Sends one file: its announcement, its data from the byte that the receiver lacks, and its hash.

use std::{
    fs::File,
    net::SocketAddr,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    sync::Arc,
    time::Instant,
};

use os::AlignedBuffer;

use super::{Data, TsunamiSender, file_list::Entry};
use crate::{
    Error, FileReport, Observer,
    control::Control,
    data_stream::read_exact,
    error::failed,
    evidence::Meter,
    file_reader::{FileReader, hash_prefix},
    message::Message,
    proof::{CONFIRMATION_BYTES, confirm_file},
    sampler::SharedCounts,
    tsunami,
    wait::while_serving,
};

/// Bytes of a file that are copied into a stream's send buffer together.
const COPIED_BYTES: usize = 256 << 10;

/// Sends a file, and waits until the receiver has stored it.
pub(super) fn send_file(
    control: &mut Control<'_>,
    data: &mut Data,
    entry: &Entry,
    peer: SocketAddr,
    observer: &dyn Observer,
    (meter, counts): (&Arc<Meter>, &SharedCounts),
) -> Result<FileReport, Error> {
    let what = || format!("open {}", entry.path.display());
    // Opening a FIFO must not wait for its writer.
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(&entry.path)
        .map_err(failed(what()))?;
    let metadata = file.metadata().map_err(failed(what()))?;
    let bytes = metadata.len();
    let begin = Instant::now();
    let announced = Message::File {
        name: entry.name.clone(),
        bytes,
        mode: metadata.mode() & 0o777,
        modified_ns: metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec()),
    };
    control.send(&announced)?;
    let reply = meter.wait_for_reply(|| data.receive(control, "reply about the file"))?;
    let Message::Resume { bytes: stored, hash } = reply else {
        return Err(Error::Protocol("a reply about the file was expected".into()));
    };
    if stored > bytes {
        return Err(Error::Protocol(format!("it claims to have {stored} of {bytes} bytes")));
    }
    let mut hasher = meter.wait_for_file(|| {
        while_serving(control, data.stream(), |is_cancelled| {
            hash_prefix(&file, &entry.path, stored, is_cancelled)
        })
    })?;
    let is_same = hasher.finalize().to_hex().to_string() == hash;
    let from = if is_same { stored } else { 0 };
    if !is_same {
        hasher = blake3::Hasher::new();
    }
    control.send(&Message::Begin { from })?;
    // From now on the receiver takes everything on this connection for the file's data, also a report of a
    // failure.
    control.is_in_data = matches!(data, Data::Tcp);
    observer.begin(&entry.name, bytes, from);
    let before = data.stream().map(|stream| stream.packets());
    let mut packets = None;
    let mut reader = FileReader::start(file, entry.path.clone(), hasher, (from, bytes), meter)?;
    let hash = match data {
        Data::Tsunami(TsunamiSender { socket, key }) => {
            let mut source = tsunami::Source::new(reader, bytes, counts);
            let key = key.as_bytes();
            packets =
                Some(tsunami::serve(control, socket, peer, key, &mut source, |at| observer.progress(at))?);
            source.finish()?
        }
        Data::TcpStreams(streams) => {
            streams.send(control, &mut reader, from, |sent| observer.progress(sent))?;
            reader.finish()?
        }
        Data::Tcp | Data::Stream(_) => {
            let mut buffer = AlignedBuffer::with_capacity(COPIED_BYTES);
            while let Some(part) = reader.next()? {
                let end = part.end;
                match data {
                    Data::Stream(stream) => {
                        for begin in part.step_by(COPIED_BYTES) {
                            buffer.resize(COPIED_BYTES.min((end - begin) as usize));
                            reader.read_at(begin, &mut buffer)?;
                            stream.write_all(&buffer, control)?;
                        }
                    }
                    _ => {
                        control.send_part(&reader, part)?;
                        control.check()?;
                    }
                }
                let buffered = if let Data::Stream(stream) = data { stream.buffered_bytes() } else { 0 };
                observer.progress(end.saturating_sub(buffered).max(from));
            }
            if let Data::Stream(stream) = data {
                stream.flush(control)?;
            }
            control.is_in_data = false;
            reader.finish()?
        }
    };
    control.send(&Message::Sent { hash: hash.clone() })?;
    let confirmation = confirm_file(&announced, &hash)?;
    if let Data::Stream(stream) = data
        && stream.is_authenticated()
    {
        stream.write_all(&confirmation, control)?;
    }
    let Message::Stored = meter.wait_for_reply(|| data.receive(control, "confirmation"))? else {
        return Err(Error::Protocol("the receiver's confirmation was expected".into()));
    };
    if let (Data::Stream(stream), Some(before)) = (&mut *data, before) {
        if stream.is_authenticated() {
            let mut theirs = [0; CONFIRMATION_BYTES];
            read_exact(stream.as_mut(), &mut theirs, control)?;
            if theirs != confirmation {
                return Err(Error::Protocol("the receiver does not confirm the file".into()));
            }
        }
        let after = stream.packets();
        packets = Some((after.0 - before.0, after.1 - before.1));
    }
    let mut report = FileReport::new(&entry.name, bytes, from, begin.elapsed(), hash);
    (report.sent_packets, report.retransmitted_packets) = packets.unzip();
    observer.end(&report);
    Ok(report)
}
