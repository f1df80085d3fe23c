import { describe, expect, test } from 'vitest'
import { Cutter } from './cutter.ts'
import { useSdkServer } from './sdk-server.ts'

const server = useSdkServer()

describe('runOnce', () => {
  test('runs in a sandbox with its options, calls listeners, and leaves nothing', async () => {
    await server.client.volumes.create({ name: 'shelf' })
    const seen: string[] = []
    const run = await server.client.runOnce(
      'import os, sys; print(os.environ["WHO"]); print("e", file=sys.stderr); os.path.ismount("/shelf")',
      {
        env: { WHO: 'me' },
        volumes: [{ volume: 'shelf', path: '/shelf' }],
        limits: { pids: 60, diskBytes: 50_000_000 },
        network: { mode: 'none' },
        onStdout: (text) => seen.push(text),
        onResult: (data) => seen.push(String(data['text/plain'])),
      },
    )
    expect(run).toMatchObject({ text: 'True', stdout: 'me\n', stderr: 'e\n', exitCode: 0 })
    expect(seen).toEqual(['me\n', 'True'])
    expect(await server.ids()).toEqual([])
    await server.client.volumes.delete('shelf')
  })

  test('returns the exception and the exit code of the code', async () => {
    expect(await server.client.runOnce('1 / 0')).toMatchObject({
      exitCode: 1,
      error: { name: 'ZeroDivisionError' },
    })
    expect(await server.client.runOnce('exit 4', { language: 'bash' })).toMatchObject({ exitCode: 4 })
    expect(await server.client.runOnce('while True: pass', { timeoutMs: 100 })).toMatchObject({
      timedOut: true,
    })
    await expect(server.client.runOnce('1', { template: 'none' })).rejects.toMatchObject({
      code: 'template_not_found',
    })
    expect(await server.ids()).toEqual([])
  })

  test('ends the run when it is aborted, or when a listener throws', async () => {
    const controller = new AbortController()
    const running = server.client.runOnce('import time; print(1, flush=True); time.sleep(60)', {
      signal: controller.signal,
      onStdout: () => controller.abort(),
    })
    await expect(running).rejects.toMatchObject({ code: 'cancelled' })
    const failing = server.client.runOnce('import time; print(1, flush=True); time.sleep(60)', {
      onStdout: () => {
        throw new Error('no more')
      },
    })
    await expect(failing).rejects.toThrow('no more')
    await expect.poll(() => server.ids(), { timeout: 20_000 }).toEqual([])
  })

  test('throws after a lost connection, and does not run twice', async () => {
    const sandbox = await server.create()
    await server.client.volumes.create({ name: 'count' })
    const cutter = await Cutter.start(server.process)
    let cuts = 0
    cutter.nextCutBytes = () => (cuts++ === 0 ? 700 : undefined)
    const client = server.clientWith({ url: cutter.url })
    const code =
      'open("/count/runs", "a").write("x"); import time\nfor i in range(100): print(i, flush=True); time.sleep(0.02)'
    const running = client.runOnce(code, { volumes: [{ volume: 'count', path: '/count' }] })
    await expect(running).rejects.toMatchObject({ code: 'server_unreachable' })
    expect(cutter.cuts).toBe(1)
    await expect.poll(() => server.ids(), { timeout: 20_000 }).toEqual([sandbox.id])
    const { stdout } = await server.client.runOnce('print(open("/count/runs").read())', {
      volumes: [{ volume: 'count', path: '/count' }],
    })
    expect(stdout).toBe('x\n')
    await cutter.stop()
    await sandbox.delete()
    await server.client.volumes.delete('count')
  })

  test('waits while the server is overloaded', async () => {
    let calls = 0
    const client = server.clientWith({
      fetch: async (...args) => {
        calls += 1
        if (calls > 1) return fetch(...args)
        const error = { code: 'overloaded', message: 'too much', hint: '', requestId: 'r', docs: '' }
        return Response.json({ error }, { status: 503, headers: { 'retry-after': '0' } })
      },
    })
    expect((await client.runOnce('1 + 1')).text).toBe('2')
    expect(calls).toBe(2)
  })
})
