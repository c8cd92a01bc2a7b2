//! Users' files in native builds: supported features work, unsupported ones are errors with their lines.

use cc::native::{BuildError, Controller, Library, build};
use cc::{ParameterValue, ParameterValues, Source};
use std::path::{Path, PathBuf};
use tcp::{CongestionControl, NEEDS_ECN, Operation, RateSample, TcpSock};

fn maps() -> Source {
    Source::file(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/foreign/maps.bpf.c")).unwrap()
}

fn open(values: &[(&str, ParameterValue)]) -> Library {
    let values: ParameterValues = values.iter().map(|(n, v)| (n.to_string(), *v)).collect();
    Library::open(&maps(), &values).unwrap()
}

/// The file's results, which it stores in the socket's private area.
fn seen(sk: &TcpSock) -> Vec<u32> {
    sk.icsk_ca_priv.iter().flat_map(|w| [*w as u32, (*w >> 32) as u32]).collect()
}

fn ack(controller: &mut Controller, sk: &mut TcpSock, acked: u32) -> Vec<u32> {
    controller.cong_avoid(sk, 5, acked);
    seen(sk)
}

#[test]
fn maps_globals_clocks_and_storage_work() {
    let mut library = open(&[]);
    library.set_hz(1000);
    assert_eq!(library.names(), ["maps_incomplete", "first", "second"]);
    assert_eq!(library.main_name(), "first");
    let (mut a, mut b) = (library.controller(None).unwrap(), library.controller(Some("t_first")).unwrap());
    a.set_seed(1);
    b.set_seed(2);
    let time = 7_654_321_000;
    let mut ska = TcpSock { tcp_clock_cache: time, ..TcpSock::default() };
    let mut skb = ska.clone();
    a.init(&mut ska);
    b.init(&mut skb);
    let first = ack(&mut a, &mut ska, 3);
    // No error; one ACK of this socket; three packets; one call; jiffies at 1000 Hz; us.
    assert_eq!(first[..6], [0, 1, 3, 1, 7654, 7_654_321]);
    assert_eq!((first[7], first[8] as i32), (1000, -3));
    let other = ack(&mut b, &mut skb, 4);
    // The storage belongs to the socket, the array and the global to the registration.
    assert_eq!(other[..4], [0, 1, 7, 2]);
    assert_ne!(first[6], other[6], "each socket has separate random numbers");
    // The third window does not fit into a hash of two.
    ska.snd_cwnd = 20;
    ack(&mut a, &mut ska, 1);
    ska.snd_cwnd = 30;
    assert_eq!(ack(&mut a, &mut ska, 1)[..2], [7, 3]);
    assert_eq!(a.take_ack_request(), None);
    a.cong_avoid(&mut ska, 0, 1);
    assert_eq!((a.take_ack_request(), a.take_ack_request()), (Some(77), None));
}

#[test]
fn parameters_are_read_with_their_comments_and_set() {
    let parameters = maps().parameters().unwrap();
    let names: Vec<(&str, &str, ParameterValue)> =
        parameters.iter().map(|p| (p.name.as_str(), p.doc.as_str(), p.default())).collect();
    assert_eq!(
        names,
        [
            ("keep", "Share of the window that is kept after a loss.", ParameterValue::Decimal(0.5)),
            ("give_up", "Switch sockets without ECN to reno.", ParameterValue::Bool(false)),
            ("small", "From -128.", ParameterValue::Integer(-3)),
        ]
    );
    let library = open(&[("keep", ParameterValue::Decimal(0.75)), ("small", ParameterValue::Integer(-128))]);
    let mut controller = library.controller(None).unwrap();
    let mut sk = TcpSock { snd_cwnd: 100, ..TcpSock::default() };
    assert_eq!(controller.ssthresh(&mut sk), 75);
    assert_eq!(ack(&mut controller, &mut sk, 1)[8] as i32, -128);
    for (name, value, why) in [
        ("beta", ParameterValue::Integer(1), "maps has no parameter beta; it has keep, give_up, small"),
        ("small", ParameterValue::Decimal(0.5), "small = 0.5: small takes whole numbers only"),
        ("small", ParameterValue::Integer(128), "small = 128: must be from -128 to 127"),
        ("keep", ParameterValue::Decimal(-0.1), "keep = -0.1: must be from 0 to 4194303.9990234375"),
        ("give_up", ParameterValue::Integer(2), "give_up = 2: give_up is true or false"),
    ] {
        let values = ParameterValues::from([(name.to_owned(), value)]);
        assert_eq!(Library::open(&maps(), &values).unwrap_err().to_string(), why);
    }
}

#[test]
fn a_socket_can_be_switched_to_another_algorithm() {
    let library = open(&[("give_up", ParameterValue::Bool(true))]);
    let mut controller = library.controller(None).unwrap();
    let mut sk = TcpSock { snd_cwnd: 100, ..TcpSock::default() };
    assert_eq!(controller.name(), "t_first");
    controller.init(&mut sk);
    assert_eq!(controller.name(), "reno");
    assert_eq!(controller.ssthresh(&mut sk), 50);
    drop(library);
    assert_eq!(controller.ssthresh(&mut sk), 50);
}

#[test]
fn cong_control_receives_its_rate_sample() {
    let mut second = open(&[]).controller(Some("second")).unwrap();
    assert_eq!((second.flags(), second.has(Operation::CongControl)), (NEEDS_ECN, true));
    let mut sk = TcpSock::default();
    second.cong_control(&mut sk, 1, 2, &RateSample { acked_sacked: 9, ..RateSample::default() });
    assert_eq!((sk.snd_cwnd, sk.sk_pacing_rate), (9, 1_000_000));
    assert!(open(&[]).controller(Some("third")).unwrap_err().to_string().contains("first, second"));
}

/// Lines and messages for which a file is refused.
fn refused(body: &str) -> Vec<(u32, String)> {
    let head = "#include \"bpf_tracing_net.h\"\n#include <bpf/bpf_tracing.h>\n";
    let rest = "\nextern u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym; extern u32 tcp_reno_ssthresh(struct sock *sk) __ksym;\n\
                extern void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 acked) __ksym;\n\
                SEC(\".struct_ops\") struct tcp_congestion_ops t = { .ssthresh = (void *)tcp_reno_ssthresh,\n\
                .undo_cwnd = (void *)tcp_reno_undo_cwnd, .cong_avoid = (void *)tcp_reno_cong_avoid, MEMBER .name = \"t\" };\n";
    let (body, member) = body.split_once("@@").unwrap_or((body, ""));
    let text = format!("{head}{body}{}", rest.replace("MEMBER", member));
    match build(&Source::File { path: PathBuf::from("t.bpf.c"), text }) {
        Err(BuildError::Refused { lines }) => lines.into_iter().map(|l| (l.line, l.message)).collect(),
        other => panic!("not refused: {other:?}"),
    }
}

#[track_caller]
fn assert_refused(body: &str, line: u32, what: &str) {
    let lines = refused(body);
    assert!(lines.iter().any(|(l, m)| *l == line && m.contains(what)), "{lines:?}");
}

#[test]
fn unsupported_code_is_an_error_with_its_line() {
    let init = |body: &str| {
        format!(
            "SEC(\"struct_ops\") void BPF_PROG(t_init, struct sock *sk) {{\n{body}\n}}@@.init = (void *)t_init,"
        )
    };
    // Line 4: after two includes and the line of the function.
    assert_refused(&init("tcp_sk(sk)->srtt_us = 1;"), 4, "may not write this member in the kernel");
    assert_refused(&init("nonsense(sk);"), 4, "nonsense");
    assert_refused(&init("int x = ;"), 4, "expected expression");
    assert_refused(&init("bpf_ringbuf_submit(sk, 0);"), 4, "bpf_ringbuf_submit is not supported natively");
    let kfunc = "extern void bbr_none(struct sock *sk) __ksym;\n".to_owned() + &init("bbr_none(sk);");
    assert_refused(&kfunc, 5, "bbr_none is not supported natively");
    // The kernel's function took (sk, rs) before Linux 6.10.
    let old = "extern void bbr_main(struct sock *sk, const struct rate_sample *rs) __ksym;\n".to_owned()
        + &init("bbr_main(sk, 0);");
    assert_refused(&old, 3, "bbr_main is declared with other arguments");
}

#[test]
fn an_operation_with_another_signature_is_refused() {
    let other = "SEC(\"struct_ops\") void BPF_PROG(t_main, struct sock *sk, const struct ack_sample *rs) {}\n@@\
               .cong_control = (void *)t_main,";
    assert_refused(
        other,
        3,
        "it is called with (struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)",
    );
    let start = "SEC(\"struct_ops\") void BPF_PROG(t_start, struct sock *sk, u32 event) {}\n@@\
               .cwnd_event_tx_start = (void *)t_start,";
    assert_refused(start, 3, "used as cwnd_event_tx_start of t, takes 2 arguments");
    let many = "SEC(\"struct_ops\") void BPF_PROG(t_state, struct sock *sk, u8 state, int more) {}\n@@.set_state = (void *)t_state,";
    assert_refused(many, 3, "takes 3 arguments");
    let void =
        "SEC(\"struct_ops\") void BPF_PROG(t_min, struct sock *sk) {}\n@@.min_tso_segs = (void *)t_min,";
    assert_refused(void, 3, "returns no number");
    let info = "size_t t_info(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info) { return 0; }\n@@.get_info = t_info,";
    assert!(refused(info).iter().any(|(_, m)| m.contains("get_info")));
}

#[test]
fn an_unsupported_map_is_refused() {
    let ring =
        "struct { __uint(type, BPF_MAP_TYPE_RINGBUF); __uint(max_entries, 4096); } ring SEC(\".maps\");\n";
    assert_refused(ring, 3, "map ring: type 27 is not supported natively");
}

#[test]
fn a_file_without_a_complete_congestion_control_is_refused() {
    let refused = |text: &str| {
        let source = Source::File { path: PathBuf::from("t.bpf.c"), text: text.to_owned() };
        build(&source).unwrap_err().to_string()
    };
    assert!(refused("int x;").contains("no variable of type struct tcp_congestion_ops"));
    let part = "#include \"vmlinux.h\"\nextern u32 tcp_reno_ssthresh(struct sock *sk);\n\
                struct tcp_congestion_ops t = { .ssthresh = tcp_reno_ssthresh };";
    assert_eq!(
        refused(part),
        "t.bpf.c:3: t lacks undo_cwnd, cong_avoid or cong_control, which the kernel requires"
    );
}

/// A file with these operations in addition to Reno's.
fn operations(body: &str, members: &str) -> Source {
    let text = format!(
        "#include \"bpf_tracing_net.h\"\n#include <bpf/bpf_tracing.h>\n{body}\n\
         extern u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym; extern u32 tcp_reno_ssthresh(struct sock *sk) __ksym;\n\
         SEC(\".struct_ops\") struct tcp_congestion_ops t = {{ .ssthresh = (void *)tcp_reno_ssthresh,\n\
         .undo_cwnd = (void *)tcp_reno_undo_cwnd, {members} .name = \"t\" }};\n"
    );
    Source::File { path: PathBuf::from("t.bpf.c"), text }
}

fn controller(source: &Source) -> Controller {
    Library::open(source, &ParameterValues::new()).unwrap_or_else(|e| panic!("{e}")).controller(None).unwrap()
}

#[test]
fn functions_of_kernel_modules_behave_like_the_built_in_algorithms() {
    let body = "extern void cubictcp_init(struct sock *sk) __ksym;\n\
                extern void cubictcp_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;\n\
                extern void cubictcp_acked(struct sock *sk, const struct ack_sample *sample) __ksym;\n\
                extern void cubictcp_state(struct sock *sk, __u8 new_state) __ksym;\n\
                extern __u32 cubictcp_recalc_ssthresh(struct sock *sk) __ksym;\n\
                extern void cubictcp_cwnd_event(struct sock *sk, enum tcp_ca_event event) __ksym;\n\
                /* Of the same name as a parameter of the algorithm. */\nconst volatile u32 fast_convergence = 9;\n\
                SEC(\"struct_ops\") void BPF_PROG(t_init, struct sock *sk) { cubictcp_init(sk); }\n\
                SEC(\"struct_ops\") void BPF_PROG(t_avoid, struct sock *sk, __u32 ack, __u32 acked) { cubictcp_cong_avoid(sk, ack, acked); }\n\
                SEC(\"struct_ops\") void BPF_PROG(t_acked, struct sock *sk, const struct ack_sample *s) { cubictcp_acked(sk, s); }\n\
                SEC(\"struct_ops\") void BPF_PROG(t_state, struct sock *sk, __u8 state) { cubictcp_state(sk, state); }\n\
                SEC(\"struct_ops\") void BPF_PROG(t_event, struct sock *sk, enum tcp_ca_event e) { cubictcp_cwnd_event(sk, e); }\n\
                SEC(\"struct_ops\") __u32 BPF_PROG(t_ssthresh, struct sock *sk) { return cubictcp_recalc_ssthresh(sk); }";
    let members = ".init = (void *)t_init, .cong_avoid = (void *)t_avoid, .pkts_acked = (void *)t_acked,\n\
                   .set_state = (void *)t_state, .cwnd_event = (void *)t_event,";
    let Source::File { path, text } = operations(body, members) else { unreachable!() };
    let text = text.replace("(void *)tcp_reno_ssthresh", "(void *)t_ssthresh");
    let wrapper = Source::File { path, text };
    let names: Vec<String> = wrapper.parameters().unwrap().into_iter().map(|p| p.name).collect();
    assert_eq!(names, ["fast_convergence"], "the algorithm's parameters are not parameters of the file");
    let run = |source: &Source| {
        let mut library = Library::open(source, &ParameterValues::new()).unwrap_or_else(|e| panic!("{e}"));
        library.set_hz(1000);
        let path = tcp::test_kit::Path { loss: 0.0005, ..Default::default() };
        let mut rounds = tcp::test_kit::Rounds::new(path, library.controller(None).unwrap());
        let mut all = rounds.run(300);
        rounds.timeout();
        all.extend(rounds.run(300));
        all
    };
    let (wrapped, itself) = (run(&wrapper), run(&Source::built_in("cubic").unwrap()));
    assert!(wrapped == itself, "the wrapper differs from cubic");
    assert!(wrapped != run(&Source::built_in("reno").unwrap()));
}

#[test]
fn functions_of_bbr_and_dctcp_can_be_called_in_one_file() {
    let body = "extern void bbr_init(struct sock *sk) __ksym;\nextern u32 bbr_sndbuf_expand(struct sock *sk) __ksym;\n\
                extern u32 bbr_min_tso_segs(struct sock *sk) __ksym;\nextern u32 dctcp_ssthresh(struct sock *sk) __ksym;\n\
                extern void dctcp_init(struct sock *sk) __ksym;\n\
                SEC(\"struct_ops\") void BPF_PROG(t_init, struct sock *sk) { dctcp_init(sk); }\n\
                SEC(\"struct_ops\") u32 BPF_PROG(t_expand, struct sock *sk) { return bbr_sndbuf_expand(sk) + 10 * dctcp_ssthresh(sk); }\n\
                void t_avoid(struct sock *sk, u32 ack, u32 acked) {}";
    let members = ".init = (void *)t_init, .sndbuf_expand = (void *)t_expand, .cong_avoid = t_avoid,";
    let mut t = controller(&operations(body, members));
    let mut sk = TcpSock { snd_cwnd: 100, ecn_flags: 1, ..TcpSock::default() };
    t.init(&mut sk);
    // BBR requests three windows of buffer; dctcp starts with alpha 1, so it halves the window.
    assert_eq!(t.sndbuf_expand(&mut sk), 3 + 10 * 50);
}

#[test]
fn cong_control_may_have_the_form_before_linux_6_10() {
    let body = "SEC(\"struct_ops\") void BPF_PROG(t_main, struct sock *sk, const struct rate_sample *rs)\n\
                { tcp_sk(sk)->snd_cwnd = rs->acked_sacked; }";
    let mut t = controller(&operations(body, ".cong_control = (void *)t_main,"));
    let mut sk = TcpSock::default();
    t.cong_control(&mut sk, 1, 2, &RateSample { acked_sacked: 9, ..RateSample::default() });
    assert_eq!(sk.snd_cwnd, 9);
}

#[test]
fn tx_start_calls_the_separate_operation_if_the_file_has_it() {
    use tcp::CaEvent;
    let body = "void t_event(struct sock *sk, enum tcp_ca_event ev) { tcp_sk(sk)->snd_cwnd = 10 + ev; }\n\
                void t_start(struct sock *sk) { tcp_sk(sk)->snd_cwnd = 30; }\n\
                void t_avoid(struct sock *sk, u32 ack, u32 acked) {}";
    let window = |members: &str, event: CaEvent| {
        let mut t = controller(&operations(body, &format!("{members} .cong_avoid = t_avoid,")));
        assert!(t.has(Operation::CwndEvent));
        let mut sk = TcpSock { snd_cwnd: 0, ..TcpSock::default() };
        t.cwnd_event(&mut sk, event);
        sk.snd_cwnd
    };
    let (event, start) = (".cwnd_event = t_event,", ".cwnd_event_tx_start = t_start,");
    assert_eq!(window(event, CaEvent::TxStart), 10);
    assert_eq!(window(start, CaEvent::TxStart), 30);
    assert_eq!(window(&format!("{event} {start}"), CaEvent::TxStart), 30);
    assert_eq!(window(&format!("{event} {start}"), CaEvent::Loss), 13);
    assert_eq!(window(start, CaEvent::Loss), 0, "only for CA_EVENT_TX_START");
}

#[test]
fn a_file_may_define_the_function_before_or_use_that_of_the_header() {
    for own in [
        "",
        "static bool before(__u32 a, __u32 b)\n{\n\treturn (__s32)(a - b) < 0;\n}\n#define after(seq2, seq1) before(seq1, seq2)\n",
    ] {
        let body = own.to_owned()
            + "void t_avoid(struct sock *sk, u32 ack, u32 acked) { tcp_sk(sk)->snd_cwnd = before(ack, acked) + 2 * after(ack, acked); }";
        let source = operations(&body, ".cong_avoid = t_avoid,");
        let mut sk = TcpSock::default();
        controller(&source).cong_avoid(&mut sk, 1, 2);
        assert_eq!(sk.snd_cwnd, 1);
    }
}

#[test]
fn a_header_beside_the_file_takes_precedence_except_for_the_kernels_types() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    put("vmlinux.h", "#error the wrong vmlinux.h");
    put("mine.h", "#include \"vmlinux.h\"\n#define WINDOW 44");
    put("bpf_tracing_net.h", "#define WINDOW_OF_SHIM 3");
    put("string.h", "#error not for longfat's own files");
    let text = "#include \"vmlinux.h\"\n#include \"mine.h\"\n#include \"bpf_tracing_net.h\"\n#include <bpf/bpf_tracing.h>\n\
                u32 t_cwnd(struct sock *sk) { return WINDOW + WINDOW_OF_SHIM; }\nvoid t_avoid(struct sock *sk, u32 ack, u32 acked) {}\n\
                struct tcp_congestion_ops t = { .ssthresh = t_cwnd, .undo_cwnd = t_cwnd, .cong_avoid = t_avoid };";
    let source = Source::File { path: folder.path().join("t.bpf.c"), text: text.to_owned() };
    assert_eq!(controller(&source).ssthresh(&mut TcpSock::default()), 47);
}

