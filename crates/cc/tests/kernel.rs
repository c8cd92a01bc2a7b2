//! Tests in the kernel: loading, names, removal, refusals. Each needs root and a kernel with BTF; otherwise
//! it is skipped with a message.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use cc::{
    ParameterValue, ParameterValues, Source,
    kernel::{self, Error, KernelName},
};

/// Whether this machine can load congestion controls.
fn able() -> bool {
    match kernel::missing_requirement() {
        None => true,
        Some(missing) => {
            testing::skip(testing::Missing::Feature, missing);
            false
        }
    }
}

/// All congestion controls registered by BPF. (The list in /proc/sys is truncated at 2 KiB.)
fn names_by_bpf() -> BTreeSet<String> {
    kernel::loaded_controls().unwrap().into_iter().map(|l| l.name).collect()
}

/// Whether none of these is registered. A process that another test is starting may briefly hold their
/// descriptors, between fork and exec.
fn are_gone(names: &BTreeSet<String>) -> bool {
    (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        names.is_disjoint(&names_by_bpf())
    })
}

fn reno() -> Source {
    Source::built_in("reno").unwrap()
}

/// A user's file; the text follows the default headers.
fn file(name: &str, text: &str) -> Source {
    let headers = "#include \"vmlinux.h\"\n#include <bpf/bpf_helpers.h>\n#include <bpf/bpf_tracing.h>\n\
                   #include \"bpf_tracing_net.h\"\nchar _license[] SEC(\"license\") = \"GPL\";\n\
                   extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;\n\
                   extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;\n";
    Source::File { path: PathBuf::from(name), text: format!("{headers}{text}") }
}

/// A congestion control of this name that halves the window; `init` is the body of its first operation.
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
fn a_registration_lasts_as_long_as_its_value_and_changes_nothing_else() {
    if !able() {
        return;
    }
    let before = kernel::kernel_controls().unwrap();
    let loaded = kernel::load(&reno(), &ParameterValues::new(), None).unwrap();
    let name = loaded.name().to_string();
    assert!(name.starts_with("reno_") && name.len() <= 15, "{name}");
    assert!(names_by_bpf().contains(&name));
    let during = kernel::kernel_controls().unwrap();
    assert_eq!(during.default, before.default);
    let message = kernel::loaded_controls().unwrap().into_iter().find(|l| l.name == name).unwrap();
    assert!(message.unrestricted && message.link_id.is_some());
    assert!(message.held_by.iter().any(|(pid, _)| *pid == std::process::id()), "{message:?}");
    drop(loaded);
    assert!(are_gone(&BTreeSet::from([name])));
}

