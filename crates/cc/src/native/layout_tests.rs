//! Tests of the mirrors in Rust against the C compiler's layout of the shim's structs.

#![allow(unsafe_code)]

use super::compile::compile;
use super::image::Image;
use super::runtime::{Call, Module, RawOperations, Runtime};
use std::mem::offset_of;
use std::path::Path;
use tcp::{AckSample, CaState, Rack, RateSample, ReceiverRtt, RxOptions, TcpSock};

/// Pairs of Rust field and C member at the same offset: (struct in C, member, offset in Rust).
macro_rules! places {
    ($c:literal, $rust:ty, $($field:ident => $member:literal,)*) => {
        [$(($c, $member, offset_of!($rust, $field)),)* ($c, "", size_of::<$rust>())]
    };
    ($c:literal, $rust:ty: $($field:ident)*) => {
        [$(($c, stringify!($field), offset_of!($rust, $field)),)* ($c, "", size_of::<$rust>())]
    };
}

#[rustfmt::skip]
fn all() -> Vec<(&'static str, &'static str, usize)> {
    let mut all = Vec::new();
    all.extend(places!("struct tcp_sock", TcpSock,
    skc_daddr => "inet_conn.icsk_inet.sk.__sk_common.skc_daddr",
    skc_rcv_saddr => "inet_conn.icsk_inet.sk.__sk_common.skc_rcv_saddr",
    skc_dport => "inet_conn.icsk_inet.sk.__sk_common.skc_dport",
    skc_num => "inet_conn.icsk_inet.sk.__sk_common.skc_num",
    skc_family => "inet_conn.icsk_inet.sk.__sk_common.skc_family",
    skc_state => "inet_conn.icsk_inet.sk.__sk_common.skc_state",
    sk_shutdown => "inet_conn.icsk_inet.sk.sk_shutdown",
    sk_pacing_shift => "inet_conn.icsk_inet.sk.sk_pacing_shift",
    sk_protocol => "inet_conn.icsk_inet.sk.sk_protocol",
    sk_gso_max_segs => "inet_conn.icsk_inet.sk.sk_gso_max_segs",
    sk_gso_max_size => "inet_conn.icsk_inet.sk.sk_gso_max_size",
    sk_pacing_status => "inet_conn.icsk_inet.sk.sk_pacing_status",
    sk_pacing_rate => "inet_conn.icsk_inet.sk.sk_pacing_rate",
    sk_max_pacing_rate => "inet_conn.icsk_inet.sk.sk_max_pacing_rate",
    sk_rcvbuf => "inet_conn.icsk_inet.sk.sk_rcvbuf",
    sk_sndbuf => "inet_conn.icsk_inet.sk.sk_sndbuf",
    sk_wmem_queued => "inet_conn.icsk_inet.sk.sk_wmem_queued",
    sk_forward_alloc => "inet_conn.icsk_inet.sk.sk_forward_alloc",
    sk_priority => "inet_conn.icsk_inet.sk.sk_priority",
    sk_mark => "inet_conn.icsk_inet.sk.sk_mark",
    sk_wmem_alloc => "inet_conn.icsk_inet.sk.sk_wmem_alloc",
    sk_txhash => "inet_conn.icsk_inet.sk.sk_txhash",
    sk_route_caps => "inet_conn.icsk_inet.sk.sk_route_caps",
    inet_saddr => "inet_conn.icsk_inet.inet_saddr",
    inet_sport => "inet_conn.icsk_inet.inet_sport",
    tos => "inet_conn.icsk_inet.tos",
    icsk_rto => "inet_conn.icsk_rto",
    icsk_rto_min => "inet_conn.icsk_rto_min",
    icsk_delack_max => "inet_conn.icsk_delack_max",
    icsk_pmtu_cookie => "inet_conn.icsk_pmtu_cookie",
    icsk_ca_ops => "inet_conn.icsk_ca_ops",
    icsk_retransmits => "inet_conn.icsk_retransmits",
    icsk_pending => "inet_conn.icsk_pending",
    icsk_backoff => "inet_conn.icsk_backoff",
    icsk_syn_retries => "inet_conn.icsk_syn_retries",
    icsk_probes_out => "inet_conn.icsk_probes_out",
    icsk_ext_hdr_len => "inet_conn.icsk_ext_hdr_len",
    icsk_ack_pending => "inet_conn.icsk_ack.pending",
    icsk_ack_quick => "inet_conn.icsk_ack.quick",
    icsk_ack_pingpong => "inet_conn.icsk_ack.pingpong",
    icsk_ack_retry => "inet_conn.icsk_ack.retry",
    icsk_ack_lrcvtime => "inet_conn.icsk_ack.lrcvtime",
    icsk_ack_last_seg_size => "inet_conn.icsk_ack.last_seg_size",
    icsk_ack_rcv_mss => "inet_conn.icsk_ack.rcv_mss",
    icsk_user_timeout => "inet_conn.icsk_user_timeout",
    icsk_ca_priv => "inet_conn.icsk_ca_priv",
    tcp_clock_cache => "tcp_clock_cache",
    tcp_mstamp => "tcp_mstamp",
    tcp_wstamp_ns => "tcp_wstamp_ns",
    snd_cwnd => "snd_cwnd",
    snd_cwnd_cnt => "snd_cwnd_cnt",
    snd_ssthresh => "snd_ssthresh",
    snd_cwnd_clamp => "snd_cwnd_clamp",
    snd_cwnd_used => "snd_cwnd_used",
    snd_cwnd_stamp => "snd_cwnd_stamp",
    prior_cwnd => "prior_cwnd",
    prior_ssthresh => "prior_ssthresh",
    prr_delivered => "prr_delivered",
    prr_out => "prr_out",
    packets_out => "packets_out",
    sacked_out => "sacked_out",
    lost_out => "lost_out",
    retrans_out => "retrans_out",
    max_packets_out => "max_packets_out",
    cwnd_usage_seq => "cwnd_usage_seq",
    ecn_flags => "ecn_flags",
    chrono_type => "chrono_type",
    snd_una => "snd_una",
    snd_nxt => "snd_nxt",
    write_seq => "write_seq",
    high_seq => "high_seq",
    rcv_nxt => "rcv_nxt",
    copied_seq => "copied_seq",
    snd_wl1 => "snd_wl1",
    snd_wnd => "snd_wnd",
    max_window => "max_window",
    rcv_wnd => "rcv_wnd",
    rcv_ssthresh => "rcv_ssthresh",
    window_clamp => "window_clamp",
    mss_cache => "mss_cache",
    advmss => "advmss",
    gso_segs => "gso_segs",
    tcp_header_len => "tcp_header_len",
    srtt_us => "srtt_us",
    mdev_us => "mdev_us",
    mdev_max_us => "mdev_max_us",
    rttvar_us => "rttvar_us",
    rtt_seq => "rtt_seq",
    rtt_min => "rtt_min",
    delivered => "delivered",
    delivered_ce => "delivered_ce",
    lost => "lost",
    app_limited => "app_limited",
    first_tx_mstamp => "first_tx_mstamp",
    delivered_mstamp => "delivered_mstamp",
    rate_delivered => "rate_delivered",
    rate_interval_us => "rate_interval_us",
    bytes_sent => "bytes_sent",
    bytes_acked => "bytes_acked",
    bytes_received => "bytes_received",
    bytes_retrans => "bytes_retrans",
    segs_out => "segs_out",
    segs_in => "segs_in",
    data_segs_out => "data_segs_out",
    data_segs_in => "data_segs_in",
    total_retrans => "total_retrans",
    reordering => "reordering",
    reord_seen => "reord_seen",
    dsack_dups => "dsack_dups",
    undo_marker => "undo_marker",
    undo_retrans => "undo_retrans",
    retrans_stamp => "retrans_stamp",
    tlp_high_seq => "tlp_high_seq",
    total_rto => "total_rto",
    total_rto_recoveries => "total_rto_recoveries",
    rto_stamp => "rto_stamp",
    total_rto_time => "total_rto_time",
    lsndtime => "lsndtime",
    rcv_tstamp => "rcv_tstamp",
    notsent_lowat => "notsent_lowat",
    plb_rehash => "plb_rehash",
    rcv_rtt_est => "rcv_rtt_est",
    rack => "rack",
    rx_opt => "rx_opt",
    ));
    all.extend(places!("struct rate_sample", RateSample: prior_mstamp prior_delivered prior_delivered_ce delivered delivered_ce interval_us snd_interval_us rcv_interval_us rtt_us losses acked_sacked prior_in_flight last_end_seq is_app_limited is_retrans is_ack_delayed));
    all.extend(places!("struct ack_sample", AckSample: pkts_acked rtt_us in_flight));
    all.extend(places!("struct tcp_rack", Rack: mstamp rtt_us end_seq last_delivered reo_wnd_steps));
    all.extend(places!("struct tcp_options_received", RxOptions: rcv_tsval rcv_tsecr num_sacks user_mss mss_clamp));
    all.extend(places!("typeof(((struct tcp_sock *)0)->rcv_rtt_est)", ReceiverRtt: rtt_us seq time));
    all.extend(places!("struct lf_call", Call: now_ns random storage congestion changed changing ack_wanted ack_rcv_nxt));
    all.extend(places!("struct lf_runtime", Runtime: call jiffies jiffy_start_ns jiffy_ns known known_count));
    all.extend(places!("struct lf_module", Module: operations runtime));
    all.extend(places!("struct tcp_congestion_ops", RawOperations:
        ssthresh cong_avoid set_state cwnd_event cwnd_event_tx_start in_ack_event pkts_acked min_tso_segs cong_control undo_cwnd sndbuf_expand
        get_info name key flags init release));
    all
}

