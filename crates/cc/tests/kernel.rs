//! The kernel's side: loading, names, removal, refusals. Each needs root and a kernel with BTF, and says so where it is skipped.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use cc::{
    Source, Value, Values,
    kernel::{self, Error, Name},
};

/// Whether this machine loads congestion controls.
fn able() -> bool {
    match kernel::missing() {
        None => true,
        Some(missing) => {
            testing::skip(testing::Missing::Feature, missing);
            false
        }
    }
}

/// All that came by BPF. (What /proc/sys tells is cut at 2 KiB.)
fn names_by_bpf() -> BTreeSet<String> {
    kernel::loaded().unwrap().into_iter().map(|l| l.name).collect()
}

fn reno() -> Source {
    Source::built_in("reno").unwrap()
}

/// A user's file; the text follows the usual headers.
fn file(name: &str, text: &str) -> Source {
    let headers = "#include \"vmlinux.h\"\n#include <bpf/bpf_helpers.h>\n#include <bpf/bpf_tracing.h>\n\
                   #include \"bpf_tracing_net.h\"\nchar _license[] SEC(\"license\") = \"GPL\";\n\
                   extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;\n\
                   extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;\n";
    Source::File { path: PathBuf::from(name), text: format!("{headers}{text}") }
}

/// A congestion control that keeps half, named as given; `init` is the body of its first operation.
fn half(name: &str, init: &str) -> String {
    format!(
        "SEC(\"struct_ops\") void BPF_PROG({name}_init, struct sock *sk)\n{{\n{init}\n}}\n\
         SEC(\"struct_ops\") __u32 BPF_PROG({name}_ssthresh, struct sock *sk) {{ return tcp_sk(sk)->snd_cwnd / 2 + 1; }}\n\
         SEC(\"struct_ops\") void BPF_PROG({name}_avoid, struct sock *sk, __u32 ack, __u32 acked) {{ tcp_reno_cong_avoid(sk, ack, acked); }}\n\
         SEC(\"struct_ops\") __u32 BPF_PROG({name}_undo, struct sock *sk) {{ return tcp_reno_undo_cwnd(sk); }}\n\
         SEC(\".struct_ops\") struct tcp_congestion_ops {name} = {{ .init = (void *){name}_init, .ssthresh = (void *){name}_ssthresh,\n\
         .cong_avoid = (void *){name}_avoid, .undo_cwnd = (void *){name}_undo, .name = \"{name}\" }};\n"
    )
}

#[test]
fn a_registration_is_there_while_it_lives_and_changes_nothing_else() {
    if !able() {
        return;
    }
    let before = kernel::machine().unwrap();
    let loaded = kernel::load(&reno(), &Values::new(), None).unwrap();
    let name = loaded.name().to_string();
    assert!(name.starts_with("reno_") && name.len() <= 15, "{name}");
    assert!(names_by_bpf().contains(&name));
    let during = kernel::machine().unwrap();
    assert_eq!(during.default, before.default);
    let told = kernel::loaded().unwrap().into_iter().find(|l| l.name == name).unwrap();
    assert!(told.unrestricted && told.link_id.is_some());
    assert!(told.held_by.iter().any(|(pid, _)| *pid == std::process::id()), "{told:?}");
    drop(loaded);
    assert!(!names_by_bpf().contains(&name));
}

/// Not a test of its own: what `a_killed_process_leaves_no_registration` kills.
#[test]
fn holder() {
    if std::env::var_os("LONGFAT_TEST_HOLDS").is_some() {
        let loaded = kernel::load(&reno(), &Values::new(), None).unwrap();
        println!("\nholding {}", loaded.name());
        std::thread::sleep(Duration::from_secs(60));
    }
}

