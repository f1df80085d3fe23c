import { Sandbox, type SocketConstructor } from 'dormouse'
import { describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { Cutter } from './cutter.ts'
import { useSdkServer } from './sdk-server.ts'

const server = useSdkServer()
const lines = {
  WebSocket: WebSocket as unknown as SocketConstructor,
  HTTP: undefined,
}

/** Collects the output of a terminal, and waits for text in it. */
function screen() {
  let text = ''
  let look = () => {}
  return {
    get text() {
      return text
    },
    onData: (more: string) => {
      text += more
      look()
    },
    shows: async (wanted: string) => {
      const deadline = Date.now() + 20_000
      while (!text.includes(wanted)) {
        if (Date.now() > deadline) throw new Error(`${wanted} is not in ${JSON.stringify(text)}`)
        await new Promise<void>((resolve) => {
          look = resolve
          setTimeout(resolve, 200)
        })
      }
    },
  }
}

/** Fails fast: a promise that stays pending would use up the time of the test. */
function withinSeconds<Value>(promise: Promise<Value>): Promise<Value> {
  const late = new Promise<never>((_resolve, reject) => {
    setTimeout(() => reject(new Error('it did not settle')), 10_000).unref()
  })
  return Promise.race([promise, late])
}

describe.each(Object.entries(lines))('a terminal over %s', (_name, socket) => {
  const connect = async () => {
    const { id } = await server.create()
    return Sandbox.connect(id, { client: server.clientWith({ WebSocket: socket }) })
  }

  test('takes input, is resized, and ends with its shell', async () => {
    const sandbox = await connect()
    const shown = screen()
    const pty = await sandbox.pty.create({
      cols: 100,
      rows: 30,
      cwd: '/tmp',
      env: { WHO: 'me' },
      onData: shown.onData,
    })
    await expect(pty.wait({ timeoutMs: 50 })).rejects.toMatchObject({ code: 'timed_out' })
    await expect(pty.wait({ signal: AbortSignal.abort() })).rejects.toMatchObject({ code: 'cancelled' })
    await pty.write('echo "$WHO in $PWD $TERM"\n')
    await shown.shows('me in /tmp xterm-256color')
    await pty.write('stty size\n')
    await shown.shows('30 100')
    await pty.resize({ cols: 120, rows: 40 })
    await pty.write('stty size\n')
    await shown.shows('40 120')
    await pty.write('exit 7\n')
    expect(await pty.wait()).toMatchObject({ exitCode: 7 })
    await sandbox.delete()
  })

  test('is disconnected, connected to again, and killed', async () => {
    const sandbox = await connect()
    const pty = await sandbox.pty.create()
    await pty.write('secret=42\n')
    pty.disconnect()
    await expect(pty.wait()).rejects.toMatchObject({ code: 'cancelled' })
    const shown = screen()
    const again = await sandbox.pty.connect(pty.id, { onData: shown.onData })
    await again.write('echo "still $secret"\n')
    await shown.shows('still 42')
    await again.kill()
    expect(await again.wait()).toMatchObject({ signal: 'SIGKILL' })
    await sandbox.delete()
  })

  test('that has ended, was disconnected or was deleted rejects input at once', async () => {
    const sandbox = await connect()
    const ended = await sandbox.pty.create({ command: 'exit 3' })
    expect(await ended.wait()).toMatchObject({ exitCode: 3 })
    const late = {
      code: 'conflict',
      message: expect.stringContaining('has ended'),
      hint: expect.stringContaining('pty.create'),
    }
    await expect(withinSeconds(ended.write('too late\n'))).rejects.toMatchObject(late)
    const again = await sandbox.pty.connect(ended.id)
    await expect(withinSeconds(again.write('too late\n'))).rejects.toMatchObject(late)

    const left = await sandbox.pty.create({ command: ['cat'] })
    left.disconnect()
    await expect(withinSeconds(left.wait())).rejects.toMatchObject({ code: 'cancelled' })
    await expect(withinSeconds(left.write('gone\n'))).rejects.toMatchObject({
      code: 'conflict',
      hint: expect.stringContaining('pty.connect'),
    })

    const orphan = await sandbox.pty.create({ command: ['cat'] })
    await orphan.write('there\n')
    await sandbox.delete()
    await withinSeconds(orphan.wait().catch(() => {}))
    await expect(withinSeconds(orphan.write('nobody\n'))).rejects.toMatchObject({ code: 'not_found' })
  })

  test('shows all output once although its connection is cut', async () => {
    const { id } = await server.create()
    const cutter = await Cutter.start(server.process)
    const client = server.clientWith({ url: cutter.url, WebSocket: socket })
    const sandbox = await Sandbox.connect(id, { client })
    const shown = screen()
    const command = 'for i in $(seq 400); do echo "line-$i."; sleep 0.005; done'
    const pty = await sandbox.pty.create({ command, onData: shown.onData })
    for (const line of [40, 90, 140, 190, 240]) {
      await shown.shows(`line-${line}.`)
      cutter.cut()
    }
    expect(await pty.wait()).toMatchObject({ exitCode: 0 })
    expect(shown.text.match(/line-\d+\./g)).toEqual(
      Array.from({ length: 400 }, (_, index) => `line-${index + 1}.`),
    )
    expect(cutter.cuts).toBeGreaterThan(2)
    await cutter.stop()
    await Sandbox.connect(id, { client: server.client }).then((each) => each.delete())
  })
})
