// Where each chunk of a grid is in a flat picture.
//
// The grid of rows and columns is a sheet. The sheets of the other axes lie side by side, like the
// prints of a roll of film, so that every chunk is seen once.

export interface Layout {
  height: number;
  width: number;
  /** Sheets beside each other. */
  across: number;
  grid: number[];
  axes: [number, number];
  /** Cells between sheets. */
  gap: number;
}

export function layout(grid: number[], axes: [number, number], aspect: number): Layout {
  const [row, column] = axes;
  const rank = grid.length;
  const tall = rank > 1 ? (grid[row] ?? 1) : 1;
  const wide = rank > 0 ? (grid[rank > 1 ? column : 0] ?? 1) : 1;
  const sheets = grid.reduce((n, one, axis) => (isPlane(axis, rank, axes) ? n : n * one), 1);
  const gap = sheets > 1 && tall * wide > 1 ? 1 : 0;
  if (rank <= 1) {
    // One axis is wrapped like text.
    const line = Math.max(1, Math.ceil(Math.sqrt(wide * aspect)));
    return { height: Math.ceil(wide / line), width: Math.min(line, wide), across: line, grid, axes, gap: 0 };
  }
  const across = Math.min(sheets, Math.max(1, Math.ceil(Math.sqrt((sheets * (tall + gap) * aspect) / (wide + gap)))));
  const down = Math.ceil(sheets / across);
  return { height: down * (tall + gap) - gap, width: across * (wide + gap) - gap, across, grid, axes, gap };
}

function isPlane(axis: number, rank: number, axes: [number, number]): boolean {
  return rank <= 1 || axes.includes(axis);
}

/** Calls `put` with the number of each chunk in C order, and its cell. */
export function cells(of: Layout, put: (chunk: number, row: number, column: number) => void): void {
  const { grid, axes, across, gap } = of;
  const rank = grid.length;
  const total = grid.reduce((n, one) => n * one, 1);
  if (rank <= 1) {
    for (let n = 0; n < total; n += 1) put(n, Math.floor(n / across), n % across);
    return;
  }
  const [row, column] = axes;
  const tall = (grid[row] ?? 1) + gap;
  const wide = (grid[column] ?? 1) + gap;
  const at = grid.map(() => 0);
  let sheet = 0;
  const sheetSteps = steps(grid, axes);
  for (let n = 0; n < total; n += 1) {
    put(n, Math.floor(sheet / across) * tall + (at[row] ?? 0), (sheet % across) * wide + (at[column] ?? 0));
    for (let axis = rank - 1; axis >= 0; axis -= 1) {
      const next = (at[axis] ?? 0) + 1;
      const step = sheetSteps[axis] ?? 0;
      if (next < (grid[axis] ?? 1)) {
        at[axis] = next;
        sheet += step;
        break;
      }
      sheet -= step * (at[axis] ?? 0);
      at[axis] = 0;
    }
  }
}

/** By how many sheets the next chunk along each axis is away. */
function steps(grid: number[], axes: [number, number]): number[] {
  const found = grid.map(() => 0);
  let step = 1;
  for (let axis = grid.length - 1; axis >= 0; axis -= 1) {
    if (axes.includes(axis)) continue;
    found[axis] = step;
    step *= grid[axis] ?? 1;
  }
  return found;
}

/** The chunk in a cell. `null`: a gap. */
export function chunkAt(of: Layout, row: number, column: number): number[] | null {
  const { grid, axes, across, gap } = of;
  if (row < 0 || column < 0 || row >= of.height || column >= of.width) return null;
  if (grid.length <= 1) {
    const n = row * across + column;
    return n < (grid[0] ?? 1) ? (grid.length === 0 ? [] : [n]) : null;
  }
  const [rowAxis, columnAxis] = axes;
  const tall = (grid[rowAxis] ?? 1) + gap;
  const wide = (grid[columnAxis] ?? 1) + gap;
  const at = grid.map(() => 0);
  at[rowAxis] = row % tall;
  at[columnAxis] = column % wide;
  if ((at[rowAxis] ?? 0) >= (grid[rowAxis] ?? 1) || (at[columnAxis] ?? 0) >= (grid[columnAxis] ?? 1)) return null;
  let sheet = Math.floor(row / tall) * across + Math.floor(column / wide);
  const step = steps(grid, axes);
  for (let axis = 0; axis < grid.length; axis += 1) {
    if (axes.includes(axis)) continue;
    at[axis] = Math.floor(sheet / (step[axis] ?? 1));
    sheet %= step[axis] ?? 1;
    if ((at[axis] ?? 0) >= (grid[axis] ?? 1)) return null;
  }
  return at;
}

/** The number of a chunk in C order. */
export function numberOf(at: number[], grid: number[]): number {
  return at.reduce((n, one, axis) => n * (grid[axis] ?? 1) + one, 0);
}

/** The place of the chunk with a number. */
export function placeOf(n: number, grid: number[]): number[] {
  const at = grid.map(() => 0);
  for (let axis = grid.length - 1; axis >= 0; axis -= 1) {
    at[axis] = n % (grid[axis] ?? 1);
    n = Math.floor(n / (grid[axis] ?? 1));
  }
  return at;
}
