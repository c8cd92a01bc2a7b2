//! Reno as in the kernel (`net/ipv4/tcp_cong.c`).

use tcp::{CongestionControl, Operation, TcpSock};

pub struct Reno;

impl CongestionControl for Reno {
    fn name(&self) -> &str {
        "reno"
    }
    fn has(&self, operation: Operation) -> bool {
        matches!(operation, Operation::Ssthresh | Operation::CongAvoid | Operation::UndoCwnd)
    }
    fn ssthresh(&mut self, sk: &mut TcpSock) -> u32 {
        (sk.snd_cwnd >> 1).max(2)
    }
    fn cong_avoid(&mut self, sk: &mut TcpSock, _: u32, mut acked: u32) {
        let half_used = sk.in_slow_start() && sk.snd_cwnd < 2 * sk.max_packets_out;
        if !sk.is_cwnd_limited() && !half_used {
            return;
        }
        if sk.in_slow_start() {
            let cwnd = (sk.snd_cwnd + acked).min(sk.snd_ssthresh);
            acked -= cwnd - sk.snd_cwnd;
            sk.snd_cwnd = cwnd.min(sk.snd_cwnd_clamp);
            if acked == 0 {
                return;
            }
        }
        let window = sk.snd_cwnd;
        if sk.snd_cwnd_cnt >= window {
            sk.snd_cwnd_cnt = 0;
            sk.snd_cwnd += 1;
        }
        sk.snd_cwnd_cnt += acked;
        if sk.snd_cwnd_cnt >= window {
            let more = sk.snd_cwnd_cnt / window;
            sk.snd_cwnd_cnt -= more * window;
            sk.snd_cwnd += more;
        }
        sk.snd_cwnd = sk.snd_cwnd.min(sk.snd_cwnd_clamp);
    }
    fn undo_cwnd(&mut self, sk: &mut TcpSock) -> u32 {
        sk.snd_cwnd.max(sk.prior_cwnd)
    }
}
