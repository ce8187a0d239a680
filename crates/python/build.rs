//! Puts a function of `src/ending.rs` before the one that Rust has for unwinding stacks.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(wraps_personality)");
    let target = |name: &str| std::env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    // Elsewhere a thread ends without its stack being unwound. On 32-bit ARM the function has other
    // arguments. (With `lto = "fat"`, GNU's linkers see no call to put a function before; LLVM's and
    // zig's do.)
    if target("OS") == "linux" && target("ARCH") != "arm" {
        println!("cargo::rustc-cfg=wraps_personality");
        println!("cargo::rustc-cdylib-link-arg=-Wl,--wrap=rust_eh_personality");
    }
}
