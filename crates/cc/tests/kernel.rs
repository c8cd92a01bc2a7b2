//! The kernel's side: loading, names, removal, refusals. Each needs root and a kernel with BTF, and says so where it is skipped.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use cc::{
    Source, Values,
    kernel::{self, Error, Name},
};

/// Whether this machine loads congestion controls.
fn able() -> bool {
    match kernel::missing() {
        None => true,
        Some(missing) => {
            eprintln!("skipped: {missing}");
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
fn what_the_verifier_refuses_is_told_with_the_line() {
    if !able() {
        return;
    }
    let source = file("dir/forbidden.bpf.c", &half("forbidden", "\ttcp_sk(sk)->srtt_us = 5;"));
    let told = kernel::load(&source, &Values::new(), None).unwrap_err().to_string();
    assert!(told.contains("dir/forbidden.bpf.c:10: in forbidden_init"), "{told}");
    assert!(told.contains("srtt_us = 5;"), "{told}");
    assert!(told.lines().count() <= 3, "{told}");
    let source = file(
        "absent.bpf.c",
        &("extern void no_such_function(struct sock *sk) __ksym;\n".to_owned()
            + &half("absent", "no_such_function(sk);")),
    );
    let told = kernel::load(&source, &Values::new(), None).unwrap_err().to_string();
    assert!(told.contains("no_such_function"), "{told}");
}

#[test]
fn what_the_compiler_refuses_is_told_with_the_line() {
    if kernel::compile(&file("fine.bpf.c", &half("fine", ""))).is_err() {
        eprintln!("skipped: no clang");
        return;
    }
    let told = kernel::compile(&file("dir/wrong.bpf.c", &half("wrong", "\tx = 5;"))).unwrap_err().to_string();
    assert!(told.starts_with("dir/wrong.bpf.c:10:2: ") && told.contains("'x'"), "{told}");
    assert!(matches!(kernel::ops(&file("none.bpf.c", "")), Err(Error::NoOps { .. })));
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
