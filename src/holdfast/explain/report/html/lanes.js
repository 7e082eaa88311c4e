// Draws the visible part of the lanes. Occurrences in one cell become one column. Drawn marks are kept for the pointer.

const AXIS = 26;
const LANE = 48;
const FOLDED = 18;
const CELL = 7; // width of a cell in pixels
const BAR_MIN = 3; // width in pixels below which a bar is drawn as a mark
const BAR_ROWS = 3; // rows for overlapping bars
const COUNT_MIN = 16; // counts below this never reach the full height of a column
const PARTS_MAX = 6; // kinds shown separately in one column

class Lanes {
  constructor(page) {
    this.page = page;
    this.canvas = byId('canvas');
    this.box = byId('lanes');
    this.context = this.canvas.getContext('2d');
    this.drawn = [];
    this.positions = new Map(); // positions of occurrences that were moved apart
    this.waiting = false;
    this.layOut();
  }

  // Draws once per animation frame, however many changes there are.
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
    for (const lane of this.page.answer.lanes) {
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
    drawGrid(this, ticks);
    drawRange(this);
    this.drawLanes();
    drawChosen(this);
    this.drawSelected();
    drawAxis(this, ticks);
    describeView(this);
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

  // Draws bars first: the height of columns depends on the highest one.
  drawLanes() {
    this.context.globalAlpha = this.page.chosen === null ? 1 : 0.35;
    const all = this.page.answer.lanes.filter((lane) => this.isSeen(lane)).map((lane) => [lane, this.drawLane(lane)]);
    const most = all.reduce((high, [, columns]) => columns.reduce((most, one) => Math.max(most, one.count), high), COUNT_MIN);
    for (const [lane, columns] of all) this.drawColumns(lane, columns, most);
    this.context.globalAlpha = 1;
  }

  // Draws bars and repetition lines. Returns columns of all other occurrences, and of bars for which there is no room.
  drawLane(lane) {
    const { view, answer, hidden } = this.page;
    const { begin, kind } = answer.occurrences;
    const cellMs = (view.span / view.width) * CELL;
    const columns = [];
    this.barsTo = new Array(BAR_ROWS).fill(-Infinity);
    this.linesTo = new Map();
    for (let at = lowerBound(lane.reach, view.begin); at < lane.numbers.length; at++) {
      const number = lane.numbers[at];
      if (begin[number] > view.end) break;
      if (hidden.has(kind[number])) continue;
      this.drawRepetitions(lane, number);
      if (this.isBar(number) && this.drawBar(lane, number)) continue;
      if (begin[number] >= view.begin) this.addToColumns(columns, Math.floor(begin[number] / cellMs), number);
    }
    return columns;
  }

  isBar(number) {
    const { view, answer } = this.page;
    return (answer.occurrences.end[number] - answer.occurrences.begin[number]) * view.width > BAR_MIN * view.span;
  }

  addToColumns(columns, cell, number) {
    const { count, kind } = this.page.answer.occurrences;
    let column = columns[columns.length - 1];
    if (!column || column.cell !== cell) columns.push((column = { cell, numbers: [], count: 0, parts: new Map() }));
    column.numbers.push(number);
    column.count += count[number];
    column.parts.set(kind[number], (column.parts.get(kind[number]) || 0) + count[number]);
  }

  // Draws a thin line from the first event to the last repetition, where no line of the same kind covers it yet.
  drawRepetitions(lane, number) {
    const { view, answer, colours } = this.page;
    const { begin, last, kind } = answer.occurrences;
    const left = Math.max(view.x(begin[number]), -1);
    const right = Math.min(view.x(last[number]), view.width + 1);
    const from = Math.max(left, this.linesTo.get(kind[number]) ?? -1);
    if (right - left < BAR_MIN || right - from < 1) return;
    this.linesTo.set(kind[number], right);
    this.context.fillStyle = colours.kinds[kind[number]];
    this.context.fillRect(from, this.middle(lane) - 1, right - from, 2);
    this.drawn.push({ numbers: [number], left: from, right, top: this.middle(lane) - 1, bottom: this.middle(lane) + 1 });
  }

  // Moves overlapping bars down so that each is visible. Returns false if there are too many.
  drawBar(lane, number) {
    const { view, answer, colours } = this.page;
    const { begin, end, kind } = answer.occurrences;
    const left = Math.max(view.x(begin[number]), -4);
    const right = Math.min(view.x(end[number]), view.width + 4);
    const row = this.barsTo.findIndex((to) => to <= left);
    if (row < 0) return false;
    this.barsTo[row] = right;
    const height = lane.folded ? 10 : 13;
    const top = this.middle(lane) - height / 2 + (lane.folded ? 0 : row * 5);
    this.context.fillStyle = colours.kinds[kind[number]];
    this.context.fillRect(left, top, right - left, height);
    this.setEdgeStyle();
    this.context.strokeRect(left, top, right - left, height);
    this.drawn.push({ numbers: [number], left, right, top, bottom: top + height });
    return true;
  }

  // A border keeps marks visible on others of the same colour.
  setEdgeStyle() {
    this.context.strokeStyle = this.page.colours.surface;
    this.context.lineWidth = 1;
  }

  drawColumns(lane, columns, most) {
    let free = 0; // where the next count may be drawn
    const bottom = this.middle(lane) + (lane.folded ? 6 : 9);
    for (const column of columns) {
      const [first] = column.numbers;
      const x = this.page.view.x(this.page.answer.occurrences.begin[first]);
      const isMark = column.numbers.length === 1;
      const height = isMark ? 13 : 8 + (lane.folded ? 4 : 18) * Math.sqrt(column.count / most);
      if (isMark) this.drawMark(lane, first, x);
      else this.drawStack(column, x, bottom, height);
      this.drawn.push({ numbers: column.numbers, left: x - 4, right: x + 4, top: bottom - height, bottom });
      if (column.count > 1 && !lane.folded) free = this.drawCount(lane, column, x, free);
    }
  }

  drawMark(lane, number, x) {
    const { page } = this;
    this.context.fillStyle = page.colours.kinds[page.answer.occurrences.kind[number]];
    this.drawDisc(x, this.middle(lane), lane.folded ? 3.5 : 4.5);
    this.setEdgeStyle();
    this.context.stroke();
  }

  drawDisc(x, y, radius) {
    this.context.beginPath();
    this.context.arc(x, y, radius, 0, 2 * Math.PI);
    this.context.fill();
  }

  drawStack(column, x, bottom, height) {
    const { context, page } = this;
    let from = bottom;
    const parts = [...column.parts].sort((one, other) => other[1] - one[1]).slice(0, PARTS_MAX);
    const sum = parts.reduce((total, part) => total + part[1], 0);
    for (const [kind, count] of parts) {
      const part = (height * count) / sum;
      context.fillStyle = page.colours.kinds[kind];
      context.fillRect(x - 2.5, from - part, 5, part);
      from -= part;
    }
  }

  drawCount(lane, column, x, free) {
    const { context, page } = this;
    const label = abbreviate(column.count);
    const width = context.measureText(label).width;
    if (x - width / 2 < free) return free;
    context.fillStyle = page.colours.quiet;
    context.textAlign = 'center';
    context.textBaseline = 'top';
    context.fillText(label, x, this.top(lane) + 2);
    return x + width / 2 + 5;
  }

  drawSelected() {
    const { page, context } = this;
    if (page.selected < 0) return;
    const { x, y } = positionOf(this, page.selected);
    context.fillStyle = page.colours.kinds[page.answer.occurrences.kind[page.selected]];
    this.drawDisc(x, y, 4.5);
    context.strokeStyle = page.colours.text;
    context.lineWidth = 2;
    context.beginPath();
    context.arc(x, y, 8, 0, 2 * Math.PI);
    context.stroke();
  }

  // Returns the drawn mark nearest to the pointer; of overlapping marks, the topmost.
  markAt(x, y) {
    let best = null;
    for (const one of this.drawn) {
      const away = Math.max(one.left - x, x - one.right, 0) + Math.max(one.top - y, y - one.bottom, 0);
      if (away <= 5 && (best === null || away <= best.away)) best = { ...one, away };
    }
    return best;
  }
}
