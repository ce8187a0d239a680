// Elements as a table: text, compounds, and numbers for people who prefer them to pictures.

import { askExact, clamp } from "../base/api";
import { chosen } from "../base/chosen";
import { button, fill, h } from "../base/dom";
import { count } from "../base/format";
import { Latest } from "../base/latest";
import type { Described, Table } from "../base/types";
import { setView, view } from "../base/view_state";
import { problem } from "../frame/problem";
import type { AxisLabels } from "../picture/axis_labels";
import { cell } from "../picture/readout";

const ROWS = 50;
const COLUMNS = 12;

export class ValueTable {
  readonly element = h("div", { class: "table" });
  private latest = new Latest();

  constructor(
    private path: string,
    private described: Described,
    private labels: AxisLabels[],
    private loaded: () => void = () => undefined,
  ) {}

  /** The first row and column of the page. They are the start of the view's window. */
  private corner(): [number, number] {
    const now = chosen(view(), this.described);
    return [now.rows.start, this.described.shape.length === 1 ? 0 : now.columns.start];
  }

  private turn(rows: number, columns: number): void {
    const { shape } = this.described;
    const [row, column] = this.corner();
    if (shape.length === 1) {
      const start = clamp(row + rows, 0, Math.max(0, (shape[0] ?? 0) - 1));
      setView({ select: start === 0 ? "" : `${start}:${Math.min(start + ROWS, shape[0] ?? 0)}` });
      return;
    }
    const now = chosen(view(), this.described);
    const parts = shape.map((size, axis) => {
      const start = axis === now.axes[0] ? row + rows : axis === now.axes[1] ? column + columns : null;
      if (start === null) return String(now.at[axis] ?? 0);
      const from = clamp(start, 0, Math.max(0, size - 1));
      return `${from}:${Math.min(from + (axis === now.axes[0] ? ROWS : COLUMNS), size)}`;
    });
    setView({ select: parts.join(",") });
  }

  async update(): Promise<void> {
    const { described } = this;
    const [row, column] = this.corner();
    const now = chosen(view(), described);
    const key = [row, column, now.at, now.axes, described.version].join("|");
    await this.latest.run(
      key,
      async (signal) => {
        const table = await this.read(row, column, signal);
        if (signal.aborted) return;
        this.show(table, row, column);
        this.loaded();
      },
      (error) => fill(this.element, problem(error)),
    );
  }

  private async read(row: number, column: number, signal: AbortSignal): Promise<Table> {
    const { described } = this;
    const { shape } = described;
    const now = chosen(view(), described);
    const isFlat = shape.length === 1;
    const [rowAxis, columnAxis] = now.axes;
    const to = (axis: number, from: number, most: number): string => `${from}:${Math.min(from + most, shape[axis] ?? 0)}`;
    const select = isFlat
      ? to(0, row, ROWS)
      : shape
          .map((_, axis) =>
            axis === rowAxis ? to(axis, row, ROWS) : axis === columnAxis ? to(axis, column, COLUMNS) : String(now.at[axis] ?? 0),
          )
          .join(",");
    const found = await askExact<Table>("table", this.path, { select }, signal);
    if (isFlat) return found;
    const isTurned = rowAxis > columnAxis;
    const [first] = found.rows;
    const rows = isTurned ? (first ?? []).map((_, at) => found.rows.map((row) => row[at])) : found.rows;
    const label = this.labels[columnAxis];
    return { columns: (rows[0] ?? []).map((_, at) => label?.label(column + at) ?? String(column + at)), rows };
  }

  private show(table: Table, row: number, column: number): void {
    const { described } = this;
    const now = chosen(view(), described);
    const isFlat = described.shape.length === 1;
    const rowAxis = isFlat ? 0 : now.axes[0];
    const rows = described.shape[rowAxis] ?? 0;
    const columns = isFlat ? 0 : (described.shape[now.axes[1]] ?? 0);
    const label = this.labels[rowAxis];
    const head = h("tr", {}, h("th", { scope: "col" }, label?.name ?? "row"));
    for (const name of table.columns) head.append(h("th", { scope: "col" }, String(name)));
    const body = h("tbody", {});
    table.rows.forEach((values, at) => {
      const place = label?.hasValues ? `${row + at}: ${label.label(row + at)}` : String(row + at);
      const line = h("tr", {}, h("th", { scope: "row" }, place));
      for (const value of values) line.append(h("td", { class: value === null ? "quiet" : "" }, cell(value)));
      body.append(line);
    });
    // The buttons are made anew, and keyboards stay where they are.
    const buttons = (): HTMLButtonElement[] => [...this.element.querySelectorAll<HTMLButtonElement>(".buttons button")];
    const focused = buttons().findIndex((one) => one === document.activeElement);
    const last = row + table.rows.length;
    const turn = (words: string, down: number, right: number, isOff: boolean): HTMLElement =>
      button(words, () => this.turn(down, right), { disabled: isOff });
    fill(
      this.element,
      h(
        "div",
        { class: "buttons" },
        turn("‹ Rows", -ROWS, 0, row === 0),
        turn("Rows ›", ROWS, 0, last >= rows),
        columns > COLUMNS && turn("‹ Columns", 0, -COLUMNS, column === 0),
        columns > COLUMNS && turn("Columns ›", 0, COLUMNS, column + COLUMNS >= columns),
        h("span", { class: "quiet" }, rows === 0 ? "no rows" : `rows ${count(row)} to ${count(last - 1)} of ${count(rows)}`),
      ),
      h(
        "div",
        { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table of elements" },
        h("table", {}, h("thead", {}, head), body),
      ),
    );
    if (focused < 0) return;
    const again = buttons()[focused];
    // At the end of the array the button is off.
    (again?.disabled ? this.element.querySelector<HTMLElement>(".scroll") : again)?.focus();
  }

  destroy(): void {
    this.latest.destroy();
  }
}
