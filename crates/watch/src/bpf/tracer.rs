//! Loads the programs of bpf/watch.bpf.c, runs them, and receives their events.

use std::{
    cell::RefCell,
    fmt,
    fs::File,
    io::{self, Read},
    os::fd::{AsFd, AsRawFd},
    rc::Rc,
    time::Duration,
};

use libbpf_rs::{
    Iter, Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, PrintLevel, ProgramInput, ProgramMut,
    RingBuffer, RingBufferBuilder,
};
use units::KernelVersion;

use super::{
    contract::{
        self, BpfSample, EVENT_BYTES, FILTERED_OUT, MAX_SAMPLES, RawBpfSample, SAMPLE_BYTES, SLOT_BYTES,
        SamplingPass, SocketEvent,
    },
    report::MappedReport,
    requirements::{cgroup_root, explain},
};
use crate::{Error, NetNamespace, SocketCookie, error::Attempted, socket::tcp_info_length};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/watch.bpf.o"));
/// Programs that report events: changes of state (and so new connections) first, then the others.
const EVENT_PROGRAMS: [&str; 3] = ["state", "congestion_state", "retransmit"];

/// The first kernel that passes a program the measured round-trip time (BPF_SOCK_OPS_RTT_CB); earlier ones
/// pass 0.
const ROUND_TRIPS_SINCE: KernelVersion = KernelVersion::new(6, 10);

/// Received from the ring buffer, and not yet taken by [`BpfTracer::receive_events`].
#[derive(Debug, Default)]
struct Received {
    events: Vec<SocketEvent>,
    final_samples: Vec<BpfSample>,
}

/// The eBPF part of a watcher. The kernel removes its programs and maps when the process ends, however that
/// happens. Sockets whose round trips were traced keep BPF_SOCK_OPS_RTT_CB_FLAG, which has no effect without
/// a program.
pub struct BpfTracer {
    /// Dropped first (fields drop in this order), so that no event arrives while the other fields are
    /// dropped.
    links: Vec<Link>,
    slot_iterator: Link,
    report: MappedReport,
    ring: RingBuffer<'static>,
    received: Rc<RefCell<Received>>,
    filter_results: MapHandle,
    slots: MapHandle,
    variables: MapHandle,
    /// Jiffies per second.
    hz: u64,
    traces_round_trips: bool,
    object: Object,
}

impl fmt::Debug for BpfTracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BpfTracer").field("links", &self.links.len()).finish_non_exhaustive()
    }
}

impl BpfTracer {
    /// Loads the programs for these namespaces. They always report changes of state; with `events` also
    /// changes of the congestion state and retransmissions, and with `per_ack` also each ACK and round trip.
    ///
    /// # Errors
    /// [`Error::Missing`] if the kernel or the user's privileges do not allow tracing, or there are more than
    /// 64 namespaces.
    pub fn load(namespaces: &[NetNamespace], events: bool, per_ack: bool) -> Result<BpfTracer, Error> {
        if namespaces.len() > contract::MAX_NAMESPACES {
            return Err(Error::Missing(format!(
                "connections of more than {} namespaces cannot be traced at once",
                contract::MAX_NAMESPACES
            )));
        }
        silence_libbpf();
        let mut builder = ObjectBuilder::default();
        let mut open = builder
            .name("longfat")
            .and_then(|builder| builder.open_memory(OBJECT))
            .map_err(|e| explain("read the program", &e))?;
        let inodes: Vec<u32> = namespaces.iter().map(NetNamespace::inode).collect();
        let settings = contract::encode_settings(tcp_info_length()?, per_ack, &inodes);
        for mut map in open.maps_mut() {
            let is_constants = map.name().to_string_lossy().ends_with(".rodata");
            if let (true, Some(bytes)) = (is_constants, map.initial_value_mut()) {
                let initial = bytes.get_mut(..settings.len());
                let initial =
                    initial.ok_or_else(|| Error::Missing("the eBPF object has no settings".into()))?;
                initial.copy_from_slice(&settings);
            }
        }
        let mut object = open.load().map_err(|e| explain("load the program", &e))?;
        let variables = map(&object, ".bss")?;
        let hz = jiffies_per_second(&map(&object, ".kconfig")?)?;
        let (filter_results, slots, ring) =
            (map(&object, "filter_results")?, map(&object, "slots")?, map(&object, "events")?);
        let report =
            MappedReport::open(map(&object, "reports")?.as_fd()).attempted(|| "map the samples".into())?;
        let slot_iterator = program(&mut object, "assign_slots")?.attach();
        let slot_iterator = slot_iterator.map_err(|e| explain("attach assign_slots", &e))?;
        let received = Rc::new(RefCell::new(Received::default()));
        let sink = Rc::clone(&received);
        let mut rings = RingBufferBuilder::new();
        rings
            .add(&ring, move |bytes: &[u8]| {
                let mut received = sink.borrow_mut();
                match bytes.get(..SAMPLE_BYTES) {
                    Some(bytes) => received.final_samples.extend(BpfSample::decode(bytes, hz)),
                    None => received.events.extend(bytes.get(..EVENT_BYTES).and_then(SocketEvent::decode)),
                }
                0
            })
            .map_err(|e| explain("open the ring of events", &e))?;
        let ring = rings.build().map_err(|e| explain("open the ring of events", &e))?;
        let mut tracer = BpfTracer {
            links: Vec::new(),
            slot_iterator,
            report,
            ring,
            received,
            filter_results,
            slots,
            variables,
            hz,
            traces_round_trips: false,
            object,
        };
        tracer.find_sampled_lines()?;
        tracer.attach_programs(if events { &EVENT_PROGRAMS } else { &EVENT_PROGRAMS[..1] }, per_ack)?;
        Ok(tracer)
    }

