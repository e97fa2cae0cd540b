//! The floor: nginx (Debian `nginx-light`) that relays the same bytes over TLS and looks at none of them.

use std::net::{SocketAddr, TcpListener};
use std::process::Command;

use bytes::Bytes;
use sluice_loadtest::pod::Pod;
use sluice_loadtest::process::{Measured, Process};
use sluice_loadtest::scraper::{Scraper, ScraperOptions};

use super::stand::{HOST, Stand, start_pod};

pub(super) struct Nginx {
    address: SocketAddr,
    /// Does the work; the first process only watches it.
    worker: u32,
    _process: Process,
    _pod: Pod,
}

impl Nginx {
    /// Relays this body.
    pub(super) async fn start(stand: &Stand, body: &Bytes) -> std::io::Result<Self> {
        let pod = start_pod(body);
        let dir = stand.dir.path();
        // Free a moment ago; nginx cannot be asked for a port of the kernel's choice.
        let address = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?;
        let config = format!(
            "daemon off; worker_processes 1; pid {dir}/nginx.pid; error_log stderr warn;
             events {{ worker_connections 64; }}
             http {{
                 access_log off; client_body_temp_path {dir}; proxy_temp_path {dir}; fastcgi_temp_path {dir};
                 uwsgi_temp_path {dir}; scgi_temp_path {dir};
                 server {{
                     listen {address} ssl; ssl_certificate {dir}/tls.crt; ssl_certificate_key {dir}/tls.key;
                     location / {{ proxy_pass http://{pod}; proxy_http_version 1.1; proxy_max_temp_file_size 0; }}
                 }}
             }}",
            dir = dir.display(),
            pod = pod.address(),
        );
        let file = dir.join("nginx.conf");
        std::fs::write(&file, config)?;
        let mut command = Command::new("nginx");
        command.arg("-c").arg(&file).arg("-p").arg(dir);
        let process = Process::spawn(command);
        let mut nginx = Self { address, worker: process.id(), _process: process, _pod: pod };
        nginx.wait(stand).await?;
        Ok(nginx)
    }

    async fn wait(&mut self, stand: &Stand) -> std::io::Result<()> {
        let scraper = Scraper::new(ScraperOptions { gzip: false, ..self.scraper(stand) });
        for _ in 0..200 {
            if scraper.scrape("/").await.is_ok() {
                let children = format!("/proc/{id}/task/{id}/children", id = self.worker);
                let worker =
                    std::fs::read_to_string(children)?.split_whitespace().next().and_then(|id| id.parse().ok());
                self.worker = worker.ok_or_else(|| std::io::Error::other("nginx has no worker"))?;
                return Ok(());
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        Err(std::io::Error::other("nginx does not answer"))
    }

    pub(super) fn scraper(&self, stand: &Stand) -> ScraperOptions {
        ScraperOptions::new(self.address, HOST, &stand.ca_pem)
    }

    pub(super) fn measure(&self) -> Measured {
        Measured::of(self.worker)
    }
}
