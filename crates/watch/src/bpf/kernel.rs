//! Loads bpf/watch.bpf.c and talks with it.

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

use super::{
    contract::{
        self, EVENT_BYTES, Event, Pass, RawSample, SAMPLE_BYTES, SAMPLES_MOST, SLOT_BYTES, Sample, UNWANTED,
    },
    missing::{cgroup_root, explain},
    report::Report,
};
use crate::{Cookie, Error, Place, error::Attempted, socket::length_of_tcp_info};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/watch.bpf.o"));
/// The program that tells of new connections, and those that tell the other events.
const TELLERS: [&str; 3] = ["state", "congestion_state", "retransmit"];

/// What came through the ring and was not asked for yet.
#[derive(Debug, Default)]
struct Told {
    events: Vec<Event>,
    last_looks: Vec<Sample>,
}

/// The eBPF half of a watcher. Everything of it ends with the process, however that ends; sockets of which
/// round trips were traced keep a flag that says so, and has no effect without it.
pub struct Kernel {
    /// Dropped first, so that nothing is told any more.
    links: Vec<Link>,
    choose: Link,
    report: Report,
    ring: RingBuffer<'static>,
    told: Rc<RefCell<Told>>,
    wanted: MapHandle,
    slots: MapHandle,
    variables: MapHandle,
    /// Jiffies in a second.
    hz: u64,
    round_trips: bool,
    object: Object,
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel").field("links", &self.links.len()).finish_non_exhaustive()
    }
}

impl Kernel {
    /// Loads it for these namespaces. It tells changes of state; with `events` the others too, with `per_ack` each ACK and round trip as well.
    ///
    /// # Errors
    /// [`Error::Missing`] where the kernel or the user's privilege does not allow it.
    pub fn load(places: &[Place], events: bool, per_ack: bool) -> Result<Kernel, Error> {
        if places.len() > contract::NAMESPACES_MOST {
            return Err(Error::Missing(format!(
                "connections of more than {} namespaces cannot be traced at once",
                contract::NAMESPACES_MOST
            )));
        }
        // What libbpf would tell the terminal is in its errors.
        libbpf_rs::set_print(Some((PrintLevel::Warn, |_, _| {})));
        let mut builder = ObjectBuilder::default();
        let mut open = builder
            .name("longfat")
            .and_then(|builder| builder.open_memory(OBJECT))
            .map_err(|e| explain("read the program", &e))?;
        let namespaces: Vec<u32> = places.iter().map(Place::inode).collect();
        let settings = contract::settings(length_of_tcp_info()?, per_ack, &namespaces);
        for mut map in open.maps_mut() {
            let is_constants = map.name().to_string_lossy().ends_with(".rodata");
            if let (true, Some(bytes)) = (is_constants, map.initial_value_mut()) {
                let place = bytes.get_mut(..settings.len());
                let place = place.ok_or_else(|| Error::Missing("the program has no settings".into()))?;
                place.copy_from_slice(&settings);
            }
        }
        let mut object = open.load().map_err(|e| explain("load the program", &e))?;
        let variables = map(&object, ".bss")?;
        let hz = ticks_a_second(&map(&object, ".kconfig")?)?;
        let (wanted, slots, ring) =
            (map(&object, "wanted")?, map(&object, "slots")?, map(&object, "events")?);
        let report = Report::of_map(map(&object, "reports")?.as_fd()).attempted(|| "map the looks".into())?;
        let choose = program(&mut object, "choose")?.attach().map_err(|e| explain("attach choose", &e))?;
        let told = Rc::new(RefCell::new(Told::default()));
        let sink = Rc::clone(&told);
        let mut rings = RingBufferBuilder::new();
        rings
            .add(&ring, move |bytes: &[u8]| {
                let mut told = sink.borrow_mut();
                match bytes.get(..SAMPLE_BYTES) {
                    Some(bytes) => told.last_looks.extend(Sample::read(bytes, hz)),
                    None => told.events.extend(bytes.get(..EVENT_BYTES).and_then(Event::read)),
                }
                0
            })
            .map_err(|e| explain("open the ring of events", &e))?;
        let ring = rings.build().map_err(|e| explain("open the ring of events", &e))?;
        let mut kernel = Kernel {
            links: Vec::new(),
            choose,
            report,
            ring,
            told,
            wanted,
            slots,
            variables,
            hz,
            round_trips: false,
            object,
        };
        kernel.survey()?;
        kernel.listen(if events { &TELLERS } else { &TELLERS[..1] }, per_ack)?;
        Ok(kernel)
    }

    /// Finds out which cache lines of a socket a look reads, and has them copied: those that change what it tells when they change.
    /// Tried on a socket of zeros and one of ones, so that what counts only where something else is set is found too.
    fn survey(&mut self) -> Result<(), Error> {
        let survey = program(&mut self.object, "survey")?;
        let told = |words: [u64; 3]| {
            run(&survey, &words)?;
            Ok::<_, Error>(
                contract::report(self.report.bytes(), self.hz).1.next().map(|sample| *sample.bytes),
            )
        };
        let mut is_read = [false; contract::LINES as usize];
        for (line, is_read) in (0..).zip(&mut is_read) {
            for most in [0, u64::MAX] {
                *is_read |= told([most, line, most])? != told([most, line, !most])?;
            }
        }
        let runs = map(&self.object, ".bss.runs")?;
        runs.update(&0u32.to_ne_bytes(), &contract::runs(|line| is_read[line as usize]), MapFlags::ANY)
            .map_err(|e| explain("tell what a look reads", &e))
    }

