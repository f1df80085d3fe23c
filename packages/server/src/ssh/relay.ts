import ssh2, {
  type ClientChannel,
  type Connection,
  type PtyInfo,
  type ServerChannel,
  type ServerSession,
  type SshClient,
} from 'ssh2'
import { ALGORITHMS } from './algorithms.ts'
import { CHANNELS_MAX, KEEP_ALIVE_COUNT, KEEP_ALIVE_MS } from './limits.ts'

/** The SSH server of another host of the cluster. */
export interface RelayTarget {
  readonly host: string
  readonly port: number
  /** SHA-256 of its host key, in hex: the host has said so in its record. */
  readonly fingerprint: string
  readonly sandboxId: string
  /** Proves that a host of the cluster asks, and for which key. */
  readonly token: string
}

/** The user name and password of a connection that a host of the cluster makes for a client. */
export const HOP_USER_PREFIX = 'hop+'
const CONNECT_MS = 5_000
const FAILED = 255

/** Passes the channels of a client on to the host of its sandbox, over one connection. */
export class SshRelay {
  readonly #upstream: Promise<SshClient>
  #channels = 0

  constructor(client: Connection, target: RelayTarget) {
    this.#upstream = connect(target)
    // Each channel that needs it hears of the failure.
    this.#upstream.catch(() => {})
    const end = () =>
      void this.#upstream.then(
        (upstream) => upstream.end(),
        () => {},
      )
    client.on('close', end)
    void this.#upstream.then(
      (upstream) => upstream.on('close', () => client.end()),
      () => {},
    )
    client.on('session', (accept, reject) => {
      if (this.#channels >= CHANNELS_MAX) return reject()
      this.#channels += 1
      const session = accept()
      session.on('close', () => {
        this.#channels -= 1
      })
      this.#relaySession(session)
    })
    client.on('tcpip', (accept, reject, { destIP, destPort }) => {
      void this.#upstream
        .then((upstream) => opened((done) => upstream.forwardOut('127.0.0.1', 0, destIP, destPort, done)))
        .then((channel) => join(accept(), channel), reject)
    })
  }

  #relaySession(session: ServerSession): void {
    let pty: PtyInfo | undefined
    let channel: ClientChannel | undefined
    const env: Record<string, string> = {}
    const serve = (accept: () => ServerChannel, open: (upstream: SshClient, done: Done) => void) => {
      const down = accept()
      down.on('error', () => {})
      this.#upstream
        .then((upstream) => opened((done) => open(upstream, done)))
        .then(
          (up) => {
            channel = up
            join(down, up)
          },
          (error: Error) => {
            down.stderr.write(`dormouse: The host of the sandbox does not answer: ${error.message}\r\n`)
            down.exit(FAILED)
            down.end()
          },
        )
    }
    session.on('env', (take, _reject, { key, val }) => {
      env[key] = val
      take?.()
    })
    session.on('pty', (take, _reject, info) => {
      pty = info
      take?.()
    })
    session.on('window-change', (_take, _reject, { rows, cols }) => {
      if (pty !== undefined) pty = { ...pty, rows, cols }
      channel?.setWindow(rows, cols, 0, 0)
    })
    session.on('signal', (_take, _reject, { name }) => channel?.signal(name))
    session.on('shell', (accept) => serve(accept, (up, done) => up.shell(pty ?? false, { env }, done)))
    session.on('exec', (accept, _reject, { command }) =>
      serve(accept, (up, done) => up.exec(command, { env, ...(pty && { pty }) }, done)),
    )
    session.on('subsystem', (accept, _reject, { name }) => serve(accept, (up, done) => up.subsys(name, done)))
  }
}

type Done = (error: Error | undefined, channel: ClientChannel) => void

function opened(open: (done: Done) => void): Promise<ClientChannel> {
  return new Promise((resolve, reject) =>
    open((error, channel) => (error === undefined ? resolve(channel) : reject(error))),
  )
}

function join(down: ServerChannel, up: ClientChannel): void {
  up.on('error', () => down.close())
  down.on('error', () => up.close())
  down.pipe(up)
  up.pipe(down, { end: false })
  up.stderr?.pipe(down.stderr, { end: false })
  up.on('exit', (status: number | null, signal?: string) => {
    if (signal !== undefined) down.exit(signal.replace(/^SIG/, ''), false, '')
    else down.exit(status ?? FAILED)
  })
  up.on('close', () => {
    // Discards what the client still sends; unread data would keep the channel open.
    down.resume()
    down.end()
  })
  down.on('close', () => up.close())
}

function connect({ host, port, fingerprint, sandboxId, token }: RelayTarget): Promise<SshClient> {
  return new Promise((resolve, reject) => {
    const client = new ssh2.Client()
    client.on('ready', () => resolve(client))
    client.on('error', reject)
    client.connect({
      ...{ host, port, algorithms: ALGORITHMS, readyTimeout: CONNECT_MS },
      ...{ keepaliveInterval: KEEP_ALIVE_MS, keepaliveCountMax: KEEP_ALIVE_COUNT },
      ...{ username: HOP_USER_PREFIX + sandboxId, password: token },
      hostHash: 'sha256',
      hostVerifier: (hash: string) => hash === fingerprint,
    })
  })
}
