import { createHmac } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PublicDialer } from '@dormouse/egress'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { EventFeed } from '../fleet/event-feed.ts'
import { EventRows } from '../fleet/event-rows.ts'
import { SealedValues } from '../secrets/sealed-values.ts'
import { type Database, openDatabase } from '../store/database.ts'
import { jobMigrations } from '../store/migrations/index.ts'
import { WebhookRows } from './webhook-rows.ts'
import { WebhookService } from './webhook-service.ts'

interface Received {
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

const caller = { keyId: 'a', isAdmin: false }
const log = { info() {}, warn() {}, error() {}, debug() {} } as never
let directory: string
let db: Database
let now: number
let receiver: Server
let url: string
let received: Received[]
let answer: (request: IncomingMessage, response: ServerResponse) => void
let service: WebhookService
let feed: EventFeed
/** Ends the time that a receiver has to answer. */
let endOfTime: AbortController
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'dormouse-webhooks-'))
  now = Date.UTC(2026, 0, 1)
  received = []
  endOfTime = new AbortController()
  answer = (_request, response) => response.writeHead(204).end()
  receiver = createServer(async (request, response) => {
    let body = ''
    for await (const piece of request) body += piece
    received.push({ headers: request.headers, body })
    answer(request, response)
  })
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve))
  url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook?x=1`
  start()
})
afterEach(() => {
  service[Symbol.dispose]()
  db.close()
  receiver.closeAllConnections()
  receiver.close()
  rmSync(directory, { recursive: true })
})

function start(allowPrivate = true): void {
  db = openDatabase({ path: join(directory, 'jobs.db'), migrations: jobMigrations, synchronous: 'FULL' })
  service = new WebhookService({
    ...{ rows: new WebhookRows(db), log, allowPrivate, nowMs: () => now },
    answerLimit: () => endOfTime.signal,
    values: SealedValues.open(join(directory, 'secrets.key')),
    sandboxes: { get: () => expect.unreachable() },
    dialer: new PublicDialer({}),
    findKey: () => ({}),
  })
  const rows = new EventRows(db)
  feed = new EventFeed(() => now, {
    rows,
    onWrite: (event) => service.enqueue(event),
    onError: (error) => expect.unreachable(String(error)),
  })
}

function restart(): void {
  service[Symbol.dispose]()
  db.close()
  start()
}

const create = (events = ['job.ended']) =>
  service.create({ name: 'ci', url, events: events as never, enabled: true }, caller)

function publish(type: 'job.ended' | 'job.created' = 'job.ended', owner = 'a'): void {
  feed.publish({ type, owner, data: () => ({ id: 'job-2222222222222222' }) })
  feed.write()
}

const newest = () => service.deliveries('ci', caller)[0]

/** Sends what is due, until the newest delivery has had another attempt. */
async function look(): Promise<void> {
  const before = newest()?.attempts ?? 0
  service.look()
  await expect.poll(() => newest()?.attempts, { timeout: 60_000 }).toBeGreaterThan(before)
}

function isSigned({ headers, body }: Received, secret: string): boolean {
  const [t = '', ...signed] = String(headers['dormouse-signature']).split(',')
  const mac = createHmac('sha256', secret)
    .update(`${t.slice(2)}.${body}`)
    .digest('hex')
  return signed.includes(`v1=${mac}`) && Number(t.slice(2)) === Math.floor(now / 1000)
}

test('an event that a webhook wants is sent once, signed over time and body', async () => {
  const { secret } = create()
  publish('job.created')
  publish('job.ended', 'another key')
  publish()
  await look()
  service.look()
  expect(received).toHaveLength(1)
  expect(JSON.parse(received[0]?.body ?? '')).toMatchObject({
    type: 'job.ended',
    data: { id: 'job-2222222222222222' },
  })
  expect(isSigned(received[0] as Received, secret)).toBe(true)
  expect(newest()).toMatchObject({ state: 'delivered', attempts: 1, status: 204 })
})

test.each<[string, typeof answer, object]>([
  ['fails', (_request, response) => response.writeHead(500).end(), { status: 500 }],
  [
    'redirects',
    (_request, response) => response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end(),
    { status: 302 },
  ],
  ['hangs', () => endOfTime.abort(), {}],
  ['hangs up', (request) => request.socket.destroy(), {}],
])(
  'a receiver that %s gets it again later, over a restart, until it takes it',
  async (_what, failing, outcome) => {
    create()
    answer = failing
    publish()
    await look()
    expect(newest()).toMatchObject({ state: 'pending', attempts: 1, error: expect.any(String), ...outcome })
    service.look()
    restart()
    endOfTime = new AbortController()
    answer = (_request, response) => response.writeHead(200).end()
    now += 5_000
    await look()
    expect(newest()).toMatchObject({ state: 'delivered', attempts: 2 })
    expect(received).toHaveLength(2)
    expect(received[0]?.headers['dormouse-delivery']).toBe(received[1]?.headers['dormouse-delivery'])
  },
)

test('a delivery fails for good after eight attempts', async () => {
  create()
  answer = (_request, response) => response.writeHead(503).end()
  publish()
  for (let attempt = 0; attempt < 8; attempt += 1) {
    await look()
    now += 11_000_000
  }
  expect(newest()).toMatchObject({ state: 'failed', attempts: 8, status: 503 })
})

test('private addresses are refused unless the server allows them', async () => {
  service[Symbol.dispose]()
  db.close()
  start(false)
  create()
  expect(await service.test('ci', caller)).toMatchObject({
    ...{ state: 'failed', attempts: 1, error: expect.stringContaining('not a public address') },
  })
  for (const host of ['localhost', '169.254.169.254', '[::1]', '10.0.0.1']) {
    service.update('ci', { url: `http://${host}/` }, caller)
    expect((await service.test('ci', caller)).state).toBe('failed')
  }
  expect(received).toEqual([])
})

test('after a rotation both secrets sign for a day', async () => {
  const { secret: first } = create()
  const { secret: second } = service.rotate('ci', caller)
  await service.test('ci', caller)
  expect([first, second].map((secret) => isSigned(received[0] as Received, secret))).toEqual([true, true])
  now += 25 * 3_600_000
  await service.test('ci', caller)
  expect([first, second].map((secret) => isSigned(received[1] as Received, secret))).toEqual([false, true])
})

test('a reader continues over a restart, hears of the gap, and gets what came since', async () => {
  publish()
  const { signal } = new AbortController()
  const events = feed.follow({ after: now * 1000, caller, signal })
  const { value: first } = await events.next()
  publish('job.created')
  restart()
  publish('job.ended')
  const again = feed.follow({ after: first?.seq, caller, signal })
  const types = []
  for (let count = 0; count < 3; count += 1) types.push((await again.next()).value?.type)
  expect(types).toEqual(['job.created', 'gap', 'job.ended'])
})
