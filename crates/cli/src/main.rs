//! The program `hyperslab`.

fn main() {
    std::process::exit(hyperslab_cli::program(std::env::args_os().collect()));
}
