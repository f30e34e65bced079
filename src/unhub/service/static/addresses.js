// Addresses: what stands behind the #, and the ids in it.

export function itemAddress(id) {
  return `#/item/${encodeURIComponent(id)}`;
}

export function searchAddress(asked) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(asked)) {
    for (const one of [value].flat()) parameters.append(name, one);
  }
  return `#/search?${parameters}`;
}

/** Return an id as the items have it: an address holds text only. */
export function idFrom(text, about) {
  return about.ids === "integers" && /^-?\d+$/.test(text) ? Number(text) : text;
}
