import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ServerProcess } from '../server/server-process.ts'

// biome-ignore lint/suspicious/noExplicitAny: tests compare answers, they do not build on them
type Json = any

const program = readFileSync(join(import.meta.dirname, 'counter.py'), 'utf8')
/** How the test program starts, without any file of its own. */
export const START = `exec python3 -c "$PROGRAM"`

const DEADLINE_MS = 90_000

/** A real server, and services on it. */
export class ServiceServer {
  readonly server: ServerProcess

  constructor(server: ServerProcess) {
    this.server = server
  }

  /** Deploys the test program and waits until the version is ready. */
  async deploy(name: string, request: Json = {}): Promise<Json> {
    const { version } = await this.begin(name, request)
    return this.settled(name, version)
  }

  async begin(name: string, { env, ...request }: Json = {}): Promise<{ version: number }> {
    const begun = await this.server.ok(`/v1/services/${name}`, {
      method: 'PUT',
      json: { port: 3000, start: START, env: { PROGRAM: program, ...env }, ...request },
    })
    return { version: begun.versions[0].version }
  }

  /** The service when a version is ready or has failed. */
  async settled(name: string, version: number): Promise<Json> {
    return this.until(name, (service) => {
      const found = service.versions.find((other: Json) => other.version === version)
      return found.state === 'ready' || found.state === 'failed'
    })
  }

  async until(name: string, holds: (service: Json) => boolean): Promise<Json> {
    const deadline = Date.now() + DEADLINE_MS
    for (;;) {
      const service = await this.server.ok(`/v1/services/${name}`)
      if (holds(service)) return service
      if (Date.now() > deadline) throw new Error(`it never came so far: ${JSON.stringify(service)}`)
      await sleep(50)
    }
  }

  async ask(name: string, path = '/', options: Parameters<ServerProcess['fetch']>[1] = {}): Promise<Json> {
    return this.server.ok(`/v1/services/${name}/http${path}`, options)
  }

  async logs(name: string, query = ''): Promise<Json[]> {
    const response = await this.server.fetch(`/v1/services/${name}/logs${query}`)
    const lines = (await response.text()).split('\n').filter((line) => line !== '')
    return lines.map((line) => JSON.parse(line))
  }

  async sandboxes(): Promise<string[]> {
    return (await this.server.ok('/v1/sandboxes')).items.map(({ id }: Json) => id)
  }
}
