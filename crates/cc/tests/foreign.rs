//! Files of users, natively: what they may use works, what they may not is an error with its line.

use cc::native::{BuildError, Controller, Library, build};
use cc::{Source, Value, Values};
use std::path::{Path, PathBuf};
use tcp::{CongestionControl, NEEDS_ECN, Operation, RateSample, TcpSock};

fn maps() -> Source {
    Source::file(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/foreign/maps.bpf.c")).unwrap()
}

fn open(values: &[(&str, Value)]) -> Library {
    let values: Values = values.iter().map(|(n, v)| (n.to_string(), *v)).collect();
    Library::open(&maps(), &values).unwrap()
}

/// The file's answers, which it leaves in the socket's private area.
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
    // The socket's storage is its own, the array and the global are the registration's.
    assert_eq!(other[..4], [0, 1, 7, 2]);
    assert_ne!(first[6], other[6], "each socket has its own random numbers");
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
    let names: Vec<(&str, &str, Value)> =
        parameters.iter().map(|p| (p.name.as_str(), p.doc.as_str(), p.default())).collect();
    assert_eq!(
        names,
        [
            ("keep", "Share of the window that a loss leaves.", Value::Decimal(0.5)),
            ("give_up", "Hand sockets without ECN to reno.", Value::Bool(false)),
            ("small", "From -128.", Value::Integer(-3)),
        ]
    );
    let library = open(&[("keep", Value::Decimal(0.75)), ("small", Value::Integer(-128))]);
    let mut controller = library.controller(None).unwrap();
    let mut sk = TcpSock { snd_cwnd: 100, ..TcpSock::default() };
    assert_eq!(controller.ssthresh(&mut sk), 75);
    assert_eq!(ack(&mut controller, &mut sk, 1)[8] as i32, -128);
    for (name, value, why) in [
        ("beta", Value::Integer(1), "maps has no parameter beta; it has keep, give_up, small"),
        ("small", Value::Decimal(0.5), "small = 0.5: small takes whole numbers only"),
        ("small", Value::Integer(128), "small = 128: must be from -128 to 127"),
        ("keep", Value::Decimal(-0.1), "keep = -0.1: must be from 0 to 4194303.9990234375"),
        ("give_up", Value::Integer(2), "give_up = 2: give_up is true or false"),
    ] {
        let values = Values::from([(name.to_owned(), value)]);
        assert_eq!(Library::open(&maps(), &values).unwrap_err().to_string(), why);
    }
}

#[test]
fn a_socket_may_be_handed_to_another_algorithm() {
    let library = open(&[("give_up", Value::Bool(true))]);
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
fn cong_control_gets_its_sample() {
    let mut second = open(&[]).controller(Some("second")).unwrap();
    assert_eq!((second.flags(), second.has(Operation::CongControl)), (NEEDS_ECN, true));
    let mut sk = TcpSock::default();
    second.cong_control(&mut sk, 1, 2, &RateSample { acked_sacked: 9, ..RateSample::default() });
    assert_eq!((sk.snd_cwnd, sk.sk_pacing_rate), (9, 1_000_000));
    assert!(open(&[]).controller(Some("third")).unwrap_err().to_string().contains("first, second"));
}

/// What a file is refused for: line and message.
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
fn what_a_file_may_not_do_is_an_error_with_its_line() {
    let init = |body: &str| {
        format!(
            "SEC(\"struct_ops\") void BPF_PROG(t_init, struct sock *sk) {{\n{body}\n}}@@.init = (void *)t_init,"
        )
    };
    // Line 4: after two includes and the function's own.
    assert_refused(&init("tcp_sk(sk)->srtt_us = 1;"), 4, "may not write this member in the kernel");
    assert_refused(&init("nonsense(sk);"), 4, "nonsense");
    assert_refused(&init("int x = ;"), 4, "expected expression");
    assert_refused(&init("bpf_ringbuf_submit(sk, 0);"), 4, "bpf_ringbuf_submit is not supported natively");
    let kfunc = "extern void bbr_init(struct sock *sk) __ksym;\n".to_owned() + &init("bbr_init(sk);");
    assert_refused(&kfunc, 5, "bbr_init is not supported natively");
}

#[test]
fn an_operation_with_another_signature_is_refused() {
    let old = "SEC(\"struct_ops\") void BPF_PROG(t_main, struct sock *sk, const struct rate_sample *rs) {}\n@@\
               .cong_control = (void *)t_main,";
    assert_refused(old, 3, "before Linux 6.10");
    let many = "SEC(\"struct_ops\") void BPF_PROG(t_state, struct sock *sk, u8 state, int more) {}\n@@.set_state = (void *)t_state,";
    assert_refused(many, 3, "takes 3 arguments");
    let void =
        "SEC(\"struct_ops\") void BPF_PROG(t_min, struct sock *sk) {}\n@@.min_tso_segs = (void *)t_min,";
    assert_refused(void, 3, "returns no number");
    let info = "size_t t_info(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info) { return 0; }\n@@.get_info = t_info,";
    assert!(refused(info).iter().any(|(_, m)| m.contains("get_info")));
}

#[test]
fn a_map_that_the_native_build_lacks_is_refused() {
    let ring =
        "struct { __uint(type, BPF_MAP_TYPE_RINGBUF); __uint(max_entries, 4096); } ring SEC(\".maps\");\n";
    assert_refused(ring, 3, "map ring: type 27 is not supported natively");
}

#[test]
fn a_file_without_a_whole_congestion_control_is_refused() {
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

#[test]
fn a_header_beside_the_file_is_found_but_never_instead_of_the_shim_s() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("vmlinux.h"), "#error the wrong vmlinux.h").unwrap();
    std::fs::write(folder.path().join("mine.h"), "#define WINDOW 44").unwrap();
    let text = "#include \"vmlinux.h\"\n#include \"mine.h\"\n#include <bpf/bpf_tracing.h>\n\
                u32 t_cwnd(struct sock *sk) { return WINDOW; }\nvoid t_avoid(struct sock *sk, u32 ack, u32 acked) {}\n\
                struct tcp_congestion_ops t = { .ssthresh = t_cwnd, .undo_cwnd = t_cwnd, .cong_avoid = t_avoid };";
    let source = Source::File { path: folder.path().join("t.bpf.c"), text: text.to_owned() };
    let mut t = Library::open(&source, &Values::new()).unwrap().controller(None).unwrap();
    assert_eq!(t.ssthresh(&mut TcpSock::default()), 44);
}

