import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { heldBytes } from '../held-memory.ts'
import { type TestSocket, useServer } from './harness.ts'

describe('terminals over WebSocket', () => {
  const server = useServer()
  /** A shell whose prompt is there. */
  const shell = async (more = ''): Promise<TestSocket> => {
    const socket = server.socket(`/pty?cols=100&rows=30${more}`)
    await socket.hears('start')
    socket.type('PS1=\'prompt\'"> "\r')
    await socket.shows(/prompt> $/)
    return socket
  }

  test('a shell of the size asked for; a new size is seen by stty; it ends with its exit code', async () => {
    const socket = await shell()
    socket.type('stty size\r')
    await socket.shows(/30 100\r\n/)
    socket.say({ type: 'resize', cols: 132, rows: 50 })
    socket.type('until [ "$(stty size)" = "50 132" ]; do sleep 0.02; done\r')
    socket.type('stty size; echo $TERM größe\r')
    await socket.shows(/50 132\r\nxterm-256color größe\r\n/)
    socket.type('exit 7\r')
    expect(await socket.hears('exit')).toMatchObject({ exitCode: 7 })
    expect(await socket.ended).toBe(1000)
  })

  test('user, cwd and command are taken', async () => {
    const socket = server.socket(`/pty?user=user&cwd=/tmp&command=${encodeURIComponent('whoami; pwd; tty')}`)
    expect(await socket.hears('exit')).toMatchObject({ exitCode: 0 })
    expect(socket.text).toMatch(/^user\r\n\/tmp\r\n\/dev\/pts\/\d+\r\n$/)
  })

  test('Ctrl-C reaches the foreground, a signal the shell', async () => {
    const socket = await shell()
    socket.type(`sh -c 'echo be""gun; exec sleep 1000'\r`)
    await socket.shows(/begun/)
    socket.type('\x03')
    await socket.shows(/\^C[\s\S]*prompt> $/)
    socket.say({ type: 'signal', signal: 'SIGKILL' })
    expect(await socket.hears('exit')).toMatchObject({ exitCode: 137, signal: 'SIGKILL' })
  })

  test('the shell continues when its socket drops; a new socket shows what came after', async () => {
    const first = await shell()
    const { processId, seq } = await first.hears('start')
    expect(seq).toBe(0)
    const wait = 'until test -e /tmp/gone; do sleep 0.02; done'
    first.type(`x=kept; (${wait}; echo meanwhile; touch /tmp/said) &\r`)
    await first.shows(/said\) &\r\n[\s\S]*prompt> $/)
    const after = first.binaryMessages
    first.raw.terminate()
    await server.bash('touch /tmp/gone; until test -e /tmp/said; do sleep 0.02; done')
    const second = server.socket(`/processes/${processId}/pty?after=${after}`)
    expect(await second.hears('start')).toMatchObject({ processId, seq: after })
    await second.shows(/^meanwhile\r\n/)
    second.type('echo $x\r')
    await second.shows(/kept\r\n/)
    const whole = server.socket(`/processes/${processId}/pty`)
    await whole.shows(/prompt> [\s\S]*meanwhile[\s\S]*kept\r\n/)
    // Two at one terminal: both see, both type.
    whole.type('echo bo""th; exit\r')
    await Promise.all([second.shows(/both\r\n/), second.hears('exit'), whole.hears('exit')])
  })

  test('what was typed before hanging up arrives, however soon that was', async () => {
    const first = server.socket(`/pty?command=${encodeURIComponent('stty -echo; echo ready; cat')}`)
    await first.shows(/ready/)
    const { processId } = await first.hears('start')
    for (let i = 0; i < 20; i++) {
      const socket = server.socket(`/processes/${processId}/pty?after=1000`)
      await socket.hears('start')
      socket.type(`line ${i}\r`)
      socket.raw.close()
    }
    await first.shows(/line 19\r\n/)
    expect(first.text.match(/line \d+/g)).toEqual(Array.from({ length: 20 }, (_, i) => `line ${i}`))
    first.say({ type: 'signal', signal: 'SIGKILL' })
    await first.hears('exit')
  })

  test('it keeps the sandbox awake, sleeps with it on request, and typing wakes both', async () => {
    const socket = await shell()
    const { processId } = await socket.hears('start')
    const why = await server.sandbox.why()
    expect(why.work.map(({ what }) => what)).toContain(`following process ${processId}`)
    socket.type('y=asleep\r')
    await socket.shows(/y=asleep\r\n[\s\S]*prompt> $/)
    expect((await server.sandbox.standby({ tier: 'stored', cause: 'asked' })).state).toBe('standby')
    await sleep(300)
    expect(server.sandbox.view().state).toBe('standby')
    socket.type('echo was-$y\r')
    await socket.shows(/was-asleep\r\n/)
    socket.raw.close()
  })

  test('a flood is shown as fast as it is read, and a client that does not read costs no memory', async () => {
    const socket = await shell()
    socket.raw.pause()
    const before = heldBytes()
    socket.type('head -c 20000000 /dev/zero | base64 -w 100; touch /tmp/shown; echo do""ne\r')
    await server.bash('until test -e /tmp/shown; do sleep 0.02; done')
    expect(heldBytes() - before).toBeLessThan(12 * 1024 ** 2)
    socket.raw.resume()
    await socket.shows(/done\r\n/)
    expect(socket.controls.some(({ type }) => type === 'truncated')).toBe(true)
    socket.raw.close()
  })

  test('a paste of 300 kB arrives whole', async () => {
    const socket = server.socket(
      `/pty?command=${encodeURIComponent('stty raw -echo; echo ready; head -c 300000 | sha256sum')}`,
    )
    await socket.shows(/ready/)
    socket.raw.send(Buffer.alloc(150_000, 'ab'))
    socket.raw.send(Buffer.alloc(150_000, 'ab'))
    expect(await socket.hears('exit')).toMatchObject({ exitCode: 0 })
    const expected = await server.bash("head -c 300000 < <(yes ab | tr -d '\\n') | sha256sum")
    expect(socket.text).toContain(expected.slice(0, 64))
  })

  test('a browser names its key among the protocols; the answer does not repeat it', async () => {
    const key = `dormouse.bearer.${server.key}`
    const socket = server.socket('/pty?command=true', { protocols: ['dormouse.v1', key], headers: {} })
    await socket.hears('exit')
    expect(socket.raw.protocol).toBe('dormouse.v1')
    const wrong = server.socket('/pty?command=true', {
      protocols: ['dormouse.v1', 'dormouse.bearer.dm_x_y'],
      headers: {},
    })
    expect(await wrong.ended).toBe(401)
    expect(await server.socket('/pty', { headers: {} }).ended).toBe(401)
  })

  test('what cannot be is refused before the upgrade, or said and closed', async () => {
    expect(await server.socket('/pty?cols=0').ended).toBe(400)
    expect(await server.socket('/pty?colour=red').ended).toBe(400)
    expect(await server.socket('/processes/999999/pty').ended).toBe(404)
    const { processId } = await server.json<{ processId: string }>('/processes', {
      method: 'POST',
      body: { command: 'sleep 5' },
      status: 201,
    })
    expect(await server.socket(`/processes/${processId}/pty`).ended).toBe(409)
    expect((await server.call('/pty')).status).toBe(400)
    const refused = server.socket('/pty?user=nobody-here')
    expect(await refused.hears('error')).toMatchObject({ error: { code: 'invalid_argument' } })
    expect(await refused.ended).toBe(1008)
    const foreign = server.socket('/../sb-2222222222222222/pty')
    expect(await foreign.ended).toBe(404)
  })

  test('a message that makes no sense is answered, and the terminal continues', async () => {
    const socket = await shell()
    socket.raw.send('not json')
    socket.say({ type: 'resize', cols: -1, rows: 5 })
    socket.say({ type: 'dance' })
    await socket.hears('error')
    socket.type('echo st""ill\r')
    await socket.shows(/still\r\n/)
    expect(socket.controls.filter(({ type }) => type === 'error')).toHaveLength(3)
    socket.raw.close()
  })

  test('an ended process shows its terminal again', async () => {
    const first = server.socket('/pty?command=echo%20once')
    const { processId } = await first.hears('start')
    await first.hears('exit')
    const again = server.socket(`/processes/${processId}/pty`)
    expect(await again.hears('exit')).toMatchObject({ exitCode: 0 })
    expect(again.text).toBe('once\r\n')
  })

  test('a key that is revoked ends its terminals', async () => {
    const { view, key } = server.core.access.create({ name: 'short', scopes: ['admin'] })
    const socket = server.socket('/pty', { headers: { authorization: `Bearer ${key}` } })
    await socket.hears('start')
    server.core.access.revoke(view.id)
    expect(await socket.hears('error')).toMatchObject({ error: { code: 'unauthorized' } })
    expect(await socket.ended).toBe(1008)
  })
})
