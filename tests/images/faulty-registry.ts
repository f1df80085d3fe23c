import { writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { Registry } from './registry.ts'

/** What happens to the blobs of a registry on their way. */
export interface Fault {
  /** Cuts the connection after this many bytes of every blob that is larger. */
  readonly cutAfterBytes?: number
  /** Cuts one connection only. */
  readonly cutsOnce?: boolean
  /** Sends this many bytes of every blob that is larger, and then nothing. */
  readonly stallAfterBytes?: number
  /** Sends the client elsewhere for every blob. */
  readonly redirectTo?: string
  /** Cuts every connection. */
  readonly isDead?: boolean
  /** Changes the last byte of every blob that has at least this many. */
  readonly damageFromBytes?: number
}

/** A door to a real registry that breaks as told, and counts the blobs that passed whole. */
export class FaultyRegistry implements AsyncDisposable {
  fault: Fault = {}
  /** Digests of blobs in the order in which they were sent. */
  readonly sent: string[] = []
  /** How many blobs have stalled. */
  stalled = 0
  /** What clients sent as a login. */
  readonly authorizations = new Set<string>()
  /** Bytes of blobs that were sent. */
  sentBytes = 0
  readonly #stalled = new Set<ServerResponse>()
  readonly #registry: Registry
  readonly #server: Server

  private constructor(registry: Registry) {
    this.#registry = registry
    this.#server = createServer((incoming, outgoing) => this.#pass(incoming, outgoing))
  }

  static async open(registry: Registry): Promise<FaultyRegistry> {
    const faulty = new FaultyRegistry(registry)
    await new Promise<void>((resolve) => faulty.#server.listen(0, '127.0.0.1', resolve))
    return faulty
  }

  /** A registries.conf that lists these as registries without TLS, in the directory of the real one. */
  static conf(registry: Registry, doors: readonly FaultyRegistry[]): string {
    const path = join(registry.directory, 'doors.conf')
    const listed = doors.map(({ host }) => `[[registry]]\nlocation = "${host}"\ninsecure = true\n`)
    writeFileSync(path, listed.join('\n'))
    return path
  }

  get host(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** Dies: cuts what has stalled, and answers no more. */
  die(): void {
    this.fault = { isDead: true }
    for (const outgoing of this.#stalled) outgoing.destroy()
    this.#stalled.clear()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  #pass(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const { method, url: path = '/', headers } = incoming
    if (headers.authorization !== undefined) this.authorizations.add(headers.authorization)
    if (this.fault.isDead === true) {
      outgoing.destroy()
      return
    }
    const digest = /\/blobs\/(sha256:[0-9a-f]{64})/.exec(path)?.[1]
    const isBlob = digest !== undefined && method === 'GET'
    if (isBlob && this.fault.redirectTo !== undefined) {
      outgoing.writeHead(307, { location: this.fault.redirectTo }).end()
      return
    }
    // skopeo continues where it was cut off, if it may.
    if (isBlob && this.fault.cutAfterBytes !== undefined && headers.range !== undefined) {
      outgoing.destroy()
      return
    }
    const { port } = this.#registry
    const forwarded = request({ host: '127.0.0.1', port, method, path, headers, agent: false }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers)
      void this.#copy(answer, outgoing, isBlob ? digest : undefined)
    })
    forwarded.on('error', () => outgoing.destroy())
    incoming.pipe(forwarded)
  }

  async #copy(answer: IncomingMessage, outgoing: ServerResponse, digest: string | undefined): Promise<void> {
    const size = Number(answer.headers['content-length'] ?? 0)
    const { cutAfterBytes, stallAfterBytes, damageFromBytes } = digest === undefined ? {} : this.fault
    let passed = 0
    for await (const chunk of answer as AsyncIterable<Buffer>) {
      passed += chunk.length
      if (cutAfterBytes !== undefined && passed > cutAfterBytes) {
        if (this.fault.cutsOnce === true) this.fault = {}
        outgoing.write(chunk.subarray(0, chunk.length - (passed - cutAfterBytes)))
        outgoing.destroy()
        answer.destroy()
        return
      }
      if (stallAfterBytes !== undefined && passed > stallAfterBytes) {
        this.stalled += 1
        this.#stalled.add(outgoing)
        answer.destroy()
        return
      }
      if (damageFromBytes !== undefined && size >= damageFromBytes && passed === size)
        chunk[chunk.length - 1] = (chunk[chunk.length - 1] ?? 0) ^ 1
      outgoing.write(chunk)
      if (digest !== undefined) this.sentBytes += chunk.length
    }
    outgoing.end()
    if (digest !== undefined) this.sent.push(digest)
  }
}
