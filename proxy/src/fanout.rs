//! All pods of a component: opened at once, read as the merge asks for them, given up when their time is over.
//!
//! A [`Fanout`] is polled by the response that it becomes and by nobody else: while the scraper does not read, nothing here
//! moves, and the pods are not read either.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use sluice_codec::{FRAME_CAPACITY, Merge, Names, Outcome, Step, Synthetic};
use sluice_discovery::Target;
use tokio::time::{Instant, Sleep};

use crate::budget::{Budget, PodClock};
use crate::component::Component;
use crate::fault::PodFault;
use crate::upstream::OpenPod;

/// While a pod is waited for, output goes out if it fills a TLS record; less than that can wait for more.
const WORTH_SENDING: usize = 16 * 1024;

/// The scrape of all pods of a component, from the first connection to the last byte of the response.
pub(crate) struct Fanout {
    component: Arc<Component>,
    merge: Merge,
    /// As the merge numbers them.
    pods: Vec<PodScrape>,
    /// How many of them are still being opened.
    opening: usize,
    /// The frame in the making.
    out: Vec<u8>,
    budget: Budget,
    /// Set to when the next pod has to be given up; looked at only while a pod is waited for.
    alarm: Pin<Box<Sleep>>,
    /// The last frame was handed out, and what each pod did is on record.
    over: bool,
}

/// One pod's part of it.
struct PodScrape {
    target: Target,
    stage: Stage,
    clock: PodClock,
    started: Instant,
    /// When it was closed.
    ended: Option<Instant>,
    bytes: u64,
    /// What went wrong, if it was not the body itself: the merge knows that.
    fault: Option<PodFault>,
}

enum Stage {
    Opening(Pin<Box<dyn Future<Output = Result<OpenPod, PodFault>> + Send>>),
    Reading(OpenPod),
    Closed,
}

/// How one pod's scrape ended.
pub(crate) struct PodResult<'a> {
    pub(crate) target: &'a Target,
    pub(crate) outcome: &'a Outcome,
    pub(crate) fault: Option<&'a PodFault>,
    pub(crate) bytes: u64,
    pub(crate) duration: std::time::Duration,
}

impl Fanout {
    /// Begins to open all pods. `targets` are in the order of their names, each once.
    pub(crate) fn new(component: Arc<Component>, targets: &[Target], names: Names, budget: Budget) -> Self {
        let now = Instant::now();
        let merge = component.merge(targets, names);
        let pods: Vec<_> = targets.iter().map(|target| PodScrape::new(&component, target.clone(), now)).collect();
        Self {
            component,
            merge,
            opening: pods.len(),
            pods,
            out: Vec::with_capacity(FRAME_CAPACITY),
            budget,
            alarm: Box::pin(tokio::time::sleep_until(budget.end())),
            over: false,
        }
    }

    /// Whether at least one pod has sent a valid line or came to a clean end.
    pub(crate) fn has_answer(&self) -> bool {
        (0..self.pods.len()).any(|pod| {
            let outcome = self.merge.outcome(pod);
            outcome.whole || outcome.counts.samples > 0 || outcome.error.is_some_and(|error| error.line > 1)
        })
    }

