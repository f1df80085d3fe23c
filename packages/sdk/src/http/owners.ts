/** On answers that another host of the cluster gave: its address. */
const OWNER_HEADER = 'dormouse-host'
const SANDBOX = /^\/v1\/sandboxes\/([^/?]+)/
const OWNERS_MAX = 10_000
/** A host that clients cannot reach is found out before a call goes there. */
const CHECK_MS = 2_000
/** How long an address that did not answer is not used. */
const AVOID_MS = 60_000

type Fetch = typeof globalThis.fetch

/** Which host of a cluster has which sandbox, as its answers say. Calls that go straight there save a hop. */
export class Owners {
  readonly #fetch: Fetch
  readonly #owners = new Map<string, string>()
  /** Addresses that answered a check; those that did not, until when they are avoided. */
  readonly #reachable = new Set<string>()
  readonly #avoided = new Map<string, number>()

  constructor(fetch: Fetch) {
    this.#fetch = fetch
  }

  /** Undefined: the call goes to the server that the client was given. */
  find(path: string): string | undefined {
    const ref = SANDBOX.exec(path)?.[1]
    const owner = ref === undefined ? undefined : this.#owners.get(ref)
    return owner !== undefined && this.#reachable.has(owner) ? owner : undefined
  }

  /** Only from answers of the API: a program in a sandbox may send any header. `base`: what the client was given. */
  learn(path: string, { headers }: Response, base: string): void {
    const ref = SANDBOX.exec(path)?.[1]
    const owner = headers.get(OWNER_HEADER)
    if (ref === undefined || owner === null || !isUsable(owner, base)) return
    if (this.#owners.size >= OWNERS_MAX) this.#owners.clear()
    this.#owners.set(ref, owner)
    if (this.#reachable.has(owner) || (this.#avoided.get(owner) ?? 0) > Date.now()) return
    this.#avoided.set(owner, Date.now() + AVOID_MS)
    void this.#check(owner)
  }

  /** The host does not answer: calls go to the server that the client was given. */
  forget(owner: string): void {
    this.#reachable.delete(owner)
    this.#avoided.set(owner, Date.now() + AVOID_MS)
  }

  async #check(owner: string): Promise<void> {
    try {
      const signal = AbortSignal.timeout(CHECK_MS)
      const response = await this.#fetch(`${owner}/healthz`, { signal, redirect: 'error' })
      await response.body?.cancel()
      if (response.ok) this.#reachable.add(owner)
    } catch {
      // Calls continue to go to the server that the client was given.
    }
  }
}

/** A key that was given for an encrypted address is not sent in the clear. */
function isUsable(owner: string, base: string): boolean {
  return /^https?:\/\/[^\s/,]+$/.test(owner) && (owner.startsWith('https:') || !base.startsWith('https:'))
}
