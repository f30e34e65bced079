// Service: call the API. An error is an Error whose message is a sentence to show.

const TOKEN = "unhub-token"; // kept for this tab only

export class ServiceError extends Error {
  constructor(status, { argument, problem, remedy } = {}) {
    const what = [argument, problem ?? `answered with status ${status}`].filter(Boolean).join(" ");
    super(`${sentence(what)} ${remedy ? sentence(remedy) : ""}`.trim());
    this.status = status;
  }
}

function sentence(text) {
  const trimmed = text.trim();
  const begun = trimmed.charAt(0).toUpperCase() + trimmed.slice(1);
  return /[.!?]$/.test(begun) ? begun : `${begun}.`;
}

export function token() {
  return sessionStorage.getItem(TOKEN);
}

export function keepToken(text) {
  sessionStorage.setItem(TOKEN, text);
}

function headers(more = {}) {
  return token() ? { ...more, Authorization: `Bearer ${token()}` } : more;
}

/** Return the JSON of an answer, or raise a ServiceError. `body` is JSON, or a file as it is. */
export async function call(method, path, body, signal) {
  const isFile = body instanceof Blob;
  const type = isFile ? "application/octet-stream" : "application/json";
  const sent = body === undefined ? {} : { body: isFile ? body : JSON.stringify(body) };
  const response = await answered(path, {
    method,
    signal,
    headers: headers(body === undefined ? {} : { "Content-Type": type }),
    ...sent,
  });
  const answer = await response.json().catch(() => ({}));
  signal?.throwIfAborted(); // a newer call was made meanwhile
  if (!response.ok) throw new ServiceError(response.status, answer.error);
  return answer;
}

export function get(path, signal) {
  return call("GET", path, undefined, signal);
}

async function answered(path, request) {
  try {
    return await fetch(path, request);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServiceError(0, { problem: "The service does not answer", remedy: "Is it still running?" });
  }
}

/** Return the address of a picture for `img`; where a token is needed, the picture itself, since `img` sends none. */
export async function pictureAddress(address) {
  if (!token() || !address.startsWith("/")) return address;
  const response = await answered(address, { headers: headers() });
  if (!response.ok) throw new ServiceError(response.status);
  return asData(await response.blob());
}

/** Return a file as a data address. */
export function asData(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

/** Return a function that runs the newest of its calls only: one that starts ends the one before it. */
export function newestOnly(run) {
  let current = new AbortController();
  return async (...given) => {
    current.abort();
    const mine = (current = new AbortController());
    try {
      return await run(mine.signal, ...given);
    } catch (error) {
      if (error.name === "AbortError" || mine.signal.aborted) return undefined;
      throw error;
    }
  };
}
