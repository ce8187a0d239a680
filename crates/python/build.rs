//! Inserts a function of `src/gil/shutdown.rs` before Rust's function for unwinding stacks.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(wraps_personality)");
    let target = |name: &str| std::env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    // On other systems, a thread ends without unwinding its stack. On 32-bit ARM the function has
    // other arguments. (With `lto = "fat"`, GNU linkers see no call to wrap. The linkers of LLVM
    // and zig do.)
    if target("OS") == "linux" && target("ARCH") != "arm" {
        println!("cargo::rustc-cfg=wraps_personality");
        println!("cargo::rustc-cdylib-link-arg=-Wl,--wrap=rust_eh_personality");
    }
}
