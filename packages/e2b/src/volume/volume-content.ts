import { randomBytes } from 'node:crypto'
import type { Backend, BackendSandbox, Caller, Key } from '../backend.ts'
import { isSame } from '../envd/signature.ts'
import { ApiError } from '../http/api-error.ts'

const KIND = 'volume-token'
/** Where the sandbox of a volume mounts it. */
export const MOUNT = '/volume'

interface Token {
  readonly token: string
  readonly isAdmin: boolean
}

/**
 * Access to the files of volumes. Dormouse reaches files only inside sandboxes, so a volume gets one of its own when its
 * files are first asked for. It sleeps between requests and is deleted with the volume, or after an hour without use.
 */
export class VolumeContent {
  readonly #backend: Backend
  readonly #sandboxes = new Map<string, Promise<BackendSandbox>>()

  constructor(backend: Backend) {
    this.#backend = backend
  }

  /** The token of a volume. It names the key and the volume, and stays the same. */
  tokenFor(volume: string, { keyId, isAdmin }: Key): string {
    const { items } = this.#backend
    const ref = { kind: KIND, owner: keyId, name: volume }
    const known = items.find(ref) as Token | undefined
    if (known !== undefined) return known.token
    const random = randomBytes(32).toString('base64url')
    const token = `${Buffer.from(JSON.stringify([keyId, volume])).toString('base64url')}.${random}`
    items.put(ref, { token, isAdmin })
    return token
  }

  /** The owner of the volume that the token opens. Throws `ApiError` 401. */
  ownerOf(volume: string, token: string): Caller {
    try {
      const [owner, name] = JSON.parse(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString())
      const known = this.#backend.items.find({ kind: KIND, owner, name }) as Token | undefined
      if (name === volume && known !== undefined && isSame(known.token, token))
        return { keyId: owner, isAdmin: known.isAdmin }
    } catch {
      // It is no token.
    }
    throw new ApiError(401, 'the token does not open this volume')
  }

  /** A sandbox that has the volume at `MOUNT`. */
  async open(volume: string, caller: Caller): Promise<BackendSandbox> {
    const id = `${caller.keyId}/${volume}`
    const opened = this.#sandboxes.get(id)
    if (opened !== undefined) {
      const sandbox = await opened
      if (this.#exists(sandbox.id, caller)) return sandbox
    }
    const creating = this.#create(volume, caller)
    this.#sandboxes.set(id, creating)
    creating.catch(() => this.#sandboxes.delete(id))
    return creating
  }

  /** Deletes the sandbox and the token of a volume, so that the volume can be deleted. */
  async release(volume: string, { keyId }: Caller): Promise<void> {
    const id = `${keyId}/${volume}`
    const sandbox = await this.#sandboxes.get(id)?.catch(() => undefined)
    this.#sandboxes.delete(id)
    await sandbox?.delete()
    this.#backend.items.delete({ kind: KIND, owner: keyId, name: volume })
  }

  #exists(id: string, caller: Caller): boolean {
    try {
      this.#backend.sandboxes.get(id, caller)
      return true
    } catch {
      return false
    }
  }

  async #create(volume: string, caller: Caller): Promise<BackendSandbox> {
    const { sandboxes, policyDefaults, defaultLimits } = this.#backend
    const { sandbox } = await sandboxes.create(
      {
        ...policyDefaults,
        template: 'python',
        name: undefined,
        env: {},
        metadata: { 'dormouse/purpose': 'files of a volume' },
        limits: defaultLimits(caller),
        volumes: [{ volume, path: MOUNT, readOnly: false }],
        secrets: [],
        network: { mode: 'none', allow: [] },
        expires: undefined,
        wakeOnTimer: false,
        atMemoryLimit: 'kill',
        checkpointEveryMs: 0,
        // Only these mount volumes.
        isolation: 'process',
        ephemeral: true,
      },
      caller,
    )
    return sandbox
  }
}
