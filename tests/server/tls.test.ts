import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { get as getPlain } from 'node:http'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { makeAuthority, makeLeaf } from '../../packages/egress/src/edge/certificate.ts'
import { runLauncher, Terminal } from '../cli/command-line.ts'
import { testDataDir } from '../test-data-dir.ts'
import { ServerProcess } from './server-process.ts'

const run = promisify(execFile)
const here = (path: string) => fileURLToPath(new URL(path, import.meta.url))

let directory = ''
let ca = ''
let authorityFile = ''
let server: ServerProcess
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'dormouse-tls-'))
  const authority = makeAuthority(new Date())
  const leaf = makeLeaf('localhost', authority, new Date())
  ca = authority.certificate
  authorityFile = join(directory, 'authority.pem')
  const [certFile, keyFile] = [join(directory, 'cert.pem'), join(directory, 'key.pem')]
  await Promise.all([
    writeFile(authorityFile, ca),
    writeFile(certFile, leaf.certificate),
    writeFile(keyFile, leaf.key),
  ])
  server = await ServerProcess.start({ tls: { certFile, keyFile }, domain: 'localhost' })
})
afterAll(async () => {
  await server?.cleanUp()
  await rm(directory, { recursive: true, force: true })
})

/** As a user types it who trusts the authority, or does not. */
const environment = (more: Record<string, string> = {}) => ({
  ...(process.env as Record<string, string>),
  DORMOUSE_DATA: server.factory.stateDir,
  XDG_STATE_HOME: server.factory.stateDir,
  TERM: 'xterm-256color',
  NODE_EXTRA_CA_CERTS: authorityFile,
  ...more,
})
const cli = (args: readonly string[], more?: Record<string, string>) =>
  runLauncher(args, { env: environment(more) })

interface Told {
  readonly status: number | undefined
  readonly headers: Record<string, string | string[] | undefined>
  readonly text: string
}

function call(path: string, { method = 'GET', body = '', headers = {} } = {}): Promise<Told> {
  return new Promise((resolve, reject) => {
    const authorization = `Bearer ${server.key}`
    // Certificates for the names of previews are wildcards, which `localhost` cannot have.
    const options = { method, ca, servername: 'localhost', headers: { authorization, ...headers } }
    const sent = request(server.url + path, options, (response) => {
      let text = ''
      response.on('data', (part) => {
        text += part
      })
      response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, text }))
    })
    sent.on('error', reject)
    sent.end(body)
  })
}

const post = (path: string, json: object) =>
  call(path, { method: 'POST', body: JSON.stringify(json), headers: { 'content-type': 'application/json' } })

