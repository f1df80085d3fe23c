import type { Socket } from 'node:net'
import type { ServerChannel } from 'ssh2'
import type { Access, AuthenticatedKey } from '../access/access.ts'
import type { ErrorAnswers } from '../api/error-answer.ts'
import type { Log } from '../log.ts'
import type { SandboxHandle } from '../sandbox/sandbox-handle.ts'
import type { SandboxCalls } from '../sandbox/sandbox-service.ts'
import type { RelayTarget } from './relay.ts'
import type { SshService } from './ssh-service.ts'

/** The dependencies of every connection. */
export interface SshParts {
  readonly keys: Pick<SshService, 'grantsOf' | 'findConfirmation'>
  readonly access: Pick<Access, 'checkRate'>
  readonly sandboxes: SandboxCalls
  readonly answers: ErrorAnswers
  readonly idleConnectionMs: number
  readonly log: Log
  /** Undefined outside a cluster. */
  readonly cluster?: SshCluster | undefined
}

/** What SSH asks of the cluster. */
export interface SshCluster {
  /** The other host that has the sandbox, for one of these callers. */
  find(ref: string, callers: readonly AuthenticatedKey[]): RelayTarget | undefined
  /** Brings a sandbox of these callers to a host that is alive when its own is lost. Rejects with `host_unavailable`. */
  bring(ref: string, callers: readonly AuthenticatedKey[]): Promise<void>
  /** Sandboxes of other hosts whose id or name begins like this. */
  beginningWith(ref: string, caller: AuthenticatedKey): readonly { id: string; name?: string | undefined }[]
  /** The key that a host of the cluster connects for. */
  verify(token: string): AuthenticatedKey | undefined
}

/** The dependencies of a channel. */
export interface ChannelParts {
  readonly parts: SshParts
  readonly socket: Socket
  /** Address and port of the client, then of the server. */
  readonly addresses: readonly string[]
  /** Looks the sandbox up for each channel. Throws `not_found`, `conflict`, `rate_limited`. */
  readonly sandbox: () => SandboxHandle
  /** Returns what the client may see of a failure, and logs what the operator must know. */
  readonly fail: (thrown: unknown) => { readonly message: string; readonly hint: string }
  /** Bounds the bytes that the channel buffers. */
  readonly watch: (channel: ServerChannel) => void
  /** Aborted with the connection. */
  readonly closed: AbortSignal
}
