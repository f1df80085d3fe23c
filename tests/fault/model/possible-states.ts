/** The tokens that a sandbox holds. Order does not matter: calls that run at once may come in any order. */
type Tokens = ReadonlySet<string>

/**
 * What a sandbox may hold, as far as a client can know. A call that was acknowledged changes every possibility; one
 * whose answer was lost leaves both: done, and not done.
 */
export class PossibleStates {
  readonly #states: ReadonlyMap<string, Tokens>

  private constructor(states: Iterable<Tokens>) {
    this.#states = new Map([...states].map((tokens) => [keyOf(tokens), tokens]))
  }

  static exactly(tokens: Iterable<string>): PossibleStates {
    return new PossibleStates([new Set(tokens)])
  }

  /** Every possibility holds this token now. */
  with(token: string): PossibleStates {
    return new PossibleStates([...this.#states.values()].map((tokens) => new Set([...tokens, token])))
  }

  /** Every possibility may hold each of these tokens, or not. */
  maybeWith(tokens: readonly string[]): PossibleStates {
    return tokens.reduce<PossibleStates>((states, token) => states.or(states.with(token)), this)
  }

  or(other: PossibleStates): PossibleStates {
    return new PossibleStates([...this.#states.values(), ...other.#states.values()])
  }

  /** What is left once this was seen; undefined when it cannot be. */
  seen(tokens: readonly string[]): PossibleStates | undefined {
    const isPossible = new Set(tokens).size === tokens.length && this.#states.has(keyOf(new Set(tokens)))
    return isPossible ? PossibleStates.exactly(tokens) : undefined
  }

  toString(): string {
    return [...this.#states.keys()].map((key) => `{${key}}`).join(' or ')
  }
}

function keyOf(tokens: Tokens): string {
  return [...tokens].sort().join(' ')
}