#[test]
fn integers_of_sixteen_bytes_are_not_parameters() {
    let text = "#include \"vmlinux.h\"\n#include <bpf/bpf_tracing.h>\n\
                const volatile __int128 wide = 1;\nconst volatile unsigned __int128 wider = 2;\nconst volatile u8 narrow = 3;\n\
                u32 t_cwnd(struct sock *sk) { return wide + wider + narrow; }\nvoid t_avoid(struct sock *sk, u32 ack, u32 acked) {}\n\
                struct tcp_congestion_ops t = { .ssthresh = t_cwnd, .undo_cwnd = t_cwnd, .cong_avoid = t_avoid };";
    let source = Source::File { path: PathBuf::from("t.bpf.c"), text: text.to_owned() };
    let names: Vec<String> = source.parameters().unwrap().into_iter().map(|p| p.name).collect();
    assert_eq!(names, ["narrow"]);
}

#[test]
fn other_definitions_of_shared_structures_are_refused() {
    let text = "typedef unsigned int u32;\nstruct sock { int a; };\nstruct tcp_sock { int a, b; };\n\
                struct tcp_congestion_ops { u32 (*ssthresh)(struct sock *); u32 (*undo_cwnd)(struct sock *);\n\
                void (*cong_avoid)(struct sock *, u32, u32); char name[16]; };\n\
                u32 t_cwnd(struct sock *sk) { return ((struct tcp_sock *)sk)->b; }\nvoid t_avoid(struct sock *sk, u32 ack, u32 acked) {}\n\
                struct tcp_congestion_ops t = { .ssthresh = t_cwnd, .undo_cwnd = t_cwnd, .cong_avoid = t_avoid };";
    let source = Source::File { path: PathBuf::from("t.bpf.c"), text: text.to_owned() };
    let message = build(&source).unwrap_err().to_string();
    assert!(
        message.contains("t.bpf.c:4: struct tcp_congestion_ops differs from the one in longfat's vmlinux.h"),
        "{message}"
    );
    assert!(message.contains("t.bpf.c:3: struct tcp_sock"), "{message}");
}

#[test]
fn devices_folders_and_very_large_files_are_not_read() {
    let message = |path: &Path| Source::file(path).unwrap_err().to_string();
    assert!(message(Path::new("/dev/zero")).contains("/dev/zero: not a regular file"));
    let folder = tempfile::tempdir().unwrap();
    assert!(message(folder.path()).contains("not a regular file"));
    let large = folder.path().join("large.bpf.c");
    std::fs::File::create(&large).unwrap().set_len(100_000_000).unwrap();
    assert!(message(&large).contains("larger than 4 MB"));
}
