//! The shim's headers as part of the program, written out for a compiler at run time.

use std::io;
use std::path::Path;

/// Path below the shim's folder, and text.
pub const FILES: &[(&str, &str)] = &[
    ("vmlinux.h", include_str!("../../shim/vmlinux.h")),
    ("bpf_tracing_net.h", include_str!("../../shim/bpf_tracing_net.h")),
    ("fractional_growth.h", include_str!("../../shim/fractional_growth.h")),
    ("longfat_tcp.h", include_str!("../../shim/longfat_tcp.h")),
    ("bpf_tcp_helpers.h", include_str!("../../shim/bpf_tcp_helpers.h")),
    ("bpf_trace_helpers.h", include_str!("../../shim/bpf_trace_helpers.h")),
    ("bpf_helpers.h", include_str!("../../shim/bpf_helpers.h")),
    ("bpf_core_read.h", include_str!("../../shim/bpf_core_read.h")),
    ("bpf_tracing.h", include_str!("../../shim/bpf_tracing.h")),
    ("bpf/bpf_helpers.h", include_str!("../../shim/bpf/bpf_helpers.h")),
    ("bpf/bpf_core_read.h", include_str!("../../shim/bpf/bpf_core_read.h")),
    ("bpf/bpf_tracing.h", include_str!("../../shim/bpf/bpf_tracing.h")),
    ("linux/bpf.h", include_str!("../../shim/linux/bpf.h")),
    ("linux/stddef.h", include_str!("../../shim/linux/stddef.h")),
    ("linux/tcp.h", include_str!("../../shim/linux/tcp.h")),
    ("linux/types.h", include_str!("../../shim/linux/types.h")),
    ("native/helpers.h", include_str!("../../shim/native/helpers.h")),
    ("native/runtime.h", include_str!("../../shim/native/runtime.h")),
    ("native/runtime.c", include_str!("../../shim/native/runtime.c")),
    ("native/maps.c", include_str!("../../shim/native/maps.c")),
];

/// Writes all files into a folder, which should be a new one.
pub fn write(folder: &Path) -> io::Result<()> {
    for (name, text) in FILES {
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(path, text)?;
    }
    Ok(())
}
