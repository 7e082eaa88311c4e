// The lanes: only what is seen is drawn, and what falls on one place is one column. What was drawn is kept, to be pointed at.

const AXIS = 26;
const LANE = 48;
const FOLDED = 18;
const CELL = 7; // pixels that are one place
const BAR_MIN = 3; // pixels below which a bar is a mark
const PARTS_MAX = 6; // kinds that are told apart in one column

class Lanes {
  constructor(page) {
    this.page = page;
    this.canvas = byId('canvas');
    this.box = byId('lanes');
    this.context = this.canvas.getContext('2d');
    this.drawn = [];
    this.spots = new Map(); // where happenings are that were moved to be seen
    this.waiting = false;
    this.layOut();
  }

  // Once for everything that changes before the next picture.
  redraw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.draw();
    });
  }

  layOut() {
    let top = AXIS;
    for (const lane of this.page.told.lanes) {
      lane.top = top;
      lane.height = lane.folded ? FOLDED : LANE;
      top += lane.height;
    }
    byId('names').style.height = `${top}px`;
    byId('plot').style.height = `${top}px`;
  }

  resize() {
    const width = Math.max(1, byId('plot').clientWidth);
    const height = Math.max(AXIS, this.box.clientHeight);
    const ratio = window.devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.page.view.width = width;
    this.height = height;
  }

  draw() {
    this.resize();
    this.drawn = [];
    this.font = `11px ${getComputedStyle(document.body).fontFamily}`;
    this.context.clearRect(0, 0, this.page.view.width, this.height);
    this.context.font = this.font;
    const ticks = this.page.view.ticks();
    this.grid(ticks);
    this.range();
    for (const lane of this.page.told.lanes) if (this.isSeen(lane)) this.lane(lane);
    drawChosen(this);
    this.selected();
    this.axis(ticks);
    this.tell();
  }

  top(lane) {
    return lane.top - this.box.scrollTop;
  }

  middle(lane) {
    return this.top(lane) + (lane.folded ? lane.height / 2 : lane.height * 0.62);
  }

  isSeen(lane) {
    return this.top(lane) + lane.height > AXIS && this.top(lane) < this.height;
  }

  grid(ticks) {
    const { context, page } = this;
    context.fillStyle = page.colours.line;
    for (const [ms] of ticks) context.fillRect(Math.round(page.view.x(ms)), AXIS, 1, this.height);
    for (const lane of page.told.lanes) context.fillRect(0, this.top(lane) + lane.height - 1, page.view.width, 1);
  }

  // The time of the diagnosis that was chosen.
  range() {
    const { context, page } = this;
    if (page.chosen === null) return;
    const one = page.told.diagnoses[page.chosen];
    const x = page.view.x(one.begin);
    context.fillStyle = page.colours.band;
    context.fillRect(x, AXIS, Math.max(2, page.view.x(one.end) - x), this.height);
  }

  lane(lane) {
    const { view, told, hidden } = this.page;
    const { begin, kind } = told.happenings;
    const cellMs = (view.span / view.width) * CELL;
    const columns = [];
    let column = null;
    this.context.globalAlpha = this.page.chosen === null ? 1 : 0.35;
    this.barTo = [];
    for (let at = firstNotBelow(lane.reach, view.begin); at < lane.numbers.length; at++) {
      const number = lane.numbers[at];
      if (begin[number] > view.end) break;
      if (hidden.has(kind[number])) continue;
      this.repetitions(lane, number);
      if (this.isBar(number)) this.bar(lane, number);
      else if (begin[number] >= view.begin) {
        const cell = Math.floor(begin[number] / cellMs);
        if (column === null || column.cell !== cell) columns.push((column = this.column(lane, cell, at, number)));
        this.add(column, at, number);
      }
    }
    this.columns(lane, columns);
    this.context.globalAlpha = 1;
  }

  isBar(number) {
    const { view, told } = this.page;
    return (told.happenings.end[number] - told.happenings.begin[number]) * view.width > BAR_MIN * view.span;
  }

  column(lane, cell, at, number) {
    return { lane, cell, from: at, to: at, first: number, size: 0, count: 0, parts: new Map() };
  }

  add(column, at, number) {
    const { count, kind } = this.page.told.happenings;
    column.to = at;
    column.size += 1;
    column.count += count[number];
    column.parts.set(kind[number], (column.parts.get(kind[number]) || 0) + count[number]);
  }

  // From the first time that it was said to the last, as a thin line.
  repetitions(lane, number) {
    const { view, told, colours } = this.page;
    const x = view.x(told.happenings.begin[number]);
    const width = view.x(told.happenings.last[number]) - x;
    if (width < BAR_MIN) return;
    this.context.fillStyle = colours.kinds[told.happenings.kind[number]];
    this.context.fillRect(Math.max(x, -1), this.middle(lane) - 1, Math.min(width, view.width + 1 - x), 2);
  }

  bar(lane, number) {
    const { view, told, colours } = this.page;
    const { begin, end, kind } = told.happenings;
    const left = Math.max(view.x(begin[number]), -4);
    const right = Math.min(view.x(end[number]), view.width + 4);
    const row = this.row(left, right);
    const height = lane.folded ? 10 : 13;
    const top = this.middle(lane) - height / 2 + (lane.folded ? 0 : row * 4 - 4);
    if (row < 3) {
      this.context.fillStyle = colours.kinds[kind[number]];
      this.context.fillRect(left, top, right - left, height - 1);
    }
    this.drawn.push({ lane, number, left, right, top, bottom: top + height, size: 1 });
  }

  // Bars that overlap are moved down a little, so that each can be seen.
  row(left, right) {
    let row = 0;
    while (row < 3 && this.barTo[row] > left) row += 1;
    this.barTo[row] = right;
    return row;
  }

  columns(lane, columns) {
    let free = 0; // where the next number may stand
    for (const column of columns) {
      const x = this.page.view.x(this.page.told.happenings.begin[column.first]);
      const height = column.size === 1 ? 9 : Math.min(lane.folded ? 12 : 26, 9 + 3 * Math.log2(column.count));
      if (column.size === 1) this.mark(lane, column.first, x);
      else this.stack(lane, column, x, height);
      const bottom = this.middle(lane) + (lane.folded ? 6 : 9);
      this.drawn.push({ ...column, number: column.first, left: x - 4, right: x + 4, top: bottom - height - 4, bottom });
      if (column.count > 1 && !lane.folded) free = this.number(lane, column, x, free);
    }
  }

  mark(lane, number, x) {
    const { page } = this;
    this.context.fillStyle = page.colours.kinds[page.told.happenings.kind[number]];
    this.disc(x, this.middle(lane), lane.folded ? 3.5 : 4.5);
  }

  disc(x, y, radius) {
    this.context.beginPath();
    this.context.arc(x, y, radius, 0, 2 * Math.PI);
    this.context.fill();
  }

  stack(lane, column, x, height) {
    const { context, page } = this;
    let bottom = this.middle(lane) + (lane.folded ? 6 : 9);
    const parts = [...column.parts].sort((one, other) => other[1] - one[1]).slice(0, PARTS_MAX);
    const sum = parts.reduce((total, part) => total + part[1], 0);
    for (const [kind, count] of parts) {
      const part = (height * count) / sum;
      context.fillStyle = page.colours.kinds[kind];
      context.fillRect(x - 2.5, bottom - part, 5, part);
      bottom -= part;
    }
  }

  number(lane, column, x, free) {
    const { context, page } = this;
    const says = short(column.count);
    const width = context.measureText(says).width;
    if (x - width / 2 < free) return free;
    context.fillStyle = page.colours.quiet;
    context.textAlign = 'center';
    context.textBaseline = 'top';
    context.fillText(says, x, this.top(lane) + 2);
    return x + width / 2 + 5;
  }

  selected() {
    const { page, context } = this;
    if (page.selected < 0) return;
    const { x, y } = spot(this, page.selected);
    context.fillStyle = page.colours.kinds[page.told.happenings.kind[page.selected]];
    this.disc(x, y, 4.5);
    context.strokeStyle = page.colours.text;
    context.lineWidth = 2;
    context.beginPath();
    context.arc(x, y, 8, 0, 2 * Math.PI);
    context.stroke();
  }

  axis(ticks) {
    const { context, page } = this;
    context.fillStyle = page.colours.surface;
    context.fillRect(0, 0, page.view.width, AXIS);
    context.fillStyle = page.colours.line;
    context.fillRect(0, AXIS - 1, page.view.width, 1);
    context.fillStyle = page.colours.quiet;
    context.textAlign = 'left';
    context.textBaseline = 'middle';
    for (const [ms, says] of ticks) {
      const x = page.view.x(ms) + 3;
      if (x + context.measureText(says).width < page.view.width) context.fillText(says, x, AXIS / 2);
    }
  }

  // In words, for those who do not see the picture.
  tell() {
    const { view, told } = this.page;
    const seen = `${stamp(view.begin)} to ${stamp(view.end)}`;
    byId('range').textContent = `${seen} (${lasting(view.span)})`;
    this.canvas.setAttribute('aria-label', `${told.lanes.length} lanes, ${this.drawn.length} marks from ${seen}`);
    Object.assign(this.canvas.dataset, { begin: view.begin, end: view.end, marks: this.drawn.length });
  }

  // The nearest of what was drawn; of what is on top of another, the one on top.
  at(x, y) {
    let best = null;
    for (const one of this.drawn) {
      const away = Math.max(one.left - x, x - one.right, 0) + Math.max(one.top - y, y - one.bottom, 0);
      if (away <= 5 && (best === null || away <= best.away)) best = { ...one, away };
    }
    return best;
  }

  // The happenings of what was drawn: of a column, those of its kinds that are shown, and are marks as it is.
  numbersIn(one) {
    if (one.size === 1) return [one.number];
    const { told, hidden } = this.page;
    const { kind } = told.happenings;
    return one.lane.numbers.slice(one.from, one.to + 1).filter((number) => !hidden.has(kind[number]) && !this.isBar(number));
  }
}
