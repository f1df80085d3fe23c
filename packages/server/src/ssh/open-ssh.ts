import { createHash } from 'node:crypto'
import { DormouseError } from '@dormouse/contracts'
import { errorAnswers } from '../api/error-answer.ts'
import type { ServerConfig } from '../config/config.ts'
import { openHostKey } from './host-key.ts'
import { SshServer, type SshServerOptions } from './ssh-server.ts'
import type { SshService } from './ssh-service.ts'

export interface OpenSsh extends Omit<SshServerOptions, 'keys' | 'hostKey' | 'answers' | 'idleConnectionMs'> {
  readonly config: Pick<ServerConfig, 'dataDir' | 'ssh' | 'idleConnectionMs'>
  readonly service: SshService
  readonly hostPaths: readonly string[]
}

export interface OpenedSsh extends AsyncDisposable {
  /** Where it listens. Absent when SSH is off. */
  readonly endpoint?: { readonly host: string; readonly port: number }
  /** For other hosts of the cluster: the port, and the SHA-256 of the host key in hex. */
  readonly hop?: { readonly port: number; readonly fingerprint: string }
  /** Why SSH is off although it is enabled, for people. */
  readonly problem?: string
}

/** Starts the SSH server. A failure is reported and does not stop the HTTP server. */
export async function openSsh({ config, service, hostPaths, ...parts }: OpenSsh): Promise<OpenedSsh> {
  const { enabled, host, port } = config.ssh
  const off = { [Symbol.asyncDispose]: async () => {} }
  if (!enabled) return off
  let server: SshServer | undefined
  try {
    const hostKey = openHostKey(config.dataDir)
    server = new SshServer({
      ...parts,
      hostKey,
      keys: service,
      answers: errorAnswers({ docsUrl: 'docs/errors.md', hostPaths }),
      idleConnectionMs: config.idleConnectionMs,
    })
    const got = await server.listen({ host, port })
    const { publicKey, fingerprint } = hostKey
    service.listensAt({ host, port: got, hostKey: publicKey, fingerprint })
    const opened = server
    return {
      endpoint: { host, port: got },
      hop: { port: got, fingerprint: digestOf(publicKey) },
      async [Symbol.asyncDispose]() {
        service.listensAt(undefined)
        await opened[Symbol.asyncDispose]()
      },
    }
  } catch (error) {
    await server?.[Symbol.asyncDispose]()
    parts.log.warn({ err: error }, 'SSH is off')
    return { ...off, problem: reasonOf(error, host, port) }
  }
}

export function isWildcardAddress(host: string): boolean {
  return host === '0.0.0.0' || host === '::'
}

/** Of the key as it goes over the wire, the second word of its line. */
function digestOf(publicKey: string): string {
  return createHash('sha256')
    .update(Buffer.from(publicKey.split(' ')[1] ?? '', 'base64'))
    .digest('hex')
}

function reasonOf(error: unknown, host: string, port: number): string {
  if (error instanceof DormouseError) return `${error.message}. ${error.hint}`
  const { code, message } = error as NodeJS.ErrnoException
  if (code === 'EADDRINUSE')
    return `another program uses ${host}:${port}. Choose another port with --ssh-port.`
  return `it cannot listen on ${host}:${port}: ${code ?? message}`
}