    /// Finds the cache lines of a socket that affect a sample, and has `sample_slots` copy only these.
    ///
    /// A line is read if the sample changes when the line's bits are inverted. This is tried on a socket of
    /// zeros and on one of ones, to find members that have an effect only if another member is set.
    fn find_sampled_lines(&mut self) -> Result<(), Error> {
        let program = program(&mut self.object, "sample_pattern")?;
        let sample_of = |background: u64, line: u64, pattern: u64| {
            run(&program, &[background, line, pattern])?;
            let (_, mut samples) = contract::decode_report(self.report.bytes(), self.hz);
            Ok::<_, Error>(samples.next().map(|sample| *sample.bytes))
        };
        let mut is_read = [false; contract::MAX_LINES as usize];
        for (line, is_read) in (0..).zip(&mut is_read) {
            for background in [0, u64::MAX] {
                *is_read |=
                    sample_of(background, line, background)? != sample_of(background, line, !background)?;
            }
        }
        let ranges = contract::encode_line_ranges(|line| is_read[line as usize]);
        map(&self.object, ".bss.ranges")?
            .update(&0u32.to_ne_bytes(), &ranges, MapFlags::ANY)
            .map_err(|e| explain("set the cache lines to copy", &e))
    }

    fn attach_programs(&mut self, names: &[&str], per_ack: bool) -> Result<(), Error> {
        for name in names.iter().chain(per_ack.then_some(&"segment")) {
            let link = program(&mut self.object, name)?.attach();
            self.links.push(link.map_err(|e| explain(&format!("attach {name}"), &e))?);
        }
        let kernel: Option<KernelVersion> = os::kernel_release().and_then(|text| text.parse().ok());
        let has_round_trips = kernel.is_none_or(|version| version >= ROUND_TRIPS_SINCE);
        if let (true, Some(root)) = (per_ack && has_round_trips, cgroup_root()) {
            let file = File::open(&root).attempted(|| format!("open {root}"))?;
            let link = program(&mut self.object, "round_trip")?.attach_cgroup(file.as_raw_fd());
            self.links.push(link.map_err(|e| explain("attach round_trip", &e))?);
            self.traces_round_trips = true;
        }
        Ok(())
    }

    /// Whether each round trip is reported, which also needs a cgroup2 file system and Linux 6.10.
    pub fn traces_round_trips(&self) -> bool {
        self.traces_round_trips
    }

    /// Stores the filter's result for a connection: its slot, or `None` to ignore it.
    ///
    /// # Errors
    /// If the kernel has no memory for the map entry.
    pub fn set_filter_result(&self, cookie: SocketCookie, slot: Option<u32>) -> Result<(), Error> {
        let value = slot.map_or(FILTERED_OUT, |slot| slot + 1);
        self.filter_results
            .update(&cookie.0.to_ne_bytes(), &value.to_ne_bytes(), MapFlags::ANY)
            .map_err(|e| explain("store a connection", &e))
    }

    /// Removes the filter result of a closed connection, and clears its slot.
    pub fn forget(&self, cookie: SocketCookie, slot: Option<u32>) {
        // The entry may already have been removed.
        let _ = self.filter_results.delete(&cookie.0.to_ne_bytes());
        if let Some(slot) = slot {
            let _ = self.slots.update(&slot.to_ne_bytes(), &[0; SLOT_BYTES], MapFlags::ANY);
        }
    }

    /// Walks a namespace's connections, and stores the addresses of the selected ones in their slots.
    ///
    /// # Errors
    /// If this user may not enter the namespace.
    pub fn assign_slots(&self, namespace: &NetNamespace) -> Result<(), Error> {
        walk_connections(&self.slot_iterator, namespace)
    }

