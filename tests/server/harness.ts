import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll } from 'vitest'
import { WebSocket } from 'ws'
import { createApp } from '../../packages/server/src/api/app.ts'
import type { App } from '../../packages/server/src/api/route.ts'
import type { Sandbox } from '../../packages/server/src/sandbox/sandbox.ts'
import { type TestCore, type TestHost, testHost, wanted } from './test-core.ts'

export type Call = Omit<RequestInit, 'body'> & { readonly body?: unknown; readonly raw?: BodyInit }

export interface TestServer {
  readonly url: string
  readonly key: string
  readonly core: TestCore
  /** The sandbox that the paths of `call` and `socket` are about. */
  readonly sandbox: Sandbox
  newSandbox(): Promise<Sandbox>
  /** A request below the sandbox. `body` is sent as JSON, `raw` as it is. */
  call(path: string, init?: Call): Promise<Response>
  /** The JSON of an answer that must have this status. */
  json<Answer = Record<string, unknown>>(path: string, init?: Call & { status?: number }): Promise<Answer>
  /** What runs inside, straight through the lifecycle. */
  bash(code: string): Promise<string>
  socket(path: string, options?: { protocols?: string[]; headers?: Record<string, string> }): TestSocket
}

/** A whole server with HTTP on a port of its own, and one sandbox, for the tests of a describe block. */
export function useServer(): TestServer {
  let host: TestHost | undefined
  let opened: Opened | undefined
  const current = () => {
    if (opened === undefined) throw new Error('the server is not open')
    return opened
  }
  beforeAll(async () => {
    host = await testHost()
    opened = await openOn(host)
  })
  afterAll(async () => {
    await opened?.app.close()
    await opened?.core[Symbol.asyncDispose]()
    await host?.cleanUp()
  })
  return serverOn(current)
}

interface Opened {
  readonly core: TestCore
  readonly app: App
  readonly url: string
  readonly key: string
  readonly sandbox: Sandbox
  newSandbox(): Promise<Sandbox>
}

async function openOn(host: TestHost): Promise<Opened> {
  const core = await host.open()
  const { key, view } = core.access.create({ name: 'harness', scopes: ['run'] })
  const health = { check: () => ({ status: 'ok', version: '0.0.0' }) as const }
  const app = await createApp({ ...core.services, health }, { logger: false, checkAnswers: true })
  await app.listen({ host: '127.0.0.1', port: 0 })
  const url = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`
  const newSandbox = async () =>
    (await core.sandboxes.create(wanted(), { keyId: view.id, isAdmin: false })).sandbox
  return { core, app, url, key, sandbox: await newSandbox(), newSandbox }
}

function serverOn(current: () => Opened): TestServer {
  const addressOf = (path: string) => `${current().url}/v1/sandboxes/${current().sandbox.id}${path}`
  const authorization = () => ({ authorization: `Bearer ${current().key}` })
  const call: TestServer['call'] = async (path, { body, raw, headers, ...init } = {}) => {
    const isJson = body !== undefined
    return fetch(addressOf(path), {
      ...init,
      headers: {
        ...authorization(),
        ...(isJson ? { 'content-type': 'application/json' } : {}),
        ...(headers as Record<string, string> | undefined),
      },
      ...(isJson ? { body: JSON.stringify(body) } : raw === undefined ? {} : { body: raw, duplex: 'half' }),
    } as RequestInit)
  }
  return {
    get url() {
      return current().url
    },
    get key() {
      return current().key
    },
    get core() {
      return current().core
    },
    get sandbox() {
      return current().sandbox
    },
    newSandbox: () => current().newSandbox(),
    call,
    async json<Answer>(path: string, { status = 200, ...init }: Call & { status?: number } = {}) {
      const response = await call(path, init)
      const text = await response.text()
      if (response.status !== status) throw new Error(`${path}: ${response.status} ${text}`)
      return (text === '' ? undefined : JSON.parse(text)) as Answer
    },
    async bash(code) {
      return current().sandbox.use({ cause: 'run', what: 'a test' }, async (guest) => {
        const { stdout } = await guest.runs.run({ code, language: 'bash' })
        return stdout
      })
    },
    socket(path, { protocols = [], headers = authorization() } = {}) {
      return new TestSocket(new WebSocket(addressOf(path).replace('http', 'ws'), protocols, { headers }))
    },
  }
}

const PATIENCE_MS = 20_000

/** A WebSocket that remembers what it was sent. */
export class TestSocket {
  readonly raw: WebSocket
  readonly controls: ({ type: string } & Record<string, unknown>)[] = []
  text = ''
  binaryMessages = 0
  /** The status of an answer that was not an upgrade, or the code that it was closed with. */
  readonly ended: Promise<number>
  #wake: () => void = () => {}

  constructor(raw: WebSocket) {
    this.raw = raw
    raw.on('message', (data: Buffer, isBinary: boolean) => {
      if (isBinary) {
        this.text += data.toString()
        this.binaryMessages += 1
      } else this.controls.push(JSON.parse(data.toString()))
      this.#wake()
    })
    this.ended = new Promise((resolve) => {
      raw.on('unexpected-response', (request, response) => {
        resolve(response.statusCode ?? 0)
        request.destroy()
      })
      raw.on('close', (code) => resolve(code))
      raw.on('error', () => {})
    })
  }

  type(text: string): void {
    this.raw.send(Buffer.from(text))
  }

  say(message: object): void {
    this.raw.send(JSON.stringify(message))
  }

  async shows(pattern: RegExp): Promise<void> {
    // Only the end of a flood: its beginning has been looked at.
    const end = () => this.text.slice(-65_536)
    await this.#until(
      () => pattern.test(end()),
      () => `${pattern} in ${JSON.stringify(end().slice(-2_000))}`,
    )
  }

  async hears(type: string): Promise<Record<string, unknown>> {
    const find = () => this.controls.find((control) => control.type === type)
    await this.#until(
      () => find() !== undefined,
      () => `${type} in ${JSON.stringify(this.controls)}`,
    )
    return find() ?? {}
  }

  async #until(holds: () => boolean, what: () => string): Promise<void> {
    const deadline = Date.now() + PATIENCE_MS
    while (!holds()) {
      if (Date.now() > deadline) throw new Error(`waited in vain for ${what()}`)
      await new Promise<void>((resolve) => {
        this.#wake = resolve
        setTimeout(resolve, 100)
      })
    }
  }
}

/** The objects of an NDJSON answer, as they come. */
export async function* lines<Line = Record<string, unknown>>(response: Response): AsyncGenerator<Line> {
  let rest = ''
  const decoder = new TextDecoder()
  for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
    rest += decoder.decode(chunk, { stream: true })
    const whole = rest.split('\n')
    rest = whole.pop() ?? ''
    for (const line of whole) yield JSON.parse(line) as Line
  }
}