    fn listen(&mut self, tellers: &[&str], per_ack: bool) -> Result<(), Error> {
        for name in tellers.iter().chain(per_ack.then_some(&"segment")) {
            let link = program(&mut self.object, name)?.attach();
            self.links.push(link.map_err(|e| explain(&format!("attach {name}"), &e))?);
        }
        if let (true, Some(root)) = (per_ack, cgroup_root()) {
            let file = File::open(&root).attempted(|| format!("open {root}"))?;
            let link = program(&mut self.object, "round_trip")?.attach_cgroup(file.as_raw_fd());
            self.links.push(link.map_err(|e| explain("attach round_trip", &e))?);
            self.round_trips = true;
        }
        Ok(())
    }

    /// Whether each round trip is told: that needs a cgroup2 file system besides.
    pub fn tells_round_trips(&self) -> bool {
        self.round_trips
    }

    /// Says whether a connection is wanted, and which slot it has then.
    ///
    /// # Errors
    /// Where the kernel has no memory for it.
    pub fn decide(&self, cookie: Cookie, slot: Option<u32>) -> Result<(), Error> {
        let value = slot.map_or(UNWANTED, |slot| slot + 1);
        self.wanted
            .update(&cookie.0.to_ne_bytes(), &value.to_ne_bytes(), MapFlags::ANY)
            .map_err(|e| explain("remember a connection", &e))
    }

    /// Forgets a connection that is no more, and empties its slot.
    pub fn forget(&self, cookie: Cookie, slot: Option<u32>) {
        // It may have been forgotten already.
        let _ = self.wanted.delete(&cookie.0.to_ne_bytes());
        if let Some(slot) = slot {
            let _ = self.slots.update(&slot.to_ne_bytes(), &[0; SLOT_BYTES], MapFlags::ANY);
        }
    }

    /// Finds the wanted connections of a namespace and puts them into their slots.
    ///
    /// # Errors
    /// Where the namespace may not be entered.
    pub fn choose(&self, place: &Place) -> Result<(), Error> {
        let link = &self.choose;
        // An iterator walks the namespace that it was made in.
        place.run(move || {
            let walk = || Iter::new(link).map_err(io::Error::other)?.read_to_end(&mut Vec::new());
            walk().attempted(|| "walk the connections".into()).map(drop)
        })
    }

    /// Looks at the connections in the first `slots` slots, and hands on each that moved, and each other one once a second. The rest
    /// are as they were, at the time that is returned.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub(crate) fn look(&mut self, slots: u32, mut take: impl FnMut(&RawSample<'_>)) -> Result<Pass, Error> {
        let look = program(&mut self.object, "look")?;
        let mut first = 0;
        loop {
            run(&look, &[first.into()])?;
            let (pass, samples) = contract::report(self.report.bytes(), self.hz);
            samples.for_each(|sample| take(&sample));
            first += SAMPLES_MOST as u32;
            if first >= slots {
                return Ok(pass);
            }
        }
    }

    /// Waits for events, at most `patience`, and hands over what has happened, in order of time of each processor, and the last
    /// looks at wanted connections that were closed.
    pub fn events(&self, patience: Duration, events: &mut Vec<Event>, last_looks: &mut Vec<Sample>) {
        // An interruption by a signal is no more than an early end.
        let _ = self.ring.poll_raw(patience);
        let mut told = self.told.borrow_mut();
        events.append(&mut told.events);
        last_looks.append(&mut told.last_looks);
    }

    /// Events that were lost because nobody took them in time.
    pub fn lost_events(&self) -> u64 {
        let bytes = self.variables.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok().flatten();
        let word = bytes.and_then(|bytes| bytes.get(..8)?.try_into().ok());
        word.map_or(0, u64::from_ne_bytes)
    }
}

/// Runs a program with these words.
fn run(program: &ProgramMut<'_>, words: &[u64]) -> Result<(), Error> {
    let mut context: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let input = ProgramInput { context_in: Some(&mut context), ..ProgramInput::default() };
    program.test_run(input).map(drop).map_err(|e| explain("look at the connections", &e))
}

fn program<'a>(object: &'a mut Object, name: &str) -> Result<ProgramMut<'a>, Error> {
    let found = object.progs_mut().find(|program| program.name().to_string_lossy() == name);
    found.ok_or_else(|| Error::Missing(format!("the eBPF object has no program {name}")))
}

fn map(object: &Object, name: &str) -> Result<MapHandle, Error> {
    let found = object.maps().find(|map| {
        let own = map.name().to_string_lossy();
        own == name || name.starts_with('.') && own.ends_with(name)
    });
    let found = found.ok_or_else(|| Error::Missing(format!("the eBPF object has no map {name}")))?;
    MapHandle::try_from(&found).map_err(|e| explain("open a map", &e))
}

/// How many ticks the kernel's clock makes in a second.
fn ticks_a_second(constants: &MapHandle) -> Result<u64, Error> {
    let value = constants.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok().flatten();
    let word = value.and_then(|bytes| bytes.get(..8)?.try_into().ok()).map(u64::from_ne_bytes);
    word.filter(|hz| *hz > 0).ok_or_else(|| {
        Error::Missing(
            "connections cannot be traced: this kernel does not tell its clock (CONFIG_IKCONFIG_PROC or /boot/config)"
                .into(),
        )
    })
}
