import { Dormouse, type DormouseOptions, Sandbox } from 'dormouse'
import { afterAll, beforeAll } from 'vitest'
import { ServerProcess } from '../server/server-process.ts'

export interface SdkServer {
  readonly process: ServerProcess
  readonly client: Dormouse
  /** Another client of the same server. */
  clientWith(options: DormouseOptions): Dormouse
  /** A sandbox that does not sleep by itself. */
  create(options?: Parameters<typeof Sandbox.create>[0]): Promise<Sandbox>
  /** The ids of all sandboxes. */
  ids(): Promise<string[]>
}

/** A real server for the tests of a file, deleted afterwards with all that they left on it. */
export function useSdkServer(config: object = {}): SdkServer {
  let server: ServerProcess | undefined
  let client: Dormouse | undefined
  beforeAll(async () => {
    server = await ServerProcess.start(config)
    client = new Dormouse({ url: server.url, apiKey: server.key })
  })
  afterAll(async () => {
    await server?.cleanUp()
  })
  return {
    get process() {
      return server as ServerProcess
    },
    get client() {
      return client as Dormouse
    },
    clientWith: (options) => new Dormouse({ url: server?.url, apiKey: server?.key, ...options }),
    create: (options = {}) => Sandbox.create({ idleTimeoutMs: 0, ...options }, { client }),
    ids: async () => (await Sandbox.list({}, { client }).all()).map(({ id }) => id).sort(),
  }
}