#[test]
fn every_member_has_the_compilers_offset() {
    let all = all();
    let mut text = String::from("#include \"native/runtime.h\"\nunsigned long offsets[] = {\n");
    for (of, member, _) in &all {
        let offset = if member.is_empty() {
            format!("sizeof({of})")
        } else {
            format!("__builtin_offsetof({of}, {member})")
        };
        text.push_str(&format!("{offset},\n"));
    }
    text.push_str("};\n");
    let image = Image::load(&compile(Path::new("layout.c"), &text).unwrap()).unwrap();
    let offsets = image.symbol(c"offsets").unwrap().cast::<libc::c_ulong>();
    for (i, (of, member, rust)) in all.iter().enumerate() {
        // SAFETY: the array has an element for each offset.
        assert_eq!(unsafe { offsets.add(i).read() } as usize, *rust, "{of} {member}");
    }
}

#[test]
fn bitfields_are_the_bits_that_the_methods_read() {
    let text = "#include \"vmlinux.h\"\nstruct tcp_sock given = { .is_cwnd_limited = 1, .rate_app_limited = 1, \
                .inet_conn = { .icsk_ca_state = TCP_CA_Loss, .icsk_ca_initialized = 1 } };";
    let image = Image::load(&compile(Path::new("bits.c"), text).unwrap()).unwrap();
    // SAFETY: a variable whose layout the test above compares.
    let given = unsafe { image.symbol(c"given").unwrap().cast::<TcpSock>().read() };
    assert!(given.is_cwnd_limited());
    assert_eq!(given.ca_state(), CaState::Loss);
    let mut made = TcpSock::default();
    made.set_is_cwnd_limited(true);
    made.set_rate_app_limited(true);
    made.set_ca_state(CaState::Loss);
    made.icsk_ca_bits |= 1 << 5;
    assert_eq!(
        (made.bits, made.nonagle_bits, made.icsk_ca_bits),
        (given.bits, given.nonagle_bits, given.icsk_ca_bits)
    );
    made.set_is_cwnd_limited(false);
    made.set_ca_state(CaState::Open);
    assert_eq!((made.bits, made.icsk_ca_bits), (0, 1 << 5));
}