    /// Samples the connections in the first `slot_count` slots. Calls `receive` with the sample of each
    /// connection that changed, and of each other connection once a second. All others are unchanged at the
    /// returned time.
    ///
    /// # Errors
    /// If the kernel refuses to run the program.
    pub(crate) fn sample(
        &mut self,
        slot_count: u32,
        mut receive: impl FnMut(&RawBpfSample<'_>),
    ) -> Result<SamplingPass, Error> {
        let program = program(&mut self.object, "sample_slots")?;
        let mut first = 0;
        loop {
            run(&program, &[first.into()])?;
            let (pass, samples) = contract::decode_report(self.report.bytes(), self.hz);
            samples.for_each(|sample| receive(&sample));
            first += MAX_SAMPLES as u32;
            if first >= slot_count {
                return Ok(pass);
            }
        }
    }

    /// Waits for events, at most `timeout`. Appends the events, ordered by time for each processor, and the
    /// final samples of selected connections that were closed.
    pub fn receive_events(
        &self,
        timeout: Duration,
        events: &mut Vec<SocketEvent>,
        final_samples: &mut Vec<BpfSample>,
    ) {
        // An error means that a signal interrupted the wait; it then ends early.
        let _ = self.ring.poll_raw(timeout);
        let mut received = self.received.borrow_mut();
        events.append(&mut received.events);
        final_samples.append(&mut received.final_samples);
    }

    /// Number of events lost because the ring buffer was full.
    pub fn lost_events(&self) -> u64 {
        let bytes = self.variables.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok().flatten();
        let word = bytes.and_then(|bytes| bytes.get(..8)?.try_into().ok());
        word.map_or(0, u64::from_ne_bytes)
    }
}

/// By default libbpf prints to the terminal; its errors contain the same text.
pub(crate) fn silence_libbpf() {
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, _| {})));
}

/// Runs an iterator over all connections of a namespace.
pub(crate) fn walk_connections(iterator: &Link, namespace: &NetNamespace) -> Result<(), Error> {
    // An iterator walks the namespace in which it was created.
    namespace.run(move || {
        let walk = || Iter::new(iterator).map_err(io::Error::other)?.read_to_end(&mut Vec::new());
        walk().attempted(|| "walk the connections".into()).map(drop)
    })
}

/// Runs a program (BPF_PROG_TEST_RUN) with these words as its context.
fn run(program: &ProgramMut<'_>, words: &[u64]) -> Result<(), Error> {
    let mut context: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let input = ProgramInput { context_in: Some(&mut context), ..ProgramInput::default() };
    program.test_run(input).map(drop).map_err(|e| explain("sample the connections", &e))
}

fn program<'a>(object: &'a mut Object, name: &str) -> Result<ProgramMut<'a>, Error> {
    let found = object.progs_mut().find(|program| program.name().to_string_lossy() == name);
    found.ok_or_else(|| Error::Missing(format!("the eBPF object has no program {name}")))
}

fn map(object: &Object, name: &str) -> Result<MapHandle, Error> {
    let found = object.maps().find(|map| {
        let map_name = map.name().to_string_lossy();
        map_name == name || name.starts_with('.') && map_name.ends_with(name)
    });
    let found = found.ok_or_else(|| Error::Missing(format!("the eBPF object has no map {name}")))?;
    MapHandle::try_from(&found).map_err(|e| explain("open a map", &e))
}

/// The kernel's CONFIG_HZ.
fn jiffies_per_second(constants: &MapHandle) -> Result<u64, Error> {
    let value = constants.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok().flatten();
    let word = value.and_then(|bytes| bytes.get(..8)?.try_into().ok()).map(u64::from_ne_bytes);
    word.filter(|hz| *hz > 0).ok_or_else(|| {
        Error::Missing(
            "connections cannot be traced: CONFIG_HZ of this kernel is unknown (it needs \
            CONFIG_IKCONFIG_PROC or /boot/config)"
                .into(),
        )
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::bpf::btf_file::BtfFile;

    /// Loads the programs for a kernel with these types.
    fn load_for(types: &BtfFile) -> Result<(), Error> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(types.bytes()).unwrap();
        silence_libbpf();
        let mut builder = ObjectBuilder::default();
        builder.btf_custom_path(file.path()).unwrap();
        let open = builder.name("longfat").and_then(|builder| builder.open_memory(OBJECT));
        open.and_then(libbpf_rs::OpenObject::load).map(drop).map_err(|e| explain("load the program", &e))
    }

    /// `chrono_type` is a bit-field or a byte, depending on the kernel.
    #[test]
    fn the_programs_load_with_either_type_of_chrono_type() {
        let Ok(types) = BtfFile::of_this_kernel() else {
            return testing::skip(testing::Missing::Feature, "this kernel has no BTF");
        };
        if let Err(error) = load_for(&types) {
            return testing::skip(testing::Missing::Feature, error);
        }
        for bits in [0, 2] {
            let mut changed = types.clone();
            changed.set_bit_field_size("tcp_sock", "chrono_type", bits);
            load_for(&changed).unwrap_or_else(|error| panic!("{bits} bits: {error}"));
        }
    }
}