describe('a server with TLS', () => {
  test('says https in its address, under its own name', () => {
    expect(server.url).toMatch(/^https:\/\/localhost:\d+$/)
  })

  test('is used by the command line, also interactively', async () => {
    expect(await cli(['create', 'safe', '--idle', '0'])).toMatchObject({ status: 0 })
    expect(await cli(['run', 'safe', 'print(6 * 7)'])).toMatchObject({ status: 0, stdout: '42\n' })
    expect(await cli(['exec', 'safe', '--', 'echo', 'hello'])).toMatchObject({ status: 0, stdout: 'hello\n' })
    const terminal = new Terminal(['sh', 'safe'], environment())
    terminal.type('echo $((40 + 2)); exit 3\n')
    await terminal.shows(/42/)
    expect(await terminal.status()).toBe(3)
  })

  test('is used by both SDKs', async () => {
    const typescript = `
      import { Sandbox } from 'dormouse'
      const sandbox = await Sandbox.create({ ephemeral: true })
      let seen = ''
      for await (const event of sandbox.runCodeStream('print("streamed")')) seen += event.data ?? ''
      await sandbox.close()
      console.log(seen.trim())`
    const args = ['--input-type=module', '--eval', typescript]
    const told = await run(process.execPath, args, { cwd: here('.'), env: environment() })
    expect(told.stdout).toBe('streamed\n')
    const python =
      'from dormouse import Sandbox\nwith Sandbox() as s: print(s.run_code("print(1)").stdout.strip())'
    const env = environment({ PYTHONPATH: here('../../python'), SSL_CERT_FILE: authorityFile })
    expect((await run('/usr/bin/python3', ['-c', python], { env })).stdout).toBe('1\n')
  })

  test('is not trusted without its authority, and the command line says so', async () => {
    const { status, stdout, stderr } = await cli(['ls'], { NODE_EXTRA_CA_CERTS: '' })
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    expect(stderr).toMatch(/certificate[\s\S]*NODE_EXTRA_CA_CERTS/)
    const other = await cli(['ls', '--url', server.url.replace('localhost', '127.0.0.1')], {
      DORMOUSE_API_KEY: server.key,
    })
    expect(other.status).toBe(1)
    expect(other.stderr).toMatch(/certificate/)
  })

  test('does not answer a client without TLS, or with an older version than TLS 1.2', async () => {
    const plain = new Promise((resolve, reject) => {
      getPlain(server.url.replace('https', 'http'), resolve).on('error', reject)
    })
    await expect(plain).rejects.toThrow(/socket hang up|ECONNRESET/)
    const { port } = new URL(server.url)
    const agreed = (maxVersion: 'TLSv1.1' | 'TLSv1.2' | 'TLSv1.3') =>
      new Promise((resolve) => {
        const old = { minVersion: 'TLSv1', ciphers: 'DEFAULT@SECLEVEL=0' } as const
        const socket = connect({ host: 'localhost', port: Number(port), ca, maxVersion, ...old }, () => {
          resolve(socket.getProtocol())
          socket.destroy()
        })
        socket.on('error', () => resolve('refused'))
      })
    expect(await Promise.all([agreed('TLSv1.1'), agreed('TLSv1.2'), agreed('TLSv1.3')])).toEqual([
      'refused',
      'TLSv1.2',
      'TLSv1.3',
    ])
  })

  test('previews: pages, cookies and WebSockets go through it', async () => {
    const { id } = JSON.parse((await post('/v1/sandboxes', { idleTimeoutMs: 0 })).text)
    const at = `/v1/sandboxes/${id}`
    const inside = await readFile(here('ports/inside.py'), 'utf8')
    await call(`${at}/files?path=/root/inside.py`, { method: 'PUT', body: inside })
    await post(`${at}/processes`, { args: ['python3', '/root/inside.py', '8000'] })
    const { url } = JSON.parse((await post(`${at}/ports/8000/wait`, {})).text)
    expect(url).toBe(`https://8000-${id}.localhost:${new URL(server.url).port}/`)
    const seen = JSON.parse((await call(`${at}/ports/8000/page`)).text)
    expect(Object.fromEntries(seen.headers)).toMatchObject({ 'x-forwarded-proto': 'https' })

    const link = JSON.parse((await post(`${at}/ports/8000/link`, { expiresInMs: 60_000 })).text)
    const { host, pathname, search } = new URL(link.url)
    const opened = await call(pathname + search, {
      headers: { host, authorization: '', accept: 'text/html' },
    })
    expect(opened.status).toBe(303)
    expect(String(opened.headers['set-cookie'])).toMatch(/; Secure/)

    const socket = new WebSocket(`${server.url.replace('https', 'wss')}${at}/ports/8000/ws`, {
      ca,
      headers: { authorization: `Bearer ${server.key}` },
    })
    const answer = new Promise((resolve, reject) => {
      socket.on('error', reject)
      socket.on('message', (data: Buffer) => resolve(data.toString()))
    })
    socket.on('open', () => socket.send('over TLS'))
    expect(await answer).toContain('over TLS')
    socket.terminate()
  })
})

test('a server that could be reached from outside without TLS does not start', async () => {
  const dataDir = await mkdtemp(join(directory, 'data-'))
  const args = [here('serve.mjs'), dataDir, testDataDir, '--port', '0', '--host', '0.0.0.0']
  const refused = await run(process.execPath, args).then(
    () => 'it started',
    (error: { stderr: string }) => error.stderr,
  )
  expect(refused).toContain('insecure_bind')
})
