import { randomUUID } from 'node:crypto'
import { get } from 'node:http'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Client, type E2bServer, loadClient } from './e2b-server.ts'
import { gitSuite } from './git-suite.ts'
import type { CallRecorder } from './public-methods.ts'

/** Asks for a host name that needs no resolver here. */
function getByHost(url: string, host: string): Promise<{ status: number | undefined; body: unknown }> {
  return new Promise((resolve, reject) => {
    get(url, { headers: { host } }, async (response) => {
      let text = ''
      for await (const piece of response) text += piece
      resolve({ status: response.statusCode, body: JSON.parse(text) })
    }).once('error', reject)
  })
}

/** Every other method of the newest client, at least once. */
export function methodSuite(e2b: E2bServer, recorder: CallRecorder): void {
  let client: Client
  let sandbox: InstanceType<Client['Sandbox']>
  beforeAll(async () => {
    client = await loadClient()
    sandbox = await client.Sandbox.create(e2b.options)
    recorder.watchInstance('Commands', sandbox.commands)
    recorder.watchInstance('Filesystem', sandbox.files)
    recorder.watchInstance('Pty', sandbox.pty)
    recorder.watchInstance('Git', sandbox.git)
  })
  afterAll(async () => {
    await sandbox?.kill()
  })

  describe('the life of a sandbox', () => {
    test('pauses, resumes and reboots', async () => {
      await sandbox.commands.run('sleep 1000', { background: true })
      expect(await sandbox.pause()).toBe(true)
      expect(await sandbox.pause()).toBe(false)
      expect((await sandbox.getInfo()).state).toBe('paused')
      expect(await sandbox.isRunning()).toBe(false)
      await expect(sandbox.commands.run('true')).rejects.toBeInstanceOf(client.SandboxNotFoundError)
      await sandbox.connect({ timeoutMs: 300_000 })
      expect((await client.Sandbox.getFullInfo(sandbox.sandboxId, e2b.options)).state).toBe('running')
      expect(await sandbox.isRunning()).toBe(true)
      expect((await sandbox.commands.run('pgrep -c sleep')).stdout).toBe('1\n')
      await sandbox.betaPause()
      await sandbox.connect()
      await sandbox.pause({ keepMemory: false })
      await sandbox.connect()
      expect((await sandbox.commands.run('pgrep -c sleep || true')).stdout).toBe('0\n')
    })

    test('is put to standby at the end of its time, and traffic resumes it, if its client says so', async () => {
      const lifecycle = { onTimeout: 'pause', autoResume: true } as const
      const other = await client.Sandbox.create({ ...e2b.options, timeoutMs: 600_000, lifecycle })
      const why = await e2b.own(`/sandboxes/${other.sandboxId}/why`)
      expect(why.body.summary).toMatch(/It is put to standby in 10 min, when its time is over\./)
      await other.setTimeout(3_000)
      await expect.poll(async () => (await other.getInfo()).state, { timeout: 20_000 }).toBe('paused')
      const ofOurs = async () => (await e2b.own(`/sandboxes/${other.sandboxId}`)).body
      await expect.poll(async () => (await ofOurs()).state, { timeout: 20_000 }).toBe('standby')
      expect((await ofOurs()).expires).toBeUndefined()
      expect((await other.commands.run('echo awake')).stdout).toBe('awake\n')
      expect((await other.getInfo()).state).toBe('running')
      await other.kill()
    })

    test('boots after the end of its time, if its client asked for a pause without memory', async () => {
      const lifecycle = { onTimeout: { action: 'pause', keepMemory: false } } as const
      const other = await client.Sandbox.create({ ...e2b.options, timeoutMs: 600_000, lifecycle })
      await other.files.write('kept', 'yes')
      await other.commands.run('sleep 1000', { background: true })
      await other.setTimeout(1_000)
      await expect.poll(async () => (await other.getInfo()).state, { timeout: 10_000 }).toBe('paused')
      await other.connect()
      expect((await other.commands.run('cat kept; pgrep -c sleep || true')).stdout).toBe('yes0\n')
      await other.kill()
    })

    test('is deleted at the end of its time', async () => {
      const other = await client.Sandbox.create({ ...e2b.options, timeoutMs: 1_000 })
      await expect.poll(() => other.isRunning()).toBe(false)
      await expect.poll(async () => (await e2b.own(`/sandboxes/${other.sandboxId}`)).status).toBe(404)
    })

    test('forks, and children have tokens of their own', async () => {
      await sandbox.files.write('of-parent', '1')
      const [child] = await sandbox.fork()
      if (child === undefined || child instanceof Error) throw child
      expect(await child.files.read('of-parent')).toBe('1')
      const stolen = await fetch(`${e2b.server.url}/files?path=of-parent`, {
        headers: {
          'e2b-sandbox-id': child.sandboxId,
          'e2b-sandbox-port': '49983',
          'x-access-token': String((sandbox as unknown as Record<string, unknown>)['envdAccessToken']),
        },
      })
      expect(stolen.status).toBe(401)
      await child.kill()
    })

    test('is saved in snapshots, from which others start', async () => {
      await sandbox.files.write('saved', 'yes')
      const { snapshotId } = await sandbox.createSnapshot({ name: 'first' })
      const listed = await sandbox.listSnapshots().nextItems()
      expect(listed).toContainEqual({ snapshotId, names: ['first'] })
      const again = await client.Sandbox.create(snapshotId, e2b.options)
      expect(await again.files.read('saved')).toBe('yes')
      await again.kill()
      expect(await client.Sandbox.deleteSnapshot(snapshotId, e2b.options)).toBe(true)
      expect(await client.Sandbox.deleteSnapshot(snapshotId, e2b.options)).toBe(false)
    })

    test('has metrics as a series of samples', async () => {
      const seen = async () => sandbox.getMetrics({ start: new Date(Date.now() - 60_000), end: new Date() })
      await expect.poll(async () => (await seen()).length, { timeout: 20_000 }).toBeGreaterThan(2)
      const times = (await seen()).map(({ timestamp }) => timestamp.getTime())
      expect(times).toEqual([...times].sort((one, other) => one - other))
      const early = { start: new Date(0), end: new Date(Date.now() - 3_600_000) }
      expect(await sandbox.getMetrics(early)).toEqual([])
    })

    test('has metrics and a host name for each port, and its network can be closed', async () => {
      const [metric] = await sandbox.getMetrics()
      expect(metric?.memUsed).toBeGreaterThan(0)
      expect(sandbox.getHost(3000)).toBe(
        `3000-${sandbox.sandboxId}.localhost:${new URL(e2b.server.url).port}`,
      )
      await sandbox.updateNetwork({ allowInternetAccess: false })
      expect((await e2b.own(`/sandboxes/${sandbox.sandboxId}`)).body.network.mode).toBe('none')
      await sandbox.updateNetwork({ denyOut: ['8.8.8.0/24'], allowOut: ['8.8.8.8'] })
      expect((await e2b.own(`/sandboxes/${sandbox.sandboxId}`)).body.network).toMatchObject({
        ...{ mode: 'public', deny: ['8.8.8.0/24'], allow: ['8.8.8.8'] },
      })
      await expect(sandbox.updateNetwork({ denyOut: ['example.com'] })).rejects.toThrow(/denyOut/)
    })
  })

  describe('ports', () => {
    const through = (port: number, headers: Record<string, string> = {}, id = sandbox.sandboxId) =>
      fetch(e2b.server.url, {
        headers: { 'e2b-sandbox-id': id, 'e2b-sandbox-port': String(port), ...headers },
      })

    test('are public, and closed ones and unknown sandboxes get the errors of their proxy', async () => {
      await sandbox.commands.run('python3 -m http.server 8123', { background: true })
      await expect.poll(async () => (await through(8123)).status).toBe(200)
      const closed = await through(8124)
      expect([closed.status, await closed.json()]).toEqual([
        502,
        {
          sandboxId: sandbox.sandboxId,
          message: 'The sandbox is running but port is not open',
          port: 8124,
          code: 502,
        },
      ])
      const unknown = await through(80, {}, 'nobody')
      expect([unknown.status, await unknown.json()]).toEqual([
        502,
        { sandboxId: 'nobody', message: 'The sandbox was not found', code: 502 },
      ])
    })

    test('have host names, whose errors are those of their proxy after a kill', async () => {
      const other = await client.Sandbox.create(e2b.options)
      const ask = () => getByHost(e2b.server.url, other.getHost(8125))
      expect(await ask()).toMatchObject({
        status: 502,
        body: { message: expect.stringContaining('not open') },
      })
      await other.kill()
      const gone = { sandboxId: other.sandboxId, message: 'The sandbox was not found', code: 502 }
      expect(await ask()).toEqual({ status: 502, body: gone })
    })

    test('get the host name that the client masks them with', async () => {
      const network = { maskRequestHost: `masked.example.com:\${PORT}` }
      const other = await client.Sandbox.create({ ...e2b.options, network })
      const echo = [
        'from http.server import *',
        'class Echo(BaseHTTPRequestHandler):',
        '  def do_GET(self): self.send_response(200); self.end_headers(); self.wfile.write(b\'"%s"\' % self.headers["host"].encode())',
        'HTTPServer(("", 8126), Echo).serve_forever()',
      ]
      await other.files.write('echo.py', echo.join('\n'))
      await other.commands.run('python3 echo.py', { background: true })
      await expect
        .poll(() => getByHost(e2b.server.url, other.getHost(8126)), { timeout: 20_000 })
        .toEqual({ status: 200, body: 'masked.example.com:8126' })
      await other.kill()
    })

    test('want a token where the client says so', async () => {
      const network = { allowPublicTraffic: false }
      const other = await client.Sandbox.create({ ...e2b.options, network })
      expect((await through(9000, {}, other.sandboxId)).status).toBe(403)
      const token = String(other.trafficAccessToken)
      expect((await through(9000, { 'e2b-traffic-access-token': token }, other.sandboxId)).status).toBe(502)
      await other.kill()
    })
  })

  describe('commands, terminals and files', () => {
    test('processes are listed, connected to, written to and killed', async () => {
      const handle = await sandbox.commands.run('cat', { background: true, stdin: true })
      const listed = await sandbox.commands.list()
      expect(listed.find(({ pid }) => pid === handle.pid)?.args).toEqual(['-l', '-c', 'cat'])
      recorder.watchInstance('CommandHandle', handle)
      const connected = await sandbox.commands.connect(handle.pid)
      await sandbox.commands.sendStdin(handle.pid, 'hello\n')
      await handle.sendStdin('again\n')
      await sandbox.commands.closeStdin(handle.pid)
      expect((await connected.wait()).stdout).toBe('hello\nagain\n')
      const other = await sandbox.commands.run('cat; sleep 1000', { background: true, stdin: true })
      await other.closeStdin()
      await other.disconnect()
      expect((await sandbox.commands.list()).map(({ pid }) => pid)).toContain(other.pid)
      expect(await other.kill()).toBe(true)
      const endless = await sandbox.commands.run('sleep 1000', { background: true })
      expect(await sandbox.commands.kill(endless.pid)).toBe(true)
      await expect.poll(() => sandbox.commands.kill(endless.pid), { timeout: 10_000 }).toBe(false)
      await expect(sandbox.commands.connect(999_999)).rejects.toBeInstanceOf(client.NotFoundError)
    })

    test('terminals have a size, and their output reaches the client', async () => {
      let output = ''
      const onData = (data: Uint8Array) => {
        output += Buffer.from(data).toString()
      }
      const doomed = await sandbox.pty.create({ cols: 80, rows: 24, onData: () => {} })
      expect((await sandbox.pty.connect(doomed.pid)).pid).toBe(doomed.pid)
      expect(await sandbox.pty.kill(doomed.pid)).toBe(true)
      const terminal = await sandbox.pty.create({ cols: 80, rows: 24, onData })
      await sandbox.pty.resize(terminal.pid, { cols: 100, rows: 30 })
      await sandbox.pty.sendInput(terminal.pid, Buffer.from('stty size; exit\n'))
      await terminal.wait()
      expect(output).toContain('30 100')
    })

    test('files are written, described, renamed, watched and removed', async () => {
      await sandbox.files.makeDir('dir')
      expect(await sandbox.files.makeDir('dir')).toBe(false)
      const names: string[] = []
      const watch = await sandbox.files.watchDir('dir', (event) => void names.push(event.name))
      recorder.watchInstance('WatchHandle', watch)
      await sandbox.files.write('dir/a', 'x', { metadata: { author: 'me' } })
      expect(await sandbox.files.getInfo('dir/a')).toMatchObject({ size: 1, metadata: { author: 'me' } })
      await sandbox.files.rename('dir/a', 'dir/b')
      await expect.poll(() => names).toContain('b')
      await watch.stop()
      expect((await sandbox.files.list('dir')).map(({ name }) => name)).toEqual(['b'])
      expect(await sandbox.files.exists('dir/a')).toBe(false)
      await sandbox.files.remove('dir')
      expect(await sandbox.files.exists('dir')).toBe(false)
      await expect(sandbox.files.list('dir')).rejects.toBeInstanceOf(client.NotFoundError)
    })

    test('signed URLs carry files without a key', async () => {
      const form = new FormData()
      form.append('file', new Blob(['signed']), 'signed.txt')
      const put = await fetch(await sandbox.uploadUrl('signed.txt'), { method: 'POST', body: form })
      expect(put.status).toBe(200)
      const get = await fetch(await sandbox.downloadUrl('signed.txt', { useSignatureExpiration: 60 }))
      expect(await get.text()).toBe('signed')
      const forged = new URL(await sandbox.downloadUrl('signed.txt'))
      forged.searchParams.set('path', '/etc/shadow')
      expect((await fetch(forged)).status).toBe(401)
    })

    gitSuite(() => ({ client, sandbox }))
  })

  describe('volumes, secrets and templates', () => {
    test('a volume keeps files, which its client and sandboxes see', async () => {
      const name = `v-${randomUUID().slice(0, 8)}`
      const connection = { ...e2b.options, volumeApiUrl: e2b.server.url } as object
      const volume = await client.Volume.create(name, connection)
      await volume.writeFile('/a.txt', 'from outside', connection)
      const again = await client.Volume.connect(name, connection)
      expect(await again.readFile('/a.txt', connection)).toBe('from outside')
      await again.makeDir('/dir', connection)
      await again.updateMetadata('/dir', { mode: 0o700 }, connection)
      await again.remove('/dir', connection)
      expect(await client.Volume.getInfo(name, e2b.options)).toMatchObject({ name })
      expect((await client.Volume.list(e2b.options)).map((one) => one.name)).toContain(name)
      await expect(again.readFile('/missing', connection)).rejects.toBeInstanceOf(
        client.VolumePathNotFoundError,
      )
      await expect(client.Volume.getInfo('no-volume', e2b.options)).rejects.toBeInstanceOf(
        client.VolumeNotFoundError,
      )
      const other = await client.Sandbox.create({ ...e2b.options, volumeMounts: { '/mnt/v': volume } })
      expect(await other.files.read('/mnt/v/a.txt')).toBe('from outside')
      await other.kill()
      expect((await volume.list('/', connection)).map(({ path }) => path)).toEqual(['/a.txt'])
      await volume.remove('/a.txt', connection)
      expect(await volume.exists('/a.txt', connection)).toBe(false)
      expect(await client.Volume.destroy(name, e2b.options)).toBe(true)
      expect(await client.Volume.destroy(name, e2b.options)).toBe(false)
    })

    test('a secret has versions and metadata, and its value does not come back', async () => {
      const secret = await client.Secret.create('E2B_TOKEN', 'value', {
        ...e2b.options,
        metadata: { team: 'a' },
      })
      expect(secret).toMatchObject({ name: 'E2B_TOKEN', metadata: { team: 'a' } })
      await client.Secret.update('E2B_TOKEN', 'other', e2b.options)
      const info = await client.Secret.getInfo('E2B_TOKEN', e2b.options)
      expect(JSON.stringify(info)).not.toContain('other')
      expect(await client.Secret.exists('E2B_TOKEN', e2b.options)).toBe(true)
      const listed = await client.Secret.list(e2b.options).nextItems()
      expect(listed.map(({ name }) => name)).toContain('E2B_TOKEN')
      expect(await client.Secret.destroy('E2B_TOKEN', e2b.options)).toBe(true)
      expect(await client.Secret.exists('E2B_TOKEN', e2b.options)).toBe(false)
      await expect(client.Secret.getInfo('E2B_TOKEN', e2b.options)).rejects.toBeInstanceOf(
        client.SecretNotFoundError,
      )
    })

    test('templates exist or do not', async () => {
      expect(await client.Template.exists('base', e2b.options)).toBe(true)
      expect(await client.Template.exists('e2b', e2b.options)).toBe(true)
      expect(await client.Template.exists('no-such-template', e2b.options)).toBe(false)
      expect(await client.Template.aliasExists('base', e2b.options)).toBe(true)
    })
  })
}
