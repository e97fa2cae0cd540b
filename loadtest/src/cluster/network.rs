//! Addresses of a control plane: a net of its own within 127.0.0.0/8, where all of it is this machine.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};

/// How often another port is tried. The kernel gives one that is free at the first address; that it is taken at the
/// second is rare, and so often in a row it is no accident.
const ATTEMPTS: usize = 100;

/// 256 addresses, 127.a.b.0 to 127.a.b.255.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Net(u16);

impl Net {
    /// Where the management API server listens.
    pub(super) const MANAGEMENT: u8 = 1;
    /// Where the hosted API server listens.
    pub(super) const HOSTED: u8 = 2;
    /// The first pod; the last is 254.
    const FIRST_POD: u8 = 10;

    /// The net of this number: 1 is 127.0.1.0, 256 is 127.1.0.0. Panics at 0, where `localhost` is.
    pub const fn new(number: u16) -> Self {
        assert!(number > 0, "the net 127.0.0.0 is for others");
        Self(number)
    }

    /// The address with this last byte.
    pub fn address(self, last: u8) -> Ipv4Addr {
        let [high, low] = self.0.to_be_bytes();
        Ipv4Addr::new(127, high, low, last)
    }
}

/// Which addresses of a net are pods'.
#[derive(Debug)]
pub(super) struct Addresses {
    net: Net,
    taken: BTreeSet<Ipv4Addr>,
    /// The last byte of the address given last: the next is another, so that an address is not soon another pod's.
    last: u8,
}

impl Addresses {
    pub(super) fn new(net: Net) -> Self {
        Self { net, taken: BTreeSet::new(), last: Net::FIRST_POD - 1 }
    }

    /// So many addresses with one port that is free at all of them.
    pub(super) fn take(&mut self, count: usize) -> Vec<SocketAddr> {
        let ips: Vec<Ipv4Addr> = (0..count).map(|_| self.take_ip()).collect();
        let free = (0..ATTEMPTS).find_map(|_| {
            let mut held = Vec::new();
            let mut port = 0;
            for ip in &ips {
                let listener = TcpListener::bind((*ip, port)).ok()?;
                port = listener.local_addr().ok()?.port();
                held.push(listener);
            }
            Some(port)
        });
        let port = free.unwrap_or_else(|| panic!("no port is free at all of {ips:?}"));
        ips.into_iter().map(|ip| SocketAddr::from((ip, port))).collect()
    }

    /// One more address where this port is free.
    pub(super) fn take_with_port(&mut self, port: u16) -> SocketAddr {
        for _ in 0..ATTEMPTS {
            let ip = self.take_ip();
            if TcpListener::bind((ip, port)).is_ok() {
                return SocketAddr::from((ip, port));
            }
            self.taken.remove(&ip);
        }
        panic!("port {port} is taken all over {:?}", self.net)
    }

    /// The address may be given again, when all others have been.
    pub(super) fn give_back(&mut self, address: SocketAddr) {
        if let SocketAddr::V4(address) = address {
            self.taken.remove(SocketAddrV4::ip(&address));
        }
    }

    fn take_ip(&mut self) -> Ipv4Addr {
        for _ in 0..=u8::MAX {
            self.last = if self.last == 254 { Net::FIRST_POD } else { self.last + 1 };
            let ip = self.net.address(self.last);
            if self.taken.insert(ip) {
                return ip;
            }
        }
        panic!("all addresses of {:?} are pods'", self.net)
    }
}
