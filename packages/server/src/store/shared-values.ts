/** Longer texts are rarely the same. */
const TEXT_MAX_CHARACTERS = 256
const VALUES_MAX = 1_000

/** Gives rows with the same text the same value, so that ten thousand of them do not have ten thousand copies. */
export class SharedValues {
  readonly #parsed = new Map<string, unknown>()
  readonly #texts = new Map<string, string>()

  /** The value of a JSON text. It cannot be changed. */
  parse(text: string): unknown {
    return share(this.#parsed, text, () => deepFreeze(JSON.parse(text)))
  }

  text(text: string): string {
    return share(this.#texts, text, () => text)
  }
}

function share<Value>(known: Map<string, Value>, text: string, make: () => Value): Value {
  const found = known.get(text)
  if (found !== undefined) return found
  const value = make()
  if (text.length > TEXT_MAX_CHARACTERS) return value
  if (known.size >= VALUES_MAX) known.clear()
  known.set(text, value)
  return value
}

function deepFreeze(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  for (const part of Object.values(value)) deepFreeze(part)
  return Object.freeze(value)
}
