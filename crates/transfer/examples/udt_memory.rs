//! One end of a UDT stream from memory to memory over loopback, to compare its processor time with that of
//! libudt's programs.
//!
//! ```sh
//! udt_memory receive BYTES [RATE]     # listens, prints its port, and discards
//! udt_memory send PORT BYTES [RATE]   # connects to 127.0.0.1; RATE as in 900mbit: instead of UDT's rate control
//! ```

use std::{error::Error, time::Duration};

use bulk::udt::{Config, RateChoice};
use transfer::{UdtListener, UdtStream};
use units::BitRate;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let check = &mut || Ok(());
    let config = Config::default();
    let control = |rate: Option<&&str>| -> Result<_, Box<dyn Error>> {
        let choice =
            rate.map_or(Ok(RateChoice::Automatic), |rate| rate.parse::<BitRate>().map(RateChoice::Fixed));
        Ok(choice?.control(1, config.mss))
    };
    let mut buffer = vec![0; 65_536];
    match args.as_slice() {
        ["receive", bytes, rest @ ..] => {
            let bytes: u64 = bytes.parse()?;
            let listener = UdtListener::bind("127.0.0.1:0".parse()?, config)?;
            println!("{}", listener.port()?);
            let mut stream =
                listener.accept(Duration::from_secs(60), |_| true, control(rest.first())?, check)?;
            let mut received = 0;
            while received < bytes {
                match stream.read(&mut buffer, check)? {
                    0 => return Err("the sender closed the connection".into()),
                    count => received += count as u64,
                }
            }
            // The sender closes when all is acknowledged.
            while stream.read(&mut buffer, check)? > 0 {}
        }
        ["send", port, bytes, rest @ ..] => {
            let peer = format!("127.0.0.1:{port}").parse()?;
            let mut remaining: u64 = bytes.parse()?;
            let mut stream = UdtStream::connect(peer, config, control(rest.first())?, check)?;
            while remaining > 0 {
                let count = remaining.min(buffer.len() as u64) as usize;
                stream.write_all(&buffer[..count], check)?;
                remaining -= count as u64;
            }
            stream.close(check)?;
        }
        _ => return Err("udt_memory receive BYTES [RATE] | udt_memory send PORT BYTES [RATE]".into()),
    }
    Ok(())
}
