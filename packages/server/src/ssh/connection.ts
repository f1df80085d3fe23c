import { setMaxListeners } from 'node:events'
import type { Socket } from 'node:net'
import { onAbort } from '@dormouse/async'
import type { AuthContext, Connection, PasswordContext, PublicKeyContext, ServerChannel } from 'ssh2'
import type { AuthenticatedKey } from '../access/access.ts'
import { isForTheOperator, toDormouseError } from '../api/error-answer.ts'
import type { SandboxHandle } from '../sandbox/sandbox-handle.ts'
import type { ChannelParts, SshCluster, SshParts } from './connection-parts.ts'
import { findSandbox } from './find-sandbox.ts'
import { forward } from './forward.ts'
import { CHANNELS_MAX, CLOSE_GRACE_MS, INCOMING_MAX_BYTES, OFFERS_MAX } from './limits.ts'
import type { LoginAttempt } from './login-limiter.ts'
import { hasSigned } from './public-key.ts'
import { HOP_USER_PREFIX, SshRelay } from './relay.ts'
import { replyToSessions } from './reply-to-sessions.ts'
import { SshSession } from './session.ts'
import { CONFIRM_PREFIX, type Confirmation, type Grant } from './ssh-service.ts'

export interface OpenConnection {
  readonly client: Connection
  readonly socket: Socket
  readonly attempt: LoginAttempt
  readonly parts: SshParts
}

/** One client. Authenticates it, then opens channels to the sandbox in its user name. */
export class SshConnection {
  readonly #client: Connection
  readonly #socket: Socket
  readonly #parts: SshParts
  readonly #closed = new AbortController()
  readonly #channels = new Set<ServerChannel>()
  readonly #channelParts: ChannelParts
  #grants: readonly Grant[] = []
  #confirmation: Confirmation | undefined
  /** The key that another host of the cluster connects for. */
  #hop: AuthenticatedKey | undefined
  #ref = ''
  #offers = 0
  #openChannels = 0
  #refusal: string | undefined
  /** Why the sandbox could not be brought here from a lost host. */
  #problem: unknown

