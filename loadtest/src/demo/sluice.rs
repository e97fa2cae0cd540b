//! The real `sluice`, as the demo runs it.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use sluice_loadtest::process::{Exit, Process};
use sluice_loadtest::scraper::{Scraper, ScraperOptions};

use super::{DemoError, LOOK};

/// It is ready within a tenth of a second; a machine on which it takes this long has other troubles.
const PATIENCE: Duration = Duration::from_secs(30);
/// Enough to see what happened; the rest is of no interest to someone who tries a demo.
const LAST_WORDS: usize = 12;

pub(super) struct Sluice {
    process: Process,
    /// How many of its lines are known to whoever asks for news.
    told: usize,
}

/// Where it listens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Addresses {
    pub(super) scrapers: SocketAddr,
    pub(super) admin: SocketAddr,
}

impl Sluice {
    pub(super) fn start(binary: &Path, config: &Path, listen: SocketAddr) -> Self {
        let mut command = Command::new(binary);
        command.arg("serve").arg("--config").arg(config);
        command.args(["--listen", &listen.to_string()]);
        command.args(["--admin-listen", &SocketAddr::new(listen.ip(), 0).to_string()]);
        // No balancer has to notice, and who types `rotate` does not want to wait.
        command.args(["--drain", "0s", "--reload-interval", "500ms"]);
        command.env("RUST_LOG", "info").env("POD_NAME", "sluice-demo");
        // Not in the terminal's foreground: Ctrl-C is the demo's, which then stops it in good order.
        command.process_group(0);
        Self { process: Process::spawn(command), told: 0 }
    }

    /// Waits until scrapes are answered.
    pub(super) async fn ready(&mut self) -> Result<Addresses, DemoError> {
        let started = Instant::now();
        let mut why = "it does not listen".to_owned();
        while started.elapsed() < PATIENCE {
            self.check_alive().await?;
            if let (Some(scrapers), Some(admin)) = (self.listening("scrapers"), self.listening("admin")) {
                match Scraper::new(ScraperOptions::plain(admin)).scrape("/readyz").await {
                    Ok(answer) if answer.status == 200 => {
                        self.told = self.process.lines().len();
                        return Ok(Addresses { scrapers, admin });
                    }
                    Ok(answer) => answer.text().trim_end().clone_into(&mut why),
                    Err(error) => why = error.to_string(),
                }
            }
            tokio::time::sleep(LOOK).await;
        }
        Err(DemoError::NotReady { why, last_words: self.last_words() })
    }

    /// An error if it has ended.
    pub(super) async fn check_alive(&mut self) -> Result<(), DemoError> {
        let Some(exit) = self.process.exited() else { return Ok(()) };
        // Its last words may still be on their way through the pipe.
        tokio::time::sleep(LOOK).await;
        Err(DemoError::SluiceDied { how: how(exit), last_words: self.last_words() })
    }

    /// What it has logged since the last time, for people.
    pub(super) fn news(&mut self) -> Vec<String> {
        let lines = self.process.lines();
        let news = lines[self.told..].iter().map(|line| format!("sluice: {}", readable(line))).collect();
        self.told = lines.len();
        news
    }

    /// Has it stop, and waits until it has.
    pub(super) async fn stop(mut self) -> Result<(), DemoError> {
        if self.process.exited().is_none() {
            self.process.signal("TERM");
        }
        match self.process.wait().await {
            Exit::Code(0) => Ok(()),
            exit => Err(DemoError::BadStop(how(exit))),
        }
    }

    fn listening(&self, whom: &str) -> Option<SocketAddr> {
        self.process.lines().iter().find_map(|line| {
            let line: Value = serde_json::from_str(line).ok()?;
            let is_it = line["message"] == "listening" && line["whom"] == whom;
            if is_it { line["address"].as_str()?.parse().ok() } else { None }
        })
    }

    fn last_words(&self) -> String {
        let lines = self.process.lines();
        let last = &lines[lines.len().saturating_sub(LAST_WORDS)..];
        last.iter().map(|line| format!("  {}", readable(line))).collect::<Vec<_>>().join("\n")
    }
}

fn how(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
    }
}

/// A JSON log line as one would say it: the message, then its fields. What is no JSON stays as it is.
fn readable(line: &str) -> String {
    let Ok(Value::Object(fields)) = serde_json::from_str(line) else { return line.to_owned() };
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut readable = fields.get("message").map(text).unwrap_or_default();
    for (name, value) in &fields {
        if !["level", "message", "target", "timestamp"].contains(&name.as_str()) {
            // A String takes everything.
            let _ = write!(readable, " {name}={}", text(value));
        }
    }
    readable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_lines_are_shown_without_what_nobody_reads() {
        let line = r#"{"timestamp":"t","level":"WARN","message":"the pod failed","pod":"etcd-1","target":"sluice"}"#;
        assert_eq!(readable(line), "the pod failed pod=etcd-1");
        assert_eq!(readable("no JSON"), "no JSON");
    }

    #[tokio::test]
    async fn a_program_that_ends_by_itself_is_quoted() {
        // It prints its arguments, which are none of its business, and ends.
        let mut sluice = Sluice::start(Path::new("/bin/echo"), Path::new("config.yaml"), ([127, 0, 0, 1], 0).into());
        let DemoError::SluiceDied { how, last_words } = sluice.ready().await.unwrap_err() else {
            panic!("not told that it has ended");
        };
        assert_eq!(how, "exit code 0");
        assert!(last_words.starts_with("  serve --config config.yaml"), "{last_words}");
    }
}