    /// The next frame of the response, `None` behind the last.
    pub(crate) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.over {
            return Poll::Ready(None);
        }
        // A pod that always has more to say, and a scraper that reads it slowly, never let the alarm be looked at.
        let now = Instant::now();
        if now >= self.budget.end() {
            self.give_up_late(now);
        }
        loop {
            self.poll_openings(cx);
            match self.merge.step(&mut self.out) {
                Step::Frame => return Poll::Ready(Some(self.take_frame())),
                Step::Failed(pod) => self.pods[pod].close(),
                Step::Need(pod) => {
                    if self.poll_pod(pod, cx).is_pending() {
                        if self.out.len() >= WORTH_SENDING {
                            return Poll::Ready(Some(self.take_frame()));
                        }
                        self.pods[pod].clock.start(Instant::now());
                        std::task::ready!(self.poll_alarm(cx));
                    }
                }
                Step::Done => {
                    self.finish();
                    return Poll::Ready(Some(self.take_frame()));
                }
            }
        }
    }

    /// Lets pods that are being opened go on, whichever the merge waits for.
    fn poll_openings(&mut self, cx: &mut Context<'_>) {
        if self.opening == 0 {
            return;
        }
        for (index, pod) in self.pods.iter_mut().enumerate() {
            let Stage::Opening(open) = &mut pod.stage else { continue };
            let Poll::Ready(opened) = open.as_mut().poll(cx) else { continue };
            self.opening -= 1;
            pod.clock.stop(Instant::now());
            match opened {
                Ok(open) => {
                    self.merge.set_format(index, open.format);
                    pod.stage = Stage::Reading(open);
                }
                Err(fault) => {
                    pod.fail(fault);
                    self.merge.fail(index);
                }
            }
        }
    }

    /// Gives the merge what it needs of this pod: a frame, or its end.
    fn poll_pod(&mut self, index: usize, cx: &mut Context<'_>) -> Poll<()> {
        let pod = &mut self.pods[index];
        let Stage::Reading(open) = &mut pod.stage else {
            // One that is closed was said to be over, and is not asked for again.
            return Poll::Pending;
        };
        let frame = std::task::ready!(open.poll_frame(cx));
        if pod.clock.is_running() {
            pod.clock.stop(Instant::now());
        }
        match frame {
            Some(Ok(frame)) => {
                pod.bytes += frame.len() as u64;
                self.merge.feed(index, frame);
            }
            Some(Err(fault)) => {
                pod.fail(fault);
                self.merge.fail(index);
            }
            None => {
                pod.close();
                self.merge.end(index);
            }
        }
        Poll::Ready(())
    }

    /// Ready when at least one pod was given up because its time is over.
    fn poll_alarm(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let clocks = self.pods.iter().filter_map(|pod| pod.clock.gives_up_at(self.budget));
        let first = if self.somebody_waits() { clocks.min() } else { None };
        let deadline = first.unwrap_or(self.budget.end()).min(self.budget.end());
        if self.alarm.deadline() != deadline {
            self.alarm.as_mut().reset(deadline);
        }
        std::task::ready!(self.alarm.as_mut().poll(cx));
        self.give_up_late(Instant::now());
        Poll::Ready(())
    }

    /// Whether a pod has something to say and has to wait for others that say nothing. If not, giving up a slow pod would help nobody:
    /// then it may use all the time there is.
    fn somebody_waits(&self) -> bool {
        self.pods.iter().any(|pod| !matches!(pod.stage, Stage::Closed) && !pod.clock.is_running())
    }

    fn give_up_late(&mut self, now: Instant) {
        let somebody_waits = self.somebody_waits();
        for (index, pod) in self.pods.iter_mut().enumerate() {
            let has_used_its_share = || pod.clock.gives_up_at(self.budget).is_some_and(|at| at <= now);
            let is_late = now >= self.budget.end() || (somebody_waits && has_used_its_share());
            if is_late && !matches!(pod.stage, Stage::Closed) {
                if matches!(pod.stage, Stage::Opening(_)) {
                    self.opening -= 1;
                }
                pod.clock.stop(now);
                pod.fail(PodFault::Timeout(pod.clock.used()));
                self.merge.fail(index);
            }
        }
    }

    fn take_frame(&mut self) -> Bytes {
        let next = if self.over { Vec::new() } else { Vec::with_capacity(FRAME_CAPACITY) };
        std::mem::replace(&mut self.out, next).into()
    }

    /// Puts on record how each pod's scrape ended, and tells the scraper.
    fn finish(&mut self) {
        self.over = true;
        let Self { component, merge, pods, out, .. } = self;
        let synthetic = Synthetic { component: &component.name, proxy: &component.proxy, emit_up: component.emit_up };
        merge.finish(out, synthetic, |index, outcome| {
            let pod = &mut pods[index];
            pod.close();
            component.record(&pod.result(outcome))
        });
    }
}

impl Drop for Fanout {
    /// The scraper left, or the process is told to end: pods that were not read to their end are not to blame.
    fn drop(&mut self) {
        if self.over {
            return;
        }
        for (index, pod) in self.pods.iter_mut().enumerate() {
            let outcome = self.merge.outcome(index);
            if !outcome.whole && outcome.error.is_none() && pod.fault.is_none() {
                pod.fault = Some(PodFault::Cancelled);
            }
            pod.close();
            self.component.record(&pod.result(&outcome));
        }
    }
}

impl PodScrape {
    fn new(component: &Component, target: Target, now: Instant) -> Self {
        let open = Arc::clone(&component.upstream).open(target.address);
        let mut clock = PodClock::default();
        // All pods are opened at once, and all are waited for.
        clock.start(now);
        Self { target, stage: Stage::Opening(Box::pin(open)), clock, started: now, ended: None, bytes: 0, fault: None }
    }

    fn fail(&mut self, fault: PodFault) {
        self.fault = Some(fault);
        self.close();
    }

    fn close(&mut self) {
        self.stage = Stage::Closed;
        self.ended.get_or_insert_with(Instant::now);
    }

    fn result<'a>(&'a mut self, outcome: &'a Outcome) -> PodResult<'a> {
        if self.fault.is_none() {
            self.fault = outcome.error.clone().map(PodFault::Body);
        }
        PodResult {
            target: &self.target,
            outcome,
            fault: self.fault.as_ref(),
            bytes: self.bytes,
            duration: self.ended.unwrap_or(self.started).saturating_duration_since(self.started),
        }
    }
}
