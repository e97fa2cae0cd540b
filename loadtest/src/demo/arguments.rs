//! The demo's part of the command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::DemoError;

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The sluice to start; the one beside this program if none is given
    #[arg(long, value_name = "FILE")]
    sluice: Option<PathBuf>,
    /// Where it listens, on this machine only; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9443", value_parser = loopback)]
    pub(super) listen: SocketAddr,
    /// End when all is shown and this time has passed, e.g. 90s or 5m; with Ctrl-C if none is given
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    pub(super) duration: Option<Duration>,
}

impl Arguments {
    /// The program to start, if it is there.
    pub(super) fn sluice(&self) -> Result<PathBuf, DemoError> {
        let beside = || std::env::current_exe().unwrap_or_default().with_file_name("sluice");
        let path = self.sluice.clone().unwrap_or_else(beside);
        // Absolute, since it is also called from the demo's directory.
        path.canonicalize().ok().filter(|path| path.is_file()).ok_or(DemoError::NoSluice(path))
    }
}

/// The demo's pods, keys and tokens are nobody's secret, so they are for nobody else.
fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|_| "an address and a port, such as 127.0.0.1:9443".to_owned())?;
    if address.ip().is_loopback() { Ok(address) } else { Err("the demo listens on this machine only".to_owned()) }
}

fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => 0,
    };
    let number: Option<u64> = number.parse().ok().filter(|_| seconds > 0);
    let total = number.and_then(|number| number.checked_mul(seconds));
    total.map(Duration::from_secs).ok_or_else(|| "a whole number with s, m or h, such as 90s".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("5m"), Ok(Duration::from_mins(5)));
        for bad in ["", "5", "m", "-1s", "1.5s", "1d", "99999999999999999999s", "9999999999999999999h"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_this_machine_is_listened_to() {
        assert!(loopback("127.0.0.1:0").is_ok() && loopback("[::1]:9443").is_ok());
        assert!(loopback("0.0.0.0:9443").is_err() && loopback("192.0.2.1:9443").is_err() && loopback("9443").is_err());
    }
}
