import { Code, createClient } from '@connectrpc/connect'
import { createConnectTransport } from '@connectrpc/connect-node'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { filesystemService } from '../../packages/e2b/src/wire/filesystem.ts'
import { processService } from '../../packages/e2b/src/wire/process.ts'
import { type Client, type E2bServer, loadClient } from './e2b-server.ts'

// biome-ignore lint/suspicious/noExplicitAny: the descriptors are made at run time and have no types.
type AnyClient = Record<string, (request: any, options?: object) => any>

/** The protocols below the clients. */
export function protocolSuite(e2b: E2bServer): void {
  let sandbox: InstanceType<Client['Sandbox']>
  beforeAll(async () => {
    const { Sandbox } = await loadClient()
    sandbox = await Sandbox.create(e2b.options)
  })
  afterAll(async () => {
    await sandbox?.kill()
  })

  describe('the protocol of the agent', () => {
    const transport = (useBinaryFormat: boolean) =>
      createConnectTransport({
        ...{ baseUrl: e2b.server.url, httpVersion: '1.1', useBinaryFormat },
        interceptors: [
          (next) => (request) => {
            for (const [name, value] of Object.entries(headersOf(sandbox))) request.header.set(name, value)
            request.header.set('authorization', `Basic ${Buffer.from('root:').toString('base64')}`)
            return next(request)
          },
        ],
      })
    const headersOf = (target: InstanceType<Client['Sandbox']>) => ({
      'e2b-sandbox-id': target.sandboxId,
      'e2b-sandbox-port': '49983',
      'x-access-token': String((target as unknown as Record<string, unknown>)['envdAccessToken']),
    })

    test.each([
      ['binary', true],
      ['JSON', false],
    ])(
      'is spoken in %s, in both directions of a stream, as the user of Basic authentication',
      async (_name, binary) => {
        const processes = createClient(processService, transport(binary)) as unknown as AnyClient
        const process = { cmd: '/bin/bash', args: ['-c', 'id -un; cat; exit 7'], envs: {} }
        const seen: string[] = []
        for await (const message of processes.start({ process, tag: `tag-${binary}`, stdin: true })) {
          const { case: kind, value } = message.event.event
          if (kind === 'start')
            await processes.streamInput(
              (async function* () {
                const selector = { case: 'tag', value: `tag-${binary}` }
                yield { event: { case: 'start', value: { process: { selector } } } }
                const input = { input: { case: 'stdin', value: Buffer.from('typed') } }
                yield { event: { case: 'data', value: { input } } }
              })(),
            )
          if (kind === 'data') seen.push(Buffer.from(value.output.value).toString())
          if (seen.join('').endsWith('typed'))
            await processes
              .closeStdin({ process: { selector: { case: 'tag', value: `tag-${binary}` } } })
              .catch(() => {})
          if (kind === 'end')
            expect(value).toMatchObject({ exitCode: 7, exited: true, status: 'exit status 7' })
        }
        expect(seen.join('')).toBe('root\ntyped')
        const files = createClient(filesystemService, transport(binary)) as unknown as AnyClient
        await expect(files.stat({ path: '/nowhere' })).rejects.toMatchObject({ code: Code.NotFound })
        await expect(files.makeDir({ path: '/tmp' })).rejects.toMatchObject({ code: Code.AlreadyExists })
        const { watcherId } = await files.createWatcher({ path: '/tmp', recursive: false })
        await sandbox.files.write(`/tmp/watched-${binary}`, 'x')
        const events: string[] = []
        await expect
          .poll(async () => {
            const polled = await files.getWatcherEvents({ watcherId })
            events.push(...polled.events.map(({ name }: { name: string }) => name))
            return events
          })
          .toContain(`watched-${binary}`)
        await files.removeWatcher({ watcherId })
        await expect(files.getWatcherEvents({ watcherId })).rejects.toMatchObject({ code: Code.NotFound })
      },
    )

    test.each([
      ['binary', true],
      ['JSON', false],
    ])(
      'kills a process at the deadline of the call, and shows that a silent stream lives, in %s',
      async (_name, binary) => {
        const processes = createClient(processService, transport(binary)) as unknown as AnyClient
        const process = { cmd: '/bin/sleep', args: ['1000'], envs: {} }
        const options = { timeoutMs: 2_500, headers: { 'keepalive-ping-interval': '1' } }
        const kinds: string[] = []
        let pid = 0
        const follow = async () => {
          for await (const { event } of processes.start({ process }, options)) {
            kinds.push(event.event.case)
            if (event.event.case === 'start') pid = event.event.value.pid
          }
        }
        await expect(follow()).rejects.toMatchObject({ code: Code.DeadlineExceeded })
        expect(kinds).toEqual(expect.arrayContaining(['start', 'keepalive']))
        await expect
          .poll(async () => {
            const { processes: listed } = await processes.list({})
            return listed.map((one: { pid: number }) => one.pid)
          })
          .not.toContain(pid)
        await expect(
          processes.sendSignal({ process: { selector: { case: 'pid', value: 999_999 } }, signal: 9 }),
        ).rejects.toMatchObject({ code: Code.NotFound })
        await expect(
          processes
            .start({ process: { cmd: '', args: [], envs: {} } })
            [Symbol.asyncIterator]()
            .next(),
        ).rejects.toMatchObject({ code: Code.InvalidArgument })
      },
    )

    test('has routes beside its services, and refuses those of the control plane', async () => {
      const ask = (path: string, init: RequestInit = {}) =>
        fetch(`${e2b.server.url}${path}`, { ...init, headers: { ...headersOf(sandbox), ...init.headers } })
      expect((await ask('/health')).status).toBe(204)
      expect(await (await ask('/metrics')).json()).toMatchObject({ mem_total: expect.any(Number) })
      expect(await (await ask('/envs')).json()).toMatchObject({ E2B_SANDBOX: 'true' })
      expect((await ask('/init', { method: 'POST' })).status).toBe(404)
      await sandbox.files.writeFiles([
        { path: 'part-1', data: 'ab' },
        { path: 'part-2', data: 'cd' },
      ])
      const body = JSON.stringify({ source_paths: ['part-1', 'part-2'], destination: 'whole' })
      expect((await ask('/files/compose', { method: 'POST', body })).status).toBe(200)
      const part = await ask('/files?path=whole', { headers: { range: 'bytes=1-2' } })
      expect([part.status, await part.text()]).toEqual([206, 'bc'])
      expect(await sandbox.files.exists('part-1')).toBe(false)
    })
  })
}