#[test]
fn a_killed_process_leaves_no_registration() {
    if !able() {
        return;
    }
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kernel::holder", "--nocapture"])
        .env("LONGFAT_TEST_HOLDS", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(holder.stdout.take().unwrap()).lines().map(|l| l.unwrap());
    let name = said.filter_map(|l| l.strip_prefix("holding ").map(str::to_string)).next().unwrap();
    let told = kernel::loaded().unwrap().into_iter().find(|l| l.name == name).unwrap();
    assert!(told.held_by.iter().any(|(pid, _)| *pid == holder.id()), "{told:?}");
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert!(!names_by_bpf().contains(&name));
}

/// Not a test of its own: the unprivileged part of the next one.
#[test]
fn chooser() {
    if let Ok(name) = std::env::var("LONGFAT_TEST_CHOOSES") {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.set_tcp_congestion(name.as_bytes()).unwrap();
    }
}

#[test]
fn sockets_of_any_user_may_choose_it() {
    if !able() {
        return;
    }
    let loaded = kernel::load(&reno(), &Values::new(), None).unwrap();
    // Out of the target directory, which need not be open to everybody.
    let place = tempfile::tempdir().unwrap();
    std::fs::set_permissions(place.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let program = place.path().join("chooser");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let chooses = |name: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&program);
        command.args(["--exact", "kernel::chooser"]).env("LONGFAT_TEST_CHOOSES", name);
        command.output().unwrap().status.success()
    };
    assert!(chooses(loaded.name()));
    assert!(!chooses("no_such_one"));
}

#[test]
fn two_hundred_at_once() {
    if !able() {
        return;
    }
    let all: Vec<_> = (0..200).map(|_| kernel::load(&reno(), &Values::new(), None).unwrap()).collect();
    let names: BTreeSet<String> = all.iter().map(|l| l.name().to_string()).collect();
    assert_eq!(names.len(), 200);
    assert!(names.is_subset(&names_by_bpf()));
    drop(all);
    assert!(names.is_disjoint(&names_by_bpf()));
}

#[test]
fn a_name_can_be_given_and_is_refused_where_it_is_taken_or_unfit() {
    if !able() {
        return;
    }
    let name = format!("t_{}", std::process::id());
    let load = |name: &str| kernel::load(&reno(), &Values::new(), Some(name));
    let first = load(&name).unwrap();
    assert_eq!(first.name(), name);
    assert!(matches!(load(&name), Err(Error::Taken { name: taken }) if taken == name));
    assert!(matches!(load("sixteen_letters_"), Err(Error::Name { .. })));
    assert!(matches!(load("reno"), Err(Error::Taken { .. })), "the kernel's own stays what it is");
    drop(first);
    load(&name).unwrap();
}

#[test]
fn every_algorithm_of_the_program_passes_the_verifier() {
    if !able() {
        return;
    }
    for algorithm in cc::Algorithm::all() {
        let loaded =
            kernel::load(&Source::BuiltIn(algorithm), &Values::new(), None).unwrap_or_else(|e| panic!("{e}"));
        let calls = loaded.calls().unwrap();
        assert!(calls.iter().any(|c| c.verified_instructions > 0), "{}", algorithm.name);
    }
}

#[test]
fn a_files_congestion_controls_are_all_registered_and_its_own_is_the_main_one() {
    if !able() {
        return;
    }
    let tail = std::process::id() % 10_000;
    let (first, main) = (format!("ta_{tail}"), format!("tb_{tail}"));
    let source = file(&format!("{main}.bpf.c"), &(half(&first, "") + &half(&main, "")));
    let loaded = kernel::load(&source, &Values::new(), None).unwrap();
    assert!(loaded.name().starts_with(&format!("{main}_")), "{:?}", loaded.names());
    assert_eq!(loaded.names()[1], first, "a program may switch to it by this name");
    // A second time that name is taken.
    let again = kernel::load(&source, &Values::new(), None).unwrap();
    assert_ne!(again.names()[1], first);
    let names: BTreeSet<String> = loaded.names().iter().chain(again.names()).cloned().collect();
    assert!(names.len() == 4 && names.is_subset(&names_by_bpf()));
    let as_written = kernel::load_named(&source, &Values::new(), Name::OfTheFile).unwrap_err();
    assert!(matches!(as_written, Error::Taken { name } if name == first));
}

