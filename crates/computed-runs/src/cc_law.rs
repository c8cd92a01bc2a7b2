//! Control laws for the model: which congestion controls have a closed form, and the increase of Grid DT.

use model::{Aimd, ControlLaw};
use scenario::{Cc, CcValue};
use units::Time;

/// Grid DT scales its increase A relative to this MTU and this round-trip time (algorithms/griddt.bpf.c).
const REFERENCE_MTU_BYTES: f64 = 9000.0;
const REFERENCE_RTT_US: f64 = 10_000.0;

/// Returns the control law of `cc` on a path with this round-trip time and MTU.
pub fn control_law(cc: &Cc, rtt: Time, mtu: u32) -> ControlLaw {
    match cc {
        // The name of a user's file does not identify its algorithm.
        Cc::File { .. } => ControlLaw::Unknown,
        // The closed forms hold for the default parameters only.
        Cc::Own { set, name } if name != "griddt" && !set.is_empty() => ControlLaw::Unknown,
        Cc::Named(name) | Cc::Own { name, .. } => match name.as_str() {
            "reno" => ControlLaw::Aimd(Aimd::RENO),
            "griddt" => grid_dt(cc, rtt, mtu),
            "cubic" => ControlLaw::Cubic,
            "bbr" => ControlLaw::Bbr,
            _ => ControlLaw::Unknown,
        },
    }
}

/// The increase of A segments per round trip, scaled by MTU and round-trip time if these parameters are on,
/// and the back-off.
fn grid_dt(cc: &Cc, rtt: Time, mtu: u32) -> ControlLaw {
    let number = |name: &str, default: f64| match cc.set().get(name) {
        Some(CcValue::Integer(number)) => *number as f64,
        Some(CcValue::Decimal(number)) => *number,
        _ => default,
    };
    let is_on = |name: &str| cc.set().get(name) == Some(&CcValue::Boolean(true));
    let mut increase_segs = number("a", 1.0);
    if is_on("auto_mtu") {
        increase_segs *= number("reference_mtu_bytes", REFERENCE_MTU_BYTES) / f64::from(mtu);
    }
    if is_on("auto_rtt") {
        increase_segs *= (rtt.as_micros_f64() / number("reference_rtt_us", REFERENCE_RTT_US)).powi(2);
    }
    let decrease = 1.0 - number("backoff", 0.5);
    // Without an increase or a decrease there is no sawtooth.
    match increase_segs > 0.0 && (0.0..1.0).contains(&decrease) && decrease > 0.0 {
        true => ControlLaw::Aimd(Aimd { increase_segs, decrease }),
        false => ControlLaw::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(set: &[(&str, CcValue)], rtt_ms: u64, mtu: u32) -> ControlLaw {
        let set = set.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        control_law(&Cc::Own { name: "griddt".into(), set }, Time::from_millis(rtt_ms), mtu)
    }

    #[test]
    fn grid_dt_has_its_increase_and_back_off() {
        let aimd = |increase_segs, decrease| ControlLaw::Aimd(Aimd { increase_segs, decrease });
        assert_eq!(of(&[], 100, 1500), ControlLaw::Aimd(Aimd::RENO));
        let set = [("a", CcValue::Integer(7)), ("backoff", CcValue::Decimal(0.75))];
        assert_eq!(of(&set, 100, 1500), aimd(7.0, 0.25));
        // G-auto: 3000 gives 3, 1500 gives 6; 100 ms gives 100.
        let on = CcValue::Boolean(true);
        assert_eq!(of(&[("auto_mtu", on)], 100, 3000), aimd(3.0, 0.5));
        assert_eq!(of(&[("auto_mtu", on)], 100, 1500), aimd(6.0, 0.5));
        assert_eq!(of(&[("auto_rtt", on)], 100, 1500), aimd(100.0, 0.5));
        for odd in [("backoff", CcValue::Decimal(1.0)), ("a", CcValue::Integer(0))] {
            assert_eq!(of(&[odd], 100, 1500), ControlLaw::Unknown);
        }
    }

    #[test]
    fn algorithms_without_a_closed_form_have_no_law() {
        let named = |name: &str| control_law(&Cc::Named(name.into()), Time::from_millis(10), 1500);
        assert_eq!((named("cubic"), named("bbr")), (ControlLaw::Cubic, ControlLaw::Bbr));
        assert_eq!((named("reno"), named("vegas")), (ControlLaw::Aimd(Aimd::RENO), ControlLaw::Unknown));
        let set = [("beta".to_owned(), CcValue::Integer(800))].into();
        let other = Cc::Own { name: "cubic".into(), set };
        assert_eq!(control_law(&other, Time::from_millis(10), 1500), ControlLaw::Unknown);
    }
}
