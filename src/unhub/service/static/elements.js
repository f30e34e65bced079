// Elements: make parts of the page. What comes from data becomes text nodes and attributes, never markup.

const SVG = "http://www.w3.org/2000/svg";
const GLYPH = /^[\p{Extended_Pictographic}\p{Emoji_Component}\u20e3\u{e0020}-\u{e007f}]+$/u;
const PICTURED = /\p{Extended_Pictographic}|\p{Regional_Indicator}|\u20e3/u;

/** Make an element: `on` holds listeners, other attributes are set as they are; null and false leave one out. */
export function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** Make an element of a drawing. */
export function drawn(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) made.addEventListener(event, listener);
    } else if (value !== null && value !== undefined && value !== false) {
      made.setAttribute(name, value === true ? "" : String(value));
    }
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

/** Text of others: kept apart, so that marks of direction in it cannot turn the words around it. */
export function said(text, attributes = {}) {
  return element("bdi", attributes, String(text));
}

/** Tell whether an id is an emoji, which is its own picture. */
export function isGlyph(id) {
  return typeof id === "string" && GLYPH.test(id) && PICTURED.test(id);
}

/** What an item is called: its text, or its id. */
export function nameOf(item) {
  return item.text ?? String(item.id);
}

const whole = new Intl.NumberFormat("en");

export function count(number) {
  return whole.format(number);
}

/** A number with few digits; the sign of minus is a minus. */
export function short(number, digits = 3) {
  const fixed = Number(number).toFixed(digits);
  return (Number(fixed) === 0 ? (0).toFixed(digits) : fixed).replace("-", "\u2212");
}

export function share(part) {
  return `${(100 * part).toFixed(1)}%`;
}

/** "1 item", "2 items". */
export function several(number, one, more = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : more}`;
}

/** A time of the service, in seconds, as the reader's clock has it. */
export function clock(seconds) {
  return new Date(1000 * seconds).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
}
