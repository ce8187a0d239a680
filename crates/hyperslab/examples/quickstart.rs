//! The example in README.md: write an array, read a slab of it, print the read plan.

use hyperslab::prelude::*;

fn main() -> Result<(), hyperslab::Error> {
    let ocean = Group::create("ocean-rust.zarr", Format::ZarrV3)?;
    let mut spec = ArraySpec::new(Format::ZarrV3.zarr()?, &[24, 180, 360], "<f4".parse()?);
    spec.chunks = Some([1, 180, 360].as_slice().into());
    let sst = ocean.create_array("sst", &spec)?;
    sst.write_slice(&[Index::At(3), Index::At(90)], &[15.5_f32; 360])?;

    let sst = hyperslab::open("ocean-rust.zarr/sst")?.into_array()?;
    let series: Vec<f32> = sst.read_vec(&[Index::ALL, Index::At(90), Index::At(180)])?;
    assert_eq!(series[2..5], [0.0, 15.5, 0.0]);
    println!("{}", sst.explain_read(&sst.select(&[Index::ALL, Index::At(90)])?, 10)?);
    Ok(())
}
