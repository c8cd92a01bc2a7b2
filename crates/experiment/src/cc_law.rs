//! The law of a flow's congestion control, for the model: which algorithms have a closed form, and Grid DT's increase.

use model::{Aimd, Law};
use scenario::{Cc, CcValue};
use units::Time;

/// Grid DT's references (algorithms/griddt.bpf.c): an MTU and a round-trip time for which A stays as it is.
const REFERENCE_MTU_BYTES: f64 = 9000.0;
const REFERENCE_RTT_US: f64 = 10_000.0;

/// The law of `cc` on a path with this round-trip time and MTU.
pub fn law(cc: &Cc, rtt: Time, mtu: u32) -> Law {
    match cc {
        // Somebody's file may be called anything.
        Cc::File { .. } => Law::Unknown,
        // Whatever is set of an algorithm, its closed form is of its defaults.
        Cc::Own { set, name } if name != "griddt" && !set.is_empty() => Law::Unknown,
        Cc::Named(name) | Cc::Own { name, .. } => match name.as_str() {
            "reno" => Law::Aimd(Aimd::RENO),
            "griddt" => grid_dt(cc, rtt, mtu),
            "cubic" => Law::Cubic,
            "bbr" => Law::Bbr,
            _ => Law::Unknown,
        },
    }
}

/// A segments a round trip, made larger by the MTU and the round-trip time where asked, and the back-off.
fn grid_dt(cc: &Cc, rtt: Time, mtu: u32) -> Law {
    let number = |name: &str, default: f64| match cc.set().get(name) {
        Some(CcValue::Integer(number)) => *number as f64,
        Some(CcValue::Decimal(number)) => *number,
        _ => default,
    };
    let asked = |name: &str| cc.set().get(name) == Some(&CcValue::Boolean(true));
    let mut increase_segs = number("a", 1.0);
    if asked("auto_mtu") {
        increase_segs *= number("reference_mtu_bytes", REFERENCE_MTU_BYTES) / f64::from(mtu);
    }
    if asked("auto_rtt") {
        increase_segs *= (rtt.as_micros_f64() / number("reference_rtt_us", REFERENCE_RTT_US)).powi(2);
    }
    let decrease = 1.0 - number("backoff", 0.5);
    // Without an increase or a decrease there is no sawtooth.
    match increase_segs > 0.0 && (0.0..1.0).contains(&decrease) && decrease > 0.0 {
        true => Law::Aimd(Aimd { increase_segs, decrease }),
        false => Law::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(set: &[(&str, CcValue)], rtt_ms: u64, mtu: u32) -> Law {
        let set = set.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        law(&Cc::Own { name: "griddt".into(), set }, Time::from_millis(rtt_ms), mtu)
    }

    #[test]
    fn grid_dt_has_its_increase_and_back_off() {
        let aimd = |increase_segs, decrease| Law::Aimd(Aimd { increase_segs, decrease });
        assert_eq!(of(&[], 100, 1500), Law::Aimd(Aimd::RENO));
        let set = [("a", CcValue::Integer(7)), ("backoff", CcValue::Decimal(0.75))];
        assert_eq!(of(&set, 100, 1500), aimd(7.0, 0.25));
        // G-auto: 3000 gives 3, 1500 gives 6; 100 ms gives 100.
        let on = CcValue::Boolean(true);
        assert_eq!(of(&[("auto_mtu", on)], 100, 3000), aimd(3.0, 0.5));
        assert_eq!(of(&[("auto_mtu", on)], 100, 1500), aimd(6.0, 0.5));
        assert_eq!(of(&[("auto_rtt", on)], 100, 1500), aimd(100.0, 0.5));
        for odd in [("backoff", CcValue::Decimal(1.0)), ("a", CcValue::Integer(0))] {
            assert_eq!(of(&[odd], 100, 1500), Law::Unknown);
        }
    }

    #[test]
    fn only_what_has_a_closed_form_has_a_law() {
        let named = |name: &str| law(&Cc::Named(name.into()), Time::from_millis(10), 1500);
        assert_eq!((named("cubic"), named("bbr")), (Law::Cubic, Law::Bbr));
        assert_eq!((named("reno"), named("vegas")), (Law::Aimd(Aimd::RENO), Law::Unknown));
        let set = [("beta".to_owned(), CcValue::Integer(800))].into();
        let other = Cc::Own { name: "cubic".into(), set };
        assert_eq!(law(&other, Time::from_millis(10), 1500), Law::Unknown);
    }
}