#[test]
fn integers_of_sixteen_bytes_are_no_parameters() {
    let text = "#include \"vmlinux.h\"\n#include <bpf/bpf_tracing.h>\n\
                const volatile __int128 wide = 1;\nconst volatile unsigned __int128 wider = 2;\nconst volatile u8 narrow = 3;\n\
                u32 t_cwnd(struct sock *sk) { return wide + wider + narrow; }\nvoid t_avoid(struct sock *sk, u32 ack, u32 acked) {}\n\
                struct tcp_congestion_ops t = { .ssthresh = t_cwnd, .undo_cwnd = t_cwnd, .cong_avoid = t_avoid };";
    let source = Source::File { path: PathBuf::from("t.bpf.c"), text: text.to_owned() };
    let names: Vec<String> = source.parameters().unwrap().into_iter().map(|p| p.name).collect();
    assert_eq!(names, ["narrow"]);
}

#[test]
fn structures_of_a_files_own_are_refused() {
    let text = "typedef unsigned int u32;\nstruct sock { int a; };\nstruct tcp_sock { int a, b; };\n\
                struct tcp_congestion_ops { u32 (*ssthresh)(struct sock *); u32 (*undo_cwnd)(struct sock *);\n\
                void (*cong_avoid)(struct sock *, u32, u32); char name[16]; };\n\
                u32 t_cwnd(struct sock *sk) { return ((struct tcp_sock *)sk)->b; }\nvoid t_avoid(struct sock *sk, u32 ack, u32 acked) {}\n\
                struct tcp_congestion_ops t = { .ssthresh = t_cwnd, .undo_cwnd = t_cwnd, .cong_avoid = t_avoid };";
    let source = Source::File { path: PathBuf::from("t.bpf.c"), text: text.to_owned() };
    let told = build(&source).unwrap_err().to_string();
    assert!(
        told.contains("t.bpf.c:4: struct tcp_congestion_ops is not the one of longfat's vmlinux.h"),
        "{told}"
    );
    assert!(told.contains("t.bpf.c:3: struct tcp_sock"), "{told}");
}

#[test]
fn what_never_ends_or_is_far_too_large_is_not_read() {
    let told = |path: &Path| Source::file(path).unwrap_err().to_string();
    assert!(told(Path::new("/dev/zero")).contains("/dev/zero: it is no file"));
    let folder = tempfile::tempdir().unwrap();
    assert!(told(folder.path()).contains("it is no file"));
    let large = folder.path().join("large.bpf.c");
    std::fs::File::create(&large).unwrap().set_len(100_000_000).unwrap();
    assert!(told(&large).contains("more than 4 MB"));
}
