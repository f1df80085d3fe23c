/**
 * The parts of ssh2 that we use. It has no types of its own, and those in the registry bring a second version of Node's
 * types.
 */
declare module 'ssh2' {
  import type { EventEmitter } from 'node:events'
  import type { Duplex, Writable } from 'node:stream'

  export interface ParsedKey {
    readonly type: string
    getPublicSSH(): Buffer
    getPublicPEM(): string
    isPrivateKey(): boolean
    verify(data: Buffer, signature: Buffer, hash?: string): boolean | Error
  }

  export interface AuthContext {
    readonly method: string
    readonly username: string
    accept(): void
    reject(methodsLeft?: string[]): void
  }

  export interface PublicKeyContext extends AuthContext {
    readonly method: 'publickey'
    readonly key: { readonly algo: string; readonly data: Buffer }
    readonly hashAlgo: string | undefined
    /** Absent while the client only asks whether the key would be accepted. */
    readonly signature: Buffer | undefined
    readonly blob: Buffer | undefined
  }

  /** `write` never calls back when the channel closes in the meantime. */
  export interface ServerChannel extends Duplex {
    readonly stderr: Writable
    readonly incoming: { readonly window: number }
    readonly outgoing: { readonly state: 'open' | 'eof' | 'closing' | 'closed' }
    _chunk: unknown
    _chunkcb: unknown
    _chunkErr: unknown
    _chunkcbErr: unknown
    eof(): void
    close(): void
    exit(status: number): void
    exit(signal: string, coreDumped: boolean, message: string): void
  }

  type Reply = (() => void) | undefined

  export interface PtyInfo {
    readonly cols: number
    readonly rows: number
    readonly term: string
  }

  export interface ServerSession extends EventEmitter {
    on(
      event: 'env',
      listener: (accept: Reply, reject: Reply, info: { key: string; val: string }) => void,
    ): this
    on(event: 'pty', listener: (accept: Reply, reject: Reply, info: PtyInfo) => void): this
    on(
      event: 'window-change',
      listener: (accept: Reply, reject: Reply, info: Pick<PtyInfo, 'cols' | 'rows'>) => void,
    ): this
    on(event: 'signal', listener: (accept: Reply, reject: Reply, info: { name: string }) => void): this
    on(event: 'shell', listener: (accept: () => ServerChannel, reject: Reply) => void): this
    on(
      event: 'exec',
      listener: (accept: () => ServerChannel, reject: Reply, info: { command: string }) => void,
    ): this
    on(
      event: 'subsystem',
      listener: (accept: () => ServerChannel, reject: Reply, info: { name: string }) => void,
    ): this
    on(event: 'close', listener: () => void): this
  }

  export interface TcpipInfo {
    readonly destIP: string
    readonly destPort: number
  }

  export interface Connection extends EventEmitter {
    readonly _protocol: { channelOpenFail(recipient: number, reason: number, description?: string): void }
    on(event: 'authentication', listener: (context: AuthContext) => void): this
    on(event: 'ready' | 'close' | 'end', listener: () => void): this
    on(event: 'error', listener: (error: Error) => void): this
    on(event: 'session', listener: (accept: () => ServerSession, reject: () => void) => void): this
    on(
      event: 'tcpip',
      listener: (accept: () => ServerChannel, reject: () => void, info: TcpipInfo) => void,
    ): this
    end(): this
  }

  export interface ServerOptions {
    readonly hostKeys: readonly string[]
    readonly ident: string
    readonly algorithms: {
      readonly kex: readonly string[]
      readonly cipher: readonly string[]
      readonly hmac: readonly string[]
      readonly compress: readonly string[]
    }
    readonly keepaliveInterval: number
    readonly keepaliveCountMax: number
  }

  export interface PasswordContext extends AuthContext {
    readonly method: 'password'
    readonly password: string
  }

  export interface ClientChannel extends Duplex {
    readonly stderr: Duplex | undefined
    setWindow(rows: number, cols: number, height: number, width: number): void
    signal(name: string): void
    close(): void
  }

  type OpenedChannel = (error: Error | undefined, channel: ClientChannel) => void

  export interface SshClient extends EventEmitter {
    connect(options: {
      readonly host: string
      readonly port: number
      readonly username: string
      readonly password: string
      readonly hostHash: 'sha256'
      readonly hostVerifier: (hash: string) => boolean
      readonly readyTimeout: number
      readonly algorithms: ServerOptions['algorithms']
      readonly keepaliveInterval: number
      readonly keepaliveCountMax: number
    }): void
    exec(
      command: string,
      options: { env: Readonly<Record<string, string>>; pty?: PtyInfo },
      done: OpenedChannel,
    ): void
    shell(pty: PtyInfo | false, options: { env: Readonly<Record<string, string>> }, done: OpenedChannel): void
    subsys(name: string, done: OpenedChannel): void
    forwardOut(from: string, fromPort: number, to: string, toPort: number, done: OpenedChannel): void
    end(): void
  }

  interface Exports {
    readonly Client: new () => SshClient
    readonly Server: new (
      options: ServerOptions,
      onConnection: (connection: Connection) => void,
    ) => {
      injectSocket(socket: Duplex): void
    }
    readonly utils: {
      parseKey(data: string | Buffer): ParsedKey | ParsedKey[] | Error
      generateKeyPairSync(type: 'ed25519'): { private: string; public: string }
    }
  }
  const exports: Exports
  export default exports
}