  constructor({ client, socket, attempt, parts }: OpenConnection) {
    this.#client = client
    this.#socket = socket
    this.#parts = parts
    this.#channelParts = {
      parts,
      socket,
      addresses: [socket.remoteAddress, socket.remotePort, socket.localAddress, socket.localPort].map(String),
      sandbox: () => this.#findSandbox(),
      fail: (thrown) => this.#fail(thrown),
      watch: (channel) => this.#watch(channel),
      closed: this.#closed.signal,
    }
    // Every channel adds a listener.
    setMaxListeners(0, this.#closed.signal)
    client.on('error', () => this.end())
    client.on('close', () => this.#closed.abort())
    client.on('authentication', (context) => this.#authenticate(context))
    client.on('ready', () => {
      attempt.succeed()
      this.#begin()
    })
    // Last, because adding this listener starts the flow of data.
    socket.on('data', () => this.#boundIncoming())
    this.#nameRefusals()
  }

  /** Ends the connection in order if the client cooperates, and in any case soon. */
  end(): void {
    this.#client.end()
    this.#closed.abort()
    setTimeout(() => this.#socket.destroy(), CLOSE_GRACE_MS).unref()
  }

  #authenticate(context: AuthContext): void {
    this.#offers += 1
    if (this.#offers > OFFERS_MAX) this.end()
    else if (this.#isHop(context)) context.accept()
    else if (!this.#isProved(context)) context.reject(['publickey'])
    else if (this.#parts.cluster === undefined || this.#grants.length === 0) context.accept()
    else void this.#acceptWhenThere(context, this.#parts.cluster)
  }

  /** The sandbox may be on a host that is lost. A client that is accepted asks for it at once. */
  async #acceptWhenThere(context: AuthContext, cluster: SshCluster): Promise<void> {
    await cluster.bring(this.#ref, this.#callers).catch((error: unknown) => {
      this.#problem = error
    })
    if (!this.#closed.signal.aborted) context.accept()
  }

  /** Another host of the cluster connects for a client that has proved its key there. */
  #isHop(context: AuthContext): boolean {
    if (context.method !== 'password' || !context.username.startsWith(HOP_USER_PREFIX)) return false
    const owner = this.#parts.cluster?.verify((context as PasswordContext).password)
    if (owner === undefined) return false
    this.#hop = owner
    this.#ref = context.username.slice(HOP_USER_PREFIX.length)
    return true
  }

  /** Also true for a client that only asks whether a key would be accepted. */
  #isProved(context: AuthContext): boolean {
    if (!isPublicKey(context)) return false
    const { key, signature, blob, hashAlgo } = context
    const { keys } = this.#parts
    const isConfirming = context.username.startsWith(CONFIRM_PREFIX)
    const confirmation = isConfirming ? keys.findConfirmation(key.data, context.username) : undefined
    const grants = isConfirming ? [] : keys.grantsOf(key.data)
    const known = confirmation?.key ?? grants[0]?.key
    if (known === undefined || known.type !== key.algo) return false
    if (signature === undefined) return true
    if (blob === undefined || !hasSigned(known, { data: blob, signature, hash: hashAlgo })) return false
    this.#confirmation = confirmation
    this.#grants = grants
    this.#ref = context.username
    return true
  }

  #begin(): void {
    const { log } = this.#parts
    if (this.#confirmation !== undefined) {
      this.#confirm(this.#confirmation)
      return
    }
    if (this.#hop !== undefined) {
      this.#endWith(this.#hop.revoked)
      this.#serve()
      return
    }
    const [grant] = this.#grants
    // Without a signature there is no grant: the connection ends, whatever ssh2 makes of an accepted question.
    if (grant === undefined) {
      this.end()
      return
    }
    const address = this.#socket.remoteAddress
    log.info({ address, keyId: grant.owner.keyId, sshKey: grant.name, sandbox: this.#ref }, 'ssh connected')
    for (const { owner, deleted } of this.#grants) {
      // A client with other valid grants can connect again.
      for (const signal of [owner.revoked, deleted]) this.#endWith(signal)
    }
    const elsewhere = this.#parts.cluster?.find(this.#ref, this.#callers)
    if (elsewhere === undefined) this.#serve()
    else new SshRelay(this.#client, elsewhere)
  }

  get #callers(): AuthenticatedKey[] {
    return this.#hop === undefined ? this.#grants.map(({ owner }) => owner) : [this.#hop]
  }

  #serve(): void {
    this.#client.on('session', (accept, reject) => {
      if (!this.#takeChannel(reject)) return
      const session = accept()
      session.on('close', () => this.#leaveChannel())
      new SshSession(session, this.#channelParts)
    })
    this.#client.on('tcpip', (accept, reject, info) => {
      if (!this.#takeChannel(reject)) return
      void forward(this.#channelParts, {
        info,
        accept: () => {
          const channel = accept()
          channel.once('close', () => this.#leaveChannel())
          return channel
        },
        refuse: (reason) => {
          this.#leaveChannel()
          this.#refuse(reject, reason)
        },
      })
    })
  }

  /** The handshake proved it: the signature covers this connection only, so it cannot be copied from another one. */
  #confirm({ name, owner, confirm }: Confirmation): void {
    const isConfirmed = confirm()
    this.#parts.log.info({ keyId: owner.keyId, sshKey: name, isConfirmed }, 'ssh key confirmed by its holder')
    replyToSessions(
      this.#client,
      isConfirmed
        ? `The SSH key "${name}" of the API key ${owner.keyId} is confirmed. Connect as <sandbox>@host from now on.`
        : `dormouse: The SSH key "${name}" was deleted.`,
      isConfirmed ? 0 : 1,
    )
  }

  /** Ends the connection when its key is revoked or deleted. */
  #endWith(signal: AbortSignal): void {
    const listener = onAbort(signal, () => this.end())
    onAbort(this.#closed.signal, () => listener[Symbol.dispose]())
  }

  #takeChannel(reject: () => void): boolean {
    if (this.#openChannels >= CHANNELS_MAX) {
      this.#refuse(reject, 'too many channels are open')
      return false
    }
    this.#openChannels += 1
    return true
  }

  #leaveChannel(): void {
    this.#openChannels -= 1
  }

  /** Searches the sandboxes of all API keys that registered this public key. */
  #findSandbox(): SandboxHandle {
    if (this.#problem !== undefined) throw this.#problem
    const { sandboxes, cluster } = this.#parts
    const elsewhere = cluster && ((ref: string, by: AuthenticatedKey) => cluster.beginningWith(ref, by))
    const { sandbox, caller } = findSandbox(sandboxes, this.#ref, this.#callers, elsewhere)
    this.#parts.access.checkRate(caller)
    return sandbox
  }

  #fail(thrown: unknown): { message: string; hint: string } {
    const error = toDormouseError(thrown)
    // The sandbox went to sleep. That is no failure; connections are not part of a snapshot.
    if (error.code === 'agent_unreachable')
      return { message: 'The sandbox went to sleep.', hint: 'Connect again to wake it.' }
    if (isForTheOperator(error))
      this.#parts.log.error({ sandbox: this.#ref, err: thrown }, 'an SSH channel failed')
    return this.#parts.answers.body(error, '').error
  }

  #watch(channel: ServerChannel): void {
    this.#channels.add(channel)
    channel.once('close', () => this.#channels.delete(channel))
  }

  /** ssh2 accepts more than the window allows. Without this check a client could fill our memory. */
  #boundIncoming(): void {
    for (const channel of this.#channels)
      if (channel.readableLength > INCOMING_MAX_BYTES) this.#socket.destroy()
  }

  #refuse(reject: () => void, reason: string): void {
    this.#refusal = reason
    reject()
    this.#refusal = undefined
  }

  /** ssh2 refuses channels without a reason. Clients show the reason if there is one. */
  #nameRefusals(): void {
    const protocol = this.#client._protocol
    const refuse = protocol.channelOpenFail.bind(protocol)
    protocol.channelOpenFail = (recipient, reason, description) =>
      refuse(recipient, reason, this.#refusal ?? description ?? '')
  }
}

function isPublicKey(context: AuthContext): context is PublicKeyContext {
  return context.method === 'publickey'
}
