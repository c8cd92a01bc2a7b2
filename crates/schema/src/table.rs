//! A macro that declares a table's metric columns in one place: the struct's fields, their names, units and
//! docs.

/// A metric column's name and meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnInfo {
    /// The column's name in Parquet, with the unit as suffix.
    pub name: &'static str,
    /// The meaning, as in the reference and in the Parquet file's metadata.
    pub doc: &'static str,
}

/// A row whose metric columns can be read and written by index or by name.
///
/// A metric is `None` where the source does not have it (an older kernel's shorter `tcp_info`, a ping flow's
/// `cwnd`).
pub trait Metrics: Default {
    /// The metric columns in storage order.
    const COLUMNS: &'static [ColumnInfo];
    /// The metric of column `index` of [`Self::COLUMNS`]. Panics if out of range.
    fn metric(&self, index: usize) -> Option<i64>;
    /// Sets the metric of column `index` of [`Self::COLUMNS`]. Panics if out of range.
    fn set_metric(&mut self, index: usize, value: Option<i64>);
    /// The index of the column called `name`.
    fn column(name: &str) -> Option<usize> {
        Self::COLUMNS.iter().position(|c| c.name == name)
    }
    /// The metric called `name`; also `None` where no such column exists.
    fn get(&self, name: &str) -> Option<i64> {
        Self::column(name).and_then(|i| self.metric(i))
    }
}

/// Declares a row type: key fields as they are, then metrics, all `Option<i64>`.
macro_rules! table {
    (
        $(#[$meta:meta])* pub struct $name:ident {
            keys { $($(#[$kdoc:meta])* $key:ident : $kty:ty,)* }
            metrics { $($metric:ident = $doc:literal,)* }
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct $name {
            $($(#[$kdoc])* pub $key: $kty,)*
            $(#[doc = $doc] pub $metric: Option<i64>,)*
        }

        impl $crate::table::Metrics for $name {
            const COLUMNS: &'static [$crate::table::ColumnInfo] =
                &[$($crate::table::ColumnInfo { name: stringify!($metric), doc: $doc },)*];

            fn metric(&self, index: usize) -> Option<i64> {
                let mut i = 0;
                $(if i == index { return self.$metric; } i += 1;)*
                panic!("no metric column {index} of {i}");
            }

            fn set_metric(&mut self, index: usize, value: Option<i64>) {
                let mut i = 0;
                $(if i == index { self.$metric = value; return; } i += 1;)*
                panic!("no metric column {index} of {i}");
            }
        }
    };
}
pub(crate) use table;
