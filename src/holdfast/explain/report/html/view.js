// Visible time range, and the conversion between times and canvas positions.

const SPAN_MS_MIN = 5;
const EDGE = 0.04;
const STEPS_MS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 15000, 30000, 60000, 120000, 300000, 600000, 900000, 1800000,
  3600000, 7200000, 10800000, 21600000, 43200000, 86400000, 172800000, 604800000, 2592000000, 31536000000,
  157680000000, 315360000000, 3153600000000,
];

class View {
  constructor(first, last) {
    const span = Math.max(last - first, 1000);
    this.whole = { begin: first - span * EDGE, end: first + span * (1 + EDGE) };
    this.width = 1;
    this.reset();
  }

  reset() {
    this.begin = this.whole.begin;
    this.end = this.whole.end;
  }

  get span() {
    return this.end - this.begin;
  }

  x(ms) {
    return ((ms - this.begin) / this.span) * this.width;
  }

  ms(x) {
    return this.begin + (x / this.width) * this.span;
  }

  // Keeps the time under the pointer in place.
  zoom(factor, x) {
    const whole = this.whole.end - this.whole.begin;
    const span = Math.min(Math.max(this.span * factor, SPAN_MS_MIN), whole);
    const fixed = this.ms(x);
    const begin = fixed - (x / this.width) * span;
    this.show(begin, begin + span);
  }

  move(ms) {
    this.show(this.begin + ms, this.end + ms);
  }

  // Never shows more than the whole range.
  show(begin, end) {
    const span = end - begin;
    this.begin = Math.max(this.whole.begin, Math.min(begin, this.whole.end - span));
    this.end = this.begin + span;
  }

  fitRange(first, last) {
    const margin = Math.max((last - first) * 0.12, 500);
    const whole = this.whole.end - this.whole.begin;
    const span = Math.min(last - first + 2 * margin, whole);
    this.show((first + last - span) / 2, (first + last + span) / 2);
  }

  has(ms) {
    return this.begin <= ms && ms <= this.end;
  }

  ticks() {
    const room = Math.max(3, Math.floor(this.width / 100));
    const step = STEPS_MS.find((ms) => this.span / ms <= room) || STEPS_MS[STEPS_MS.length - 1];
    const found = [];
    for (let ms = Math.ceil(this.begin / step) * step; ms <= this.end; ms += step) found.push([ms, tickLabel(ms, step)]);
    return found;
  }
}

function tickLabel(ms, step) {
  const text = formatTime(ms);
  if (step >= 86400000 || ms % 86400000 === 0) return text.slice(0, 10);
  if (step >= 60000) return text.slice(11, 16);
  return step >= 1000 ? text.slice(11, 19) : text.slice(11);
}