#[test]
fn each_of_a_files_congestion_controls_is_found_by_what_the_file_calls_it() {
    if !able() {
        return;
    }
    // Names of which one begins as the other does, and which look like generated ones.
    let tail = std::process::id() % 10_000;
    let (long, short) = (format!("n{tail}_x"), format!("n{tail}"));
    let source = file("several.bpf.c", &(half("several", "") + &half(&long, "") + &half(&short, "")));
    let (first, second) = (
        kernel::load(&source, &Values::new(), None).unwrap(),
        kernel::load(&source, &Values::new(), None).unwrap(),
    );
    for loaded in [&first, &second] {
        assert_eq!(loaded.named("several"), Some(&*loaded.names()[0]));
        assert_eq!(loaded.named(&long), Some(&*loaded.names()[1]));
        assert_eq!(loaded.named(&short), Some(&*loaded.names()[2]));
        assert_eq!(loaded.named("n"), None);
    }
    assert_ne!(first.names()[2], second.names()[2]);
}

#[test]
fn two_of_one_name_in_a_file_are_told_of_and_told_apart_where_names_are_generated() {
    if !able() {
        return;
    }
    let same = half("one", "") + &half("other", "").replace(".name = \"other\"", ".name = \"one\"");
    let source = file("one.bpf.c", &same);
    let told = kernel::load_named(&source, &Values::new(), Name::OfTheFile).unwrap_err().to_string();
    assert!(told.contains("one has two of this name"), "{told}");
    let loaded = kernel::load(&source, &Values::new(), None).unwrap();
    assert_ne!(loaded.names()[0], loaded.names()[1]);
}

#[test]
fn two_sets_of_parameters_are_two_registrations() {
    if !able() {
        return;
    }
    let text = format!(
        "/* The window to begin with. */\nconst volatile __u32 window = 50;\n/* Whether at all. */\nconst volatile bool on = true;\n{}",
        half("fixed", "\tif (on)\n\t\ttcp_sk(sk)->snd_cwnd = window;")
    );
    let source = file("fixed.bpf.c", &text);
    let with = |window: i64| {
        kernel::load(&source, &Values::from([("window".to_string(), Value::Integer(window))]), None)
    };
    let (ten, ninety) = (with(10).unwrap(), with(90).unwrap());
    // The window that a connection begins with is what its own registration says.
    let window = |name: &str| initial_window(name);
    assert_eq!((window(ten.name()), window(ninety.name())), (10, 90));
    assert!(matches!(with(-1), Err(Error::Parameter(_))), "the C type is the range");
    let unknown = kernel::load(&source, &Values::from([("winbow".to_string(), Value::Integer(1))]), None);
    assert!(unknown.unwrap_err().to_string().contains("window, on"));
}

