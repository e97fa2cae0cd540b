//! A listener that can be closed and opened again while someone waits at it.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::task::{Poll, Waker};

use tokio::net::{TcpListener, TcpStream};

use super::lock;

/// Closing is done when the call returns: the kernel refuses the very next connection.
pub(super) struct Listener {
    state: Mutex<State>,
}

struct State {
    socket: Option<TcpListener>,
    /// Who waits for a connection while there is no socket.
    waiting: Option<Waker>,
}

impl Listener {
    /// Opens at the address and says which port it became.
    pub(super) fn open(address: SocketAddr) -> (Self, SocketAddr) {
        let socket = bind(address);
        let address = socket.local_addr().expect("a listener has an address");
        (Self { state: Mutex::new(State { socket: Some(socket), waiting: None }) }, address)
    }

    pub(super) fn close(&self) {
        lock(&self.state).socket = None;
    }

    pub(super) fn reopen(&self, address: SocketAddr) {
        let mut state = lock(&self.state);
        if state.socket.is_none() {
            state.socket = Some(bind(address));
            if let Some(waker) = state.waiting.take() {
                waker.wake();
            }
        }
    }

    /// The next connection, however long the listener is closed meanwhile.
    pub(super) async fn accept(&self) -> TcpStream {
        poll_fn(|context| {
            let mut state = lock(&self.state);
            // Kept while there is a socket too: it may be closed and opened again before anyone connects, and the
            // waker that the old socket had is gone with it.
            state.waiting = Some(context.waker().clone());
            let Some(socket) = &state.socket else { return Poll::Pending };
            loop {
                match socket.poll_accept(context) {
                    Poll::Ready(Ok((stream, _))) => return Poll::Ready(stream),
                    // A peer that left while it queued; another is tried.
                    Poll::Ready(Err(_)) => {}
                    Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await
    }
}

fn bind(address: SocketAddr) -> TcpListener {
    // The standard library's, since it sets SO_REUSEADDR: the port may be re-opened with old connections about.
    let socket = std::net::TcpListener::bind(address).unwrap_or_else(|error| panic!("listening at {address}: {error}"));
    socket.set_nonblocking(true).expect("a non-blocking listener");
    TcpListener::from_std(socket).expect("a listener within a tokio runtime")
}
