//! The data connection of a session, at either end.

use crate::{
    Error,
    control::Control,
    data_stream::DataStream,
    message::Message,
    sampler::{Sampled, SharedCounts},
    tcp_streams::TcpStreams,
    wait::next_message,
};

/// The data connection. `T` is this end of Tsunami.
pub(crate) enum Data<T> {
    /// The control connection.
    Tcp,
    TcpStreams(TcpStreams),
    Stream(Box<dyn DataStream>),
    Tsunami(T),
}

impl<T> Data<T> {
    /// The stream to be served during waits.
    pub(crate) fn stream(&mut self) -> Option<&mut (dyn DataStream + 'static)> {
        match self {
            Data::Stream(stream) => Some(stream.as_mut()),
            _ => None,
        }
    }

    /// The next message. A stream is served while it waits.
    pub(crate) fn receive(
        &mut self,
        control: &mut Control<'_>,
        what: &'static str,
    ) -> Result<Message, Error> {
        next_message(control, self.stream(), what)
    }

    /// The connections to be sampled. Those in user space publish `counts` from now on.
    pub(crate) fn sampled(&mut self, control: &Control<'_>, counts: &SharedCounts) -> Result<Sampled, Error> {
        match self {
            Data::Tcp => return Sampled::tcp([control.stream()]),
            Data::TcpStreams(streams) => return Sampled::tcp(streams.connections()),
            Data::Stream(stream) => stream.publish_to(counts.clone()),
            Data::Tsunami(_) => {}
        }
        Ok(Sampled::Counts(counts.clone()))
    }
}