/// The congestion window of a new connection over the loopback device, in segments.
#[allow(unsafe_code)]
fn initial_window(name: &str) -> u32 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_tcp_congestion(name.as_bytes()).unwrap();
    socket.connect(&listener.local_addr().unwrap().into()).unwrap();
    let mut info = [0u8; 104];
    let mut length = 104;
    // SAFETY: the buffer is of the length given, and both outlive the call.
    let ret = unsafe {
        libc::getsockopt(
            std::os::fd::AsRawFd::as_raw_fd(&socket),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    assert_eq!(ret, 0);
    // tcpi_snd_cwnd (linux/tcp.h).
    u32::from_ne_bytes(info[80..84].try_into().unwrap())
}

#[test]
fn what_the_verifier_refuses_is_told_with_the_line() {
    if !able() {
        return;
    }
    let source = file("dir/forbidden.bpf.c", &half("forbidden", "\ttcp_sk(sk)->srtt_us = 5;"));
    let told = kernel::load(&source, &Values::new(), None).unwrap_err().to_string();
    assert!(told.contains("dir/forbidden.bpf.c:10: in forbidden_init"), "{told}");
    assert!(told.contains("srtt_us = 5;"), "{told}");
    assert!(told.lines().count() <= 3, "{told}");
    let told = kernel::load(
        &file(
            "endless.bpf.c",
            &half("endless", "\tfor (;;)\n\t\tif (tcp_sk(sk)->snd_cwnd == ~0U)\n\t\t\tbreak;"),
        ),
        &Values::new(),
        None,
    );
    let told = told.unwrap_err().to_string();
    assert!(told.contains("infinite loop detected"), "{told}");
    let source = file(
        "absent.bpf.c",
        &("extern void no_such_function(struct sock *sk) __ksym;\n".to_owned()
            + &half("absent", "no_such_function(sk);")),
    );
    let told = kernel::load(&source, &Values::new(), None).unwrap_err().to_string();
    assert!(told.contains("no_such_function"), "{told}");
}

/// As the kernel's selftests have them: one that is never registered beside the one that is meant.
#[test]
fn one_that_is_incomplete_hinders_no_other_and_is_told_of_where_it_is_the_main_one() {
    if !able() {
        return;
    }
    let part = "SEC(\".struct_ops\") struct tcp_congestion_ops unused = { .init = (void *)whole_init, .name = \"unused\" };\n";
    let loaded =
        kernel::load(&file("whole.bpf.c", &(half("whole", "") + part)), &Values::new(), None).unwrap();
    assert_eq!(loaded.names().len(), 1, "{loaded:?}");
    let main = file("unused.bpf.c", &(half("whole", "") + part));
    let told = kernel::load(&main, &Values::new(), None).unwrap_err().to_string();
    assert!(told.contains("needs ssthresh"), "{told}");
}

#[test]
fn what_the_compiler_refuses_is_told_with_the_line() {
    if kernel::compile(&file("fine.bpf.c", &half("fine", ""))).is_err() {
        testing::skip(testing::Missing::Tool, "no clang");
        return;
    }
    let told = kernel::compile(&file("dir/wrong.bpf.c", &half("wrong", "\tx = 5;"))).unwrap_err().to_string();
    assert!(told.starts_with("dir/wrong.bpf.c:10:2: ") && told.contains("'x'"), "{told}");
    assert!(matches!(kernel::ops(&file("none.bpf.c", "")), Err(Error::NoOps { .. })));
}

#[test]
fn headers_beside_a_file_are_found_but_never_stand_in_for_the_shims() {
    if kernel::compile(&file("fine.bpf.c", &half("fine", ""))).is_err() {
        testing::skip(testing::Missing::Tool, "no clang");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("mine.h"), "#define START 20\n").unwrap();
    for shims in ["vmlinux.h", "bpf_tracing_net.h"] {
        std::fs::write(place.path().join(shims), "#error not this one\n").unwrap();
    }
    let text = "#include \"mine.h\"\n".to_owned() + &half("beside", "\ttcp_sk(sk)->snd_cwnd = START;");
    let Source::File { path, text } = file("beside.bpf.c", &text) else { unreachable!() };
    let source = Source::File { path: place.path().join(path), text };
    kernel::compile(&source).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn calls_are_counted_while_measuring() {
    if !able() {
        return;
    }
    let loaded = kernel::load(&reno(), &Values::new(), None).unwrap();
    let _measuring = kernel::Measuring::begin().unwrap();
    let trial = loaded.try_out(loaded.name(), Duration::from_millis(200)).unwrap();
    assert!(trial.bytes > 1_000_000, "{trial:?}");
    let calls = loaded.calls().unwrap();
    let avoid = calls.iter().find(|c| c.program == "reno_cong_avoid").unwrap();
    assert!(avoid.calls > 0 && avoid.ns_a_call().unwrap() > 0.0, "{calls:?}");
}
