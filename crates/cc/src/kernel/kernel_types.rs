//! The running kernel's own `struct tcp_congestion_ops`, read from its type information (BTF).

use std::sync::OnceLock;

use libbpf_rs::btf::{
    Btf, ReferencesType,
    types::{FuncProto, Ptr, Struct},
};

/// The kernel's structure that a congestion control fills in.
pub(super) const OPS: &str = "tcp_congestion_ops";

/// The members of the running kernel's `struct tcp_congestion_ops`; `None` if the kernel has no BTF.
pub(super) fn members_in_kernel() -> Option<&'static [String]> {
    static MEMBERS: OnceLock<Option<Vec<String>>> = OnceLock::new();
    let read = || {
        let types = Btf::from_vmlinux().ok()?;
        let ops: Struct<'_> = types.type_by_name(OPS)?;
        Some(
            ops.iter().map(|member| member.name.unwrap_or_default().to_string_lossy().into_owned()).collect(),
        )
    };
    MEMBERS.get_or_init(read).as_deref()
}

/// Number of arguments of the running kernel's `cong_control`: 2 before Linux 6.10, then 4. `None` if the
/// kernel has no BTF.
pub(super) fn cong_control_arguments() -> Option<usize> {
    static ARGUMENTS: OnceLock<Option<usize>> = OnceLock::new();
    let read = || {
        let types = Btf::from_vmlinux().ok()?;
        let ops: Struct<'_> = types.type_by_name(OPS)?;
        let member = ops.iter().find(|m| m.name.is_some_and(|n| n == "cong_control"))?;
        let pointer: Ptr<'_> = types.type_by_id(member.ty)?;
        let function = FuncProto::try_from(pointer.referenced_type()).ok()?;
        Some(function.iter().count())
    };
    *ARGUMENTS.get_or_init(read)
}
