//! scratch
#![allow(clippy::all,clippy::pedantic,clippy::unwrap_used,clippy::panic)]
use bytes::Bytes;
use sluice_codec::*;
use std::io::Read;
use std::time::Instant;
fn corpus(name:&str)->Vec<u8>{ let mut v=Vec::new(); flate2::read::GzDecoder::new(std::fs::File::open(format!("codec/tests/corpus/{name}.prom.gz")).unwrap()).read_to_end(&mut v).unwrap(); v}
fn target(p:&str)->TargetLabels{ TargetLabels::of_pod(["pod"], PodIdentity{pod:p,namespace:"default",job:"apiserver",service:"kubernetes",endpoint:"https",instance:"10.128.0.17:6443"}).unwrap()}
fn run(bodies:&[Bytes], frame:usize, out:&mut Vec<u8>)->usize{
  let names=["kube-apiserver-0","kube-apiserver-1","kube-apiserver-2"];
  let mut m=Merge::new(names[..bodies.len()].iter().map(|n|target(n)), MergeOptions::default());
  let mut pos=vec![0usize;bodies.len()]; let mut total=0;
  out.clear();
  loop { match m.step(out) {
    Step::Frame=>{total+=out.len(); out.clear();}
    Step::Need(p)=>{ let b=&bodies[p]; if pos[p]==b.len(){m.end(p)} else {let e=(pos[p]+frame).min(b.len()); m.feed(p,b.slice(pos[p]..e)); pos[p]=e;} }
    Step::Failed(p)=>panic!("{:?}",m.outcome(p)),
    Step::Done=>break } }
  total+out.len()
}
fn main(){
  let name=std::env::args().nth(1).unwrap_or("kube-apiserver".into());
  let n:usize=std::env::args().nth(2).map(|s|s.parse().unwrap()).unwrap_or(1);
  let iters:usize=std::env::args().nth(3).map(|s|s.parse().unwrap()).unwrap_or(30);
  let body=Bytes::from(if name.contains('/') {std::fs::read(&name).unwrap()} else {corpus(&name)});
  let bodies=vec![body.clone();n];
  let mut out=Vec::with_capacity(FRAME_CAPACITY);
  let mut best=f64::MAX; let mut tot=0;
  for _ in 0..iters { let t=Instant::now(); tot=run(&bodies,16384*4,&mut out); best=best.min(t.elapsed().as_secs_f64()); }
  let mut dst=vec![0u8;body.len()]; let mut bm=f64::MAX;
  for _ in 0..iters { let t=Instant::now(); dst.copy_from_slice(&body); std::hint::black_box(&dst); bm=bm.min(t.elapsed().as_secs_f64()); }
  println!("{name} x{n}: {:.2} GB/s in, out {tot}, memcpy {:.2} GB/s, ratio {:.3}", (body.len()*n) as f64/best/1e9, body.len() as f64/bm/1e9, (body.len()*n) as f64/best/(body.len() as f64/bm));
}
