import type { Socket } from 'node:net'
import type { ServerChannel } from 'ssh2'
import type { Access } from '../access/access.ts'
import type { ErrorAnswers } from '../api/error-answer.ts'
import type { Log } from '../log.ts'
import type { Sandbox, Sandboxes } from '../sandbox/service.ts'
import type { SshService } from './ssh-service.ts'

/** What every connection works with. */
export interface SshParts {
  readonly keys: Pick<SshService, 'grantsOf' | 'findConfirmation'>
  readonly access: Pick<Access, 'checkRate'>
  readonly sandboxes: Sandboxes
  readonly answers: ErrorAnswers
  readonly idleConnectionMs: number
  readonly log: Log
}

/** What a channel of one connection works with. */
export interface ChannelParts {
  readonly parts: SshParts
  readonly socket: Socket
  /** Address and port of the client, then of the server. */
  readonly addresses: readonly string[]
  /** Looked for anew for each channel. Throws `not_found`, `conflict`, `rate_limited`. */
  readonly sandbox: () => Sandbox
  /** What the client may see of a failure. What the operator has to know is in the log then. */
  readonly fail: (thrown: unknown) => { readonly message: string; readonly hint: string }
  /** So that what it holds is bounded. */
  readonly watch: (channel: ServerChannel) => void
  /** Aborted with the connection. */
  readonly closed: AbortSignal
}
