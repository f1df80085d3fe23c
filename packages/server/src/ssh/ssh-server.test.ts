import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { errorAnswers } from '../api/error-answer.ts'
import { FakeSandboxes } from '../api/testing/fake-sandboxes.ts'
import { openHostKey } from './host-key.ts'
import { SshServer } from './ssh-server.ts'

let dataDir: string
beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'dormouse-ssh-server-'))
})
afterEach(() => rmSync(dataDir, { recursive: true }))

const log = { info() {}, warn() {}, error() {} }

function open(): SshServer {
  return new SshServer({
    hostKey: openHostKey(dataDir),
    keys: { grantsOf: () => [], findConfirmation: () => undefined },
    access: { checkRate: () => {} },
    sandboxes: new FakeSandboxes(),
    answers: errorAnswers({ docsUrl: '', hostPaths: [] }),
    idleConnectionMs: 1000,
    log,
    handshakeMs: 100,
  })
}

describe('the SSH server', () => {
  it('ends a connection that does not log in in time, whatever it sends', async () => {
    await using server = open()
    const port = await server.listen({ host: '127.0.0.1', port: 0 })
    for (const words of ['', 'SSH-2.0-slow\r\n', 'GET / HTTP/1.1\r\n\r\n', `${'x'.repeat(10_000)}\n`]) {
      const socket = connect(port, '127.0.0.1')
      socket.on('error', () => {})
      socket.resume()
      socket.write(words)
      await once(socket, 'close')
    }
  })

  it('ends every connection when it ends', async () => {
    const server = open()
    const port = await server.listen({ host: '127.0.0.1', port: 0 })
    const socket = connect(port, '127.0.0.1')
    await once(socket, 'data')
    const closed = once(socket.resume(), 'close')
    await server[Symbol.asyncDispose]()
    await closed
  })
})

describe('the host key', () => {
  it('is made once, for its owner only, and refused when others can read it or it is something else', () => {
    const path = join(dataDir, 'ssh-host-key')
    const made = openHostKey(dataDir)
    expect(made.publicKey).toMatch(/^ssh-ed25519 [A-Za-z0-9+/=]+$/)
    expect(statSync(path).mode & 0o777).toBe(0o600)
    expect(openHostKey(dataDir)).toEqual(made)
    chmodSync(path, 0o640)
    expect(() => openHostKey(dataDir)).toThrow(expect.objectContaining({ code: 'setup_failed' }))
    chmodSync(path, 0o600)
    writeFileSync(path, 'half')
    expect(() => openHostKey(dataDir)).toThrow(expect.objectContaining({ code: 'setup_failed' }))
  })
})
