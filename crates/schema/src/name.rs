//! Names from a closed set, as JSON and Parquet store them: the engine, the kind of a flow, the direction of
//! a link, the bound of a figure.
//!
//! Records of other versions may hold names that this version does not know. These are kept in `Other` and
//! written back unchanged.

/// Declares an enum of stored names. `From<&str>` reads a name; `name()` and `Display` return it.
macro_rules! stored_names {
    ($(#[$meta:meta])* pub enum $type:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(from = "String", into = "String")]
        pub enum $type {
            $($(#[$doc])* $variant,)*
            /// A name that this version does not know; `From` never puts a known name here.
            Other(Box<str>),
        }

        impl $type {
            /// The name as stored.
            pub fn name(&self) -> &str {
                match self {
                    $($type::$variant => $name,)*
                    $type::Other(name) => name,
                }
            }
        }

        impl From<&str> for $type {
            fn from(name: &str) -> Self {
                match name {
                    $($name => $type::$variant,)*
                    other => $type::Other(other.into()),
                }
            }
        }

        impl From<String> for $type {
            fn from(name: String) -> Self {
                name.as_str().into()
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> Self {
                name.name().to_owned()
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

stored_names! {
    /// The program that produced a run.
    pub enum EngineName {
        /// Closed forms.
        Model = "model",
        /// The simulator.
        Sim = "sim",
        /// The kernel's TCP over an emulated network on this machine.
        Lab = "lab",
        /// A lab inside a guest kernel, in virtual time.
        Kernel = "kernel",
        /// A scenario between real hosts.
        Hosts = "hosts",
        /// A test between two hosts (`longfat test`).
        Test = "test",
        /// Connections of other programs (`longfat watch`).
        Watch = "watch",
        /// An imported JSON document of iperf3.
        Iperf3 = "iperf3",
        /// A test by iperf 2, imported.
        Iperf2 = "iperf2",
        /// An imported packet capture.
        Pcap = "pcap",
        /// An imported log of `ss`.
        Ss = "ss",
    }
}

stored_names! {
    /// The kind of traffic of a flow. The default is TCP, as in scenario files.
    #[derive(Default)]
    pub enum FlowKind {
        /// A TCP bulk transfer.
        #[default]
        Tcp = "tcp",
        /// ICMP echo requests.
        Ping = "ping",
        /// UDP datagrams at a rate.
        Udp = "udp",
        /// An XCP bulk transfer (Katabi, Handley and Rohrs 2002).
        Xcp = "xcp",
        /// A UDT 4 bulk transfer.
        Udt = "udt",
        /// A Tsunami bulk transfer.
        Tsunami = "tsunami",
        /// A QUIC bulk transfer.
        Quic = "quic",
        /// A real-time stream.
        Stream = "stream",
    }
}

stored_names! {
    /// A direction of a link. The default is forward.
    #[derive(Default)]
    pub enum LinkDirection {
        /// From the link's first end to its second.
        #[default]
        Forward = "forward",
        /// From the link's second end to its first.
        Backward = "backward",
    }
}

stored_names! {
    /// Which side of a published figure agrees with it, where the figure is a bound.
    pub enum FigureBound {
        /// Figures below it agree.
        Below = "below",
        /// Figures above it agree.
        Above = "above",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_and_unknown_names_round_trip() {
        for name in ["model", "sim", "lab", "kernel", "test", "watch", "iperf3", "pcap", "ss"] {
            assert!(!matches!(EngineName::from(name), EngineName::Other(_)), "{name}");
        }
        for name in ["lab", "pcap", "an engine of a later version", ""] {
            let engine = EngineName::from(name);
            assert_eq!((engine.name(), engine.to_string().as_str()), (name, name));
        }
        assert_eq!(FlowKind::from("xcp"), FlowKind::Xcp);
        assert_eq!((FlowKind::from("udt"), FlowKind::from("tsunami")), (FlowKind::Udt, FlowKind::Tsunami));
        assert_eq!(FlowKind::from("stream"), FlowKind::Stream);
        assert_eq!(LinkDirection::from("sideways"), LinkDirection::Other("sideways".into()));
        assert_eq!(FigureBound::from("above"), FigureBound::Above);
    }
}