/// Not a separate test: the process that `a_killed_process_leaves_no_registration` kills.
#[test]
fn holder() {
    if std::env::var_os("LONGFAT_TEST_HOLDS").is_some() {
        let loaded = kernel::load(&reno(), &ParameterValues::new(), None).unwrap();
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
    let lines = BufReader::new(holder.stdout.take().unwrap()).lines().map(|l| l.unwrap());
    let name = lines.filter_map(|l| l.strip_prefix("holding ").map(str::to_string)).next().unwrap();
    let message = kernel::loaded_controls().unwrap().into_iter().find(|l| l.name == name).unwrap();
    assert!(message.held_by.iter().any(|(pid, _)| *pid == holder.id()), "{message:?}");
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert!(are_gone(&BTreeSet::from([name])));
}

/// Not a separate test: the unprivileged part of the next one.
#[test]
fn chooser() {
    if let Ok(name) = std::env::var("LONGFAT_TEST_CHOOSES") {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.set_tcp_congestion(name.as_bytes()).unwrap();
    }
}

#[test]
fn sockets_of_any_user_can_select_the_algorithm() {
    if !able() {
        return;
    }
    let loaded = kernel::load(&reno(), &ParameterValues::new(), None).unwrap();
    // Outside of the target directory, which other users may not be able to access.
    let test_dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(test_dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let program = test_dir.path().join("chooser");
    // Copied by another program: a file that this process has open for writing is also open in processes that
    // other tests are starting.
    let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&program).status();
    assert!(copied.unwrap().success());
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
fn two_hundred_registrations_at_once() {
    if !able() {
        return;
    }
    let all: Vec<_> =
        (0..200).map(|_| kernel::load(&reno(), &ParameterValues::new(), None).unwrap()).collect();
    let names: BTreeSet<String> = all.iter().map(|l| l.name().to_string()).collect();
    assert_eq!(names.len(), 200);
    assert!(names.is_subset(&names_by_bpf()));
    drop(all);
    assert!(are_gone(&names));
}

#[test]
fn a_given_name_is_refused_if_it_is_taken_or_invalid() {
    if !able() {
        return;
    }
    let name = format!("t_{}", std::process::id());
    let load = |name: &str| kernel::load(&reno(), &ParameterValues::new(), Some(name));
    let first = load(&name).unwrap();
    assert_eq!(first.name(), name);
    assert!(matches!(load(&name), Err(Error::Taken { name: taken }) if taken == name));
    assert!(matches!(load("sixteen_letters_"), Err(Error::Name { .. })));
    assert!(matches!(load("reno"), Err(Error::Taken { .. })), "the kernel's own is not replaced");
    drop(first);
    load(&name).unwrap();
}

#[test]
fn every_built_in_algorithm_passes_the_verifier() {
    if !able() {
        return;
    }
    for algorithm in cc::Algorithm::all() {
        let loaded = kernel::load(&Source::BuiltIn(algorithm), &ParameterValues::new(), None)
            .unwrap_or_else(|e| panic!("{e}"));
        let calls = loaded.calls().unwrap();
        assert!(calls.iter().any(|c| c.verified_instructions > 0), "{}", algorithm.name);
    }
}

#[test]
fn all_congestion_controls_of_a_file_are_registered_and_that_of_its_name_is_the_main_one() {
    if !able() {
        return;
    }
    let tail = std::process::id() % 10_000;
    let (first, main) = (format!("ta_{tail}"), format!("tb_{tail}"));
    let source = file(&format!("{main}.bpf.c"), &(half(&first, "") + &half(&main, "")));
    let loaded = kernel::load(&source, &ParameterValues::new(), None).unwrap();
    assert!(loaded.name().starts_with(&format!("{main}_")), "{:?}", loaded.names());
    assert_eq!(loaded.names()[1], first, "a program may switch to it by this name");
    // A second time that name is taken.
    let again = kernel::load(&source, &ParameterValues::new(), None).unwrap();
    assert_ne!(again.names()[1], first);
    let names: BTreeSet<String> = loaded.names().iter().chain(again.names()).cloned().collect();
    assert!(names.len() == 4 && names.is_subset(&names_by_bpf()));
    let as_written = kernel::load_named(&source, &ParameterValues::new(), KernelName::FromFile).unwrap_err();
    assert!(matches!(as_written, Error::Taken { name } if name == first));
}

#[test]
fn each_congestion_control_is_found_by_its_name_in_the_file() {
    if !able() {
        return;
    }
    // One name is a prefix of the other, and both look like generated ones.
    let tail = std::process::id() % 10_000;
    let (long, short) = (format!("n{tail}_x"), format!("n{tail}"));
    let source = file("several.bpf.c", &(half("several", "") + &half(&long, "") + &half(&short, "")));
    let (first, second) = (
        kernel::load(&source, &ParameterValues::new(), None).unwrap(),
        kernel::load(&source, &ParameterValues::new(), None).unwrap(),
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
fn duplicate_names_in_a_file_are_reported_unless_names_are_generated() {
    if !able() {
        return;
    }
    let same = half("one", "") + &half("other", "").replace(".name = \"other\"", ".name = \"one\"");
    let source = file("one.bpf.c", &same);
    let message =
        kernel::load_named(&source, &ParameterValues::new(), KernelName::FromFile).unwrap_err().to_string();
    assert!(message.contains("one has two of this name"), "{message}");
    let loaded = kernel::load(&source, &ParameterValues::new(), None).unwrap();
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
        kernel::load(
            &source,
            &ParameterValues::from([("window".to_string(), ParameterValue::Integer(window))]),
            None,
        )
    };
    let (ten, ninety) = (with(10).unwrap(), with(90).unwrap());
    // The initial window of a connection is set by its own registration.
    let window = |name: &str| initial_window(name);
    assert_eq!((window(ten.name()), window(ninety.name())), (10, 90));
    assert!(matches!(with(-1), Err(Error::Parameter(_))), "the C type defines the range");
    let unknown = kernel::load(
        &source,
        &ParameterValues::from([("winbow".to_string(), ParameterValue::Integer(1))]),
        None,
    );
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
    // SAFETY: the buffer has the given length, and both outlive the call.
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
fn the_verifiers_reason_names_the_line() {
    if !able() {
        return;
    }
    let source = file("dir/forbidden.bpf.c", &half("forbidden", "\ttcp_sk(sk)->srtt_us = 5;"));
    let message = kernel::load(&source, &ParameterValues::new(), None).unwrap_err().to_string();
    assert!(message.contains("dir/forbidden.bpf.c:10: in forbidden_init"), "{message}");
    assert!(message.contains("srtt_us = 5;"), "{message}");
    assert!(message.lines().count() <= 3, "{message}");
    let message = kernel::load(
        &file(
            "endless.bpf.c",
            &half("endless", "\tfor (;;)\n\t\tif (tcp_sk(sk)->snd_cwnd == ~0U)\n\t\t\tbreak;"),
        ),
        &ParameterValues::new(),
        None,
    );
    let message = message.unwrap_err().to_string();
    assert!(message.contains("infinite loop detected"), "{message}");
    let source = file(
        "absent.bpf.c",
        &("extern void no_such_function(struct sock *sk) __ksym;\n".to_owned()
            + &half("absent", "no_such_function(sk);")),
    );
    let message = kernel::load(&source, &ParameterValues::new(), None).unwrap_err().to_string();
    assert!(message.contains("no_such_function"), "{message}");
}

/// As in the kernel's selftests: an incomplete congestion control beside the main one.
#[test]
fn an_incomplete_congestion_control_is_an_error_only_if_it_is_the_main_one() {
    if !able() {
        return;
    }
    let part = "SEC(\".struct_ops\") struct tcp_congestion_ops unused = { .init = (void *)whole_init, .name = \"unused\" };\n";
    let loaded =
        kernel::load(&file("whole.bpf.c", &(half("whole", "") + part)), &ParameterValues::new(), None)
            .unwrap();
    assert_eq!(loaded.names().len(), 1, "{loaded:?}");
    let main = file("unused.bpf.c", &(half("whole", "") + part));
    let message = kernel::load(&main, &ParameterValues::new(), None).unwrap_err().to_string();
    assert!(message.contains("needs ssthresh"), "{message}");
}

#[test]
fn compiler_errors_name_the_line() {
    if kernel::compile(&file("fine.bpf.c", &half("fine", ""))).is_err() {
        testing::skip(testing::Missing::Tool, "no clang");
        return;
    }
    let message =
        kernel::compile(&file("dir/wrong.bpf.c", &half("wrong", "\tx = 5;"))).unwrap_err().to_string();
    assert!(message.starts_with("dir/wrong.bpf.c:10:2: ") && message.contains("'x'"), "{message}");
    assert!(matches!(kernel::ops(&file("none.bpf.c", "")), Err(Error::NoOps { .. })));
}

#[test]
fn headers_beside_a_file_take_precedence_except_for_kernel_types_and_libbpf_macros() {
    if kernel::compile(&file("fine.bpf.c", &half("fine", ""))).is_err() {
        testing::skip(testing::Missing::Tool, "no clang");
        return;
    }
    let test_dir = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| std::fs::write(test_dir.path().join(name), text).unwrap();
    for of_shim in ["vmlinux.h", "bpf_tcp_helpers.h", "bpf_helpers.h"] {
        put(of_shim, "#error not this one\n");
    }
    put("errno.h", "#define EMINE 3\n");
    put(
        "bpf_tracing_net.h",
        "#include <vmlinux.h>\nstatic struct tcp_sock *tcp_sk(const struct sock *sk) { return (struct tcp_sock *)sk; }\n\
         static bool before(u32 a, u32 b) { return a == b; }\n",
    );
    // They include others relative to their folders, one of which is the user's folder.
    std::fs::create_dir(test_dir.path().join("sub")).unwrap();
    put("sub/start.h", "#include \"../window.h\"\n#define START WINDOW\n");
    put("window.h", "#define WINDOW 20\n");
    put(
        "mine.h",
        "#include \"vmlinux.h\"\n#include \"sub/start.h\"\nstatic u32 window(void) { return START; }\n",
    );
    let text = "#include \"mine.h\"\n#include <errno.h>\n".to_owned()
        + &half("beside", "\ttcp_sk(sk)->snd_cwnd = window() + EMINE + before(1, 2);");
    let Source::File { path, text } = file("beside.bpf.c", &text) else { unreachable!() };
    let source = Source::File { path: test_dir.path().join(path), text };
    kernel::compile(&source).unwrap_or_else(|e| panic!("{e}"));
    cc::native::build(&source).unwrap_or_else(|e| panic!("{e}"));
    // Errors in the header have its name.
    put("mine.h", "#include \"vmlinux.h\"\nint x = ;\n");
    let message = kernel::compile(&source).unwrap_err().to_string();
    assert!(message.starts_with(&format!("{}/mine.h:2:9: ", test_dir.path().display())), "{message}");
    let message =
        cc::native::build(&Source::File { path: test_dir.path().join("b.c"), text: source.text().into() });
    let message = message.unwrap_err().to_string();
    assert!(message.contains(&format!("{}/mine.h:2:9: ", test_dir.path().display())), "{message}");
}

#[test]
fn ebpf_builds_have_the_c_library_headers_that_files_include() {
    if kernel::compile(&file("fine.bpf.c", &half("fine", ""))).is_err() {
        testing::skip(testing::Missing::Tool, "no clang");
        return;
    }
    let text = "#include <errno.h>\n#include <stdint.h>\n#include <limits.h>\n#include <string.h>\n#include <stddef.h>\n\
                #include <stdbool.h>\nuint64_t seen[2];\n"
        .to_owned()
        + &half(
            "libc",
            "\tint err = bpf_setsockopt(sk, 6, 13, \"reno\", 5);\n\tif (err == -EBUSY || err == -EOPNOTSUPP || err == -ENOTSUPP \
             || err == INT_MIN)\n\t\tmemset(seen, 0, sizeof(seen));",
        );
    let source = file("libc.bpf.c", &text.replace("-ENOTSUPP", "-524"));
    kernel::compile(&source).unwrap_or_else(|e| panic!("{e}"));
    cc::native::build(&source).unwrap_or_else(|e| panic!("{e}"));
    if able() {
        kernel::load(&file("libc.bpf.c", &text), &ParameterValues::new(), None)
            .unwrap_or_else(|e| panic!("{e}"));
    }
}

#[test]
fn refusals_name_file_line_reason_and_remedy() {
    if !able() {
        return;
    }
    let refusal = |text: &str| {
        kernel::load(&file("dir/x.c", text), &ParameterValues::new(), None).unwrap_err().to_string()
    };
    let with = |member: &str, program: &str| {
        program.to_owned() + &half("x", "").replace(".init =", &format!("{member}\n.init ="))
    };
    let assert_refusal = |text: &str, parts: [&str; 3]| {
        let message = refusal(text);
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    };
    // An operation that no program may have, and one that this kernel may lack.
    let info = "SEC(\"struct_ops\") size_t BPF_PROG(x_info, struct sock *sk, u32 ext, int *attr, union tcp_cc_info *i) { return 0; }\n";
    assert_refusal(
        &with(".get_info = (void *)x_info,", info),
        ["dir/x.c:16: ", "unsupported member get_info", "remove get_info"],
    );
    let start = "SEC(\"struct_ops\") void BPF_PROG(x_start, struct sock *sk) { }\n";
    let member = ".cwnd_event_tx_start = (void *)x_start,";
    if kernel_has_no("cwnd_event_tx_start") {
        assert_refusal(
            &with(member, start),
            ["dir/x.c:16: ", "has no member cwnd_event_tx_start", "CA_EVENT_TX_START"],
        );
    }
    let optional = with(member, &start.replace("struct_ops", "?struct_ops"));
    kernel::load(&file("x.c", &optional), &ParameterValues::new(), None).unwrap_or_else(|e| panic!("{e}"));
    // A helper for all operations except one.
    let release = "SEC(\"struct_ops\") void BPF_PROG(x_end, struct sock *sk) {\n\tbpf_setsockopt(sk, 6, 13, \"reno\", 5);\n}\n";
    assert_refusal(
        &with(".release = (void *)x_end,", release),
        ["dir/x.c:9: in x_end: ", "cannot use helper bpf_setsockopt", "release may not change options"],
    );
    // A function that no kernel has.
    let absent = "extern void bbr_none(struct sock *sk) __ksym;\n";
    assert_refusal(
        &(absent.to_owned() + &half("x", "\tbbr_none(sk);")),
        ["dir/x.c:8: ", "no function bbr_none", "modprobe tcp_bbr"],
    );
    assert_refusal(
        &half("x", "\tsk->sk_mark = 1;"),
        ["dir/x.c:10: in x_init: ", "no write support", "may write snd_cwnd"],
    );
    assert_refusal(
        "SEC(\".struct_ops\")\nstruct tcp_congestion_ops x = { .name = \"x\" };\n",
        ["dir/x.c:9: ", "x needs ssthresh", "one of cong_avoid and cong_control"],
    );
    let Source::File { path, text } = file("dir/x.c", &half("x", "")) else { unreachable!() };
    let source = Source::File { path, text: text.replace("\"GPL\"", "\"X\"") };
    let message = kernel::load(&source, &ParameterValues::new(), None).unwrap_err().to_string();
    assert!(message.contains("dir/x.c:5: ") && message.contains("= \"GPL\" is needed"), "{message}");
}

/// Whether the running kernel's congestion controls lack an operation.
fn kernel_has_no(member: &str) -> bool {
    let types = std::fs::read("/sys/kernel/btf/vmlinux").unwrap();
    let name = [b"\0", member.as_bytes(), b"\0"].concat();
    !types.windows(name.len()).any(|window| window == name)
}

/// Tests all sections of programs and congestion controls.
#[test]
fn all_forms_of_sections_and_programs_are_accepted() {
    if !able() {
        return;
    }
    for section in [".struct_ops", ".struct_ops.link"] {
        for program in ["struct_ops", "struct_ops/x", "?struct_ops"] {
            let text = half("x", "")
                .replace(".struct_ops\"", &format!("{section}\""))
                .replace("SEC(\"struct_ops\")", &format!("SEC(\"{program}\")"));
            let source = file("x.c", &(text + &half("y", "")));
            let loaded = kernel::load(&source, &ParameterValues::new(), None)
                .unwrap_or_else(|e| panic!("{section} {program}: {e}"));
            assert_eq!(loaded.names().len(), 2, "{section} {program}");
            cc::native::build(&source).unwrap_or_else(|e| panic!("{section} {program}: {e}"));
        }
    }
    // Without BPF_PROG, as its expansion.
    let text = half("x", "")
        .replace("void BPF_PROG(x_init, struct sock *sk)", "int x_init(unsigned long long *ctx)");
    let bare = text.replacen(
        "{\n\n}",
        "{ struct sock *sk = (void *)ctx[0]; tcp_sk(sk)->snd_cwnd = 8; return 0; }",
        1,
    );
    kernel::load(&file("x.c", &bare), &ParameterValues::new(), None).unwrap_or_else(|e| panic!("{e}"));
}

/// Since Linux 6.10 the sample is the fourth argument. A file for older kernels receives it too.
#[test]
fn a_cong_control_with_two_arguments_receives_its_rate_sample() {
    if !able() {
        return;
    }
    let control = "SEC(\"struct_ops\") void BPF_PROG(x_control, struct sock *sk, const struct rate_sample *rs) {\n\
                   \tif (rs->acked_sacked > 0)\n\t\ttcp_sk(sk)->snd_cwnd = 77;\n}\n";
    let text = control.to_owned()
        + &half("x", "").replace(".cong_avoid = (void *)x_avoid", ".cong_control = (void *)x_control");
    let loaded = kernel::load(
        &file(
            "x.c",
            &text.replace(
                "SEC(\"struct_ops\") void BPF_PROG(x_avoid",
                "SEC(\"?struct_ops\") void BPF_PROG(x_avoid",
            ),
        ),
        &ParameterValues::new(),
        None,
    )
    .unwrap_or_else(|e| panic!("{e}"));
    let trial = loaded.run_trial(loaded.name(), Duration::from_millis(200)).unwrap();
    assert!(trial.bytes > 1_000_000, "{trial:?}");
    // The older form without BPF_PROG is refused with a message about the change.
    let bare = text.replace("void BPF_PROG(x_control, struct sock *sk, const struct rate_sample *rs) {", "int x_control(unsigned long long *ctx) {\n\tstruct sock *sk = (void *)ctx[0];\n\tconst struct rate_sample *rs = (void *)ctx[1];").replace("= 77;", "= 77;\n\treturn 0;");
    let bare = bare
        .replace("SEC(\"struct_ops\") void BPF_PROG(x_avoid", "SEC(\"?struct_ops\") void BPF_PROG(x_avoid");
    let message =
        kernel::load(&file("dir/x.c", &bare), &ParameterValues::new(), None).unwrap_err().to_string();
    assert!(
        message.contains("dir/x.c:11: in x_control")
            && message.contains("(sk, ack, flag, rs) since Linux 6.10"),
        "{message}"
    );
}

/// Kernels that call cwnd_event_tx_start are newer than those of most machines, so its programs replace
/// another operation here.
#[test]
fn programs_for_newer_kernels_pass_the_verifier() {
    if !able() {
        return;
    }
    let mut found = 0;
    for algorithm in cc::Algorithm::all() {
        let text = algorithm.text.replace(".cwnd_event_tx_start =", ".release =");
        if text != algorithm.text {
            found += 1;
            let source = Source::File { path: format!("{}.bpf.c", algorithm.name).into(), text };
            let loaded =
                kernel::load(&source, &ParameterValues::new(), None).unwrap_or_else(|e| panic!("{e}"));
            let calls = loaded.calls().unwrap();
            assert!(
                calls.iter().any(|c| c.program.contains("tx_start") && c.verified_instructions > 0),
                "{calls:?}"
            );
        }
    }
    assert_eq!(found, 5);
}

#[test]
fn calls_are_counted_during_a_measurement() {
    if !able() {
        return;
    }
    let loaded = kernel::load(&reno(), &ParameterValues::new(), None).unwrap();
    let _measuring = kernel::CallMeasurement::begin().unwrap();
    let trial = loaded.run_trial(loaded.name(), Duration::from_millis(200)).unwrap();
    assert!(trial.bytes > 1_000_000, "{trial:?}");
    let calls = loaded.calls().unwrap();
    let avoid = calls.iter().find(|c| c.program == "reno_cong_avoid").unwrap();
    assert!(avoid.calls > 0 && avoid.ns_per_call().unwrap() > 0.0, "{calls:?}");
}
