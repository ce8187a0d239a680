//! Elements as values of the report, for other modules.

use super::side::{Elements, Side};
use crate::copy::Paths;
use crate::meaning::MissingValue;
use crate::nodes::element::swap_bytes;
use crate::{Array, ByteOrder, Json, ReadOptions, Result, Selection, Variable};
use hyperslab_array::element_count;

/// Reads elements of any type as values of the report. Null is an element that is missing.
pub(crate) struct Shown<'a>(Side<'a>);

impl<'a> Shown<'a> {
    /// `raw`: numbers as they are stored.
    pub(crate) fn of(array: &'a Array, raw: bool) -> Result<Self> {
        let variable = Variable {
            is_variable: false,
            dimension_names: None,
            shape: array.shape().into(),
            attributes: Json::object(),
            missing: MissingValue::None,
            unreadable: Vec::new(),
        };
        // Attributes without a meaning are no reason to hide the elements.
        match Side::new(array, variable.clone(), raw) {
            Ok(side) => Ok(Shown(side)),
            Err(_) => Side::new(array, variable, true).map(Shown),
        }
    }

    /// The selected elements, in C order.
    pub(crate) fn read(&self, selection: &Selection, options: ReadOptions<'_>) -> Result<Vec<Json>> {
        let Shown(side) = self;
        let array = side.array;
        if let Elements::Ragged(_) = side.elements {
            let ragged = array.node().read_copied(selection, options, &mut Paths::new())?;
            let count = element_count(&selection.shape()).and_then(|n| usize::try_from(n).ok());
            return Ok((0..count.unwrap_or(0)).map(|n| side.ragged(&ragged, n)).collect());
        }
        let mut memory = array.read(selection, options)?;
        let bytes = memory.as_mut_slice();
        let swaps = match &side.elements {
            Elements::Numbers(_) => array.optional().is_none(),
            Elements::Complex => true,
            _ => false,
        };
        if swaps && array.dtype().order() != ByteOrder::NATIVE {
            swap_bytes(bytes, array.dtype().number_size());
        }
        bytes.chunks_exact(array.dtype().size().max(1)).map(|element| side.fixed(element)).collect()
    }
}
