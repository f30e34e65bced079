// Addresses: what stands behind the #, and the ids in it.

const NUMBER = /^-?\d+$/;
const IDS = ["item", "sample"];

/** Write an id so that a number and a text that looks like one stay apart: 3 and "3". */
function written(id) {
  return typeof id === "string" && (NUMBER.test(id) || id.startsWith('"')) ? JSON.stringify(id) : String(id);
}

/** Read an id that `written` wrote; what somebody typed is taken as it is. */
export function idFrom(text) {
  if (NUMBER.test(text)) return Number(text);
  try {
    return text.startsWith('"') ? String(JSON.parse(text)) : text;
  } catch {
    return text;
  }
}

export function itemAddress(id) {
  return `#/item/${encodeURIComponent(written(id))}`;
}

export function searchAddress(asked) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(asked)) {
    for (const one of [value].flat()) parameters.append(name, IDS.includes(name) ? written(one) : one);
  }
  return `#/search?${parameters}`;
}
